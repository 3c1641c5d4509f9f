// Training steps through autocast: what mixed precision may and may not do to gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/passes/training_test_lib.h"

namespace duotone::passes {
namespace {

using ir::Array;
using ir::ArrayMap;

PassOptions Mixed(std::optional<DType> dtype, LossScaleOptions::Kind kind) {
  PassOptions options;
  options.autocast.dtype = dtype;
  options.loss_scale.kind = kind;
  options.optimizers = {OptimizerOf(OptimizerOptions::Kind::kSgd, 0.25)};
  options.keep_gradients = true;
  return options;
}

// Requirement D1: the gradient 65536 has no f16, and the backward nodes of an off region are f32.
TEST(MixedTrainingTest, AnOffRegionGovernsItsBackwardNodes) {
  auto trainer = Trainer::Make(R"(
    module @off {
      param %w: f32[4] = ones()
      graph @loss(%x: f32[4]) {
        %p = mul(%x, %w) : f32[4] {region=off}
        %s = reduce_sum(%p), axes=[0] : f32[] {region=off}
        %c = constant(), value=16384.0 : f32[] {region=off}
        %loss = mul(%s, %c) : f32[] {region=off}
        return loss=%loss
      }
    })",
                               Mixed(DType::kF16, LossScaleOptions::Kind::kOff));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ArrayMap inputs;
  inputs["x"] = F32(std::vector<double>{4, 4, 4, 4});
  const auto outputs = trainer->Step(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->lookup("grad:w").Get(0), 65536.0);
  EXPECT_EQ(outputs->lookup("skipped").Get(0), 0);
}

// Requirement D10: both products read one cast of w; 2049 and 80000 are no f16 numbers.
TEST(MixedTrainingTest, GradientsOfAWeightUsedTwiceAreSummedInF32) {
  for (const auto& [a, b] : {std::pair(2048.0, 1.0), std::pair(40000.0, 40000.0)}) {
    auto trainer = Trainer::Make(R"(
      module @twice {
        param %w: f32[1, 1] = zeros()
        graph @loss(%a: f32[1, 1], %b: f32[1, 1]) {
          %ya = matmul(%a, %w) : f32[1, 1]
          %yb = matmul(%b, %w) : f32[1, 1]
          %y = add(%ya, %yb) : f32[1, 1]
          %loss = reduce_sum(%y), axes=[0, 1] : f32[]
          return loss=%loss
        }
      })",
                                 Mixed(DType::kF16, LossScaleOptions::Kind::kOff));
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const ir::Type type{DType::kF32, {1, 1}};
    ArrayMap inputs;
    inputs["a"] = Array::Of(type, {a});
    inputs["b"] = Array::Of(type, {b});
    const auto outputs = trainer->Step(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(outputs->lookup("grad:w").Get(0), a + b);
  }
}

// Mean squared distance of a two-layer network from a smooth target after some steps.
double LossAfterTraining(std::optional<DType> dtype, LossScaleOptions::Kind kind) {
  auto trainer = Trainer::Make(R"(
    module @net {
      param %w1: f32[2, 16] = xavier_uniform(fan_in=2, fan_out=16)
      param %b1: f32[16] = zeros()
      param %w2: f32[16, 1] = xavier_uniform(fan_in=16, fan_out=1)
      graph @loss(%x: f32[8, 2], %y: f32[8, 1]) {
        %h0 = matmul(%x, %w1) : f32[8, 16]
        %b = broadcast(%b1), dims=[1] : f32[8, 16]
        %h1 = add(%h0, %b) : f32[8, 16]
        %h = tanh(%h1) : f32[8, 16]
        %out = matmul(%h, %w2) : f32[8, 1]
        %d = sub(%out, %y) : f32[8, 1]
        %sq = mul(%d, %d) : f32[8, 1]
        %loss = reduce_mean(%sq), axes=[0, 1] : f32[]
        return loss=%loss
      }
    })",
                               Mixed(dtype, kind));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  if (!trainer.ok()) return std::nan("");
  ir::Array x({DType::kF32, {8, 2}}), y({DType::kF32, {8, 1}});
  for (int i = 0; i < 8; ++i) {
    x.Set(2 * i, std::sin(i));
    x.Set(2 * i + 1, std::cos(2.3 * i));
    y.Set(i, std::sin(i) * std::cos(2.3 * i));
  }
  ArrayMap inputs;
  inputs["x"] = x;
  inputs["y"] = y;
  double loss = std::nan("");
  for (int step = 0; step < 200; ++step) {
    const auto outputs = trainer->Step(inputs);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (!outputs.ok()) break;
    loss = outputs->lookup("loss").Get(0);
  }
  return loss;
}

TEST(MixedTrainingTest, A16BitRunLearnsLikeF32) {
  const double f32 = LossAfterTraining(std::nullopt, LossScaleOptions::Kind::kOff);
  const double f16 = LossAfterTraining(DType::kF16, LossScaleOptions::Kind::kDynamic);
  const double bf16 = LossAfterTraining(DType::kBF16, LossScaleOptions::Kind::kOff);
  EXPECT_LT(f32, 0.05);
  EXPECT_NEAR(f16, f32, 0.1 * f32);
  EXPECT_NEAR(bf16, f32, 0.5 * f32);
  EXPECT_NE(f16, f32);
}

}  // namespace
}  // namespace duotone::passes
