#include "duotone/prelude.cuh"
#include "duotone/reduce.cuh"

constexpr int kJobCount = 1;
static __constant__ const FinishJob kJobs[kJobCount] = {
    {0, 0, 0, -1, 0, 1, 1LL, 4LL},
};

extern "C" __global__ void __launch_bounds__(256)
kernel(const void* const* __restrict__ partials,
       void* const* __restrict__ results) {
  DUOTONE_SHARED(float, exchange_f32, 256);
  int low = 0;
  for (int high = kJobCount; high - low > 1;) {
    const int middle = (low + high) / 2;
    if (static_cast<int>(blockIdx.x) >= kJobs[middle].first_block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const FinishJob job = kJobs[low];
  int* const flag = nullptr;
  switch (job.variant) {
    case 0:
      Finish<Sum, float, float>(job, partials[job.partial], results[job.result], flag, 0.0f, exchange_f32);
      break;
  }
}
