// matmul: values against a product written here, transposes, batches, widening results, gradients.
#include "tests/ir/op_checking.h"

namespace duotone::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MatMulAttrs Transposed(bool a, bool b, std::optional<DType> out = std::nullopt) {
  return {.transpose_a = a, .transpose_b = b, .out = out};
}

// Multiplies in f64 with the definition of the product; `a` and `b` as stored.
std::vector<double> Product(const Array& a, bool transpose_a, const Array& b, bool transpose_b,
                            int64_t batch, int64_t rows, int64_t inner, int64_t columns) {
  const int64_t a_matrix = a.type().rank() == 2 ? 0 : rows * inner;
  const int64_t b_matrix = b.type().rank() == 2 ? 0 : inner * columns;
  std::vector<double> product;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          sum += a.Get(n * a_matrix + (transpose_a ? k * rows + i : i * inner + k)) *
                 b.Get(n * b_matrix + (transpose_b ? j * inner + k : k * columns + j));
        }
        product.push_back(sum);
      }
    }
  }
  return product;
}

TEST(MatMulTest, SmallProductByHand) {
  const Array a = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Array b = F32({3, 2}, {7, 8, 9, 10, 11, 12});
  EXPECT_THAT(Values(Eval(Op::kMatMul, Transposed(false, false), {a, b})),
              ElementsAre(58, 64, 139, 154));
}

TEST(MatMulTest, AllTransposesAndSizesOffTheTileGrid) {
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      for (auto [m, k, n] :
           {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 2}, {67, 131, 70}, {64, 128, 64}}) {
        const Array a = NoiseArray(DType::kF32, ta ? std::vector{k, m} : std::vector{m, k}, 1);
        const Array b = NoiseArray(DType::kF32, tb ? std::vector{n, k} : std::vector{k, n}, 2);
        const std::vector<double> expected = Product(a, ta, b, tb, 1, m, k, n);
        const Array c = Eval(Op::kMatMul, Transposed(ta, tb), {a, b});
        ASSERT_EQ(c.elements(), m * n);
        for (int64_t i = 0; i < m * n; ++i) ASSERT_NEAR(c.Get(i), expected[i], 2e-5);
      }
    }
  }
}

TEST(MatMulTest, BatchesAndSharedOperands) {
  const Array a = NoiseArray(DType::kF64, {2, 3, 4, 5}, 1);
  const Array b = NoiseArray(DType::kF64, {2, 3, 5, 6}, 2);
  const Array a_shared = NoiseArray(DType::kF64, {4, 5}, 3);
  const Array b_shared = NoiseArray(DType::kF64, {5, 6}, 4);
  for (auto [x, y] : {std::pair{a, b}, {a_shared, b}, {a, b_shared}}) {
    const Array c = Eval(Op::kMatMul, MatMulAttrs(), {x, y});
    EXPECT_EQ(c.type().ToString(), "f64[2, 3, 4, 6]");
    const std::vector<double> expected = Product(x, false, y, false, 6, 4, 5, 6);
    for (int64_t i = 0; i < c.elements(); ++i) ASSERT_NEAR(c.Get(i), expected[i], 1e-14);
  }
}

// 4096 products of 1 and 1 accumulate to 4096 though f16 counts to 2048 only; 300*300 overflows
// f16, not f32.
TEST(MatMulTest, AccumulatesInF32AndRoundsOnce) {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    const Array c = Eval(Op::kMatMul, MatMulAttrs(),
                         {MakeArray(dtype, {1, 4096}, {1.0}), MakeArray(dtype, {4096, 1}, {1.0})});
    EXPECT_EQ(c.Get(0), 4096);
    EXPECT_EQ(c.type().dtype, dtype);
  }
  const Array x = MakeArray(DType::kF16, {1, 1}, {300});
  EXPECT_EQ(Eval(Op::kMatMul, MatMulAttrs(), {x, x}).Get(0), kInf);
  const Array wide = Eval(Op::kMatMul, Transposed(false, false, DType::kF32), {x, x});
  EXPECT_EQ(wide.Get(0), 90000);
  EXPECT_EQ(wide.type().dtype, DType::kF32);
}

TEST(MatMulTest, InfinityAndNaNStayInTheirRowAndColumn) {
  const Array a = F32({2, 2}, {kInf, 1, 2, 3});
  const Array b = F32({2, 2}, {1, 0, 1, kNaN});
  const Array c = Eval(Op::kMatMul, MatMulAttrs(), {a, b});
  EXPECT_EQ(c.Get(0), kInf);
  EXPECT_TRUE(std::isnan(c.Get(1)));
  EXPECT_EQ(c.Get(2), 5);
  EXPECT_TRUE(std::isnan(c.Get(3)));
}

TEST(MatMulTest, EmptyAxes) {
  EXPECT_THAT(Values(Eval(Op::kMatMul, MatMulAttrs(), {F32({2, 0}, {}), F32({0, 2}, {})})),
              ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(Eval(Op::kMatMul, MatMulAttrs(), {F32({0, 2}, {}), F32({2, 3}, {1})}).elements(), 0);
}

TEST(MatMulTest, SplittingTheWorkKeepsTheBits) {
  ExpectSameInPieces(
      Op::kMatMul, Transposed(false, true),
      {NoiseArray(DType::kF16, {2, 70, 30}), NoiseArray(DType::kF16, {2, 90, 30}, 2)});
}

TEST(MatMulTest, NamedSizesMeetByName) {
  Attrs attrs = MatMulAttrs();
  const Dim b = Dim::Named("B");
  absl::StatusOr<Types> types =
      InferTypes(Op::kMatMul, {{DType::kF32, {b, 4}}, {DType::kF32, {4, Dim::Named("T")}}}, attrs);
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ((*types)[0].ToString(), "f32[B, T]");
  EXPECT_EQ(InferError(Op::kMatMul, MatMulAttrs(), {{DType::kF32, {2, b}}, {DType::kF32, {4, 2}}}),
            "matmul: inner sizes differ, B and 4, in f32[2, B] and f32[4, 2]");
}

TEST(MatMulTest, ErrorsNameSizesAndDtypes) {
  const auto error = [](Type a, Type b) { return InferError(Op::kMatMul, MatMulAttrs(), {a, b}); };
  EXPECT_EQ(error({DType::kF32, {2, 127}}, {DType::kF32, {128, 2}}),
            "matmul: inner sizes differ, 127 and 128, in f32[2, 127] and f32[128, 2]");
  EXPECT_EQ(error({DType::kF32, {2, 3, 4}}, {DType::kF32, {3, 4, 5}}),
            "matmul: batch axes differ, [2] and [3], in f32[2, 3, 4] and f32[3, 4, 5]");
  EXPECT_THAT(error({DType::kF32, {4}}, {DType::kF32, {4, 2}}), HasSubstr("at least two axes"));
  EXPECT_THAT(error({DType::kF32, {2, 4}}, {DType::kF16, {4, 2}}), HasSubstr("f32 and f16"));
  EXPECT_THAT(error({DType::kI32, {2, 4}}, {DType::kI32, {4, 2}}), HasSubstr("i32[2, 4]"));
  EXPECT_THAT(InferError(Op::kMatMul, Transposed(false, false, DType::kI32),
                         {{DType::kF32, {2, 4}}, {DType::kF32, {4, 2}}}),
              HasSubstr("i32"));
}

TEST(MatMulTest, GradientsMatchDifferences) {
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      const std::vector<int64_t> a = ta ? std::vector<int64_t>{4, 2} : std::vector<int64_t>{2, 4};
      const std::vector<int64_t> b = tb ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{4, 3};
      const auto batched = [](std::vector<int64_t> shape) {
        shape.insert(shape.begin(), {2, 2});
        return shape;
      };
      for (auto [x, y] :
           {std::pair{a, b}, {batched(a), batched(b)}, {a, batched(b)}, {batched(a), b}}) {
        ExpectGradient(Op::kMatMul, Transposed(ta, tb),
                       {NoiseArray(DType::kF64, x, 1), NoiseArray(DType::kF64, y, 2)}, {0, 1});
      }
    }
  }
}

// A 16-bit product whose gradient goes into an f32 master is one product with an f32 result,
// without a cast.
TEST(MatMulTest, WeightGradientIsAWideningProduct) {
  Module module("m");
  Graph& graph = **module.AddGraph("g");
  const Dim batch = Dim::Named("B");
  Value x = *graph.AddInput("x", {DType::kF16, {batch, 5, 4}});
  Value w = *graph.AddInput("w", {DType::kF16, {4, 3}});
  Value g = *graph.AddInput("g", {DType::kF16, {batch, 5, 3}});
  Graph::Spec spec{.op = Op::kMatMul, .attrs = MatMulAttrs()};
  spec.operands = {x, w};
  absl::StatusOr<Node*> node = graph.Add(std::move(spec));
  ASSERT_TRUE(node.ok()) << node.status();
  GradContext context(*node, Emitter(graph), {g}, {false, true}, {DType::kF16, DType::kF32});
  ASSERT_TRUE(DefOf(Op::kMatMul).grad(context).ok());
  const Value dw = context.operand_grads()[1];
  EXPECT_FALSE(static_cast<bool>(context.operand_grads()[0]));
  EXPECT_EQ(dw.type().ToString(), "f32[4, 3]");
  ASSERT_EQ(dw.node->op(), Op::kMatMul);
  EXPECT_EQ(dw.node->operand(0).type().ToString(), "f16[5*B, 4]");
  EXPECT_EQ(dw.node->operand(1).type().ToString(), "f16[5*B, 3]");
}

TEST(MatMulTest, CostCountsTwoPerMultiplyAdd) {
  const Cost cost = DefOf(Op::kMatMul)
                        .cost({{DType::kF16, {7, 5, 3}}, {DType::kF16, {3, 2}}},
                              {{DType::kF32, {7, 5, 2}}}, MatMulAttrs());
  EXPECT_EQ(cost.flops, 2 * 7 * 5 * 3 * 2);
  EXPECT_EQ(cost.bytes, 7 * 5 * 3 * 2 + 3 * 2 * 2 + 7 * 5 * 2 * 4);
}

}  // namespace
}  // namespace duotone::ir
