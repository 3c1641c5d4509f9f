// duotone opt, explain and the table commands, and how every command treats bad usage and bad
// files.
#include <gmock/gmock.h>

#include "nlohmann/json.hpp"
#include "tests/tools/command_test.h"

namespace duotone::tools {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class OptTest : public CommandTest {};

constexpr char kSmall[] = R"(module @small {
  param %w: f32[4, 2] = kaiming_uniform(fan_in=4)

  graph @loss(%x: f32[B, 4], %y: i32[B]) {
    %logits = matmul(%x, %w) : f32[B, 2]
    %loss, %lse = cross_entropy(%logits, %y) : f32[], f32[B]
    return loss=%loss, logits=%logits
  }
}
)";

TEST_F(OptTest, WithoutPassesTheTextIsPrintedBack) {
  const CommandResult result = Run({"opt", Write("m.duo", kSmall)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, kSmall);
  EXPECT_EQ(Run({"opt"}, kSmall).out, kSmall);
}

TEST_F(OptTest, EveryTrainingStepReadsBackAsItself) {
  for (const std::string model : {"mlp", "gpt"}) {
    for (const std::string amp : {"off", "f16", "bf16"}) {
      const std::vector<std::string> flags = {"--pipeline=train", "--amp=" + amp, "--verify-each"};
      std::vector<std::string> args = {"opt", SourcePath("samples/models/" + model + ".duo"), "-o",
                                       "step.duo"};
      args.insert(args.end(), flags.begin(), flags.end());
      const CommandResult first = Run(args);
      ASSERT_EQ(first.exit_code, 0) << first.err;
      const std::string text = Read("step.duo");
      EXPECT_THAT(text, HasSubstr("graph @step("));
      EXPECT_THAT(text, HasSubstr("adamw_update("));
      EXPECT_EQ(text.find("origin=\"autocast:") != std::string::npos, amp != "off");
      // Read and printed again, and even compiled again, it stays the same.
      EXPECT_TRUE(Run({"opt", "step.duo"}).out == text) << model << " " << amp;
      args = {"opt", "step.duo"};
      args.insert(args.end(), flags.begin(), flags.end());
      EXPECT_TRUE(Run(args).out == text) << model << " " << amp;
    }
  }
}

TEST_F(OptTest, SizesAreBoundBeforeThePasses) {
  const CommandResult step = Run({"opt", "--pipeline=train", "--amp=f16"}, kSmall);
  ASSERT_EQ(step.exit_code, 0) << step.err;
  const CommandResult bound = Run({"opt", "--bind=B=128", "--passes=weight-copies,dce"}, step.out);
  EXPECT_EQ(bound.exit_code, 0) << bound.err;
  EXPECT_THAT(bound.out, HasSubstr("graph @step(%x: f32[128, 4], %y: i32[128]) {"));
  EXPECT_THAT(bound.out, HasSubstr("derived %w.f16: f16[4, 2] = cast_of(%w)"));
  EXPECT_THAT(bound.out, Not(HasSubstr("B")));

  const CommandResult unknown = Run({"opt", "--bind=B=128", "--bind=T=4"}, kSmall);
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("--bind=T=4: module @small has no named size T; it has: B"));
}

TEST_F(OptTest, SomeSizesAreNotEnough) {
  const CommandResult result =
      Run({"opt", "--bind=B=2"}, "graph @g(%x: f32[B, T]) { %y = neg(%x) : f32[B, T] return %y }");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("--bind: graph @g: input %x: named size 'T' is not bound"));
}

TEST_F(OptTest, FusionIsExplainedWhenAskedFor) {
  const CommandResult step = Run({"opt", "--pipeline=train", "--amp=f16"}, kSmall);
  const std::vector<std::string> args = {"opt", "--pipeline=cuda", "--bind=B=8"};
  const CommandResult silent = Run(args, step.out);
  EXPECT_EQ(silent.exit_code, 0) << silent.err;
  EXPECT_EQ(silent.err, "");
  EXPECT_THAT(silent.out, HasSubstr("family=\"matmul\", reason=\""));
  const CommandResult told =
      Run({"opt", "--pipeline=cuda", "--bind=B=8", "--explain-fusion"}, step.out);
  EXPECT_EQ(told.out, silent.out);
  EXPECT_THAT(told.err, HasSubstr("@step: 5 kernels (matmul 2, optimizer 1, pointwise 1, row 1), "
                                  "0 casts alone\nbytes moved in one run: "));
  EXPECT_THAT(told.err, HasSubstr("cross_entropy reads rows of 2, the product computes tiles"));
}

TEST_F(OptTest, DumpsGoToStderr) {
  const CommandResult result = Run(
      {"opt", "--passes=autocast,dce", "--amp=f16", "--print-after=change", "--timing"}, kSmall);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("// after autocast, execution 0 (changed)\nmodule @small {"));
  EXPECT_THAT(result.err, Not(HasSubstr("// after dce")));
  EXPECT_THAT(result.out, StartsWith("module @small {"));
}

TEST_F(OptTest, BadUsageExitsWith2) {
  const std::vector<std::vector<std::string>> calls = {
      {},
      {"nonsense"},
      {"opt", "--nonsense"},
      {"opt", "--passes=nonsense"},
      {"opt", "--pipeline=nonsense"},
      {"opt", "--passes=dce", "--pipeline=train"},
      {"opt", "--amp=f8"},
      {"opt", "--lr=fast"},
      {"opt", "--override=op:nonsense=deny"},
      {"opt", "--override=exp=deny"},
      {"opt", "--bisect-limit=-1"},
      {"explain"},
      {"explain", "m.duo", "--bind=B"},
      {"opt", "m.duo", "--bind=B"},
      {"opt", "--momentum=0.9"},
      {"opt", "--optimizer=sgd", "--beta1=0.5"},
      {"train"},
      {"train", "m.duo"},
      {"train", "m.duo", "--data=csv:x", "--epochs=0"},
      {"train", "m.duo", "--data=csv:x", "--epochs=many"},
      {"train", "m.duo", "--data=csv:x", "--batch=-3"},
      {"train", "m.duo", "--data=csv:x", "--seed=-1"},
      {"train", "m.duo", "--data=csv:x", "--resume"},
      {"train", "m.duo", "--data=csv:x", "--amp=f8"},
      {"train", "m.duo", "--data=csv:x", "--keep-gradients=true"},
      {"train", "m.duo", "--data=csv:x", "--dump=everything"},
  };
  Write("m.duo", kSmall);
  for (const auto& call : calls) {
    const CommandResult result = Run(call, kSmall);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(call) << result.out << result.err;
    EXPECT_THAT(result.err, StartsWith("duotone: ")) << ::testing::PrintToString(call);
    EXPECT_LT(result.err.size(), 200u) << result.err;
  }
  EXPECT_THAT(Run({"nonsense"}).err, HasSubstr("there is no command 'nonsense'; the commands are"));
  EXPECT_THAT(Run({"opt", "--lr=fast"}).err, HasSubstr("--lr=fast: 'fast' is no number"));
}

// The README writes the model's flags in front of the file: none of them takes the file for a
// second value.
TEST_F(OptTest, FlagsMayStandBeforeTheFile) {
  Write("m.duo", kSmall);
  const CommandResult opt = Run({"opt", "--pipeline=train", "--options=dtype=f16", "--lr", "0.1",
                                 "--override=op:cross_entropy=deny", "--amp=f16", "m.duo"});
  EXPECT_EQ(opt.exit_code, 0) << opt.err;
  EXPECT_THAT(opt.out, HasSubstr("graph @step("));
  const CommandResult explain = Run({"explain", "--amp=f16", "--bind=B=4", "m.duo", "%logits"});
  EXPECT_EQ(explain.exit_code, 0) << explain.err;
  EXPECT_THAT(explain.out, HasSubstr("%logits"));
}

// A script that ends in "$@" gives its caller the last word.
TEST_F(OptTest, OfRepeatedFlagsTheLastCounts) {
  const CommandResult result =
      Run({"opt", "--pipeline=infer", "--amp=f16", "--pipeline=train", "--amp=bf16"}, kSmall);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("graph @step("));
  EXPECT_THAT(result.out, HasSubstr("bf16"));
}

TEST_F(OptTest, BadFilesExitWith1AndASentence) {
  struct Case {
    std::string text;
    std::string message;
  };
  const Case cases[] = {
      {"", "<stdin>:1:1"},
      {"module @m {", "<stdin>:1:"},
      {std::string("module @m\0{", 11), "<stdin>:1:"},
      {"graph @g(%x: f32[4]) { %y = nonsense(%x) : f32[4] return %y }", "nonsense"},
      {"graph @g(%x: f32[4]) { %y = neg(%z) : f32[4] return %y }", "%z"},
      {"graph @g(%x: f32[4]) { %y = neg(%x) : f32[5] return %y }", "f32[5]"},
      {"graph @g(%x: f32[-4]) { return %x }", "<stdin>:1:"},
      {"graph @g(%x: f32[4294967296, 4294967296]) { return %x }", "<stdin>:1:"},
      {"graph @g(%x: q7[4]) { return %x }", "q7"},
      {"graph @g(%x: f32[4], %x: f32[4]) { return %x }", "%x"},
  };
  for (const Case& c : cases) {
    const CommandResult result = Run({"opt"}, c.text);
    EXPECT_EQ(result.exit_code, 1) << c.text << result.out;
    EXPECT_THAT(result.err, StartsWith("duotone: ")) << c.text;
    EXPECT_THAT(result.err, HasSubstr(c.message)) << c.text;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_THAT(Run({"opt", "missing.duo"}).err, HasSubstr("cannot open missing.duo: No such file"));
  EXPECT_EQ(Run({"opt", "missing.duo"}).exit_code, 1);
}

TEST_F(OptTest, AnOutputThatCannotBeWrittenIsAnError) {
  const CommandResult result = Run({"opt", "-o", "/proc/nowhere/x.duo"}, kSmall);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("/proc/nowhere/x.duo"));
}

TEST_F(OptTest, ExplainGivesAReasonForEveryNode) {
  const CommandResult result =
      Run({"explain", Write("m.duo", kSmall), "--amp=f16", "--json=why.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("logits"));
  const auto json = nlohmann::json::parse(Read("why.json"));
  EXPECT_EQ(json["schema"], 1);
  ASSERT_FALSE(json["nodes"].empty());
  for (const auto& node : json["nodes"]) {
    EXPECT_FALSE(node["name"].get<std::string>().empty());
    EXPECT_FALSE(node["op"].get<std::string>().empty());
    EXPECT_FALSE(node["dtype"].get<std::string>().empty());
    EXPECT_FALSE(node["rule"].get<std::string>().empty()) << node;
    EXPECT_FALSE(node["reason"].get<std::string>().empty()) << node;
  }
  EXPECT_EQ(json["totals"]["casts"], 2);              // %x and %w
  EXPECT_GT(json["totals"]["flops_low_share"], 0.3);  // the product against the loss
  EXPECT_GT(json["totals"]["cast_bytes"], 0);
}

TEST_F(OptTest, ExplainOneNode) {
  const CommandResult result = Run({"explain", Write("m.duo", kSmall), "%loss", "--amp=f16"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("loss"));
  const CommandResult missing = Run({"explain", "m.duo", "%nonsense", "--amp=f16"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("no node %nonsense"));
}

TEST_F(OptTest, ExplainBindsTheSizesThatTheModelHas) {
  const std::string model = Write("m.duo", kSmall);
  // x is cast from f32 to f16: B * 4 elements of two bytes.
  EXPECT_THAT(Run({"explain", model, "--amp=f16", "--bind=B=1000"}).out, HasSubstr("8.0 kB"));
  const CommandResult unknown = Run({"explain", model, "--bind=Q=3"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("@loss has no named size Q; it has: B"));
  EXPECT_THAT(Run({"explain", model, "--bind=B=3", "--bind=B=4"}).err,
              HasSubstr("B is bound to 3 and to 4"));
}

TEST_F(OptTest, TablesAndHelpPrint) {
  EXPECT_THAT(Run({"ops"}).out, HasSubstr("matmul"));
  EXPECT_THAT(Run({"passes"}).out, HasSubstr("autocast"));
  EXPECT_THAT(Run({"devices"}).out, HasSubstr("reference"));
  EXPECT_THAT(Run({"--help"}).out, HasSubstr("train"));
  EXPECT_THAT(Run({"train", "--help"}).out, HasSubstr("--loss-scale"));
  EXPECT_THAT(Run({"--version"}).out, HasSubstr("duotone 0."));
}

TEST_F(OptTest, GeneratedPagesAreFresh) {
  ASSERT_EQ(Run({"docs", "pages"}).exit_code, 0);
  for (const std::string page : {"ops.md", "passes.md"}) {
    std::filesystem::copy_file(SourcePath("docs/" + page), dir_ / page);
    EXPECT_EQ(Read("pages/" + page), Read(page))
        << "docs/" << page << " is stale: run `duotone docs docs`";
  }
}

}  // namespace
}  // namespace duotone::tools
