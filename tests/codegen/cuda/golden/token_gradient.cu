#include "duotone/prelude.cuh"

extern "C" __global__ void __launch_bounds__(64)
kernel(const int* __restrict__ in0,
       const float* __restrict__ in1,
       float* __restrict__ out0,
       int* flag1,
       ErrorRecord* errors,
       int step) {
  const int lane = threadIdx.x % 32;
  const int warp = blockIdx.x * 2 + threadIdx.x / 32;
  const int first = warp;
  const int c = lane;
  const bool active = c < 16;
  Vec<float, 8> sum[1] = {};
  {
    const int row = first;
    if (row < 65 && active) {
#pragma unroll
      for (int v = 0; v < 8; ++v) {
        sum[0][v] = 0.0f;
      }
    }
  }
  for (int i = 0; i < 2048; i += 32) {
    const int n = i + lane;
    const int x0 = LoadIf(n < 2048, in0 + n);
    const int index = x0;
    const bool fits = n < 2048 && CheckIndex(index, 65LL, n < 2048 && warp == 0, errors, step, 1);
    unsigned int matches = Ballot(fits && index >= first && index < first + 1);
    while (matches != 0) {
      int from[4];
      Vec<float, 8> x1[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        from[u] = LowestBit(matches);
        matches &= matches - 1;
      }
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        const int m = i + from[u];
        if (from[u] >= 0 && active) {
          x1[u] = Load<8>(in1 + 128 * m + 8 * c);
        }
      }
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        if (from[u] >= 0 && active) {
#pragma unroll
          for (int v = 0; v < 8; ++v) {
            sum[0][v] = sum[0][v] + x1[u][v];
          }
        }
      }
    }
  }
  bool finite1 = true;
  {
    const int row = first;
    if (row < 65 && active) {
      Vec<float, 8> y0;
#pragma unroll
      for (int v = 0; v < 8; ++v) {
        y0[v] = sum[0][v];
        finite1 &= IsFinite(sum[0][v]);
      }
      Store(out0 + 128 * row + 8 * c, y0);
    }
  }
  if (!finite1) AtomicAnd(flag1, 0);
}
