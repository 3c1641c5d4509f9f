// The copy of a buffer that is only made where a guard is true: an update that cannot be done in
// place. One 16-byte vector per thread; the padding of buffers belongs to them. The target may be
// the guard itself, whose other readers have nothing to copy.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/integer.h"
#include "codegen/cuda/kernel.h"

namespace duotone::codegen::cuda {

GeneratedKernel GenerateGuardedCopy(int64_t bytes) {
  constexpr int64_t kVector = 16;
  constexpr int64_t kThreads = 256;
  const int64_t vectors = CeilDiv(bytes, kVector);
  GeneratedKernel kernel;
  kernel.family = kCopyFamily;
  kernel.source = absl::StrFormat(
      R"(#include "duotone/prelude.cuh"

extern "C" __global__ void __launch_bounds__(%d)
kernel(const int* __restrict__ from, int* to, const bool* guard) {
  if (!*guard) return;
  const long long i = static_cast<long long>(blockIdx.x) * %d + threadIdx.x;
  if (i < %d) Store(to + 4 * i, Load<4>(from + 4 * i));
}
)",
      kThreads, kThreads, vectors);
  kernel.grid = {std::max<int64_t>(1, CeilDiv(vectors, kThreads)), 1, 1};
  kernel.block = {kThreads, 1, 1};
  kernel.arguments = {{.kind = Argument::Kind::kOperand, .index = 0},
                      {.kind = Argument::Kind::kResult, .index = 0},
                      {.kind = Argument::Kind::kOperand, .index = 1}};
  return kernel;
}

}  // namespace duotone::codegen::cuda
