#include "runtime/emulator/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace duotone::emulator {
namespace {

constexpr uint32_t kNanSingle = 0x7fffffff;
constexpr uint32_t kNanHalf = 0x7fff;
// The exponent that a zero counts with, whatever its type.
constexpr int32_t kZeroExponent = -126;
constexpr size_t kMaxGroup = 32;

// Fields of a format: bits of the mantissa behind the leading one, and the bias.
struct Fields {
  int mantissa;
  int exponent_bits;
  int bias;
};
Fields FieldsOf(Type type) {
  if (type == Type::kF16) return {10, 5, 15};
  if (type == Type::kBf16) return {7, 8, 127};
  if (type == Type::kTf32) return {10, 8, 127};
  return {23, 8, 127};
}

TensorTerm Decode(uint32_t bits, const Fields& fields) {
  const auto mantissa = static_cast<int32_t>(bits & ((1u << fields.mantissa) - 1));
  const uint32_t ones = (1u << fields.exponent_bits) - 1;
  const uint32_t field = bits >> fields.mantissa & ones;
  const bool negative = (bits >> (fields.mantissa + fields.exponent_bits) & 1) != 0;
  TensorTerm term;
  if (field == ones) {
    term.kind = mantissa == 0 ? TensorTerm::Kind::kInfinite : TensorTerm::Kind::kNan;
    term.significand = negative ? -1 : 1;
    return term;
  }
  // Subnormal numbers have the smallest exponent and are not normalised.
  term.significand = field == 0 ? mantissa : mantissa | 1 << fields.mantissa;
  term.exponent = std::max(static_cast<int32_t>(field), 1) - fields.bias - fields.mantissa;
  if (term.significand == 0) term.exponent = kZeroExponent - fields.mantissa;
  if (negative) term.significand = -term.significand;
  return term;
}

// The bits of sum * 2^exponent as an f32, cut off towards zero; subnormals are kept.
uint32_t ToSingle(int64_t sum, int exponent) {
  if (sum == 0) return 0;
  const uint32_t sign = sum < 0 ? 0x80000000u : 0;
  uint64_t magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  const int top = 63 - std::countl_zero(magnitude);
  int value_exponent = top + exponent;  // of the leading one
  if (value_exponent > 127) return sign | 0x7f800000u;
  const int lowest = std::max(value_exponent, -126) - 23;  // the last bit that stays
  const int shift = lowest - exponent;
  if (shift > 63) return sign;
  magnitude = shift >= 0 ? magnitude >> shift : magnitude << -shift;
  if (value_exponent < -126) return sign | static_cast<uint32_t>(magnitude);
  return sign | static_cast<uint32_t>(value_exponent + 127) << 23 |
         (static_cast<uint32_t>(magnitude) & 0x7fffff);
}

// As an f16, to nearest, ties to even.
uint32_t ToHalf(int64_t sum, int exponent) {
  if (sum == 0) return 0;
  const uint32_t sign = sum < 0 ? 0x8000u : 0;
  const uint64_t magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  const int top = 63 - std::countl_zero(magnitude);
  const int lowest = std::max(top + exponent, -14) - 10;
  const int shift = lowest - exponent;
  uint64_t kept = 0;
  if (shift <= 0) {
    kept = magnitude << -shift;
  } else if (shift <= 63) {
    kept = magnitude >> shift;
    const uint64_t rest = magnitude & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  }
  // kept * 2^lowest; adding the exponent carries where rounding reaches the next power of two.
  const int field = lowest + 10 + 15;
  const uint32_t bits =
      kept < 1024 ? static_cast<uint32_t>(kept)
                  : static_cast<uint32_t>((static_cast<uint64_t>(field - 1) << 10) + kept);
  return sign | std::min(bits, 0x7c00u);
}

// A value cut off towards zero to a multiple of 2^unit, as that multiple.
int64_t Aligned(int64_t significand, int exponent, int unit) {
  const int shift = exponent - unit;
  if (shift >= 0) return significand << std::min(shift, 62);
  if (shift <= -63) return 0;
  const int64_t magnitude = (significand < 0 ? -significand : significand) >> -shift;
  return significand < 0 ? -magnitude : magnitude;
}

// What infinities and NaN among the terms make of the sum.
struct Specials {
  bool nan = false;
  bool positive = false;
  bool negative = false;

  void Add(int64_t sign_of) {
    positive = positive || sign_of > 0;
    negative = negative || sign_of < 0;
  }
  bool any() const { return nan || positive || negative; }
  uint32_t Bits(bool is_half) const {
    if (nan || (positive && negative)) return is_half ? kNanHalf : kNanSingle;
    const uint32_t infinity = is_half ? 0x7c00u : 0x7f800000u;
    return negative ? infinity | (is_half ? 0x8000u : 0x80000000u) : infinity;
  }
};

void AddSpecial(const TensorTerm& a, const TensorTerm& b, Specials& specials) {
  const int64_t sign = int64_t{a.significand} * b.significand;
  const bool has_nan = a.kind == TensorTerm::Kind::kNan || b.kind == TensorTerm::Kind::kNan;
  specials.nan = specials.nan || has_nan || sign == 0;  // infinity times zero
  specials.Add(sign);
}

// One addition: the accumulator and the products of a group.
uint32_t AddGroup(std::span<const TensorTerm> a, std::span<const TensorTerm> b, uint32_t c_bits,
                  Type accumulator, const TensorCoreModel& model) {
  const bool is_half = accumulator == Type::kF16;
  const Fields c_fields = FieldsOf(accumulator);
  const TensorTerm c = Decode(c_bits, c_fields);
  Specials specials;
  if (c.kind == TensorTerm::Kind::kNan) specials.nan = true;
  if (c.kind == TensorTerm::Kind::kInfinite) specials.Add(c.significand);
  int largest = c.exponent + c_fields.mantissa;
  int64_t products[kMaxGroup];
  int exponents[kMaxGroup];  // of the products' last places
  for (size_t i = 0; i < a.size(); ++i) {
    products[i] = int64_t{a[i].significand} * b[i].significand;
    exponents[i] = a[i].exponent + b[i].exponent;
    largest = std::max(largest, exponents[i] + 2 * model.mantissa_bits);
    if (a[i].kind != TensorTerm::Kind::kFinite || b[i].kind != TensorTerm::Kind::kFinite) {
      AddSpecial(a[i], b[i], specials);
    }
  }
  if (specials.any()) return specials.Bits(is_half);
  const int unit = largest - model.fraction_bits;
  int64_t sum = Aligned(c.significand, c.exponent, unit);
  for (size_t i = 0; i < a.size(); ++i) sum += Aligned(products[i], exponents[i], unit);
  return is_half ? ToHalf(sum, unit) : ToSingle(sum, unit);
}

}  // namespace

TensorCoreModel TensorCoreModelOf(int compute, Type type, int k, int turing_group) {
  TensorCoreModel model;
  model.mantissa_bits = FieldsOf(type).mantissa;
  model.fraction_bits = compute >= 90 ? 25 : 24;
  if (compute >= 90) {
    model.group = k;
  } else if (compute == 75) {
    model.group = std::min(k, turing_group);
  } else {
    model.group = std::min(k, type == Type::kTf32 ? 4 : 8);
  }
  return model;
}

TensorTerm DecodeTensorTerm(uint32_t bits, Type type) {
  if (type == Type::kTf32) bits >>= 13;
  return Decode(bits, FieldsOf(type));
}

uint32_t TensorDot(std::span<const TensorTerm> a, std::span<const TensorTerm> b, uint32_t c,
                   Type accumulator, const TensorCoreModel& model) {
  const auto group = static_cast<size_t>(model.group);
  for (size_t i = 0; i < a.size(); i += group) {
    const size_t count = std::min({group, kMaxGroup, a.size() - i});
    c = AddGroup(a.subspan(i, count), b.subspan(i, count), c, accumulator, model);
  }
  return c;
}

}  // namespace duotone::emulator
