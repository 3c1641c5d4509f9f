// The functions behind matmul's row (ir/op_rows_matmul.h).
#ifndef DUOTONE_IR_OPS_MATMUL_H_
#define DUOTONE_IR_OPS_MATMUL_H_

#include "ir/op_def.h"

namespace duotone::ir {

absl::StatusOr<Types> InferMatMul(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::Status GradMatMul(GradContext& ctx);
Cost CostMatMul(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs& attrs);
int64_t ItemsMatMul(const EvalCall& call);
void EvalMatMul(const EvalCall& call, int64_t begin, int64_t end);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_MATMUL_H_
