// Scatter kernels, run on the host, against the reference evaluation: equal to the last bit, since
// updates are added in the order of the indices.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/codegen/cuda/run_kernel.h"

namespace duotone::codegen::cuda {
namespace {

using testing::HasSubstr;

// Many indices to few rows, in no order.
ir::Array Indices(DType dtype, int64_t count, int64_t rows) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * i * 7 % rows));
  return ir::Array::Of({dtype, {count}}, values);
}

TEST(Scatter, AddsUpdatesInOrder) {
  for (const char* types : {"f32 f32", "f32 f16", "f16 f16", "bf16 bf16", "f64 f64"}) {
    for (int columns : {128, 24, 7}) {
      const std::string base(types, std::string(types).find(' '));
      const std::string update(std::string(types).substr(base.size() + 1));
      const std::string text = absl::StrReplaceAll(
          R"(graph @f(%b: T[13, C], %i: i32[100], %u: U[100, C]) {
        %y = scatter_add(%b, %i, %u) : T[13, C]
        return y=%y
      })",
          {{"T[", base + "["}, {"U[", update + "["}, {"C]", absl::StrCat(columns, "]")}});
      ExpectFusionMatches(text, {{"i", Indices(DType::kI32, 100, 13)}}, 0, {.family = "scatter"});
    }
  }
}

TEST(Scatter, EverySchedule) {
  for (const char* schedule :
       {"v8 u2 t64 r1", "v8 u4 t128 r2", "v4 u4 t256 r4", "v1 u2 t128 r4", "v2 u2 t64 r2"}) {
    FusionOptions options{.family = "scatter"};
    options.schedules = {absl::StrCat("*=", schedule)};
    ExpectFusionMatches(R"(graph @f(%i: i64[70], %u: f16[70, 40]) {
      %b = constant() : f32[9, 40]
      %y = scatter_add(%b, %i, %u) : f32[9, 40]
      %ok = all_finite(%y) : bool[]
      return y=%y, ok=%ok
    })",
                        {{"i", Indices(DType::kI64, 70, 9)}}, 0, options);
  }
}

TEST(Scatter, RowsOfAnyShape) {
  ExpectFusionMatches(R"(graph @f(%b: f32[5], %i: i32[4, 10], %u: f32[4, 10]) {
    %i2 = reshape(%i) : i32[40]
    %u2 = reshape(%u) : f32[40]
    %y = scatter_add(%b, %i2, %u2) : f32[5]
    return y=%y
  })",
                      {{"i", ir::Array::Of({DType::kI32, {4, 10}}, std::vector<double>(40, 3))}}, 0,
                      {.family = "scatter"});
  ExpectFusionMatches(R"(graph @f(%b: f16[6, 2, 8], %i: i32[30], %u: f32[30, 16]) {
    %u2 = reshape(%u) : f32[30, 2, 8]
    %u3 = cast(%u2), to=f16 : f16[30, 2, 8]
    %y = scatter_add(%b, %i, %u3) : f16[6, 2, 8]
    %n = neg(%y) : f16[6, 2, 8]
    return y=%y, n=%n
  })",
                      {{"i", Indices(DType::kI32, 30, 6)}}, 0, {.family = "scatter"});
  ExpectFusionMatches(R"(graph @f(%b: f32[6, 8], %i: i32[0], %u: f32[0, 8]) {
    %y = scatter_add(%b, %i, %u) : f32[6, 8]
    return y=%y
  })",
                      {}, 0, {.family = "scatter"});
}

TEST(Scatter, AnIndexOutOfRangeIsReportedAndAddsNothing) {
  const FusionModule made = ParseFusion(R"(graph @f(%b: f32[4, 8], %i: i32[3], %u: f32[3, 8]) {
    %y = scatter_add(%b, %i, %u) : f32[4, 8] {loc="model.cc:9"}
    return y=%y
  })",
                                        "scatter");
  for (double bad : {4.0, -3.0}) {
    const std::vector<ir::Array> operands = {ir::Array::Of({DType::kF32, {4, 8}}, {1}),
                                             ir::Array::Of({DType::kI32, {3}}, {3, bad, 3}),
                                             ir::Array::Of({DType::kF32, {3, 8}}, {2})};
    absl::StatusOr<FusionRun> run = RunFusion(*made.fusion, operands);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->error.claimed, 1);
    EXPECT_EQ(run->error.value, bad);
    EXPECT_EQ(run->error.limit, 4);
    EXPECT_THAT(run->kernel.labels[static_cast<size_t>(run->error.label - 1)],
                HasSubstr("scatter_add (model.cc:9, node %y)"));
    EXPECT_EQ(run->results[0].Get(0), 1);
    EXPECT_EQ(run->results[0].Get(31), 5);
  }
}

TEST(Scatter, WorksInPlace) {
  const FusionModule made = ParseFusion(R"(graph @f(%b: f32[4, 8], %i: i32[3], %u: f32[3, 8]) {
    %y = scatter_add(%b, %i, %u) : f32[4, 8]
    return y=%y
  })",
                                        "scatter");
  const std::vector<ir::Array> operands = {ir::Array::Of({DType::kF32, {4, 8}}, {1}),
                                           ir::Array::Of({DType::kI32, {3}}, {3, 2, 3}),
                                           ir::Array::Of({DType::kF32, {3, 8}}, {2})};
  absl::StatusOr<FusionRun> run = RunFusion(*made.fusion, operands, {.in_place = {{0, 0}}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->results[0].Get(0), 1);
  EXPECT_EQ(run->results[0].Get(16), 3);
  EXPECT_EQ(run->results[0].Get(31), 5);
}

}  // namespace
}  // namespace duotone::codegen::cuda
