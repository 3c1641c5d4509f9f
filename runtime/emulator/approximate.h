// The approximating instructions: correctly rounded, or moved within their documented bounds.
#ifndef DUOTONE_RUNTIME_EMULATOR_APPROXIMATE_H_
#define DUOTONE_RUNTIME_EMULATOR_APPROXIMATE_H_

#include <cstdint>
#include <span>

#include "runtime/emulator/ptx.h"

namespace duotone::emulator {

// How far a result may lie from the exact one (PTX ISA 8.5, 9.7.3 and 9.7.4), in one of three
// measures.
struct ApproximationBound {
  Op op;
  double ulps = 0;      // units in the last place of the correctly rounded result
  double relative = 0;  // of the exact result
  double absolute = 0;
};
std::span<const ApproximationBound> ApproximationBounds();
// Null where the instruction is exact.
const ApproximationBound* BoundOf(Op op);

// The f32 result of an op (ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh, and div with two operands),
// rounded correctly but for ties closer than 2^-50; NaN is canonical. No flushing.
float Approximate(Op op, float a, float b = 0);
// The same, moved by what `seed` and the operands give, within the bound. Zeros, infinities, NaN
// and results that are exact by definition (2^0) stay.
float Perturbed(Op op, float a, float b, uint64_t seed);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_APPROXIMATE_H_
