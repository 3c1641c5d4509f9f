#include "duotone/session.h"

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/file.h"
#include "duotone/duotone.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duotone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr float kInf = std::numeric_limits<float>::infinity();

// loss = mean over B of sum over 2 of (x * w): the gradient of w[j] is the mean of x[:, j].
Model WeightedSum() {
  GraphBuilder b("weighted");
  Value x = b.Input("x", F32({"B", 2}));
  Value w = b.Param("w", F32({2}), Ones());
  Value sums = ReduceSum(x * w, {1});
  b.Output("loss", ReduceMean(sums));
  b.Output("sums", sums);
  return *std::move(b).Build();
}

Options PlainSgd(double lr = 0.5) {
  Options options{.optimizers = {Sgd{.lr = lr}}};
  options.reproducer_directory = "";
  return options;
}

TrainSession Start(const Model& model, const Options& options) {
  absl::StatusOr<TrainSession> session = Compile(model, options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

std::vector<float> Weights(const TrainSession& session, std::string_view name = "w") {
  absl::StatusOr<Tensor> w = session.GetState(name);
  EXPECT_TRUE(w.ok()) << w.status();
  return w->ToFloats();
}

template <typename T>
std::string ErrorOf(const absl::StatusOr<T>& result) {
  return std::string(result.status().message());
}

TEST(TrainSession, AStepMovesParametersAgainstTheGradient) {
  TrainSession session = Start(WeightedSum(), PlainSgd(0.5));
  const std::vector<float> x = {1, 2, 3, 6};  // two rows; the columns' means are 2 and 4
  absl::StatusOr<Metrics> metrics = session.Step({{"x", x}});
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_EQ(metrics->loss(), 6);  // (3 + 9) / 2
  EXPECT_EQ(metrics->step(), 1);
  EXPECT_FALSE(metrics->skipped());
  EXPECT_EQ(metrics->loss_scale(), 1);
  EXPECT_EQ(metrics->lr(), 0.5);
  EXPECT_THAT(metrics->Output("sums")->ToFloats(), ElementsAre(3, 9));
  EXPECT_THAT(Weights(session), ElementsAre(1 - 0.5f * 2, 1 - 0.5f * 4));
}

TEST(TrainSession, ABatchOfAnotherSizeSharesTheState) {
  TrainSession session = Start(WeightedSum(), PlainSgd(0.5));
  const std::vector<float> two_rows = {1, 2, 3, 6}, one_row = {4, 8};
  ASSERT_TRUE(session.Step({{"x", two_rows}}).ok());  // w = {0, -1}
  absl::StatusOr<Metrics> metrics = session.Step({{"x", one_row}});
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_EQ(metrics->loss(), -8);
  EXPECT_THAT(Weights(session), ElementsAre(-2, -5));
}

TEST(TrainSession, AnEmptyBatchMovesNothing) {
  TrainSession session = Start(WeightedSum(), PlainSgd(0.5));
  const std::vector<float> none;
  absl::StatusOr<Metrics> metrics = session.Step({{"x", none}});
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_THAT(Weights(session), ElementsAre(1, 1));
}

TEST(TrainSession, EvaluateChangesNothing) {
  TrainSession session = Start(WeightedSum(), PlainSgd());
  const std::vector<float> x = {1, 2};
  absl::StatusOr<Outputs> outputs = session.Evaluate({{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(*outputs->Get("loss"), 3);
  EXPECT_EQ(outputs->Find("nothing"), nullptr);
  EXPECT_THAT(Weights(session), ElementsAre(1, 1));
  EXPECT_EQ(session.step(), 0);
}

TEST(TrainSession, ABoundStepReadsTheCallersMemoryEachTime) {
  TrainSession session = Start(WeightedSum(), PlainSgd(0));
  std::vector<float> x = {1, 2};
  absl::StatusOr<BoundStep> step = session.Bind({{"x", x}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->Run()->loss(), 3);
  x = {10, 20};
  EXPECT_EQ(step->Run()->loss(), 30);
}

TEST(TrainSession, OutputsOfAnEarlierStepAreGone) {
  TrainSession session = Start(WeightedSum(), PlainSgd());
  const std::vector<float> x = {1, 2};
  absl::StatusOr<Metrics> first = session.Step({{"x", x}});
  absl::StatusOr<Metrics> second = session.Step({{"x", x}});
  EXPECT_EQ(ErrorOf(first->Output("sums")),
            "output 'sums' of step 1 was overwritten by a later step");
  EXPECT_TRUE(second->Output("sums").ok());
  EXPECT_EQ(first->loss(), 3);  // numbers stay
  EXPECT_THAT(ErrorOf(second->Output("logits")),
              HasSubstr("there is no output 'logits'; the step has loss, sums"));
}

TEST(TrainSession, WrongFeedsAreSentences) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({"B", 4})), y = b.Input("y", I32({"B"}));
  b.Output("loss", CrossEntropy(x * b.Param("w", F32({4}), Ones()), y));
  TrainSession session = Start(*std::move(b).Build(), PlainSgd());
  const std::vector<float> x8(8), x7(7), x12(12);
  const std::vector<double> doubles(8);
  const std::vector<int32_t> y2(2), y3(3);
  EXPECT_EQ(ErrorOf(session.Step({{"x", x8}})), "input y (i32[B]) is not fed");
  EXPECT_EQ(ErrorOf(session.Step({{"x", x8}, {"z", y2}})),
            "there is no input 'z'; the model has x: f32[B, 4], y: i32[B]");
  EXPECT_EQ(ErrorOf(session.Step({{"x", x8}, {"y", y2}, {"x", x8}})), "input x is fed twice");
  EXPECT_EQ(ErrorOf(session.Step({{"x", doubles}, {"y", y2}})),
            "input x: expected f32[B, 4], given 8 values of f64");
  EXPECT_EQ(ErrorOf(session.Step({{"x", x7}, {"y", y2}})),
            "input x: expected f32[B, 4], given 7 values of f32");
  EXPECT_EQ(ErrorOf(session.Step({{"x", {x8, {2, 2, 2}}}, {"y", y2}})),
            "input x: expected f32[B, 4], given f32[2, 2, 2]");
  EXPECT_EQ(ErrorOf(session.Step({{"x", {x12, {4, 3}}}, {"y", y2}})),
            "input x: expected f32[B, 4], given f32[4, 3]");
  EXPECT_EQ(
      ErrorOf(session.Step({{"x", x8}, {"y", y3}})),
      "input y: expected i32[B], given 3 values of i32, but B is 2 by input x, given 8 values "
      "of f32");
  EXPECT_EQ(ErrorOf(session.Step({{"x", {x12, {3, 4}}}, {"y", {y2, {2}}}})),
            "input y: expected i32[B], given i32[2], but B is 3 by input x, given f32[3, 4]");
  EXPECT_EQ(ErrorOf(session.Step({{"x", {nullptr, DType::kF32, {2, 4}}}, {"y", y2}})),
            "input x: the data pointer is null");
  EXPECT_TRUE(session.Step({{"x", x8}, {"y", y2}}).ok());
}

TEST(TrainSession, SizesFollowFromOtherFeeds) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({"B", "T"})), t = b.Input("t", F32({"T"}));
  b.Output("loss", ReduceSum(x * t * b.Param("w", F32({}), Ones())));
  TrainSession session = Start(*std::move(b).Build(), PlainSgd());
  const std::vector<float> six = {1, 2, 3, 4, 5, 6}, three = {1, 0, 0};
  absl::StatusOr<Metrics> metrics = session.Step({{"x", six}, {"t", three}});  // T = 3, so B = 2
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_EQ(metrics->loss(), 1 + 4);
}

TEST(TrainSession, SizesThatDoNotFollowNeedShapes) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({"B", "T"}));
  b.Output("loss", ReduceSum(x * b.Param("w", F32({}), Ones())));
  TrainSession session = Start(*std::move(b).Build(), PlainSgd());
  const std::vector<float> six(6);
  EXPECT_THAT(ErrorOf(session.Step({{"x", six}})), HasSubstr("give the feeds' shapes"));
  EXPECT_TRUE(session.Step({{"x", {six, {2, 3}}}}).ok());
}

TEST(TrainSession, ALabelOutOfRangeIsASentenceAndChangesNoParameter) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({"B", 4})), y = b.Input("y", I32({"B"}));
  b.Output("loss", CrossEntropy(x * b.Param("w", F32({4}), Ones()), y));
  TrainSession session = Start(*std::move(b).Build(), PlainSgd());
  const std::vector<float> x4 = {1, 2, 3, 4};
  const std::vector<int32_t> bad = {4}, good = {1};
  const std::string error = ErrorOf(session.Step({{"x", x4}, {"y", bad}}));
  EXPECT_THAT(error, HasSubstr("step 1: "));
  EXPECT_THAT(error, HasSubstr("4"));
  EXPECT_THAT(error, HasSubstr("session_test.cc:"));
  EXPECT_THAT(Weights(session), ElementsAre(1, 1, 1, 1));
  EXPECT_TRUE(session.Step({{"x", x4}, {"y", good}}).ok());
}

TEST(TrainSession, AnInfiniteGradientSkipsTheStepAndHalvesTheScale) {
  Options options = PlainSgd(0.5);
  options.optimizers = {Adam{.lr = 0.5}};
  options.loss_scale = DynamicLossScale({.init_scale = 1024});
  TrainSession session = Start(WeightedSum(), options);
  const std::vector<float> good = {1, 2}, bad = {kInf, 2};
  ASSERT_TRUE(session.Step({{"x", good}}).ok());
  std::map<std::string, Tensor> before;
  for (const StateInfo& info : session.States()) before[info.name] = *session.GetState(info.name);

  absl::StatusOr<Metrics> metrics = session.Step({{"x", bad}});
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_TRUE(metrics->skipped());
  EXPECT_EQ(metrics->loss_scale(), 1024);  // the one the step used
  EXPECT_EQ(metrics->skipped_steps(), 1);
  EXPECT_EQ(metrics->consecutive_skips(), 1);
  for (const auto& [name, value] : before) {
    const Tensor now = *session.GetState(name);
    if (name == "loss_scale") {
      EXPECT_EQ(now.Get(0), 512);
    } else if (name == "growth_tracker") {
      EXPECT_EQ(value.Get(0), 1);
      EXPECT_EQ(now.Get(0), 0);
    } else if (name == "rng_position") {
      EXPECT_EQ(now.Get(0), 2);
    } else if (name == "skipped_steps" || name == "consecutive_skips") {
      EXPECT_EQ(now.Get(0), 1);
    } else {  // parameters, moments, the optimizer's step
      EXPECT_TRUE(now == value) << name;
    }
  }
  metrics = session.Step({{"x", good}});
  EXPECT_FALSE(metrics->skipped());
  EXPECT_EQ(metrics->skipped_steps(), 1);
  EXPECT_EQ(metrics->consecutive_skips(), 0);
}

TEST(TrainSession, TooManySkipsInARowEndTheRun) {
  Options options = PlainSgd();
  options.max_consecutive_skips = 2;
  TrainSession session = Start(WeightedSum(), options);
  const std::vector<float> bad = {kInf, 2};
  EXPECT_TRUE(session.Step({{"x", bad}}).ok());
  EXPECT_THAT(ErrorOf(session.Step({{"x", bad}})),
              HasSubstr("step 2: the gradients were not finite in 2 steps in a row"));
}

TEST(TrainSession, AScaleThatHasBecomeUnusableEndsTheRun) {
  Options options = PlainSgd();
  options.loss_scale = DynamicLossScale({.init_scale = 0x1p-120, .backoff_factor = 0x1p-20});
  TrainSession session = Start(WeightedSum(), options);
  const std::vector<float> bad = {kInf, 2}, good = {1, 2};
  ASSERT_TRUE(session.Step({{"x", bad}}).ok());  // the scale becomes 2^-140, its inverse infinite
  EXPECT_THAT(ErrorOf(session.Step({{"x", good}})),
              HasSubstr("step 2: the loss scale has become 7.17"));
  EXPECT_THAT(Weights(session), ElementsAre(1, 1));
}

TEST(TrainSession, StateCanBeReadAndSet) {
  TrainSession session = Start(WeightedSum(), PlainSgd());
  const std::vector<float> w = {3, 4}, three(3);
  ASSERT_TRUE(session.SetState("w", w).ok());
  EXPECT_THAT(Weights(session), ElementsAre(3, 4));
  EXPECT_EQ(std::string(session.SetState("w", three).message()),
            "state entry w: expected f32[2], given 3 values of f32");
  EXPECT_EQ(ErrorOf(session.GetState("v")), "there is no state entry 'v'");
}

TEST(TrainSession, TheSeedDecidesInitialValues) {
  GraphBuilder b("m");
  b.Output("loss", ReduceSum(b.Input("x", F32({2})) * b.Param("w", F32({2}), Normal(1))));
  const Model model = *std::move(b).Build();
  Options options = PlainSgd();
  const std::vector<float> first = Weights(Start(model, options));
  EXPECT_EQ(Weights(Start(model, options)), first);
  options.seed = 1;
  EXPECT_NE(Weights(Start(model, options)), first);
}

TEST(TrainSession, AMovedSessionGoesOn) {
  TrainSession session = Start(WeightedSum(), PlainSgd(0.5));
  const std::vector<float> x = {2, 4};
  ASSERT_TRUE(session.Step({{"x", x}}).ok());
  TrainSession moved = std::move(session);
  ASSERT_TRUE(moved.Step({{"x", x}}).ok());
  EXPECT_THAT(Weights(moved), ElementsAre(-1, -3));
}

TEST(Compile, TheIrTextShowsTheCasts) {
  Options options = PlainSgd();
  options.autocast.dtype = DType::kF16;
  GraphBuilder b("m");
  Value h = MatMul(b.Input("x", F32({"B", 8})), b.Param("w", F32({8, 8}), KaimingUniform()));
  b.Output("loss", ReduceMean(h));
  TrainSession session = Start(*std::move(b).Build(), options);
  EXPECT_THAT(session.ir_text(), HasSubstr("to=f16"));
  EXPECT_THAT(session.ir_text(), HasSubstr("graph @step("));
  EXPECT_THAT(session.report().text, HasSubstr("autocast f16"));
  EXPECT_GT(session.report().casts, 0);
  EXPECT_GT(session.report().flops_low_share, 0.5);
}

TEST(Compile, AFailureLeavesAReproducer) {
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / "duotone_reproducers";
  std::filesystem::remove_all(directory);
  Options options = PlainSgd();
  options.reproducer_directory = directory.string();
  options.losses = {"cost"};
  const std::string error = ErrorOf(Compile(WeightedSum(), options));
  EXPECT_THAT(error, HasSubstr("@loss has no output called cost to minimise"));
  ASSERT_FALSE(std::filesystem::is_empty(directory));
  const std::filesystem::path file = *std::filesystem::directory_iterator(directory);
  EXPECT_THAT(error, HasSubstr(file.string()));
  const std::string text = *ReadFile(file.string());
  EXPECT_THAT(text, HasSubstr("// RUN: --pipeline=train losses=cost optimizer=sgd lr=0.5"));
  EXPECT_TRUE(ParseModel(text).ok());
}

TEST(Compile, BadOptionsLeaveNoReproducer) {
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / "duotone_no_reproducers";
  Options options = PlainSgd(-1);
  options.reproducer_directory = directory.string();
  EXPECT_EQ(ErrorOf(Compile(WeightedSum(), options)),
            "options: optimizers[0]: lr must not be negative, and is -1");
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(Compile, DumpsGoToTheSink) {
  std::vector<std::string> titles;
  Options options = PlainSgd();
  options.dump = {.print_after = {"train-step"},
                  .sink = [&](std::string_view title, std::string_view text) {
                    titles.emplace_back(title);
                    EXPECT_TRUE(ParseModel(text).ok());
                  }};
  Start(WeightedSum(), options);
  ASSERT_EQ(titles.size(), 1u);
  EXPECT_THAT(titles[0], HasSubstr("train-step.after"));
}

TEST(Compile, ABuilderWithAnErrorReturnsIt) {
  GraphBuilder b("m");
  b.Output("loss", ReduceSum(b.Input("x", F32({2})), {5}));
  EXPECT_THAT(ErrorOf(Compile(std::move(b), PlainSgd())), HasSubstr("session_test.cc:"));
  EXPECT_EQ(ErrorOf(Compile(Model(), PlainSgd())), "compile: the model is empty");
}

}  // namespace
}  // namespace duotone
