// gather, scatter_add and dropout.
#include "tests/ir/op_checking.h"

namespace duotone::ir {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(GatherTest, PicksRows) {
  const Array table = F32({3, 2}, {0, 1, 10, 11, 20, 21});
  const Array indices = MakeArray(DType::kI32, {2, 2}, {2, 0, 2, 1});
  const Array y = Eval(Op::kGather, NoAttrs(), {table, indices});
  EXPECT_EQ(y.type().ToString(), "f32[2, 2, 2]");
  EXPECT_THAT(Values(y), ElementsAre(20, 21, 0, 1, 20, 21, 10, 11));
  EXPECT_THAT(
      Values(Eval(Op::kGather, NoAttrs(),
                  {MakeArray(DType::kU8, {3}, {5, 6, 7}), MakeArray(DType::kI64, {}, {1})})),
      ElementsAre(6));
}

TEST(GatherTest, AnIndexOutOfRangeIsReportedAndGivesZeros) {
  const Array table = F32({3, 2}, {1.0});
  for (double bad : {-1.0, 3.0, 1e9}) {
    EXPECT_EQ(EvalMessage(Op::kGather, NoAttrs(), {table, MakeArray(DType::kI32, {2}, {0, bad})}),
              absl::StrCat("gather: the index ", static_cast<int64_t>(bad), " is outside [0, 3)"));
  }
  // The values behind the error, read past EvaluateOp.
  const Array indices = MakeArray(DType::kI32, {2}, {2, 3});
  const Array result = F32({2, 2}, {9.0});
  const TensorView operands[] = {table.view(), indices.view()};
  const TensorView results[] = {result.view()};
  const Attrs attrs = NoAttrs();
  EvalError error;
  DefOf(Op::kGather)
      .eval.run({.attrs = &attrs, .operands = operands, .results = results, .error = &error}, 0, 2);
  EXPECT_THAT(Values(result), ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(error.value(), 3);
}

TEST(ScatterAddTest, AddsRepeatedRows) {
  const Array base = F32({3, 2}, {1, 2, 3, 4, 5, 6});
  const Array indices = MakeArray(DType::kI64, {3}, {2, 0, 2});
  const Array updates = F32({3, 2}, {10, 20, 30, 40, 50, 60});
  EXPECT_THAT(Values(Eval(Op::kScatterAdd, NoAttrs(), {base, indices, updates})),
              ElementsAre(31, 42, 3, 4, 65, 86));
}

TEST(ScatterAddTest, AccumulatesInF32WhateverTheBase) {
  const Array zeros = MakeArray(DType::kI32, {4096}, {0});
  const Array ones = MakeArray(DType::kF16, {4096}, {1});
  for (DType base : {DType::kF32, DType::kF16}) {
    EXPECT_EQ(Eval(Op::kScatterAdd, NoAttrs(), {MakeArray(base, {1}, {0}), zeros, ones}).Get(0),
              4096);
  }
}

TEST(ScatterAddTest, AnIndexOutOfRangeIsReported) {
  EXPECT_EQ(EvalMessage(Op::kScatterAdd, NoAttrs(),
                        {F32({2}, {0}), MakeArray(DType::kI32, {1}, {2}), F32({1}, {1})}),
            "scatter_add: the index 2 is outside [0, 2)");
  EXPECT_EQ(EvalMessage(Op::kScatterAdd, NoAttrs(),
                        {F32({0}, {}), MakeArray(DType::kI32, {1}, {0}), F32({1}, {1})}),
            "scatter_add: the index 0 is outside [0, 0)");
}

TEST(ScatterAddTest, SplittingTheWorkKeepsTheBits) {
  const Array indices = MakeArray(DType::kI32, {6}, {3, 1, 3, 0, 3, 1});
  for (DType base : {DType::kF32, DType::kBF16}) {
    ExpectSameInPieces(Op::kScatterAdd, NoAttrs(),
                       {NoiseArray(base, {5, 3}), indices, NoiseArray(DType::kBF16, {6, 3}, 2)});
  }
  ExpectSameInPieces(Op::kGather, NoAttrs(), {NoiseArray(DType::kF32, {5, 3}), indices});
}

TEST(GatherTest, GradientsMatchDifferences) {
  const Array table = NoiseArray(DType::kF64, {4, 3}, 1);
  const Array indices = MakeArray(DType::kI32, {2, 2}, {3, 1, 3, 0});
  ExpectGradient(Op::kGather, NoAttrs(), {table, indices}, {0});
  ExpectGradient(Op::kScatterAdd, NoAttrs(),
                 {table, indices, NoiseArray(DType::kF64, {2, 2, 3}, 2)}, {0, 2});
}

TEST(GatherTest, ErrorsNameTheOperands) {
  EXPECT_THAT(InferError(Op::kGather, NoAttrs(), {{DType::kF32, {4, 2}}, {DType::kF32, {3}}}),
              HasSubstr("indices must be i32 or i64, not f32[3]"));
  EXPECT_THAT(InferError(Op::kGather, NoAttrs(), {{DType::kF32, {}}, {DType::kI32, {3}}}),
              HasSubstr("axis of rows"));
  EXPECT_THAT(InferError(Op::kScatterAdd, NoAttrs(),
                         {{DType::kF32, {4, 2}}, {DType::kI32, {3}}, {DType::kF32, {3, 3}}}),
              HasSubstr("updates must have the shape [3, 2]"));
  EXPECT_THAT(InferError(Op::kScatterAdd, NoAttrs(),
                         {{DType::kF16, {4}}, {DType::kI32, {3}}, {DType::kF32, {3}}}),
              HasSubstr("cannot be added"));
}

TEST(DropoutTest, KeepsTheExpectedShareAndScalesIt) {
  constexpr int64_t kCount = 100000;
  const std::vector<Array> y = EvalAll(Op::kDropout, DropoutAttrs{.rate = 0.25},
                                       {F32({kCount}, {3.0})}, 42, {.seed = 7, .step = 3});
  int64_t kept = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    kept += y[1].Get(i) != 0;
    ASSERT_EQ(y[0].Get(i), y[1].Get(i) != 0 ? 4.0 : 0.0);
  }
  EXPECT_NEAR(static_cast<double>(kept) / kCount, 0.75, 5 * std::sqrt(0.75 * 0.25 / kCount));
}

TEST(DropoutTest, TheMaskIsAFunctionOfItsKey) {
  const auto mask = [](uint64_t node, RandomKey key) {
    return Values(EvalAll(Op::kDropout, DropoutAttrs(), {F32({1000}, {1.0})}, node, key)[1]);
  };
  const RandomKey key{.seed = 1, .step = 2, .micro_batch = 3};
  EXPECT_EQ(mask(5, key), mask(5, key));
  EXPECT_NE(mask(5, key), mask(6, key));
  EXPECT_NE(mask(5, key), mask(5, {.seed = 9, .step = 2, .micro_batch = 3}));
  EXPECT_NE(mask(5, key), mask(5, {.seed = 1, .step = 9, .micro_batch = 3}));
  EXPECT_NE(mask(5, key), mask(5, {.seed = 1, .step = 2, .micro_batch = 9}));
}

TEST(DropoutTest, RateZeroKeepsAllAndDroppedNaNsVanish) {
  const std::vector<Array> all =
      EvalAll(Op::kDropout, DropoutAttrs{.rate = 0}, {F32({1000}, {0.1})});
  EXPECT_THAT(Values(all[1]), Each(1));
  EXPECT_THAT(Values(all[0]), Each(0.1f));
  const std::vector<Array> bad = EvalAll(Op::kDropout, DropoutAttrs(), {F32({1000}, {kNaN})});
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(std::isnan(bad[0].Get(i)), bad[1].Get(i) != 0);
  }
}

// 2050 * (1/0.9) = 2277.8, and f16 counts by 2 there.
TEST(DropoutTest, RoundsTheScaledValueOnce) {
  const std::vector<Array> y =
      EvalAll(Op::kDropout, DropoutAttrs{.rate = 0.1}, {MakeArray(DType::kF16, {100}, {2050})});
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(y[0].Get(i), y[1].Get(i) != 0 ? 2278 : 0);
  }
}

TEST(DropoutTest, SplittingTheWorkKeepsTheBits) {
  ExpectSameInPieces(Op::kDropout, DropoutAttrs(), {NoiseArray(DType::kF16, {3, 1001})});
}

// The mask does not depend on x, so differences see it as a constant.
TEST(DropoutTest, GradientMatchesDifferences) {
  ExpectGradient(Op::kDropout, DropoutAttrs{.rate = 0.3}, {NoiseArray(DType::kF64, {20})}, {0});
}

TEST(DropoutTest, TheRateMustBeAProbabilityBelowOne) {
  for (double rate : {-0.1, 1.0, kNaN}) {
    EXPECT_THAT(InferError(Op::kDropout, DropoutAttrs{.rate = rate}, {{DType::kF32, {4}}}),
                HasSubstr("is outside [0, 1)"));
  }
}

}  // namespace
}  // namespace duotone::ir
