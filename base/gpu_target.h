// The GPU architectures that kernels are made for: limits, rates and occupancy. One row per
// architecture, for a representative device; schedules, reports and the emulated device read it.
#ifndef DUOTONE_BASE_GPU_TARGET_H_
#define DUOTONE_BASE_GPU_TARGET_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace duotone {

struct GpuTarget {
  std::string_view name;    // "sm_80", also NVRTC's -arch
  std::string_view device;  // whose rates these are: "A100"
  int compute = 0;          // 10 * major + minor
  // Limits of a streaming multiprocessor (SM), from the CUDA programming guide.
  int max_warps = 0;
  int max_blocks = 0;
  int max_block_threads = 1024;
  int registers = 65536;  // 32-bit
  int max_registers_per_thread = 255;
  int64_t shared_bytes = 0;            // per SM
  int64_t max_block_shared_bytes = 0;  // with the opt-in above 48 KB
  int64_t reserved_shared_bytes = 0;   // per block, for the system
  int64_t shared_granularity = 128;
  // Rates of the whole device and, per SM and clock, of its units.
  int sms = 0;
  double clock_ghz = 0;
  double dram_gb_s = 0;
  int tensor_flops = 0;  // f16 with f32 accumulation, 2 per multiply-add
  int fp32_lanes = 0;
  int int32_lanes = 0;
  int mufu_lanes = 16;
  int shared_bytes_clock = 128;
  int64_t bytes_in_flight = 0;  // per SM, to keep DRAM busy (Little's law)
  bool has_bf16 = true;         // conversions and tensor instructions
  bool has_cp_async = true;
};

// In ascending order: sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120.
std::span<const GpuTarget> AllGpuTargets();
// "sm_80"; an unknown name is an error that lists the known ones.
absl::StatusOr<const GpuTarget*> FindGpuTarget(std::string_view name);
// The newest row whose compute capability is at most `compute`; null below the first.
const GpuTarget* GpuTargetFor(int compute);

// What a kernel needs of an SM.
struct KernelResources {
  int registers = 0;  // per thread
  int block_threads = 0;
  int64_t shared_bytes = 0;  // static and dynamic
};

struct Occupancy {
  int blocks = 0;  // per SM; 0: the kernel does not fit
  int warps = 0;
  double share = 0;          // of the SM's warps
  std::string_view limiter;  // "registers", "shared memory", "warps" or "blocks"
};
// By the rules of the CUDA occupancy calculator: registers are given to warps in units of 256, each
// of the four sub-cores holds a quarter, shared memory is rounded up to the granularity.
Occupancy ComputeOccupancy(const GpuTarget& target, const KernelResources& kernel);

}  // namespace duotone

#endif  // DUOTONE_BASE_GPU_TARGET_H_
