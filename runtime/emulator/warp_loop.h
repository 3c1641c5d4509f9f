// One warp's turn: instruction after instruction, over lanes that part at branches and come
// together again at immediate post-dominators.
//
// A warp is a list of fragments. A branch whose lanes disagree makes two of one, both with the join
// at the branch's post-dominator; a fragment that gets there waits until all lanes that parted have
// arrived or exited. A function's end is a join at the place it returns to.
//
// PTX knows no joins: since sm_70 every lane makes progress by itself, so lanes may wait for what
// others do behind the join. Where lanes read the same memory for long (a flag, a lock), or where
// they are at a barrier that need not be .aligned, the lanes at joins go on without them.
#ifndef DUOTONE_RUNTIME_EMULATOR_WARP_LOOP_H_
#define DUOTONE_RUNTIME_EMULATOR_WARP_LOOP_H_

#include <cstdint>
#include <string>

#include "runtime/emulator/warp.h"

namespace duotone::emulator {

// All lanes at the first instruction.
void StartWarp(Warp& warp);

enum class WarpState : uint8_t {
  kRunning,  // the turn is over
  kBarrier,  // every lane that has not exited waits at a barrier
  kExited,
  kFailed,  // it can never go on; reported
};
// Executes up to about `limit` instructions.
WarpState RunWarp(Warp& warp, int64_t limit);

// The instruction that a fragment is at. Those of a warp in kBarrier are at barriers: all at the
// same instruction, or at ones that are not .aligned.
const Code& CodeOf(const Warp& warp, const Fragment& fragment);
// Lets a warp in kBarrier go on behind its barrier instructions.
void PassBarrier(Warp& warp);

// "lanes 0-3 at PTX line 12 'bar.sync 0;', lanes 4-31 at ...".
std::string WhereLanesAre(const Warp& warp);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_WARP_LOOP_H_
