#include "passes/precision_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ir/text.h"
#include "passes/autocast.h"

namespace duotone::passes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::StartsWith;

class ReportTest : public testing::Test {
 protected:
  // The explanation of the graph after autocast.
  PrecisionExplanation Explain(std::string_view text, AutocastOptions options,
                               const ir::SizeBinding& binding = {}) {
    absl::StatusOr<std::unique_ptr<ir::Module>> module = ir::Parse(text);
    EXPECT_TRUE(module.ok()) << module.status();
    if (!module.ok()) return {};
    PassContext context;
    EXPECT_TRUE(Autocast(options).Run(**module, context).ok());
    const ir::Graph& graph = *(*module)->graphs().front();
    absl::StatusOr<PrecisionExplanation> explanation = ExplainPrecision(graph, options, binding);
    EXPECT_TRUE(explanation.ok()) << explanation.status();
    return explanation.ok() ? *std::move(explanation) : PrecisionExplanation{};
  }
};

// 2 * 4 * 16 * 8 = 1024 FLOPs for each of two products; relu does 32.
constexpr std::string_view kNet = R"(
graph @g(%x: f32[4, 16], %w: f32[16, 8], %v: f32[8, 16]) {
  %h = matmul(%x, %w) : f32[4, 8]
  %a = relu(%h) : f32[4, 8]
  %y = matmul(%a, %v) : f32[4, 16]
  %e = exp(%y) : f32[4, 16]
  return %e
})";

TEST_F(ReportTest, CountsNodesCastsAndFlops) {
  const CompileReport report = Explain(kNet, {.dtype = DType::kF16}).totals;
  EXPECT_EQ(report.dtype, "f16");
  // x, w and v cast, h, a in f16; y and e in f32.
  EXPECT_THAT(report.nodes_per_dtype, ElementsAre(Pair("f32", 2), Pair("f16", 5)));
  EXPECT_EQ(report.casts_inserted, 3);
  EXPECT_EQ(report.cast_bytes, 2 * (4 * 16 + 16 * 8 + 8 * 16));
  EXPECT_EQ(report.matmul_flops, 2048);
  EXPECT_EQ(report.matmul_flops_low, 2048);
  EXPECT_EQ(report.matmul_low_share(), 1);
  EXPECT_GT(report.flops, report.flops_low);  // exp
  EXPECT_GT(report.low_share(), 0.7);
}

TEST_F(ReportTest, NamedSizesAreBoundOrNominal) {
  constexpr std::string_view kBatch = R"(
graph @g(%x: f32[B, 16], %w: f32[16, 8]) { %h = matmul(%x, %w) : f32[B, 8] return %h })";
  ir::SizeBinding binding;
  binding["B"] = 8;
  EXPECT_EQ(Explain(kBatch, {.dtype = DType::kF16}, binding).totals.matmul_flops, 2 * 8 * 16 * 8);
  EXPECT_EQ(Explain(kBatch, {.dtype = DType::kF16}).totals.matmul_flops, 2 * kNominalSize * 16 * 8);
}

TEST_F(ReportTest, WarnsOfShapesThatMissAlignmentAndOnlyOfKnownOnes) {
  constexpr std::string_view kNarrow = R"(
graph @g(%x: f32[B, 16], %w: f32[16, 10]) {
  %h = matmul(%x, %w) : f32[B, 10] {loc="mlp.cc:20"}
  return %h
})";
  EXPECT_THAT(
      Explain(kNarrow, {.dtype = DType::kF16}).totals.warnings,
      ElementsAre("matmul (mlp.cc:20, node %h): n = 10 is no multiple of 8, so tensor cores "
                  "pad or are not used"));
  ir::SizeBinding binding;
  binding["B"] = 3;
  EXPECT_THAT(Explain(kNarrow, {.dtype = DType::kF16}, binding).totals.warnings,
              ElementsAre(HasSubstr("m = 3 and n = 10 are no multiples of 8")));
  EXPECT_THAT(Explain(kNet, {.dtype = DType::kF16}).totals.warnings,
              ElementsAre(HasSubstr("m = 4 is"), HasSubstr("m = 4 is")));
}

TEST_F(ReportTest, SaysWhyNothingIsInSixteenBits) {
  EXPECT_THAT(Explain(kNet, {}).totals.warnings,
              ElementsAre("no FLOP is in 16 bits: autocast is off"));
  EXPECT_THAT(
      Explain("graph @g(%x: f32[4]) { %y = relu(%x) : f32[4] return %y }", {.dtype = DType::kF16})
          .totals.warnings,
      ElementsAre("no FLOP is in 16 bits: no op of the graph is allow-listed"));
  constexpr std::string_view kOff = R"(
graph @g(%x: f32[8, 8]) { %y = matmul(%x, %x) : f32[8, 8] {region=off} return %y })";
  EXPECT_THAT(Explain(kOff, {.dtype = DType::kF16}).totals.warnings,
              ElementsAre(HasSubstr("in a region with autocast off")));
  EXPECT_THAT(Explain(kNet, {.dtype = DType::kF16,
                             .overrides = {{.op = ir::Op::kMatMul, .tone = ir::Tone::kDeny}}})
                  .totals.warnings,
              ElementsAre(StartsWith("no FLOP is in 16 bits: ")));
}

TEST_F(ReportTest, ExplainsNodesAndCasts) {
  const PrecisionExplanation explanation = Explain(kNet, {.dtype = DType::kF16});
  ASSERT_EQ(explanation.nodes.size(), 4u);  // casts are in the ledger
  EXPECT_EQ(explanation.nodes[1].name, "a");
  EXPECT_EQ(explanation.nodes[1].op, "relu");
  EXPECT_EQ(explanation.nodes[1].dtype, "f16");
  EXPECT_EQ(explanation.nodes[1].rule, "between");
  EXPECT_EQ(explanation.nodes[1].reason, "f16: clear op, between matmul (%h) and matmul (%y)");
  EXPECT_EQ(explanation.nodes[3].rule, "deny");
  ASSERT_EQ(explanation.casts.size(), 3u);
  EXPECT_EQ(explanation.casts[0].value, "x");
  EXPECT_EQ(explanation.casts[0].from, "f32");
  EXPECT_EQ(explanation.casts[0].to, "f16");
  EXPECT_EQ(explanation.casts[0].bytes, 128);
  EXPECT_THAT(explanation.casts[0].readers, ElementsAre("h"));
  EXPECT_EQ(explanation.casts[0].origin, "autocast:allow");
  EXPECT_THAT(ToText(explanation), HasSubstr("%a = relu : f16  f16: clear op, between"));
}

TEST_F(ReportTest, BackwardNodesHaveTheReasonsOfTheirForwardNodes) {
  const PrecisionExplanation explanation = Explain(R"(
graph @step(%x: f32[8, 8], %w: f32[8, 8]) {
  %x.f16 = cast(%x), to=f16 : f16[8, 8] {origin="autocast:allow"}
  %w.f16 = cast(%w), to=f16 : f16[8, 8] {origin="autocast:allow"}
  %h = matmul(%x.f16, %w.f16) : f16[8, 8] {origin="autocast:allow"}
  %dw = matmul(%x.f16, %h), transpose_a=true, out=f32 : f32[8, 8] {forward="h"}
  return %dw
})",
                                                   {.dtype = DType::kF16});
  ASSERT_EQ(explanation.nodes.size(), 2u);
  EXPECT_EQ(explanation.nodes[1].rule, "allow");
  EXPECT_THAT(explanation.nodes[1].reason, StartsWith("backward of %h; f16: allow op: "));
  EXPECT_EQ(explanation.totals.matmul_low_share(), 1);
  EXPECT_THAT(explanation.totals.warnings, IsEmpty());
}

TEST_F(ReportTest, TheTextIsTwoLinesAndTheWarnings) {
  const std::string text = ToText(Explain(kNet, {}).totals);
  EXPECT_THAT(text, StartsWith("autocast off: 4 nodes f32; 0 casts inserted, 0 B written by them\n"
                               "FLOPs "));
  EXPECT_THAT(text, HasSubstr("0.0 % in 16 bits"));
  EXPECT_THAT(text, HasSubstr("\nwarning: no FLOP is in 16 bits: autocast is off\n"));
}

}  // namespace
}  // namespace duotone::passes
