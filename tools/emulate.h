// Runs one step of a compiled program on an emulated GPU, for what `duotone kernels --emulate`
// shows: counters, and problems of the kernels.
#ifndef DUOTONE_TOOLS_EMULATE_H_
#define DUOTONE_TOOLS_EMULATE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "duotone/cuda_compile.h"
#include "runtime/cuda/kernel_report.h"
#include "runtime/emulator/emulated_driver.h"

namespace duotone::tools {

struct EmulatedStep {
  std::shared_ptr<emulator::EmulatedGpu> gpu;  // with the counters and problems
  absl::Status status;                         // of the run: problems of kernels
};

// State has its first values; inputs are random, indices within what they point into. The kernels
// have been compiled with line information (runtime::NvrtcOptions) if places are to be named.
absl::StatusOr<EmulatedStep> EmulateStep(const ir::Module& trained, const std::string& entry,
                                         const runtime::Program& program,
                                         const emulator::EmulatorOptions& options);

// Whether --counters has a value that it may have: "", place or instruction.
absl::Status CheckCounters(const std::string& counters);

// Puts the counters of all launches into the report.
absl::Status AddCounts(const emulator::Machine& machine, runtime::ProgramReport& report);

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_EMULATE_H_
