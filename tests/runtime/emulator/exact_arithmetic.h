// What float instructions must give, computed in integers: the emulator's own arithmetic uses f64,
// long double and the host's rounding modes, none of which is trusted here.
//
//   const Number sum = Add(Decode(a, kF16), Decode(b, kF16), Rounding::kRn);
//   EXPECT_EQ(result, Encode(sum, kF16, Rounding::kRn));
#ifndef DUOTONE_TESTS_RUNTIME_EMULATOR_EXACT_ARITHMETIC_H_
#define DUOTONE_TESTS_RUNTIME_EMULATOR_EXACT_ARITHMETIC_H_

#include <cstdint>
#include <vector>

#include "runtime/emulator/ptx.h"

namespace duotone::emulator::exact {

// An IEEE 754 format, and the NaN that instructions give in it.
struct Format {
  Type type;
  int bits;
  int fraction;  // bits that are stored of the mantissa
  uint64_t nan;

  uint64_t sign() const { return uint64_t{1} << (bits - 1); }
  uint64_t infinity() const { return sign() - (uint64_t{1} << fraction); }
  uint64_t smallest_normal() const { return uint64_t{1} << fraction; }
  uint64_t one() const { return infinity() >> 1 & ~(smallest_normal() - 1); }
  int min_exponent() const { return 2 - (1 << (bits - 2 - fraction)); }
  bool IsNan(uint64_t value) const { return (value & ~sign()) > infinity(); }
  bool IsNegative(uint64_t value) const { return (value & sign()) != 0; }
};
inline constexpr Format kF16 = {Type::kF16, 16, 10, 0x7fff};
inline constexpr Format kBf16 = {Type::kBf16, 16, 7, 0x7fff};
inline constexpr Format kF32 = {Type::kF32, 32, 23, 0x7fffffff};
inline constexpr Format kF64 = {Type::kF64, 64, 52, 0x7fffffffffffffff};
// An f32 whose 13 lowest bits are zero.
inline constexpr Format kTf32 = {Type::kTf32, 19, 10, 0x3ffff};

// magnitude * 2^exponent.
struct Number {
  enum class Kind { kFinite, kInfinite, kNan };
  Kind kind = Kind::kFinite;
  bool negative = false;
  unsigned __int128 magnitude = 0;
  int exponent = 0;
};

Number Decode(uint64_t bits, const Format& format);
Number FromInteger(__int128 value);
Number FromLongDouble(long double value);
Number Negate(Number a);
Number Multiply(const Number& a, const Number& b);
// Exact as far as any rounding to a format can tell. The rounding gives the sign of an exact zero.
Number Add(const Number& a, const Number& b, Rounding rounding);
Number Divide(const Number& a, const Number& b);
Number SquareRoot(const Number& a);

// The nearest number of the format in a mode (kRn, kRz, kRm, kRp, kRna).
uint64_t Encode(const Number& a, const Format& format, Rounding rounding);
// The nearest integer in a mode (kRni, kRzi, kRmi, kRpi), at most 2^100 away from zero.
__int128 ToInteger(const Number& a, Rounding rounding);

// What .ftz, .sat and .relu make of operands and results.
uint64_t Flush(uint64_t bits, const Format& format);
uint64_t Saturate(uint64_t bits, const Format& format);
uint64_t ClampToZero(uint64_t bits, const Format& format);

// Zeros, the ends of the subnormal and the normal numbers, numbers around 1, 2 and 3, infinities
// and NaN, of both signs.
std::vector<uint64_t> EdgeValues(const Format& format);

}  // namespace duotone::emulator::exact

#endif  // DUOTONE_TESTS_RUNTIME_EMULATOR_EXACT_ARITHMETIC_H_
