// What can be said of a compiled program without running it: per kernel what it takes of the
// machine, what it consists of and moves, and which part of the machine will limit it; and the sums
// of a step. A model finds limiters and regressions; it is no stopwatch.
//
//   DUOTONE_ASSIGN_OR_RETURN(const ProgramReport report, MakeProgramReport(program, *target));
//   std::fputs(ToText(report).c_str(), stdout);
#ifndef DUOTONE_RUNTIME_CUDA_KERNEL_REPORT_H_
#define DUOTONE_RUNTIME_CUDA_KERNEL_REPORT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/gpu_target.h"
#include "runtime/cuda/sass.h"
#include "runtime/program.h"

namespace duotone::runtime {

// One kernel's machine code.
struct KernelCode {
  std::string name;  // "k0": its place in the program
  int registers = 0;
  int barriers = 0;
  int64_t local_bytes = 0;   // frame of a thread: spills and arrays with computed indices
  int64_t stack_bytes = 0;   // the frame with those of called functions
  int64_t shared_bytes = 0;  // static
  int64_t constant_bytes = 0;
  int64_t code_bytes = 0;
  SassSummary sass;

  int64_t spill_bytes() const { return sass.all.spill_load_bytes + sass.all.spill_store_bytes; }
  // Of the instructions of the main loop, or of all where there is no loop.
  double tensor_share() const;
};

// Predicted times in microseconds, each as if the kernel did nothing else; `total` is the longest
// with the time between kernels added.
struct PredictedTerms {
  double dram = 0;   // every distinct byte once, slowed where too few bytes are in flight
  double l2 = 0;     // every byte that an instruction reads or writes
  double issue = 0;  // instructions
  double fp32 = 0;
  double integer = 0;
  double mufu = 0;    // exp, rsqrt, conversions: a quarter of the rate or less
  double shared = 0;  // traffic of shared memory; bank conflicts where they have been counted
  double tensor = 0;
  double launch = 0;  // from the end of the kernel before to the first load
  double total = 0;
};

// What a launch did when the emulator ran it (runtime/emulator/counter_report.h), in instructions
// of PTX and of warps where nothing else is said.
struct CountedWork {
  double instructions = 0;  // all that are issued
  double skipped = 0;       // those of them whose guard is false in all lanes
  double lanes = 0;         // active ones, summed over the instructions
  double fp32 = 0;
  double integer = 0;
  double mufu = 0;
  double barriers = 0;
  // Global memory: accesses of a warp, 32-byte sectors they touch, and those that the bytes would
  // fill.
  double requests = 0;
  double sectors = 0;
  double ideal_sectors = 0;
  // Shared memory: accesses of a warp, and cycles of the banks for them; ideal: without conflicts.
  double shared_requests = 0;
  double shared_ways = 0;
  double ideal_shared_ways = 0;
  double tensor_flops = 0;
  double bytes_moved = 0;  // by lanes, of global, shared and local memory
  // Each distinct byte of global memory once; negative: not known.
  double bytes_read = -1;
  double bytes_written = -1;
};

// One launch of a step.
struct LaunchReport {
  int step = 0;    // in Program::steps
  int kernel = 0;  // in ProgramReport::kernels
  std::string node;
  std::string family;
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t dynamic_shared_bytes = 0;
  Occupancy occupancy;
  double waves = 0;
  double bytes_read = 0;
  double bytes_written = 0;
  double flops = 0;
  double trips = 1;                    // of the main loop, estimated from bytes and FLOPs
  std::optional<CountedWork> counted;  // then `us` follows from it instead of `trips`
  PredictedTerms us;
  std::string_view limiter;  // "dram", "latency", "issue", ...

  double bytes() const { return bytes_read + bytes_written; }
  // FLOPs per byte.
  double intensity() const { return bytes() > 0 ? flops / bytes() : 0; }
};

struct FamilyTotals {
  std::string family;
  int launches = 0;
  double bytes = 0;
  double flops = 0;
  double us = 0;
};

struct ProgramReport {
  std::string program;  // the entry's name
  const GpuTarget* target = nullptr;
  std::vector<KernelCode> kernels;     // those of the program, in its order
  std::vector<LaunchReport> launches;  // in the order of the step
  std::vector<FamilyTotals> families;  // longest first
  FamilyTotals total;
  int fills = 0;
  int copies = 0;
  double fill_and_copy_bytes = 0;
  std::string_view limiter;  // of the launches that together take longest
};

// The kernels must have been compiled for `target`.
absl::StatusOr<ProgramReport> MakeProgramReport(const Program& program, const GpuTarget& target);

// Puts what the emulator counted into the launch of this step of the program: its predicted times
// and the sums are made anew from it. NotFound if the step is no launch.
absl::Status AddCounts(ProgramReport& report, int step, const CountedWork& counted);

// Tables for people: a row per launch, sums by family, and what is worth a second look.
std::string ToText(const ProgramReport& report);

// The terms of a prediction but `launch` and `total`, by name, for tables and JSON.
std::array<std::pair<std::string_view, double>, 8> TermsOf(const PredictedTerms& us);

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_KERNEL_REPORT_H_
