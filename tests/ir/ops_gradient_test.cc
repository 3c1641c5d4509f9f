// Gradients where differences cannot tell: at kinks, ties, poles and in narrow types.
#include "tests/ir/op_testing.h"

namespace duotone::ir {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kF16 = DType::kF16;

TEST(Gradients, AtKinks) {
  const Array g = Vec(kF32, {3, 3, 3, 3});
  ExpectValues(Gradients(Op::kAbs, {Vec(kF32, {-2, -0.0, 0, 2})}, g)[0], {-3, 0, 0, 3});
  ExpectValues(Gradients(Op::kRelu, {Vec(kF32, {-2, 0, 2, kNaN})}, g)[0], {0, 0, 3, 3});
  ExpectValues(
      Gradients(Op::kClamp, ClampAttrs{.min = -1, .max = 1}, {Vec(kF32, {-1, 1, 1.5, 0})}, g)[0],
      {3, 3, 0, 3});
}

TEST(Gradients, TiesOfMaxAndMinShareHalf) {
  const Array a = Vec(kF32, {1, 2, 3, kNaN});
  const Array b = Vec(kF32, {2, 2, 2, 1});
  const Array g = Vec(kF32, {4, 4, 4, 4});
  const std::vector<Array> max = Gradients(Op::kMax, {a, b}, g);
  ExpectValues(max[0], {0, 2, 4, 4});
  ExpectValues(max[1], {4, 2, 0, 4});
  const std::vector<Array> min = Gradients(Op::kMin, {a, b}, g);
  ExpectValues(min[0], {4, 2, 0, 4});
  ExpectValues(min[1], {0, 2, 4, 4});
}

// d/da = b * a^(b-1), 0 for b = 0 even at a = 0; d/db = a^b * log(a), 0 at a = 0 with b >= 0.
TEST(Gradients, PowAtZeroAndBelow) {
  const Array a = Vec(kF32, {3, 0, 0, -2, 0});
  const Array b = Vec(kF32, {2, 0, 1, 3, -1});
  const std::vector<Array> gradients = Gradients(Op::kPow, {a, b}, Vec(kF32, {1, 1, 1, 1, 1}));
  ExpectValues(gradients[0], {6, 0, 1, 12, -kInf});
  ExpectNear(gradients[1], {9.887510598, 0, 0, kNaN, -kInf}, 3e-7);
}

// A NaN or infinity in the branch that is not taken must not leak through 0 * inf.
TEST(Gradients, SelectSeparatesItsBranches) {
  const std::vector<Array> gradients = Gradients(
      Op::kSelect, {Vec(DType::kBool, {1, 0}), Vec(kF32, {1, kInf}), Vec(kF32, {kNaN, 2})},
      Vec(kF32, {5, 7}));
  ExpectValues(gradients[1], {5, 0});
  ExpectValues(gradients[2], {0, 7});
}

// y = 1/sqrt(x) is 512 here, and its cube, which the textbook form needs, is infinite in f16.
TEST(Gradients, RsqrtStaysInsideF16) {
  const Array x = Vec(kF16, {0x1p-18});
  ExpectValues(Gradients(Op::kRsqrt, {x}, Vec(kF16, {0x1p-20}))[0], {-64});
}

// b*b = 2^18 is infinite in f16.
TEST(Gradients, DivStaysInsideF16) {
  const std::vector<Array> gradients =
      Gradients(Op::kDiv, {Vec(kF16, {512}), Vec(kF16, {512})}, Vec(kF16, {512}));
  ExpectValues(gradients[0], {1});
  ExpectValues(gradients[1], {-1});
}

// tanh rounds to 1 - 2^-10 in f16; (1 - y) * (1 + y) keeps the difference, 1 - y*y would round y*y
// first.
TEST(Gradients, TanhKeepsSmallSlopes) {
  const Array x = Vec(kF16, {3.8125});
  const double y = 1 - 0x1p-10;
  ExpectValues(Eval(Op::kTanh, {x}), {y});
  ExpectValues(Gradients(Op::kTanh, {x}, Vec(kF16, {1}))[0], {0x1p-9 - 0x1p-20});
}

TEST(Gradients, CastReturnsToTheOperandsType) {
  const Array dx =
      Gradients(Op::kCast, CastAttrs{.to = kF16}, {Vec(kF32, {1})}, Vec(kF16, {0.1}))[0];
  EXPECT_EQ(dx.type().dtype, kF32);
  EXPECT_EQ(dx.Get(0), 0.0999755859375);
}

// A bias gradient: 4096 times 1 in f16 is summed in f32.
TEST(Gradients, BroadcastSumsWide) {
  const BroadcastAttrs attrs{.dims = {1}, .result = {{Dim(4096), Dim(1)}}};
  const Array g = Tensor(kF16, {4096, 1}, std::vector<double>(4096, 1.0));
  ExpectValues(Gradients(Op::kBroadcast, attrs, {Vec(kF16, {1})}, g)[0], {4096});
}

// Elements that a strided slice skips, and those behind its end, have no gradient.
TEST(Gradients, SlicePutsTheGradientBack) {
  const SliceAttrs attrs{.starts = {1}, .limits = {Dim(6)}, .strides = {2}};
  ExpectValues(
      Gradients(Op::kSlice, attrs, {Vec(kF32, {0, 0, 0, 0, 0, 0, 0, 0})}, Vec(kF32, {1, 2, 3}))[0],
      {0, 1, 0, 2, 0, 3, 0, 0});
  const SliceAttrs empty{.starts = {2}, .limits = {Dim(2)}};
  ExpectValues(Gradients(Op::kSlice, empty, {Vec(kF32, {0, 0, 0})}, Vec(kF32, {}))[0], {0, 0, 0});
}

}  // namespace
}  // namespace duotone::ir
