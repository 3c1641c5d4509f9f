// Accesses of shared memory, as handlers have them to do: FindSharedHandler's own, and those of
// generic addresses whose lanes turn out to lie in the window of shared memory.
#ifndef DUOTONE_RUNTIME_EMULATOR_SHARED_OPS_H_
#define DUOTONE_RUNTIME_EMULATOR_SHARED_OPS_H_

#include <array>
#include <cstdint>
#include <string>

#include "runtime/emulator/code.h"
#include "runtime/emulator/shared_memory.h"
#include "runtime/emulator/warp.h"

namespace duotone::emulator {

// The lanes of `mask` execute the ld, st, or atom or red of `code` at `offsets` in the block's
// shared memory (without kSharedWindow): bounds, alignment, checks, counters and the access itself.
void SharedLoad(Warp& warp, const Code& code, Mask mask,
                const std::array<uint64_t, kLanes>& offsets);
void SharedStore(Warp& warp, const Code& code, Mask mask,
                 const std::array<uint64_t, kLanes>& offsets);
void SharedAtomic(Warp& warp, const Code& code, Mask mask,
                  const std::array<uint64_t, kLanes>& offsets);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_SHARED_OPS_H_
