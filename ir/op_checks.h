// Checks and small helpers that type inference, cost and gradient functions of several op families
// share.
#ifndef DUOTONE_IR_OP_CHECKS_H_
#define DUOTONE_IR_OP_CHECKS_H_

#include <algorithm>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/status.h"
#include "ir/grad.h"
#include "ir/op_def.h"
#include "ir/op_util.h"

namespace duotone::ir {

// f32, or f64 for f64: the type in which an op on `dtype` computes, and of results that keep it.
inline DType WideType(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

inline absl::Status CheckFloat(DType dtype, std::string_view what) {
  if (IsFloat(dtype)) return absl::OkStatus();
  return InvalidArgument("%s must be a floating-point dtype, not %s", what, DTypeName(dtype));
}
// A scalar of the given dtype.
inline absl::Status CheckScalar(const Type& type, DType dtype, std::string_view what) {
  if (type == Type{dtype, {}}) return absl::OkStatus();
  return InvalidArgument("%s must be %s[], not %s", what, DTypeName(dtype), type.ToString());
}
inline absl::Status CheckIndices(const Type& type, std::string_view what) {
  if (type.dtype == DType::kI32 || type.dtype == DType::kI64) return absl::OkStatus();
  return InvalidArgument("%s must be i32 or i64, not %s", what, type.ToString());
}
inline absl::Status CheckSameShape(const Type& a, std::string_view a_name, const Type& b,
                                   std::string_view b_name) {
  if (a.shape == b.shape) return absl::OkStatus();
  return InvalidArgument("%s %s and %s %s differ in shape", a_name, a.ToString(), b_name,
                         b.ToString());
}

// kFlops per element of operand 0.
template <int kFlops>
Cost OperandCost(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs&) {
  return {.flops = static_cast<double>(kFlops) * static_cast<double>(operands[0].elements()),
          .bytes = BytesMoved(operands, results)};
}

// Axes 0 .. rank-1.
inline Ints AllAxes(int rank) {
  Ints axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  return axes;
}
// The axes of a rank that are not in the sorted list `axes`.
inline Ints OtherAxes(int rank, llvm::ArrayRef<int64_t> axes) {
  Ints others;
  for (int i = 0; i < rank; ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) others.push_back(i);
  }
  return others;
}

// The number of elements of `shape` in a scalar of floating-point `dtype`; works with named sizes.
inline Value EmitSize(Emitter& emit, llvm::ArrayRef<Dim> shape, DType dtype) {
  absl::StatusOr<Dim> size = ElementCount(shape);
  DUOTONE_CHECK(size.ok()) << size.status().ToString();
  return emit.Cast(emit.Emit(Op::kSizeOf, {}, SizeOfAttrs{.size = *size}), dtype);
}

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_CHECKS_H_
