// Row, column and finish kernels against the reference evaluation of their bodies.
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/codegen/cuda/row_bodies.h"
#include "tests/codegen/cuda/run_kernel.h"
#include "tests/codegen/run_program.h"

namespace duotone::codegen::cuda {
namespace {

using ir::Array;
using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr RowSize kSizes[] = {{7, 1},    {1, 3},    {128, 8},   {7, 65}, {7, 128},
                              {3, 1000}, {2, 4096}, {2, 20000}, {0, 8},  {1, 128}};
constexpr const char* kTypes[] = {"f32", "f16", "bf16"};

double ToleranceOf(const std::string& dtype, RowSize size) {
  const double sums = 64 + std::log2(static_cast<double>(size.rows * size.columns + 2));
  const double rounding = dtype == "f16" ? 0x1p-10 : dtype == "bf16" ? 0x1p-7 : 0;
  return rounding + 4 * sums * 0x1p-24;
}
// Labels below the number of classes.
ir::ArrayMap LabelsFor(const std::string& text, RowSize size) {
  ir::ArrayMap inputs;
  for (DType dtype : {DType::kI32, DType::kI64}) {
    const std::string declared = absl::StrFormat("%%labels: %s[%d]", DTypeName(dtype), size.rows);
    if (text.find(declared) == std::string::npos) continue;
    Array labels({dtype, {size.rows}});
    for (int64_t i = 0; i < size.rows; ++i) labels.Set(i, (i * 7 + 1) % size.columns);
    inputs["labels"] = labels;
  }
  return inputs;
}

class RowBodies : public testing::TestWithParam<RowBody> {
 protected:
  static void Check(const char* dtype, RowSize size) {
    const std::string text = TextOf(GetParam(), dtype, size);
    SCOPED_TRACE(text);
    ExpectFusionMatches(text, LabelsFor(text, size), ToleranceOf(dtype, size),
                        {.family = GetParam().family});
  }
};

// Each size with one of the types. DUOTONE_ALL_SIZES=1 takes all of them.
TEST_P(RowBodies, AgreeWithTheReference) {
  const bool all = std::getenv("DUOTONE_ALL_SIZES") != nullptr;
  int number = static_cast<int>(std::string_view(GetParam().name).size());
  for (const RowSize& size : kSizes) {
    ++number;
    for (int type = 0; type < 3; ++type) {
      if (all || (number % 3 == type && (number / 3 + size.columns) % 2 == 0)) {
        Check(kTypes[type], size);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RowBodies, testing::ValuesIn(kRowBodies),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- Special values

// Lines of -inf, with +inf, with NaN, of zeros: the same infinities and NaNs as the reference.
TEST(RowKernels, SpecialLines) {
  for (const RowBody& body : kRowBodies) {
    const std::string name = body.name;
    if (name.find("column") == 0 || name == "cross_entropy_smoothed" || name == "mse_loss")
      continue;
    const RowSize size{6, 72};
    const std::string text = TextOf(body, "f32", size);
    ir::ArrayMap inputs = LabelsFor(text, size);
    Array x({DType::kF32, {size.rows, size.columns}});
    for (int64_t i = 0; i < x.elements(); ++i) x.Set(i, 0.25 * static_cast<double>(i % 13) - 1);
    for (int64_t c = 0; c < size.columns; ++c) x.Set(c, -kInf);
    x.Set(size.columns + 5, kInf);
    x.Set(2 * size.columns + 71, kNaN);
    for (int64_t c = 0; c < size.columns; ++c) x.Set(3 * size.columns + c, 3e38);
    x.Set(4 * size.columns, -kInf);
    inputs[name == "softmax_grad" || name == "log_softmax_grad" ? "g" : "x"] = x;
    SCOPED_TRACE(text);
    ExpectFusionMatches(text, inputs, 1e-5, {.family = body.family});
  }
}

// The first of the greatest; NaN is greatest.
TEST(RowKernels, ArgMaxOfTies) {
  Array x({DType::kF16, {4, 8}});
  for (int64_t i = 0; i < 8; ++i) x.Set(i, 3);          // all equal: 0
  for (int64_t i = 0; i < 8; ++i) x.Set(8 + i, i % 3);  // 2 at 2, 5
  for (int64_t i = 0; i < 8; ++i) x.Set(16 + i, i > 3 ? kNaN : kInf);
  for (int64_t i = 0; i < 8; ++i) x.Set(24 + i, -kInf);
  ir::ArrayMap inputs;
  inputs["x"] = x;
  const FusionModule made =
      ParseFusion("graph @g(%x: f16[4, 8]) { %y = argmax(%x), axis=1 : i32[4] return %y }", "row");
  const auto run = RunFusion(*made.fusion, {x});
  ASSERT_TRUE(run.ok()) << run.status();
  const int64_t expected[] = {0, 2, 4, 0};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(run->results[0].Get(i), expected[i]);
}

TEST(RowKernels, NotANumberInDgammaClearsTheFlag) {
  const FusionModule made = ParseFusion(TextOf(kRowBodies[6], "f16", {40, 16}), "row");
  std::vector<Array> operands;
  for (const ir::Node* input : made.fusion->body()->inputs()) {
    operands.push_back(cpu::RandomArray(input->type(), 3));
  }
  auto run = RunFusion(*made.fusion, operands);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->results[3].Get(0), 1);
  operands[2].Set(20, kInf);  // a mean
  run = RunFusion(*made.fusion, operands);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->results[3].Get(0), 0);
}

// A label that is no class is reported with its value; the ignored one is not.
TEST(RowKernels, LabelsOutOfRangeAreReported) {
  const FusionModule made = ParseFusion(
      "graph @g(%x: f32[9, 5], %labels: i32[9]) { %loss, %lse = cross_entropy(%x, %labels) : "
      "f32[], f32[9] {loc=\"a.cc:3\"} return %loss }",
      "row");
  const Array x = cpu::RandomArray({DType::kF32, {9, 5}}, 1);
  Array labels({DType::kI32, {9}});
  labels.Set(4, -100);
  auto run = RunFusion(*made.fusion, {x, labels});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->error.claimed, 0);
  labels.Set(8, 5);
  run = RunFusion(*made.fusion, {x, labels});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->error.claimed, 1);
  EXPECT_EQ(run->error.value, 5);
  EXPECT_EQ(run->error.limit, 5);
  ASSERT_LE(run->error.label, static_cast<int>(run->kernel.labels.size()));
  EXPECT_THAT(run->kernel.labels[static_cast<size_t>(run->error.label) - 1], HasSubstr("a.cc:3"));
}

// ---- Other shapes of rows

TEST(RowKernels, AnyAxes) {
  for (const char* text : {
           "graph @g(%x: f32[5, 6, 7]) { %y = softmax(%x), axis=1 : f32[5, 6, 7] return %y }",
           "graph @g(%x: f16[5, 6, 8]) { %y = softmax(%x), axis=0 : f16[5, 6, 8] return %y }",
           "graph @g(%x: f32[3, 4, 5, 8]) { %y = logsumexp(%x), axes=[1, 3] : f32[3, 5] return %y "
           "}",
           "graph @g(%x: f32[3, 4, 8], %g: f32[4, 8], %b: f32[4, 8]) { %y, %m, %r = "
           "layer_norm(%x, %g, %b) : f32[3, 4, 8], f32[3], f32[3] return y=%y, r=%r }",
           "graph @g(%x: f32[4, 6]) { %t = transpose(%x), perm=[1, 0] : f32[6, 4] "
           "%y = softmax(%t), axis=1 : f32[6, 4] %z = transpose(%y), perm=[1, 0] : f32[4, 6] "
           "return %z }",
           "graph @g(%x: f16[6, 16]) { %r = reshape(%x) : f16[2, 3, 16] "
           "%y = softmax(%r), axis=2 : f16[2, 3, 16] %z = reshape(%y) : f16[6, 16] return %z }",
       }) {
    SCOPED_TRACE(text);
    ExpectFusionMatches(text, {}, 2e-3, {.family = "row"});
  }
}

// How many labels count is a number of all rows, which the rows are not made of.
TEST(RowKernels, AGradientOfCrossEntropyAlone) {
  for (const char* attrs : {"", ", ignore_index=2, label_smoothing=0.1"}) {
    for (int rows : {1, 3, 40}) {
      std::vector<double> labels;
      for (int i = 0; i < rows; ++i) labels.push_back(i % 10);
      const std::string text = absl::StrFormat(R"(
        graph @f(%%x: f32[%1$d, 10], %%y: i32[%1$d], %%lse: f32[%1$d], %%dloss: f32[]) {
          %%dx = cross_entropy_grad(%%x, %%y, %%lse, %%dloss)%2$s : f32[%1$d, 10]
          return dx=%%dx
        })",
                                               rows, attrs);
      ExpectFusionMatches(text, {{"y", ir::Array::Of({DType::kI32, {rows}}, labels)}}, 1e-5,
                          {.family = "row"});
    }
  }
}

TEST(ColumnKernels, AnyAxes) {
  for (const char* text : {
           "graph @g(%x: f32[5, 6, 8]) { %y = reduce_sum(%x), axes=[1] : f32[5, 8] return %y }",
           "graph @g(%x: f16[5, 6, 8]) { %y = reduce_sum(%x), axes=[0, 1] : f16[8] return %y }",
           "graph @g(%x: f16[6, 5]) { %y = reduce_sum(%x), axes=[1], keep_dims=true : f16[6, 1] "
           "return %y }",
           "graph @g(%x: i32[9, 8]) { %y = reduce_sum(%x), axes=[0] : i32[8] "
           "%m = reduce_min(%x), axes=[0] : i32[8] return y=%y, m=%m }",
           "graph @g(%x: f64[90, 3]) { %y = reduce_sum(%x), axes=[0] : f64[3] return %y }",
           "graph @g(%x: f32[0, 3]) { %y = reduce_max(%x), axes=[0] : f32[3] return %y }",
           "graph @g(%x: f32[3, 0]) { %y = reduce_sum(%x), axes=[1] : f32[3] return %y }",
           "graph @g(%x: f32[700, 1000]) { %y = reduce_sum(%x), axes=[0, 1] : f32[] return %y }",
       }) {
    SCOPED_TRACE(text);
    ExpectFusionMatches(text, {}, 1e-3, {.family = "column"});
  }
}

// The user's f16 result of a sum is rounded before it is used.
TEST(RowKernels, RoundingOfTheUsersTypes) {
  ExpectFusionMatches(
      "graph @g(%x: f16[4, 64]) { %s = reduce_sum(%x), axes=[1], keep_dims=true : f16[4, 1] "
      "%b = broadcast(%s), dims=[0, 1] : f16[4, 64] %d = div(%x, %b) : f16[4, 64] "
      "%e = exp(%d) : f16[4, 64] %m = reduce_max(%e), axes=[1] : f16[4] "
      "return d=%d, m=%m }",
      {}, 0x1p-10, {.family = "row"});
}

TEST(RowKernels, Guarded) {
  const std::string text =
      "graph @g(%x: f32[4, 8]) { %y = softmax(%x), axis=1 : f32[4, 8] return %y }";
  ExpectFusionMatches(text, {}, 1e-6, {.family = "row", .guard = true});
}

// Rows of results that are sums of nothing are written, all of them.
TEST(RowKernels, SumsOfNothing) {
  ExpectFusionMatches(
      "graph @g(%x: f32[300, 40, 0]) { %y = reduce_sum(%x), axes=[2] : f32[300, 40] return %y }",
      {}, 0, {.family = "row"});
}

// ---- Layouts

// Wherever a row stays between its phases, and however many rows a block has, the bits are equal.
TEST(RowLayouts, GiveTheSameBits) {
  for (const auto& [body, size] :
       {std::pair<int, RowSize>{0, {5, 320}}, {5, {6, 2048}}, {6, {40, 2048}}, {7, {9, 1200}}}) {
    const FusionModule made = ParseFusion(TextOf(kRowBodies[body], "f16", size), "row");
    std::vector<Array> operands;
    for (const ir::Node* input : made.fusion->body()->inputs()) {
      operands.push_back(cpu::RandomArray(input->type(), 5));
    }
    const auto chosen = RunFusion(*made.fusion, operands);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    std::set<std::string> seen;
    for (const auto line : absl::StrSplit(chosen->kernel.schedules, '\n', absl::SkipEmpty())) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      std::string schedule;
      for (size_t i = 1; i < words.size() && std::isalpha(words[i][0]) != 0 && words[i] != "does";
           ++i) {
        absl::StrAppend(&schedule, schedule.empty() ? "" : " ", words[i]);
      }
      if (absl::StrContains(schedule, "u4") || absl::StrContains(schedule, "u8 t512")) continue;
      seen.insert(schedule);
      const auto run =
          RunFusion(*made.fusion, operands, {.schedules = {absl::StrCat("*=", schedule)}});
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_EQ(run->kernel.schedule, schedule);
      for (size_t i = 0; i < run->results.size(); ++i) {
        EXPECT_TRUE(run->results[i].BitEqual(chosen->results[i])) << schedule << "\n"
                                                                  << run->kernel.source;
      }
    }
    EXPECT_GE(seen.size(), 3u) << chosen->kernel.schedules;
  }
}

TEST(RowLayouts, ThereAreEnoughOfThem) {
  for (const RowBody& body : kRowBodies) {
    for (const RowSize& size : {RowSize{2048, 128}, RowSize{64, 20000}}) {
      const FusionModule made = ParseFusion(TextOf(body, "f16", size), body.family);
      const auto kernel = GenerateKernel(*made.fusion, {}, {.target = *FindGpuTarget("sm_80")});
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      const std::vector<std::string> lines =
          absl::StrSplit(kernel->schedules, '\n', absl::SkipEmpty());
      EXPECT_GE(lines.size(), 8u) << body.name << "\n" << kernel->schedules;
    }
  }
}

// A grid has at most 65535 blocks along y; wider tensors count their tiles along x.
TEST(RowLayouts, FitTheGridOfADeviceHoweverManyColumns) {
  for (const int64_t columns : {int64_t{1} << 20, int64_t{1} << 26, int64_t{1} << 30}) {
    const FusionModule made = ParseFusion(absl::StrFormat(R"(graph @f(%%x: f32[100, %1$d]) {
      %%y = reduce_sum(%%x), axes=[0] : f32[%1$d]
      return y=%%y
    })",
                                                          columns),
                                          "column");
    const auto kernel = GenerateKernel(*made.fusion, {}, {.target = *FindGpuTarget("sm_80")});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_LE(kernel->grid[0], 0x7fffffff);
    EXPECT_LE(kernel->grid[1], 65535);
    const bool is_flat = absl::StrContains(kernel->source, "blockIdx.x % ");
    EXPECT_EQ(is_flat, columns > int64_t{1} << 20) << kernel->source;
    // Every column has a thread.
    EXPECT_GE(kernel->grid[0] * kernel->grid[1] * kernel->block[0] * 4, columns);
  }
}

}  // namespace
}  // namespace duotone::codegen::cuda
