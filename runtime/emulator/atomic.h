// What atom and red make of the value in memory, whichever memory that is.
#ifndef DUOTONE_RUNTIME_EMULATOR_ATOMIC_H_
#define DUOTONE_RUNTIME_EMULATOR_ATOMIC_H_

#include <cstdint>

#include "runtime/emulator/ptx.h"
#include "runtime/emulator/warp.h"

namespace duotone::emulator {

// (value in memory, operand b, operand c of cas) -> new value; all in the low bits of the type.
using AtomicFunction = uint64_t (*)(uint64_t old, uint64_t b, uint64_t c);

// Null where PTX ISA 8.5, 9.7.13.5 and 9.7.13.6, knows no such operation on the type. Sums of f32
// keep subnormals: with `flush` (global memory) operands and result are flushed.
AtomicFunction FindAtomic(Mode mode, Type type, bool flush);

// Reports a float addition by lanes of `mask`, the first of them at `address`: the order of such
// additions, and so the sum, is not fixed. Silent for other operations, and without checks.
void ReportFloatAtomic(Warp& warp, const Code& code, Mask mask, uint64_t address);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_ATOMIC_H_
