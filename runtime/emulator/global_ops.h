// Accesses of global memory, as handlers have them to do.
#ifndef DUOTONE_RUNTIME_EMULATOR_GLOBAL_OPS_H_
#define DUOTONE_RUNTIME_EMULATOR_GLOBAL_OPS_H_

#include <array>
#include <cstdint>

#include "runtime/emulator/code.h"
#include "runtime/emulator/warp.h"

namespace duotone::emulator {

// Where the lanes of `mask` may read `bytes[lane]` bytes each (0: nothing), with all checks and
// counters of a load: the host's address, or null where the lane has nothing to read or must not,
// which is reported. For cp.async.
std::array<const uint8_t*, kLanes> GlobalSources(Warp& warp, const Code& code, Mask mask,
                                                 const std::array<uint64_t, kLanes>& addresses,
                                                 const std::array<int, kLanes>& bytes);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_GLOBAL_OPS_H_
