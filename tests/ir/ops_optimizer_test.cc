// Optimizer updates against PyTorch's formulas in f64, GradScaler's arithmetic (amp.md A2.5, A2.8),
// learning-rate schedules.
#include "tests/ir/op_checking.h"

namespace duotone::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- SGD ----

TEST(SgdTest, PlainStep) {
  const Array w =
      Eval(Op::kSgdUpdate, SgdAttrs(), {F32({2}, {1, 2}), F32({2}, {0.5, -4}), F32({}, {0.25})});
  EXPECT_THAT(Values(w), ElementsAre(0.875, 3));
}

TEST(SgdTest, WeightDecayMomentumAndNesterovByHand) {
  const std::vector<Array> operands = {F32({1}, {8}), F32({1}, {1}), F32({}, {0.5}), F32({1}, {4})};
  // d = 1 + 0.125*8 = 2; buf' = 0.5*4 + 2 = 4; w' = 8 - 0.5*4.
  SgdAttrs attrs{.momentum = 0.5, .weight_decay = 0.125};
  std::vector<Array> y = EvalAll(Op::kSgdUpdate, attrs, operands);
  EXPECT_EQ(y[0].Get(0), 6);
  EXPECT_EQ(y[1].Get(0), 4);
  // Nesterov: the direction is 2 + 0.5*4 = 4, here the same; with buf = 0 it is 2 + 0.5*2 = 3.
  attrs.nesterov = true;
  y = EvalAll(Op::kSgdUpdate, attrs, {operands[0], operands[1], operands[2], F32({1}, {0})});
  EXPECT_EQ(y[0].Get(0), 6.5);
  EXPECT_EQ(y[1].Get(0), 2);
}

TEST(SgdTest, ReadsSixteenBitGradientsIntoF32) {
  const Array w = Eval(Op::kSgdUpdate, SgdAttrs(),
                       {F32({1}, {1}), MakeArray(DType::kF16, {1}, {1}), F32({}, {0x1p-20})});
  EXPECT_EQ(w.Get(0), 1 - 0x1p-20);
}

// ---- Adam ----

struct AdamState {
  double w, m, v;
};

// torch.optim.Adam and AdamW (single tensor, not amsgrad), in f64.
AdamState TorchAdam(AdamState s, double g, int step, double lr, const AdamAttrs& a,
                    bool decoupled) {
  if (decoupled) {
    s.w *= 1 - lr * a.weight_decay;
  } else {
    g += a.weight_decay * s.w;
  }
  s.m = a.beta1 * s.m + (1 - a.beta1) * g;
  s.v = a.beta2 * s.v + (1 - a.beta2) * g * g;
  const double m_hat = s.m / (1 - std::pow(a.beta1, step));
  const double v_hat = s.v / (1 - std::pow(a.beta2, step));
  s.w -= lr * m_hat / (std::sqrt(v_hat) + a.eps);
  return s;
}

TEST(AdamTest, FollowsPyTorchForSeveralSteps) {
  for (Op op : {Op::kAdamUpdate, Op::kAdamWUpdate}) {
    for (DType dtype : {DType::kF32, DType::kF64}) {
      const double tolerance = dtype == DType::kF32 ? 2e-6 : 1e-12;
      const AdamAttrs attrs{.weight_decay = 0.1};
      const double lr = 0x1p-6;  // exact in f32
      AdamState expected{0.5, 0, 0};
      std::vector<Array> state = {MakeArray(dtype, {1}, {0.5}), MakeArray(dtype, {1}, {0}),
                                  MakeArray(dtype, {1}, {0})};
      for (int step = 1; step <= 5; ++step) {
        const double g = 0.25 * step - 0.5;
        expected = TorchAdam(expected, g, step, lr, attrs, op == Op::kAdamWUpdate);
        state = EvalAll(op, attrs,
                        {state[0], MakeArray(dtype, {1}, {g}), state[1], state[2],
                         MakeArray(DType::kI64, {}, {static_cast<double>(step)}), F32({}, {lr})});
        EXPECT_NEAR(state[0].Get(0), expected.w, tolerance);
        EXPECT_NEAR(state[1].Get(0), expected.m, tolerance);
        EXPECT_NEAR(state[2].Get(0), expected.v, tolerance);
      }
    }
  }
}

TEST(AdamTest, TheFirstStepMovesByTheRateWhateverTheGradientsSize) {
  for (double g : {1e-4, 1.0, 1e4}) {
    const Array w = Eval(Op::kAdamUpdate, AdamAttrs{.eps = 0},
                         {F32({1}, {0}), F32({1}, {g}), F32({1}, {0}), F32({1}, {0}),
                          MakeArray(DType::kI64, {}, {1}), F32({}, {0.125})});
    EXPECT_NEAR(w.Get(0), -0.125, 1e-6);
  }
}

TEST(OptimizerTest, RefusesASixteenBitParameter) {
  const Type w{DType::kF16, {4}};
  const Type lr{DType::kF32, {}};
  EXPECT_THAT(InferError(Op::kSgdUpdate, SgdAttrs(), {w, w, lr}),
              HasSubstr("parameter f16[4] is 16 bits wide, where small updates round away"));
  EXPECT_THAT(InferError(Op::kAdamWUpdate, AdamAttrs(), {w, w, w, w, {DType::kI64, {}}, lr}),
              HasSubstr("16 bits wide"));
}

TEST(OptimizerTest, ErrorsNameTheOperand) {
  const Type w{DType::kF32, {4}};
  const Type lr{DType::kF32, {}};
  EXPECT_THAT(InferError(Op::kSgdUpdate, SgdAttrs{.momentum = 0.9}, {w, w, lr}),
              HasSubstr("momentum=0.9 takes a momentum buffer"));
  EXPECT_THAT(InferError(Op::kSgdUpdate, SgdAttrs(), {w, w, lr, w}),
              HasSubstr("no momentum buffer"));
  EXPECT_THAT(InferError(Op::kSgdUpdate, SgdAttrs{.nesterov = true}, {w, w, lr}),
              HasSubstr("nesterov"));
  EXPECT_THAT(InferError(Op::kSgdUpdate, SgdAttrs(), {w, {DType::kF32, {3}}, lr}),
              HasSubstr("differ in shape"));
  EXPECT_THAT(InferError(Op::kSgdUpdate, SgdAttrs(), {w, w, {DType::kF64, {}}}),
              HasSubstr("lr must be f32[], not f64[]"));
  EXPECT_THAT(InferError(Op::kAdamUpdate, AdamAttrs(),
                         {w, w, w, {DType::kF16, {4}}, {DType::kI64, {}}, lr}),
              HasSubstr("v must be f32[4] like the parameter, not f16[4]"));
  EXPECT_THAT(InferError(Op::kAdamUpdate, AdamAttrs(), {w, w, w, w, {DType::kI32, {}}, lr}),
              HasSubstr("step must be i64[]"));
  EXPECT_THAT(
      InferError(Op::kAdamUpdate, AdamAttrs{.beta2 = 1}, {w, w, w, w, {DType::kI64, {}}, lr}),
      HasSubstr("beta2=1 is outside [0, 1)"));
}

TEST(OptimizerTest, SplittingTheWorkKeepsTheBits) {
  const Array w = NoiseArray(DType::kF32, {1500}, 1);
  const Array g = NoiseArray(DType::kF16, {1500}, 2);
  ExpectSameInPieces(Op::kSgdUpdate, SgdAttrs{.momentum = 0.9}, {w, g, F32({}, {0.1}), w});
  ExpectSameInPieces(
      Op::kAdamWUpdate, AdamAttrs(),
      {w, g, w, F32({1500}, {0.5}), MakeArray(DType::kI64, {}, {3}), F32({}, {0.1})});
}

// The runtime updates in place where no read follows.
TEST(OptimizerTest, ResultsMayShareMemoryWithTheirOperands) {
  const AdamAttrs adam{.weight_decay = 0.1};
  for (Op op : {Op::kAdamUpdate, Op::kAdamWUpdate}) {
    std::vector<Array> operands = {
        NoiseArray(DType::kF32, {1500}, 1), NoiseArray(DType::kF32, {1500}, 2),
        NoiseArray(DType::kF32, {1500}, 3), F32({1500}, {0.5}),
        MakeArray(DType::kI64, {}, {2}),    F32({}, {0.1})};
    const std::vector<Array> apart = EvalAll(op, adam, operands);
    std::vector<TensorView> views;
    for (const Array& operand : operands) views.push_back(operand.view());
    const TensorView results[] = {views[0], views[2], views[3]};
    const Attrs attrs = adam;
    EvalError error;
    const EvalCall call{.attrs = &attrs, .operands = views, .results = results, .error = &error};
    DefOf(op).eval.run(call, 0, DefOf(op).eval.items(call));
    EXPECT_TRUE(operands[0].BitEqual(apart[0]));
    EXPECT_TRUE(operands[2].BitEqual(apart[1]));
    EXPECT_TRUE(operands[3].BitEqual(apart[2]));
  }
}

// ---- Loss scale ----

struct Scaler {
  LossScaleAttrs attrs;
  double scale = 65536;
  double tracker = 0;

  void Update(bool ok, int times = 1) {
    for (int i = 0; i < times; ++i) {
      const std::vector<Array> next =
          EvalAll(Op::kUpdateLossScale, attrs,
                  {F32({}, {scale}), MakeArray(DType::kI32, {}, {tracker}),
                   MakeArray(DType::kBool, {}, {ok ? 1.0 : 0.0})});
      scale = next[0].Get(0);
      tracker = next[1].Get(0);
    }
  }
};

TEST(LossScaleTest, DefaultsDoubleAfter2000CleanSteps) {
  Scaler scaler;
  scaler.Update(true, 1999);
  EXPECT_EQ(scaler.scale, 65536);
  EXPECT_EQ(scaler.tracker, 1999);
  scaler.Update(true);
  EXPECT_EQ(scaler.scale, 131072);
  EXPECT_EQ(scaler.tracker, 0);
  scaler.Update(true, 10);
  scaler.Update(false);
  EXPECT_EQ(scaler.scale, 65536);
  EXPECT_EQ(scaler.tracker, 0);
}

TEST(LossScaleTest, OverflowsInARowHalveDownToZero) {
  Scaler scaler;
  scaler.Update(false, 16);
  EXPECT_EQ(scaler.scale, 1);
  scaler.Update(false);
  EXPECT_EQ(scaler.scale, 0.5);
  scaler.Update(false, 143 - 17);
  EXPECT_TRUE(std::isfinite(1.0f / static_cast<float>(scaler.scale)));
  scaler.Update(false);  // #144
  EXPECT_EQ(scaler.scale, 0x1p-128);
  EXPECT_TRUE(std::isinf(static_cast<float>(1.0 / scaler.scale)));
  scaler.Update(false, 165 - 144);
  EXPECT_EQ(scaler.scale, 0x1p-149);
  scaler.Update(false);  // #166: 2^-150 rounds to 0
  EXPECT_EQ(scaler.scale, 0);
}

TEST(LossScaleTest, ZeroInfinityAndNaNAbsorb) {
  for (double scale : {0.0, kInf, kNaN}) {
    Scaler scaler{.attrs = {.growth_interval = 1}, .scale = scale};
    scaler.Update(true);
    EXPECT_TRUE(SameNumber(scaler.scale, scale));
    EXPECT_EQ(scaler.tracker, 0);
    scaler.Update(false);
    EXPECT_TRUE(SameNumber(scaler.scale, scale));
  }
}

TEST(LossScaleTest, GrowthStopsBeforeInfinity) {
  Scaler scaler{.attrs = {.growth_interval = 1}};
  scaler.Update(true, 111);
  EXPECT_EQ(scaler.scale, 0x1p127);
  scaler.Update(true);  // the 112th is refused
  EXPECT_EQ(scaler.scale, 0x1p127);
  EXPECT_EQ(scaler.tracker, 0);
}

TEST(LossScaleTest, ARefusedGrowthKeepsTheScale) {
  Scaler scaler{.attrs = {.growth_factor = 16, .growth_interval = 1}, .scale = 1e38f};
  scaler.Update(true);
  EXPECT_EQ(scaler.scale, static_cast<double>(1e38f));
  EXPECT_NEAR(scaler.scale, 9.99999968e37, 1e29);
  EXPECT_EQ(scaler.tracker, 0);
}

// The test is for equality: a tracker at or beyond the interval never meets it, until an overflow
// resets it.
TEST(LossScaleTest, AnIntervalBelowTheTrackerStopsGrowth) {
  Scaler scaler{.attrs = {.growth_interval = 5}, .tracker = 5};
  scaler.Update(true, 20);
  EXPECT_EQ(scaler.scale, 65536);
  EXPECT_EQ(scaler.tracker, 25);
  scaler.Update(false);
  scaler.Update(true, 5);
  EXPECT_EQ(scaler.scale, 65536);  // halved, then doubled
  EXPECT_EQ(scaler.tracker, 0);
}

// The product is made in double and rounded: 9 * 0.1 is 0.9 to the nearest f32, and 9 * f32(0.1) is
// not.
TEST(LossScaleTest, ProductsAreRoundedOnce) {
  Scaler scaler{.attrs = {.backoff_factor = 0.1}, .scale = 9};
  scaler.Update(false);
  EXPECT_EQ(scaler.scale, static_cast<double>(static_cast<float>(9.0 * 0.1)));
  EXPECT_NE(scaler.scale, static_cast<double>(9.0f * 0.1f));
}

TEST(LossScaleTest, FloorAndCeilingHoldWhereSet) {
  Scaler scaler{.attrs = {.growth_interval = 1, .min_scale = 1024, .max_scale = 100000}};
  scaler.Update(true);
  EXPECT_EQ(scaler.scale, 100000);
  scaler.Update(false, 20);
  EXPECT_EQ(scaler.scale, 1024);
}

TEST(LossScaleTest, FactorsAreChecked) {
  const auto error = [](LossScaleAttrs attrs) {
    return InferError(Op::kUpdateLossScale, attrs,
                      {{DType::kF32, {}}, {DType::kI32, {}}, {DType::kBool, {}}});
  };
  EXPECT_EQ(error({}), "");
  EXPECT_THAT(error({.growth_factor = 1}), HasSubstr("growth_factor=1 must be above 1"));
  EXPECT_THAT(error({.backoff_factor = 1}), HasSubstr("backoff_factor=1 is outside (0, 1)"));
  EXPECT_THAT(error({.growth_interval = 0}), HasSubstr("growth_interval=0"));
  EXPECT_THAT(error({.min_scale = 2, .max_scale = 1}), HasSubstr("min_scale=2 and max_scale=1"));
  EXPECT_THAT(InferError(Op::kUpdateLossScale, LossScaleAttrs(),
                         {{DType::kF16, {}}, {DType::kI32, {}}, {DType::kBool, {}}}),
              HasSubstr("scale must be f32[], not f16[]"));
}

// ---- Learning rate ----

double Rate(ScheduleAttrs attrs, int64_t step) {
  return Eval(Op::kLearningRate, std::move(attrs),
              {MakeArray(DType::kI64, {}, {static_cast<double>(step)})})
      .Get(0);
}

TEST(LearningRateTest, WarmsUpToTheBase) {
  const ScheduleAttrs attrs{.base = 1, .warmup_steps = 4};
  EXPECT_EQ(Rate(attrs, 0), 0.25);
  EXPECT_EQ(Rate(attrs, 2), 0.75);
  EXPECT_EQ(Rate(attrs, 3), 1);
  EXPECT_EQ(Rate(attrs, 1000), 1);
}

TEST(LearningRateTest, DecaysToTheFinalRate) {
  ScheduleAttrs attrs{
      .schedule = "linear", .base = 1, .final = 0.5, .warmup_steps = 10, .total_steps = 20};
  EXPECT_EQ(Rate(attrs, 10), 1);
  EXPECT_EQ(Rate(attrs, 15), 0.75);
  EXPECT_EQ(Rate(attrs, 20), 0.5);
  EXPECT_EQ(Rate(attrs, 100), 0.5);
  attrs.schedule = "cosine";
  EXPECT_EQ(Rate(attrs, 10), 1);
  EXPECT_NEAR(Rate(attrs, 15), 0.75, 1e-7);
  EXPECT_NEAR(Rate(attrs, 12), 0.5 + 0.25 * (1 + std::cos(0.2 * 3.14159265358979)), 1e-7);
  EXPECT_EQ(Rate(attrs, 20), 0.5);
}

TEST(LearningRateTest, SchedulesAreChecked) {
  const auto error = [](ScheduleAttrs attrs) {
    return InferError(Op::kLearningRate, std::move(attrs), {{DType::kI64, {}}});
  };
  EXPECT_EQ(error({.schedule = "step"}),
            "learning_rate: unknown schedule 'step'; known are constant, linear, cosine");
  EXPECT_EQ(
      error({.schedule = "linear", .warmup_steps = 10, .total_steps = 10}),
      "learning_rate: schedule 'linear' needs more total_steps than its 10 warmup_steps, not 10");
  EXPECT_THAT(error({.base = -1}), HasSubstr("base=-1"));
  EXPECT_THAT(error({.base = kNaN}), HasSubstr("base=nan"));
  EXPECT_THAT(error({.warmup_steps = -1}), HasSubstr("warmup_steps=-1"));
}

}  // namespace
}  // namespace duotone::ir
