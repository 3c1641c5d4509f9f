// The arithmetic of tensor cores, bit by bit, as published models have it: an addition takes
// several exact products and the accumulator, aligns them to the largest exponent with a fixed
// number of fraction bits, cuts off what is below, adds exactly, and cuts off (f32) or rounds (f16)
// the sum. A product's exponent is the sum of its factors', also where its leading place is one
// higher; a subnormal factor has the exponent of the smallest normal number, a zero that of 2^-126
// whatever its type. A sum of zero is +0; a sum that is not, but too small for the result's type,
// keeps its sign. NaN, infinity times zero and a difference of infinities give one NaN, 0x7fffffff
// or 0x7fff.
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
  Type type = Type::kF16;         // of factors: kF16, kBf16, kTf32
  Type accumulator = Type::kF32;  // kF32, kF16
  int k = 8;                      // products of a result: 4, 8, 16
  int fraction_bits = 24;         // of terms, behind the largest exponent
  int group = 8;                  // products that one addition takes: 4, 8, 16
};
// For `compute` (75, 80, ...). `turing_group` is that of sm_75: 4 or 8.
TensorCoreModel TensorCoreModelOf(int compute, Type type, Type accumulator, int k,
                                  int turing_group);

// c + sum of a[i] * b[i], in groups one after the other, each rounded to the accumulator's type.
// All are bits: of an f16 or bf16 the low half, of a tf32 those of an f32 whose low 13 bits are
// ignored. a and b have `k` elements.
uint32_t TensorDot(const TensorCoreModel& model, std::span<const uint32_t> a,
                   std::span<const uint32_t> b, uint32_t c);

// The matrices of one instruction, as bits.
struct TensorTile {
  static constexpr int kM = 16;
  static constexpr int kN = 8;
  static constexpr int kMaxK = 16;
  alignas(32) uint32_t a[kM][kMaxK] = {};
  uint32_t b[kMaxK][kN] = {};
  uint32_t c[kM][kN] = {};
};
// c = a * b + c: what TensorDot gives for every row and column, but a row at a time where its
// numbers are finite and far from the ends of f32's range.
void MultiplyTile(const TensorCoreModel& model, TensorTile& tile);
// The same, slower: what MultiplyTile is where the CPU has no AVX2.
void MultiplyTilePortably(const TensorCoreModel& model, TensorTile& tile);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_TENSOR_CORE_H_
