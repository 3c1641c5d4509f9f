// The functions behind the reductions' rows (ir/op_rows_reduce.h).
#ifndef DUOTONE_IR_OPS_REDUCE_H_
#define DUOTONE_IR_OPS_REDUCE_H_

#include "ir/grad.h"
#include "ir/op_def.h"

namespace duotone::ir {

absl::StatusOr<Types> InferReduceSum(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferReduceMean(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferReduceMaxMin(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferArgMax(llvm::ArrayRef<Type> operands, Attrs& attrs);
// Sorts and checks `attrs.axes`; the shape without them, or with 1 in their places.
absl::StatusOr<Shape> ReducedShape(const Type& operand, ReduceAttrs& attrs);

absl::Status GradReduceSum(GradContext& ctx);
absl::Status GradReduceMean(GradContext& ctx);
absl::Status GradReduceMaxMin(GradContext& ctx);
// A value of a reduction's result shape, repeated to the shape of the reduction's operand.
Value ExpandReduced(Emitter& emit, Value value, const ReduceAttrs& attrs,
                    llvm::ArrayRef<Dim> shape);

Cost CostReduce(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs& attrs);

int64_t ItemsReduce(const EvalCall& call);
int64_t ItemsArgMax(const EvalCall& call);
void EvalReduceSum(const EvalCall& call, int64_t begin, int64_t end);
void EvalReduceMean(const EvalCall& call, int64_t begin, int64_t end);
void EvalReduceMax(const EvalCall& call, int64_t begin, int64_t end);
void EvalReduceMin(const EvalCall& call, int64_t begin, int64_t end);
void EvalArgMax(const EvalCall& call, int64_t begin, int64_t end);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_REDUCE_H_
