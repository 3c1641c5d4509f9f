// duotone train on small data: what it prints and writes, resuming, and every way its input can be
// wrong.
#include <gmock/gmock.h>

#include <cstdio>

#include "nlohmann/json.hpp"
#include "tests/runtime/cuda/scoped_environment.h"
#include "tests/tools/command_test.h"

namespace duotone::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Two classes told apart by the sign of the first feature.
std::string Separable(int rows) {
  std::string csv;
  for (int i = 0; i < rows; ++i) {
    const int label = (i * 7 / 3) % 2;
    csv += std::to_string(label == 0 ? -1.0 - 0.1 * (i % 5) : 1.0 + 0.1 * (i % 4)) + "," +
           std::to_string(0.01 * (i % 11)) + "," + std::to_string(label) + "\n";
  }
  return csv;
}

constexpr char kModel[] = R"(module @small {
  param %w1: f32[2, 8] = kaiming_uniform(fan_in=2)
  param %w2: f32[8, 2] = kaiming_uniform(fan_in=8)
  graph @loss(%x: f32[B, 2], %y: i32[B]) {
    %h0 = matmul(%x, %w1) : f32[B, 8]
    %h1 = relu(%h0) : f32[B, 8]
    %h, %mask = dropout(%h1), rate=0.25 : f32[B, 8], bool[B, 8]
    %logits = matmul(%h, %w2) : f32[B, 2]
    %loss, %lse = cross_entropy(%logits, %y) : f32[], f32[B]
    return loss=%loss, logits=%logits
  }
}
)";

class TrainTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    Write("m.duo", kModel);
    Write("d.csv", Separable(100));
  }
  CommandResult Train(std::vector<std::string> more) {
    std::vector<std::string> args = {"train", "m.duo", "--batch=16", "--lr=0.05"};
    bool has_data = false;
    for (const std::string& arg : more) has_data = has_data || arg.rfind("--data=", 0) == 0;
    if (!has_data) args.push_back("--data=csv:d.csv");
    args.insert(args.end(), more.begin(), more.end());
    return Run(args);
  }
};

TEST_F(TrainTest, LearnsInEveryPrecisionAndEndsWithTheAccuracy) {
  for (const std::string amp : {"off", "f16", "bf16"}) {
    const CommandResult result = Train({"--amp=" + amp, "--epochs=6", "--json=r.json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("\ntest_accuracy 1.0000\n")) << amp << result.err;
    EXPECT_THAT(result.out, StartsWith("test_loss "));
    const auto json = nlohmann::json::parse(Read("r.json"));
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["steps"], 36);  // 90 rows: five batches of 16 and one of 10, six times
    EXPECT_EQ(json["test_accuracy"], 1.0);
    EXPECT_EQ(json["skipped"], 0);
    EXPECT_EQ(json["flops_low_share"] > 0.5, amp != "off");
    EXPECT_EQ(result.err.find("loss scale: 65536 from step 1\n") != std::string::npos,
              amp == "f16");
  }
}

TEST_F(TrainTest, AGraphCalledStepIsNoForwardGraph) {
  std::string model = kModel;
  model.replace(model.find("@loss"), 5, "@step");
  Write("s.duo", model);
  const CommandResult result = Run({"train", "s.duo", "--data=csv:d.csv"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("a forward graph needs another name"));
}

// What opt prints is a model: its @step trains as it stands. Without @eval it cannot be evaluated.
TEST_F(TrainTest, AStepWithoutEvalTrainsButIsNotEvaluated) {
  Write("c.duo", Run({"opt", "--pipeline=train", "m.duo"}).out);
  EXPECT_EQ(Run({"train", "c.duo", "--data=csv:d.csv"}).exit_code, 0);
  std::string model = Read("c.duo");
  const size_t eval = model.find("graph @eval");
  model.erase(eval, model.find("graph @step") - eval);
  Write("e.duo", model);
  const CommandResult result = Run({"train", "e.duo", "--data=csv:d.csv"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("has no graph @eval"));
}

TEST_F(TrainTest, OneOfSeveralGraphsIsTrained) {
  std::string model = kModel;
  model.replace(model.find("@loss"), 5, "@mine");
  model.insert(model.rfind('}'), "  graph @other(%z: f32[2]) { return %z }\n");
  Write("two.duo", model);
  EXPECT_THAT(Run({"train", "two.duo", "--data=csv:d.csv"}).err,
              HasSubstr("--graph must name one"));
  const CommandResult result = Run({"train", "two.duo", "--data=csv:d.csv", "--graph=mine"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(TrainTest, ALogHasARowPerStep) {
  ASSERT_EQ(Train({"--amp=f16", "--epochs=1", "--log=l.csv"}).exit_code, 0);
  const std::string log = Read("l.csv");
  EXPECT_THAT(log, StartsWith("step,loss,loss_scale,skipped,ms\n1,"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 7);
  EXPECT_THAT(log, HasSubstr(",65536,0,"));
}

TEST_F(TrainTest, DumpsAreWrittenIntoTheirFolder) {
  const CommandResult result = Train(
      {"--amp=f16", "--max-steps=1", "--dump=graph,colours,program,timing", "--dump-dir=d/e"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(Read("d/e/step.duo"), HasSubstr("graph @step("));
  EXPECT_THAT(Read("d/e/step.colours.txt"), HasSubstr("logits"));
  EXPECT_THAT(Read("d/e/step.program.txt"), HasSubstr("program @step"));
  EXPECT_THAT(result.err, HasSubstr("d/e/step.duo"));
  EXPECT_THAT(result.err, HasSubstr("autodiff"));
}

TEST_F(TrainTest, MaxStepsOnlyStops) {
  ASSERT_EQ(Train({"--epochs=3", "--max-steps=4", "--schedule=linear", "--json=r.json",
                   "--log=short.csv"})
                .exit_code,
            0);
  EXPECT_EQ(nlohmann::json::parse(Read("r.json"))["steps"], 4);
  // The schedule is that of three epochs: the first steps are those of the whole run.
  ASSERT_EQ(Train({"--epochs=3", "--schedule=linear", "--log=long.csv"}).exit_code, 0);
  auto losses = [&](const std::string& name) {
    std::vector<std::string> rows;
    std::istringstream log(Read(name));
    for (std::string row; std::getline(log, row) && rows.size() < 5;)
      rows.push_back(row.substr(0, row.rfind(',')));
    return rows;
  };
  EXPECT_EQ(losses("short.csv"), losses("long.csv"));
}

TEST_F(TrainTest, AResumedRunEndsWithTheSameWeights) {
  ASSERT_EQ(Train({"--amp=f16", "--epochs=3", "--seed=3", "--json=whole.json"}).exit_code, 0);
  const std::vector<std::string> parts = {"--amp=f16", "--epochs=3", "--seed=3", "--checkpoint=ck",
                                          "--resume"};
  auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> args = parts;
    args.insert(args.end(), more.begin(), more.end());
    return Train(args);
  };
  const CommandResult first = with({"--max-steps=7"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("there is no checkpoint in ck yet"));
  const CommandResult second = with({"--json=parts.json"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("at step 7"));
  const auto whole = nlohmann::json::parse(Read("whole.json")),
             resumed = nlohmann::json::parse(Read("parts.json"));
  EXPECT_EQ(whole["params_hash"], resumed["params_hash"]);
  EXPECT_EQ(whole["final_loss"], resumed["final_loss"]);
}

TEST_F(TrainTest, AResumedRunWithNothingLeftToDoStillReportsTheSkippedSteps) {
  const std::vector<std::string> args = {"--amp=f16", "--init-scale=1e30", "--checkpoint=ck",
                                         "--resume", "--json=r.json"};
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(Train(args).exit_code, 0);
    EXPECT_EQ(nlohmann::json::parse(Read("r.json"))["skipped"], 6) << run;
  }
}

TEST_F(TrainTest, InterruptedRunsAreSaved) {
  const CommandResult result = RunAndInterrupt(
      {"train", "m.duo", "--data=csv:d.csv", "--batch=1", "--epochs=1000000", "--checkpoint=ck"},
      "compiled in");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("interrupted after step"));
  EXPECT_THAT(result.err, HasSubstr("--resume goes on from here"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "ck" / "latest"));
}

TEST_F(TrainTest, ThreadsAndDevicesDoNotChangeTheResult) {
  auto hash = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--amp=bf16", "--json=r.json"});
    const CommandResult result = Train(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(Read("r.json"))["params_hash"].get<std::string>();
  };
  EXPECT_EQ(hash({"--threads=1"}), hash({"--threads=3"}));
  EXPECT_NE(hash({"--seed=1"}), hash({"--seed=2"}));
}

TEST_F(TrainTest, AGpuThatIsNotThereIsAnErrorAndNoFallback) {
  const runtime::ScopedEnvironment no_driver("DUOTONE_LIBCUDA", "/nowhere/libcuda.so");
  const CommandResult result = Train({"--device=cuda:0"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("cuda:0: no CUDA driver on this machine"));
  EXPECT_EQ(Train({"--device=cuda"}).exit_code, 2);
}

TEST_F(TrainTest, BadDataIsNamed) {
  auto fails = [&](std::vector<std::string> args, const std::string& message) {
    const CommandResult result = Train(args);
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(result.out, "");
  };
  fails({"--data=csv:none.csv"}, "cannot open none.csv");
  fails({"--data=nonsense"}, "unknown data set");
  fails({"--data=csv:" + Write("wide.csv", "1,2,3,0\n")},
        "%x takes rows of f32[2], but the data's x has rows of f32[3]");
  fails({"--data=csv:" + Write("label.csv", "1,2,0\n1,2,5\n")},
        "labels up to 5, but the model's logits tell 2 classes apart");
  fails({"--data=csv:" + Write("nan.csv", "1,nan,0\n")}, "nan.csv:1: column 2 is nan");
  fails({"--data=text:d.csv"}, "the model's logits tell 2 classes apart");
  fails({"--data=fashion-mnist", "--data-dir=/nowhere"}, "there is no folder /nowhere");
  fails({"--checkpoint=/proc/nowhere", "--max-steps=1"}, "/proc/nowhere");
  fails(
      {"--json=/proc/nowhere/r.json", "--max-steps=1", "--data=csv:" + Write("few.csv", "1,2,0\n")},
      "/proc/nowhere/r.json");
  fails({"--log=/proc/nowhere/l.csv"}, "/proc/nowhere/l.csv");
  fails({"--log=l.txt"}, "must end in .csv or .jsonl");
}

TEST_F(TrainTest, BadModelsAreNamed) {
  auto fails = [&](const std::string& model, const std::string& message, int code = 1) {
    Write("m.duo", model);
    const CommandResult result = Train({});
    EXPECT_EQ(result.exit_code, code) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  fails("graph @g(%x: f32[B, 2], %y: i32[B]) { %l = neg(%x) : f32[B, 2] return %l }", "loss");
  fails(
      "graph @g(%x: f32[A, B], %y: i32[A]) { %loss = reduce_mean(%x), axes=[0, 1] : f32[] return "
      "loss=%loss }",
      "only the first size may be named");
  fails(
      "module @m { param %w: f16[2, 2] = zeros() graph @g(%x: f16[B, 2], %y: i32[B]) { %h = "
      "matmul(%x, %w) : f16[B, 2] "
      "%loss, %lse = cross_entropy(%h, %y) : f32[], f32[B] return loss=%loss } }",
      "would update the parameter %w in f16");
}

TEST_F(TrainTest, ADamagedCheckpointIsRefused) {
  ASSERT_EQ(Train({"--checkpoint=ck", "--max-steps=3"}).exit_code, 0);
  std::string latest = Read("ck/latest");
  while (!latest.empty() && latest.back() == '\n') latest.pop_back();
  const std::string path = "ck/" + latest;
  std::string bytes = Read(path);
  Write(path, bytes.substr(0, bytes.size() / 2));
  CommandResult result = Train({"--checkpoint=ck", "--resume", "--max-steps=5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(path));
  bytes[bytes.size() / 2] ^= 1;
  Write(path, bytes);
  result = Train({"--checkpoint=ck", "--resume", "--max-steps=5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("checksum"));
}

TEST_F(TrainTest, TextDataEndsWithAValidationLoss) {
  Write("t.duo", R"(module @chars {
  param %table: f32[8, 8] = normal(stddev=0.1)
  graph @loss(%x: i32[B, 6], %y: i32[B, 6]) {
    %logits = gather(%table, %x) : f32[B, 6, 8]
    %loss, %lse = cross_entropy(%logits, %y) : f32[], f32[B, 6]
    return loss=%loss, logits=%logits
  }
}
)");
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcd";
  Write("t.txt", text);
  const CommandResult result = Run(
      {"train", "t.duo", "--data=text:t.txt", "--batch=8", "--lr=0.1", "--epochs=30", "--amp=f16"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("validation_loss 0."));
  EXPECT_THAT(result.out, HasSubstr("test_accuracy 1.0000\n"));
}

// The test part is judged by the losses that were minimised, whatever they are called.
TEST_F(TrainTest, LossesMayHaveAnyName) {
  std::string model = kModel;
  model.replace(model.find("return loss=%loss"), 17, "return cost=%loss, more=%loss");
  Write("m.duo", model);
  const CommandResult one = Train({"--losses=cost", "--max-steps=3"});
  const CommandResult two = Train({"--losses=cost,more", "--lr=0", "--max-steps=3"});
  const CommandResult half = Train({"--losses=cost", "--lr=0", "--max-steps=3"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  ASSERT_EQ(two.exit_code, 0) << two.err;
  double sum = 0, part = 0;
  ASSERT_EQ(std::sscanf(two.out.c_str(), "test_loss %lf", &sum), 1) << two.out;
  ASSERT_EQ(std::sscanf(half.out.c_str(), "test_loss %lf", &part), 1) << half.out;
  EXPECT_NEAR(sum, 2 * part, 2e-4);
}

}  // namespace
}  // namespace duotone::tools
