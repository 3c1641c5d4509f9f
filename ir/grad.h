// What an op's gradient function sees: the node, the gradients of its results, and an emitter for
// the backward nodes.
//
// A gradient has the shape of its value. Its dtype is the value's storage dtype, except where
// passes/autodiff asks for a wider one through grad_dtype(i): where the gradient goes into an fp32
// master or is summed over several uses, an op whose product can be written in f32 at no cost
// (matmul, reduce_sum) does so. Functions that cannot simply give the storage dtype; autodiff
// inserts the cast.
#ifndef DUOTONE_IR_GRAD_H_
#define DUOTONE_IR_GRAD_H_

#include <optional>

#include "ir/emitter.h"
#include "ir/graph.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::ir {

class GradContext {
 public:
  GradContext(Node* node, Emitter emitter, llvm::ArrayRef<Value> result_grads,
              llvm::ArrayRef<bool> wanted, llvm::ArrayRef<DType> grad_dtypes);

  Node* node() const { return node_; }
  Value operand(int i) const { return node_->operand(i); }
  Value result(int i = 0) const { return node_->result(i); }
  template <typename T>
  const T& attrs() const {
    return node_->attrs_as<T>();
  }
  // The gradient of result i in the result's dtype; empty if the loss does not depend on it.
  Value grad(int i = 0) const { return result_grads_[i]; }
  // True if the gradient of operand i is asked for.
  bool wanted(int i) const { return wanted_[i]; }
  // The dtype in which the gradient of operand i will be stored.
  DType grad_dtype(int i) const { return grad_dtypes_[i]; }
  Emitter& emit() { return emitter_; }

  // Sets the gradient of operand i; unset means zero.
  void Set(int i, Value gradient) { operand_grads_[i] = gradient; }
  llvm::ArrayRef<Value> operand_grads() const { return operand_grads_; }

 private:
  Node* node_;
  Emitter emitter_;
  llvm::SmallVector<Value, 2> result_grads_;
  llvm::SmallVector<bool, 4> wanted_;
  llvm::SmallVector<DType, 4> grad_dtypes_;
  llvm::SmallVector<Value, 4> operand_grads_;
};

// An error that names the op, node and source line: the op has no derivative and lies on the path.
absl::Status NotDifferentiable(GradContext& ctx);
// Leaves every operand's gradient unset: the derivative is zero almost everywhere (comparisons,
// argmax's callers excepted).
absl::Status StopsGradient(GradContext& ctx);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_GRAD_H_
