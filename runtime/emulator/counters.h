// What an emulated launch did, counted per instruction.
#ifndef DUOTONE_RUNTIME_EMULATOR_COUNTERS_H_
#define DUOTONE_RUNTIME_EMULATOR_COUNTERS_H_

#include <cstdint>

namespace duotone::emulator {

struct InstructionCounters {
  int64_t executions = 0;  // by warps, with at least one lane
  int64_t skipped = 0;     // by warps that came to it with its guard false in all lanes
  int64_t lanes = 0;       // active ones, summed
  // Global memory (also local): one request per execution.
  int64_t requests = 0;
  int64_t sectors = 0;        // of 32 bytes, distinct within a request
  int64_t ideal_sectors = 0;  // that the bytes would fill if they lay together
  int64_t bytes = 0;          // moved by lanes, of any memory
  // Shared memory: how often the banks are asked, 1 per request without conflicts of 4-byte
  // accesses.
  int64_t shared_requests = 0;
  int64_t shared_ways = 0;
  int64_t ideal_shared_ways = 0;
  int64_t flops = 0;  // of mma

  // As a GPU issues them: a warp takes a slot also for what its guard then skips.
  int64_t issued() const { return executions + skipped; }

  void Add(const InstructionCounters& other) {
    executions += other.executions;
    skipped += other.skipped;
    lanes += other.lanes;
    requests += other.requests;
    sectors += other.sectors;
    ideal_sectors += other.ideal_sectors;
    bytes += other.bytes;
    shared_requests += other.shared_requests;
    shared_ways += other.shared_ways;
    ideal_shared_ways += other.ideal_shared_ways;
    flops += other.flops;
  }
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_COUNTERS_H_
