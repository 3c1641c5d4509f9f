// Which element types hold every value of another one: a cast there and back is then the identity.
#ifndef DUOTONE_BASE_LOSSLESS_H_
#define DUOTONE_BASE_LOSSLESS_H_

#include "base/dtype.h"

namespace duotone {

struct DTypeRange {
  int digits;         // significant bits, the hidden one included; of the magnitude for integers
  int exponent_bits;  // 0 for integers
};

// In enum order.
inline constexpr std::array<DTypeRange, 8> kDTypeRanges = {{
    {53, 11},  // f64
    {24, 8},   // f32
    {11, 5},   // f16
    {8, 8},    // bf16
    {63, 0},   // i64
    {31, 0},   // i32
    {8, 0},    // u8
    {1, 0},    // bool
}};

// True if every value of `from` is a value of `to`.
constexpr bool IsLossless(DType from, DType to) {
  if (from == to) return true;
  if (IsFloat(from) && !IsFloat(to)) return false;
  const DTypeRange& a = kDTypeRanges[static_cast<size_t>(from)];
  const DTypeRange& b = kDTypeRanges[static_cast<size_t>(to)];
  return b.digits >= a.digits && (!IsFloat(from) || b.exponent_bits >= a.exponent_bits);
}

}  // namespace duotone

#endif  // DUOTONE_BASE_LOSSLESS_H_
