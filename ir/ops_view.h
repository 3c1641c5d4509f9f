// Data movement: type inference, evaluation by element size (no case per dtype) and gradients; the
// rows are in ir/op_rows_view.h.
#ifndef DUOTONE_IR_OPS_VIEW_H_
#define DUOTONE_IR_OPS_VIEW_H_

#include <cstdint>

#include "ir/eval_blocks.h"
#include "ir/op_def.h"

namespace duotone::ir {

absl::StatusOr<Types> InferReshape(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferTranspose(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferBroadcast(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferSlice(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferPad(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferConcat(llvm::ArrayRef<Type> operands, Attrs& attrs);

// Padding with anything but 0 is not linear.
bool PadsWithZero(const Attrs& attrs);

// The operand's elements in the same order: reshape, stop_gradient.
void RunCopy(const EvalCall& call, int64_t begin, int64_t end);
void RunTranspose(const EvalCall& call, int64_t begin, int64_t end);
void RunBroadcast(const EvalCall& call, int64_t begin, int64_t end);
void RunSlice(const EvalCall& call, int64_t begin, int64_t end);
void RunPad(const EvalCall& call, int64_t begin, int64_t end);
void RunConcat(const EvalCall& call, int64_t begin, int64_t end);

absl::Status GradReshape(GradContext& ctx);
absl::Status GradTranspose(GradContext& ctx);
absl::Status GradBroadcast(GradContext& ctx);
absl::Status GradSlice(GradContext& ctx);
absl::Status GradPad(GradContext& ctx);
absl::Status GradConcat(GradContext& ctx);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_VIEW_H_
