// How a kernel is laid out on the machine, chosen by a cost model among at least 8 candidates. The
// choice depends on shapes, dtypes and the architecture's row (base/gpu_target.h) alone. All
// candidates give the same values bit by bit, but for the order of sums that `chunks` decides,
// which therefore never depends on the architecture.
#ifndef DUOTONE_CODEGEN_CUDA_SCHEDULE_H_
#define DUOTONE_CODEGEN_CUDA_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/gpu_target.h"

namespace duotone::codegen::cuda {

// The text form "v8 u2 t128 r4" names a candidate in dumps and overrides; "m64 n64 k16" follow in
// matmuls. r1 is left out.
struct Schedule {
  int vector = 1;          // elements per load
  int unroll = 1;          // independent vectors per thread
  int threads = 128;       // per block
  int rows_per_block = 1;  // row kernels: rows that a block works on at a time
  int tile_m = 0;          // matmul; row kernels: rows that a thread has in flight
  int tile_n = 0;
  int tile_k = 0;
  // Row kernels: where a row stays between phases; 0 in registers, 1 in shared memory, 2 in
  // neither.
  int form = 0;

  std::string ToString() const;
  // Takes the parts in any order.
  static absl::StatusOr<Schedule> FromString(std::string_view text);
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// What the cost model knows of a kernel under one schedule.
struct Work {
  double bytes_read = 0;  // each distinct byte once
  double bytes_written = 0;
  double l2_bytes = 0;        // with what is read again; 0: bytes_read + bytes_written
  double shared_traffic = 0;  // bytes read from and written to shared memory, by all threads
  double flops = 0;           // in f32 lanes: a fused multiply-add is one
  double instructions = 0;    // other instructions of all threads: addresses, loads, conversions
  double mufu = 0;            // exp, log, rsqrt, tanh, ...
  int64_t blocks = 1;
  int registers = 32;  // estimate, per thread
  int64_t shared_bytes = 0;
  double bytes_in_flight_per_thread = 16;  // of independent loads
};

// A candidate with its predicted terms, in microseconds but for the counts. Each term is the time
// the kernel takes if that resource alone is short.
struct Prediction {
  Schedule schedule;
  Work work;
  double dram_us = 0;  // with all bandwidth; `total_us` has it with the loads in flight
  double l2_us = 0;
  double shared_us = 0;
  double issue_us = 0;
  double mufu_us = 0;
  double waves = 0;
  double bytes_in_flight = 0;  // per SM
  double total_us = 0;         // infinite where the kernel does not fit an SM
  // "dram", "latency" (too few bytes in flight), "l2", "shared", "issue", "mufu"; "does not fit"
  std::string_view limiter;
};

Prediction Predict(const GpuTarget& target, const Schedule& schedule, const Work& work);
// Ranks candidates: least total first, ties by the order in which they come. `override` is the text
// of the schedule to put first, or ""; an error if no candidate has it.
absl::StatusOr<std::vector<Prediction>> Rank(const GpuTarget& target,
                                             std::vector<Prediction> candidates,
                                             std::string_view override);
// The same with the override that `schedules` (CodegenOptions::schedules) have for the kernel of
// `node`: "NODE=SCHEDULE" must name a candidate, "*=SCHEDULE" holds where one has it. Of several
// that fit, the last counts, and one for the node before "*".
absl::StatusOr<std::vector<Prediction>> Rank(const GpuTarget& target,
                                             std::vector<Prediction> candidates,
                                             const std::vector<std::string>& schedules,
                                             std::string_view node);
// One line per candidate: "1  v8 u2 t128  12.1 us  dram 11.0  waves 3.2  in flight 32 KB  regs 40".
std::string ToText(const std::vector<Prediction>& ranked);

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_CODEGEN_CUDA_SCHEDULE_H_
