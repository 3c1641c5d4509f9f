#include "duotone/prelude.cuh"

extern "C" __global__ void __launch_bounds__(1)
kernel(const float* in0,
       const long long* in1,
       const unsigned char* __restrict__ in2,
       const int* in3,
       const long long* __restrict__ in4,
       const long long* __restrict__ in5,
       const long long* in6,
       float* out0,
       long long* out1,
       unsigned char* out2,
       unsigned char* out3,
       unsigned char* out4,
       float* out5,
       int* out6,
       long long* out7,
       long long* out8,
       long long* out9,
       float* out10,
       long long* out11) {
  const float x0 = in0[0];
  const long long x1 = in1[0];
  const unsigned char x2 = in2[0];
  const int x3 = in3[0];
  const long long x4 = in4[0];
  const long long x5 = in5[0];
  const long long x6 = in6[0];
#line 1 "kernel"
  const float t0 = 1.0f / x0;
  const long long t1 = Add(x1, 1LL);
  const bool t2 = t0 > 0.0f;
  const bool t3 = IsFinite(t0);
  const bool t4 = t2 && t3;
  const bool t5 = (x2 != 0) && t4;
  const bool t6 = !t5;
  const bool t7 = !t4;
  const LossScale t8 = UpdateLossScale(x0, x3, (x2 != 0), 2.0, 0.5, 2000LL, 0.0, static_cast<double>(Infinity()));
  const long long t9 = Add(x4, 1LL);
  const long long t10 = t6 ? t9 : x4;
  const long long t11 = Add(x5, 1LL);
  const long long t12 = t6 ? t11 : 0LL;
  const long long t13 = Add(x6, 1LL);
  const float t14 = ConstantRate(x6, 0.001, 0LL);
  const long long t15 = t5 ? t13 : x6;
#line 1 "generated"
  out0[0] = t0;
  out1[0] = t1;
  out2[0] = static_cast<unsigned char>(t5);
  out3[0] = static_cast<unsigned char>(t6);
  out4[0] = static_cast<unsigned char>(t7);
  out5[0] = t8.scale;
  out6[0] = t8.tracker;
  out7[0] = t10;
  out8[0] = t12;
  out9[0] = t13;
  out10[0] = t14;
  out11[0] = t15;
}
