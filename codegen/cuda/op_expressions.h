// What each elementwise op is in CUDA C++: the one table of this backend.
#ifndef DUOTONE_CODEGEN_CUDA_OP_EXPRESSIONS_H_
#define DUOTONE_CODEGEN_CUDA_OP_EXPRESSIONS_H_

#include <string>
#include <string_view>

#include "ir/graph.h"
#include "llvm/ADT/ArrayRef.h"

namespace duotone::codegen::cuda {

// "half", "bf16", "float", "double", "long long", "int", "unsigned char": how elements of a dtype
// are stored (prelude.cuh); bool is stored as unsigned char. The type in which they are computed:
// float for 16-bit types, int for u8, bool for bool.
std::string StorageType(DType dtype);
std::string ComputeType(DType dtype);

// `value` of `dtype`, rounded to it, as a literal of its compute type: "0.5f", "(-1.0)", "3LL".
std::string FloatLiteral(double value, DType dtype);
std::string IntLiteral(int64_t value, DType dtype);
std::string ZeroLiteral(DType dtype);

// Expressions with $0, $1, ... for the operands, each a name, a literal or a call; an empty one
// does not occur for that compute type.
struct OpExpression {
  ir::Op op;
  std::string_view real;     // float and double
  std::string_view integer;  // int and long long
  // A cheaper form for results that are rounded to 16 bits; empty where there is none.
  std::string_view fast = {};
  // Operands are read as they are stored: rounded even where they could stay wider.
  bool observes = false;
  // The result is an operand, its negative, or 0: rounding an operand once is enough.
  bool picks = false;
  // Special functions (exp, log, reciprocal) per element, for the cost model.
  double mufu = 0;
};
// The row of an op, or null for one that is no expression of its operands' elements.
const OpExpression* FindOpExpression(ir::Op op);

// The expression of an elementwise node with such operands, by its row and attributes, in the
// compute type of its result. Casts, clamp and gelu depend on attributes or dtypes and are added
// here. "" if the op has none.
std::string ExpressionOf(const ir::Node& node, llvm::ArrayRef<std::string> operands, bool fast);
// Special functions per element.
double MufuOf(const ir::Node& node);

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_CODEGEN_CUDA_OP_EXPRESSIONS_H_
