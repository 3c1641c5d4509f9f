// Gradients against central differences and against sums worked out by hand.
#include "passes/autodiff.h"

#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_format.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "tests/passes/training_test_lib.h"

namespace duotone::passes {
namespace {

using ir::Array;
using ir::ArrayMap;
using ir::Interpret;

// Compares output "d<input>" with central differences of output "loss", element by element.
void ExpectGradient(const ir::Graph& graph, ArrayMap inputs, const std::string& input) {
  const auto result = Interpret(graph, inputs, {});
  ASSERT_TRUE(result.ok()) << result.status();
  const Array gradient = result->outputs.lookup("d" + input);
  const Array at = inputs[input];
  ASSERT_EQ(gradient.elements(), at.elements());
  auto loss_at = [&](int64_t i, double value) {
    Array moved = at;
    moved.Set(i, value);
    inputs[input] = moved;
    const auto moved_result = Interpret(graph, inputs, {});
    EXPECT_TRUE(moved_result.ok()) << moved_result.status();
    return moved_result->outputs.lookup("loss").Get(0);
  };
  constexpr double kStep = 1e-5;
  for (int64_t i = 0; i < at.elements(); ++i) {
    const double numeric =
        (loss_at(i, at.Get(i) + kStep) - loss_at(i, at.Get(i) - kStep)) / (2 * kStep);
    EXPECT_NEAR(gradient.Get(i), numeric, 1e-7 * (1 + std::abs(numeric)))
        << input << "[" << i << "]";
  }
}

std::vector<double> Spread(int count, double first) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(std::sin(first + 1.7 * i));
  return values;
}

TEST(AutodiffTest, GradientsOfATwoLayerNetworkMatchCentralDifferences) {
  const auto module = Differentiated(R"(
    graph @net(%x: f64[2, 3], %w1: f64[3, 4], %b1: f64[4], %w2: f64[4, 1]) {
      %h0 = matmul(%x, %w1) : f64[2, 4]
      %b = broadcast(%b1), dims=[1] : f64[2, 4]
      %h1 = add(%h0, %b) : f64[2, 4]
      %h = tanh(%h1) : f64[2, 4]
      %y = matmul(%h, %w2) : f64[2, 1]
      %e = exp(%y) : f64[2, 1]
      %loss = reduce_mean(%e), axes=[0, 1] : f64[]
      %dx, %dw1, %db1, %dw2 = gradient(%loss, %x, %w1, %b1, %w2)
        : f64[2, 3], f64[3, 4], f64[4], f64[4, 1]
      return loss=%loss, dx=%dx, dw1=%dw1, db1=%db1, dw2=%dw2
    })");
  ASSERT_TRUE(module.ok()) << module.status();
  ArrayMap inputs;
  inputs["x"] = F64(Spread(6, 0.1), {2, 3});
  inputs["w1"] = F64(Spread(12, 0.7), {3, 4});
  inputs["b1"] = F64(Spread(4, 1.3), {4});
  inputs["w2"] = F64(Spread(4, 2.1), {4, 1});
  for (const char* input : {"x", "w1", "b1", "w2"}) {
    ExpectGradient(*(*module)->FindGraph("net"), inputs, input);
  }
}

// The loss contains the squared norm of a gradient: its gradient differentiates backward nodes.
TEST(AutodiffTest, AGradientPenaltyMatchesCentralDifferences) {
  const auto module = Differentiated(R"(
    graph @net(%x: f64[3], %w: f64[3]) {
      %p = mul(%x, %w) : f64[3]
      %t = tanh(%p) : f64[3]
      %y = reduce_sum(%t), axes=[0] : f64[]
      %g = gradient(%y, %x) : f64[3]
      %squares = mul(%g, %g) : f64[3]
      %penalty = reduce_sum(%squares), axes=[0] : f64[]
      %loss = add(%y, %penalty) : f64[]
      %dw = gradient(%loss, %w) : f64[3]
      return loss=%loss, dw=%dw
    })");
  ASSERT_TRUE(module.ok()) << module.status();
  ArrayMap inputs;
  inputs["x"] = F64(Spread(3, 0.4), {3});
  inputs["w"] = F64(Spread(3, 0.9), {3});
  ExpectGradient(*(*module)->FindGraph("net"), inputs, "w");
}

TEST(AutodiffTest, SecondDerivativeOfACube) {
  const auto module = Differentiated(R"(
    graph @cube(%x: f32[]) {
      %a = mul(%x, %x) : f32[]
      %y = mul(%a, %x) : f32[]
      %d1 = gradient(%y, %x) : f32[]
      %d2 = gradient(%d1, %x) : f32[]
      return d1=%d1, d2=%d2
    })");
  ASSERT_TRUE(module.ok()) << module.status();
  ArrayMap inputs;
  inputs["x"] = F32(5.0);
  const auto result = Interpret(*(*module)->FindGraph("cube"), inputs, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outputs.lookup("d1").Get(0), 75.0);
  EXPECT_EQ(result->outputs.lookup("d2").Get(0), 30.0);
}

// loss = first*w + second*w through one 16-bit cast of w; returns the gradient of w.
double GradientOfSharedWeight(const char* origin, double first, double second) {
  const auto module = Differentiated(absl::StrFormat(R"(
    module @m {
      param %%w: f32[1, 1] = ones()
      graph @g(%%a: f16[1, 1], %%b: f16[1, 1]) {
        %%w16 = cast(%%w), to=f16 : f16[1, 1] {origin="%s"}
        %%y1 = matmul(%%a, %%w16), out=f32 : f32[1, 1]
        %%y2 = matmul(%%b, %%w16), out=f32 : f32[1, 1]
        %%y = add(%%y1, %%y2) : f32[1, 1]
        %%loss = reduce_sum(%%y), axes=[0, 1] : f32[]
        %%dw = gradient(%%loss, %%w) : f32[1, 1]
        return dw=%%dw
      }
    })",
                                                     origin));
  EXPECT_TRUE(module.ok()) << module.status();
  if (!module.ok()) return 0;
  const ir::Type type{DType::kF16, {1, 1}};
  ArrayMap inputs, state;
  inputs["a"] = Array::Of(type, {first});
  inputs["b"] = Array::Of(type, {second});
  state["w"] = Array::Of({DType::kF32, {1, 1}}, {1.0});
  const auto result = Interpret(*(*module)->FindGraph("g"), inputs, state);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->outputs.lookup("dw").Get(0) : 0;
}

// f16 has no 2049 and no 80000.
TEST(AutodiffTest, UsesOfAWeightAreSummedInF32EvenIfItsCastIsShared) {
  EXPECT_EQ(GradientOfSharedWeight("autocast:allow", 2048, 1), 2049.0);
  EXPECT_EQ(GradientOfSharedWeight("autocast:allow", 40000, 40000), 80000.0);
}

TEST(AutodiffTest, ACastOfTheUserRoundsTheSumOnce) {
  EXPECT_EQ(GradientOfSharedWeight("", 2048, 1), 2048.0);
  EXPECT_EQ(GradientOfSharedWeight("", 2048, 3), 2052.0);  // 2051 is a tie between 2050 and 2052
  EXPECT_TRUE(std::isinf(GradientOfSharedWeight("", 40000, 40000)));
}

// An f16 activation with three readers. Contributions arrive as 2048, 1 and 1; rounded after each
// addition they would stay at 2048.
TEST(AutodiffTest, ContributionsToA16BitValueAreRoundedOnce) {
  const auto module = Differentiated(R"(
    graph @g(%x: f16[]) {
      %h = neg(%x) : f16[]
      %first = cast(%h), to=f32 : f32[]
      %second = cast(%h), to=f32 : f32[]
      %wide = cast(%h), to=f32 : f32[]
      %many = constant(), value=2048.0 : f32[]
      %product = mul(%wide, %many) : f32[]
      %sum = add(%first, %second) : f32[]
      %loss = add(%product, %sum) : f32[]
      %dx = gradient(%loss, %x) : f16[]
      return dx=%dx
    })");
  ASSERT_TRUE(module.ok()) << module.status();
  ArrayMap inputs;
  inputs["x"] = Array::Of({DType::kF16, {}}, {1.0});
  const auto result = Interpret(*(*module)->FindGraph("g"), inputs, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outputs.lookup("dx").Get(0), -2050.0);
}

TEST(AutodiffTest, CountsTheValuesThatBackwardNodesRead) {
  auto module = ir::Parse(R"(
    graph @g(%x: f32[4]) {
      %h = exp(%x) : f32[4]
      %y = tanh(%h) : f32[4]
      %loss = reduce_sum(%y), axes=[0] : f32[]
      %dx = gradient(%loss, %x) : f32[4]
      return dx=%dx
    })");
  ASSERT_TRUE(module.ok()) << module.status();
  PassContext ctx;
  ASSERT_TRUE(Autodiff().Run(**module, ctx).ok());
  // tanh's gradient reads %y and exp's reads %h, 16 bytes each.
  EXPECT_EQ(ctx.stats()["saved_values"], 2);
  EXPECT_EQ(ctx.stats()["saved_bytes"], 32);
}

}  // namespace
}  // namespace duotone::passes
