// Fused training steps are the unfused ones to the last bit, and how many kernels they have.
#include "passes/fuse.h"

#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "passes/fuse_groups.h"
#include "passes/fusion_report.h"
#include "passes/options_text.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"

namespace duotone::passes {
namespace {

using Counts = std::map<std::string, int>;

// The model's training step before fusion, with its batch size bound. f16 has a loss scale.
std::unique_ptr<ir::Module> Unfused(const std::string& model, const std::string& amp,
                                    int64_t batch) {
  std::stringstream text;
  text << std::ifstream(absl::StrCat(DUOTONE_SOURCE_DIR "/samples/models/", model, ".duo")).rdbuf();
  auto module = ir::Parse(text.str(), model);
  EXPECT_TRUE(module.ok()) << module.status();
  PassOptions parsed;
  const char* scale = amp == "f16" ? "dynamic" : "off";
  EXPECT_TRUE(
      ParseOptions(absl::StrCat("optimizer=adamw dtype=", amp, " loss_scale=", scale), parsed)
          .ok());
  for (const char* pipeline : {"train", "cuda"}) {
    auto passes = MakePipeline(pipeline, parsed);
    EXPECT_TRUE(passes.ok()) << passes.status();
    const auto report = PassManager({.skip = {pipeline == std::string("cuda") ? "fuse" : "dce"}})
                            .Run(*passes, **module);
    EXPECT_TRUE(report.ok()) << report.status();
  }
  for (const auto& graph : (*module)->graphs()) {
    EXPECT_TRUE(ir::BindSizes(*graph, {{"B", batch}}).ok());
  }
  return *std::move(module);
}

std::unique_ptr<ir::Module> Fused(const ir::Module& unfused) {
  std::unique_ptr<ir::Module> fused = unfused.Clone();
  PassContext ctx;
  const auto changed = Fuse().Run(*fused, ctx);
  EXPECT_TRUE(changed.ok() && *changed) << changed.status();
  const absl::Status verified = ir::Verify(*fused);
  EXPECT_TRUE(verified.ok()) << verified;
  return fused;
}

Counts Families(const ir::Graph& graph) {
  Counts counts;
  for (const auto& node : graph.nodes()) {
    if (node->op() == ir::Op::kFusion) ++counts[node->attrs_as<ir::FusionAttrs>().family];
  }
  return counts;
}

int LoneCasts(const ir::Graph& graph) {
  int casts = 0;
  for (const auto& node : graph.nodes()) {
    casts += node->op() == ir::Op::kCast;
    if (node->op() != ir::Op::kFusion) continue;
    bool only_casts = true;
    for (const auto& inner : node->body()->nodes()) {
      only_casts &= inner->op() == ir::Op::kCast || inner->def().lower == ir::Lower::kView;
    }
    casts += only_casts;
  }
  return casts;
}

struct ModelCase {
  std::string model;
  std::string amp;
  Counts step;
};

class Models : public testing::TestWithParam<ModelCase> {};

// Committed numbers: they may only shrink.
TEST_P(Models, HaveSoManyKernels) {
  const ModelCase& test = GetParam();
  const auto fused = Fused(*Unfused(test.model, test.amp, test.model == "mlp" ? 128 : 16));
  const ir::Graph& step = *fused->FindGraph("step");
  EXPECT_EQ(Families(step), test.step);
  EXPECT_EQ(LoneCasts(step), 0);
}

const Counts kMlp = {{"matmul", 8}, {"optimizer", 1}, {"pointwise", 1}, {"row", 1}};
// Per block: norms 2, softmax 1, and their gradients; and the embedding's norm, the last norm with
// its gradient, and the loss.
const Counts kGpt = {{"column", 1},    {"matmul", 75}, {"optimizer", 1},
                     {"pointwise", 1}, {"row", 27},    {"scatter", 1}};
INSTANTIATE_TEST_SUITE_P(
    Amp, Models,
    testing::Values(ModelCase{"mlp", "off", kMlp}, ModelCase{"mlp", "f16", kMlp},
                    ModelCase{"mlp", "bf16", kMlp}, ModelCase{"gpt", "off", kGpt},
                    ModelCase{"gpt", "f16", kGpt}, ModelCase{"gpt", "bf16", kGpt}),
    [](const auto& info) { return info.param.model + "_" + info.param.amp; });

// A pseudo-random array: floats on [-1, 1), integers on [0, 10).
ir::Array RandomArray(const ir::Type& type, uint64_t seed) {
  ir::Array array(type);
  for (int64_t i = 0; i < array.elements(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const double uniform = static_cast<double>(seed >> 33) / (1u << 30) - 1;
    array.Set(i, type.is_float() ? uniform : static_cast<double>((seed >> 33) % 10));
  }
  return array;
}

void ExpectSameBits(const ir::ArrayMap& actual, const ir::ArrayMap& expected,
                    const std::string& what) {
  EXPECT_EQ(actual.size(), expected.size());
  for (const auto& entry : expected) {
    auto it = actual.find(entry.first());
    ASSERT_TRUE(it != actual.end()) << entry.first().str();
    EXPECT_TRUE(it->second.BitEqual(entry.second)) << what << ": " << entry.first().str();
  }
}

class Steps : public testing::TestWithParam<std::pair<std::string, std::string>> {};

// Three steps, the second of which overflows and is skipped.
TEST_P(Steps, AreTheUnfusedOnesToTheLastBit) {
  const auto& [model, amp] = GetParam();
  const auto unfused = Unfused(model, amp, model == "mlp" ? 3 : 1);
  const auto fused = Fused(*unfused);
  ir::ArrayMap state;
  for (const auto& entry : unfused->state()) {
    const ir::Array* source =
        entry->init.source.empty() ? nullptr : &state.find(entry->init.source)->second;
    state[entry->name] = *ir::Initialise(*entry, /*seed=*/1, source);
  }
  for (int step = 0; step < 3; ++step) {
    const ir::Graph& graph = *unfused->FindGraph("step");
    ir::ArrayMap inputs;
    for (const ir::Node* input : graph.inputs()) {
      inputs[input->name()] = RandomArray(input->type(), step + 1);
    }
    if (amp == "f16") state["loss_scale"].Set(0, step == 1 ? 1e38 : 1024);
    const ir::RandomKey key{.seed = 1, .step = step};
    auto expected = ir::Interpret(graph, inputs, state, key);
    ASSERT_TRUE(expected.ok()) << expected.status();
    auto actual = ir::Interpret(*fused->FindGraph("step"), inputs, state, key);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ExpectSameBits(actual->outputs, expected->outputs, absl::StrCat("output of step ", step));
    ExpectSameBits(actual->state, expected->state, absl::StrCat("state after step ", step));
    if (amp == "f16") {
      EXPECT_EQ(expected->outputs["skipped"].Get(0), step == 1);
    }
    state = std::move(expected->state);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Steps,
                         testing::Values(std::pair("mlp", "f16"), std::pair("gpt_small", "f16"),
                                         std::pair("gpt_small", "bf16")),
                         [](const auto& info) {
                           return info.param.first + "_" + info.param.second;
                         });

TEST(Fuse, SaysNothingNewTheSecondTime) {
  const auto fused = Fused(*Unfused("gpt_small", "f16", 4));
  const std::string text = ir::Print(*fused);
  PassContext ctx;
  EXPECT_FALSE(*Fuse().Run(*fused, ctx));
  EXPECT_EQ(ir::Print(*fused), text);
}

// Bytes by hand: 8 numbers of 4 bytes in and out, once fused and twice unfused; and one cast alone.
TEST(FusionReport, CountsKernelsAndBytes) {
  auto module = ir::Parse(R"(graph @g(%x: f32[8], %z: f32[8]) {
    %e = exp(%x) : f32[8]
    %y = neg(%e) : f32[8]
    %h = cast(%z), to=f16 : f16[8]
    return y=%y, h=%h
  })");
  ASSERT_TRUE(module.ok()) << module.status();
  const FusionReport report = MakeFusionReport(*Fused(**module)->FindGraph("g"));
  EXPECT_EQ(report.kernels, 2);
  EXPECT_EQ(report.lone_casts, 1);
  EXPECT_EQ(report.bytes, 64 + 48);
  EXPECT_EQ(report.unfused_bytes, 128 + 48);
}

TEST(FusionReport, SaysWhyNeighboursStayApart) {
  auto module = ir::Parse(R"(graph @g(%x: f32[8, 8], %w: f32[8, 8]) {
    %h = matmul(%x, %w) : f32[8, 8]
    %p = softmax(%h), axis=1 : f32[8, 8]
    %y = matmul(%p, %w) : f32[8, 8]
    return %y
  })");
  ASSERT_TRUE(module.ok()) << module.status();
  const auto plan = PlanFusions(*(*module)->FindGraph("g"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> edges;
  for (const CutEdge& edge : CutEdges(*plan)) edges.push_back(ToText(edge));
  EXPECT_EQ(edges, (std::vector<std::string>{
                       "%h -> %p: softmax reads rows of 8, the product computes tiles",
                       "%p -> %y: a product computes each tile from many rows and columns of its "
                       "operands"}));
}

// A kernel of too many nodes would run out of registers.
TEST(Fuse, BoundsTheSizeOfAKernel) {
  std::string text = "graph @long(%x: f32[64]) {\n  %y0 = tanh(%x) : f32[64]\n";
  for (int i = 1; i < 200; ++i) {
    absl::StrAppend(&text, "  %y", i, " = tanh(%y", i - 1, ") : f32[64]\n");
  }
  const auto module = ir::Parse(absl::StrCat(text, "  return %y199\n}\n"));
  ASSERT_TRUE(module.ok()) << module.status();
  const auto fused = Fused(**module);
  size_t nodes = 0;
  for (const auto& node : fused->FindGraph("long")->nodes()) {
    EXPECT_LE(node->body()->node_count(), 64u);
    nodes += node->body()->node_count();
  }
  EXPECT_EQ(nodes, 200u);
}

// The sweep looks at each node a bounded number of times, however long the graph is.
TEST(Fuse, IsNearLinear) {
  auto visits_per_node = [](int layers) {
    std::string text = "graph @long(%x: f16[64, 64], %w: f16[64, 64], %b: f16[64, 64]) {\n";
    std::string last = "x";
    for (int i = 0; i < layers; ++i) {
      absl::StrAppend(&text, "  %h", i, " = matmul(%", last, ", %w) : f16[64, 64]\n  %a", i,
                      " = add(%h", i, ", %b) : f16[64, 64]\n  %r", i, " = relu(%a", i,
                      ") : f16[64, 64]\n  %s", i, " = add(%r", i, ", %", last, ") : f16[64, 64]\n");
      last = absl::StrCat("s", i);
    }
    absl::StrAppend(&text, "  return %", last, "\n}\n");
    const auto module = ir::Parse(text);
    EXPECT_TRUE(module.ok()) << module.status();
    const ir::Graph& graph = *(*module)->graphs()[0];
    const auto plan = PlanFusions(graph);
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->groups.size(), static_cast<size_t>(layers));
    return static_cast<double>(plan->visits) / static_cast<double>(graph.node_count());
  };
  EXPECT_LT(visits_per_node(2000), 1.01 * visits_per_node(200));
}

}  // namespace
}  // namespace duotone::passes
