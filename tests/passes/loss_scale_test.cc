// The loss scale over many interpreted steps: GradScaler's sequences (amp.md A2.8 gives the
// numbers), guards, and where true gradients must be seen.
#include "passes/loss_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/text.h"
#include "passes/scale_exponents.h"
#include "tests/passes/training_test_lib.h"

namespace duotone::passes {
namespace {

using ir::ArrayMap;
using Kind = OptimizerOptions::Kind;
using ScaleKind = LossScaleOptions::Kind;

constexpr double kInf = std::numeric_limits<double>::infinity();

// loss = w * x, so that the gradient is x.
constexpr char kProduct[] = R"(
  module @product {
    param %w: f32[] = ones()
    graph @loss(%x: f32[]) { %loss = mul(%w, %x) : f32[] return loss=%loss }
  })";

ArrayMap X(double value) {
  ArrayMap inputs;
  inputs["x"] = F32(value);
  return inputs;
}

PassOptions Scaled(ScaleKind kind, double init_scale = 65536.0) {
  PassOptions options;
  options.loss_scale.kind = kind;
  options.loss_scale.init_scale = init_scale;
  options.optimizers = {OptimizerOf(Kind::kAdamW, 0.125)};
  return options;
}

Trainer MakeTrainer(std::string_view text, const PassOptions& options) {
  absl::StatusOr<Trainer> trainer = Trainer::Make(text, options);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

ArrayMap MustStep(Trainer& trainer, const ArrayMap& inputs) {
  absl::StatusOr<ArrayMap> outputs = trainer.Step(inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return *std::move(outputs);
}

TEST(LossScaleTest, OverflowsHalveTheScalePastOne) {
  Trainer trainer = MakeTrainer(kProduct, Scaled(ScaleKind::kDynamic));
  for (int i = 0; i < 16; ++i) MustStep(trainer, X(kInf));
  EXPECT_EQ(trainer.Get("loss_scale"), 1.0);
  MustStep(trainer, X(kInf));
  EXPECT_EQ(trainer.Get("loss_scale"), 0.5);
  EXPECT_EQ(trainer.Get("growth_tracker"), 0);
}

TEST(LossScaleTest, CleanStepsGrowTheScaleWhenTheTrackerEqualsTheInterval) {
  PassOptions options = Scaled(ScaleKind::kDynamic);
  options.loss_scale.growth_interval = 3;
  Trainer trainer = MakeTrainer(kProduct, options);
  std::vector<double> scales, trackers;
  for (double x : {1.0, 1.0, 1.0, 1.0, kInf, 1.0, 1.0, 1.0}) {
    MustStep(trainer, X(x));
    scales.push_back(trainer.Get("loss_scale"));
    trackers.push_back(trainer.Get("growth_tracker"));
  }
  EXPECT_THAT(scales,
              testing::ElementsAre(65536, 65536, 131072, 131072, 65536, 65536, 65536, 131072));
  EXPECT_THAT(trackers, testing::ElementsAre(1, 2, 0, 1, 0, 1, 2, 0));
}

// The 112th doubling from 65536 would leave f32; it is refused and the tracker begins again.
TEST(LossScaleTest, GrowthStopsBeforeInfinity) {
  PassOptions options = Scaled(ScaleKind::kDynamic);
  options.loss_scale.growth_interval = 1;
  Trainer trainer = MakeTrainer(kProduct, options);
  for (int i = 0; i < 111; ++i) MustStep(trainer, X(0.0));
  EXPECT_EQ(trainer.Get("loss_scale"), std::ldexp(1.0, 127));
  MustStep(trainer, X(0.0));
  EXPECT_EQ(trainer.Get("loss_scale"), std::ldexp(1.0, 127));
  EXPECT_EQ(trainer.Get("growth_tracker"), 0);
}

TEST(LossScaleTest, AGrowthFactorThatLeavesF32KeepsTheScale) {
  PassOptions options = Scaled(ScaleKind::kDynamic, 1e38);
  options.loss_scale.growth_factor = 16;
  options.loss_scale.growth_interval = 1;
  Trainer trainer = MakeTrainer(kProduct, options);
  MustStep(trainer, X(0.0));
  EXPECT_EQ(trainer.Get("loss_scale"), 1e38f);
}

TEST(LossScaleTest, FloorAndCeilingHold) {
  PassOptions options = Scaled(ScaleKind::kDynamic, 2.0);
  options.loss_scale.min_scale = 1.0;
  options.loss_scale.max_scale = 4.0;
  options.loss_scale.growth_interval = 1;
  Trainer trainer = MakeTrainer(kProduct, options);
  for (int i = 0; i < 3; ++i) MustStep(trainer, X(1.0));
  EXPECT_EQ(trainer.Get("loss_scale"), 4.0);
  for (int i = 0; i < 5; ++i) MustStep(trainer, X(kInf));
  EXPECT_EQ(trainer.Get("loss_scale"), 1.0);
}

constexpr char kTwoParams[] = R"(
  module @two {
    param %a: f32[2] = ones()
    param %b: f32[2] = ones()
    state %mean: f32[2] = zeros()
    graph @loss(%x: f32[2], %y: f32[2]) {
      %ax = mul(%a, %x) : f32[2]
      %by = mul(%b, %y) : f32[2]
      %sum = add(%ax, %by) : f32[2]
      %loss = reduce_sum(%sum), axes=[0] : f32[]
      update %mean = %ax
      return loss=%loss
    }
  })";

ArrayMap XY(std::vector<double> x, std::vector<double> y) {
  ArrayMap inputs;
  inputs["x"] = F32(x);
  inputs["y"] = F32(y);
  return inputs;
}

TEST(LossScaleTest, AnInfInOneGradientLeavesGuardedStateBitIdentical) {
  Trainer trainer = MakeTrainer(kTwoParams, Scaled(ScaleKind::kDynamic));
  MustStep(trainer, XY({1, 2}, {3, 4}));
  const ArrayMap before = trainer.state();
  const ArrayMap outputs = MustStep(trainer, XY({1, 2}, {3, kInf}));
  EXPECT_EQ(outputs.lookup("skipped").Get(0), 1);
  EXPECT_EQ(outputs.lookup("loss_scale").Get(0), 65536);
  EXPECT_EQ(outputs.lookup("scale_unusable").Get(0), 0);
  EXPECT_EQ(trainer.Get("loss_scale"), 32768);
  EXPECT_EQ(trainer.Get("growth_tracker"), 0);
  EXPECT_EQ(trainer.Get("rng_position"), 2);
  for (const char* guarded : {"a", "b", "mean", "optimizer.m.a", "optimizer.m.b", "optimizer.v.a",
                              "optimizer.v.b", "optimizer.step"}) {
    EXPECT_TRUE(trainer.state().lookup(guarded).BitEqual(before.lookup(guarded))) << guarded;
  }
  const ArrayMap after = MustStep(trainer, XY({1, 2}, {3, 4}));
  EXPECT_EQ(after.lookup("skipped").Get(0), 0);
  EXPECT_EQ(trainer.Get("optimizer.step"), 2);
  EXPECT_NE(trainer.Get("a"), before.lookup("a").Get(0));
}

TEST(LossScaleTest, SkipsAreCounted) {
  Trainer trainer = MakeTrainer(kProduct, Scaled(ScaleKind::kDynamic));
  std::vector<double> total, consecutive;
  for (double x : {kInf, kInf, 1.0, std::nan(""), 1.0}) {
    const ArrayMap outputs = MustStep(trainer, X(x));
    total.push_back(outputs.lookup("skipped_steps").Get(0));
    consecutive.push_back(outputs.lookup("consecutive_skips").Get(0));
  }
  EXPECT_THAT(total, testing::ElementsAre(1, 2, 2, 3, 3));
  EXPECT_THAT(consecutive, testing::ElementsAre(1, 2, 0, 1, 0));
}

TEST(LossScaleTest, APowerOfTwoScaleGivesTheSameF32UpdatesAsNoScale) {
  Trainer scaled = MakeTrainer(kTwoParams, Scaled(ScaleKind::kDynamic));
  Trainer plain = MakeTrainer(kTwoParams, Scaled(ScaleKind::kOff));
  for (int step = 0; step < 10; ++step) {
    const ArrayMap inputs =
        XY({std::sin(step + 0.1), std::cos(step)}, {std::exp(-step), 1.0 / (step + 3)});
    MustStep(scaled, inputs);
    const ArrayMap outputs = MustStep(plain, inputs);
    EXPECT_EQ(outputs.lookup("loss_scale").Get(0), 1.0);
    for (const char* entry : {"a", "b", "optimizer.m.a", "optimizer.v.b"}) {
      EXPECT_TRUE(scaled.state().lookup(entry).BitEqual(plain.state().lookup(entry)))
          << entry << " at step " << step;
    }
  }
}

TEST(LossScaleTest, NonFiniteGradientsAreSkippedWithoutScalingToo) {
  Trainer trainer = MakeTrainer(kProduct, Scaled(ScaleKind::kOff));
  const ArrayMap outputs = MustStep(trainer, X(kInf));
  EXPECT_EQ(outputs.lookup("skipped").Get(0), 1);
  EXPECT_EQ(trainer.Get("w"), 1.0);
}

// 2^-128 has no f32 reciprocal; a NaN or negative scale comes from a broken checkpoint.
TEST(LossScaleTest, NoStepIsTakenWithAnUnusableScale) {
  for (double scale : {0.0, kInf, std::ldexp(1.0, -128), std::nan(""), -2.0}) {
    Trainer trainer = MakeTrainer(kProduct, Scaled(ScaleKind::kDynamic));
    trainer.Set("loss_scale", scale);
    const ArrayMap outputs = MustStep(trainer, X(0.0));
    EXPECT_EQ(outputs.lookup("scale_unusable").Get(0), 1) << scale;
    EXPECT_EQ(outputs.lookup("skipped").Get(0), 1) << scale;
    EXPECT_EQ(trainer.Get("w"), 1.0) << scale;
    EXPECT_EQ(trainer.Get("optimizer.step"), 0) << scale;
  }
}

// 2^127 has the subnormal reciprocal 2^-127, which is exact where subnormals are kept.
TEST(LossScaleTest, AScaleWithASubnormalReciprocalIsUsable) {
  PassOptions options = Scaled(ScaleKind::kStatic);
  options.optimizers = {OptimizerOf(Kind::kSgd, 1.0)};
  Trainer trainer = MakeTrainer(kProduct, options);
  trainer.Set("loss_scale", std::ldexp(1.0, 127));
  const ArrayMap outputs = MustStep(trainer, X(0.5));
  EXPECT_EQ(outputs.lookup("scale_unusable").Get(0), 0);
  EXPECT_EQ(trainer.Get("w"), 0.5);
}

TEST(LossScaleTest, AStaticScaleStays) {
  Trainer trainer = MakeTrainer(kProduct, Scaled(ScaleKind::kStatic, 1024));
  MustStep(trainer, X(kInf));
  MustStep(trainer, X(1.0));
  EXPECT_EQ(trainer.Get("loss_scale"), 1024);
  EXPECT_EQ(trainer.Get("skipped_steps"), 1);
}

// The gradient 1e-8 is 0 in f16; scaled by 65536 it survives (9.99717e-9).
TEST(LossScaleTest, ScalingSavesAGradientThatUnderflowsInF16) {
  constexpr char kHalf[] = R"(
    module @half {
      param %w: f32[] = ones()
      graph @loss(%x: f32[]) {
        %w16 = cast(%w), to=f16 : f16[]
        %wide = cast(%w16), to=f32 : f32[]
        %loss = mul(%wide, %x) : f32[]
        return loss=%loss
      }
    })";
  for (bool scaled : {false, true}) {
    PassOptions options = Scaled(scaled ? ScaleKind::kDynamic : ScaleKind::kOff);
    options.keep_gradients = true;
    Trainer trainer = MakeTrainer(kHalf, options);
    const ArrayMap outputs = MustStep(trainer, X(1e-8));
    EXPECT_NEAR(outputs.lookup("grad:w").Get(0), scaled ? 9.99717e-9 : 0.0, 1e-14);
  }
}

// Requirement D16: the norm is that of the unscaled gradient.
TEST(LossScaleTest, ClippingWrittenByTheUserSeesTrueGradients) {
  constexpr char kClipping[] = R"(
    module @clipping {
      param %w: f32[2] = zeros()
      graph @step(%x: f32[2]) {
        %p = mul(%w, %x) : f32[2]
        %loss = reduce_sum(%p), axes=[0] : f32[]
        %g = gradient(%loss, %w) : f32[2]
        %squares = mul(%g, %g) : f32[2]
        %sum = reduce_sum(%squares), axes=[0] : f32[]
        %norm = sqrt(%sum) : f32[]
        %one = constant(), value=1.0 : f32[]
        %limited = max(%norm, %one) : f32[]
        %inverse = div(%one, %limited) : f32[]
        %factor = broadcast(%inverse), dims=[] : f32[2]
        %clipped = mul(%g, %factor) : f32[2]
        return loss=%loss, norm=%norm, "grad:w"=%clipped
      }
    })";
  PassOptions options = Scaled(ScaleKind::kDynamic, 1024);
  options.keep_gradients = true;
  Trainer trainer = MakeTrainer(kClipping, options);
  ArrayMap inputs;
  inputs["x"] = F32(std::vector<double>{3, 4});
  const ArrayMap outputs = MustStep(trainer, inputs);
  EXPECT_EQ(outputs.lookup("norm").Get(0), 5.0);
  EXPECT_FLOAT_EQ(outputs.lookup("grad:w").Get(0), 0.6);
  EXPECT_FLOAT_EQ(outputs.lookup("grad:w").Get(1), 0.8);
}

// y = x*w^2 has the gradient 2*x*w; loss = y + (dy/dw)^2 has the gradient 2*x*w + 8*x^2*w.
TEST(LossScaleTest, AGradientPenaltyIsScaledOnce) {
  constexpr char kPenalty[] = R"(
    module @penalty {
      param %w: f32[] = constant(value=3)
      graph @loss(%x: f32[]) {
        %square = mul(%w, %w) : f32[]
        %y = mul(%x, %square) : f32[]
        %g = gradient(%y, %w) : f32[]
        %penalty = mul(%g, %g) : f32[]
        %loss = add(%y, %penalty) : f32[]
        return loss=%loss, g=%g
      }
    })";
  for (ScaleKind kind : {ScaleKind::kOff, ScaleKind::kDynamic}) {
    PassOptions options = Scaled(kind);
    options.keep_gradients = true;
    Trainer trainer = MakeTrainer(kPenalty, options);
    const ArrayMap outputs = MustStep(trainer, X(0.5));
    EXPECT_EQ(outputs.lookup("g").Get(0), 3.0);
    EXPECT_EQ(outputs.lookup("loss").Get(0), 4.5 + 9.0);
    EXPECT_EQ(outputs.lookup("grad:w").Get(0), 3.0 + 6.0);
  }
}

// Requirement D15.
TEST(LossScaleTest, OneOptimizerStepsWhileAnotherSkipsAndTheScaleBacksOffOnce) {
  PassOptions options = Scaled(ScaleKind::kDynamic);
  OptimizerOptions first = OptimizerOf(Kind::kSgd, 1.0);
  first.name = "first";
  first.params = "a";
  OptimizerOptions second = first;
  second.name = "second";
  second.params = "b";
  options.optimizers = {first, second};
  Trainer trainer = MakeTrainer(kTwoParams, options);
  const ArrayMap outputs = MustStep(trainer, XY({2, 2}, {kInf, 1}));
  EXPECT_EQ(trainer.Get("a"), -1.0);
  EXPECT_EQ(trainer.Get("b"), 1.0);
  EXPECT_EQ(trainer.Get("first.step"), 1);
  EXPECT_EQ(trainer.Get("second.step"), 0);
  EXPECT_EQ(trainer.Get("loss_scale"), 32768);
  EXPECT_EQ(outputs.lookup("skipped:first").Get(0), 0);
  EXPECT_EQ(outputs.lookup("skipped:second").Get(0), 1);
  EXPECT_EQ(outputs.lookup("skipped").Get(0), 1);
  MustStep(trainer, XY({kInf, 2}, {kInf, 1}));
  EXPECT_EQ(trainer.Get("loss_scale"), 16384) << "both overflow: one backoff";
}

TEST(ScaleExponentsTest, TheFirstNodeWhereExponentsConflictIsNamed) {
  const auto module = ir::Parse(R"(
    graph @g(%s: f32[], %x: f32[]) {
      %scaled = mul(%s, %x) : f32[]
      %sum = add(%scaled, %x) : f32[] {loc="net.cc:5"}
      return y=%sum
    })");
  ASSERT_TRUE(module.ok()) << module.status();
  const ir::Graph& graph = *(*module)->FindGraph("g");
  const absl::Status status = CheckScaleExponents(graph, {{graph.Find("s"), 1}});
  EXPECT_EQ(status.message(),
            "add: operand %scaled carries the loss scale to the power 1, which does not fit here "
            "(net.cc:5, node %sum)");
}

TEST(ScaleExponentsTest, AProductWithTheReciprocalHasNoScale) {
  const auto module = ir::Parse(R"(
    graph @g(%s: f32[], %inverse: f32[], %x: f32[]) {
      %scaled = mul(%s, %x) : f32[]
      %y = mul(%scaled, %inverse) : f32[]
      %e = exp(%y) : f32[]
      return e=%e
    })");
  ASSERT_TRUE(module.ok()) << module.status();
  const ir::Graph& graph = *(*module)->FindGraph("g");
  EXPECT_TRUE(CheckScaleExponents(graph, {{graph.Find("s"), 1}, {graph.Find("inverse"), -1}}).ok());
}

}  // namespace
}  // namespace duotone::passes
