// Tests that compile kernels need NVRTC. In CI its absence is a failure; on a machine of one's own
// the tests are skipped, and say why.
//
//   std::unique_ptr<KernelCompiler> compiler = NvrtcForTest();
//   if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
#ifndef DUOTONE_TESTS_RUNTIME_CUDA_NVRTC_TESTING_H_
#define DUOTONE_TESTS_RUNTIME_CUDA_NVRTC_TESTING_H_

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "gtest/gtest.h"
#include "runtime/cuda/compiler.h"

namespace duotone::runtime {

// Null where there is no NVRTC, which is a failure under DUOTONE_REQUIRE_NVRTC=1 or CI.
inline std::unique_ptr<KernelCompiler> NvrtcForTest(const NvrtcOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<KernelCompiler>> compiler = CreateNvrtcCompiler(options);
  if (compiler.ok()) return *std::move(compiler);
  const bool required =
      std::getenv("CI") != nullptr || std::getenv("DUOTONE_REQUIRE_NVRTC") != nullptr;
  if (required) {
    ADD_FAILURE() << compiler.status();
  } else {
    std::printf("%s\n", std::string(compiler.status().message()).c_str());
  }
  return nullptr;
}

}  // namespace duotone::runtime

#endif  // DUOTONE_TESTS_RUNTIME_CUDA_NVRTC_TESTING_H_
