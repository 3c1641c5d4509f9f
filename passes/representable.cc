#include "passes/representable.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/float16.h"

namespace duotone::passes {
namespace {

double Largest(DType dtype) { return dtype == DType::kF16 ? 65504.0 : 0x1.fep127; }
double Smallest(DType dtype) { return dtype == DType::kF16 ? 0x1p-24 : 0x1p-133; }

template <typename Fn>
void ForEachElement(const ir::Literal& literal, Fn fn) {
  for (size_t i = 0; i < literal.size(); ++i) fn(literal.AsDouble(i));
}

}  // namespace

double RoundTo(double number, DType dtype) {
  DUOTONE_CHECK(IsLow(dtype)) << DTypeName(dtype);
  const float wide = static_cast<float>(number);
  return dtype == DType::kF16 ? ToF32(ToF16(wide)) : ToF32(ToBF16(wide));
}

Fit FitIn(double number, DType dtype) {
  // What f32 itself cannot hold is not the 16-bit type's fault.
  const float wide = static_cast<float>(number);
  const double rounded = RoundTo(wide, dtype);
  if (wide != 0 && rounded == 0) return Fit::kVanishes;
  if (std::isfinite(wide) && std::isinf(rounded)) return Fit::kOverflows;
  return Fit::kFits;
}

Fit FitIn(const ir::Literal& literal, DType dtype) {
  Fit worst = Fit::kFits;
  ForEachElement(literal, [&](double number) { worst = std::max(worst, FitIn(number, dtype)); });
  return worst;
}

std::string MisfitOf(const ir::Literal& literal, DType dtype) {
  std::string text;
  ForEachElement(literal, [&](double number) {
    if (text.empty() && FitIn(number, dtype) != Fit::kFits) {
      text =
          absl::StrFormat("%g becomes %g in %s", number, RoundTo(number, dtype), DTypeName(dtype));
    }
  });
  return text;
}

ir::Literal ClampTo(const ir::Literal& literal, DType dtype) {
  ir::Literal clamped = literal;
  auto* numbers = std::get_if<std::vector<double>>(&clamped.values);
  if (numbers == nullptr) return clamped;
  for (double& number : *numbers) {
    const Fit fit = FitIn(number, dtype);
    if (fit == Fit::kOverflows) number = std::copysign(Largest(dtype), number);
    if (fit == Fit::kVanishes) number = std::copysign(Smallest(dtype), number);
  }
  return clamped;
}

}  // namespace duotone::passes
