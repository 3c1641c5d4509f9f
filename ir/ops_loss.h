// The functions behind the losses' rows (ir/op_rows_loss.h).
#ifndef DUOTONE_IR_OPS_LOSS_H_
#define DUOTONE_IR_OPS_LOSS_H_

#include "ir/op_def.h"

namespace duotone::ir {

absl::StatusOr<Types> InferCrossEntropy(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferCrossEntropyGrad(llvm::ArrayRef<Type> operands, Attrs& attrs);
// mse_loss, bce_with_logits: the mean over pairs of elements.
absl::StatusOr<Types> InferPairLoss(llvm::ArrayRef<Type> operands, Attrs& attrs);

absl::Status GradCrossEntropy(GradContext& ctx);
absl::Status GradMseLoss(GradContext& ctx);
absl::Status GradBceWithLogits(GradContext& ctx);

int64_t ItemsCrossEntropyGrad(const EvalCall& call);
void EvalCrossEntropy(const EvalCall& call, int64_t begin, int64_t end);
void EvalCrossEntropyGrad(const EvalCall& call, int64_t begin, int64_t end);
void EvalMseLoss(const EvalCall& call, int64_t begin, int64_t end);
void EvalBceWithLogits(const EvalCall& call, int64_t begin, int64_t end);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_LOSS_H_
