// One instruction's accesses of global memory: each lane's address checked and made the host's.
#ifndef DUOTONE_RUNTIME_EMULATOR_ACCESS_H_
#define DUOTONE_RUNTIME_EMULATOR_ACCESS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/emulator/global_memory.h"
#include "runtime/emulator/warp.h"

namespace duotone::emulator {

class GlobalAccess {
 public:
  using Addresses = std::array<uint64_t, kLanes>;
  using Pointers = std::array<uint8_t*, kLanes>;

  struct Options {
    AccessKind kind = AccessKind::kRead;
    bool reads = true;
    bool writes = false;
    int bytes = 4;  // of a lane's whole access, the vector
    // The block lets go of what it has done: this access comes before its latest fence, if any.
    bool releases = false;
  };
  GlobalAccess(Warp& warp, const Code& code, const Options& options)
      : warp_(warp),
        code_(code),
        memory_(*warp.block->launch->memory),
        options_(options),
        is_checked_(memory_.is_checked()),
        accessor_{.launch = memory_.launch(),
                  .block = warp.block->linear,
                  .fences = warp.block->fences - (options.releases ? 1 : 0),
                  .order = &memory_.order()} {}

  // The host's addresses of the lanes that may access theirs; null for the others, which are
  // reported. Counts requests and sectors.
  Pointers Resolve(Mask mask, const Addresses& addresses);

 private:
  struct Finding {
    Mask lanes = 0;
    uint64_t address = 0;
    std::string what;
  };
  // The short way: all 32 lanes' accesses lie in one range, aligned, and nothing is wrong with
  // them. False, without pointers, if one must look at each lane.
  bool ResolveTogether(const Addresses& addresses, Pointers& pointers);
  bool IsSoundRun(int64_t offset, int64_t bytes, const GlobalMemory::Range& range);
  int64_t LimitOf(const GlobalMemory::Range& range) const;
  uint8_t* ResolveLane(int lane, uint64_t address);
  void CheckShadow(int lane, uint64_t address, int64_t offset, const GlobalMemory::Range& range);
  bool IsOfCompareAndSwap() const;
  void CheckWritten(int lane, uint64_t address, int64_t offset, const GlobalMemory::Range& range);
  void Found(ProblemKind kind, int lane, uint64_t address, const std::string& what);
  void Outside(int lane, uint64_t address, const GlobalMemory::Range* range);
  void Count(Mask mask, const Addresses& addresses);
  void ReportFindings();
  std::string Verb() const;

  Warp& warp_;
  const Code& code_;
  GlobalMemory& memory_;
  const Options options_;
  const bool is_checked_;
  const Accessor accessor_;
  const GlobalMemory::Range* range_ = nullptr;  // of the lane before
  bool is_run_ = false;                         // the lanes' accesses lie side by side
  std::vector<Finding> findings_;               // by kind; empty as long as there is none
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_ACCESS_H_
