#include "duotone/prelude.cuh"
#include "duotone/reduce.cuh"

extern "C" __global__ void __launch_bounds__(64)
kernel(const half* __restrict__ in0,
       half* __restrict__ out0) {
  const int t = static_cast<int>(threadIdx.x) % 16;
  const int group = static_cast<int>(threadIdx.x) / 16;
  const int q = t;
  const int row = static_cast<int>(blockIdx.x) * 4 + group;
  const auto kept0 = Load<8>(in0 + 128 * row + 8 * q);
  float part0 = (-Infinity());
  const Vec<half, 8> x0 = kept0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    part0 = Max(part0, ToFloat(x0[v]));
  }
#line 1 "kernel"
  const float row0 = ReduceThreads<Greatest, 16>(part0);
#line 1 "generated"
#line 2 "kernel"
  const bool t0 = row0 == (-Infinity());
  const float t1 = t0 ? 0.0f : row0;
#line 1 "generated"
  float part1 = 0.0f;
  Vec<float, 8> held0;
  const Vec<half, 8> x1 = kept0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
#line 4 "kernel"
    const float t2 = ToFloat(x1[v]) - t1;
    const float t3 = Exp(t2);
#line 1 "generated"
    held0[v] = t3;
    part1 = part1 + t3;
  }
#line 6 "kernel"
  const float row1 = ReduceThreads<Sum, 16>(part1);
#line 1 "generated"
#line 7 "kernel"
  const bool t4 = row0 == (-Infinity());
  const float t5 = t4 ? 1.0f : row1;
  const float t6 = 1.0f / t5;
#line 1 "generated"
  Vec<half, 8> y0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
#line 10 "kernel"
    const float t7 = held0[v] * t6;
#line 1 "generated"
    y0[v] = FromFloat<half>(t7);
  }
  Store(out0 + 128 * row + 8 * q, y0);
}
