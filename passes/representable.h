// What becomes of numbers in a 16-bit type: whether constants and bounds survive the cast.
#ifndef DUOTONE_PASSES_REPRESENTABLE_H_
#define DUOTONE_PASSES_REPRESENTABLE_H_

#include <string>

#include "base/dtype.h"
#include "ir/attrs.h"

namespace duotone::passes {

// The value that `number` has after rounding to `dtype` (f16 or bf16).
double RoundTo(double number, DType dtype);

enum class Fit {
  kFits,
  kOverflows,  // finite, but its 16-bit form would be an infinity
  kVanishes,   // not zero, but its 16-bit form would be
};
Fit FitIn(double number, DType dtype);
// The worst element: kVanishes before kOverflows before kFits.
Fit FitIn(const ir::Literal& literal, DType dtype);
// The first element that does not fit, as text: "1e-08 becomes 0 in f16"; empty if all fit.
std::string MisfitOf(const ir::Literal& literal, DType dtype);

// The literal with finite numbers kept finite and non-zero ones kept non-zero: those that do not
// fit become the largest finite number or the smallest subnormal of their sign.
ir::Literal ClampTo(const ir::Literal& literal, DType dtype);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_REPRESENTABLE_H_
