// Reductions: values, order of summation, NaN and empty cases, named sizes, gradients.
#include "tests/ir/op_checking.h"

namespace duotone::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ReduceAttrs Over(std::vector<int64_t> axes, bool keep_dims = false,
                 std::optional<DType> out = std::nullopt) {
  ReduceAttrs attrs;
  attrs.axes.assign(axes.begin(), axes.end());
  attrs.keep_dims = keep_dims;
  attrs.out = out;
  return attrs;
}

TEST(ReduceTest, SumsOverAnySetOfAxes) {
  // Element (i, j, k) is 100*i + 10*j + k, so sums are easy to tell apart.
  std::vector<double> values;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 2; ++k) values.push_back(100 * i + 10 * j + k);
    }
  }
  const Array x = F32({2, 3, 2}, values);
  EXPECT_THAT(Values(Eval(Op::kReduceSum, Over({2}), {x})), ElementsAre(1, 21, 41, 201, 221, 241));
  EXPECT_THAT(Values(Eval(Op::kReduceSum, Over({1}), {x})), ElementsAre(30, 33, 330, 333));
  EXPECT_THAT(Values(Eval(Op::kReduceSum, Over({0}), {x})),
              ElementsAre(100, 102, 120, 122, 140, 142));
  EXPECT_THAT(Values(Eval(Op::kReduceSum, Over({0, 2}), {x})), ElementsAre(202, 242, 282));
  EXPECT_THAT(Values(Eval(Op::kReduceSum, Over({0, 1}), {x})), ElementsAre(360, 366));
  EXPECT_THAT(Values(Eval(Op::kReduceSum, Over({0, 1, 2}), {x})), ElementsAre(726));
  EXPECT_THAT(Values(Eval(Op::kReduceMax, Over({1}), {x})), ElementsAre(20, 21, 120, 121));
  EXPECT_THAT(Values(Eval(Op::kReduceMin, Over({0, 2}), {x})), ElementsAre(0, 10, 20));
}

TEST(ReduceTest, KeepDimsLeavesOnesAndNegativeAxesCountFromTheEnd) {
  const Array x = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Array y = Eval(Op::kReduceSum, Over({-1}, true), {x});
  EXPECT_EQ(y.type().ToString(), "f32[2, 1]");
  EXPECT_THAT(Values(y), ElementsAre(6, 15));
}

// amp.md A3: 4096 ones are 4096 in f32; accumulated in f16 they would be 2048, in bf16 256.
TEST(ReduceTest, AccumulatesSixteenBitOperandsInF32) {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    const Array ones = MakeArray(dtype, {4096}, {1.0});
    EXPECT_EQ(Eval(Op::kReduceSum, Over({0}), {ones}).Get(0), 4096) << DTypeName(dtype);
    const Array columns = MakeArray(dtype, {4096, 3}, {1.0});
    EXPECT_THAT(Values(Eval(Op::kReduceSum, Over({0}), {columns})), ElementsAre(4096, 4096, 4096));
  }
}

TEST(ReduceTest, RoundsOnceIntoTheResultType) {
  const Array hundreds = MakeArray(DType::kF16, {4096}, {100.0});
  EXPECT_EQ(Eval(Op::kReduceSum, Over({0}), {hundreds}).Get(0), kInf);  // above 65504
  EXPECT_EQ(Eval(Op::kReduceSum, Over({0}, false, DType::kF32), {hundreds}).Get(0), 409600);
  EXPECT_EQ(Eval(Op::kReduceMean, Over({0}), {hundreds}).Get(0), 100);
  // 2048 + 1 + 1 is 2050, though 2048 + 1 is 2048 in f16.
  EXPECT_EQ(Eval(Op::kReduceSum, Over({0}), {MakeArray(DType::kF16, {3}, {2048, 1, 1})}).Get(0),
            2050);
  // 257 is between 256 and 258 in bf16: the tie goes to the even one.
  EXPECT_EQ(Eval(Op::kReduceSum, Over({0}), {MakeArray(DType::kBF16, {2}, {256, 1})}).Get(0), 256);
}

// 2^24 + 1 is not an f32, so a running sum of ones stops at 2^24.
TEST(ReduceTest, LongSumsStayPrecise) {
  constexpr int64_t kCount = (1 << 24) + 4096;
  EXPECT_EQ(Eval(Op::kReduceSum, Over({0}), {F32({kCount}, {1.0})}).Get(0), kCount);
  EXPECT_EQ(Eval(Op::kReduceSum, Over({0}), {F32({kCount, 1}, {1.0})}).Get(0), kCount);
  const std::vector<double> noise = Noise(2 * 100003);
  double sums[2] = {0, 0};
  for (size_t i = 0; i < noise.size(); ++i) sums[i % 2] += static_cast<float>(noise[i]);
  const Array columns = Eval(Op::kReduceSum, Over({0}), {F32({100003, 2}, noise)});
  EXPECT_NEAR(columns.Get(0), sums[0], 2e-3);
  EXPECT_NEAR(columns.Get(1), sums[1], 2e-3);
}

TEST(ReduceTest, MaxAndMinPropagateNaN) {
  for (std::vector<double> values : {std::vector<double>{kNaN, 1, 2}, {1, kNaN, 2}, {1, 2, kNaN}}) {
    EXPECT_TRUE(std::isnan(Eval(Op::kReduceMax, Over({0}), {F32({3}, values)}).Get(0)));
    EXPECT_TRUE(std::isnan(Eval(Op::kReduceMin, Over({0}), {F32({3}, values)}).Get(0)));
    EXPECT_TRUE(std::isnan(Eval(Op::kReduceMax, Over({0}), {F32({3, 1}, values)}).Get(0)));
  }
  std::vector<double> many(2000, 1.0);
  many[1777] = kNaN;
  EXPECT_TRUE(std::isnan(Eval(Op::kReduceMax, Over({0}), {F32({2000}, many)}).Get(0)));
}

TEST(ReduceTest, EmptyReductionsGiveTheIdentity) {
  const Array x = F32({2, 0}, {});
  EXPECT_THAT(Values(Eval(Op::kReduceSum, Over({1}), {x})), ElementsAre(0, 0));
  EXPECT_THAT(Values(Eval(Op::kReduceMax, Over({1}), {x})), ElementsAre(-kInf, -kInf));
  EXPECT_THAT(Values(Eval(Op::kReduceMin, Over({1}), {x})), ElementsAre(kInf, kInf));
  EXPECT_TRUE(std::isnan(Eval(Op::kReduceMean, Over({1}), {x}).Get(1)));
  EXPECT_EQ(Eval(Op::kReduceSum, Over({0}), {x}).elements(), 0);
  const Array wide = F32({0, 130}, {});
  EXPECT_THAT(Values(Eval(Op::kReduceMax, Over({0}), {wide})), testing::Each(-kInf));
  EXPECT_EQ(Eval(Op::kReduceMax, Over({0}), {MakeArray(DType::kI32, {0}, {})}).Get(0),
            -2147483648.0);
  EXPECT_EQ(Eval(Op::kReduceMin, Over({0}), {MakeArray(DType::kU8, {0}, {})}).Get(0), 255);
}

TEST(ReduceTest, IntegersSumIn64Bits) {
  const Array x = MakeArray(DType::kI32, {2}, {2147483647, 1});
  EXPECT_EQ(Eval(Op::kReduceSum, Over({0}, false, DType::kI64), {x}).Get(0), 2147483648.0);
  EXPECT_EQ(Eval(Op::kReduceSum, Over({0}), {x}).Get(0), -2147483648.0);  // wraps
}

TEST(ReduceTest, ScalarsAndUnitAxes) {
  EXPECT_EQ(Eval(Op::kReduceSum, Over({}), {F32({}, {3})}).Get(0), 3);
  EXPECT_EQ(Eval(Op::kReduceMean, Over({0, 1}), {F32({1, 1}, {3})}).Get(0), 3);
}

TEST(ReduceTest, SplittingTheWorkKeepsTheBits) {
  const Array x = NoiseArray(DType::kF16, {3, 5, 150});
  for (std::vector<int64_t> axes : {std::vector<int64_t>{0}, {1}, {2}, {0, 2}, {0, 1}}) {
    ExpectSameInPieces(Op::kReduceSum, Over(axes), {x});
    ExpectSameInPieces(Op::kReduceMax, Over(axes), {x});
  }
}

TEST(ReduceTest, ErrorsNameTheAxis) {
  const Type x{DType::kF32, {2, 3}};
  EXPECT_EQ(InferError(Op::kReduceSum, Over({2}), {x}), "reduce_sum: axis 2 is outside [-2, 2)");
  EXPECT_EQ(InferError(Op::kReduceSum, Over({0, -2}), {x}), "reduce_sum: axis 0 is named twice");
  EXPECT_THAT(InferError(Op::kReduceMax, Over({}), {x}), HasSubstr("axes is empty"));
  EXPECT_THAT(InferError(Op::kReduceSum, Over({0}, false, DType::kI32), {x}),
              HasSubstr("out=i32 does not fit"));
  EXPECT_NE(InferError(Op::kReduceMean, Over({0}), {{DType::kI32, {2}}}), "");
  EXPECT_NE(InferError(Op::kReduceSum, Over({0}), {{DType::kBool, {2}}}), "");
}

TEST(ReduceTest, GradientsMatchDifferences) {
  const Array x = NoiseArray(DType::kF64, {3, 4, 2});
  for (std::vector<int64_t> axes : {std::vector<int64_t>{0}, {1}, {0, 2}, {0, 1, 2}}) {
    for (bool keep_dims : {false, true}) {
      for (Op op : {Op::kReduceSum, Op::kReduceMean, Op::kReduceMax, Op::kReduceMin}) {
        ExpectGradient(op, Over(axes, keep_dims), {x}, {0});
      }
    }
  }
}

// The gradient of an operand of `type`, given `grad` for the result.
Array GradientAt(Op op, Attrs attrs, const Array& x, const Array& grad) {
  Module module("m");
  Graph& graph = **module.AddGraph("g");
  Value input = *graph.AddInput("x", x.type());
  Value seed = *graph.AddInput("seed", grad.type());
  Graph::Spec spec{.op = op, .attrs = std::move(attrs)};
  spec.operands.push_back(input);
  absl::StatusOr<Node*> node = graph.Add(std::move(spec));
  EXPECT_TRUE(node.ok()) << node.status();
  GradContext context(*node, Emitter(graph), {seed}, {true}, {x.type().dtype});
  EXPECT_TRUE(DefOf(op).grad(context).ok());
  graph.outputs().push_back({"dx", context.operand_grads()[0]});
  ArrayMap inputs;
  inputs["x"] = x;
  inputs["seed"] = grad;
  absl::StatusOr<InterpreterResult> result = Interpret(graph, inputs, {});
  EXPECT_TRUE(result.ok()) << result.status();
  return result->outputs["dx"];
}

TEST(ReduceTest, TiesShareTheGradientOfTheMaximum) {
  const Array x = F32({1, 4}, {3, 1, 3, 3});
  EXPECT_THAT(Values(GradientAt(Op::kReduceMax, Over({1}), x, F32({1}, {6}))),
              ElementsAre(2, 0, 2, 2));
  // out= rounds the maximum away from every element; the elements are still found.
  const Array fine = F32({2}, {1.0001, 0.5});
  EXPECT_THAT(Values(GradientAt(Op::kReduceMax, Over({0}, false, DType::kF16), fine,
                                MakeArray(DType::kF16, {}, {2}))),
              ElementsAre(2, 0));
}

// The count 70000 has no f16, and 1/70000 of a gradient of 7 is 1e-4.
TEST(ReduceTest, MeanOfManySixteenBitElementsHasAGradient) {
  const Array x = MakeArray(DType::kF16, {70000}, {1.0});
  const Array dx = GradientAt(Op::kReduceMean, Over({0}), x, MakeArray(DType::kF16, {}, {7.0}));
  EXPECT_EQ(dx.type().dtype, DType::kF16);
  EXPECT_NEAR(dx.Get(69999), 1e-4, 1e-7);
}

TEST(ArgMaxTest, PicksTheFirstMaximumAndNaNFirst) {
  const auto argmax = [](std::vector<double> values) {
    return Eval(Op::kArgMax, AxisAttrs{.axis = 0},
                {F32({static_cast<int64_t>(values.size())}, values)})
        .Get(0);
  };
  EXPECT_EQ(argmax({1, 3, 2, 3}), 1);
  EXPECT_EQ(argmax({1, kNaN, kInf, kNaN}), 1);
  EXPECT_EQ(argmax({-kInf, -kInf}), 0);
  std::vector<double> many(3000, 0.0);
  many[2500] = 1;
  EXPECT_EQ(argmax(many), 2500);
}

TEST(ArgMaxTest, WorksAlongAnyAxisAndOnIntegers) {
  const Array x = MakeArray(DType::kI32, {2, 3}, {1, 7, 3, 4, 5, 6});
  const Array rows = Eval(Op::kArgMax, AxisAttrs{.axis = -1}, {x});
  EXPECT_EQ(rows.type().ToString(), "i32[2]");
  EXPECT_THAT(Values(rows), ElementsAre(1, 2));
  EXPECT_THAT(Values(Eval(Op::kArgMax, AxisAttrs{.axis = 0}, {x})), ElementsAre(1, 0, 1));
}

TEST(ArgMaxTest, AnEmptyAxisIsAnError) {
  EXPECT_EQ(InferError(Op::kArgMax, AxisAttrs{.axis = 1}, {{DType::kF32, {2, 0}}}),
            "argmax: axis 1 of f32[2, 0] is empty: it has no maximum");
}

}  // namespace
}  // namespace duotone::ir
