#include "codegen/expand.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ir/emitter.h"
#include "ir/ops_reduce.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::codegen {
namespace {

using ir::Op;
using ir::Value;
using Values = llvm::SmallVector<Value, 3>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

DType WideType(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

// `number` as constants of the composites are computed: in f32 unless the operands are f64.
double InType(DType wide, double number) {
  return wide == DType::kF64 ? number : static_cast<double>(static_cast<float>(number));
}

int64_t Product(llvm::ArrayRef<ir::Dim> shape) {
  int64_t product = 1;
  for (const ir::Dim& dim : shape) product *= dim.size();
  return product;
}

llvm::SmallVector<int64_t, 4> Range(int64_t begin, int64_t end) {
  llvm::SmallVector<int64_t, 4> range;
  for (int64_t i = begin; i < end; ++i) range.push_back(i);
  return range;
}

// Emits the primitive nodes of one composite. Equal nodes of one body are made once.
class Expander {
 public:
  // `sources` holds the constants and iotas made so far.
  Expander(const ir::Node& node, llvm::ArrayRef<Value> operands, ExpandedBody& body,
           std::vector<ir::Node*>& sources)
      : node_(node),
        operands_(operands),
        body_(body),
        sources_(sources),
        emit_(*body.graph, nullptr, node.info()) {
    emit_.set_name_prefix(node.name());
  }

  const ir::Node& node() const { return node_; }
  template <typename T>
  const T& attrs() const {
    return node_.attrs_as<T>();
  }
  Value operand(int i) const { return operands_[i]; }
  // The dtype in which the composite computes, and operand i in it.
  DType wide() const { return WideType(node_.operand(0).type().dtype); }
  Value Wide(int i) { return Cast(operands_[i], wide()); }

  Value Emit(Op op, llvm::ArrayRef<Value> operands, ir::Attrs attrs) {
    const llvm::ArrayRef<ir::Node*> made =
        operands.empty() ? llvm::ArrayRef<ir::Node*>(sources_) : operands[0].node->users();
    for (ir::Node* node : made) {
      if (node->op() == op && node->operands() == operands && SameAttrs(node->attrs(), attrs)) {
        return node->result();
      }
    }
    Value value = emit_.Emit(op, operands, std::move(attrs));
    if (operands.empty()) sources_.push_back(value.node);
    return value;
  }
  Value Emit(Op op, llvm::ArrayRef<Value> operands) {
    return Emit(op, operands, ir::DefaultAttrs(ir::DefOf(op).attrs));
  }
  Value Cast(Value value, DType dtype) {
    return value.type().dtype == dtype ? value
                                       : Emit(Op::kCast, {value}, ir::CastAttrs{.to = dtype});
  }
  Value Constant(Value like, double number) {
    ir::ConstantAttrs attrs;
    attrs.value = like.type().is_float() ? ir::Literal::Float(number)
                                         : ir::Literal::Int(static_cast<int64_t>(number));
    attrs.result.type = like.type();
    return Emit(Op::kConstant, {}, std::move(attrs));
  }
  Value Broadcast(Value value, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<ir::Dim> shape) {
    if (llvm::ArrayRef<ir::Dim>(value.type().shape) == shape) return value;
    ir::BroadcastAttrs attrs;
    attrs.dims.assign(dims.begin(), dims.end());
    attrs.result.shape.assign(shape.begin(), shape.end());
    return Emit(Op::kBroadcast, {value}, std::move(attrs));
  }

  Value Add(Value a, Value b) { return Emit(Op::kAdd, {a, b}); }
  Value Sub(Value a, Value b) { return Emit(Op::kSub, {a, b}); }
  Value Mul(Value a, Value b) { return Emit(Op::kMul, {a, b}); }
  Value Div(Value a, Value b) { return Emit(Op::kDiv, {a, b}); }
  Value Exp(Value a) { return Emit(Op::kExp, {a}); }
  Value And(Value a, Value b) { return Emit(Op::kAnd, {a, b}); }
  Value Select(Value condition, Value a, Value b) { return Emit(Op::kSelect, {condition, a, b}); }
  Value Select(Value condition, double a, Value b) { return Select(condition, Constant(b, a), b); }
  Value Select(Value condition, Value a, double b) { return Select(condition, a, Constant(a, b)); }
  Value IsEqual(Value a, double number) { return Emit(Op::kEqual, {a, Constant(a, number)}); }

  // A reduction over `axes`, which are removed; the value itself where there are none.
  Value Reduce(Op op, Value value, llvm::ArrayRef<int64_t> axes) {
    if (axes.empty()) return value;
    ir::ReduceAttrs attrs;
    attrs.axes.assign(axes.begin(), axes.end());
    return Emit(op, {value}, std::move(attrs));
  }
  Value Sum(Value value, llvm::ArrayRef<int64_t> axes) {
    return Reduce(Op::kReduceSum, value, axes);
  }
  // A result of Reduce, repeated along the axes to `shape`.
  Value Along(Value reduced, llvm::ArrayRef<int64_t> axes, llvm::ArrayRef<ir::Dim> shape) {
    llvm::SmallVector<int64_t, 4> dims;
    for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) {
      if (std::find(axes.begin(), axes.end(), i) == axes.end()) dims.push_back(i);
    }
    return Broadcast(reduced, dims, shape);
  }
  Value Scalar(Value scalar, llvm::ArrayRef<ir::Dim> shape) { return Broadcast(scalar, {}, shape); }

  void Check(Value indices, int64_t limit, std::optional<int64_t> ignored) {
    body_.checks.push_back({indices, limit, ignored, std::string(node_.def().name), node_.Place()});
  }

 private:
  static bool SameAttrs(const ir::Attrs& a, const ir::Attrs& b) {
    return a.index() == b.index() && ir::AttrsEqual(a, b);
  }

  const ir::Node& node_;
  llvm::ArrayRef<Value> operands_;
  ExpandedBody& body_;
  std::vector<ir::Node*>& sources_;
  ir::Emitter emit_;
};

// ---- Softmax and its kin ----

// The sum of e^(x - max) over `axes` and what it is made of. Where the maximum is `masked` (the
// reference's special case), 0 is subtracted instead, so that no infinities meet.
struct ExpSum {
  Value maximum;
  Value masked;
  Value shifted;  // x - max
  Value exps;     // e^shifted
  Value sum;
};

ExpSum SumOfExps(Expander& e, Value x, llvm::ArrayRef<int64_t> axes, bool mask_positive) {
  ExpSum result;
  result.maximum = e.Reduce(Op::kReduceMax, x, axes);
  Value tested = mask_positive ? e.Emit(Op::kAbs, {result.maximum}) : result.maximum;
  result.masked = e.IsEqual(tested, mask_positive ? kInfinity : -kInfinity);
  Value shift = e.Select(result.masked, 0.0, result.maximum);
  result.shifted = e.Sub(x, e.Along(shift, axes, x.type().shape));
  result.exps = e.Exp(result.shifted);
  result.sum = e.Sum(result.exps, axes);
  return result;
}

// A line of -inf only gives 0 everywhere: 0 * 1. The sum is between 1 and the length of the line,
// so that its inverse, of which there is one per line, is as good as a division per element.
Values ExpandSoftmax(Expander& e) {
  const int64_t axis = e.attrs<ir::SoftmaxAttrs>().axis;
  Value x = e.Wide(0);
  const ExpSum exps = SumOfExps(e, x, {axis}, /*mask_positive=*/false);
  Value sum = e.Select(exps.masked, 1.0, exps.sum);
  Value inverse = e.Div(e.Constant(sum, 1.0), sum);
  return {e.Mul(exps.exps, e.Along(inverse, {axis}, x.type().shape))};
}

// A line of -inf only stays -inf: (-inf - 0) - 0.
Values ExpandLogSoftmax(Expander& e) {
  const int64_t axis = e.attrs<ir::SoftmaxAttrs>().axis;
  Value x = e.Wide(0);
  const ExpSum exps = SumOfExps(e, x, {axis}, /*mask_positive=*/false);
  Value log_sum = e.Select(exps.masked, 0.0, e.Emit(Op::kLog, {exps.sum}));
  return {e.Sub(exps.shifted, e.Along(log_sum, {axis}, x.type().shape))};
}

// Where the maximum is infinite it is the result: no elements or -inf only give -inf, a +inf gives
// +inf.
Value LogSumExp(Expander& e, Value x, llvm::ArrayRef<int64_t> axes) {
  const ExpSum exps = SumOfExps(e, x, axes, /*mask_positive=*/true);
  Value log = e.Add(exps.maximum, e.Emit(Op::kLog, {exps.sum}));
  return e.Select(exps.masked, exps.maximum, log);
}

Values ExpandLogSumExp(Expander& e) {
  return {LogSumExp(e, e.Wide(0), e.attrs<ir::ReduceAttrs>().axes)};
}

Values ExpandSoftmaxGrad(Expander& e) {
  const int64_t axis = e.attrs<ir::SoftmaxAttrs>().axis;
  Value y = e.Wide(0);
  Value g = e.Wide(1);
  Value sum = e.Sum(e.Mul(g, y), {axis});
  return {e.Mul(y, e.Sub(g, e.Along(sum, {axis}, y.type().shape)))};
}

Values ExpandLogSoftmaxGrad(Expander& e) {
  const int64_t axis = e.attrs<ir::SoftmaxAttrs>().axis;
  Value y = e.Wide(0);
  Value g = e.Wide(1);
  Value sum = e.Along(e.Sum(g, {axis}), {axis}, y.type().shape);
  return {e.Sub(g, e.Mul(e.Exp(y), sum))};
}

// ---- Means and layer norm ----

// The sum over `axes` of their `count` elements, divided by it.
Value MeanOfRow(Expander& e, Value value, llvm::ArrayRef<int64_t> axes, int64_t count) {
  Value sum = e.Sum(value, axes);
  return e.Div(sum, e.Constant(sum, static_cast<double>(count)));
}

// A mean over rows is a sum of quotients, so that partial sums of blocks can simply be added; one
// within rows divides the sum. NaN over no elements.
Value Mean(Expander& e, Value value, llvm::ArrayRef<int64_t> axes) {
  int64_t count = 1;
  bool over_rows = false;
  for (int64_t axis : axes) {
    llvm::ArrayRef<ir::Dim> shape = value.type().shape;
    count *= shape[axis].size();
    // Axes of size 1 make no rows.
    over_rows |= Product(shape.take_front(axis)) == 1;
  }
  if (count == 0) {
    return e.Constant(e.Sum(value, axes), std::numeric_limits<double>::quiet_NaN());
  }
  if (count == 1) return e.Sum(value, axes);
  if (!over_rows) return MeanOfRow(e, value, axes, count);
  return e.Sum(e.Div(value, e.Constant(value, static_cast<double>(count))), axes);
}

Values ExpandReduceMean(Expander& e) {
  return {Mean(e, e.Wide(0), e.attrs<ir::ReduceAttrs>().axes)};
}

Values ExpandLayerNorm(Expander& e) {
  Value x = e.Wide(0);
  Value gamma = e.Wide(1);
  Value beta = e.Wide(2);
  llvm::ArrayRef<ir::Dim> shape = x.type().shape;
  const int64_t rank = x.type().rank();
  const auto axes = Range(rank - gamma.type().rank(), rank);
  const int64_t count = Product(gamma.type().shape);
  Value mean = MeanOfRow(e, x, axes, count);
  Value centred = e.Sub(x, e.Along(mean, axes, shape));
  Value variance = MeanOfRow(e, e.Mul(centred, centred), axes, count);
  const double eps = InType(e.wide(), e.attrs<ir::LayerNormAttrs>().eps);
  Value rstd = e.Emit(Op::kRsqrt, {e.Add(variance, e.Constant(variance, eps))});
  Value normal = e.Mul(centred, e.Along(rstd, axes, shape));
  Value scaled = e.Mul(normal, e.Broadcast(gamma, axes, shape));
  return {e.Add(scaled, e.Broadcast(beta, axes, shape)), mean, rstd};
}

Values ExpandLayerNormGrad(Expander& e) {
  Value x = e.Wide(0);
  Value gamma = e.Wide(1);
  Value dy = e.Wide(4);
  llvm::ArrayRef<ir::Dim> shape = x.type().shape;
  const int64_t rank = x.type().rank();
  const auto axes = Range(rank - gamma.type().rank(), rank);
  const auto rows = Range(0, rank - gamma.type().rank());
  const int64_t count = Product(gamma.type().shape);
  Value rstd = e.Along(e.operand(3), axes, shape);
  Value normal = e.Mul(e.Sub(x, e.Along(e.operand(2), axes, shape)), rstd);
  Value g = e.Mul(dy, e.Broadcast(gamma, axes, shape));
  Value mean_g = e.Along(MeanOfRow(e, g, axes, count), axes, shape);
  Value mean_gx = e.Along(MeanOfRow(e, e.Mul(g, normal), axes, count), axes, shape);
  Value dx = e.Mul(rstd, e.Sub(e.Sub(g, mean_g), e.Mul(normal, mean_gx)));
  return {dx, e.Sum(e.Mul(dy, normal), rows), e.Sum(dy, rows)};
}

// ---- Losses ----

// The rows of cross_entropy: which of them count, and where their label is.
struct LabelledRows {
  Value valid;  // bool[rows]
  Value count;  // of valid rows, wide[]
  Value hit;    // bool[rows, classes]: the class is the row's label
};

LabelledRows RowsOf(Expander& e) {
  Value labels = e.operand(1);
  const ir::Type& logits = e.operand(0).type();
  const int64_t rank = logits.rank();
  const int64_t classes = logits.shape.back().size();
  const int64_t ignored = e.attrs<ir::CrossEntropyAttrs>().ignore_index;
  const auto compare = [&](Op op, int64_t number) {
    return e.Emit(op, {labels, e.Constant(labels, static_cast<double>(number))});
  };
  LabelledRows rows;
  rows.valid = e.And(compare(Op::kGreaterEqual, 0), compare(Op::kLess, classes));
  // An ignored number outside the classes is out of range anyway.
  if (ignored >= 0 && ignored < classes) {
    rows.valid = e.And(rows.valid, compare(Op::kNotEqual, ignored));
  }
  rows.count = e.Sum(e.Cast(rows.valid, e.wide()), Range(0, rank - 1));
  Value label = e.Cast(e.Select(rows.valid, labels, -1.0), DType::kI32);
  ir::IotaAttrs iota{.axis = rank - 1};
  iota.result.type = logits.WithDType(DType::kI32);
  Value index = e.Emit(Op::kIota, {}, iota);
  rows.hit = e.Emit(Op::kEqual, {index, e.Broadcast(label, Range(0, rank - 1), logits.shape)});
  return rows;
}

Values ExpandCrossEntropy(Expander& e) {
  Value x = e.Wide(0);
  const int64_t rank = x.type().rank();
  const int64_t classes = x.type().shape.back().size();
  const auto& attrs = e.attrs<ir::CrossEntropyAttrs>();
  const LabelledRows rows = RowsOf(e);
  e.Check(e.operand(1), classes, attrs.ignore_index);
  Value lse = LogSumExp(e, x, {rank - 1});
  Value picked = e.Sub(lse, e.Sum(e.Select(rows.hit, x, 0.0), {rank - 1}));
  Value loss = picked;
  if (attrs.label_smoothing != 0) {
    const double smoothing = InType(e.wide(), attrs.label_smoothing);
    Value mean = MeanOfRow(e, x, {rank - 1}, classes);
    Value uniform = e.Mul(e.Constant(lse, smoothing), e.Sub(lse, mean));
    const double rest = InType(e.wide(), 1.0 - smoothing);
    loss = e.Add(e.Mul(e.Constant(picked, rest), picked), uniform);
  }
  // 0 / 1 where no row counts.
  Value count = e.Emit(Op::kMax, {rows.count, e.Constant(rows.count, 1.0)});
  loss = e.Div(e.Select(rows.valid, loss, 0.0), e.Scalar(count, loss.type().shape));
  return {e.Sum(loss, Range(0, rank - 1)), lse};
}

// dloss / count * (softmax - target), 0 in rows that do not count (where the factor may be
// infinite).
Values ExpandCrossEntropyGrad(Expander& e) {
  Value x = e.Wide(0);
  llvm::ArrayRef<ir::Dim> shape = x.type().shape;
  const int64_t rank = x.type().rank();
  const double smoothing = InType(e.wide(), e.attrs<ir::CrossEntropyAttrs>().label_smoothing);
  const LabelledRows rows = RowsOf(e);
  const auto leading = Range(0, rank - 1);
  Value scale = e.Div(e.operand(3), rows.count);
  Value g = e.Exp(e.Sub(x, e.Broadcast(e.operand(2), leading, shape)));
  if (smoothing != 0) {
    const double uniform = InType(e.wide(), smoothing / static_cast<double>(shape.back().size()));
    g = e.Sub(g, e.Constant(g, uniform));
  }
  Value target = e.Constant(g, InType(e.wide(), 1.0 - smoothing));
  g = e.Sub(g, e.Select(rows.hit, target, 0.0));
  g = e.Mul(g, e.Scalar(scale, shape));
  return {e.Select(e.Broadcast(rows.valid, leading, shape), g, 0.0)};
}

// The mean over all elements.
Value MeanOfAll(Expander& e, Value loss) {
  if (loss.type().rank() == 0) return loss;
  return Mean(e, loss, Range(0, loss.type().rank()));
}

Values ExpandMseLoss(Expander& e) {
  Value difference = e.Sub(e.Wide(0), e.Wide(1));
  return {MeanOfAll(e, e.Mul(difference, difference))};
}

// max(x, 0) - x*target + log(1 + e^-|x|); the last term is softplus of a number that is not
// positive.
Values ExpandBceWithLogits(Expander& e) {
  Value x = e.Wide(0);
  Value positive = e.Select(e.Emit(Op::kLess, {x, e.Constant(x, 0.0)}), 0.0, x);
  Value linear = e.Sub(positive, e.Mul(x, e.Wide(1)));
  Value log = e.Emit(Op::kSoftplus, {e.Emit(Op::kNeg, {e.Emit(Op::kAbs, {x})})});
  return {MeanOfAll(e, e.Add(linear, log))};
}

// ---- The table, and the walk ----

// The results of a composite, in its own results' shapes or without the axes of size 1 that
// keep_dims asks for, in any float dtype.
struct Expansion {
  Op op;
  Values (*expand)(Expander& e);
};

constexpr Expansion kExpansions[] = {
    {Op::kReduceMean, ExpandReduceMean},         {Op::kSoftmax, ExpandSoftmax},
    {Op::kLogSoftmax, ExpandLogSoftmax},         {Op::kLogSumExp, ExpandLogSumExp},
    {Op::kLayerNorm, ExpandLayerNorm},           {Op::kSoftmaxGrad, ExpandSoftmaxGrad},
    {Op::kLogSoftmaxGrad, ExpandLogSoftmaxGrad}, {Op::kLayerNormGrad, ExpandLayerNormGrad},
    {Op::kCrossEntropy, ExpandCrossEntropy},     {Op::kMseLoss, ExpandMseLoss},
    {Op::kBceWithLogits, ExpandBceWithLogits},   {Op::kCrossEntropyGrad, ExpandCrossEntropyGrad},
};

const Expansion* ExpansionOf(Op op) {
  const auto* found = std::find_if(std::begin(kExpansions), std::end(kExpansions),
                                   [&](const Expansion& row) { return row.op == op; });
  return found == std::end(kExpansions) ? nullptr : found;
}

// True for a reduction of a scalar, which has no axes: a cast.
bool ReducesNothing(const ir::Node& node) {
  const auto* attrs = std::get_if<ir::ReduceAttrs>(&node.attrs());
  return attrs != nullptr && attrs->axes.empty();
}

class BodyExpansion {
 public:
  explicit BodyExpansion(const ir::Graph& body) : body_(body) {
    result_.graph = std::make_unique<ir::Graph>(nullptr, body.name());
  }

  absl::StatusOr<ExpandedBody> Run() {
    for (const ir::Node* input : body_.inputs()) {
      DUOTONE_ASSIGN_OR_RETURN(const Value copy,
                               result_.graph->AddInput(input->name(), input->type()));
      copy.node->info() = input->info();
      copy.node->set_id(input->id());
      copies_[input] = {copy};
    }
    for (const auto& node : body_.nodes()) {
      const Values operands = CopiesOf(node->operands());
      const Expansion* expansion = ExpansionOf(node->op());
      if (expansion != nullptr || ReducesNothing(*node)) {
        Expander expander(*node, operands, result_, sources_);
        copies_[node.get()] =
            Finished(*node, expander,
                     expansion != nullptr ? expansion->expand(expander) : Values{operands[0]});
      } else {
        DUOTONE_RETURN_IF_ERROR(Copy(*node, operands));
      }
    }
    for (const ir::Output& output : body_.outputs()) {
      result_.graph->outputs().push_back({output.name, CopiesOf({output.value})[0]});
    }
    RemoveUnused();
    return std::move(result_);
  }

 private:
  Values CopiesOf(llvm::ArrayRef<Value> values) const {
    Values copies;
    for (Value value : values) copies.push_back(copies_.find(value.node)->second[value.index]);
    return copies;
  }

  absl::Status Copy(const ir::Node& node, const Values& operands) {
    ir::Graph::Spec spec{.op = node.op(),
                         .operands = operands,
                         .attrs = node.attrs(),
                         .info = node.info(),
                         .id = node.id(),
                         .body = node.shared_body()};
    for (int i = 0; i < node.result_count(); ++i) {
      spec.names.push_back(result_.graph->UniqueName(node.name(i)));
    }
    DUOTONE_ASSIGN_OR_RETURN(ir::Node * copy, result_.graph->Add(std::move(spec)));
    Values& results = copies_[&node];
    for (int i = 0; i < copy->result_count(); ++i) results.push_back(copy->result(i));
    if (node.op() == Op::kGather || node.op() == Op::kScatterAdd) {
      result_.checks.push_back({operands[1], operands[0].type().shape[0].size(), std::nullopt,
                                std::string(node.def().name), node.Place()});
    }
    return absl::OkStatus();
  }

  // The results in the dtypes and shapes of the composite.
  Values Finished(const ir::Node& node, Expander& expander, Values results) {
    for (int i = 0; i < node.result_count(); ++i) {
      results[i] = expander.Cast(results[i], node.type(i).dtype);
      if (results[i].type().shape == node.type(i).shape) continue;
      ir::ReshapeAttrs reshape;
      reshape.result.shape = node.type(i).shape;
      results[i] = expander.Emit(Op::kReshape, {results[i]}, std::move(reshape));
    }
    return results;
  }

  // Results of composites that nothing asks for, and what only they need.
  void RemoveUnused() {
    std::vector<ir::Node*> nodes = result_.graph->NodePointers();
    for (size_t i = nodes.size(); i-- > 0;) {
      if (!nodes[i]->users().empty() || result_.graph->IsRoot(nodes[i])) continue;
      const bool checked =
          std::any_of(result_.checks.begin(), result_.checks.end(),
                      [&](const IndexCheck& check) { return check.indices.node == nodes[i]; });
      if (!checked) result_.graph->Erase(nodes[i]);
    }
  }

  const ir::Graph& body_;
  ExpandedBody result_;
  std::vector<ir::Node*> sources_;
  llvm::DenseMap<const ir::Node*, Values> copies_;
};

}  // namespace

absl::StatusOr<ExpandedBody> ExpandBody(const ir::Graph& body) { return BodyExpansion(body).Run(); }

}  // namespace duotone::codegen
