// The composites of simplify: softmax, log_softmax, logsumexp and bce_with_logits, recognised in
// what people write by hand. Only in f32 and f64: where the user typed the parts 16-bit, each of
// them rounds, and a composite would not.
#include <optional>

#include "ir/emitter.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/rewrite.h"
#include "passes/simplify_rules.h"

namespace duotone::passes {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Value;

bool IsOp(Value value, Op op) { return value.node->op() == op; }

// The shift of a softmax has no gradient, so people stop it.
Value StripStopGradient(Value value) {
  while (IsOp(value, Op::kStopGradient)) value = value.node->operand(0);
  return value;
}

// If `value` is `x` reduced by `op` and broadcast back over the same axes, those axes.
std::optional<ir::Ints> ReducedAndBroadcast(Value value, Op op, Value x) {
  value = StripStopGradient(value);
  if (!IsOp(value, Op::kBroadcast) || value.type() != x.type()) return std::nullopt;
  const Value reduced = StripStopGradient(value.node->operand(0));
  if (!IsOp(reduced, op) || reduced.node->operand(0) != x ||
      reduced.type().dtype != x.type().dtype) {
    return std::nullopt;
  }
  const auto& reduce = reduced.node->attrs_as<ir::ReduceAttrs>();
  ir::Ints kept;  // where the axes that are left come from
  for (int axis = 0; axis < x.type().rank(); ++axis) {
    if (reduce.keep_dims || !llvm::is_contained(reduce.axes, axis)) kept.push_back(axis);
  }
  if (value.node->attrs_as<ir::BroadcastAttrs>().dims != kept) return std::nullopt;
  return reduce.axes;
}

// x where `value` is x - max(x) over `axes`, else `value`.
Value StripShift(Value value, const ir::Ints& axes) {
  if (!IsOp(value, Op::kSub)) return value;
  const Value x = value.node->operand(0);
  const auto shift_axes = ReducedAndBroadcast(value.node->operand(1), Op::kReduceMax, x);
  return shift_axes && *shift_axes == axes ? x : value;
}

Replacement EmitSoftmax(Graph& graph, Node* node, Op op, Value x, int64_t axis) {
  ir::Emitter emit(graph, node, node->info());
  return Replacement::New(emit.Emit(op, {x}, ir::SoftmaxAttrs{.axis = axis}));
}

// exp(x) / sum(exp(x)), also with x - max(x)
Replacement SoftmaxFromExp(Graph& graph, Node* node) {
  const Value exp = node->operand(0);
  if (IsLow(node->type().dtype) || !IsOp(exp, Op::kExp)) return Replacement::None();
  const auto axes = ReducedAndBroadcast(node->operand(1), Op::kReduceSum, exp);
  if (!axes || axes->size() != 1) return Replacement::None();
  const Value x = StripShift(exp.node->operand(0), *axes);
  return EmitSoftmax(graph, node, Op::kSoftmax, x, (*axes)[0]);
}

// log(softmax(x))
Replacement LogOfSoftmax(Graph& graph, Node* node) {
  const Value softmax = node->operand(0);
  if (IsLow(node->type().dtype) || !IsOp(softmax, Op::kSoftmax)) return Replacement::None();
  const Value x = softmax.node->operand(0);
  if (x.type() != node->type()) return Replacement::None();
  return EmitSoftmax(graph, node, Op::kLogSoftmax, x,
                     softmax.node->attrs_as<ir::SoftmaxAttrs>().axis);
}

// x - logsumexp(x)
Replacement LogSoftmaxFromLogSumExp(Graph& graph, Node* node) {
  if (IsLow(node->type().dtype)) return Replacement::None();
  const auto axes = ReducedAndBroadcast(node->operand(1), Op::kLogSumExp, node->operand(0));
  if (!axes || axes->size() != 1) return Replacement::None();
  return EmitSoftmax(graph, node, Op::kLogSoftmax, node->operand(0), (*axes)[0]);
}

// log(sum(exp(x)))
Replacement LogSumExpFromExp(Graph& graph, Node* node) {
  const Value sum = node->operand(0);
  if (IsLow(node->type().dtype) || !IsOp(sum, Op::kReduceSum)) return Replacement::None();
  const Value exp = sum.node->operand(0);
  if (!IsOp(exp, Op::kExp) || exp.type().dtype != node->type().dtype) return Replacement::None();
  ir::ReduceAttrs attrs = sum.node->attrs_as<ir::ReduceAttrs>();
  attrs.out.reset();
  ir::Emitter emit(graph, node, node->info());
  return Replacement::New(emit.Emit(Op::kLogSumExp, {exp.node->operand(0)}, attrs));
}

bool IsOneMinus(Value value, Value x) {
  return IsOp(value, Op::kSub) && value.node->operand(1) == x &&
         SplatOf(value.node->operand(0)) == 1.0;
}

// A term of a sum with its sign.
struct Term {
  Value value;
  bool negative;
};

// The terms of `value` under neg, add and sub; at most three are collected, which is one too many.
void CollectTerms(Value value, bool negative, llvm::SmallVectorImpl<Term>& terms, int depth = 0) {
  constexpr int kMaxDepth = 8;
  const bool sum = IsOp(value, Op::kAdd) || IsOp(value, Op::kSub);
  if (terms.size() > 2 || depth > kMaxDepth || (!sum && !IsOp(value, Op::kNeg))) {
    terms.push_back({value, negative});
    return;
  }
  const Node* node = value.node;
  if (IsOp(value, Op::kNeg)) return CollectTerms(node->operand(0), !negative, terms, depth + 1);
  CollectTerms(node->operand(0), negative, terms, depth + 1);
  CollectTerms(node->operand(1), negative != IsOp(value, Op::kSub), terms, depth + 1);
}

// A product of a weight and a logarithm, in either order: weight * log(probability).
struct WeightedLog {
  Value weight;
  Value probability;
};

std::optional<WeightedLog> MatchWeightedLog(Value value) {
  if (!IsOp(value, Op::kMul)) return std::nullopt;
  const Value a = value.node->operand(0);
  const Value b = value.node->operand(1);
  if (IsOp(b, Op::kLog)) return WeightedLog{a, b.node->operand(0)};
  if (IsOp(a, Op::kLog)) return WeightedLog{b, a.node->operand(0)};
  return std::nullopt;
}

// A weight can be a factor of the other term's negated sign: -t*log(p) is (neg t) * log(p).
std::optional<WeightedLog> MatchTerm(Term term) {
  std::optional<WeightedLog> match = MatchWeightedLog(term.value);
  if (match && IsOp(match->weight, Op::kNeg)) {
    match->weight = match->weight.node->operand(0);
    term.negative = !term.negative;
  }
  return term.negative ? match : std::nullopt;
}

// bce_with_logits(x, t) where `sum` is t*log(p) + (1-t)*log(1-p) with p = sigmoid(x), and
// `negative` says whether its sign is turned outside.
Replacement MatchBce(Graph& graph, Node* node, Value sum, bool negative) {
  llvm::SmallVector<Term, 3> terms;
  CollectTerms(sum, negative, terms);
  if (terms.size() != 2) return Replacement::None();
  for (int first = 0; first < 2; ++first) {
    const auto hit = MatchTerm(terms[first]);
    const auto miss = MatchTerm(terms[1 - first]);
    if (!hit || !miss || !IsOp(hit->probability, Op::kSigmoid)) continue;
    if (!IsOneMinus(miss->probability, hit->probability)) continue;
    if (!IsOneMinus(miss->weight, hit->weight)) continue;
    const Value x = hit->probability.node->operand(0);
    ir::Attrs attrs;
    const auto types = ir::InferTypes(Op::kBceWithLogits, {x.type(), hit->weight.type()}, attrs);
    if (!types.ok() || (*types)[0] != node->type()) continue;
    ir::Emitter emit(graph, node, node->info());
    return Replacement::New(emit.Emit(Op::kBceWithLogits, {x, hit->weight}));
  }
  return Replacement::None();
}

// The operand of a mean over all axes.
std::optional<Value> MatchMeanOfAll(Value value) {
  if (!IsOp(value, Op::kReduceMean) || !value.type().is_scalar()) return std::nullopt;
  const Value operand = value.node->operand(0);
  if (operand.type().dtype != value.type().dtype) return std::nullopt;
  return operand;
}

// mean(-(t*log(p) + (1-t)*log(1-p)))
Replacement BceFromMean(Graph& graph, Node* node) {
  const auto sum = MatchMeanOfAll(node->result());
  if (!sum || IsLow(node->type().dtype)) return Replacement::None();
  return MatchBce(graph, node, *sum, /*negative=*/false);
}

// -mean(t*log(p) + (1-t)*log(1-p))
Replacement BceFromNegatedMean(Graph& graph, Node* node) {
  const auto sum = MatchMeanOfAll(node->operand(0));
  if (!sum || IsLow(node->type().dtype)) return Replacement::None();
  return MatchBce(graph, node, *sum, /*negative=*/true);
}

constexpr SimplifyRule kRules[] = {
    {"bce_with_logits from mean", Op::kReduceMean, BceFromMean},
    {"bce_with_logits from negated mean", Op::kNeg, BceFromNegatedMean},
    {"log_softmax from logsumexp", Op::kSub, LogSoftmaxFromLogSumExp},
    {"log_softmax from softmax", Op::kLog, LogOfSoftmax},
    {"logsumexp from exp", Op::kLog, LogSumExpFromExp},
    {"softmax from exp", Op::kDiv, SoftmaxFromExp},
};

}  // namespace

llvm::ArrayRef<SimplifyRule> CompositeRules() { return kRules; }

}  // namespace duotone::passes
