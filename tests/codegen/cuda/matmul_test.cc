// Matmul kernels on the CPU against the reference evaluation: operands, epilogues, column sums,
// flags; and what of a kernel's text is promised.
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "tests/codegen/cuda/run_kernel.h"

namespace duotone::codegen::cuda {
namespace {

// Sums of up to 100 products of numbers below 4; one rounding to 16 bits.
constexpr double kF32 = 1e-5;
constexpr double kF16 = 1.5e-3;
constexpr double kBF16 = 1.2e-2;

FusionOptions MatMul() { return {.family = "matmul"}; }

std::string Product(int m, int n, int k, bool transpose_a, bool transpose_b,
                    std::string_view dtype = "f32") {
  const auto shape = [](int rows, int columns, bool transposed) {
    return transposed ? absl::StrFormat("[%d, %d]", columns, rows)
                      : absl::StrFormat("[%d, %d]", rows, columns);
  };
  return absl::StrFormat(
      "graph @f(%%a: %s%s, %%b: %s%s) { %%c = matmul(%%a, %%b), transpose_a=%s, transpose_b=%s : "
      "%s[%d, %d] return c=%%c }",
      dtype, shape(m, k, transpose_a), dtype, shape(k, n, transpose_b),
      transpose_a ? "true" : "false", transpose_b ? "true" : "false", dtype, m, n);
}

GeneratedKernel Generate(std::string_view text, FusionOptions options = MatMul()) {
  const FusionModule made = ParseFusion(text, options.family);
  CodegenOptions codegen{.exact = options.exact, .schedules = options.schedules};
  codegen.target = *FindGpuTarget(options.target);
  auto kernel = GenerateMatMul(*made.fusion, {}, codegen);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *kernel : GeneratedKernel{};
}

TEST(MatMulKernel, AllTransposesOfRaggedShapes) {
  for (bool a : {false, true}) {
    for (bool b : {false, true}) ExpectFusionMatches(Product(17, 33, 65, a, b), {}, kF32, MatMul());
  }
}

TEST(MatMulKernel, AllTransposesInWholeVectorsAndSeveralTiles) {
  for (bool a : {false, true}) {
    for (bool b : {false, true}) {
      ExpectFusionMatches(Product(136, 72, 40, a, b, "f16"), {}, kF16, MatMul());
    }
  }
}

TEST(MatMulKernel, ElementTypes) {
  ExpectFusionMatches(Product(24, 40, 16, false, true, "bf16"), {}, kBF16, MatMul());
  ExpectFusionMatches(Product(24, 40, 16, true, false, "f64"), {}, 1e-12, MatMul());
  ExpectFusionMatches(Product(24, 40, 16, false, false, "f32"), {}, kF32, MatMul());
}

TEST(MatMulKernel, WideningResult) {
  ExpectFusionMatches(R"(graph @f(%a: f16[8, 32], %b: f16[32, 16]) {
    %c = matmul(%a, %b), out=f32 : f32[8, 16]
    return c=%c
  })",
                      {}, kF32, MatMul());
}

TEST(MatMulKernel, TinyShapesAndVectors) {
  ExpectFusionMatches(Product(1, 1, 1, false, false), {}, kF32, MatMul());
  ExpectFusionMatches(Product(1, 100, 64, false, false), {}, kF32, MatMul());
  ExpectFusionMatches(Product(100, 1, 64, false, true), {}, kF32, MatMul());
}

// The sum over nothing is 0, and the epilogue still runs.
TEST(MatMulKernel, EmptyInnerAxis) {
  ExpectFusionMatches(R"(graph @f(%a: f32[5, 0], %b: f32[0, 12], %bias: f32[12]) {
    %c = matmul(%a, %b) : f32[5, 12]
    %bb = broadcast(%bias), dims=[1] : f32[5, 12]
    %y = add(%c, %bb) : f32[5, 12]
    return y=%y
  })",
                      {}, 0, MatMul());
}

TEST(MatMulKernel, EmptyResult) {
  ExpectFusionMatches(Product(0, 8, 16, false, false), {}, 0, MatMul());
}

TEST(MatMulKernel, BatchesAndSharedOperands) {
  ExpectFusionMatches(R"(graph @f(%a: f32[3, 20, 24], %b: f32[3, 24, 16]) {
    %c = matmul(%a, %b) : f32[3, 20, 16]
    return c=%c
  })",
                      {}, kF32, MatMul());
  ExpectFusionMatches(R"(graph @f(%a: f32[3, 20, 24], %b: f32[16, 24]) {
    %c = matmul(%a, %b), transpose_b=true : f32[3, 20, 16]
    return c=%c
  })",
                      {}, kF32, MatMul());
  ExpectFusionMatches(R"(graph @f(%a: f16[20, 24], %b: f16[2, 3, 24, 16]) {
    %c = matmul(%a, %b) : f16[2, 3, 20, 16]
    return c=%c
  })",
                      {}, kF16, MatMul());
}

// GPT's attention: the heads' parts of one tensor of queries, keys and values, a causal mask behind
// the product.
TEST(MatMulKernel, AttentionScoresFromSlicesOfOneTensor) {
  constexpr std::string_view kText = R"(graph @f(%qkv: f16[2, 12, 96]) {
    %q = slice(%qkv), starts=[0, 0, 0], limits=[2, 12, 32] : f16[2, 12, 32]
    %q4 = reshape(%q) : f16[2, 12, 2, 16]
    %qh = transpose(%q4), perm=[0, 2, 1, 3] : f16[2, 2, 12, 16]
    %k = slice(%qkv), starts=[0, 0, 32], limits=[2, 12, 64] : f16[2, 12, 32]
    %k4 = reshape(%k) : f16[2, 12, 2, 16]
    %kh = transpose(%k4), perm=[0, 2, 1, 3] : f16[2, 2, 12, 16]
    %s = matmul(%qh, %kh), transpose_b=true, out=f32 : f32[2, 2, 12, 12]
    %row = iota(), axis=2 : i32[2, 2, 12, 12]
    %column = iota(), axis=3 : i32[2, 2, 12, 12]
    %seen = ge(%row, %column) : bool[2, 2, 12, 12]
    %low = constant(), value=-10000 : f32[2, 2, 12, 12]
    %y = select(%seen, %s, %low) : f32[2, 2, 12, 12]
    return y=%y
  })";
  ExpectFusionMatches(kText, {}, kF32, MatMul());
  const std::string source = Generate(kText).source;
  EXPECT_NE(source.find("a = MakeDirectOperand<Along::kInner, 8>"), std::string::npos) << source;
  EXPECT_NE(source.find("b = MakeDirectOperand<Along::kInner, 8>"), std::string::npos) << source;
}

// Gradients of slices arrive as padded parts that are added.
TEST(MatMulKernel, PaddedPartsAddedInThePrologue) {
  ExpectFusionMatches(R"(graph @f(%x: f32[24, 16], %low: f32[24, 8], %high: f32[24, 8]) {
    %l = pad(%low), low=[0, 0], high=[0, 8] : f32[24, 16]
    %h = pad(%high), low=[0, 8], high=[0, 0] : f32[24, 16]
    %g = add(%l, %h) : f32[24, 16]
    %w = matmul(%x, %g), transpose_a=true : f32[16, 16]
    return w=%w
  })",
                      {}, kF32, MatMul());
}

// A transposed view is read along the axis that is consecutive in memory.
TEST(MatMulKernel, TransposedViewKeepsWholeVectors) {
  constexpr std::string_view kText = R"(graph @f(%a: f16[32, 24], %b: f16[16, 32]) {
    %at = transpose(%a), perm=[1, 0] : f16[24, 32]
    %bt = transpose(%b), perm=[1, 0] : f16[32, 16]
    %c = matmul(%at, %bt) : f16[24, 16]
    return c=%c
  })";
  ExpectFusionMatches(kText, {}, kF16, MatMul());
  const std::string source = Generate(kText).source;
  EXPECT_NE(source.find("a = MakeDirectOperand<Along::kOuter, 8>"), std::string::npos) << source;
  EXPECT_NE(source.find("b = MakeDirectOperand<Along::kInner, 8>"), std::string::npos) << source;
}

TEST(MatMulKernel, EpilogueOfBiasActivationAndResidual) {
  ExpectFusionMatches(R"(graph @f(%a: f16[40, 32], %w: f16[32, 24], %bias: f16[24],
                                  %skip: f16[40, 24]) {
    %c = matmul(%a, %w) : f16[40, 24] {origin="autocast:allow"}
    %bb = broadcast(%bias), dims=[1] : f16[40, 24]
    %s = add(%c, %bb) : f16[40, 24] {origin="autocast:between"}
    %g = gelu(%s) : f16[40, 24] {origin="autocast:between"}
    %y = add(%g, %skip) : f16[40, 24] {origin="autocast:between"}
    return s=%s, y=%y
  })",
                      {}, 2 * kF16, MatMul());
}

TEST(MatMulKernel, EpilogueOfDropoutMatchesTheReferenceStream) {
  ExpectFusionMatches(R"(graph @f(%a: f32[20, 16], %w: f32[16, 24]) {
    %c = matmul(%a, %w) : f32[20, 24]
    %d, %mask = dropout(%c), rate=0.25 : f32[20, 24], bool[20, 24]
    return d=%d, mask=%mask
  })",
                      {}, kF32, {.family = "matmul", .random = {.seed = 7, .step = 3}});
}

// dgrad with the gradient of the layer's relu behind it, seen through the forward result.
TEST(MatMulKernel, EpilogueOfTheReluGradient) {
  ExpectFusionMatches(R"(graph @f(%g: f16[24, 16], %w: f16[40, 16], %h: f16[24, 40]) {
    %d = matmul(%g, %w), transpose_b=true : f16[24, 40]
    %zero = constant() : f16[24, 40]
    %off = le(%h, %zero) : bool[24, 40]
    %y = select(%off, %zero, %d) : f16[24, 40]
    return y=%y
  })",
                      {}, kF16, MatMul());
}

// A reshape between product and result, as where a batch was merged into the rows.
TEST(MatMulKernel, ResultInAnotherShape) {
  ExpectFusionMatches(R"(graph @f(%a: f32[24, 16], %w: f32[16, 8], %skip: f32[2, 12, 8]) {
    %c = matmul(%a, %w) : f32[24, 8]
    %r = reshape(%c) : f32[2, 12, 8]
    %y = add(%r, %skip) : f32[2, 12, 8]
    return y=%y
  })",
                      {}, kF32, MatMul());
}

// The bias gradient beside the weight's.
constexpr std::string_view kWeightGradient = R"(graph @f(%x: f16[6, 8, 24], %dy: f16[6, 8, 40]) {
    %x2 = reshape(%x) : f16[48, 24]
    %dy2 = reshape(%dy) : f16[48, 40]
    %w = matmul(%x2, %dy2), transpose_a=true, out=f32 : f32[24, 40]
    %b = reduce_sum(%dy), axes=[0, 1], out=f32 : f32[40]
    %w_ok = all_finite(%w) : bool[]
    %b_ok = all_finite(%b) : bool[]
    return w=%w, b=%b, w_ok=%w_ok, b_ok=%b_ok
  })";

ir::Array Planted(const ir::Type& type, int64_t at, double value) {
  ir::Array array(type);
  for (int64_t i = 0; i < array.elements(); ++i) array.Set(i, 0.125 * static_cast<double>(i % 7));
  if (at >= 0) array.Set(at, value);
  return array;
}

TEST(MatMulKernel, ColumnSumsOfB) {
  const ir::Type x{DType::kF16, {6, 8, 24}}, dy{DType::kF16, {6, 8, 40}};
  ir::ArrayMap finite;
  finite["x"] = Planted(x, -1, 0);
  finite["dy"] = Planted(dy, -1, 0);
  ExpectFusionMatches(kWeightGradient, finite, kF32, MatMul());
}

TEST(MatMulKernel, FlagsSeeWhatIsNotFinite) {
  const ir::Type x{DType::kF16, {6, 8, 24}}, dy{DType::kF16, {6, 8, 40}};
  for (double value : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    ir::ArrayMap of_x, of_dy;
    of_x["x"] = Planted(x, 11 * 24 + 23, value);
    of_x["dy"] = Planted(dy, -1, 0);
    ExpectFusionMatches(kWeightGradient, of_x, kF32, MatMul());  // the weight's alone
    of_dy["x"] = Planted(x, -1, 0);
    of_dy["dy"] = Planted(dy, 47 * 40 + 39, value);
    ExpectFusionMatches(kWeightGradient, of_dy, kF32, MatMul());  // both
  }
}

// 300 * 300 leaves f16: the flag sees the stored value.
TEST(MatMulKernel, OverflowOfTheStoredTypeIsSeen) {
  ir::ArrayMap inputs;
  inputs["a"] = Planted({DType::kF16, {8, 1}}, 3, 300);
  inputs["b"] = Planted({DType::kF16, {1, 8}}, 5, 300);
  ExpectFusionMatches(R"(graph @f(%a: f16[8, 1], %b: f16[1, 8]) {
    %c = matmul(%a, %b) : f16[8, 8] {origin="autocast:allow"}
    %ok = all_finite(%c) : bool[]
    return c=%c, ok=%ok
  })",
                      inputs, kF16, MatMul());
}

TEST(MatMulKernel, AFalseGuardLeavesResultsAlone) {
  const FusionModule made = ParseFusion(Product(8, 8, 8, false, false), "matmul");
  std::vector<ir::Array> operands = {Planted({DType::kF32, {8, 8}}, -1, 0),
                                     Planted({DType::kF32, {8, 8}}, -1, 0)};
  const auto run = RunFusion(*made.fusion, operands, {.family = "matmul", .guard = false});
  ASSERT_TRUE(run.ok()) << run.status();
  for (int64_t i = 0; i < 64; ++i) EXPECT_TRUE(std::isnan(run->results[0].Get(i)));
}

// Gradients that are accumulated: the sum takes the memory of what it is added to.
TEST(MatMulKernel, AccumulatesInPlace) {
  ExpectFusionMatches(R"(graph @f(%sum: f32[24, 40], %x: f16[16, 24], %dy: f16[16, 40]) {
    %w = matmul(%x, %dy), transpose_a=true, out=f32 : f32[24, 40]
    %next = add(%sum, %w) : f32[24, 40]
    return next=%next
  })",
                      {}, kF32, {.family = "matmul", .in_place = {{0, 0}}});
}

TEST(MatMulKernel, OverwritingAnOperandOfTheProductIsAnError) {
  const FusionModule made = ParseFusion(Product(8, 8, 8, false, false), "matmul");
  const CodegenOptions codegen{.target = *FindGpuTarget("sm_80")};
  EXPECT_EQ(GenerateMatMul(*made.fusion, {.in_place = {1}}, codegen).status().message(),
            "matmul: its result would be written over its operand %b (node %c)");
}

TEST(MatMulKernel, AProductTooLargeForOneKernelIsAnErrorWithItsSizes) {
  const FusionModule made = ParseFusion(Product(1 << 30, 8, 4, false, false), "matmul");
  const CodegenOptions codegen{.target = *FindGpuTarget("sm_80")};
  EXPECT_EQ(GenerateMatMul(*made.fusion, {}, codegen).status().message(),
            "matmul: 1 products of 1073741824 x 4 and 4 x 8 are more than one kernel counts with "
            "32 bits; use a smaller batch (node %c)");
}

// Sums are taken in the order of k whatever the tile.
TEST(MatMulKernel, AllSchedulesGiveTheSameBits) {
  const std::string text = Product(70, 36, 50, false, false);
  const FusionModule made = ParseFusion(text, "matmul");
  const std::vector<ir::Array> operands = {Planted({DType::kF32, {70, 50}}, 7, 1e-3),
                                           Planted({DType::kF32, {50, 36}}, 9, 1e3)};
  const auto first = RunFusion(*made.fusion, operands, MatMul());
  ASSERT_TRUE(first.ok()) << first.status();
  for (const char* schedule :
       {"v4 u1 t256 m128 n128 k16", "v4 u1 t256 m64 n64 k16", "v4 u1 t64 m16 n64 k16"}) {
    FusionOptions options = MatMul();
    options.schedules = {std::string("*=") + schedule};
    const auto other = RunFusion(*made.fusion, operands, options);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(other->kernel.schedule, schedule);
    EXPECT_TRUE(other->results[0].BitEqual(first->results[0])) << schedule;
  }
}

TEST(MatMulKernel, AtLeastEightSchedulesAreRankedForEveryArchitecture) {
  for (const GpuTarget& target : AllGpuTargets()) {
    const GeneratedKernel kernel = Generate(Product(512, 512, 784, false, false, "f16"),
                                            {.family = "matmul", .target = target.name});
    EXPECT_GE(std::count(kernel.schedules.begin(), kernel.schedules.end(), '\n'), 8) << target.name;
    EXPECT_EQ(kernel.schedules.find("does not fit"), std::string::npos) << kernel.schedules;
  }
}

TEST(MatMulKernel, EqualProductsOfDifferentNamesHaveEqualText) {
  const std::string text = Product(8, 16, 8, false, false);
  std::string renamed = text;
  for (size_t at; (at = renamed.find("%c")) != std::string::npos;) renamed.replace(at, 2, "%other");
  EXPECT_EQ(Generate(text).source, Generate(renamed).source);
}

TEST(MatMulKernel, BodiesThatAreNoProductAreErrors) {
  const CodegenOptions codegen{.target = *FindGpuTarget("sm_80")};
  const auto error = [&](std::string_view text) {
    const FusionModule made = ParseFusion(text, "matmul");
    return std::string(GenerateMatMul(*made.fusion, {}, codegen).status().message());
  };
  EXPECT_EQ(error("graph @f(%a: f32[4]) { %y = neg(%a) : f32[4] return y=%y }"),
            "a matmul fusion without a matmul");
  EXPECT_EQ(error(R"(graph @f(%a: f32[4, 4]) {
    %c = matmul(%a, %a) : f32[4, 4]
    %y = neg(%a) : f32[4, 4]
    return c=%c, y=%y
  })"),
            "result 1 of a matmul fusion does not depend on the product");
  EXPECT_EQ(error(R"(graph @f(%a: f32[4, 4]) {
    %c = matmul(%a, %a) : f32[4, 4]
    %t = transpose(%c), perm=[1, 0] : f32[4, 4]
    %y = add(%c, %t) : f32[4, 4]
    return y=%y
  })"),
            "%y reads sums of a matmul fusion in two orders");
}

}  // namespace
}  // namespace duotone::codegen::cuda
