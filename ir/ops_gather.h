// The functions behind the rows of gather, scatter_add and dropout (ir/op_rows_gather.h).
#ifndef DUOTONE_IR_OPS_GATHER_H_
#define DUOTONE_IR_OPS_GATHER_H_

#include "ir/op_def.h"

namespace duotone::ir {

absl::StatusOr<Types> InferGather(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferScatterAdd(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferDropout(llvm::ArrayRef<Type> operands, Attrs& attrs);

absl::Status GradGather(GradContext& ctx);
absl::Status GradScatterAdd(GradContext& ctx);
absl::Status GradDropout(GradContext& ctx);

Cost CostGather(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs& attrs);
Cost CostScatterAdd(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results,
                    const Attrs& attrs);

int64_t ItemsGather(const EvalCall& call);
int64_t ItemsScatterAdd(const EvalCall& call);
int64_t ScratchScatterAdd(const EvalCall& call);
void EvalGather(const EvalCall& call, int64_t begin, int64_t end);
void EvalScatterAdd(const EvalCall& call, int64_t begin, int64_t end);
void EvalDropout(const EvalCall& call, int64_t begin, int64_t end);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_GATHER_H_
