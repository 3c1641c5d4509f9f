// The arithmetic of tensor cores, bit by bit, as published models have it: an addition takes
// several exact products and the accumulator, aligns them to the largest exponent with a fixed
// number of fraction bits, cuts off what is below, adds exactly, and cuts off (f32) or rounds (f16)
// the sum.
//
// Li et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", 2025;
// Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025; Valpey et al., "An SMT
// Formalization of Mixed-Precision Matrix Multiplication", 2025.
#ifndef DUOTONE_RUNTIME_EMULATOR_TENSOR_CORE_H_
#define DUOTONE_RUNTIME_EMULATOR_TENSOR_CORE_H_

#include <cstdint>
#include <span>

#include "runtime/emulator/ptx.h"

namespace duotone::emulator {

struct TensorCoreModel {
  int fraction_bits = 24;  // of terms, behind the largest exponent
  int group = 8;           // products that one addition takes
  int mantissa_bits = 10;  // of a factor, behind its leading one
};
// For `compute` (75, 80, ...), products of `type` (kF16, kBf16, kTf32) and k of them.
// `turing_group` is that of sm_75.
TensorCoreModel TensorCoreModelOf(int compute, Type type, int k, int turing_group);

// A factor: the value is significand * 2^exponent, where the exponent is that of the last place of
// the format's mantissa, also for subnormal numbers; of zeros it is that of 2^-126.
struct TensorTerm {
  int32_t significand = 0;  // of infinity only the sign
  int32_t exponent = 0;
  enum class Kind : uint8_t { kFinite, kInfinite, kNan } kind = Kind::kFinite;
};
// From the bits of an f16, bf16 or tf32 (as f32 whose low 13 bits are ignored).
TensorTerm DecodeTensorTerm(uint32_t bits, Type type);

// c + sum of a[i] * b[i], in groups one after the other, each rounded to the accumulator's type:
// kF32, or kF16 (bits in the low half). a and b have the same size.
uint32_t TensorDot(std::span<const TensorTerm> a, std::span<const TensorTerm> b, uint32_t c,
                   Type accumulator, const TensorCoreModel& model);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_TENSOR_CORE_H_
