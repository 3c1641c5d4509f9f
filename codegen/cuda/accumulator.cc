#include "codegen/cuda/accumulator.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "codegen/cuda/op_expressions.h"

namespace duotone::codegen::cuda {
namespace {

constexpr CombineWay kWays[] = {
    {Combine::kSum, "Sum", "$0 + $1", Finish::Kind::kSum},
    {Combine::kMax, "Greatest", "Max($0, $1)", Finish::Kind::kMax},
    {Combine::kMin, "Least", "Min($0, $1)", Finish::Kind::kMin},
    {Combine::kArgMax, "First", "First::Of($0, $1)", Finish::Kind::kMax},
};
}  // namespace

DType AccumulatorOf(DType dtype) {
  if (dtype == DType::kF64) return DType::kF64;
  return IsFloat(dtype) ? DType::kF32 : DType::kI64;
}

const CombineWay& WayOf(Combine combine) {
  return *std::find_if(std::begin(kWays), std::end(kWays),
                       [&](const CombineWay& way) { return way.combine == combine; });
}

std::string Combined(Combine combine, DType accumulator, const std::string& a,
                     const std::string& b) {
  if (combine == Combine::kSum && accumulator == DType::kI64) {
    return absl::StrCat("Add(", a, ", ", b, ")");
  }
  std::string text(WayOf(combine).expression);
  text.replace(text.find("$0"), 2, a);
  text.replace(text.find("$1"), 2, b);
  return text;
}

std::string IdentityOf(Combine combine, DType dtype) {
  const DType accumulator = AccumulatorOf(dtype);
  if (combine == Combine::kSum) {
    return IsFloat(dtype) ? FloatLiteral(0, accumulator) : IntLiteral(0, DType::kI64);
  }
  const bool greatest = combine != Combine::kMin;
  if (IsFloat(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return FloatLiteral(greatest ? -infinity : infinity, accumulator);
  }
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
  if (dtype == DType::kI32) {
    low = std::numeric_limits<int32_t>::min();
    high = std::numeric_limits<int32_t>::max();
  }
  if (dtype == DType::kU8) {
    low = 0;
    high = 255;
  }
  return IntLiteral(greatest ? low : high, DType::kI64);
}

std::string FromAccumulator(DType accumulator, DType dtype, const std::string& text) {
  if (accumulator == DType::kI64) {
    if (dtype == DType::kI64) return text;
    if (dtype == DType::kU8) {
      return absl::StrCat("static_cast<int>(static_cast<unsigned char>(", text, "))");
    }
    return absl::StrCat("static_cast<int>(", text, ")");
  }
  if (accumulator == DType::kF64 && IsLow(dtype)) return absl::StrCat("OddFloat(", text, ")");
  if ((accumulator == DType::kF64) != (dtype == DType::kF64)) {
    return absl::StrCat("static_cast<", ComputeType(dtype), ">(", text, ")");
  }
  return text;
}

}  // namespace duotone::codegen::cuda
