#include "duotone/prelude.cuh"
#include "duotone/reduce.cuh"

extern "C" __global__ void __launch_bounds__(256)
kernel(const float* __restrict__ in0,
       const float* __restrict__ in1,
       const float* __restrict__ in2,
       const float* __restrict__ in3,
       const bf16* __restrict__ in4,
       const float* __restrict__ in5,
       float* __restrict__ out2,
       float* __restrict__ partial0,
       float* __restrict__ partial1) {
  const int t = static_cast<int>(threadIdx.x) % 16;
  const int group = static_cast<int>(threadIdx.x) / 16;
  const int q = t;
  Vec<float, 8> total0 = Filled<8>(0.0f);
  Vec<float, 8> total1 = Filled<8>(0.0f);
  const int row = static_cast<int>(blockIdx.x) * 16 + group;
  const auto kept0 = Load<8>(in0 + 128 * row + 8 * q);
  const auto kept1 = Load<8>(in4 + 128 * row + 8 * q);
  const float x0 = in3[row];
  const float x1 = in2[row];
  float part0 = 0.0f;
  float part1 = 0.0f;
  const Vec<float, 8> x3 = Load<8>(in1 + 8 * q);
  const Vec<bf16, 8> x2 = kept1;
  const Vec<float, 8> x4 = kept0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
#line 1 "kernel"
    const float t0 = ToFloat(x2[v]) * x3[v];
#line 1 "generated"
    part0 = part0 + t0;
#line 2 "kernel"
    const float t1 = x4[v] - x1;
    const float t2 = t1 * x0;
    const float t3 = t0 * t2;
#line 1 "generated"
    part1 = part1 + t3;
#line 5 "kernel"
    const float t4 = ToFloat(x2[v]) * t2;
#line 1 "generated"
    total0[v] = total0[v] + t4;
    total1[v] = total1[v] + ToFloat(x2[v]);
  }
#line 6 "kernel"
  const float row0 = ReduceThreads<Sum, 16>(part0);
#line 1 "generated"
#line 7 "kernel"
  const float row1 = ReduceThreads<Sum, 16>(part1);
#line 1 "generated"
#line 8 "kernel"
  const float t5 = row0 / 128.0f;
#line 1 "generated"
#line 9 "kernel"
  const float t6 = row1 / 128.0f;
#line 1 "generated"
  const Vec<float, 8> x6 = Load<8>(in1 + 8 * q);
  const Vec<float, 8> x8 = Load<8>(in5 + 128 * row + 8 * q);
  const Vec<bf16, 8> x5 = kept1;
  const Vec<float, 8> x7 = kept0;
  Vec<float, 8> y0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
#line 10 "kernel"
    const float t7 = ToFloat(x5[v]) * x6[v];
    const float t8 = t7 - t5;
    const float t9 = x7[v] - x1;
    const float t10 = t9 * x0;
    const float t11 = t10 * t6;
    const float t12 = t8 - t11;
    const float t13 = x0 * t12;
    const float t14 = t13 + x8[v];
#line 1 "generated"
    y0[v] = t14;
  }
  Store(out2 + 128 * row + 8 * q, y0);
  DUOTONE_SHARED(float, columns0, 2048);
  total0 = ReduceGroups<Sum, 16, 16>(total0, columns0);
  if (group == 0) Store(partial0 + 128 * static_cast<int>(blockIdx.x) + 8 * q, total0);
  total1 = ReduceGroups<Sum, 16, 16>(total1, columns0);
  if (group == 0) Store(partial1 + 128 * static_cast<int>(blockIdx.x) + 8 * q, total1);
}
