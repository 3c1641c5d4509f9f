// Runs the threads of a CUDA launch on the host: every thread of a block is a fiber, blocks run one
// after the other. A barrier waits for all threads of the block, a shuffle for all lanes of the
// warp.
#ifndef DUOTONE_TESTS_CODEGEN_CUDA_HOST_THREADS_H_
#define DUOTONE_TESTS_CODEGEN_CUDA_HOST_THREADS_H_

#include <array>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "tests/codegen/cuda/host_api.h"

namespace duotone::codegen::cuda {

struct HostLaunch {
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t shared_bytes = 0;  // dynamic
  // The last block and the last thread run first. What a kernel computes must not depend on it.
  bool reverse = false;
};

// The functions that host_cuda.h calls.
const DuotoneHostApi* HostApi();

// Runs `thread` once per thread of the launch, with `variables` set. Shared memory holds garbage
// (NaN) at the start of each block. Errors are threads that wait for something that cannot come,
// and writes beside shared memory.
absl::Status RunHostThreads(const HostLaunch& launch, DuotoneHostVariables* variables,
                            const std::function<void()>& thread);

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_TESTS_CODEGEN_CUDA_HOST_THREADS_H_
