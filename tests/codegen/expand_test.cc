// Composites written as primitive nodes compute what the composites compute.
#include "codegen/expand.h"

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/text.h"

namespace duotone::codegen {
namespace {

using ir::Array;
using ir::ArrayMap;
using ir::Op;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::unique_ptr<ir::Module> Parse(const std::string& text) {
  absl::StatusOr<std::unique_ptr<ir::Module>> module = ir::Parse(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return *std::move(module);
}

ExpandedBody Expand(const ir::Graph& graph) {
  absl::StatusOr<ExpandedBody> expanded = ExpandBody(graph);
  EXPECT_TRUE(expanded.ok()) << expanded.status();
  return *std::move(expanded);
}

ArrayMap Interpret(const ir::Graph& graph, const ArrayMap& inputs) {
  absl::StatusOr<ir::InterpreterResult> result = ir::Interpret(graph, inputs, {});
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->outputs : ArrayMap();
}

// Numbers on [-3, 3); integers on [0, 5).
ArrayMap RandomInputs(const ir::Graph& graph, int seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  ArrayMap inputs;
  for (const ir::Node* input : graph.inputs()) {
    Array array(input->type());
    for (int64_t i = 0; i < array.elements(); ++i) {
      array.Set(i, input->type().is_float() ? random() % 6000 / 1000.0 - 3 : random() % 5);
    }
    inputs[input->name()] = array;
  }
  return inputs;
}

// Between two results of `dtype` near `value` that f32 arithmetic on numbers of about 1 has made in
// two orders: its rounding errors, and one unit in the last place of the type.
double Tolerance(DType dtype, double value) {
  const int digits = dtype == DType::kF16 ? 11 : dtype == DType::kBF16 ? 8 : 24;
  const double ulp = std::ldexp(1.0, std::ilogb(std::max(std::fabs(value), 1e-6)) + 1 - digits);
  return ulp + std::ldexp(std::max(1.0, std::fabs(value)), -20);
}

void ExpectSame(const ArrayMap& actual, const ArrayMap& expected, const std::string& what) {
  for (const auto& entry : expected) {
    const Array& want = entry.getValue();
    const Array& got = actual.find(entry.getKey())->second;
    ASSERT_EQ(got.type(), want.type());
    for (int64_t i = 0; i < want.elements(); ++i) {
      const double a = got.Get(i);
      const double b = want.Get(i);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      ASSERT_LE(std::fabs(a - b), Tolerance(want.type().dtype, b))
          << what << ": " << entry.getKey().str() << "[" << i << "] is " << a << ", not " << b;
    }
  }
}

void ExpectExpansionAgrees(const ir::Graph& graph, const ArrayMap& inputs,
                           const std::string& what) {
  const ExpandedBody expanded = Expand(graph);
  ExpectSame(Interpret(*expanded.graph, inputs), Interpret(graph, inputs), what);
}

struct Case {
  const char* name;
  const char* text;  // DT: the dtype
};

constexpr Case kCases[] = {
    {"softmax", "graph @g(%x: DT[5, 7]) { %y = softmax(%x), axis=1 : DT[5, 7] return %y }"},
    {"softmax_inner",
     "graph @g(%x: DT[5, 7, 2]) { %y = softmax(%x), axis=1, out=f32 : f32[5, 7, 2] return %y }"},
    {"log_softmax", "graph @g(%x: DT[5, 7]) { %y = log_softmax(%x), axis=1 : DT[5, 7] return %y }"},
    {"logsumexp", "graph @g(%x: DT[5, 7]) { %y = logsumexp(%x), axes=[1] : DT[5] return %y }"},
    {"logsumexp_axes",
     "graph @g(%x: DT[5, 7, 2]) { %y = logsumexp(%x), axes=[0, 2], keep_dims=true, out=f32 : "
     "f32[1, 7, 1] return %y }"},
    {"logsumexp_scalar", "graph @g(%x: DT[]) { %y = logsumexp(%x), axes=[] : DT[] return %y }"},
    {"softmax_grad",
     "graph @g(%y: DT[5, 7], %g: DT[5, 7]) { %dx = softmax_grad(%y, %g), axis=1 : DT[5, 7] "
     "return %dx }"},
    {"log_softmax_grad",
     "graph @g(%y: DT[5, 7], %g: DT[5, 7]) { %dx = log_softmax_grad(%y, %g), axis=0 : DT[5, 7] "
     "return %dx }"},
    {"layer_norm",
     "graph @g(%x: DT[5, 7], %gamma: f32[7], %beta: f32[7]) { %y, %mean, %rstd = "
     "layer_norm(%x, %gamma, %beta), eps=0.001 : DT[5, 7], f32[5], f32[5] "
     "return y=%y, mean=%mean, rstd=%rstd }"},
    {"layer_norm_two_axes",
     "graph @g(%x: DT[5, 2, 3], %gamma: DT[2, 3], %beta: DT[2, 3]) { %y, %mean, %rstd = "
     "layer_norm(%x, %gamma, %beta) : DT[5, 2, 3], f32[5], f32[5] return %y }"},
    {"layer_norm_grad",
     "graph @g(%x: DT[5, 7], %gamma: f32[7], %mean: f32[5], %rstd: f32[5], %dy: DT[5, 7]) { "
     "%dx, %dgamma, %dbeta = layer_norm_grad(%x, %gamma, %mean, %rstd, %dy) : "
     "DT[5, 7], f32[7], f32[7] return dx=%dx, dgamma=%dgamma, dbeta=%dbeta }"},
    {"layer_norm_grad_one_row",
     "graph @g(%x: DT[7], %gamma: f32[7], %mean: f32[], %rstd: f32[], %dy: DT[7]) { "
     "%dx, %dgamma, %dbeta = layer_norm_grad(%x, %gamma, %mean, %rstd, %dy) : "
     "DT[7], f32[7], f32[7] return dx=%dx, dgamma=%dgamma, dbeta=%dbeta }"},
    {"cross_entropy",
     "graph @g(%x: DT[6, 5], %labels: i32[6]) { %loss, %lse = cross_entropy(%x, %labels) : "
     "f32[], f32[6] return loss=%loss, lse=%lse }"},
    {"cross_entropy_smoothed",
     "graph @g(%x: DT[3, 2, 5], %labels: i64[3, 2]) { %loss, %lse = cross_entropy(%x, %labels), "
     "label_smoothing=0.1, ignore_index=1 : f32[], f32[3, 2] return loss=%loss, lse=%lse }"},
    {"cross_entropy_one_row",
     "graph @g(%x: DT[5], %labels: i32[]) { %loss, %lse = cross_entropy(%x, %labels) : "
     "f32[], f32[] return loss=%loss, lse=%lse }"},
    {"cross_entropy_grad",
     "graph @g(%x: DT[6, 5], %labels: i32[6], %lse: f32[6], %dloss: f32[]) { "
     "%dx = cross_entropy_grad(%x, %labels, %lse, %dloss), label_smoothing=0.2, ignore_index=3 : "
     "DT[6, 5] return %dx }"},
    {"mse_loss",
     "graph @g(%x: DT[6, 5], %t: f32[6, 5]) { %loss = mse_loss(%x, %t) : f32[] return %loss }"},
    {"mse_loss_scalar",
     "graph @g(%x: DT[], %t: f32[]) { %loss = mse_loss(%x, %t) : f32[] return %loss }"},
    {"bce_with_logits",
     "graph @g(%x: DT[6], %t: f32[6]) { %loss = bce_with_logits(%x, %t) : f32[] return %loss }"},
    {"reduce_mean_row",
     "graph @g(%x: DT[6, 5]) { %y = reduce_mean(%x), axes=[1], keep_dims=true : DT[6, 1] "
     "return %y }"},
    {"reduce_mean_column",
     "graph @g(%x: DT[6, 5]) { %y = reduce_mean(%x), axes=[0], out=f32 : f32[5] return %y }"},
    {"reduce_sum_scalar",
     "graph @g(%x: DT[]) { %y = reduce_sum(%x), axes=[], out=f32 : f32[] return %y }"},
};

class ExpandTest : public testing::TestWithParam<Case> {
 protected:
  static std::unique_ptr<ir::Module> Module(const char* dtype) {
    return Parse(absl::StrReplaceAll(GetParam().text, {{"DT", dtype}}));
  }
};

TEST_P(ExpandTest, RandomOperands) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    const auto module = Module(dtype);
    for (int seed = 0; seed < 5; ++seed) {
      const ir::Graph& graph = *module->graphs()[0];
      ExpectExpansionAgrees(graph, RandomInputs(graph, seed), absl::StrCat(dtype, " ", seed));
    }
  }
}

// Rows of -inf, a +inf among numbers, NaN among numbers, all +inf: the same NaNs and infinities.
TEST_P(ExpandTest, SpecialOperands) {
  const auto module = Module("f32");
  const ir::Graph& graph = *module->graphs()[0];
  for (double special : {-kInf, kInf, kNaN, 3e38, 1e-40}) {
    for (int64_t count : {1, 2, 1000}) {
      for (const ir::Node* input : graph.inputs()) {
        if (!input->type().is_float()) continue;
        ArrayMap inputs = RandomInputs(graph, 1);
        Array& x = inputs[input->name()];
        const int64_t line = x.type().rank() == 0 ? 1 : x.type().shape.back().size();
        for (int64_t i = 0; i < std::min(count, line); ++i) x.Set(i, special);
        ExpectExpansionAgrees(graph, inputs, absl::StrCat(input->name(), " ", special));
      }
    }
  }
}

TEST_P(ExpandTest, LeavesNoComposite) {
  const std::set<Op> composites = {Op::kSoftmax,    Op::kLogSoftmax,    Op::kLogSumExp,
                                   Op::kLayerNorm,  Op::kSoftmaxGrad,   Op::kLogSoftmaxGrad,
                                   Op::kMseLoss,    Op::kBceWithLogits, Op::kCrossEntropyGrad,
                                   Op::kReduceMean, Op::kCrossEntropy,  Op::kLayerNormGrad};
  const auto module = Module("f16");
  const ExpandedBody expanded = Expand(*module->graphs()[0]);
  for (const auto& node : expanded.graph->nodes()) {
    EXPECT_EQ(composites.count(node->op()), 0u) << ir::PrintNode(*node);
  }
}

INSTANTIATE_TEST_SUITE_P(Composites, ExpandTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ExpandValues, AMaskedRowHasProbabilitiesOfZero) {
  const auto module = Parse(
      "graph @g(%x: f32[3]) { %y = softmax(%x), axis=0 : f32[3] "
      "%z = log_softmax(%x), axis=0 : f32[3] return y=%y, z=%z }");
  const ExpandedBody expanded = Expand(*module->graphs()[0]);
  ArrayMap inputs;
  inputs["x"] = Array::Of({DType::kF32, {3}}, {-kInf});
  const ArrayMap outputs = Interpret(*expanded.graph, inputs);
  EXPECT_EQ(outputs.find("y")->second.Get(1), 0);
  EXPECT_EQ(outputs.find("z")->second.Get(1), -kInf);
}

// Of four rows one has the ignored label and two have labels that are no classes: the loss is that
// of the remaining row, log 2. The check tells the two kinds apart.
TEST(ExpandValues, LabelsAreChecked) {
  const auto module = Parse(
      "graph @g(%x: f32[4, 2], %labels: i32[4]) { %loss, %lse = cross_entropy(%x, %labels) : "
      "f32[], f32[4] {loc=\"a.cc:7\"} return %loss }");
  const ExpandedBody expanded = Expand(*module->graphs()[0]);
  ArrayMap inputs;
  inputs["x"] = Array::Of({DType::kF32, {4, 2}}, {0.0});
  inputs["labels"] = Array::Of({DType::kI32, {4}}, {-100, 1, 2, -1});
  const ArrayMap outputs = Interpret(*expanded.graph, inputs);
  EXPECT_NEAR(outputs.find("loss")->second.Get(0), std::log(2.0), 1e-7);

  ASSERT_EQ(expanded.checks.size(), 1u);
  const IndexCheck& check = expanded.checks[0];
  EXPECT_EQ(check.indices.name(), "labels");
  EXPECT_EQ(check.limit, 2);
  EXPECT_EQ(check.ignored, -100);
  EXPECT_EQ(check.op, "cross_entropy");
  EXPECT_EQ(check.place, "(a.cc:7, node %loss)");
}

TEST(ExpandValues, RowNumbersOfGatherAreChecked) {
  const auto module =
      Parse("graph @g(%t: f32[9, 2], %i: i32[4]) { %y = gather(%t, %i) : f32[4, 2] return %y }");
  const ExpandedBody expanded = Expand(*module->graphs()[0]);
  ASSERT_EQ(expanded.checks.size(), 1u);
  EXPECT_EQ(expanded.checks[0].limit, 9);
  EXPECT_FALSE(expanded.checks[0].ignored.has_value());
}

// Both composites need the row's greatest logit and the rows that count.
TEST(ExpandValues, EqualNodesAreMadeOnce) {
  const auto module = Parse(
      "graph @g(%x: f16[4, 5], %labels: i32[4], %dloss: f32[]) { "
      "%loss, %lse = cross_entropy(%x, %labels) : f32[], f32[4] "
      "%dx = cross_entropy_grad(%x, %labels, %lse, %dloss) : f16[4, 5] "
      "return loss=%loss, dx=%dx }");
  const ExpandedBody expanded = Expand(*module->graphs()[0]);
  int sums = 0;
  for (const auto& node : expanded.graph->nodes()) sums += node->op() == Op::kReduceSum;
  EXPECT_EQ(sums, 4);  // of exponentials, of the picked logit, of valid rows, of losses
}

TEST(ExpandValues, NothingIsTheMeanOfNothing) {
  const auto module = Parse(
      "graph @g(%x: f32[0, 3], %t: f32[0, 3]) { %loss = mse_loss(%x, %t) : f32[] "
      "%m = reduce_mean(%x), axes=[0] : f32[3] return loss=%loss, m=%m }");
  const ExpandedBody expanded = Expand(*module->graphs()[0]);
  const ArrayMap outputs = Interpret(*expanded.graph, RandomInputs(*module->graphs()[0], 0));
  EXPECT_TRUE(std::isnan(outputs.find("loss")->second.Get(0)));
  EXPECT_TRUE(std::isnan(outputs.find("m")->second.Get(2)));
}

}  // namespace
}  // namespace duotone::codegen
