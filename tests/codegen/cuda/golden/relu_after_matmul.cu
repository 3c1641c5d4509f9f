#include "duotone/matmul.cuh"

extern "C" __global__ void __launch_bounds__(64, 1)
kernel(const half* __restrict__ in0,
       const half* __restrict__ in1,
       const half* __restrict__ in2,
       half* __restrict__ out0) {
  using Tile = MatMulTile<float, 32, 32, 16, 4, 4>;
  using Shape = MatMulShape<1, 128, 512, 512>;
  const auto a = MakeDirectOperand<Along::kInner, 8>(
      [&](int batch, int row, int q) { return in0 + 512 * row + 8 * q; });
  const auto b = MakeDirectOperand<Along::kOuter, 8>(
      [&](int batch, int q, int k) { return in1 + 512 * k + 8 * q; });
  const auto epilogue = MakeEpilogue<8>(
      [&](int batch, int row, int q, const float (&sum)[8]) {
        const Vec<half, 8> x0 = Load<8>(in2 + 8 * q);
        Vec<half, 8> y0;
#pragma unroll
        for (int v = 0; v < 8; ++v) {
#line 1 "kernel"
          const float t0 = sum[v] + ToFloat(x0[v]);
          const float t1 = Relu(t0);
#line 1 "generated"
          y0[v] = FromFloat<half>(t1);
        }
        Store(out0 + 512 * row + 8 * q, y0);
      });
#line 3 "kernel"
  MatMulSimt<Tile, Shape>(a, b, epilogue, NoColumnSums());
#line 1 "generated"
}
