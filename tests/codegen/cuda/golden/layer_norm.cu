#include "duotone/prelude.cuh"
#include "duotone/reduce.cuh"

extern "C" __global__ void __launch_bounds__(64)
kernel(const float* __restrict__ in0,
       const int* __restrict__ in1,
       const float* __restrict__ in2,
       const float* __restrict__ in3,
       const float* __restrict__ in4,
       float* __restrict__ out0,
       float* __restrict__ out1,
       float* __restrict__ out2,
       half* __restrict__ out3,
       ErrorRecord* errors,
       int step) {
  const int t = static_cast<int>(threadIdx.x) % 16;
  const int group = static_cast<int>(threadIdx.x) / 16;
  const int q = t;
  const int row = static_cast<int>(blockIdx.x) * 4 + group;
  float part0 = 0.0f;
  Vec<float, 8> held0;
  const int x0 = in1[row];
  const Vec<float, 8> x2 = Load<8>(in2 + 128 * (row % 128) + 8 * q);
#line 2 "kernel"
  const bool g0_ok = CheckIndex(x0, 65LL, true, errors, step, 1);
  const int g0 = g0_ok ? static_cast<int>(x0) : 0;
  const Vec<float, 8> x1 = LoadIf<8>(g0_ok, in0 + 128 * g0 + 8 * q);
  Vec<float, 8> y0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    held0[v] = x1[v];
#line 4 "kernel"
    const float t0 = x1[v] + x2[v];
    part0 = part0 + t0;
    y0[v] = t0;
  }
  Store(out0 + 128 * row + 8 * q, y0);
#line 5 "kernel"
  const float row0 = ReduceThreads<Sum, 16>(part0);
#line 6 "kernel"
  const float t1 = row0 / 128.0f;
  if (t == 0) out1[row] = t1;
  float part1 = 0.0f;
  const Vec<float, 8> x3 = Load<8>(in2 + 128 * (row % 128) + 8 * q);
#pragma unroll
  for (int v = 0; v < 8; ++v) {
#line 7 "kernel"
    const float t2 = held0[v] + x3[v];
    const float t3 = t2 - t1;
    const float t4 = t3 * t3;
    part1 = part1 + t4;
  }
#line 10 "kernel"
  const float row1 = ReduceThreads<Sum, 16>(part1);
#line 11 "kernel"
  const float t5 = row1 / 128.0f;
  const float t6 = t5 + 1e-05f;
  const float t7 = Rsqrt(t6);
  if (t == 0) out2[row] = t7;
  const Vec<float, 8> x4 = Load<8>(in2 + 128 * (row % 128) + 8 * q);
  const Vec<float, 8> x5 = Load<8>(in3 + 8 * q);
  const Vec<float, 8> x6 = Load<8>(in4 + 8 * q);
  Vec<half, 8> y1;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
#line 14 "kernel"
    const float t8 = held0[v] + x4[v];
    const float t9 = t8 - t1;
    const float t10 = t9 * t7;
    const float t11 = t10 * x5[v];
    const float t12 = t11 + x6[v];
    y1[v] = FromFloat<half>(t12);
  }
  Store(out3 + 128 * row + 8 * q, y1);
}
