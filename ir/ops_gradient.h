// Differentiation as ops, and the test of gradients for finiteness; their rows are in
// ir/op_rows_gradient.h.
#ifndef DUOTONE_IR_OPS_GRADIENT_H_
#define DUOTONE_IR_OPS_GRADIENT_H_

#include <cstdint>

#include "ir/eval_blocks.h"
#include "ir/op_def.h"

namespace duotone::ir {

absl::StatusOr<Types> InferGradient(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferGradientSeed(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferAllFinite(llvm::ArrayRef<Type> operands, Attrs& attrs);

void RunGradientSeed(const EvalCall& call, int64_t begin, int64_t end);
void RunAllFinite(const EvalCall& call, int64_t begin, int64_t end);

Cost AllFiniteCost(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs& attrs);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_GRADIENT_H_
