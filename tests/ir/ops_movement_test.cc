// Data movement, constants, counters and random numbers against values worked out by hand.
#include "base/philox.h"
#include "ir/eval_blocks.h"
#include "tests/ir/op_testing.h"

namespace duotone::ir {
namespace {

constexpr DType kF32 = DType::kF32;

// 0, 1, 2, ... in the given shape.
Array Counting(DType dtype, std::initializer_list<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<double>(i);
  return Tensor(dtype, shape, values);
}

std::string ErrorOf(Op op, Attrs attrs, std::vector<Array> operands) {
  return std::string(EvaluateOp(op, std::move(attrs), operands).status().message());
}

TEST(MovementOps, ReshapeKeepsTheOrder) {
  const ReshapeAttrs to{.result = {{Dim(3), Dim(2)}}};
  const Array y = Eval(Op::kReshape, to, {Counting(DType::kU8, {2, 3})});
  EXPECT_EQ(y.type().ToString(), "u8[3, 2]");
  ExpectValues(y, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(ErrorOf(Op::kReshape, to, {Counting(kF32, {5})}),
            "reshape: f32[5] has 5 elements, but the result [3, 2] has 6");
}

TEST(MovementOps, TransposeOfEveryElementSize) {
  for (DType dtype : {DType::kBool, DType::kU8, DType::kBF16, kF32, DType::kF64}) {
    const Array x = dtype == DType::kBool ? Tensor(dtype, {2, 3}, {0, 0, 1, 1, 0, 1})
                                          : Tensor(dtype, {2, 3}, {0, 1, 2, 3, 4, 5});
    const Array y = Eval(Op::kTranspose, TransposeAttrs{.perm = {1, 0}}, {x});
    if (dtype == DType::kBool) {
      ExpectValues(y, {0, 1, 0, 0, 1, 1});
    } else {
      ExpectValues(y, {0, 3, 1, 4, 2, 5});
    }
  }
}

TEST(MovementOps, TransposeOfThreeAxes) {
  const Array y =
      Eval(Op::kTranspose, TransposeAttrs{.perm = {2, 0, -2}}, {Counting(kF32, {2, 2, 3})});
  EXPECT_EQ(y.type().ToString(), "f32[3, 2, 2]");
  ExpectValues(y, {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
  EXPECT_EQ(ErrorOf(Op::kTranspose, TransposeAttrs{.perm = {0, 0}}, {Counting(kF32, {2, 2})}),
            "transpose: axis 0 occurs twice in perm");
}

TEST(MovementOps, BroadcastAddsAndStretchesAxes) {
  const BroadcastAttrs rows{.dims = {1}, .result = {{Dim(2), Dim(3)}}};
  ExpectValues(Eval(Op::kBroadcast, rows, {Vec(kF32, {1, 2, 3})}), {1, 2, 3, 1, 2, 3});
  const BroadcastAttrs columns{.dims = {0}, .result = {{Dim(2), Dim(3)}}};
  ExpectValues(Eval(Op::kBroadcast, columns, {Vec(kF32, {1, 2})}), {1, 1, 1, 2, 2, 2});
  const BroadcastAttrs stretch{.dims = {0, 1}, .result = {{Dim(2), Dim(3)}}};
  ExpectValues(Eval(Op::kBroadcast, stretch, {Tensor(kF32, {2, 1}, {1, 2})}), {1, 1, 1, 2, 2, 2});
  const BroadcastAttrs scalar{.dims = {}, .result = {{Dim(2)}}};
  ExpectValues(Eval(Op::kBroadcast, scalar, {Tensor(kF32, {}, {7})}), {7, 7});
  EXPECT_EQ(ErrorOf(Op::kBroadcast, rows, {Vec(kF32, {1, 2})}),
            "broadcast: axis 0 of f32[2] does not fit axis 1 of the result [2, 3]");
}

TEST(MovementOps, SliceWithStrides) {
  const Array x = Counting(kF32, {4, 5});
  const SliceAttrs every_other{.starts = {1, 0}, .limits = {Dim(4), Dim(5)}, .strides = {2, 3}};
  ExpectValues(Eval(Op::kSlice, every_other, {x}), {5, 8, 15, 18});
  const SliceAttrs block{.starts = {2, 1}, .limits = {Dim(3), Dim(4)}};
  ExpectValues(Eval(Op::kSlice, block, {x}), {11, 12, 13});
  const SliceAttrs empty{.starts = {2, 1}, .limits = {Dim(2), Dim(4)}};
  EXPECT_EQ(Eval(Op::kSlice, empty, {x}).elements(), 0);
  const SliceAttrs outside{.starts = {2, 1}, .limits = {Dim(5), Dim(4)}};
  EXPECT_EQ(ErrorOf(Op::kSlice, outside, {x}), "slice: [2, 5) of axis 0 is outside [0, 4)");
}

TEST(MovementOps, PadAroundAndBetween) {
  const PadAttrs around{.low = {1, 0}, .high = {0, 2}, .value = 9};
  ExpectValues(Eval(Op::kPad, around, {Counting(kF32, {2, 2})}),
               {9, 9, 9, 9, 0, 1, 9, 9, 2, 3, 9, 9});
  const PadAttrs between{.low = {1}, .high = {1}, .interior = {2}, .value = -1};
  ExpectValues(Eval(Op::kPad, between, {Counting(DType::kF16, {3})}),
               {-1, 0, -1, -1, 1, -1, -1, 2, -1});
  const PadAttrs fill{.low = {2}, .high = {1}, .value = 0.5};
  ExpectValues(Eval(Op::kPad, fill, {Vec(kF32, {})}), {0.5, 0.5, 0.5});
}

// Runs of a padded row that begin inside a block of the evaluation.
TEST(MovementOps, PadOfLongRows) {
  const int64_t size = 2 * kBlock + 11;
  const Array y =
      Eval(Op::kPad, PadAttrs{.low = {3}, .high = {5}, .interior = {1}}, {Counting(kF32, {size})});
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t inside = i - 3;
    const bool taken = inside >= 0 && inside % 2 == 0 && inside / 2 < size;
    ASSERT_EQ(y.Get(i), taken ? static_cast<double>(inside / 2) : 0.0) << i;
  }
}

TEST(MovementOps, ConcatAlongAnyAxis) {
  const Array a = Counting(kF32, {2, 2});
  const Array b = Tensor(kF32, {2, 1}, {8, 9});
  ExpectValues(Eval(Op::kConcat, AxisAttrs{.axis = 1}, {a, b, a}), {0, 1, 8, 0, 1, 2, 3, 9, 2, 3});
  ExpectValues(Eval(Op::kConcat, AxisAttrs{.axis = -2}, {a, Tensor(kF32, {0, 2}, {}), a}),
               {0, 1, 2, 3, 0, 1, 2, 3});
  EXPECT_EQ(ErrorOf(Op::kConcat, AxisAttrs{.axis = 0}, {a, b}),
            "concat: axis 1 of operands 0 and 1 differs, f32[2, 2] and f32[2, 1]");
}

TEST(MovementOps, ConcatOfLongRows) {
  const int64_t size = 3 * kBlock / 2;
  const Array x = Counting(kF32, {2, size});
  const Array y = Eval(Op::kConcat, AxisAttrs{.axis = 1}, {x, x});
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t row = i / (2 * size);
    ASSERT_EQ(y.Get(i), static_cast<double>(row * size + i % size)) << i;
  }
}

TEST(SourceOps, ConstantsAreRoundedOnce) {
  const Type f16{DType::kF16, {Dim(2)}};
  ConstantAttrs tie{.value = Literal::Float(1 + 0x1p-11 + 0x1p-40), .result = {f16}};
  ExpectValues(Eval(Op::kConstant, tie, {}), {1 + 0x1p-10, 1 + 0x1p-10});
  ConstantAttrs two{.value = {std::vector<double>{1, -0.0}}, .result = {f16}};
  ExpectValues(Eval(Op::kConstant, two, {}), {1, -0.0});
  ConstantAttrs three{.value = {std::vector<double>{1, 2, 3}}, .result = {f16}};
  EXPECT_EQ(ErrorOf(Op::kConstant, three, {}), "constant: 3 values for the 2 elements of f16[2]");
  ConstantAttrs byte{.value = Literal::Int(256), .result = {{DType::kU8, {}}}};
  EXPECT_EQ(ErrorOf(Op::kConstant, byte, {}),
            "constant: the value 256 is outside the range [0, 255] of u8");
  ConstantAttrs half{.value = Literal::Float(0.5), .result = {{DType::kI32, {}}}};
  EXPECT_EQ(ErrorOf(Op::kConstant, half, {}), "constant: the value 0.5 is not of type i32");
}

TEST(SourceOps, IotaCountsAlongItsAxis) {
  const Type type{DType::kI32, {Dim(2), Dim(3)}};
  ExpectValues(Eval(Op::kIota, IotaAttrs{.axis = 1, .result = {type}}, {}), {0, 1, 2, 0, 1, 2});
  ExpectValues(Eval(Op::kIota, IotaAttrs{.axis = -2, .result = {type}}, {}), {0, 0, 0, 1, 1, 1});
}

TEST(SourceOps, SizeOfIsTheNumber) {
  const Array n = Eval(Op::kSizeOf, SizeOfAttrs{.size = Dim(42)}, {});
  EXPECT_EQ(n.type().ToString(), "i64[]");
  ExpectValues(n, {42});
}

// Element i is word i % 4 of block i / 4, whichever part of the array is evaluated.
TEST(SourceOps, RandomNumbersFollowTheirKeys) {
  const RandomKey key{.seed = 5, .step = 6, .micro_batch = 7};
  const Type type{kF32, {Dim(kBlock + 6)}};
  UniformAttrs attrs{.low = -1, .high = 1, .result = {type}};
  absl::StatusOr<std::vector<Array>> drawn =
      EvaluateOp(Op::kRandomUniform, attrs, {}, /*node_id=*/8, key);
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  for (int64_t i = 0; i < type.elements(); ++i) {
    const RandomWords words = RandomBlock(5, 6, 7, 8, i / 4);
    ASSERT_EQ((*drawn)[0].Get(i), -1 + 2.0 * (words[i % 4] >> 8) * 0x1p-24) << i;
  }
}

TEST(SourceOps, NormalNumbersHaveMeanAndDeviation) {
  const Type type{kF32, {Dim(20000)}};
  const Array x =
      Eval(Op::kRandomNormal, NormalAttrs{.mean = 3, .stddev = 2, .result = {type}}, {});
  double sum = 0;
  double squares = 0;
  for (double value : Values(x)) {
    sum += value - 3;
    squares += (value - 3) * (value - 3);
  }
  EXPECT_NEAR(sum / 20000, 0, 4 * 2 / std::sqrt(20000.0));
  EXPECT_NEAR(squares / 20000, 4, 4 * 4 * std::sqrt(2 / 20000.0));
}

}  // namespace
}  // namespace duotone::ir
