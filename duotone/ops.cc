#include "duotone/ops.h"

#include <algorithm>

#include "base/hash.h"
#include "duotone/internal.h"

namespace duotone {

using internal::Call;

namespace {

Value Unary(ir::Op op, const Value& x, Loc loc) {
  Call call(ir::OpName(op), loc, {&x});
  return call.Result(call.Emit(op, {call.operand(0)}));
}

// The operands that are values; a number has no builder to check.
llvm::SmallVector<const Value*, 2> ValuesAmong(const Operand& a, const Operand& b) {
  llvm::SmallVector<const Value*, 2> values;
  for (const Operand* operand : {&a, &b}) {
    if (!operand->is_number()) values.push_back(&operand->value());
  }
  return values;
}

// Both operands as values of one type: numbers become constants, dtypes are promoted, shapes
// broadcast. With two numbers `like` gives the type.
std::pair<ir::Value, ir::Value> Meet(Call& call, ir::Value a_value, ir::Value b_value,
                                     const Operand& a, const Operand& b, const ir::Type& like) {
  ir::Value pair[2] = {a_value, b_value};
  const Operand* operands[2] = {&a, &b};
  for (int i = 0; i < 2 && call.ok(); ++i) {
    if (!operands[i]->is_number()) continue;
    const ir::Type& type = operands[1 - i]->is_number() ? like : pair[1 - i].type();
    pair[i] = call.Number(type, operands[i]->number(), operands[i]->is_integer());
  }
  call.Promote(pair);
  call.BroadcastTogether(pair);
  return {pair[0], pair[1]};
}

Value Binary(ir::Op op, const Operand& a, const Operand& b, Loc loc) {
  Call call(ir::OpName(op), loc, ValuesAmong(a, b));
  if (!call.ok()) return call.Failed();
  int next = 0;
  const ir::Value a_value = a.is_number() ? ir::Value{} : call.operand(next++);
  const ir::Value b_value = b.is_number() ? ir::Value{} : call.operand(next);
  auto [left, right] = Meet(call, a_value, b_value, a, b, {});
  return call.Result(call.Emit(op, {left, right}));
}

Value Reduce(ir::Op op, const Value& x, std::vector<int64_t> axes, bool keep_dims, Loc loc) {
  Call call(ir::OpName(op), loc, {&x});
  if (!call.ok()) return call.Failed();
  const int rank = call.operand(0).type().rank();
  ir::ReduceAttrs attrs{.keep_dims = keep_dims};
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) attrs.axes.push_back(i);
  }
  for (int64_t axis : axes) attrs.axes.push_back(call.Axis(axis, rank));
  std::sort(attrs.axes.begin(), attrs.axes.end());
  return call.Result(call.Emit(op, {call.operand(0)}, std::move(attrs)));
}

// The two operands of a loss: promoted, but of equal shapes.
Value PairLoss(ir::Op op, const Value& x, const Value& target, Loc loc) {
  Call call(ir::OpName(op), loc, {&x, &target});
  if (!call.ok()) return call.Failed();
  ir::Value pair[2] = {call.operand(0), call.operand(1)};
  call.Promote(pair);
  return call.Result(call.Emit(op, pair));
}

// Broadcasts the leading axes of a matmul's operands to each other; the op itself shares a matrix
// with every batch.
void BroadcastBatch(Call& call, llvm::MutableArrayRef<ir::Value> pair) {
  if (!call.ok()) return;
  llvm::ArrayRef<ir::Dim> a = pair[0].type().shape;
  llvm::ArrayRef<ir::Dim> b = pair[1].type().shape;
  if (a.size() <= 2 || b.size() <= 2) return;
  const ir::Shape batch = call.Get(internal::BroadcastShapes(a.drop_back(2), b.drop_back(2)));
  for (ir::Value& value : pair) {
    if (!call.ok()) return;
    ir::Shape shape = batch;
    llvm::ArrayRef<ir::Dim> own = value.type().shape;
    shape.append(own.end() - 2, own.end());
    value = call.BroadcastTo(value, shape);
  }
}

// x [.., in] times w [in, out], with the leading axes merged into one, so that the weight's
// gradient is one product.
ir::Value MultiplyRows(Call& call, ir::Value x, ir::Value w) {
  if (!call.ok()) return {};
  const ir::Shape shape = x.type().shape;
  if (shape.size() <= 2 || w.type().rank() != 2) return call.Emit(ir::Op::kMatMul, {x, w});
  const ir::Dim rows = call.Get(ir::ElementCount(llvm::ArrayRef<ir::Dim>(shape).drop_back()));
  ir::Value flat = call.ReshapeTo(x, {rows, shape.back()});
  if (!call.ok()) return {};
  ir::Value product = call.Emit(ir::Op::kMatMul, {flat, w});
  if (!call.ok()) return {};
  ir::Shape result = shape;
  result.back() = product.type().shape.back();
  return call.ReshapeTo(product, result);
}

}  // namespace

#define DUOTONE_DEFINE_UNARY_(name) \
  Value name(const Value& x, Loc loc) { return Unary(ir::Op::k##name, x, loc); }
DUOTONE_UNARY_FUNCTIONS(DUOTONE_DEFINE_UNARY_)
#undef DUOTONE_DEFINE_UNARY_

#define DUOTONE_DEFINE_BINARY_(name)                        \
  Value name(const Operand& a, const Operand& b, Loc loc) { \
    return Binary(ir::Op::k##name, a, b, loc);              \
  }
DUOTONE_BINARY_FUNCTIONS(DUOTONE_DEFINE_BINARY_)
#undef DUOTONE_DEFINE_BINARY_

Value Select(const Value& condition, const Operand& a, const Operand& b, Loc loc) {
  llvm::SmallVector<const Value*, 3> operands = {&condition};
  operands.append(ValuesAmong(a, b));
  Call call("select", loc, operands);
  if (!call.ok()) return call.Failed();
  int next = 1;
  const ir::Value a_value = a.is_number() ? ir::Value{} : call.operand(next++);
  const ir::Value b_value = b.is_number() ? ir::Value{} : call.operand(next);
  const ir::Type numbers{DType::kF32, call.operand(0).type().shape};
  auto [left, right] = Meet(call, a_value, b_value, a, b, numbers);
  ir::Value all[3] = {call.operand(0), left, right};
  call.BroadcastTogether(all);
  return call.Result(call.Emit(ir::Op::kSelect, all));
}

Value Clamp(const Value& x, double min, double max, Loc loc) {
  Call call("clamp", loc, {&x});
  return call.Result(
      call.Emit(ir::Op::kClamp, {call.operand(0)}, ir::ClampAttrs{.min = min, .max = max}));
}

Value Gelu(const Value& x, GeluKind kind, Loc loc) {
  Call call("gelu", loc, {&x});
  return call.Result(
      call.Emit(ir::Op::kGelu, {call.operand(0)}, ir::GeluAttrs{.tanh = kind == GeluKind::kTanh}));
}

Value Cast(const Value& x, DType dtype, Loc loc) {
  Call call("cast", loc, {&x});
  return call.Result(call.Emit(ir::Op::kCast, {call.operand(0)}, ir::CastAttrs{.to = dtype}));
}

Value Reshape(const Value& x, std::vector<Size> shape, Loc loc) {
  Call call("reshape", loc, {&x});
  if (!call.ok()) return call.Failed();
  ir::ReshapeAttrs attrs;
  attrs.result.shape = call.Get(internal::ToShape(shape));
  return call.Result(call.Emit(ir::Op::kReshape, {call.operand(0)}, std::move(attrs)));
}

Value Transpose(const Value& x, std::vector<int64_t> permutation, Loc loc) {
  Call call("transpose", loc, {&x});
  if (!call.ok()) return call.Failed();
  ir::TransposeAttrs attrs;
  for (int64_t axis : permutation) {
    attrs.perm.push_back(call.Axis(axis, call.operand(0).type().rank()));
  }
  return call.Result(call.Emit(ir::Op::kTranspose, {call.operand(0)}, std::move(attrs)));
}

Value Broadcast(const Value& x, std::vector<Size> shape, Loc loc) {
  Call call("broadcast", loc, {&x});
  if (!call.ok()) return call.Failed();
  const ir::Shape ir_shape = call.Get(internal::ToShape(shape));
  return call.Result(call.BroadcastTo(call.operand(0), ir_shape));
}

Value Slice(const Value& x, int axis, int64_t begin, Size end, Loc loc) {
  Call call("slice", loc, {&x});
  if (!call.ok()) return call.Failed();
  const ir::Type& type = call.operand(0).type();
  const int64_t position = call.Axis(axis, type.rank());
  if (begin < 0) call.Fail("begin %d is negative", begin);
  const ir::Dim limit = call.Get(internal::ToDim(end));
  if (!call.ok()) return call.Failed();
  ir::SliceAttrs attrs;
  attrs.starts.assign(type.rank(), 0);
  attrs.limits = type.shape;
  attrs.starts[position] = begin;
  attrs.limits[position] = limit;
  return call.Result(call.Emit(ir::Op::kSlice, {call.operand(0)}, std::move(attrs)));
}

Value Pad(const Value& x, std::vector<int64_t> low, std::vector<int64_t> high, double value,
          Loc loc) {
  Call call("pad", loc, {&x});
  ir::PadAttrs attrs{.value = value};
  attrs.low.assign(low.begin(), low.end());
  attrs.high.assign(high.begin(), high.end());
  return call.Result(call.Emit(ir::Op::kPad, {call.operand(0)}, std::move(attrs)));
}

Value Concat(const std::vector<Value>& parts, int axis, Loc loc) {
  llvm::SmallVector<const Value*, 4> operands;
  for (const Value& part : parts) operands.push_back(&part);
  Call call("concat", loc, operands);
  if (!call.ok()) return call.Failed();
  llvm::SmallVector<ir::Value, 4> values(call.operands().begin(), call.operands().end());
  call.Promote(values);
  if (!call.ok()) return call.Failed();
  const int64_t position = call.Axis(axis, values[0].type().rank());
  return call.Result(call.Emit(ir::Op::kConcat, values, ir::AxisAttrs{.axis = position}));
}

Value ReduceSum(const Value& x, std::vector<int64_t> axes, bool keep_dims, Loc loc) {
  return Reduce(ir::Op::kReduceSum, x, std::move(axes), keep_dims, loc);
}
Value ReduceMean(const Value& x, std::vector<int64_t> axes, bool keep_dims, Loc loc) {
  return Reduce(ir::Op::kReduceMean, x, std::move(axes), keep_dims, loc);
}
Value ReduceMax(const Value& x, std::vector<int64_t> axes, bool keep_dims, Loc loc) {
  return Reduce(ir::Op::kReduceMax, x, std::move(axes), keep_dims, loc);
}
Value ReduceMin(const Value& x, std::vector<int64_t> axes, bool keep_dims, Loc loc) {
  return Reduce(ir::Op::kReduceMin, x, std::move(axes), keep_dims, loc);
}
Value LogSumExp(const Value& x, std::vector<int64_t> axes, bool keep_dims, Loc loc) {
  return Reduce(ir::Op::kLogSumExp, x, std::move(axes), keep_dims, loc);
}

Value ArgMax(const Value& x, int axis, Loc loc) {
  Call call("argmax", loc, {&x});
  if (!call.ok()) return call.Failed();
  const int64_t position = call.Axis(axis, call.operand(0).type().rank());
  return call.Result(
      call.Emit(ir::Op::kArgMax, {call.operand(0)}, ir::AxisAttrs{.axis = position}));
}

Value MatMul(const Value& a, const Value& b, MatMulOptions options, Loc loc) {
  Call call("matmul", loc, {&a, &b});
  if (!call.ok()) return call.Failed();
  ir::Value pair[2] = {call.operand(0), call.operand(1)};
  call.Promote(pair);
  BroadcastBatch(call, pair);
  return call.Result(call.Emit(ir::Op::kMatMul, pair,
                               ir::MatMulAttrs{.transpose_a = options.transpose_a,
                                               .transpose_b = options.transpose_b,
                                               .out = options.out}));
}

Value Linear(const Value& x, const Value& w, const Value& bias, Loc loc) {
  Call call("linear", loc, {&x, &w, &bias});
  if (!call.ok()) return call.Failed();
  ir::Value operands[3] = {call.operand(0), call.operand(1), call.operand(2)};
  call.Promote(operands);
  ir::Value sum[2] = {MultiplyRows(call, operands[0], operands[1]), operands[2]};
  if (!call.ok()) return call.Failed();
  sum[1] = call.BroadcastTo(sum[1], sum[0].type().shape);
  return call.Result(call.Emit(ir::Op::kAdd, sum));
}

Value Linear(const Value& x, const Value& w, Loc loc) {
  Call call("linear", loc, {&x, &w});
  if (!call.ok()) return call.Failed();
  ir::Value pair[2] = {call.operand(0), call.operand(1)};
  call.Promote(pair);
  return call.Result(MultiplyRows(call, pair[0], pair[1]));
}

Value Softmax(const Value& x, int axis, Loc loc) {
  Call call("softmax", loc, {&x});
  return call.Result(
      call.Emit(ir::Op::kSoftmax, {call.operand(0)}, ir::SoftmaxAttrs{.axis = axis}));
}

Value LogSoftmax(const Value& x, int axis, Loc loc) {
  Call call("log_softmax", loc, {&x});
  return call.Result(
      call.Emit(ir::Op::kLogSoftmax, {call.operand(0)}, ir::SoftmaxAttrs{.axis = axis}));
}

Value LayerNorm(const Value& x, const Value& gain, const Value& bias, double eps, Loc loc) {
  Call call("layer_norm", loc, {&x, &gain, &bias});
  return call.Result(
      call.Emit(ir::Op::kLayerNorm, call.operands(), ir::LayerNormAttrs{.eps = eps}));
}

Value CrossEntropy(const Value& logits, const Value& labels, CrossEntropyOptions options, Loc loc) {
  Call call("cross_entropy", loc, {&logits, &labels});
  return call.Result(call.Emit(ir::Op::kCrossEntropy, call.operands(),
                               ir::CrossEntropyAttrs{.label_smoothing = options.label_smoothing,
                                                     .ignore_index = options.ignore_index}));
}

Value MseLoss(const Value& x, const Value& target, Loc loc) {
  return PairLoss(ir::Op::kMseLoss, x, target, loc);
}

Value BceWithLogits(const Value& logits, const Value& target, Loc loc) {
  return PairLoss(ir::Op::kBceWithLogits, logits, target, loc);
}

Value Embedding(const Value& table, const Value& indices, Loc loc) {
  Call call("gather", loc, {&table, &indices});
  return call.Result(call.Emit(ir::Op::kGather, call.operands()));
}

Value Dropout(const Value& x, double rate, Loc loc) {
  Call call("dropout", loc, {&x});
  return call.Result(
      call.Emit(ir::Op::kDropout, {call.operand(0)}, ir::DropoutAttrs{.rate = rate}));
}

std::vector<Value> Gradient(const Value& y, const std::vector<Value>& xs, Loc loc) {
  llvm::SmallVector<const Value*, 4> operands = {&y};
  for (const Value& x : xs) operands.push_back(&x);
  Call call("gradient", loc, operands);
  std::vector<Value> results;
  if (call.ok()) {
    llvm::SmallVector<ir::Value, 4> values(call.operands().begin(), call.operands().end());
    if (const int rank = values[0].type().rank(); rank > 0) {
      ir::ReduceAttrs attrs;
      for (int i = 0; i < rank; ++i) attrs.axes.push_back(i);
      values[0] = call.Emit(ir::Op::kReduceSum, {values[0]}, std::move(attrs));
    }
    if (ir::Node* node = call.EmitNode(ir::Op::kGradient, values)) {
      for (int i = 0; i < node->result_count(); ++i)
        results.push_back(call.Result(node->result(i)));
    }
  }
  results.resize(xs.size(), call.Failed());
  return results;
}

Value Named(const Value& value, std::string_view name, Loc loc) {
  Call call("named", loc, {&value});
  if (!call.ok()) return call.Failed();
  ir::Value named = call.operand(0);
  if (named.node->op() == ir::Op::kInput || named.node->op() == ir::Op::kState) {
    call.Fail("%%%s is an input or a state entry and keeps its name", named.name());
  } else if (!internal::IsName(name)) {
    call.Fail("'%s' is no name: letters, digits, '_' and '.', beginning with a letter or '_'",
              name);
  } else if (absl::Status status = call.state().graph->Rename(named, name); !status.ok()) {
    call.Fail(status);
  } else if (named.index == 0) {
    named.node->set_id(Fnv1a(name));  // as if it had been made with this name
  }
  return call.ok() ? value : call.Failed();
}

}  // namespace duotone
