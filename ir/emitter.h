// Inserts nodes at one place of a graph, for passes and gradient functions: operand types are right
// by construction there, so a failed inference is a bug of ours (CHECK), not a Status.
#ifndef DUOTONE_IR_EMITTER_H_
#define DUOTONE_IR_EMITTER_H_

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace duotone::ir {

class Emitter {
 public:
  // New nodes go before `before` (null: at the end) and carry `info`.
  explicit Emitter(Graph& graph, Node* before = nullptr, NodeInfo info = {})
      : graph_(graph), before_(before), info_(std::move(info)) {}

  Graph& graph() const { return graph_; }
  NodeInfo& info() { return info_; }
  void set_before(Node* before) { before_ = before; }
  // Names of new nodes: "<prefix>.<op>" made unique, or the name passed to Emit. Empty: the op's
  // name.
  void set_name_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  Node* EmitNode(Op op, llvm::ArrayRef<Value> operands, Attrs attrs, std::string_view name = "");
  Value Emit(Op op, llvm::ArrayRef<Value> operands, Attrs attrs, std::string_view name = "") {
    return EmitNode(op, operands, std::move(attrs), name)->result();
  }
  // With the op's default attributes.
  Value Emit(Op op, llvm::ArrayRef<Value> operands, std::string_view name = "");

  Value Neg(Value a) { return Emit(Op::kNeg, {a}); }
  Value Add(Value a, Value b) { return Emit(Op::kAdd, {a, b}); }
  Value Sub(Value a, Value b) { return Emit(Op::kSub, {a, b}); }
  Value Mul(Value a, Value b) { return Emit(Op::kMul, {a, b}); }
  Value Div(Value a, Value b) { return Emit(Op::kDiv, {a, b}); }
  Value Select(Value condition, Value a, Value b) { return Emit(Op::kSelect, {condition, a, b}); }

  // `value` itself if it has that dtype already.
  Value Cast(Value value, DType dtype, std::string_view name = "");
  // `number` in every element of `type`.
  Value Constant(const Type& type, double number, std::string_view name = "");
  Value ConstantLike(Value like, double number) { return Constant(like.type(), number); }
  // A scalar (or a tensor whose axes map to `dims`) repeated to `shape`; itself if nothing changes.
  Value Broadcast(Value value, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<Dim> shape);
  Value BroadcastScalar(Value value, llvm::ArrayRef<Dim> shape) {
    return Broadcast(value, {}, shape);
  }
  Value Reshape(Value value, llvm::ArrayRef<Dim> shape);
  Value Transpose(Value value, llvm::ArrayRef<int64_t> perm);
  // Sums over `axes`; f32 (or f64) inside, result in `out` (default: the operand's dtype).
  Value ReduceSum(Value value, llvm::ArrayRef<int64_t> axes, bool keep_dims = false,
                  std::optional<DType> out = std::nullopt);

 private:
  Graph& graph_;
  Node* before_;
  NodeInfo info_;
  std::string prefix_;
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_EMITTER_H_
