// A whole training step on the CPU device.
#include "tests/codegen/training_step.h"

#include <cmath>

#include "gtest/gtest.h"
#include "runtime/program.h"

namespace duotone::codegen::cpu {
namespace {

class TrainingStep : public ::testing::Test {
 protected:
  const std::unique_ptr<ir::Module> module_ = ParseOrDie(kTrainingStep);
  const ir::Graph& graph_ = *module_->FindGraph("step");
  const ir::ArrayMap initial_ = TrainingState(*module_);
};

TEST_F(TrainingStep, GivesTheInterpretersBits) {
  for (int threads : {1, 2, 3, 8}) {
    CpuSession session(*module_, initial_, threads, {.use_library = false});
    ir::ArrayMap state = initial_;
    for (int run = 0; run < 4; ++run) {
      const ir::ArrayMap inputs = RandomInputs(graph_, run);
      auto expected = ir::Interpret(graph_, inputs, state, {.seed = 3, .step = run});
      ASSERT_TRUE(expected.ok()) << expected.status();
      auto actual = session.Run(graph_, inputs, {.seed = 3});
      ASSERT_TRUE(actual.ok()) << actual.status();
      ASSERT_EQ(Difference(*actual, *expected), "") << threads << " threads, run " << run;
      state = std::move(expected->state);
    }
  }
}

TEST_F(TrainingStep, DoesNotDependOnTheNumberOfThreads) {
  ir::InterpreterResult one;
  for (int threads : {1, 2, 3, 8}) {
    CpuSession session(*module_, initial_, threads);
    for (int run = 0; run < 4; ++run) {
      auto result = session.Run(graph_, RandomInputs(graph_, run));
      ASSERT_TRUE(result.ok()) << result.status();
      if (run < 3) continue;
      if (threads == 1) one = *result;
      EXPECT_EQ(Difference(*result, one), "") << threads << " threads";
    }
  }
}

TEST_F(TrainingStep, IsNearTheReferenceWithTheLibrary) {
  CpuSession session(*module_, initial_, 2);
  const ir::ArrayMap inputs = RandomInputs(graph_, 0);
  auto expected = ir::Interpret(graph_, inputs, initial_);
  auto actual = session.Run(graph_, inputs);
  ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
  EXPECT_NEAR(actual->outputs["loss"].Get(0), expected->outputs["loss"].Get(0), 2e-3);
  // The first step of Adam moves each weight by the rate, whatever the size of its gradient: only
  // the second moment is smooth.
  for (int64_t i = 0; i < 96 * 80; ++i) {
    EXPECT_NEAR(actual->state["m"].Get(i), expected->state["m"].Get(i), 1e-4) << i;
  }
}

// Only the loss scale and its tracker, whose op is not elementwise, are copied.
TEST_F(TrainingStep, UpdatesParametersAndMomentsInPlace) {
  CpuSession session(*module_, initial_, 2);
  auto loaded = session.Load(graph_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const runtime::Program& program = (*loaded)->program();
  for (const runtime::Step& step : program.steps) {
    const auto* copy = std::get_if<runtime::Copy>(&step.action);
    if (copy == nullptr) continue;
    EXPECT_EQ(program.buffers[copy->to].bytes, 4) << program.ToString();
  }
}

TEST_F(TrainingStep, AnInfSkipsTheStepAndHalvesTheScale) {
  CpuSession session(*module_, initial_, 2);
  ASSERT_TRUE(session.Run(graph_, RandomInputs(graph_, 0)).ok());
  const ir::ArrayMap before = session.State();
  ir::ArrayMap inputs = RandomInputs(graph_, 1);
  inputs["x"].Set(5, INFINITY);
  auto result = session.Run(graph_, inputs);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const char* guarded : {"w", "m", "v", "step"}) {
    EXPECT_TRUE(result->state[guarded].BitEqual(before.find(guarded)->second)) << guarded;
  }
  EXPECT_EQ(result->outputs["skipped"].Get(0), 1);
  EXPECT_EQ(before.find("growth_tracker")->second.Get(0), 1);
  EXPECT_EQ(result->state["growth_tracker"].Get(0), 0);
  EXPECT_EQ(result->state["loss_scale"].Get(0), 512);
  EXPECT_EQ(result->state["rng_position"].Get(0), 2);
}

TEST_F(TrainingStep, ALabelOutOfRangeIsAnErrorThatChangesNothing) {
  CpuSession session(*module_, initial_, 2);
  ir::ArrayMap inputs = RandomInputs(graph_, 1);
  inputs["y"].Set(7, 80);
  auto result = session.Run(graph_, inputs);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(result.status().message(), "cross_entropy: index 80 is outside [0, 80) (node %loss)");
  EXPECT_EQ(Difference(session.State(), initial_), "");
  // The error is gone with the next run.
  EXPECT_TRUE(session.Run(graph_, RandomInputs(graph_, 1)).ok());
}

}  // namespace
}  // namespace duotone::codegen::cpu
