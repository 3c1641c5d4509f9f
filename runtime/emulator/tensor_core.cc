#include "runtime/emulator/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/float16.h"

namespace duotone::emulator {
namespace {

constexpr uint32_t kNanSingle = 0x7fffffff;
constexpr uint32_t kNanHalf = 0x7fff;
// The exponent that a zero counts with, whatever its type.
constexpr int32_t kZeroExponent = -126;

// A number: the value is significand * 2^exponent, where the exponent is that of the last place of
// the format's mantissa, also for subnormal numbers; of zeros it is that of 2^-126.
struct Term {
  int32_t significand = 0;  // of infinity only the sign
  int32_t exponent = 0;
  enum class Kind : uint8_t { kFinite, kInfinite, kNan } kind = Kind::kFinite;
};

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

// Of tf32 the mantissa's lower bits are shifted out.
Term Decode(uint32_t bits, Type type) {
  if (type == Type::kTf32) bits >>= 13;
  const Fields fields = FieldsOf(type);
  const auto mantissa = static_cast<int32_t>(bits & ((1u << fields.mantissa) - 1));
  const uint32_t ones = (1u << fields.exponent_bits) - 1;
  const uint32_t field = bits >> fields.mantissa & ones;
  const bool negative = (bits >> (fields.mantissa + fields.exponent_bits) & 1) != 0;
  Term term;
  if (field == ones) {
    term.kind = mantissa == 0 ? Term::Kind::kInfinite : Term::Kind::kNan;
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

void AddSpecial(const Term& a, const Term& b, Specials& specials) {
  const int64_t sign = int64_t{a.significand} * b.significand;
  const bool has_nan = a.kind == Term::Kind::kNan || b.kind == Term::Kind::kNan;
  specials.nan = specials.nan || has_nan || sign == 0;  // infinity times zero
  specials.Add(sign);
}

// One addition: the accumulator and the products of a group.
uint32_t AddGroup(const TensorCoreModel& model, std::span<const uint32_t> a,
                  std::span<const uint32_t> b, uint32_t c_bits) {
  const bool is_half = model.accumulator == Type::kF16;
  const int mantissa = FieldsOf(model.type).mantissa;
  const Term c = Decode(c_bits, model.accumulator);
  if (c.kind == Term::Kind::kNan) return is_half ? kNanHalf : kNanSingle;
  Specials specials;
  if (c.kind == Term::Kind::kInfinite) specials.Add(c.significand);
  int largest = c.exponent + FieldsOf(model.accumulator).mantissa;
  int64_t products[TensorTile::kMaxK];
  int exponents[TensorTile::kMaxK];  // of the products' last places
  for (size_t i = 0; i < a.size(); ++i) {
    const Term x = Decode(a[i], model.type), y = Decode(b[i], model.type);
    products[i] = int64_t{x.significand} * y.significand;
    exponents[i] = x.exponent + y.exponent;
    largest = std::max(largest, exponents[i] + 2 * mantissa);
    if (x.kind != Term::Kind::kFinite || y.kind != Term::Kind::kFinite) AddSpecial(x, y, specials);
  }
  if (specials.any()) return specials.Bits(is_half);
  const int unit = largest - model.fraction_bits;
  int64_t sum = Aligned(c.significand, c.exponent, unit);
  for (size_t i = 0; i < a.size(); ++i) sum += Aligned(products[i], exponents[i], unit);
  return is_half ? ToHalf(sum, unit) : ToSingle(sum, unit);
}

// ---- A row of the result at a time
//
// In f32 and f64 everything below is exact but where it is meant to cut off. That holds while the
// largest exponent of an addition is moderate: products and sums are normal numbers then, and what
// is not is less than the unit of the sum.

using Floats = float __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));
using Shorts = int16_t __attribute__((vector_size(16)));
using Doubles = double __attribute__((vector_size(64)));
using Longs = uint64_t __attribute__((vector_size(64)));

constexpr int kM = TensorTile::kM, kN = TensorTile::kN, kMaxK = TensorTile::kMaxK;
static_assert(sizeof(Floats) == kN * sizeof(float));
constexpr int16_t kLowest = -100, kHighest = 120;  // moderate exponents
// Of infinity and NaN: above the highest, whatever is added to it.
constexpr int32_t kFar = 1000;

// The functions below become part of two whose instructions differ.
#define DUOTONE_PART_OF_BOTH [[gnu::always_inline]] inline

// The values of eight numbers and their exponents; the values of infinities and NaN are any.
template <Type kType>
DUOTONE_PART_OF_BOTH void DecodeEight(const uint32_t* from, Floats& values, Shorts& exponents) {
  Ints bits;
  std::memcpy(&bits, from, sizeof(bits));
  Ints all;
  if constexpr (kType == Type::kF16) {
    const Ints magnitude = bits & 0x7fff, sign = (bits & 0x8000) << 16, field = magnitude >> 10;
    // The multiplication moves the exponent, also that of subnormal numbers, and is exact.
    const Floats scaled = reinterpret_cast<Floats>(magnitude << 13) * 0x1p112f;
    values = reinterpret_cast<Floats>(reinterpret_cast<Ints>(scaled) | sign);
    all = field > 1 ? field - 15 : Ints{} - 14;
    all = field == 0x1f ? Ints{} + kFar : all;
    all = magnitude == 0 ? Ints{} + kZeroExponent : all;
  } else {
    if constexpr (kType == Type::kBf16) bits <<= 16;
    if constexpr (kType == Type::kTf32) bits &= ~0x1fff;
    values = reinterpret_cast<Floats>(bits);
    const Ints field = bits >> 23 & 0xff;
    all = field > 1 ? field - 127 : Ints{} + kZeroExponent;
    all = field == 0xff ? Ints{} + kFar : all;
  }
  exponents = __builtin_convertvector(all, Shorts);
}

struct DecodedTile {
  alignas(32) float a[kM][kMaxK];
  alignas(16) int16_t a_exponents[kM][kMaxK];
  Floats b[kMaxK];
  Shorts b_exponents[kMaxK];
};

template <Type kType>
DUOTONE_PART_OF_BOTH void DecodeFactors(const TensorTile& tile, int k, DecodedTile& decoded) {
  for (int row = 0; row < kM; ++row) {
    for (int i = 0; i < k; i += 8) {
      Floats values;
      Shorts exponents;
      DecodeEight<kType>(tile.a[row] + i, values, exponents);
      std::memcpy(decoded.a[row] + i, &values, sizeof(values));
      std::memcpy(decoded.a_exponents[row] + i, &exponents, sizeof(exponents));
    }
  }
  for (int i = 0; i < k; ++i) {
    DecodeEight<kType>(tile.b[i], decoded.b[i], decoded.b_exponents[i]);
  }
}

DUOTONE_PART_OF_BOTH bool Any(const Shorts& mask) {
  uint64_t words[2];
  std::memcpy(words, &mask, sizeof(words));
  return (words[0] | words[1]) != 0;
}

// Which elements of a row have a term that is not zero.
DUOTONE_PART_OF_BOTH Shorts NotZero(const DecodedTile& tile, int row, int begin, int count,
                                    const Floats& c) {
  Ints result = c != 0;
  for (int k = begin; k < begin + count; ++k) {
    if (tile.a[row][k] != 0) result |= tile.b[k] != 0;
  }
  return __builtin_convertvector(result, Shorts);
}

// One addition for each element of a row: those of the accumulators `c`, as bits. False where some
// exponent is not moderate: then nothing is done.
template <int kGroup, Type kAccumulator>
DUOTONE_PART_OF_BOTH bool AddRow(const DecodedTile& tile, int fraction_bits, int row, int begin,
                                 uint32_t* c) {
  Floats start;
  Shorts largest;
  DecodeEight<kAccumulator>(c, start, largest);
  for (int k = begin; k < begin + kGroup; ++k) {
    const Shorts exponents = tile.b_exponents[k] + tile.a_exponents[row][k];
    largest = exponents > largest ? exponents : largest;
  }
  const Shorts is_low = largest < kLowest;
  if (Any((largest > kHighest) | is_low)) {
    if (Any(largest > kHighest)) return false;
    // To a sum of zeros any exponent will do.
    if (Any(is_low & NotZero(tile, row, begin, kGroup, start))) return false;
    largest = is_low ? Shorts{} + kLowest : largest;
  }
  const Ints exponents = __builtin_convertvector(largest, Ints);
  const auto scale = reinterpret_cast<Floats>((127 + fraction_bits - exponents) << 23);
  const auto unit = reinterpret_cast<Floats>((127 - fraction_bits + exponents) << 23);
  // Eight products and the accumulator are less than 2^31 units.
  constexpr int kFirst = std::min(kGroup, 8);
  Ints first = __builtin_convertvector(start * scale, Ints), second = {};
  for (int k = begin; k < begin + kFirst; ++k) {
    first += __builtin_convertvector(tile.b[k] * tile.a[row][k] * scale, Ints);
  }
  for (int k = begin + kFirst; k < begin + kGroup; ++k) {
    second += __builtin_convertvector(tile.b[k] * tile.a[row][k] * scale, Ints);
  }
  Doubles sum = __builtin_convertvector(first, Doubles);
  if constexpr (kGroup > kFirst) sum += __builtin_convertvector(second, Doubles);
  sum *= __builtin_convertvector(unit, Doubles);
  // The 24 leading bits; for an f16 the last of them says whether there are more behind it, so that
  // it is rounded as all of them would be.
  constexpr uint64_t kBelow = (uint64_t{1} << 29) - 1;
  auto bits = reinterpret_cast<Longs>(sum);
  if constexpr (kAccumulator == Type::kF16) bits |= (bits & kBelow) + kBelow;
  bits &= ~kBelow;
  const Floats result = __builtin_convertvector(reinterpret_cast<Doubles>(bits), Floats);
  if constexpr (kAccumulator == Type::kF16) {
    for (int n = 0; n < kN; ++n) c[n] = ToF16(result[n]).bits;
  } else {
    std::memcpy(c, &result, sizeof(result));
  }
  return true;
}

void AddRowInGeneral(const TensorCoreModel& model, int row, int begin, TensorTile& tile) {
  const auto group = static_cast<size_t>(model.group);
  for (int n = 0; n < kN; ++n) {
    uint32_t column[kMaxK];
    for (int k = 0; k < model.group; ++k) column[k] = tile.b[begin + k][n];
    uint32_t& c = tile.c[row][n];
    c = AddGroup(model, {tile.a[row] + begin, group}, {column, group}, c);
  }
}

template <int kGroup, Type kAccumulator>
DUOTONE_PART_OF_BOTH void MultiplyRows(const TensorCoreModel& model, const DecodedTile& decoded,
                                       TensorTile& tile) {
  for (int row = 0; row < kM; ++row) {
    for (int begin = 0; begin < model.k; begin += kGroup) {
      const bool is_done =
          AddRow<kGroup, kAccumulator>(decoded, model.fraction_bits, row, begin, tile.c[row]);
      if (!is_done) AddRowInGeneral(model, row, begin, tile);
    }
  }
}

template <Type kAccumulator>
DUOTONE_PART_OF_BOTH void MultiplyGroups(const TensorCoreModel& model, const DecodedTile& decoded,
                                         TensorTile& tile) {
  if (model.group == 4) return MultiplyRows<4, kAccumulator>(model, decoded, tile);
  if (model.group == 8) return MultiplyRows<8, kAccumulator>(model, decoded, tile);
  MultiplyRows<16, kAccumulator>(model, decoded, tile);
}

DUOTONE_PART_OF_BOTH void Multiply(const TensorCoreModel& model, TensorTile& tile) {
  DecodedTile decoded;
  if (model.type == Type::kF16) {
    DecodeFactors<Type::kF16>(tile, model.k, decoded);
  } else if (model.type == Type::kBf16) {
    DecodeFactors<Type::kBf16>(tile, model.k, decoded);
  } else {
    DecodeFactors<Type::kTf32>(tile, model.k, decoded);
  }
  if (model.accumulator == Type::kF16) {
    MultiplyGroups<Type::kF16>(model, decoded, tile);
  } else {
    MultiplyGroups<Type::kF32>(model, decoded, tile);
  }
}

using MultiplyFunction = void (*)(const TensorCoreModel& model, TensorTile& tile);

#if defined(__x86_64__)
__attribute__((target("avx2"))) void MultiplyAvx2(const TensorCoreModel& model, TensorTile& tile) {
  Multiply(model, tile);
}
MultiplyFunction ChooseMultiply() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") ? MultiplyAvx2 : MultiplyTilePortably;
}
#else
MultiplyFunction ChooseMultiply() { return MultiplyTilePortably; }
#endif
const MultiplyFunction kMultiply = ChooseMultiply();

}  // namespace

TensorCoreModel TensorCoreModelOf(int compute, Type type, Type accumulator, int k,
                                  int turing_group) {
  TensorCoreModel model = {.type = type, .accumulator = accumulator, .k = k};
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

uint32_t TensorDot(const TensorCoreModel& model, std::span<const uint32_t> a,
                   std::span<const uint32_t> b, uint32_t c) {
  const auto group = static_cast<size_t>(model.group);
  for (size_t i = 0; i < a.size(); i += group) {
    c = AddGroup(model, a.subspan(i, group), b.subspan(i, group), c);
  }
  return c;
}

void MultiplyTilePortably(const TensorCoreModel& model, TensorTile& tile) { Multiply(model, tile); }

void MultiplyTile(const TensorCoreModel& model, TensorTile& tile) { kMultiply(model, tile); }

}  // namespace duotone::emulator
