// Whole training steps: updates against formulas written here, schedules, frozen parameters.
#include "passes/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/passes/training_test_lib.h"

namespace duotone::passes {
namespace {

using Kind = OptimizerOptions::Kind;

// loss = w * x, so that the gradient is x.
constexpr char kProduct[] = R"(
  module @product {
    param %w: f32[] = ones()
    graph @loss(%x: f32[]) { %loss = mul(%w, %x) : f32[] return loss=%loss }
  })";

ir::ArrayMap X(double value) {
  ir::ArrayMap inputs;
  inputs["x"] = F32(value);
  return inputs;
}

PassOptions Dynamic(OptimizerOptions optimizer) {
  PassOptions options;
  options.loss_scale.kind = LossScaleOptions::Kind::kDynamic;
  options.optimizers = {std::move(optimizer)};
  return options;
}

TEST(OptimizerTest, SgdTakesAStepAgainstTheGradient) {
  auto trainer = Trainer::Make(kProduct, Dynamic(OptimizerOf(Kind::kSgd, 0.25)));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto outputs = trainer->Step(X(2.0));
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(trainer->Get("w"), 0.5);
  EXPECT_EQ(outputs->lookup("loss").Get(0), 2.0);
  EXPECT_EQ(outputs->lookup("lr").Get(0), 0.25);
  EXPECT_FALSE(outputs->contains("grad:w"));
}

TEST(OptimizerTest, KeptGradientsAreUnscaled) {
  PassOptions options = Dynamic(OptimizerOf(Kind::kSgd, 0.25));
  options.keep_gradients = true;
  auto trainer = Trainer::Make(kProduct, options);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto outputs = trainer->Step(X(2.0));
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->lookup("grad:w").Get(0), 2.0);
}

// Loshchilov and Hutter, arXiv 1711.05101, algorithm 2, in double.
TEST(OptimizerTest, AdamWFollowsItsFormula) {
  OptimizerOptions adamw = OptimizerOf(Kind::kAdamW, 0.1);
  adamw.weight_decay = 0.01;
  auto trainer = Trainer::Make(kProduct, Dynamic(adamw));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  double w = 1, m = 0, v = 0;
  for (int step = 1; step <= 20; ++step) {
    const double g = std::cos(step);
    const auto outputs = trainer->Step(X(g));
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double m_hat = m / (1 - std::pow(0.9, step));
    const double v_hat = v / (1 - std::pow(0.999, step));
    w -= 0.1 * (m_hat / (std::sqrt(v_hat) + 1e-8) + 0.01 * w);
    EXPECT_NEAR(trainer->Get("w"), w, 1e-5) << step;
  }
  EXPECT_EQ(trainer->Get("optimizer.step"), 20);
}

TEST(OptimizerTest, SkippedStepsMoveNeitherTheScheduleNorTheStepCount) {
  OptimizerOptions adam = OptimizerOf(Kind::kAdam, 1.0);
  adam.schedule = {.kind = "linear", .final_lr = 0.0, .warmup_steps = 0, .total_steps = 4};
  auto trainer = Trainer::Make(kProduct, Dynamic(adam));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  std::vector<double> rates;
  for (double x : {1.0, HUGE_VAL, HUGE_VAL, 1.0, 1.0}) {
    const auto outputs = trainer->Step(X(x));
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    rates.push_back(outputs->lookup("lr").Get(0));
  }
  EXPECT_THAT(rates, testing::ElementsAre(1.0, 0.75, 0.75, 0.75, 0.5));
  EXPECT_EQ(trainer->Get("optimizer.step"), 3);
  EXPECT_EQ(trainer->Get("rng_position"), 5);
}

TEST(OptimizerTest, AParameterWithoutAnOptimizerIsFrozen) {
  PassOptions options = Dynamic(OptimizerOf(Kind::kSgd, 1.0));
  options.optimizers[0].params = "head";
  auto trainer = Trainer::Make(R"(
    module @m {
      param %body: f32[] = ones()
      param %head: f32[] = ones()
      graph @loss(%x: f32[]) {
        %h = mul(%x, %body) : f32[]
        %loss = mul(%h, %head) : f32[]
        return loss=%loss
      }
    })",
                               options);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto outputs = trainer->Step(X(3.0));
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(trainer->Get("body"), 1.0);
  EXPECT_EQ(trainer->Get("head"), -2.0);
}

TEST(OptimizerTest, SeveralLossesAreMinimisedTogether) {
  PassOptions options = Dynamic(OptimizerOf(Kind::kSgd, 1.0));
  options.losses = {"a", "b"};
  auto trainer = Trainer::Make(R"(
    module @m {
      param %w: f32[] = zeros()
      graph @loss(%x: f32[]) {
        %a = mul(%x, %w) : f32[]
        %b = add(%w, %w) : f32[]
        return a=%a, b=%b
      }
    })",
                               options);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto outputs = trainer->Step(X(3.0));
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(trainer->Get("w"), -5.0);
}

TEST(OptimizerTest, AnUnknownScheduleIsAnErrorOfTheOptimizer) {
  PassOptions options = Dynamic(OptimizerOf(Kind::kSgd, 1.0));
  options.optimizers[0].schedule.kind = "stairs";
  const auto trainer = Trainer::Make(kProduct, options);
  ASSERT_FALSE(trainer.ok());
  EXPECT_THAT(std::string(trainer.status().message()), testing::HasSubstr("optimizer 'optimizer'"));
  EXPECT_THAT(std::string(trainer.status().message()), testing::HasSubstr("stairs"));
}

}  // namespace
}  // namespace duotone::passes
