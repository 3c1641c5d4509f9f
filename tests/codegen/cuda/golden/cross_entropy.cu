#include "duotone/prelude.cuh"
#include "duotone/reduce.cuh"

extern "C" __global__ void __launch_bounds__(256)
kernel(const float* __restrict__ in0,
       const int* __restrict__ in1,
       float* __restrict__ out1,
       float* __restrict__ partial0,
       ErrorRecord* errors,
       int step) {
  const int t = static_cast<int>(threadIdx.x) % 8;
  const int group = static_cast<int>(threadIdx.x) / 8;
  const int q = t;
  float part0 = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < 128; i += 256) {
    const int x0 = in1[i];
#line 1 "kernel"
    const bool t0 = x0 >= 0;
    const bool t1 = x0 < 10;
    const bool t2 = t0 && t1;
    const float t3 = static_cast<float>(t2);
#line 1 "generated"
    part0 = part0 + t3;
  }
  DUOTONE_SHARED(float, exchange0, 8);
#line 5 "kernel"
  const float all0 = ReduceThreads<Sum, 256>(part0, exchange0);
#line 1 "generated"
#line 6 "kernel"
  const float t4 = Max(all0, 1.0f);
#line 1 "generated"
#line 7 "kernel"
  const float t5 = 1.0f / all0;
#line 1 "generated"
  float total0 = 0.0f;
  const int row = static_cast<int>(blockIdx.x) * 32 + group;
  const int x1 = in1[row];
  CheckIndex(x1, 10LL, t == 0 && x1 != (-100LL), errors, step, 8);
  Vec<float, 2> kept0;
  if (q < 5) {
    kept0 = Load<2>(in0 + 10 * row + 2 * q);
  }
  const int x2 = in1[row];
#line 9 "kernel"
  const bool t6 = x2 >= 0;
  const bool t7 = x2 < 10;
  const bool t8 = t6 && t7;
#line 1 "generated"
  const int x3 = in1[row];
#line 12 "kernel"
  const int t9 = t8 ? x3 : (-1);
#line 1 "generated"
  float part1 = (-Infinity());
  float part2 = 0.0f;
  if (q < 5) {
    const Vec<float, 2> x4 = kept0;
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      part1 = Max(part1, x4[v]);
#line 13 "kernel"
      const int t10 = static_cast<int>(2 * q + v);
      const bool t11 = t10 == t9;
      const float t12 = t11 ? x4[v] : 0.0f;
#line 1 "generated"
      part2 = part2 + t12;
    }
  }
#line 16 "kernel"
  const float row0 = ReduceThreads<Greatest, 8>(part1);
#line 1 "generated"
#line 17 "kernel"
  const float row1 = ReduceThreads<Sum, 8>(part2);
#line 1 "generated"
#line 18 "kernel"
  const float t13 = Abs(row0);
  const bool t14 = t13 == Infinity();
  const float t15 = t14 ? 0.0f : row0;
#line 1 "generated"
  float part3 = 0.0f;
  if (q < 5) {
    const Vec<float, 2> x5 = kept0;
#pragma unroll
    for (int v = 0; v < 2; ++v) {
#line 21 "kernel"
      const float t16 = x5[v] - t15;
      const float t17 = Exp(t16);
#line 1 "generated"
      part3 = part3 + t17;
    }
  }
#line 23 "kernel"
  const float row2 = ReduceThreads<Sum, 8>(part3);
#line 1 "generated"
#line 24 "kernel"
  const float t18 = Abs(row0);
  const bool t19 = t18 == Infinity();
  const float t20 = Log(row2);
  const float t21 = row0 + t20;
  const float t22 = t19 ? row0 : t21;
#line 1 "generated"
#line 29 "kernel"
  const float t23 = t22 - row1;
  const float t24 = t8 ? t23 : 0.0f;
  const float t25 = t24 / t4;
#line 1 "generated"
  total0 = total0 + t25;
  if (q < 5) {
    const Vec<float, 2> x6 = kept0;
    Vec<float, 2> y0;
#pragma unroll
    for (int v = 0; v < 2; ++v) {
#line 32 "kernel"
      const float t26 = x6[v] - t22;
      const float t27 = Exp(t26);
      const int t28 = static_cast<int>(2 * q + v);
      const bool t29 = t28 == t9;
      const float t30 = t29 ? 1.0f : 0.0f;
      const float t31 = t27 - t30;
      const float t32 = t31 * t5;
      const float t33 = t8 ? t32 : 0.0f;
#line 1 "generated"
      y0[v] = t33;
    }
    Store(out1 + 10 * row + 2 * q, y0);
  }
  DUOTONE_SHARED(float, exchange1, 8);
  const float block0 = ReduceThreads<Sum, 256>(t == 0 ? total0 : 0.0f, exchange1);
  if (threadIdx.x == 0) partial0[blockIdx.x] = block0;
}
