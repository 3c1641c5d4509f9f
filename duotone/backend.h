// What a session runs on: a device, and how an entry graph becomes a program for it. Not installed.
//
//   cpu, reference   codegen/cpu and the CPU device
//   cuda:N           duotone/cuda_compile.h and the CUDA device
//   emulated:sm_XY   the same over the driver of an emulated GPU (runtime/emulator)
#ifndef DUOTONE_DUOTONE_BACKEND_H_
#define DUOTONE_DUOTONE_BACKEND_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "duotone/options.h"
#include "duotone/session.h"
#include "ir/graph.h"
#include "runtime/cuda/compiler.h"
#include "runtime/cuda/driver.h"
#include "runtime/device.h"
#include "runtime/program.h"

namespace duotone::internal {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual runtime::Device& device() = 0;
  // Changes a module that has been through the training pipeline, before its state is allocated.
  virtual absl::Status PrepareModule(ir::Module&) { return absl::OkStatus(); }
  // The entry called `graph` for these sizes, ready to be loaded.
  virtual absl::StatusOr<runtime::Program> MakeProgram(const ir::Module& module,
                                                       std::string_view graph,
                                                       const ir::SizeBinding& sizes) = 0;
};

// What CUDA devices stand on, where it is not the machine's own: tests and emulations.
struct CudaParts {
  std::shared_ptr<const runtime::Driver> driver;
  std::shared_ptr<runtime::KernelCompiler> compiler;  // without a cache on disk
};

// For options.device, which CheckOptions has seen. A GPU that is not there is an error; nothing
// else is taken for it.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const Options& options,
                                                     const CudaParts& parts = {});

// Compile with a GPU of the caller's.
absl::StatusOr<TrainSession> CompileWith(const Model& model, const Options& options,
                                         const CudaParts& parts);

}  // namespace duotone::internal

#endif  // DUOTONE_DUOTONE_BACKEND_H_
