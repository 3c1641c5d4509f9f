#include "base/gpu_target.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/integer.h"
#include "base/status.h"

namespace duotone {
namespace {

constexpr int64_t kKiB = 1024;

// Limits: CUDA C++ programming guide, "technical specifications per compute capability". Rates: the
// vendors' data sheets; bytes in flight are bandwidth times 700 ns, per SM.
constexpr std::array<GpuTarget, 7> kTargets = {{
    {.name = "sm_75",
     .device = "T4",
     .compute = 75,
     .max_warps = 32,
     .max_blocks = 16,
     .shared_bytes = 64 * kKiB,
     .max_block_shared_bytes = 64 * kKiB,
     .reserved_shared_bytes = 0,
     .shared_granularity = 256,
     .sms = 40,
     .clock_ghz = 1.59,
     .dram_gb_s = 320,
     .tensor_flops = 1024,
     .fp32_lanes = 64,
     .int32_lanes = 64,
     .bytes_in_flight = 6 * kKiB,
     .has_bf16 = false,
     .has_cp_async = false},
    {.name = "sm_80",
     .device = "A100",
     .compute = 80,
     .max_warps = 64,
     .max_blocks = 32,
     .shared_bytes = 164 * kKiB,
     .max_block_shared_bytes = 163 * kKiB,
     .reserved_shared_bytes = kKiB,
     .sms = 108,
     .clock_ghz = 1.41,
     .dram_gb_s = 1555,
     .tensor_flops = 2048,
     .fp32_lanes = 64,
     .int32_lanes = 64,
     .bytes_in_flight = 10 * kKiB},
    {.name = "sm_86",
     .device = "RTX 3090",
     .compute = 86,
     .max_warps = 48,
     .max_blocks = 16,
     .shared_bytes = 100 * kKiB,
     .max_block_shared_bytes = 99 * kKiB,
     .reserved_shared_bytes = kKiB,
     .sms = 82,
     .clock_ghz = 1.7,
     .dram_gb_s = 936,
     .tensor_flops = 512,
     .fp32_lanes = 128,
     .int32_lanes = 64,
     .bytes_in_flight = 8 * kKiB},
    {.name = "sm_89",
     .device = "L40S",
     .compute = 89,
     .max_warps = 48,
     .max_blocks = 24,
     .shared_bytes = 100 * kKiB,
     .max_block_shared_bytes = 99 * kKiB,
     .reserved_shared_bytes = kKiB,
     .sms = 142,
     .clock_ghz = 2.5,
     .dram_gb_s = 864,
     .tensor_flops = 1024,
     .fp32_lanes = 128,
     .int32_lanes = 64,
     .bytes_in_flight = 5 * kKiB},
    {.name = "sm_90",
     .device = "H100",
     .compute = 90,
     .max_warps = 64,
     .max_blocks = 32,
     .shared_bytes = 228 * kKiB,
     .max_block_shared_bytes = 227 * kKiB,
     .reserved_shared_bytes = kKiB,
     .sms = 132,
     .clock_ghz = 1.83,
     .dram_gb_s = 3350,
     .tensor_flops = 4096,
     .fp32_lanes = 128,
     .int32_lanes = 64,
     .bytes_in_flight = 32 * kKiB},
    {.name = "sm_100",
     .device = "B200",
     .compute = 100,
     .max_warps = 64,
     .max_blocks = 32,
     .shared_bytes = 228 * kKiB,
     .max_block_shared_bytes = 227 * kKiB,
     .reserved_shared_bytes = kKiB,
     .sms = 148,
     .clock_ghz = 1.85,
     .dram_gb_s = 8000,
     .tensor_flops = 8192,
     .fp32_lanes = 128,
     .int32_lanes = 64,
     .bytes_in_flight = 48 * kKiB},
    {.name = "sm_120",
     .device = "RTX 5090",
     .compute = 120,
     .max_warps = 48,
     .max_blocks = 24,
     .shared_bytes = 100 * kKiB,
     .max_block_shared_bytes = 99 * kKiB,
     .reserved_shared_bytes = kKiB,
     .sms = 170,
     .clock_ghz = 2.4,
     .dram_gb_s = 1792,
     .tensor_flops = 512,
     .fp32_lanes = 128,
     .int32_lanes = 128,
     .bytes_in_flight = 8 * kKiB},
}};

constexpr int kWarp = 32;
constexpr int kSubCores = 4;
constexpr int kRegisterUnit = 256;

}  // namespace

std::span<const GpuTarget> AllGpuTargets() { return kTargets; }

absl::StatusOr<const GpuTarget*> FindGpuTarget(std::string_view name) {
  std::string known;
  for (const GpuTarget& target : kTargets) {
    if (target.name == name) return &target;
    known += (known.empty() ? "" : ", ") + std::string(target.name);
  }
  return InvalidArgument("there is no GPU architecture '%s'; known: %s", name, known);
}

const GpuTarget* GpuTargetFor(int compute) {
  const GpuTarget* best = nullptr;
  for (const GpuTarget& target : kTargets) {
    if (target.compute <= compute) best = &target;
  }
  return best;
}

Occupancy ComputeOccupancy(const GpuTarget& target, const KernelResources& kernel) {
  if (kernel.block_threads < 1 || kernel.block_threads > target.max_block_threads ||
      kernel.registers > target.max_registers_per_thread ||
      kernel.shared_bytes > target.max_block_shared_bytes) {
    return {.limiter = kernel.shared_bytes > target.max_block_shared_bytes  ? "shared memory"
                       : kernel.registers > target.max_registers_per_thread ? "registers"
                                                                            : "warps"};
  }
  const int64_t warps = CeilDiv(kernel.block_threads, kWarp);
  const int64_t warp_registers = RoundUp(std::max(1, kernel.registers) * kWarp, kRegisterUnit);
  const int64_t warps_by_registers = target.registers / kSubCores / warp_registers * kSubCores;
  const int64_t block_shared =
      RoundUp(kernel.shared_bytes + target.reserved_shared_bytes, target.shared_granularity);
  const std::pair<int64_t, std::string_view> limits[] = {
      {warps_by_registers / warps, "registers"},
      {block_shared == 0 ? target.max_blocks : target.shared_bytes / block_shared, "shared memory"},
      {target.max_warps / warps, "warps"},
      {target.max_blocks, "blocks"},
  };
  const auto least =
      *std::min_element(std::begin(limits), std::end(limits),
                        [](const auto& a, const auto& b) { return a.first < b.first; });
  Occupancy occupancy;
  occupancy.blocks = static_cast<int>(least.first);
  occupancy.warps = static_cast<int>(least.first * warps);
  occupancy.share = static_cast<double>(occupancy.warps) / target.max_warps;
  occupancy.limiter = least.second;
  return occupancy;
}

}  // namespace duotone
