// The shared memory of one block: its bytes, who wrote and read them since when, and copies that
// are on their way (cp.async).
#ifndef DUOTONE_RUNTIME_EMULATOR_SHARED_MEMORY_H_
#define DUOTONE_RUNTIME_EMULATOR_SHARED_MEMORY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/emulator/code.h"

namespace duotone::emulator {

class SharedMemory {
 public:
  // Uninitialised bytes for a block of so many warps. `checked` keeps a shadow for the checks.
  void Reset(int64_t bytes, int warps, bool checked);
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  uint8_t* bytes() { return bytes_.data(); }

  // Order between threads, told by the executor. A barrier is complete: what the warps of `arrived`
  // did before comes before what those of `waiting` do next (bar.sync: the same in both).
  void OnBarrier(std::span<const int> arrived, std::span<const int> waiting);
  // bar.warp.sync: orders the lanes of `warp` among themselves.
  void OnWarpSync(int warp, Mask lanes);

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_SHARED_MEMORY_H_
