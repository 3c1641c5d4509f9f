#include "duotone/optimizer.cuh"

// By tensor: its first block, how many vectors it has, the function that updates it.
static __device__ const int kFirstBlock[7] = {0, 49, 50, 82, 83, 84, 85};
static __device__ const int kVectors[6] = {50176, 64, 32768, 64, 640, 2};
static __device__ const unsigned char kClass[6] = {0, 0, 0, 0, 0, 0};

DUOTONE_DEVICE AdamScalars<float> Scalars0(void* const* row) {
  const long long* const in5 = static_cast<const long long*>(row[5]);
  const float* const in6 = static_cast<const float*>(row[6]);
  const long long x0 = in5[0];
  const float x1 = in6[0];
  return MakeAdamScalars<float>(true, 0.9, 0.999, 1e-08, 0.01, x0, x1);
}

DUOTONE_DEVICE void Update0(void* const* row, const AdamScalars<float>& scalars, int q) {
  const float* const in0 = static_cast<const float*>(row[0]);
  const float* const in1 = static_cast<const float*>(row[1]);
  const float* const in2 = static_cast<const float*>(row[2]);
  const float* const in3 = static_cast<const float*>(row[3]);
  const float* const in4 = static_cast<const float*>(row[4]);
  float* const out0 = static_cast<float*>(row[7]);
  float* const out1 = static_cast<float*>(row[8]);
  float* const out2 = static_cast<float*>(row[9]);
  half* const out3 = static_cast<half*>(row[10]);
  const Vec<float, 8> x2 = Load<8>(in1 + 8 * q);
  const float x3 = in2[0];
  const Vec<float, 8> x4 = Load<8>(in0 + 8 * q);
  const Vec<float, 8> x5 = Load<8>(in3 + 8 * q);
  const Vec<float, 8> x6 = Load<8>(in4 + 8 * q);
  Vec<float, 8> y0;
  Vec<float, 8> y1;
  Vec<float, 8> y2;
  Vec<half, 8> y3;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
#line 1 "kernel"
    const float t0 = x2[v] * x3;
#line 1 "generated"
    const float gradient = t0;
    float weight = x4[v];
    float first_moment = x5[v];
    float second_moment = x6[v];
    AdamUpdate(scalars, gradient, weight, first_moment, second_moment);
    y0[v] = weight;
    y1[v] = first_moment;
    y2[v] = second_moment;
    y3[v] = FromFloat<half>(weight);
  }
  Store(out0 + 8 * q, y0);
  Store(out1 + 8 * q, y1);
  Store(out2 + 8 * q, y2);
  Store(out3 + 8 * q, y3);
}

extern "C" __global__ void __launch_bounds__(256, 1)
kernel(void* const* __restrict__ table, const unsigned char* guard) {
  if (*guard == 0) return;
  DUOTONE_SHARED(AdamScalars<float>, adam_float, 1);
  const int block = static_cast<int>(blockIdx.x);
  const int tensor = OptimizerTensor(kFirstBlock, 6, block);
  void* const* const row = table + 11 * tensor;
  if (threadIdx.x == 0) {
    switch (kClass[tensor]) {
      case 0: adam_float[0] = Scalars0(row); break;
    }
  }
  Barrier();
  const int first = static_cast<int>(block - kFirstBlock[tensor]) * 1024;
#pragma unroll 1
  for (int q = first + static_cast<int>(threadIdx.x); q < first + 1024; q += 256) {
    if (q >= kVectors[tensor]) break;
    switch (kClass[tensor]) {
      case 0: Update0(row, adam_float[0], q); break;
    }
  }
}
