// The identities of simplify: each holds bit for bit for all values, the bits of a NaN apart.
#include <cmath>

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

bool IsSplat(Value value, double number) {
  const std::optional<double> splat = SplatOf(value);
  return splat && *splat == number && std::signbit(*splat) == std::signbit(number);
}

// x op neutral is x.
template <int kConstantOperand>
bool HasNeutral(const Node& node, double number) {
  return IsSplat(node.operand(kConstantOperand), number);
}

// mul(x, 1), mul(1, x)
Replacement MulOne(Graph&, Node* node) {
  if (HasNeutral<1>(*node, 1)) return Replacement::Existing(node->operand(0));
  if (HasNeutral<0>(*node, 1)) return Replacement::Existing(node->operand(1));
  return Replacement::None();
}

// div(x, 1), pow(x, 1)
Replacement SecondIsOne(Graph&, Node* node) {
  return HasNeutral<1>(*node, 1) ? Replacement::Existing(node->operand(0)) : Replacement::None();
}

// sub(x, 0): x - 0 keeps -0, while x - (-0) turns it into 0.
Replacement SubZero(Graph&, Node* node) {
  return HasNeutral<1>(*node, 0.0) ? Replacement::Existing(node->operand(0)) : Replacement::None();
}

// add(x, -0), add(-0, x); for integers the neutral element is 0.
Replacement AddNegativeZero(Graph&, Node* node) {
  const double neutral = node->type().is_float() ? -0.0 : 0.0;
  if (HasNeutral<1>(*node, neutral)) return Replacement::Existing(node->operand(0));
  if (HasNeutral<0>(*node, neutral)) return Replacement::Existing(node->operand(1));
  return Replacement::None();
}

// add(x, neg(y)) is sub(x, y), and sub(x, neg(y)) is add(x, y).
template <Op kResult>
Replacement AbsorbNeg(Graph& graph, Node* node) {
  const Value negated = node->operand(1);
  if (negated.node->op() != Op::kNeg) return Replacement::None();
  ir::Emitter emit(graph, node, node->info());
  return Replacement::New(emit.Emit(kResult, {node->operand(0), negated.node->operand(0)}));
}

// f(f(x)) is x: neg, not.
Replacement Involution(Graph&, Node* node) {
  const Value operand = node->operand(0);
  if (operand.node->op() != node->op()) return Replacement::None();
  return Replacement::Existing(operand.node->operand(0));
}

// f(f(x)) is f(x), with equal attributes: abs, relu, clamp, stop_gradient.
Replacement Idempotent(Graph&, Node* node) {
  const Value operand = node->operand(0);
  if (operand.node->op() != node->op() || !ir::AttrsEqual(operand.node->attrs(), node->attrs())) {
    return Replacement::None();
  }
  return Replacement::Existing(operand);
}

// abs(neg(x)) is abs(x).
Replacement AbsNeg(Graph& graph, Node* node) {
  const Value operand = node->operand(0);
  if (operand.node->op() != Op::kNeg) return Replacement::None();
  ir::Emitter emit(graph, node, node->info());
  return Replacement::New(emit.Emit(Op::kAbs, {operand.node->operand(0)}));
}

// max(x, x), min(x, x), and(x, x), or(x, x)
Replacement EqualOperands(Graph&, Node* node) {
  return node->operand(0) == node->operand(1) ? Replacement::Existing(node->operand(0))
                                              : Replacement::None();
}

// select(c, x, x), select(true, x, y), select(false, x, y)
Replacement SelectKnown(Graph&, Node* node) {
  if (node->operand(1) == node->operand(2)) return Replacement::Existing(node->operand(1));
  const std::optional<double> condition = SplatOf(node->operand(0));
  if (!condition) return Replacement::None();
  return Replacement::Existing(node->operand(*condition != 0 ? 1 : 2));
}

// Data movement that moves nothing: the result's type is the operand's, and the order of elements
// is kept.
Replacement SameType(Graph&, Node* node) {
  return node->type() == node->operand(0).type() ? Replacement::Existing(node->operand(0))
                                                 : Replacement::None();
}

Replacement ReshapeReshape(Graph& graph, Node* node) {
  const Value operand = node->operand(0);
  if (operand.node->op() != Op::kReshape) return Replacement::None();
  ir::Emitter emit(graph, node, node->info());
  return Replacement::New(
      emit.Emit(Op::kReshape, {operand.node->operand(0)}, ir::Attrs(node->attrs())));
}

Replacement TransposeIdentity(Graph&, Node* node) {
  const ir::Ints& perm = node->attrs_as<ir::TransposeAttrs>().perm;
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return Replacement::None();
  }
  return Replacement::Existing(node->operand(0));
}

Replacement TransposeTranspose(Graph& graph, Node* node) {
  const Value operand = node->operand(0);
  if (operand.node->op() != Op::kTranspose) return Replacement::None();
  const ir::Ints& outer = node->attrs_as<ir::TransposeAttrs>().perm;
  const ir::Ints& inner = operand.node->attrs_as<ir::TransposeAttrs>().perm;
  ir::Ints perm;
  for (int64_t axis : outer) perm.push_back(inner[axis]);
  ir::Emitter emit(graph, node, node->info());
  return Replacement::New(emit.Transpose(operand.node->operand(0), perm));
}

Replacement BroadcastBroadcast(Graph& graph, Node* node) {
  const Value operand = node->operand(0);
  if (operand.node->op() != Op::kBroadcast) return Replacement::None();
  const auto& outer = node->attrs_as<ir::BroadcastAttrs>();
  ir::BroadcastAttrs attrs = operand.node->attrs_as<ir::BroadcastAttrs>();
  for (int64_t& axis : attrs.dims) axis = outer.dims[axis];
  attrs.result = outer.result;
  ir::Emitter emit(graph, node, node->info());
  return Replacement::New(emit.Emit(Op::kBroadcast, {operand.node->operand(0)}, attrs));
}

Replacement ConcatOne(Graph&, Node* node) {
  return node->operand_count() == 1 ? Replacement::Existing(node->operand(0)) : Replacement::None();
}

// A pad without padding.
Replacement PadNothing(Graph&, Node* node) {
  const auto& attrs = node->attrs_as<ir::PadAttrs>();
  auto zero = [](int64_t count) { return count == 0; };
  if (!llvm::all_of(attrs.low, zero) || !llvm::all_of(attrs.high, zero) ||
      !llvm::all_of(attrs.interior, zero)) {
    return Replacement::None();
  }
  return Replacement::Existing(node->operand(0));
}

// Alphabetical by op. Each row has its test and a neighbour that must not change in
// tests/passes/simplify.duo.
constexpr SimplifyRule kRules[] = {
    {"abs of abs", Op::kAbs, Idempotent},
    {"abs of neg", Op::kAbs, AbsNeg},
    {"add of -0", Op::kAdd, AddNegativeZero},
    {"add of neg", Op::kAdd, AbsorbNeg<Op::kSub>},
    {"and of equals", Op::kAnd, EqualOperands},
    {"broadcast of broadcast", Op::kBroadcast, BroadcastBroadcast},
    {"broadcast to its shape", Op::kBroadcast, SameType},
    {"clamp of clamp", Op::kClamp, Idempotent},
    {"concat of one", Op::kConcat, ConcatOne},
    {"div by 1", Op::kDiv, SecondIsOne},
    {"max of equals", Op::kMax, EqualOperands},
    {"min of equals", Op::kMin, EqualOperands},
    {"mul by 1", Op::kMul, MulOne},
    {"neg of neg", Op::kNeg, Involution},
    {"not of not", Op::kNot, Involution},
    {"or of equals", Op::kOr, EqualOperands},
    {"pad of nothing", Op::kPad, PadNothing},
    {"pow to 1", Op::kPow, SecondIsOne},
    {"relu of relu", Op::kRelu, Idempotent},
    {"reshape of reshape", Op::kReshape, ReshapeReshape},
    {"reshape to its shape", Op::kReshape, SameType},
    {"select of known", Op::kSelect, SelectKnown},
    {"slice of all", Op::kSlice, SameType},
    {"stop_gradient twice", Op::kStopGradient, Idempotent},
    {"sub of 0", Op::kSub, SubZero},
    {"sub of neg", Op::kSub, AbsorbNeg<Op::kAdd>},
    {"transpose of transpose", Op::kTranspose, TransposeTranspose},
    {"transpose to itself", Op::kTranspose, TransposeIdentity},
};

}  // namespace

llvm::ArrayRef<SimplifyRule> IdentityRules() { return kRules; }

}  // namespace duotone::passes
