// Accesses of shared memory, as handlers have them to do: FindSharedHandler's own, and those of
// generic addresses whose lanes turn out to lie in the window of shared memory.
#ifndef DUOTONE_RUNTIME_EMULATOR_SHARED_OPS_H_
#define DUOTONE_RUNTIME_EMULATOR_SHARED_OPS_H_

#include <array>
#include <cstdint>
#include <string_view>

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

// ---- For the handlers of shared memory

// The offsets of an address operand: shared addresses of 32 bits wrap around.
std::array<uint64_t, kLanes> SharedOffsets(Warp& warp, const Code& code, int operand_row);

// The lanes whose `bytes` from their offset are aligned and within the block's shared memory;
// others are reported. `verb` says what the lanes do there: "reads".
Mask AccessibleLanes(Warp& warp, const Code& code, Mask mask,
                     const std::array<uint64_t, kLanes>& offsets, int bytes, std::string_view verb);

// Reports what SharedMemory found.
void ReportFindings(Warp& warp, const Code& code, std::string_view verb,
                    const SharedFindings& findings);
// ... when copies were waited for.
void ReportFinding(Warp& warp, const Code& code, const CopyFinding& finding);

// How often the banks are asked for an access: 32 banks are 4 bytes wide, and a bank gives one word
// at a time to any number of lanes. A warp's accesses of 8 bytes go in two halves, those of 16 in
// four quarters (`ways` is the sum over them, `ideal` their number); ldmatrix goes matrix by
// matrix. Atomics of one word count once.
struct BankWays {
  int ways = 0;
  int ideal = 0;
};
BankWays CountWays(Mask mask, const uint64_t* offsets, int bytes);

// Counts an access of `mask` at `offsets`; does nothing where nothing is counted.
void CountSharedAccess(Warp& warp, const Code& code, Mask mask, const uint64_t* offsets, int bytes);

Handler FindMatrixHandler(const Instruction& instruction);
Handler FindAsyncHandler(const Instruction& instruction);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_SHARED_OPS_H_
