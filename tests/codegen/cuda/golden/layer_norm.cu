#include "duotone/prelude.cuh"
#include "duotone/reduce.cuh"

extern "C" __global__ void __launch_bounds__(64)
kernel(const half* __restrict__ in0,
       const float* __restrict__ in1,
       const float* __restrict__ in2,
       half* __restrict__ out0,
       float* __restrict__ out1,
       float* __restrict__ out2) {
  const int t = static_cast<int>(threadIdx.x) % 16;
  const int group = static_cast<int>(threadIdx.x) / 16;
  const int q = t;
  const int row = static_cast<int>(blockIdx.x) * 4 + group;
  const auto kept0 = Load<8>(in0 + 128 * row + 8 * q);
  float part0 = 0.0f;
  const Vec<half, 8> x0 = kept0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    part0 = part0 + ToFloat(x0[v]);
  }
#line 1 "kernel"
  const float row0 = ReduceThreads<Sum, 16>(part0);
#line 1 "generated"
#line 2 "kernel"
  const float t0 = row0 / 128.0f;
#line 1 "generated"
  if (t == 0) out1[row] = t0;
  float part1 = 0.0f;
  const Vec<half, 8> x1 = kept0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
#line 3 "kernel"
    const float t1 = ToFloat(x1[v]) - t0;
    const float t2 = t1 * t1;
#line 1 "generated"
    part1 = part1 + t2;
  }
#line 5 "kernel"
  const float row1 = ReduceThreads<Sum, 16>(part1);
#line 1 "generated"
#line 6 "kernel"
  const float t3 = row1 / 128.0f;
  const float t4 = t3 + 1e-05f;
  const float t5 = Rsqrt(t4);
#line 1 "generated"
  if (t == 0) out2[row] = t5;
  const Vec<float, 8> x3 = Load<8>(in1 + 8 * q);
  const Vec<float, 8> x4 = Load<8>(in2 + 8 * q);
  const Vec<half, 8> x2 = kept0;
  Vec<half, 8> y0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
#line 9 "kernel"
    const float t6 = ToFloat(x2[v]) - t0;
    const float t7 = t6 * t5;
    const float t8 = t7 * x3[v];
    const float t9 = t8 + x4[v];
#line 1 "generated"
    y0[v] = FromFloat<half>(t9);
  }
  Store(out0 + 128 * row + 8 * q, y0);
}
