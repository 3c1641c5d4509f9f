// A table of CUDA driver functions over host memory: a GPU without a GPU, for tests of what drives
// one. Streams are queues that run when somebody waits for them, so that memory which is given away
// too early shows; kernels run through the host harness (tests/codegen/cuda/host_kernel.h).
//
//   HostGpu gpu({.compute = 80});
//   auto device = CreateCudaDevice({.driver = gpu.driver()});
//   HostCompiler compiler;  // for CompileProgram
//   ...
//   EXPECT_THAT(gpu.Problems(), IsEmpty());  // after the device is gone
#ifndef DUOTONE_TESTS_RUNTIME_CUDA_HOST_DRIVER_H_
#define DUOTONE_TESTS_RUNTIME_CUDA_HOST_DRIVER_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/compiler.h"
#include "runtime/cuda/driver.h"

namespace duotone::runtime {

struct HostGpuOptions {
  int devices = 1;
  int compute = 80;
  int64_t memory = int64_t{1} << 32;
  int64_t shared_bytes = 160 << 10;  // that a block may ask for
  bool graphs = true;
  bool reverse = false;  // blocks and threads run last to first
};

class HostGpu {
 public:
  explicit HostGpu(const HostGpuOptions& options = {});
  ~HostGpu();

  std::shared_ptr<const Driver> driver() const;
  // How often a function of the table was called: "GraphLaunch".
  int calls(std::string_view function) const;
  // How many kernels have run.
  int launches() const;
  int64_t used() const;
  // The `count`-th next call of a function (1: the next) gives this result instead. A bad address
  // and a failed launch stay: all later calls give them too.
  void Fail(std::string_view function, CuResult result, int count = 1);

  // Sentences about memory that leaked, was freed twice, used after it was freed or written beside,
  // about calls without a context and about kernels that went wrong.
  std::vector<std::string> Problems() const;

 private:
  struct Implementation;
  std::shared_ptr<Implementation> implementation_;
};

// The machine code of a kernel whose shared object is called `path`
// (tests/codegen/cuda/host_kernel.h).
std::string HostImage(const std::string& path);

// Compiles kernels for HostGpu. Their machine code is the name of a shared object.
class HostCompiler final : public KernelCompiler {
 public:
  absl::StatusOr<CompiledKernel> Compile(const Kernel& kernel,
                                         std::span<const SourceHeader> headers,
                                         std::string_view architecture) override;
  std::vector<std::string> options(const Kernel&, std::string_view) const override { return {}; }
  std::string identity() const override { return "the host's compiler"; }
};

}  // namespace duotone::runtime

#endif  // DUOTONE_TESTS_RUNTIME_CUDA_HOST_DRIVER_H_
