// An NVIDIA GPU as a device, over a table of driver functions (runtime/cuda/driver.h): the
// machine's libcuda, an emulated one, or a test's.
//
//   DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, CreateCudaDevice({.ordinal = 0}));
//   CompileProgram(program, device->architecture(), compiler, &cache, 0);  //
//   runtime/cuda/compiler.h device->Load(...)
//
// A program's steps are kernel launches, copies and fills without guards; its kernels are compiled.
// The first run records them as one CUDA graph, later runs replay it. Nothing waits for the device
// but Download and Synchronize.
//
// An index out of range in the data does not stop a run that is under way: the error is reported by
// the next Synchronize or Download, and what the run has written until then is kept.
#ifndef DUOTONE_RUNTIME_CUDA_CUDA_DEVICE_H_
#define DUOTONE_RUNTIME_CUDA_CUDA_DEVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace duotone::runtime {

struct CudaDeviceOptions {
  std::shared_ptr<const Driver> driver;  // none: that of the machine (LoadDriver)
  int ordinal = 0;
  std::string name;        // "cuda:0" by default
  bool use_graphs = true;  // where the driver has them
  // Gets lines such as "cuda:0 (A100): program @step needs 1.2 GB ...", when a program is loaded.
  std::function<void(const std::string&)> log;
};

// Errors are sentences: no driver, no device of that number, one that is too old.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const CudaDeviceOptions& options = {});

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_CUDA_DEVICE_H_
