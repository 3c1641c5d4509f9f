// One warp's turn: instruction after instruction, over lanes that part at branches and come
// together again at immediate post-dominators.
//
// A warp is a list of fragments. A branch whose lanes disagree makes two of one, both with the join
// at the branch's post-dominator; a fragment that gets there waits until all lanes that parted have
// arrived or exited. A function's end is a join at the place it returns to.
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

// The barrier instruction that the lanes of a warp in kBarrier wait at: that of its first fragment.
const Code& BarrierOf(const Warp& warp);
// Lets a warp in kBarrier go on behind its barrier instruction.
void PassBarrier(Warp& warp);

// "lanes 0-3 at PTX line 12 'bar.sync 0;', lanes 4-31 at ...".
std::string WhereLanesAre(const Warp& warp);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_WARP_LOOP_H_
