// Ops without operands: constants, counters and random numbers; their rows are in
// ir/op_rows_source.h.
#ifndef DUOTONE_IR_OPS_SOURCE_H_
#define DUOTONE_IR_OPS_SOURCE_H_

#include <cstdint>

#include "ir/eval_blocks.h"
#include "ir/op_def.h"

namespace duotone::ir {

// Inputs and state reads get their types from their declarations; a node of that kind cannot be
// inferred.
absl::StatusOr<Types> InferDeclared(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferConstant(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferIota(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferSizeOf(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferRandomUniform(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferRandomNormal(llvm::ArrayRef<Type> operands, Attrs& attrs);

void RunConstant(const EvalCall& call, int64_t begin, int64_t end);
void RunIota(const EvalCall& call, int64_t begin, int64_t end);
void RunSizeOf(const EvalCall& call, int64_t begin, int64_t end);
void RunRandomUniform(const EvalCall& call, int64_t begin, int64_t end);
void RunRandomNormal(const EvalCall& call, int64_t begin, int64_t end);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_SOURCE_H_
