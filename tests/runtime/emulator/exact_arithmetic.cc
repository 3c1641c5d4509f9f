#include "tests/runtime/emulator/exact_arithmetic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace duotone::emulator::exact {
namespace {

using Wide = unsigned __int128;

int WidthOf(Wide value) {
  const auto upper = static_cast<uint64_t>(value >> 64);
  return upper != 0 ? 64 + std::bit_width(upper) : std::bit_width(static_cast<uint64_t>(value));
}

// value / 2^shift; a lost part sets the last bit, so that it still counts.
Wide ShiftedDown(Wide value, int shift) {
  if (shift >= 128) return value != 0 ? 1 : 0;
  const Wide lost = value & ((Wide{1} << shift) - 1);
  return value >> shift | (lost != 0 ? 1 : 0);
}

// Whether a magnitude cut to `whole` grows by one; `rest` is 0, 1 (below half), 2 (half) or 3.
bool RoundsUp(Wide whole, int rest, bool negative, Rounding rounding) {
  switch (rounding) {
    case Rounding::kRn:
    case Rounding::kRni:
      return rest == 3 || (rest == 2 && (whole & 1) != 0);
    case Rounding::kRna:
      return rest >= 2;
    case Rounding::kRm:
    case Rounding::kRmi:
      return rest > 0 && negative;
    case Rounding::kRp:
    case Rounding::kRpi:
      return rest > 0 && !negative;
    default:
      return false;
  }
}

// magnitude / 2^drop, rounded; `drop` may be negative.
Wide Rounded(Wide magnitude, int drop, bool negative, Rounding rounding) {
  if (drop <= 0) return magnitude << -drop;
  // Two more bits, of which the last stands for everything behind.
  const Wide quarters = drop >= 2 ? ShiftedDown(magnitude, drop - 2) : magnitude << (2 - drop);
  const Wide whole = quarters >> 2;
  return whole + (RoundsUp(whole, static_cast<int>(quarters & 3), negative, rounding) ? 1 : 0);
}

// As wide as possible below 2^126.
Number Widened(Number a) {
  const int shift = 126 - WidthOf(a.magnitude);
  a.magnitude <<= shift;
  a.exponent -= shift;
  return a;
}

Number Nan() { return {.kind = Number::Kind::kNan}; }
Number Infinity(bool negative) { return {.kind = Number::Kind::kInfinite, .negative = negative}; }
Number Zero(bool negative) { return {.negative = negative}; }
bool IsNan(const Number& a) { return a.kind == Number::Kind::kNan; }
bool IsInfinite(const Number& a) { return a.kind == Number::Kind::kInfinite; }
bool IsZero(const Number& a) { return a.kind == Number::Kind::kFinite && a.magnitude == 0; }

}  // namespace

Number Decode(uint64_t bits, const Format& format) {
  const bool negative = format.IsNegative(bits);
  const uint64_t magnitude = bits & ~format.sign();
  if (format.IsNan(bits)) return Nan();
  if (magnitude == format.infinity()) return Infinity(negative);
  const uint64_t hidden = format.smallest_normal();
  const auto field = static_cast<int>(magnitude >> format.fraction);
  const uint64_t stored = magnitude & (hidden - 1);
  return {.negative = negative,
          .magnitude = field == 0 ? stored : stored | hidden,
          .exponent = format.min_exponent() - format.fraction + std::max(field - 1, 0)};
}

Number FromInteger(__int128 value) {
  return {.negative = value < 0, .magnitude = static_cast<Wide>(value < 0 ? -value : value)};
}

Number FromLongDouble(long double value) {
  const bool negative = std::signbit(value);
  if (std::isnan(value)) return Nan();
  if (std::isinf(value)) return Infinity(negative);
  int exponent = 0;
  const long double mantissa = std::frexp(std::fabs(value), &exponent);
  return {.negative = negative,
          .magnitude = static_cast<uint64_t>(std::ldexp(mantissa, 64)),
          .exponent = exponent - 64};
}

Number Negate(Number a) {
  a.negative = !a.negative;
  return a;
}

Number Multiply(const Number& a, const Number& b) {
  const bool negative = a.negative != b.negative;
  if (IsNan(a) || IsNan(b) || (IsInfinite(a) && IsZero(b)) || (IsZero(a) && IsInfinite(b))) {
    return Nan();
  }
  if (IsInfinite(a) || IsInfinite(b)) return Infinity(negative);
  return {.negative = negative,
          .magnitude = a.magnitude * b.magnitude,
          .exponent = a.exponent + b.exponent};
}

Number Add(const Number& a, const Number& b, Rounding rounding) {
  if (IsNan(a) || IsNan(b)) return Nan();
  if (IsInfinite(a) && IsInfinite(b) && a.negative != b.negative) return Nan();
  if (IsInfinite(a)) return a;
  if (IsInfinite(b)) return b;
  const bool zero_sign = a.negative == b.negative ? a.negative : rounding == Rounding::kRm;
  if (IsZero(a) && IsZero(b)) return Zero(zero_sign);
  if (IsZero(a)) return b;
  if (IsZero(b)) return a;
  Number high = a, low = b;
  if (high.exponent < low.exponent) std::swap(high, low);
  const int shift = high.exponent - low.exponent;
  if (WidthOf(high.magnitude) + shift <= 126) {
    high.magnitude <<= shift;
    high.exponent = low.exponent;
  } else {
    // A product has at most 106 bits, so the one with the larger exponent is far larger.
    high = Widened(high);
    low.magnitude = ShiftedDown(low.magnitude, high.exponent - low.exponent);
  }
  if (high.negative == low.negative) {
    high.magnitude += low.magnitude;
    return high;
  }
  if (high.magnitude == low.magnitude) return Zero(zero_sign);
  if (high.magnitude < low.magnitude) {
    std::swap(high.magnitude, low.magnitude);
    high.negative = low.negative;
  }
  high.magnitude -= low.magnitude;
  return high;
}

Number Divide(const Number& a, const Number& b) {
  const bool negative = a.negative != b.negative;
  if (IsNan(a) || IsNan(b) || (IsInfinite(a) && IsInfinite(b)) || (IsZero(a) && IsZero(b))) {
    return Nan();
  }
  if (IsInfinite(a) || IsZero(b)) return Infinity(negative);
  if (IsInfinite(b) || IsZero(a)) return Zero(negative);
  const Number dividend = Widened(a);
  const Wide quotient = dividend.magnitude / b.magnitude;
  const Wide rest = dividend.magnitude % b.magnitude;
  return {.negative = negative,
          .magnitude = quotient << 1 | (rest != 0 ? 1 : 0),
          .exponent = dividend.exponent - b.exponent - 1};
}

Number SquareRoot(const Number& a) {
  if (IsNan(a) || IsZero(a)) return a;
  if (a.negative) return Nan();
  if (IsInfinite(a)) return a;
  Number square = Widened(a);
  if (square.exponent % 2 != 0) {
    square.magnitude <<= 1;
    square.exponent -= 1;
  }
  Wide root = 0;
  for (Wide bit = Wide{1} << 63; bit != 0; bit >>= 1) {
    if ((root | bit) * (root | bit) <= square.magnitude) root |= bit;
  }
  return {.magnitude = root << 1 | (root * root != square.magnitude ? 1 : 0),
          .exponent = square.exponent / 2 - 1};
}

uint64_t Encode(const Number& a, const Format& format, Rounding rounding) {
  if (IsNan(a)) return format.nan;
  const uint64_t sign = a.negative ? format.sign() : 0;
  if (IsInfinite(a)) return sign | format.infinity();
  if (IsZero(a)) return sign;
  const int exponent = std::max(a.exponent + WidthOf(a.magnitude) - 1, format.min_exponent());
  const Wide mantissa =
      Rounded(a.magnitude, exponent - format.fraction - a.exponent, a.negative, rounding);
  // The leading one, and a carry out of the mantissa, add one to the exponent.
  const auto field = static_cast<uint64_t>(exponent - format.min_exponent());
  const bool too_large = field > 1u << (format.bits - 1 - format.fraction);
  const uint64_t magnitude = (field << format.fraction) + static_cast<uint64_t>(mantissa);
  if (!too_large && magnitude < format.infinity()) return sign | magnitude;
  const bool to_infinity = rounding == Rounding::kRn || rounding == Rounding::kRna ||
                           rounding == (a.negative ? Rounding::kRm : Rounding::kRp);
  return sign | (to_infinity ? format.infinity() : format.infinity() - 1);
}

__int128 ToInteger(const Number& a, Rounding rounding) {
  const Wide limit = Wide{1} << 100;
  const bool too_large =
      IsInfinite(a) || (a.magnitude != 0 && a.exponent + WidthOf(a.magnitude) > 100);
  const Wide magnitude =
      too_large ? limit : Rounded(a.magnitude, -a.exponent, a.negative, rounding);
  return a.negative ? -static_cast<__int128>(magnitude) : static_cast<__int128>(magnitude);
}

uint64_t Flush(uint64_t bits, const Format& format) {
  return (bits & format.infinity()) == 0 ? bits & format.sign() : bits;
}

uint64_t Saturate(uint64_t bits, const Format& format) {
  if (format.IsNan(bits) || format.IsNegative(bits)) return 0;
  return std::min(bits, format.one());
}

uint64_t ClampToZero(uint64_t bits, const Format& format) {
  return format.IsNegative(bits) && !format.IsNan(bits) ? 0 : bits;
}

std::vector<uint64_t> EdgeValues(const Format& format) {
  const uint64_t normal = format.smallest_normal(), infinity = format.infinity(),
                 one = format.one();
  std::vector<uint64_t> values;
  for (const uint64_t magnitude : {uint64_t{0},
                                   uint64_t{1},
                                   uint64_t{2},
                                   uint64_t{3},
                                   normal / 2,
                                   normal - 1,
                                   normal,
                                   normal + 1,
                                   2 * normal,
                                   one - normal,
                                   one - 1,
                                   one,
                                   one + 1,
                                   one + normal / 2,
                                   one + normal - 1,
                                   one + normal,
                                   one + normal + normal / 2,
                                   infinity - normal,
                                   infinity - 2,
                                   infinity - 1,
                                   infinity,
                                   infinity + 1,
                                   infinity + normal / 2}) {
    values.push_back(magnitude);
    values.push_back(magnitude | format.sign());
  }
  return values;
}

}  // namespace duotone::emulator::exact
