// Exact values rounded to a binary format by any rounding mode of PTX.
#ifndef DUOTONE_RUNTIME_EMULATOR_ROUNDING_H_
#define DUOTONE_RUNTIME_EMULATOR_ROUNDING_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "runtime/emulator/ptx.h"

namespace duotone::emulator {

struct FloatFormat {
  int bits;          // of the whole
  int mantissa;      // with the leading one
  int min_exponent;  // of the smallest normal number, as 2^min_exponent
  int max_exponent;  // of the largest finite number
  uint64_t nan;      // the canonical one
};
// kF16, kBf16 (also of pairs), kTf32, kF32, kF64.
const FloatFormat& FormatOf(Type type);

// A long double has 64 bits: it holds every value of these formats and every 64-bit integer.
using Exact = long double;

// The value of `bits` in a format.
Exact Decode(uint64_t bits, const FloatFormat& format);
// The bits of a value that the format has, infinities and NaN included; NaN becomes canonical.
uint64_t Encode(Exact value, const FloatFormat& format);
// The format's value nearest to `value` in the mode (kRn for kNone), with subnormals; beyond the
// largest finite number infinity or that number, as IEEE 754 says.
Exact RoundTo(Exact value, const FloatFormat& format, Rounding rounding);
// To an integer: kRni, kRzi, kRmi, kRpi.
Exact RoundToInteger(Exact value, Rounding rounding);
// a + b rounded to odd: inexact results get a last bit of 1, so that rounding once more, to a
// format with at least two bits less, gives what rounding the exact sum would (Boldo and Melquiond,
// "Emulation of a FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to Odd", 2008).
inline double OddSum(double a, double b) {
  const double sum = a + b;
  // What the addition lost (Knuth's TwoSum).
  const double back = sum - a;
  const double lost = (a - (sum - back)) + (b - back);
  const uint64_t bits = std::bit_cast<uint64_t>(sum);
  const bool stays = !(lost != 0.0) || (bits & 1) != 0 || !(std::fabs(sum) < 1e300);
  // Towards the lost part, to the neighbour whose last bit is set.
  const bool away = (lost > 0) == (sum > 0);
  return stays ? sum : std::bit_cast<double>(away ? bits + 1 : bits - 1);
}
// A value that was rounded to odd, or is exact, as an f32 rounded to odd: cut off, with a last bit
// of 1 where something is lost.
inline float OddSingle(double value) {
  const auto nearest = static_cast<float>(value);
  const bool stays = !(static_cast<double>(nearest) != value) || value != value;
  const bool is_larger = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  return stays ? nearest : std::bit_cast<float>((is_larger ? bits - 1 : bits) | 1);
}
// a * b + c with one rounding, without the host's instruction for it: f64 holds the product.
inline float FusedMultiplyAdd(float a, float b, float c) {
  return static_cast<float>(OddSum(double{a} * double{b}, double{c}));
}

// A subnormal becomes a zero of its sign.
inline float Flushed(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}
// A subnormal of the format becomes a zero of its sign.
Exact Flush(Exact value, const FloatFormat& format);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_ROUNDING_H_
