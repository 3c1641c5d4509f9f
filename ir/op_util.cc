#include "ir/op_util.h"

#include "base/status.h"

namespace duotone::ir {

absl::Status CheckSameTypes(llvm::ArrayRef<Type> operands) {
  for (size_t i = 1; i < operands.size(); ++i) {
    if (operands[i] != operands[0]) {
      return InvalidArgument("operands 0 and %d have different types, %s and %s", i,
                             operands[0].ToString(), operands[i].ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFloat(llvm::ArrayRef<Type> operands, int i) {
  if (operands[i].is_float()) return absl::OkStatus();
  return InvalidArgument("operand %d is %s, not of a floating-point type", i,
                         operands[i].ToString());
}

absl::Status CheckNumber(llvm::ArrayRef<Type> operands, int i) {
  if (operands[i].dtype != DType::kBool) return absl::OkStatus();
  return InvalidArgument("operand %d is %s, not of a number type", i, operands[i].ToString());
}

absl::Status CheckBool(llvm::ArrayRef<Type> operands, int i) {
  if (operands[i].dtype == DType::kBool) return absl::OkStatus();
  return InvalidArgument("operand %d is %s, not of type bool", i, operands[i].ToString());
}

absl::Status NormalizeAxis(int64_t& axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return InvalidArgument("axis %d is outside [%d, %d)", axis, -rank, rank);
  }
  if (axis < 0) axis += rank;
  return absl::OkStatus();
}

absl::StatusOr<Types> InferSameAny(llvm::ArrayRef<Type> operands, Attrs&) {
  DUOTONE_RETURN_IF_ERROR(CheckSameTypes(operands));
  return Types{operands[0]};
}

absl::StatusOr<Types> InferSameNumber(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  DUOTONE_RETURN_IF_ERROR(CheckNumber(operands, 0));
  return InferSameAny(operands, attrs);
}

absl::StatusOr<Types> InferSameFloat(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  return InferSameAny(operands, attrs);
}

absl::StatusOr<Types> InferSameBool(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  DUOTONE_RETURN_IF_ERROR(CheckBool(operands, 0));
  return InferSameAny(operands, attrs);
}

double BytesMoved(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results) {
  double bytes = 0;
  for (const Type& type : operands) bytes += static_cast<double>(type.bytes());
  for (const Type& type : results) bytes += static_cast<double>(type.bytes());
  return bytes;
}

}  // namespace duotone::ir
