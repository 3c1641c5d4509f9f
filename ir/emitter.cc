#include "ir/emitter.h"

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace duotone::ir {

Node* Emitter::EmitNode(Op op, llvm::ArrayRef<Value> operands, Attrs attrs, std::string_view name) {
  const std::string hint = !name.empty()     ? std::string(name)
                           : prefix_.empty() ? std::string(OpName(op))
                                             : absl::StrFormat("%s.%s", prefix_, OpName(op));
  Graph::Spec spec{.op = op, .attrs = std::move(attrs), .info = info_};
  spec.operands.assign(operands.begin(), operands.end());
  spec.names.push_back(graph_.UniqueName(hint));
  absl::StatusOr<Node*> node = graph_.Add(std::move(spec), before_);
  DUOTONE_CHECK(node.ok()) << node.status().ToString();
  return *node;
}

Value Emitter::Emit(Op op, llvm::ArrayRef<Value> operands, std::string_view name) {
  return Emit(op, operands, DefaultAttrs(DefOf(op).attrs), name);
}

Value Emitter::Cast(Value value, DType dtype, std::string_view name) {
  if (value.type().dtype == dtype) return value;
  return Emit(Op::kCast, {value}, CastAttrs{.to = dtype}, name);
}

Value Emitter::Constant(const Type& type, double number, std::string_view name) {
  ConstantAttrs attrs;
  attrs.value =
      IsFloat(type.dtype) ? Literal::Float(number) : Literal::Int(static_cast<int64_t>(number));
  attrs.result.type = type;
  return Emit(Op::kConstant, {}, std::move(attrs), name);
}

Value Emitter::Broadcast(Value value, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<Dim> shape) {
  if (llvm::ArrayRef<Dim>(value.type().shape) == shape) return value;
  BroadcastAttrs attrs;
  attrs.dims.assign(dims.begin(), dims.end());
  attrs.result.shape.assign(shape.begin(), shape.end());
  return Emit(Op::kBroadcast, {value}, std::move(attrs));
}

Value Emitter::Reshape(Value value, llvm::ArrayRef<Dim> shape) {
  if (llvm::ArrayRef<Dim>(value.type().shape) == shape) return value;
  ReshapeAttrs attrs;
  attrs.result.shape.assign(shape.begin(), shape.end());
  return Emit(Op::kReshape, {value}, std::move(attrs));
}

Value Emitter::Transpose(Value value, llvm::ArrayRef<int64_t> perm) {
  TransposeAttrs attrs;
  attrs.perm.assign(perm.begin(), perm.end());
  return Emit(Op::kTranspose, {value}, std::move(attrs));
}

Value Emitter::ReduceSum(Value value, llvm::ArrayRef<int64_t> axes, bool keep_dims,
                         std::optional<DType> out) {
  if (axes.empty()) return Cast(value, out.value_or(value.type().dtype));
  ReduceAttrs attrs;
  attrs.axes.assign(axes.begin(), axes.end());
  attrs.keep_dims = keep_dims;
  attrs.out = out;
  return Emit(Op::kReduceSum, {value}, std::move(attrs));
}

}  // namespace duotone::ir
