// An emulated GPU: memory, modules of PTX, launches one after the other, problems and counters.
// What the driver table (runtime/emulator/emulated_driver.h), `duotone run-ptx` and tests stand on.
//
//   Machine machine({.architecture = "sm_80"});
//   DUOTONE_ASSIGN_OR_RETURN(const LoadedModule* module, machine.Load(ptx));
//   DUOTONE_ASSIGN_OR_RETURN(const Executable* kernel, machine.Find(*module, "kernel"));
//   DUOTONE_ASSIGN_OR_RETURN(uint64_t x, machine.memory().Allocate(1024, "x"));
//   DUOTONE_RETURN_IF_ERROR(machine.Run({.kernel = kernel, .grid = {4, 1, 1},
//                                        .block = {64, 1, 1}, .parameters = BytesOf(x)}));
//   machine.problems().ToString()
//
// Not for several threads at once.
#ifndef DUOTONE_RUNTIME_EMULATOR_MACHINE_H_
#define DUOTONE_RUNTIME_EMULATOR_MACHINE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/gpu_target.h"
#include "runtime/cuda/driver.h"
#include "runtime/emulator/code.h"
#include "runtime/emulator/counters.h"
#include "runtime/emulator/global_memory.h"
#include "runtime/emulator/problem.h"

namespace duotone::emulator {

// Limits of launches, from the CUDA programming guide ("Technical Specifications per Compute
// Capability").
inline constexpr std::array<int64_t, 3> kMaxGridSize = {2147483647, 65535, 65535};
inline constexpr std::array<int64_t, 3> kMaxBlockSize = {1024, 1024, 64};

struct LoadedModule {
  PtxModule ptx;
  std::vector<uint64_t> addresses;  // by variable: in global memory, or 0
  std::map<std::string, std::unique_ptr<Executable>> kernels;  // translated when first asked for
};

struct LaunchRequest {
  const LoadedModule* module = nullptr;
  const Executable* kernel = nullptr;
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t shared_bytes = 0;         // dynamic
  std::vector<uint8_t> parameters;  // Executable::parameter_bytes
  std::shared_ptr<const runtime::LaunchNote> note;
};

// All launches of one kernel for one step of a program.
struct LaunchRecord {
  const LoadedModule* module = nullptr;
  const Executable* kernel = nullptr;
  std::shared_ptr<const runtime::LaunchNote> note;  // of the first; may be null
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t launches = 0;
  int64_t instructions = 0;                   // of warps
  double seconds = 0;                         // of the host's processor, summed over threads
  std::vector<InstructionCounters> counters;  // by code, summed; empty where not counted
  // Distinct bytes of global memory, summed over the launches; negative: not known.
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
};

class Machine {
 public:
  // The architecture must be a row of base/gpu_target.h (CHECKed): ask FindGpuTarget before.
  explicit Machine(const EmulatorOptions& options);
  ~Machine();

  const EmulatorOptions& options() const { return options_; }
  const GpuTarget& target() const { return *target_; }
  GlobalMemory& memory() { return *memory_; }
  ProblemLog& problems() { return problems_; }

  // Parses; gives the module's variables memory. Modules stay until Unload.
  absl::StatusOr<LoadedModule*> Load(std::string_view ptx);
  absl::StatusOr<LoadedModule*> Load(PtxModule ptx);
  void Unload(LoadedModule* module);
  // NotFound says which entries there are.
  absl::StatusOr<const Executable*> Find(LoadedModule& module, const std::string& name);

  // What is wrong with a request, as a sentence.
  absl::Status Check(const LaunchRequest& request) const;
  // Runs a launch to its end. An error says what is wrong with the request. What goes wrong within
  // is in problems().
  absl::Status Run(const LaunchRequest& request);

  // In the order of first launches; modules that are gone keep theirs.
  const std::vector<std::unique_ptr<LaunchRecord>>& records() const { return records_; }

 private:
  absl::Status AllocateVariables(LoadedModule& module);
  void FreeVariables(const LoadedModule& module);
  LaunchRecord& RecordFor(const LaunchRequest& request);

  EmulatorOptions options_;
  const GpuTarget* target_;
  std::unique_ptr<GlobalMemory> memory_;
  ProblemLog problems_;
  std::vector<std::unique_ptr<LoadedModule>> modules_;
  std::vector<std::unique_ptr<LoadedModule>> unloaded_;  // that records speak of
  std::vector<std::unique_ptr<LaunchRecord>> records_;
  std::map<std::pair<const Executable*, int>, LaunchRecord*> record_of_;  // by kernel and step
  uint32_t launches_ = 0;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_MACHINE_H_
