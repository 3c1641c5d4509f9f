// The functions behind the rows of optimizers, loss scale and learning rate
// (ir/op_rows_optimizer.h).
#ifndef DUOTONE_IR_OPS_OPTIMIZER_H_
#define DUOTONE_IR_OPS_OPTIMIZER_H_

#include "ir/op_def.h"

namespace duotone::ir {

absl::StatusOr<Types> InferSgd(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferAdam(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferUpdateLossScale(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferLearningRate(llvm::ArrayRef<Type> operands, Attrs& attrs);

void EvalSgd(const EvalCall& call, int64_t begin, int64_t end);
void EvalAdam(const EvalCall& call, int64_t begin, int64_t end);
void EvalAdamW(const EvalCall& call, int64_t begin, int64_t end);
void EvalUpdateLossScale(const EvalCall& call, int64_t begin, int64_t end);
void EvalLearningRate(const EvalCall& call, int64_t begin, int64_t end);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_OPTIMIZER_H_
