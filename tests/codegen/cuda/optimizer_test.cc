// Optimizer kernels on the CPU against the reference evaluation: in exact mode they agree in every
// bit, in place as in memory of their own.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "tests/codegen/cuda/run_kernel.h"

namespace duotone::codegen::cuda {
namespace {

constexpr char kUpdates[] = "optimizer";

// One parameter of an Adam, with the gradient's unscaling and a 16-bit copy; types as text.
std::string AdamParameter(int i, const std::string& shape, const std::string& op,
                          const std::string& g, const std::string& attrs) {
  return absl::StrFormat(
      R"(
    %%s%1$d = broadcast(%%inverse) : f32%2$s
    %%u%1$d = mul(%%g%1$d%5$s, %%s%1$d) : f32%2$s
    %%w%1$d.next, %%m%1$d.next, %%v%1$d.next = %3$s(%%w%1$d, %%u%1$d, %%m%1$d, %%v%1$d, %%step, %%lr)%4$s : f32%2$s, f32%2$s, f32%2$s
    %%h%1$d = cast(%%w%1$d.next), to=f16 : f16%2$s)",
      i, shape, op, attrs.empty() ? "" : absl::StrCat(", ", attrs), g);
}

// Three parameters, one with a gradient in 16 bits and other attributes.
std::string AdamText(const std::string& op) {
  std::string inputs = "%scale: f32[], %step: i64[], %lr: f32[]", outputs;
  const std::vector<std::string> shapes = {"[40, 24]", "[24]", "[3, 5, 7]"};
  for (size_t i = 0; i < shapes.size(); ++i) {
    absl::StrAppendFormat(&inputs,
                          ", %%w%1$d: f32%2$s, %%g%1$d: %3$s%2$s, %%m%1$d: f32%2$s, %%v%1$d: "
                          "f32%2$s",
                          i, shapes[i], i == 2 ? "f16" : "f32");
    absl::StrAppendFormat(&outputs,
                          "%2$sw%1$d=%%w%1$d.next, m%1$d=%%m%1$d.next, "
                          "v%1$d=%%v%1$d.next, h%1$d=%%h%1$d",
                          i, i == 0 ? "" : ", ");
  }
  return absl::StrCat("graph @f(", inputs, ") {\n",
                      "    %one = constant(), value=1.0 : f32[]\n"
                      "    %inverse = div(%one, %scale) : f32[]",
                      AdamParameter(0, shapes[0], op, "", "weight_decay=0.01"),
                      AdamParameter(1, shapes[1], op, "", "weight_decay=0.01"),
                      "\n    %g2.f32 = cast(%g2), to=f32 : f32", shapes[2],
                      AdamParameter(2, shapes[2], op, ".f32", "beta1=0.8, eps=1e-6"),
                      "\n    return ", outputs, "\n}");
}

// Second moments are not negative.
ir::ArrayMap AdamInputs(const FusionModule& made, double step = 3) {
  ir::ArrayMap inputs;
  for (const ir::Node* input : made.fusion->body()->inputs()) {
    const std::string& name = input->name();
    ir::Array array(input->type());
    for (int64_t i = 0; i < array.elements(); ++i) {
      const double value = std::sin(static_cast<double>(i + 1) * (1 + name.back()));
      array.Set(i, name[0] == 'v' ? value * value : value);
    }
    if (name == "scale") array.Set(0, 1024);
    if (name == "step") array.Set(0, step);
    if (name == "lr") array.Set(0, 1e-3);
    inputs[name] = array;
  }
  return inputs;
}

// Results w, m and v take the memory of their operands.
std::vector<std::pair<int, int>> AdamInPlace() {
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < 3; ++i) {
    pairs.emplace_back(4 * i, 3 + 4 * i);
    pairs.emplace_back(4 * i + 1, 3 + 4 * i + 2);
    pairs.emplace_back(4 * i + 2, 3 + 4 * i + 3);
  }
  return pairs;
}

TEST(OptimizerKernel, AdamWithUnscaleAndCopiesIsExact) {
  for (const char* op : {"adam_update", "adamw_update"}) {
    const std::string text = AdamText(op);
    const ir::ArrayMap inputs = AdamInputs(ParseFusion(text, kUpdates));
    FusionOptions options{.family = kUpdates, .exact = true};
    ExpectFusionMatches(text, inputs, 0, options);
    options.in_place = AdamInPlace();
    ExpectFusionMatches(text, inputs, 0, options);
  }
}

TEST(OptimizerKernel, LateStepsAndTheFirst) {
  const std::string text = AdamText("adamw_update");
  const FusionModule made = ParseFusion(text, kUpdates);
  for (double step : {1.0, 1000.0, 123456789.0}) {
    ExpectFusionMatches(text, AdamInputs(made, step), 0, {.family = kUpdates, .exact = true});
  }
}

TEST(OptimizerKernel, DefaultModeStaysWithinRounding) {
  const std::string text = AdamText("adamw_update");
  ExpectFusionMatches(text, AdamInputs(ParseFusion(text, kUpdates)), 1e-6, {.family = kUpdates});
}

TEST(OptimizerKernel, SgdOfEveryKind) {
  const struct {
    std::string attrs, buffer, result, type;
  } kinds[] = {
      {"", "", "", ""},
      {", weight_decay=0.1", "", "", ""},
      {", momentum=0.9", ", %b", ", %b.next", ", f32[7, 9]"},
      {", momentum=0.9, nesterov=true, weight_decay=0.1", ", %b", ", %b.next", ", f32[7, 9]"},
  };
  for (const auto& kind : kinds) {
    const std::string text = absl::StrFormat(
        "graph @f(%%w: f32[7, 9], %%g: f16[7, 9], %%lr: f32[], %%b: f32[7, 9]) {\n"
        "%%w.next%s = sgd_update(%%w, %%g, %%lr%s)%s : f32[7, 9]%s\n"
        "return w=%%w.next%s }",
        kind.result, kind.buffer, kind.attrs, kind.type, kind.result.empty() ? "" : ", b=%b.next");
    ExpectFusionMatches(text, {}, 0, {.family = kUpdates, .exact = true});
  }
}

TEST(OptimizerKernel, DoubleParametersAndNumbers) {
  ExpectFusionMatches(R"(graph @f(%w: f64[11], %g: f64[11], %lr: f32[], %s: f32[], %sg: f32[]) {
    %w.next = sgd_update(%w, %g, %lr), weight_decay=0.1 : f64[11]
    %s.next = sgd_update(%s, %sg, %lr) : f32[]
    return w=%w.next, s=%s.next
  })",
                      {}, 0, {.family = kUpdates, .exact = true});
}

// A gradient that lies transposed, as some products leave it.
TEST(OptimizerKernel, TransposedGradient) {
  ExpectFusionMatches(R"(graph @f(%w: f32[16, 24], %g: f32[24, 16], %lr: f32[]) {
    %gt = transpose(%g), perm=[1, 0] : f32[16, 24]
    %w.next = sgd_update(%w, %gt, %lr) : f32[16, 24]
    return w=%w.next
  })",
                      {}, 0, {.family = kUpdates, .exact = true});
}

// An infinite gradient makes NaN of what it reaches and of nothing else.
TEST(OptimizerKernel, InfinitiesAreKept) {
  const std::string text = AdamText("adamw_update");
  ir::ArrayMap inputs = AdamInputs(ParseFusion(text, kUpdates));
  inputs["g0"].Set(5, std::numeric_limits<double>::infinity());
  inputs["w1"].Set(23, -std::numeric_limits<double>::infinity());
  ExpectFusionMatches(text, inputs, 0, {.family = kUpdates, .exact = true});
}

TEST(OptimizerKernel, AFalseGuardLeavesEveryBitAlone) {
  const FusionModule made = ParseFusion(AdamText("adamw_update"), kUpdates);
  const ir::ArrayMap inputs = AdamInputs(made);
  std::vector<ir::Array> operands;
  for (const ir::Node* input : made.fusion->body()->inputs()) {
    operands.push_back(inputs.lookup(input->name()));
  }
  for (bool guard : {false, true}) {
    const auto run = RunFusion(*made.fusion, operands,
                               {.family = kUpdates, .guard = guard, .in_place = AdamInPlace()});
    ASSERT_TRUE(run.ok()) << run.status();
    for (const auto& [result, operand] : AdamInPlace()) {
      EXPECT_EQ(run->results[result].BitEqual(operands[operand]), !guard) << result;
    }
  }
}

GeneratedKernel Generate(std::string_view text) {
  const FusionModule made = ParseFusion(text, kUpdates);
  const CodegenOptions options{.target = *FindGpuTarget("sm_80")};
  auto kernel = GenerateOptimizer(*made.fusion, {}, options);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *kernel : GeneratedKernel{};
}

int Count(const std::string& text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(OptimizerKernel, TensorsOfOneKindShareTheirCode) {
  EXPECT_EQ(Count(Generate(AdamText("adamw_update")).source, "void Update"), 2);
}

// 200 tensors of different sizes: their number decides the size of a table, not that of the code.
TEST(OptimizerKernel, ManyTensorsKeepTheSourceSmall) {
  std::string inputs = "%lr: f32[]", body, outputs;
  for (int i = 0; i < 200; ++i) {
    absl::StrAppendFormat(&inputs, ", %%w%1$d: f32[%2$d], %%g%1$d: f32[%2$d]", i, 1000 + 977 * i);
    absl::StrAppendFormat(&body, "%%n%1$d = sgd_update(%%w%1$d, %%g%1$d, %%lr) : f32[%2$d]\n", i,
                          1000 + 977 * i);
    absl::StrAppendFormat(&outputs, "%sw%d=%%n%d", i == 0 ? "" : ", ", i, i);
  }
  const GeneratedKernel kernel =
      Generate(absl::StrCat("graph @f(", inputs, ") {\n", body, "return ", outputs, "\n}"));
  EXPECT_EQ(Count(kernel.source, "void Update"), 1);
  EXPECT_LT(kernel.source.size(), 6000u);
  ASSERT_EQ(kernel.arguments.size(), 1u);
  EXPECT_EQ(kernel.arguments[0].table.size(), 200u * 4);
}

TEST(OptimizerKernel, AtLeastEightSchedulesAreRanked) {
  const GeneratedKernel kernel = Generate(AdamText("adam_update"));
  EXPECT_GE(Count(kernel.schedules, "\n"), 8);
}

TEST(OptimizerKernel, ParametersWithoutElementsHaveNothingToDo) {
  ExpectFusionMatches(R"(graph @f(%w: f32[0, 4], %g: f32[0, 4], %lr: f32[]) {
    %n = sgd_update(%w, %g, %lr) : f32[0, 4]
    return n=%n
  })",
                      {}, 0, {.family = kUpdates});
}

TEST(OptimizerKernel, ResultsWithoutAnUpdateAreErrors) {
  const FusionModule made = ParseFusion(R"(graph @f(%w: f32[4]) {
    %y = neg(%w) : f32[4]
    return y=%y
  })",
                                        kUpdates);
  const CodegenOptions options{.target = *FindGpuTarget("sm_80")};
  EXPECT_EQ(GenerateOptimizer(*made.fusion, {}, options).status().message(),
            "result 0 of an optimizer fusion depends on 0 updates, not on one");
}

}  // namespace
}  // namespace duotone::codegen::cuda
