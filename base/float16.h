// IEEE half precision (f16) and bfloat16 (bf16): conversions from and to f32.
//
// Narrowing rounds to nearest, ties to even, and never saturates: a finite value of at least 65520
// becomes an f16 infinity, so that an overflow reaches the loss scaler. NaN stays NaN (quiet, sign
// kept); subnormals are kept in both directions.
#ifndef DUOTONE_BASE_FLOAT16_H_
#define DUOTONE_BASE_FLOAT16_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace duotone {

// Bit patterns with their own types, so that overloads and templates can tell them apart.
struct F16 {
  uint16_t bits;
  friend bool operator==(F16, F16) = default;  // equality of bits, not of values
};
struct BF16 {
  uint16_t bits;
  friend bool operator==(BF16, BF16) = default;
};

inline float ToF32(F16 value) {
  // The exponent is re-biased by a multiplication, which also normalises subnormals exactly.
  const uint32_t magnitude = static_cast<uint32_t>(value.bits & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t scaled =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * std::bit_cast<float>(0x77800000u));
  const uint32_t special = magnitude | 0x7f800000u | ((magnitude & 0x007fe000u) ? 0x00400000u : 0u);
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000u ? special : scaled));
}

inline float ToF32(BF16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

inline F16 ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Subnormal results: adding 0.5 lines the last kept bit up with the last bit of the sum, which
  // rounds it.
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  // Normal results: re-bias, add half of the last place less one, plus one if that place is odd.
  const uint32_t normal = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  uint32_t result = magnitude < 0x38800000u ? small : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // 65520 and above, and infinity
  result = magnitude > 0x7f800000u ? nan : result;
  return F16{static_cast<uint16_t>(sign | result)};
}

inline BF16 ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return BF16{static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x0040u : rounded)};
}

// Whole arrays, as fast as the CPU allows (F16C where it has it); bit for bit what the functions
// above give.
void ConvertToF32(const F16* from, float* to, size_t count);
void ConvertToF32(const BF16* from, float* to, size_t count);
void ConvertFromF32(const float* from, F16* to, size_t count);
void ConvertFromF32(const float* from, BF16* to, size_t count);

}  // namespace duotone

#endif  // DUOTONE_BASE_FLOAT16_H_
