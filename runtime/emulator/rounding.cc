#include "runtime/emulator/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace duotone::emulator {
namespace {

static_assert(std::numeric_limits<Exact>::digits >= 64);

constexpr FloatFormat kHalf = {16, 11, -14, 15, 0x7fff};
constexpr FloatFormat kBrain = {16, 8, -126, 127, 0x7fff};
constexpr FloatFormat kTensor = {32, 11, -126, 127, 0x7fffffff};
constexpr FloatFormat kSingle = {32, 24, -126, 127, 0x7fffffff};
constexpr FloatFormat kDouble = {64, 53, -1022, 1023, 0x7fffffffffffffff};

// The bits behind the sign of 2^exponent's field and the mantissa.
int MantissaField(const FloatFormat& format) {
  // tf32 is stored as an f32 whose low bits are zero.
  return format.bits == 32 ? 23 : format.mantissa - 1;
}

Exact RoundMagnitude(Exact scaled, bool negative, Rounding rounding) {
  const Exact whole = std::floor(scaled);
  const Exact rest = scaled - whole;
  if (rest == 0) return whole;
  switch (rounding) {
    case Rounding::kRz:
    case Rounding::kRzi:
      return whole;
    case Rounding::kRm:
    case Rounding::kRmi:
      return negative ? whole + 1 : whole;
    case Rounding::kRp:
    case Rounding::kRpi:
      return negative ? whole : whole + 1;
    case Rounding::kRna:
      return rest >= 0.5L ? whole + 1 : whole;
    default:
      break;
  }
  if (rest != 0.5L) return rest > 0.5L ? whole + 1 : whole;
  return std::fmod(whole, 2.0L) == 0 ? whole : whole + 1;
}

}  // namespace

const FloatFormat& FormatOf(Type type) {
  switch (type) {
    case Type::kF16:
    case Type::kF16x2:
      return kHalf;
    case Type::kBf16:
    case Type::kBf16x2:
      return kBrain;
    case Type::kTf32:
      return kTensor;
    case Type::kF64:
      return kDouble;
    default:
      return kSingle;
  }
}

Exact Decode(uint64_t bits, const FloatFormat& format) {
  const int field = MantissaField(format);
  const uint64_t mantissa = bits & ((uint64_t{1} << field) - 1);
  const int exponent_bits = format.bits - 1 - field;
  const uint64_t exponent_ones = (uint64_t{1} << exponent_bits) - 1;
  const auto exponent = static_cast<int>(bits >> field & exponent_ones);
  const bool negative = (bits >> (format.bits - 1) & 1) != 0;
  Exact value = 0;
  if (static_cast<uint64_t>(exponent) == exponent_ones) {
    value = mantissa == 0 ? std::numeric_limits<Exact>::infinity()
                          : std::numeric_limits<Exact>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<Exact>(mantissa), format.min_exponent - field);
  } else {
    value = std::ldexp(static_cast<Exact>(mantissa | uint64_t{1} << field),
                       exponent - 1 + format.min_exponent - field);
  }
  return negative ? -value : value;
}

uint64_t Encode(Exact value, const FloatFormat& format) {
  if (std::isnan(value)) return format.nan;
  const int field = MantissaField(format);
  const int exponent_bits = format.bits - 1 - field;
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (format.bits - 1) : 0;
  const Exact magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | ((uint64_t{1} << exponent_bits) - 1) << field;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  --exponent;  // magnitude = 1.x * 2^exponent
  if (exponent < format.min_exponent) {
    return sign | static_cast<uint64_t>(std::ldexp(magnitude, field - format.min_exponent));
  }
  const auto mantissa = static_cast<uint64_t>(std::ldexp(magnitude, field - exponent));
  return sign | static_cast<uint64_t>(exponent - format.min_exponent + 1) << field |
         (mantissa & ((uint64_t{1} << field) - 1));
}

Exact RoundTo(Exact value, const FloatFormat& format, Rounding rounding) {
  if (value == 0 || std::isnan(value) || std::isinf(value)) return value;
  const bool negative = std::signbit(value);
  const Exact magnitude = std::fabs(value);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int unit = std::max(exponent - 1, format.min_exponent) - (format.mantissa - 1);
  // With tiny values the scaling would lose bits; they only matter as being above zero.
  const Exact scaled = exponent - unit < -2 ? 0.25L : std::ldexp(magnitude, -unit);
  const Exact rounded = std::ldexp(RoundMagnitude(scaled, negative, rounding), unit);
  const Exact largest =
      std::ldexp(2.0L - std::ldexp(1.0L, 1 - format.mantissa), format.max_exponent);
  Exact result = rounded;
  if (rounded > largest) {
    const bool to_largest = rounding == Rounding::kRz || (rounding == Rounding::kRm && !negative) ||
                            (rounding == Rounding::kRp && negative);
    result = to_largest ? largest : std::numeric_limits<Exact>::infinity();
  }
  return negative ? -result : result;
}

Exact RoundToInteger(Exact value, Rounding rounding) {
  if (std::isnan(value) || std::isinf(value)) return value;
  const bool negative = std::signbit(value);
  const Exact rounded = RoundMagnitude(std::fabs(value), negative, rounding);
  return negative ? -rounded : rounded;
}

Exact Flush(Exact value, const FloatFormat& format) {
  const bool is_small = std::fabs(value) < std::ldexp(1.0L, format.min_exponent);
  return is_small ? std::copysign(0.0L, value) : value;
}

}  // namespace duotone::emulator
