// Composites over rows: softmax, log_softmax, logsumexp, layer_norm and their gradients.
#include "tests/ir/op_checking.h"

namespace duotone::ir {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

SoftmaxAttrs Along(int64_t axis, std::optional<DType> out = std::nullopt) {
  return {.axis = axis, .out = out};
}

ReduceAttrs Over(std::vector<int64_t> axes, bool keep_dims = false,
                 std::optional<DType> out = std::nullopt) {
  ReduceAttrs attrs;
  attrs.axes.assign(axes.begin(), axes.end());
  attrs.keep_dims = keep_dims;
  attrs.out = out;
  return attrs;
}

TEST(SoftmaxTest, OddsOfOneTwoAndFive) {
  const Array x = F32({1, 3}, {0, std::log(2.0), std::log(5.0)});
  const Array y = Eval(Op::kSoftmax, Along(1), {x});
  EXPECT_NEAR(y.Get(0), 1 / 8.0, 1e-7);
  EXPECT_NEAR(y.Get(1), 2 / 8.0, 1e-7);
  EXPECT_NEAR(y.Get(2), 5 / 8.0, 1e-7);
  const Array log = Eval(Op::kLogSoftmax, Along(1), {x});
  EXPECT_NEAR(log.Get(0), -std::log(8.0), 3e-7);
}

TEST(SoftmaxTest, LargeValuesDoNotOverflow) {
  const Array x = F32({2}, {1000, 1000});
  EXPECT_THAT(Values(Eval(Op::kSoftmax, Along(0), {x})), Each(0.5));
  EXPECT_NEAR(Eval(Op::kLogSoftmax, Along(0), {x}).Get(0), -std::log(2.0), 1e-6);
  EXPECT_NEAR(Eval(Op::kLogSumExp, Over({0}), {x}).Get(0), 1000 + std::log(2.0), 1e-4);
}

TEST(SoftmaxTest, WorksAlongAnyAxisAndLongLines) {
  for (auto shape : {std::vector<int64_t>{2, 3000}, {3000, 2}, {2, 1500, 3}}) {
    const int64_t axis =
        shape == std::vector<int64_t>{2, 3000} ? 1 : static_cast<int64_t>(shape.size()) - 2;
    const Array x = NoiseArray(DType::kF32, shape);
    const Array y = Eval(Op::kSoftmax, Along(axis), {x});
    int64_t inner = 1;
    for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
    double sum = 0, exps = 0;
    for (int64_t i = 0; i < shape[axis]; ++i) {
      sum += y.Get(i * inner);
      exps += std::exp(x.Get(i * inner));
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_NEAR(y.Get(7 * inner), std::exp(x.Get(7 * inner)) / exps, 1e-9);
    EXPECT_NEAR(Eval(Op::kLogSumExp, Over({axis}), {x}).Get(0), std::log(exps), 2e-6);
  }
}

// amp.md D6: a fully masked row is not NaN.
TEST(SoftmaxTest, AMaskedRowGivesZeros) {
  const Array x = F32({2, 3}, {-kInf, -kInf, -kInf, 0, -kInf, -kInf});
  EXPECT_THAT(Values(Eval(Op::kSoftmax, Along(1), {x})), ElementsAre(0, 0, 0, 1, 0, 0));
  EXPECT_THAT(Values(Eval(Op::kLogSoftmax, Along(1), {x})),
              ElementsAre(-kInf, -kInf, -kInf, 0, -kInf, -kInf));
  EXPECT_THAT(Values(Eval(Op::kLogSumExp, Over({1}), {x})), ElementsAre(-kInf, 0));
  const Array g = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Array y = Eval(Op::kSoftmax, Along(1), {x});
  EXPECT_THAT(Values(Eval(Op::kSoftmaxGrad, Along(1), {y, g})), Each(0));
}

TEST(SoftmaxTest, InfinityAndNaNGiveNaN) {
  for (double bad : {kInf, kNaN}) {
    for (Op op : {Op::kSoftmax, Op::kLogSoftmax}) {
      for (double value : Values(Eval(op, Along(0), {F32({3}, {0, bad, 1})}))) {
        EXPECT_TRUE(std::isnan(value)) << OpName(op) << " with " << bad;
      }
    }
  }
  EXPECT_EQ(Eval(Op::kLogSumExp, Over({0}), {F32({2}, {0, kInf})}).Get(0), kInf);
  EXPECT_TRUE(std::isnan(Eval(Op::kLogSumExp, Over({0}), {F32({2}, {kInf, kNaN})}).Get(0)));
}

TEST(SoftmaxTest, SixteenBitOperandsAreReadExactlyAndRoundedOnce) {
  // e^-12 is 6.144e-6: a subnormal in f16, whose grid there is 2^-24.
  const Array x = MakeArray(DType::kF16, {2}, {0, -12});
  const double exact = std::exp(-12.0) / (1 + std::exp(-12.0));
  EXPECT_EQ(Eval(Op::kSoftmax, Along(0), {x}).Get(1), std::nearbyint(exact * 0x1p24) * 0x1p-24);
  const Array wide = Eval(Op::kSoftmax, Along(0, DType::kF32), {x});
  EXPECT_EQ(wide.type().dtype, DType::kF32);
  EXPECT_NEAR(wide.Get(1), exact, 1e-12);
}

TEST(SoftmaxTest, EmptyLines) {
  EXPECT_EQ(Eval(Op::kSoftmax, Along(1), {F32({2, 0}, {})}).elements(), 0);
  EXPECT_THAT(Values(Eval(Op::kLogSumExp, Over({1}), {F32({2, 0}, {})})), Each(-kInf));
}

TEST(SoftmaxTest, SplittingTheWorkKeepsTheBits) {
  const Array x = NoiseArray(DType::kBF16, {4, 5, 6});
  for (Op op : {Op::kSoftmax, Op::kLogSoftmax}) ExpectSameInPieces(op, Along(1), {x});
  ExpectSameInPieces(Op::kLogSumExp, Over({0, 2}), {x});
  ExpectSameInPieces(Op::kSoftmaxGrad, Along(1), {x, x});
}

TEST(SoftmaxTest, GradientsMatchDifferences) {
  const Array x = NoiseArray(DType::kF64, {2, 3, 4});
  const Array g = NoiseArray(DType::kF64, {2, 3, 4}, 2);
  for (int64_t axis : {0, 1, 2}) {
    ExpectGradient(Op::kSoftmax, Along(axis), {x}, {0});
    ExpectGradient(Op::kLogSoftmax, Along(axis), {x}, {0});
    ExpectGradient(Op::kSoftmaxGrad, Along(axis), {x, g}, {0, 1});
    ExpectGradient(Op::kLogSoftmaxGrad, Along(axis), {x, g}, {0, 1});
    ExpectGradient(Op::kLogSumExp, Over({axis}), {x}, {0});
  }
  ExpectGradient(Op::kLogSumExp, Over({0, 2}), {x}, {0});
  ExpectGradient(Op::kLogSumExp, Over({0, 1, 2}, true), {x}, {0});
}

TEST(SoftmaxTest, Errors) {
  EXPECT_EQ(InferError(Op::kSoftmax, Along(3), {{DType::kF32, {2, 2}}}),
            "softmax: axis 3 is outside [-2, 2)");
  EXPECT_NE(InferError(Op::kSoftmax, Along(0), {{DType::kI32, {2}}}), "");
  EXPECT_THAT(InferError(Op::kSoftmax, Along(0, DType::kI32), {{DType::kF32, {2}}}),
              HasSubstr("i32"));
}

TEST(LayerNormTest, NormalisesByHand) {
  // Mean 2, variance 1: (x - 2) * gamma + beta.
  const std::vector<Array> y =
      EvalAll(Op::kLayerNorm, LayerNormAttrs{.eps = 0},
              {F32({2, 2}, {1, 3, 101, 103}), F32({2}, {10, 20}), F32({2}, {0.5, 0.25})});
  EXPECT_THAT(Values(y[0]), ElementsAre(-9.5, 20.25, -9.5, 20.25));
  EXPECT_THAT(Values(y[1]), ElementsAre(2, 102));
  EXPECT_THAT(Values(y[2]), ElementsAre(1, 1));
}

TEST(LayerNormTest, TheVarianceOfAShiftedRowDoesNotCancel) {
  // In one pass, E[x^2] - E[x]^2 would be 0 in f32 here.
  const std::vector<Array> y =
      EvalAll(Op::kLayerNorm, LayerNormAttrs{.eps = 0},
              {F32({1, 4}, {100000, 100001, 100000, 100001}), F32({4}, {1}), F32({4}, {0})});
  EXPECT_THAT(Values(y[0]), ElementsAre(-1, 1, -1, 1));
}

TEST(LayerNormTest, KeepsEpsAndStatisticsInF32) {
  // eps = 1e-8 is 0 in f16; a constant row gives rstd = 1e4 and y = beta.
  const std::vector<Array> y =
      EvalAll(Op::kLayerNorm, LayerNormAttrs{.eps = 1e-8},
              {MakeArray(DType::kF16, {1, 3}, {7}), F32({3}, {1}), F32({3}, {0.5})});
  EXPECT_THAT(Values(y[0]), Each(0.5));
  EXPECT_EQ(y[0].type().dtype, DType::kF16);
  EXPECT_EQ(y[2].type().ToString(), "f32[1]");
  EXPECT_NEAR(y[2].Get(0), 1e4, 1e-2);
}

TEST(LayerNormTest, CoversSeveralAxesAndLongRows) {
  const Array x = NoiseArray(DType::kF32, {3, 40, 50});
  const std::vector<Array> y =
      EvalAll(Op::kLayerNorm, LayerNormAttrs(), {x, F32({40, 50}, {1}), F32({40, 50}, {0})});
  double mean = 0, square = 0;
  for (int64_t i = 0; i < 2000; ++i) mean += x.Get(2000 + i) / 2000;
  for (int64_t i = 0; i < 2000; ++i) square += std::pow(x.Get(2000 + i) - mean, 2) / 2000;
  EXPECT_NEAR(y[1].Get(1), mean, 1e-6);
  EXPECT_NEAR(y[2].Get(1), 1 / std::sqrt(square + 1e-5), 1e-5);
  EXPECT_NEAR(y[0].Get(2345), (x.Get(2345) - mean) / std::sqrt(square + 1e-5), 1e-5);
}

TEST(LayerNormTest, GradientsMatchDifferences) {
  for (DType dtype : {DType::kF64}) {
    const Array x = NoiseArray(dtype, {2, 3, 4}, 1);
    const Array gamma = NoiseArray(dtype, {3, 4}, 2);
    const Array beta = NoiseArray(dtype, {3, 4}, 3);
    ExpectGradient(Op::kLayerNorm, LayerNormAttrs(), {x, gamma, beta}, {0, 1, 2});
    ExpectGradient(Op::kLayerNorm, LayerNormAttrs(), {x, gamma, beta}, {0, 1, 2}, {0, 1, 2}, 1e-6);
    ExpectGradient(Op::kLayerNorm, LayerNormAttrs(), {x, gamma, beta}, {0}, {2}, 1e-6);
  }
}

TEST(LayerNormTest, SplittingTheWorkKeepsTheBits) {
  const Array x = NoiseArray(DType::kF16, {5, 130});
  const Array gamma = NoiseArray(DType::kF32, {130}, 2);
  ExpectSameInPieces(Op::kLayerNorm, LayerNormAttrs(), {x, gamma, gamma});
  ExpectSameInPieces(Op::kLayerNormGrad, NoAttrs(),
                     {x, gamma, NoiseArray(DType::kF32, {5}, 3), F32({5}, {2.0}), x});
}

TEST(LayerNormTest, ErrorsNameTheOperand) {
  const Type x{DType::kF16, {2, 4}};
  EXPECT_THAT(
      InferError(Op::kLayerNorm, LayerNormAttrs(), {x, {DType::kF32, {3}}, {DType::kF32, {3}}}),
      HasSubstr("gamma f32[3] does not match the last axes of x f16[2, 4]"));
  EXPECT_THAT(
      InferError(Op::kLayerNorm, LayerNormAttrs(), {x, {DType::kBF16, {4}}, {DType::kBF16, {4}}}),
      HasSubstr("gamma is bf16[4]"));
  EXPECT_THAT(
      InferError(Op::kLayerNorm, LayerNormAttrs(), {x, {DType::kF32, {4}}, {DType::kF16, {4}}}),
      HasSubstr("differ"));
  EXPECT_EQ(
      InferError(Op::kLayerNorm, LayerNormAttrs(), {x, {DType::kF16, {4}}, {DType::kF16, {4}}}),
      "");
}

}  // namespace
}  // namespace duotone::ir
