// An emulated GPU behind the table of CUDA driver functions (runtime/cuda/driver.h), so that the
// runtime drives it as it drives a real one.
//
//   DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<EmulatedGpu> gpu,
//                            EmulatedGpu::Create({.architecture = "sm_80"}));
//   auto device = CreateCudaDevice({.driver = gpu->driver(), .name = "emulated:sm_80"});
#ifndef DUOTONE_RUNTIME_EMULATOR_EMULATED_DRIVER_H_
#define DUOTONE_RUNTIME_EMULATOR_EMULATED_DRIVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/cuda/driver.h"
#include "runtime/emulator/machine.h"
#include "runtime/emulator/options.h"

namespace duotone::emulator {

class EmulatedGpu {
 public:
  // InvalidArgument for an architecture that is not emulated, with those that are.
  static absl::StatusOr<std::shared_ptr<EmulatedGpu>> Create(const EmulatorOptions& options);
  virtual ~EmulatedGpu() = default;

  // Keeps the GPU alive.
  virtual std::shared_ptr<const runtime::Driver> driver() = 0;
  // For reports, while nothing runs.
  virtual Machine& machine() = 0;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_EMULATED_DRIVER_H_
