// The functions behind the rows of the composites over rows (ir/op_rows_row.h): softmax and its
// kin, layer norm.
#ifndef DUOTONE_IR_OPS_ROW_H_
#define DUOTONE_IR_OPS_ROW_H_

#include "ir/op_def.h"

namespace duotone::ir {

absl::StatusOr<Types> InferSoftmax(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferSoftmaxGrad(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferLogSumExp(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferLayerNorm(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferLayerNormGrad(llvm::ArrayRef<Type> operands, Attrs& attrs);

absl::Status GradSoftmax(GradContext& ctx);
absl::Status GradLogSoftmax(GradContext& ctx);
absl::Status GradLogSumExp(GradContext& ctx);
absl::Status GradLayerNorm(GradContext& ctx);
absl::Status GradSoftmaxGrad(GradContext& ctx);
absl::Status GradLogSoftmaxGrad(GradContext& ctx);

int64_t ItemsSoftmax(const EvalCall& call);
int64_t ItemsLogSumExp(const EvalCall& call);
int64_t ItemsLayerNorm(const EvalCall& call);
int64_t ItemsLayerNormGrad(const EvalCall& call);
void EvalSoftmax(const EvalCall& call, int64_t begin, int64_t end);
void EvalLogSoftmax(const EvalCall& call, int64_t begin, int64_t end);
void EvalLogSumExp(const EvalCall& call, int64_t begin, int64_t end);
void EvalLayerNorm(const EvalCall& call, int64_t begin, int64_t end);
void EvalSoftmaxGrad(const EvalCall& call, int64_t begin, int64_t end);
void EvalLogSoftmaxGrad(const EvalCall& call, int64_t begin, int64_t end);
void EvalLayerNormGrad(const EvalCall& call, int64_t begin, int64_t end);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_ROW_H_
