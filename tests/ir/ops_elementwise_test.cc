// Elementwise ops against values worked out by hand or taken from tables, the corners of the number
// line included.
#include "base/float16.h"
#include "ir/eval_blocks.h"
#include "tests/ir/op_testing.h"

namespace duotone::ir {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kF16 = DType::kF16;
constexpr double kF32Close = 3e-7;  // two units in the last place

TEST(ElementwiseOps, SignsAreExact) {
  ExpectValues(Eval(Op::kNeg, {Vec(kF32, {1.5, 0.0, -0.0, kInf, kNaN})}),
               {-1.5, -0.0, 0.0, -kInf, kNaN});
  ExpectValues(Eval(Op::kAbs, {Vec(kF32, {-1.5, -0.0, -kInf, kNaN})}), {1.5, 0.0, kInf, kNaN});
}

TEST(ElementwiseOps, ExpAndLog) {
  ExpectNear(Eval(Op::kExp, {Vec(kF32, {0, 1, -1, -kInf, kInf, 89, -104, kNaN})}),
             {1, 2.718281828, 0.3678794412, 0, kInf, kInf, 0, kNaN}, kF32Close);
  ExpectNear(Eval(Op::kLog, {Vec(kF32, {1, 10, 0.5, 0, -0.0, -1, kInf, 0x1p-149})}),
             {0, 2.302585093, -0.6931471806, -kInf, -kInf, kNaN, kInf, -103.278929903}, kF32Close);
}

// 11.09 is the last multiple of 0.01 whose power of e is below 65520, from where f16 rounds to
// infinity.
TEST(ElementwiseOps, ExpLeavesTheRangeOfF16) {
  ExpectValues(Eval(Op::kExp, {Vec(kF16, {11.0859375, 11.09375})}), {65248, kInf});
}

TEST(ElementwiseOps, RootsAreRoundedOnce) {
  ExpectValues(Eval(Op::kSqrt, {Vec(kF32, {4, 2, -0.0, -1, kInf})}),
               {2, 1.41421353816986083984375, -0.0, kNaN, kInf});
  ExpectValues(Eval(Op::kRsqrt, {Vec(kF32, {4, 0, -0.0, kInf, -1})}), {0.5, kInf, -kInf, 0, kNaN});
  // The smallest f16 number: its inverse root is 2^12.
  ExpectValues(Eval(Op::kRsqrt, {Vec(kF16, {0x1p-24})}), {4096});
}

TEST(ElementwiseOps, BoundedFunctionsReachTheirLimits) {
  ExpectNear(Eval(Op::kTanh, {Vec(kF32, {0, 0.5, -0.5, 100, -kInf, kNaN})}),
             {0, 0.4621171573, -0.4621171573, 1, -1, kNaN}, kF32Close);
  ExpectNear(Eval(Op::kErf, {Vec(kF32, {0, 0.5, -1, 10, -kInf, kNaN})}),
             {0, 0.5204998778, -0.8427007929, 1, -1, kNaN}, kF32Close);
  ExpectNear(Eval(Op::kSigmoid, {Vec(kF32, {0, 2, -2, 1000, -1000, kInf, -kInf, kNaN})}),
             {0.5, 0.8807970780, 0.1192029220, 1, 0, 1, 0, kNaN}, kF32Close);
  // e^-80, which 1 - sigmoid(80) would lose.
  ExpectNear(Eval(Op::kSigmoid, {Vec(kF32, {-80})}), {1.804851387e-35}, kF32Close);
}

TEST(ElementwiseOps, SoftplusNeitherOverflowsNorVanishes) {
  ExpectNear(Eval(Op::kSoftplus, {Vec(kF32, {0, 1, -1, 1000, -80, kInf, -kInf, kNaN})}),
             {0.6931471806, 1.3132616875, 0.3132616875, 1000, 1.804851387e-35, kInf, 0, kNaN},
             kF32Close);
}

TEST(ElementwiseOps, ReluAndClampKeepNaN) {
  ExpectValues(Eval(Op::kRelu, {Vec(kF32, {-1, -0.0, 0x1p-149, 2, -kInf, kInf, kNaN})}),
               {0, 0, 0x1p-149, 2, 0, kInf, kNaN});
  const ClampAttrs bounds{.min = -1, .max = 2.5};
  ExpectValues(Eval(Op::kClamp, bounds, {Vec(kF32, {-kInf, -1, 0, 2.5, 3, kNaN})}),
               {-1, -1, 0, 2.5, 2.5, kNaN});
  ExpectValues(Eval(Op::kClamp, bounds, {Vec(DType::kI32, {-5, -1, 2, 3})}), {-1, -1, 2, 2});
}

// gelu(x) = x * (the normal distribution's table value at x).
TEST(ElementwiseOps, GeluAndSilu) {
  ExpectNear(Eval(Op::kGelu, {Vec(kF32, {0, 1, -1, 3, -5})}),
             {0, 0.8413447461, -0.1586552539, 2.9959503059, -1.4332578e-6}, kF32Close);
  ExpectNear(Eval(Op::kGelu, GeluAttrs{.tanh = true}, {Vec(kF32, {0, 1, -1, 100})}),
             {0, 0.8411919906, -0.1588080094, 100}, kF32Close);
  ExpectNear(Eval(Op::kSilu, {Vec(kF32, {0, 1, -1, 100, -20})}),
             {0, 0.7310585786, -0.2689414214, 100, -4.1223072e-8}, kF32Close);
  ExpectNear(Eval(Op::kGeluGrad, {Vec(kF32, {2, 1, 1}), Vec(kF32, {0, 1, -30})}),
             {1, 1.0833154706, 0}, kF32Close);
  ExpectNear(
      Eval(Op::kGeluGrad, GeluAttrs{.tanh = true}, {Vec(kF32, {1, 1, 1}), Vec(kF32, {0, 1, 1e30})}),
      {0.5, 1.0829640839, 1}, kF32Close);
  ExpectNear(Eval(Op::kSiluGrad, {Vec(kF32, {1, 2, 1}), Vec(kF32, {0, 1, -1e30})}),
             {0.5, 1.8553410237, 0}, kF32Close);
}

TEST(ElementwiseOps, ArithmeticRoundsOnceAndOverflowsToInfinity) {
  ExpectValues(
      Eval(Op::kAdd, {Vec(kF16, {65504, 65504, 1, kInf}), Vec(kF16, {15, 16, 0x1p-11, -kInf})}),
      {65504, kInf, 1, kNaN});
  ExpectValues(Eval(Op::kMul, {Vec(kF16, {256, 0x1p-12, -2}), Vec(kF16, {256, 0x1p-13, 0})}),
               {kInf, 0, -0.0});
  ExpectValues(Eval(Op::kSub, {Vec(DType::kBF16, {256, 257}), Vec(DType::kBF16, {0.5, 0})}),
               {256, 256});
  ExpectValues(Eval(Op::kDiv, {Vec(kF32, {1, -1, 0, 1}), Vec(kF32, {0, 0, 0, 3})}),
               {kInf, -kInf, kNaN, 0.3333333432674407958984375});
}

TEST(ElementwiseOps, IntegersWrap) {
  constexpr DType kI32 = DType::kI32;
  constexpr double kMax = 2147483647;
  constexpr double kMin = -2147483648.0;
  ExpectValues(Eval(Op::kAdd, {Vec(kI32, {kMax, 2}), Vec(kI32, {1, 3})}), {kMin, 5});
  ExpectValues(Eval(Op::kMul, {Vec(kI32, {65536, -3}), Vec(kI32, {65536, 4})}), {0, -12});
  ExpectValues(Eval(Op::kDiv, {Vec(kI32, {7, -7, 5, kMin}), Vec(kI32, {2, 2, 0, -1})}),
               {3, -3, 0, kMin});
  ExpectValues(Eval(Op::kNeg, {Vec(kI32, {kMin})}), {kMin});
  ExpectValues(Eval(Op::kSub, {Vec(DType::kU8, {1}), Vec(DType::kU8, {2})}), {255});
}

TEST(ElementwiseOps, SmallestLongDividedByMinusOneWraps) {
  Array smallest = Vec(DType::kI64, {-0x1p63});
  ExpectValues(Eval(Op::kDiv, {smallest, Vec(DType::kI64, {-1})}), {-0x1p63});
  ExpectValues(Eval(Op::kAbs, {smallest}), {-0x1p63});
}

TEST(ElementwiseOps, MaxAndMinHandOnNaN) {
  const Array a = Vec(kF32, {1, kNaN, 1, kInf});
  const Array b = Vec(kF32, {2, 1, kNaN, -kInf});
  ExpectValues(Eval(Op::kMax, {a, b}), {2, kNaN, kNaN, kInf});
  ExpectValues(Eval(Op::kMin, {a, b}), {1, kNaN, kNaN, -kInf});
}

TEST(ElementwiseOps, Pow) {
  ExpectNear(Eval(Op::kPow,
                  {Vec(kF32, {2, 2, 0, -2, -2, 4, kNaN}), Vec(kF32, {10, -1, 0, 3, 0.5, 0.5, 0})}),
             {1024, 0.5, 1, -8, kNaN, 2, 1}, kF32Close);
}

TEST(ElementwiseOps, ComparisonsWithNaNAreFalseExceptNotEqual) {
  const Array a = Vec(kF32, {1, 2, kNaN, 0.0});
  const Array b = Vec(kF32, {2, 2, kNaN, -0.0});
  ExpectValues(Eval(Op::kEqual, {a, b}), {0, 1, 0, 1});
  ExpectValues(Eval(Op::kNotEqual, {a, b}), {1, 0, 1, 0});
  ExpectValues(Eval(Op::kLess, {a, b}), {1, 0, 0, 0});
  ExpectValues(Eval(Op::kLessEqual, {a, b}), {1, 1, 0, 1});
  ExpectValues(Eval(Op::kGreater, {a, b}), {0, 0, 0, 0});
  ExpectValues(Eval(Op::kGreaterEqual, {a, b}), {0, 1, 0, 1});
}

// 2^53 and its successor are one double, but two different i64.
TEST(ElementwiseOps, LongsAreComparedExactly) {
  ConstantAttrs big{.value = Literal::Int((int64_t{1} << 53) + 1),
                    .result = {{DType::kI64, {Dim(1)}}}};
  ConstantAttrs small{.value = Literal::Int(int64_t{1} << 53), .result = {{DType::kI64, {Dim(1)}}}};
  ExpectValues(Eval(Op::kGreater, {Eval(Op::kConstant, big, {}), Eval(Op::kConstant, small, {})}),
               {1});
}

TEST(ElementwiseOps, Logic) {
  const Array a = Vec(DType::kBool, {0, 0, 1, 1});
  const Array b = Vec(DType::kBool, {0, 1, 0, 1});
  ExpectValues(Eval(Op::kAnd, {a, b}), {0, 0, 0, 1});
  ExpectValues(Eval(Op::kOr, {a, b}), {0, 1, 1, 1});
  ExpectValues(Eval(Op::kNot, {a}), {1, 1, 0, 0});
}

TEST(ElementwiseOps, SelectKeepsTheBitsOfWhatItPicks) {
  Array nans = Vec(kF16, {0, 0});
  nans.view().as<uint16_t>()[0] = 0x7d01;  // a signalling NaN with a payload
  const Array picked = Eval(Op::kSelect, {Vec(DType::kBool, {1, 0}), nans, Vec(kF16, {1, 2})});
  EXPECT_EQ(picked.view().as<uint16_t>()[0], 0x7d01);
  EXPECT_EQ(picked.Get(1), 2);
}

TEST(ElementwiseOps, FiniteIsNeitherInfiniteNorNaN) {
  ExpectValues(Eval(Op::kIsFinite, {Vec(kF16, {65504, 65520, -kInf, kNaN, -0.0})}),
               {1, 0, 0, 0, 1});
  const Array good = Vec(kF32, {1, 3e38});
  ExpectValues(Eval(Op::kAllFinite, {good, Vec(kF16, {65504})}), {1});
  ExpectValues(Eval(Op::kAllFinite, {good, Vec(kF16, {1, -kInf})}), {0});
  ExpectValues(Eval(Op::kAllFinite, {Vec(DType::kF64, {kNaN}), good}), {0});
  ExpectValues(Eval(Op::kAllFinite, {Vec(DType::kBF16, {}), good}), {1});
}

// A bool[] is the result of an earlier test; other bools are no numbers to test.
TEST(AllFinite, TakesResultsOfEarlierTests) {
  const Array yes = Tensor(DType::kBool, {}, {1});
  const Array no = Tensor(DType::kBool, {}, {0});
  const Array good = Vec(kF32, {1, 3e38});
  ExpectValues(Eval(Op::kAllFinite, {yes, yes}), {1});
  ExpectValues(Eval(Op::kAllFinite, {yes, no}), {0});
  ExpectValues(Eval(Op::kAllFinite, {no, good}), {0});
  ExpectValues(Eval(Op::kAllFinite, {good, yes}), {1});
  ExpectValues(Eval(Op::kAllFinite, {yes, Vec(kF32, {kNaN})}), {0});
  const absl::Status status =
      EvaluateOp(Op::kAllFinite, NoAttrs(), {yes, Vec(DType::kBool, {1, 1})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(Cast, FloatToIntegerTruncatesAndSaturates) {
  const Array x = Vec(kF32, {1.9, -1.9, 3e9, -3e9, kInf, -kInf, kNaN, -0.5});
  ExpectValues(Eval(Op::kCast, CastAttrs{.to = DType::kI32}, {x}),
               {1, -1, 2147483647, -2147483648.0, 2147483647, -2147483648.0, 0, 0});
  ExpectValues(Eval(Op::kCast, CastAttrs{.to = DType::kU8}, {x}), {1, 0, 255, 0, 255, 0, 0, 0});
  ExpectValues(Eval(Op::kCast, CastAttrs{.to = DType::kBool}, {x}), {1, 1, 1, 1, 1, 1, 1, 1});
  ExpectValues(Eval(Op::kCast, CastAttrs{.to = DType::kBool}, {Vec(kF32, {0.0, -0.0})}), {0, 0});
  const Array big =
      Eval(Op::kCast, CastAttrs{.to = DType::kI64}, {Vec(DType::kF64, {1e19, -0x1p63})});
  EXPECT_EQ(big.view().as<int64_t>()[0], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(big.view().as<int64_t>()[1], std::numeric_limits<int64_t>::min());
}

TEST(Cast, IntegersWrapAndBoolsCount) {
  ExpectValues(Eval(Op::kCast, CastAttrs{.to = DType::kU8}, {Vec(DType::kI32, {256, -1, 7})}),
               {0, 255, 7});
  ExpectValues(Eval(Op::kCast, CastAttrs{.to = DType::kI32}, {Vec(DType::kI64, {0x1p32 + 5})}),
               {5});
  ExpectValues(Eval(Op::kCast, CastAttrs{.to = kF16}, {Vec(DType::kBool, {0, 1})}), {0, 1});
}

// 1 + 2^-11 is a tie in f16 and goes to 1; 2^-40 more decides for the number above, but f32 in
// between would drop it.
TEST(Cast, DoubleToHalfRoundsOnce) {
  const Array x =
      Vec(DType::kF64, {1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40, 65519.99999999, 65520, 0x1p-25,
                        0x1p-25 + 0x1p-70, -0x1.8p-24 - 0x1p-60, 1e300, -kInf, kNaN});
  ExpectValues(Eval(Op::kCast, CastAttrs{.to = kF16}, {x}),
               {1, 1 + 0x1p-10, 65504, kInf, 0, 0x1p-24, -0x1p-23, kInf, -kInf, kNaN});
}

TEST(Cast, DoubleToBFloatRoundsOnce) {
  const Array x = Vec(DType::kF64, {1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-45, 0x1p-134, 0x1p-134 + 0x1p-180,
                                    0x1.fep127, 0x1.feffffffffp127, 0x1.ffp127});
  ExpectValues(Eval(Op::kCast, CastAttrs{.to = DType::kBF16}, {x}),
               {1, 1 + 0x1p-7, 0, 0x1p-133, 0x1.fep127, 0x1.fep127, kInf});
}

// 2^32 + 2^24 is a tie in bf16; one more decides, and f32 in between would drop it.
TEST(Cast, LongToBFloatRoundsOnce) {
  const Array x =
      Vec(DType::kI64, {0x1p32 + 0x1p24, 0x1p32 + 0x1p24 + 1, -0x1p32 - 0x1p24 - 1, -0x1p63, 3});
  ExpectValues(Eval(Op::kCast, CastAttrs{.to = DType::kBF16}, {x}),
               {0x1p32, 0x1p32 + 0x1p25, -0x1p32 - 0x1p25, -0x1p63, 3});
}

// Against the definition, at every tie of f16 and just beside it.
TEST(Cast, DoubleToHalfAtEveryMidpoint) {
  for (uint16_t low = 0; low < 0x7bff; ++low) {
    const double below = ToF32(F16{low});
    const double above = ToF32(F16{static_cast<uint16_t>(low + 1)});
    const double middle = (below + above) / 2;
    using Storage = StorageOf<kF16>;
    const auto narrow = [](double value) { return ToStorage<kF16>(value); };
    const Storage even{static_cast<uint16_t>(low + low % 2)};
    ASSERT_EQ(narrow(middle), even) << middle;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0)), F16{low}) << middle;
    ASSERT_EQ(narrow(std::nextafter(middle, kInf)), F16{static_cast<uint16_t>(low + 1)}) << middle;
  }
}

TEST(ElementwiseOps, BlocksOfAnySizeGiveTheSameElements) {
  std::vector<double> values;
  for (int i = 0; i < 2 * kBlock + 37; ++i) values.push_back(i * 0.25 - 100);
  const Array sum = Eval(Op::kAdd, {Vec(kF16, values), Vec(kF16, {values})});
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(sum.Get(i), ToF32(ToF16(2 * ToF32(ToF16(values[i]))))) << i;
  }
  ExpectValues(Eval(Op::kNeg, {Vec(kF32, {})}), {});
}

TEST(ElementwiseOps, OperandsMustBeAlike) {
  const auto error = [](Op op, std::vector<Array> operands) {
    return std::string(EvaluateOp(op, DefaultAttrs(DefOf(op).attrs), operands).status().message());
  };
  EXPECT_EQ(error(Op::kAdd, {Vec(kF32, {1}), Vec(kF16, {1})}),
            "add: operands 0 and 1 have different types, f32[1] and f16[1]");
  EXPECT_EQ(error(Op::kExp, {Vec(DType::kI32, {1})}),
            "exp: operand 0 is i32[1], not of a floating-point type");
  EXPECT_EQ(error(Op::kAdd, {Vec(DType::kBool, {1}), Vec(DType::kBool, {1})}),
            "add: operand 0 is bool[1], not of a number type");
  EXPECT_EQ(error(Op::kSelect, {Vec(kF32, {1}), Vec(kF32, {1}), Vec(kF32, {1})}),
            "select: operand 0 is f32[1], not of type bool");
  EXPECT_EQ(error(Op::kAdd, {Vec(kF32, {1})}), "add: takes 2 operands, not 1");
}

}  // namespace
}  // namespace duotone::ir
