// Generated CUDA kernels on the CPU: compiles the text with the host's C++ compiler (host_cuda.h)
// and runs launches (host_threads.h).
//
//   auto kernel = HostKernel::Compile("kernel", generated.source, KernelHeaders());
//   float* x = ...; int n = 5;
//   void* arguments[] = {&x, &n};
//   absl::Status run = (*kernel)->Launch({.grid = {4, 1, 1}, .block = {128, 1, 1}}, arguments);
#ifndef DUOTONE_TESTS_CODEGEN_CUDA_HOST_KERNEL_H_
#define DUOTONE_TESTS_CODEGEN_CUDA_HOST_KERNEL_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/kernel.h"
#include "tests/codegen/cuda/host_threads.h"

namespace duotone::codegen::cuda {

// The text of one kernel and the name of its extern "C" function.
struct HostSource {
  std::string_view entry;
  std::string_view source;
};

class HostKernel {
 public:
  // Compiles the extern "C" function `entry` of `source`. Shared objects are kept in the temporary
  // folder under a hash of all that they depend on, so equal texts compile once, also in later
  // runs. The compiler's messages are the error.
  static absl::StatusOr<std::shared_ptr<const HostKernel>> Compile(
      std::string_view entry, std::string_view source,
      std::span<const runtime::SourceHeader> headers);
  // The shared object of such a kernel without loading it.
  static absl::StatusOr<std::string> CompileToFile(std::string_view entry, std::string_view source,
                                                   std::span<const runtime::SourceHeader> headers);
  // The same for several kernels in one run of the compiler, which takes far less time than one
  // after the other: their paths, in order.
  static absl::StatusOr<std::vector<std::string>> CompileToFile(
      std::span<const HostSource> sources, std::span<const runtime::SourceHeader> headers);
  // `path` is one of CompileToFile.
  static absl::StatusOr<std::shared_ptr<const HostKernel>> Load(const std::string& path);

  ~HostKernel();
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;

  // How many parameters the kernel has.
  int parameters() const { return call_(index_, nullptr); }
  // `arguments` point to the values of the parameters, as for cuLaunchKernel.
  absl::Status Launch(const HostLaunch& launch, void* const* arguments) const;

 private:
  HostKernel() = default;

  void* library_ = nullptr;
  int index_ = 0;  // in its shared object
  int (*call_)(int kernel, void* const* arguments) = nullptr;
  DuotoneHostVariables* variables_ = nullptr;
};

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_TESTS_CODEGEN_CUDA_HOST_KERNEL_H_
