// The approximating instructions: correctly rounded, or moved within their documented bounds.
#ifndef DUOTONE_RUNTIME_EMULATOR_APPROXIMATE_H_
#define DUOTONE_RUNTIME_EMULATOR_APPROXIMATE_H_

#include <cstdint>

#include "runtime/emulator/ptx.h"

namespace duotone::emulator {

// The result of ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh or div (which takes b) with .approx or
// .full, of type f32, f16 or bf16 (or a pair of these, of which a and b are one half), rounded
// correctly to it, as far as 64 bits tell. NaN is canonical; nothing is flushed.
float Approximate(const Instruction& instruction, float a, float b);
// The same, moved by what `seed` and the operands give, within the bound that the ISA documents.
// Zeros, infinities, NaN and results that it defines exactly (2^0, tanh of a subnormal) stay.
float Perturbed(const Instruction& instruction, float a, float b, uint64_t seed);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_APPROXIMATE_H_
