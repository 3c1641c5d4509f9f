// The 16 barriers of a block (PTX ISA 8.5, 9.7.13.1). A warp arrives as a whole, when all its lanes
// that have not exited have come to the barrier, and counts as 32 threads whether it has all of
// them or not. Its lanes may be at different instructions where these are not .aligned.
#ifndef DUOTONE_RUNTIME_EMULATOR_BARRIER_H_
#define DUOTONE_RUNTIME_EMULATOR_BARRIER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/emulator/warp.h"
#include "runtime/emulator/warp_loop.h"

namespace duotone::emulator {

class BarrierSet {
 public:
  void Reset();
  // A warp in WarpState::kBarrier: it waits, or goes on (bar.arrive), and whoever waits for it may
  // go on. False, reported, for a barrier that does not exist, or where the warp's lanes or those
  // who have arrived before disagree about the barrier.
  bool Arrive(Warp& warp, Block& block, std::vector<WarpState>& states);
  // A warp has exited: a barrier without a number of threads no longer waits for it.
  void Exit(Block& block, std::vector<WarpState>& states);
  // When no warp runs any more: false, reported, if some wait.
  bool CheckAllLeft(Block& block, const std::vector<WarpState>& states) const;

 private:
  struct Barrier {
    int64_t expected = 0;  // threads; 0: all warps that have not exited
    bool reduces = false;  // bar.red
    std::vector<int> arrived;
    std::vector<int> waiting;
    // bar.red: of the predicates so far.
    bool all = true;
    bool any = false;
    uint32_t count = 0;
  };
  static bool IsComplete(const Barrier& barrier, const Block& block);
  void Complete(Barrier& barrier, Block& block, std::vector<WarpState>& states);

  std::array<Barrier, 16> barriers_;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_BARRIER_H_
