// What an emulated GPU is told.
#ifndef DUOTONE_RUNTIME_EMULATOR_OPTIONS_H_
#define DUOTONE_RUNTIME_EMULATOR_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace duotone::emulator {

// In which order the warps of a block, and the blocks of a launch, get their turns. A kernel whose
// result depends on it has a race.
enum class Schedule : uint8_t {
  kRoundRobin,   // first to last, each until it waits or has had a turn of 16384 instructions
  kAdversarial,  // by chance (seeded), in turns of random length; atomics from the last lane
};

struct EmulatorOptions {
  std::string architecture = "sm_80";  // a row of base/gpu_target.h
  // Everything beyond the bounds and alignments that keep the host safe: uninitialised reads,
  // races, the lifetimes of buffers.
  bool checks = true;
  bool counters = true;
  Schedule schedule = Schedule::kRoundRobin;
  uint64_t seed = 1;  // of kAdversarial and of perturbed approximations
  // Results of approximating instructions (ex2.approx, ...) move within the documented bounds
  // instead of being rounded correctly.
  bool perturb_approximations = false;
  // How many products one addition of the tensor core takes on sm_75, where publications disagree:
  // 8 or 4.
  int turing_group = 8;
  // Warp instructions of one block, after which a kernel is taken to be in an endless loop.
  int64_t instruction_budget = int64_t{1} << 26;
  int threads = 0;  // of the host; 0: as many as it runs at once
  int64_t memory_bytes = int64_t{8} << 30;
};

// An architecture and words behind it: "sm_80", "sm_80,unchecked", "sm_90,adversarial,seed=7". An
// error names what is unknown and what there is.
absl::StatusOr<EmulatorOptions> ParseEmulatorOptions(std::string_view text);
// The words as a Markdown table, for docs/emulator.md.
std::string EmulatorOptionsMarkdown();

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_OPTIONS_H_
