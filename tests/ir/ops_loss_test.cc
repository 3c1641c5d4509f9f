// Losses: cross-entropy with smoothing and ignored rows, mse, bce; their gradients.
#include "tests/ir/op_checking.h"

namespace duotone::ir {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

Array I32(std::vector<double> values) {
  const int64_t size = static_cast<int64_t>(values.size());
  return MakeArray(DType::kI32, {size}, std::move(values));
}

TEST(CrossEntropyTest, UniformLogitsCostLogOfTheClasses) {
  const std::vector<Array> y =
      EvalAll(Op::kCrossEntropy, CrossEntropyAttrs(), {F32({3, 10}, {7.0}), I32({0, 4, 9})});
  EXPECT_EQ(y[0].type().ToString(), "f32[]");
  EXPECT_NEAR(y[0].Get(0), std::log(10.0), 1e-6);
  EXPECT_EQ(y[1].type().ToString(), "f32[3]");
  EXPECT_NEAR(y[1].Get(2), 7 + std::log(10.0), 1e-6);
}

// PyTorch: (1 - s) * nll + s/C * sum over classes of -log p, both averaged over the rows that
// count.
TEST(CrossEntropyTest, SmoothingAndIgnoredRowsFollowPyTorch) {
  const std::vector<double> logits = {0.5, -1, 2, 3, 0, 1, -2, 0.25, 1};
  const Array x = F64({3, 3}, logits);
  const double labels[] = {2, -100, 0};
  double nll = 0, smooth = 0;
  for (int row : {0, 2}) {
    double sum = 0;
    for (int c = 0; c < 3; ++c) sum += std::exp(logits[3 * row + c]);
    nll -= std::log(std::exp(logits[3 * row + static_cast<int>(labels[row])]) / sum) / 2;
    for (int c = 0; c < 3; ++c) smooth -= std::log(std::exp(logits[3 * row + c]) / sum) / 2;
  }
  const Array loss =
      Eval(Op::kCrossEntropy, CrossEntropyAttrs{.label_smoothing = 0.1}, {x, I32({2, -100, 0})});
  EXPECT_NEAR(loss.Get(0), 0.9 * nll + 0.1 / 3 * smooth, 1e-14);
  const Array plain =
      Eval(Op::kCrossEntropy, CrossEntropyAttrs{.ignore_index = 7}, {x, I32({2, 7, 0})});
  EXPECT_NEAR(plain.Get(0), nll, 1e-14);
}

TEST(CrossEntropyTest, NoRowsThatCountCostNothing) {
  const Array x = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Array labels = I32({-100, -100});
  EXPECT_EQ(Eval(Op::kCrossEntropy, CrossEntropyAttrs(), {x, labels}).Get(0), 0);
  EXPECT_THAT(Values(Eval(Op::kCrossEntropyGrad, CrossEntropyAttrs(),
                          {x, labels, F32({2}, {1}), F32({}, {1})})),
              Each(0));
}

TEST(CrossEntropyTest, ALabelOutOfRangeIsReported) {
  const Array x = F32({2, 3}, {0.0});
  EXPECT_EQ(EvalMessage(Op::kCrossEntropy, CrossEntropyAttrs(), {x, I32({0, 3})}),
            "cross_entropy: the index 3 is outside [0, 3)");
  EXPECT_EQ(EvalMessage(Op::kCrossEntropy, CrossEntropyAttrs(), {x, I32({-1, 0})}),
            "cross_entropy: the index -1 is outside [0, 3)");
}

TEST(CrossEntropyTest, SixteenBitLogitsGiveAnF32Loss) {
  const Array x = MakeArray(DType::kF16, {1, 2}, {0, 10});
  const Array loss = Eval(Op::kCrossEntropy, CrossEntropyAttrs(), {x, I32({1})});
  EXPECT_EQ(loss.type().dtype, DType::kF32);
  EXPECT_NEAR(loss.Get(0), std::log1p(std::exp(-10.0)), 1e-6);
  // d = (p - 1) / 1, and p = 1 - 4.54e-5.
  const Array dx =
      Eval(Op::kCrossEntropyGrad, CrossEntropyAttrs(),
           {x, I32({1}), F32({1}, {10 + std::log1p(std::exp(-10.0))}), F32({}, {1024})});
  EXPECT_EQ(dx.type().dtype, DType::kF16);
  EXPECT_NEAR(dx.Get(0), 1024 * 4.5397868702e-05, 1e-4);
}

TEST(CrossEntropyTest, AScalarLabelAndLongRows) {
  const Array x = NoiseArray(DType::kF32, {5000});
  double sum = 0;
  for (double value : Values(x)) sum += std::exp(value);
  const std::vector<Array> y =
      EvalAll(Op::kCrossEntropy, CrossEntropyAttrs(), {x, MakeArray(DType::kI64, {}, {4321})});
  EXPECT_NEAR(y[0].Get(0), std::log(sum) - x.Get(4321), 2e-6);
  const Array dx = Eval(Op::kCrossEntropyGrad, CrossEntropyAttrs(),
                        {x, MakeArray(DType::kI64, {}, {4321}), y[1], F32({}, {1})});
  EXPECT_NEAR(dx.Get(4321), std::exp(x.Get(4321)) / sum - 1, 1e-6);
  EXPECT_NEAR(dx.Get(17), std::exp(x.Get(17)) / sum, 1e-8);
}

TEST(CrossEntropyTest, GradientsMatchDifferences) {
  const Array x = NoiseArray(DType::kF64, {2, 2, 5});
  const Array labels = MakeArray(DType::kI64, {2, 2}, {3, -100, 0, 4});
  for (double smoothing : {0.0, 0.3}) {
    const CrossEntropyAttrs attrs{.label_smoothing = smoothing};
    ExpectGradient(Op::kCrossEntropy, attrs, {x, labels}, {0});
    ExpectGradient(Op::kCrossEntropy, attrs, {x, labels}, {0}, {0, 1});
    ExpectGradient(Op::kCrossEntropy, attrs, {x, labels}, {0}, {1});
  }
}

TEST(CrossEntropyTest, SplittingTheGradientKeepsTheBits) {
  ExpectSameInPieces(
      Op::kCrossEntropyGrad, CrossEntropyAttrs(),
      {NoiseArray(DType::kF16, {4, 7}), I32({0, 6, -100, 3}), F32({4}, {2}), F32({}, {3})});
}

TEST(CrossEntropyTest, ErrorsNameTheOperand) {
  const auto error = [](Type x, Type labels, CrossEntropyAttrs attrs = {}) {
    return InferError(Op::kCrossEntropy, attrs, {x, labels});
  };
  EXPECT_EQ(error({DType::kF32, {4, 10}}, {DType::kI32, {5}}),
            "cross_entropy: labels i32[5] do not match the rows of the logits f32[4, 10]");
  EXPECT_THAT(error({DType::kF32, {4, 10}}, {DType::kF32, {4}}),
              HasSubstr("labels must be i32 or i64"));
  EXPECT_THAT(error({DType::kF32, {}}, {DType::kI32, {}}), HasSubstr("axis of classes"));
  EXPECT_THAT(error({DType::kF32, {4, 10}}, {DType::kI32, {4}}, {.label_smoothing = 1.0}),
              HasSubstr("label_smoothing=1 is outside [0, 1)"));
}

TEST(MseLossTest, MeanOfSquares) {
  const Array loss =
      Eval(Op::kMseLoss, NoAttrs(), {F32({2, 2}, {1, 2, 3, 4}), F32({2, 2}, {0, 2, 5, 1})});
  EXPECT_EQ(loss.Get(0), (1 + 0 + 4 + 9) / 4.0);
  // 300^2 has no f16, but the loss is f32.
  const Array x = MakeArray(DType::kF16, {2}, {300, 0});
  EXPECT_EQ(Eval(Op::kMseLoss, NoAttrs(), {x, F32({2}, {0})}).Get(0), 45000);
}

TEST(BceWithLogitsTest, StableInBothTails) {
  const auto loss = [](double x, double target) {
    return Eval(Op::kBceWithLogits, NoAttrs(), {F32({1}, {x}), F32({1}, {target})}).Get(0);
  };
  EXPECT_NEAR(loss(0, 1), std::log(2.0), 1e-7);
  EXPECT_EQ(loss(1000, 0), 1000);
  EXPECT_EQ(loss(-1000, 1), 1000);
  EXPECT_EQ(loss(1000, 1), 0);
  EXPECT_NEAR(loss(-20, 0), std::exp(-20.0), 1e-15);
  EXPECT_TRUE(std::isnan(loss(kNaN, 0)));
}

TEST(PairLossTest, GradientsMatchDifferences) {
  const Array x = NoiseArray(DType::kF64, {3, 4}, 1);
  const Array target = NoiseArray(DType::kF64, {3, 4}, 2);
  ExpectGradient(Op::kMseLoss, NoAttrs(), {x, target}, {0, 1});
  ExpectGradient(Op::kBceWithLogits, NoAttrs(), {x, target}, {0, 1});
}

TEST(PairLossTest, ErrorsNameTheOperands) {
  EXPECT_EQ(InferError(Op::kMseLoss, NoAttrs(), {{DType::kF32, {2}}, {DType::kF32, {3}}}),
            "mse_loss: operand f32[2] and targets f32[3] differ in shape");
  EXPECT_THAT(InferError(Op::kMseLoss, NoAttrs(), {{DType::kF16, {2}}, {DType::kBF16, {2}}}),
              HasSubstr("targets must be f16 or f32, not bf16"));
}

}  // namespace
}  // namespace duotone::ir
