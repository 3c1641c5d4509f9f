#include "tests/runtime/emulator/exact_tensor_core.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

namespace duotone::emulator {
namespace {

// A number that is not negative, by its digits in base 2: digit i stands for 2^(i - kPoint).
// tf32's smallest product is 2^-272, and sums stay below 2^262.
class Fixed {
 public:
  static constexpr int kLowest = -288, kHighest = 287;

  bool Digit(int place) const { return (words_[Word(place)] >> Bit(place) & 1) != 0; }
  void SetDigit(int place) { words_[Word(place)] |= 1u << Bit(place); }
  // All digits below `place` become 0.
  void CutBelow(int place) {
    for (size_t i = 0; i < words_.size(); ++i) {
      const int below = place - kLowest - 32 * static_cast<int>(i);  // of the word's digits
      if (below > 0) words_[i] = below >= 32 ? 0 : words_[i] >> below << below;
    }
  }
  bool AnyBelow(int place) const {
    Fixed above = *this;
    above.CutBelow(place);
    return above.words_ != words_;
  }
  // The place of the highest digit that is 1; kLowest - 1 for zero.
  int Top() const {
    for (int i = static_cast<int>(words_.size()) - 1; i >= 0; --i) {
      const uint32_t word = words_[static_cast<size_t>(i)];
      if (word != 0) return kLowest + 32 * i + std::bit_width(word) - 1;
    }
    return kLowest - 1;
  }
  bool IsZero() const { return Top() < kLowest; }

  Fixed& operator+=(const Fixed& other) {
    uint64_t carry = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      carry += uint64_t{words_[i]} + other.words_[i];
      words_[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    return *this;
  }
  // `other` is not larger.
  Fixed& operator-=(const Fixed& other) {
    int64_t borrow = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      borrow += int64_t{words_[i]} - other.words_[i];
      words_[i] = static_cast<uint32_t>(borrow);
      borrow >>= 32;
    }
    return *this;
  }
  friend bool operator<(const Fixed& a, const Fixed& b) {
    return std::lexicographical_compare(a.words_.rbegin(), a.words_.rend(), b.words_.rbegin(),
                                        b.words_.rend());
  }

 private:
  static size_t Word(int place) { return static_cast<size_t>(place - kLowest) / 32; }
  static int Bit(int place) { return (place - kLowest) % 32; }

  std::array<uint32_t, (kHighest - kLowest + 1) / 32> words_ = {};
};

// An IEEE format: sign, exponent, mantissa.
struct Format {
  int exponent_bits;
  int mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  int lowest_exponent() const { return 1 - bias(); }  // of normal numbers
};
Format FormatOf(Type type) {
  if (type == Type::kF16) return {5, 10};
  if (type == Type::kBf16) return {8, 7};
  if (type == Type::kTf32) return {8, 10};
  return {8, 23};
}

struct Number {
  bool is_nan = false;
  bool is_infinite = false;
  bool is_negative = false;
  uint64_t significand = 0;  // with mantissa_bits places behind the point
  int exponent = 0;          // gpu.md, 5.5: exp()
};
Number NumberOf(uint32_t bits, Type type) {
  if (type == Type::kTf32) bits /= 1u << 13;
  const Format format = FormatOf(type);
  const uint32_t magnitude = bits % format.sign();
  const uint32_t one = 1u << format.mantissa_bits;
  Number number;
  number.is_nan = magnitude > format.infinity();
  number.is_infinite = magnitude == format.infinity();
  number.is_negative = magnitude != bits;
  number.significand = magnitude % one;
  number.exponent = format.lowest_exponent();
  if (magnitude >= one) {
    number.significand += one;
    number.exponent = static_cast<int>(magnitude / one) - format.bias();
  }
  if (magnitude == 0) number.exponent = -126;
  return number;
}

// A value: (-1)^is_negative * digits * 2^last, which counts with `exponent`.
struct Term {
  bool is_negative;
  uint64_t digits;
  int last;
  int exponent;
};

// `sum` as a number of the type: cut off, or for f16 to the nearest, in a tie to the even one.
uint32_t Rounded(Fixed sum, bool is_negative, Type type) {
  if (sum.IsZero()) return 0;
  const Format format = FormatOf(type);
  const int last = std::max(sum.Top(), format.lowest_exponent()) - format.mantissa_bits;
  const bool is_half_or_more = sum.Digit(last - 1), is_more = sum.AnyBelow(last - 1);
  const bool is_odd = sum.Digit(last);
  sum.CutBelow(last);
  if (type == Type::kF16 && is_half_or_more && (is_more || is_odd)) {
    Fixed one;
    one.SetDigit(last);
    sum += one;
  }
  const uint32_t sign = is_negative ? format.sign() : 0;
  const int top = sum.Top();
  if (top > format.bias()) return sign + format.infinity();
  uint32_t bits = 0;
  const int exponent = std::max(top, format.lowest_exponent());
  for (int i = 0; i < format.mantissa_bits; ++i) {
    if (sum.Digit(exponent - format.mantissa_bits + i)) bits |= 1u << i;
  }
  const bool is_normal = top >= format.lowest_exponent();
  const auto field = static_cast<uint32_t>(is_normal ? top + format.bias() : 0);
  return sign + (field << format.mantissa_bits) + bits;
}

// gpu.md, 5.5: fda().
uint32_t AddExactly(const TensorCoreModel& model, const std::vector<uint32_t>& a,
                    const std::vector<uint32_t>& b, uint32_t c) {
  const uint32_t nan = model.accumulator == Type::kF16 ? 0x7fff : 0x7fffffff;
  const Format in = FormatOf(model.type), out = FormatOf(model.accumulator);
  const Number start = NumberOf(c, model.accumulator);
  bool any_nan = start.is_nan;
  bool plus_infinity = start.is_infinite && !start.is_negative;
  bool minus_infinity = start.is_infinite && start.is_negative;
  std::vector<Term> terms = {
      {start.is_negative, start.significand, start.exponent - out.mantissa_bits, start.exponent}};
  for (size_t i = 0; i < a.size(); ++i) {
    const Number x = NumberOf(a[i], model.type), y = NumberOf(b[i], model.type);
    const bool is_negative = x.is_negative != y.is_negative;
    any_nan |= x.is_nan || y.is_nan;
    if (x.is_infinite || y.is_infinite) {
      any_nan |= (!x.is_infinite && x.significand == 0) || (!y.is_infinite && y.significand == 0);
      (is_negative ? minus_infinity : plus_infinity) = true;
    }
    const int exponent = x.exponent + y.exponent;
    terms.push_back(
        {is_negative, x.significand * y.significand, exponent - 2 * in.mantissa_bits, exponent});
  }
  if (any_nan || (plus_infinity && minus_infinity)) return nan;
  if (plus_infinity) return out.infinity();
  if (minus_infinity) return out.infinity() + out.sign();

  int largest = terms[0].exponent;
  for (const Term& term : terms) largest = std::max(largest, term.exponent);
  Fixed positive, negative;
  for (const Term& term : terms) {
    Fixed value;
    for (int i = 0; i < 64; ++i) {
      if ((term.digits >> i & 1) != 0) value.SetDigit(term.last + i);
    }
    value.CutBelow(largest - model.fraction_bits);
    (term.is_negative ? negative : positive) += value;
  }
  const bool is_negative = positive < negative;
  if (is_negative) std::swap(positive, negative);
  positive -= negative;
  return Rounded(positive, is_negative, model.accumulator);
}

}  // namespace

uint32_t ExactTensorDot(const TensorCoreModel& model, const std::vector<uint32_t>& a,
                        const std::vector<uint32_t>& b, uint32_t c) {
  const auto group = static_cast<size_t>(model.group);
  for (size_t i = 0; i < a.size(); i += group) {
    const auto begin = static_cast<std::ptrdiff_t>(i), end = static_cast<std::ptrdiff_t>(i + group);
    c = AddExactly(model, {a.begin() + begin, a.begin() + end},
                   {b.begin() + begin, b.begin() + end}, c);
  }
  return c;
}

}  // namespace duotone::emulator
