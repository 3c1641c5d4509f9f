#include "passes/colour.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "ir/text.h"
#include "passes/autocast.h"

namespace duotone::passes {
namespace {

using ir::Node;
using ir::Op;
using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<ir::Module> ParseOrDie(std::string_view text) {
  absl::StatusOr<std::unique_ptr<ir::Module>> module = ir::Parse(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

class ColourTest : public testing::Test {
 protected:
  void Colour(std::string_view text, AutocastOptions options = {.dtype = DType::kF16}) {
    module_ = ParseOrDie(text);
    ASSERT_NE(module_, nullptr);
    options_ = std::move(options);
    absl::StatusOr<Colouring> colouring = passes::Colour(graph(), options_);
    ASSERT_TRUE(colouring.ok()) << colouring.status();
    colouring_ = *std::move(colouring);
  }
  const ir::Graph& graph() const { return *module_->graphs().front(); }
  const NodeColour& Of(std::string_view name) {
    return colouring_.nodes.find(graph().Find(name).node)->second;
  }
  std::string Reason(std::string_view name) {
    return ReasonFor(colouring_, options_, graph().Find(name).node);
  }
  std::string RuleOf(std::string_view name) { return std::string(RuleCode(Of(name).rule)); }

  std::unique_ptr<ir::Module> module_;
  AutocastOptions options_;
  Colouring colouring_;
};

constexpr std::string_view kChain = R"(
graph @g(%x: f32[8, 8], %w: f32[8, 8]) {
  %h = matmul(%x, %w) : f32[8, 8]
  %a = tanh(%h) : f32[8, 8]
  %y = matmul(%a, %w) : f32[8, 8]
  %t = tanh(%y) : f32[8, 8]
  %u = tanh(%t) : f32[8, 8]
  %n = neg(%x) : f32[8, 8]
  %z = matmul(%n, %w) : f32[8, 8]
  %e = exp(%z) : f32[8, 8]
  %r = relu(%e) : f32[8, 8]
  %s = sigmoid(%r) : f32[8, 8]
  %p = tanh(%x) : f32[8, 8]
  return u=%u, s=%s, p=%p
})";

TEST_F(ColourTest, ReasonsNameTheListAndThePath) {
  Colour(kChain);
  EXPECT_THAT(Reason("h"), testing::StartsWith("f16: allow op: "));
  EXPECT_EQ(Reason("a"), "f16: infer op, between matmul (%h) and matmul (%y)");
  EXPECT_EQ(Reason("t"), "f16: infer op, follows matmul (%y)");
  EXPECT_EQ(Reason("u"), "f16: infer op, follows matmul (%y) via %t");
  EXPECT_EQ(Reason("n"), "f16: clear op, next to matmul (%z)");
  EXPECT_THAT(Reason("e"), testing::StartsWith("fp32: deny op: "));
  EXPECT_EQ(Reason("s"), "fp32: infer op, downstream of exp (%e) via %r");
  EXPECT_THAT(Reason("p"), HasSubstr("without a 16-bit neighbour"));
}

TEST_F(ColourTest, AColouredGraphHasTheReasonsOfTheGraphBefore) {
  Colour(kChain);
  std::map<std::string, std::string> before;
  for (const auto& node : graph().nodes()) before[node->name()] = Reason(node->name());
  PassContext context;
  ASSERT_TRUE(*Autocast(options_).Run(*module_, context));
  absl::StatusOr<Colouring> again = passes::Colour(graph(), options_);
  ASSERT_TRUE(again.ok());
  for (const auto& [name, reason] : before) {
    EXPECT_EQ(ReasonFor(*again, options_, graph().Find(name).node), reason) << name;
  }
}

TEST_F(ColourTest, LongPathsAreAbridged) {
  std::string text = "graph @g(%x: f32[8, 8], %w: f32[8, 8]) {\n%n0 = matmul(%x, %w) : f32[8, 8]\n";
  for (int i = 1; i <= 20000; ++i) {
    text += "%n" + std::to_string(i) + " = tanh(%n" + std::to_string(i - 1) + ") : f32[8, 8]\n";
  }
  Colour(text + "return %n20000 }");
  EXPECT_EQ(Reason("n20000"),
            "f16: infer op, follows matmul (%n0) via %n19999, %n19998, %n19997, %n19996 and 19995 "
            "more");
}

TEST_F(ColourTest, TheOrderInTheFileDoesNotMatter) {
  Colour(R"(
graph @g(%x: f32[8, 8], %w: f32[8, 8], %b: f32[8]) {
  %bs = broadcast(%b), dims=[1] : f32[8, 8]
  %e = exp(%x) : f32[8, 8]
  %h = matmul(%x, %w) : f32[8, 8]
  %a = add(%h, %bs) : f32[8, 8]
  %c = add(%e, %bs) : f32[8, 8]
  return a=%a, c=%c
})");
  std::map<std::string, std::string> before;
  for (const auto& node : graph().nodes()) before[node->name()] = Reason(node->name());
  Colour(R"(
graph @g(%x: f32[8, 8], %w: f32[8, 8], %b: f32[8]) {
  %h = matmul(%x, %w) : f32[8, 8]
  %e = exp(%x) : f32[8, 8]
  %bs = broadcast(%b), dims=[1] : f32[8, 8]
  %c = add(%e, %bs) : f32[8, 8]
  %a = add(%h, %bs) : f32[8, 8]
  return a=%a, c=%c
})");
  for (const auto& [name, reason] : before) EXPECT_EQ(Reason(name), reason);
}

TEST_F(ColourTest, ConstantsAndAttributesThatDoNotFitSayWhich) {
  Colour(R"(
graph @g(%x: f32[8, 8], %w: f32[8, 8]) {
  %h = matmul(%x, %w) : f32[8, 8]
  %eps = constant(), value=1e-08 : f32[8, 8]
  %a = add(%h, %eps) : f32[8, 8]
  %c = clamp(%h), min=-100000, max=1 : f32[8, 8]
  return a=%a, c=%c
})");
  EXPECT_EQ(Reason("a"), "fp32: constant %eps: 1e-08 becomes 0 in f16");
  EXPECT_EQ(Reason("c"), "fp32: attribute min: -100000 becomes -inf in f16");
}

TEST_F(ColourTest, AConstantBroadcastToASumStaysWideAlsoWhereAMaskReadsItToo) {
  Colour(R"(
graph @g(%x: f32[8, 8], %w: f32[8, 8], %keep: bool[8, 8]) {
  %big = constant(), value=-1e9 : f32[]
  %bigs = broadcast(%big), dims=[] : f32[8, 8]
  %h = matmul(%x, %w) : f32[8, 8]
  %m = select(%keep, %h, %bigs) : f32[8, 8]
  %a = add(%h, %bigs) : f32[8, 8]
  return m=%m, a=%a
})");
  EXPECT_EQ(RuleOf("bigs"), "constant");
  EXPECT_EQ(RuleOf("a"), "constant");
  EXPECT_THAT(Of("a").reads, ElementsAre(DType::kF32, DType::kF32));
}

TEST_F(ColourTest, OverridesAreNamedInTheReason) {
  Colour(kChain, {.dtype = DType::kF16,
                  .overrides = {{.op = Op::kTanh, .tone = ir::Tone::kDeny},
                                {.pattern = "^t$", .tone = ir::Tone::kAllow}}});
  EXPECT_EQ(Reason("a"), "fp32: deny by the user's override of op tanh");
  EXPECT_EQ(Reason("t"), "f16: allow by the user's override of pattern '^t$'");
  EXPECT_THAT(colouring_.override_used, ElementsAre(true, true));
}

TEST_F(ColourTest, ABf16GraphHasNoF16AnywhereAndTheOtherWayRound) {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    for (CastPolicy policy : {CastPolicy::kOptimal, CastPolicy::kPyTorch}) {
      Colour(kChain, {.dtype = dtype, .policy = policy});
      PassContext context;
      ASSERT_TRUE(*Autocast(options_).Run(*module_, context));
      int low = 0;
      for (const auto& node : graph().nodes()) {
        if (!IsLow(node->type().dtype)) continue;
        ++low;
        EXPECT_EQ(node->type().dtype, dtype) << node->name();
      }
      EXPECT_GT(low, 4);
    }
  }
}

TEST(OverridesTest, ImpossibleOnesAreErrors) {
  auto message = [](PrecisionOverride entry) {
    return std::string(CheckOverrides({.dtype = DType::kF16, .overrides = {entry}}).message());
  };
  EXPECT_THAT(message({.tone = ir::Tone::kDeny}), HasSubstr("either an op or a pattern"));
  EXPECT_THAT(message({.op = Op::kExp, .pattern = "x", .tone = ir::Tone::kDeny}),
              HasSubstr("either an op or a pattern"));
  EXPECT_THAT(message({.op = Op::kExp, .tone = ir::Tone::kFixed}), HasSubstr("not fixed"));
  EXPECT_EQ(message({.op = Op::kExp, .tone = ir::Tone::kAllow}), "");
}

// Both end the process, or nearly, where matching recurses or goes back.
TEST_F(ColourTest, HostilePatternsAreOrdinaryOnes) {
  const std::string deep = std::string(20000, '(') + "t" + std::string(20000, ')');
  Colour("graph @g(%t: f32[4]) { %t1 = tanh(%t) : f32[4] return %t1 }",
         {.dtype = DType::kF16, .overrides = {{.pattern = deep, .tone = ir::Tone::kAllow}}});
  EXPECT_THAT(colouring_.override_used, ElementsAre(true));
  const std::string name(60, 'x');
  Colour("graph @g(%t: f32[4]) { %" + name + " = tanh(%t) : f32[4] return %" + name + " }",
         {.dtype = DType::kF16, .overrides = {{.pattern = "(x+x+)+y", .tone = ir::Tone::kAllow}}});
  EXPECT_THAT(colouring_.override_used, ElementsAre(false));
}

TEST(ColourErrorTest, TheTypeMustBeA16BitOne) {
  auto module = ParseOrDie("graph @g(%x: f32[4]) { %y = exp(%x) : f32[4] return %y }");
  for (std::optional<DType> dtype : {std::optional<DType>(), std::optional<DType>(DType::kF64)}) {
    EXPECT_THAT(std::string(Colour(*module->graphs().front(), {.dtype = dtype}).status().message()),
                HasSubstr("must be f16 or bf16"));
  }
}

TEST(RuleTest, CodesAreReadBackFromOrigins) {
  for (const RuleInfo& info : AllRules()) {
    EXPECT_EQ(AllRules()[static_cast<size_t>(info.rule)].code, info.code);
    EXPECT_EQ(RuleOfOrigin(OriginOf(info.rule)), info.rule);
  }
  EXPECT_EQ(RuleOfOrigin(""), std::nullopt);
  EXPECT_EQ(RuleOfOrigin("autocast:nonsense"), std::nullopt);
}

// PyTorch's lists (autocast_mode.h and autocast_mode.cpp of 2.12), in our ops' names. What is in no
// list is in kUnlisted.
struct TorchLists {
  std::set<std::string> lower, fp32, fp32_out, promote;
};
const TorchLists kCuda = {.lower = {"matmul"},
                          .fp32 = {"exp", "log", "rsqrt", "pow", "softplus", "layer_norm",
                                   "logsumexp", "cross_entropy", "mse_loss", "bce_with_logits"},
                          .fp32_out = {"softmax", "log_softmax", "reduce_sum"},
                          .promote = {"scatter_add"}};
const TorchLists kCpu = {.lower = {"matmul"},
                         .fp32 = {"cross_entropy", "mse_loss", "bce_with_logits"},
                         .fp32_out = {},
                         .promote = {"concat"}};

// The example graph of an op with the floating-point inputs that may be 16-bit turned into `dtype`.
std::unique_ptr<ir::Module> ExampleIn(const ir::OpDef& def, DType dtype) {
  auto module = ParseOrDie(def.example);
  if (module == nullptr) return nullptr;
  ir::Graph& graph = *module->graphs().front();
  for (const auto& node : graph.nodes()) {
    for (int i = 0; i < node->operand_count(); ++i) {
      Node* from = node->operand(i).node;
      const bool may = from->type().is_float() && from->type().dtype != DType::kF64 &&
                       from->op() == Op::kInput && !node->def().keeps_f32.contains(i);
      if (may) graph.SetInputType(from, from->type().WithDType(dtype));
    }
  }
  for (const auto& node : graph.nodes()) EXPECT_TRUE(graph.Reinfer(node.get()).ok()) << def.name;
  return module;
}

class TorchListTest : public testing::TestWithParam<ir::OpDef> {};

// Runs every op's example on 16-bit operands through policy `pytorch` and compares the dtypes with
// what A1.1 of PyTorch's description says about the op's list.
TEST_P(TorchListTest, GivesTheDTypesOfTheOpsList) {
  const ir::OpDef& def = GetParam();
  const std::string name(def.name);
  for (TorchDevice device : {TorchDevice::kCuda, TorchDevice::kCpu}) {
    const TorchLists& lists = device == TorchDevice::kCuda ? kCuda : kCpu;
    for (DType input : {DType::kF32, DType::kBF16, DType::kF16}) {
      auto module = ExampleIn(def, input);
      ASSERT_NE(module, nullptr);
      const ir::Graph& graph = *module->graphs().front();
      const AutocastOptions options{
          .dtype = DType::kF16, .policy = CastPolicy::kPyTorch, .torch_device = device};
      absl::StatusOr<Colouring> colouring = Colour(graph, options);
      ASSERT_TRUE(colouring.ok()) << colouring.status();
      const Node& node = *graph.nodes().back();
      ASSERT_EQ(node.op(), def.op) << "the example ends with another op";
      const NodeColour& colour = colouring->nodes.find(&node)->second;
      DType reads = input;
      std::optional<DType> writes;
      bool has_wide_operand = input != DType::kF16;
      for (int i = 0; i < node.operand_count(); ++i) {
        has_wide_operand |= node.operand(i).type().dtype == DType::kF32;
      }
      if (lists.lower.contains(name)) {
        reads = DType::kF16;
        writes = DType::kF16;
      } else if (lists.fp32.contains(name)) {
        reads = writes.emplace(DType::kF32);
      } else if (lists.fp32_out.contains(name)) {
        writes = DType::kF32;
      } else if (lists.promote.contains(name)) {
        reads = writes.emplace(has_wide_operand ? DType::kF32 : DType::kF16);
      } else {
        writes = node.type().dtype;  // as without autocast
      }
      for (int i = 0; i < node.operand_count(); ++i) {
        const ir::Type& type = node.operand(i).type();
        const bool castable =
            type.is_float() && type.dtype != DType::kF64 && !def.keeps_f32.contains(i);
        EXPECT_EQ(colour.reads[i], castable ? reads : type.dtype)
            << name << " operand " << i << " of " << DTypeName(input);
      }
      // An explicit out= of the example's is the user's, and stays.
      if (def.example.find("out=") == std::string_view::npos) {
        EXPECT_EQ(colour.writes[0], *writes) << name << " on " << DTypeName(input);
      }
    }
  }
}

std::vector<ir::OpDef> OpsWithFloatExamples() {
  std::vector<ir::OpDef> ops;
  for (const ir::OpDef& def : ir::AllOps()) {
    if (def.precision.f16 != ir::Tone::kFixed) ops.push_back(def);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(AllOps, TorchListTest, testing::ValuesIn(OpsWithFloatExamples()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TorchListsTest, NoListNamesAnOpThatDoesNotExist) {
  for (const TorchLists* lists : {&kCuda, &kCpu}) {
    for (const auto* list : {&lists->lower, &lists->fp32, &lists->fp32_out, &lists->promote}) {
      for (const std::string& name : *list) EXPECT_TRUE(ir::OpFromName(name)) << name;
    }
  }
}

}  // namespace
}  // namespace duotone::passes
