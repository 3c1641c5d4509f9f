// Row, column and finish kernels against the reference evaluation of their bodies.
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/codegen/cuda/run_kernel.h"
#include "tests/codegen/run_program.h"

namespace duotone::codegen::cuda {
namespace {

using ir::Array;
using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A body over rows: DT stands for the dtype, R for the rows, C for the elements of a row.
struct Body {
  const char* name;
  const char* family;
  const char* text;
};

constexpr Body kBodies[] = {
    {"softmax", "row", "graph @g(%x: DT[R, C]) { %y = softmax(%x), axis=1 : DT[R, C] return %y }"},
    {"log_softmax", "row",
     "graph @g(%x: DT[R, C]) { %y = log_softmax(%x), axis=1, out=f32 : f32[R, C] return %y }"},
    {"logsumexp", "row",
     "graph @g(%x: DT[R, C]) { %y = logsumexp(%x), axes=[1], keep_dims=true : DT[R, 1] return %y "
     "}"},
    {"softmax_grad", "row",
     "graph @g(%y: DT[R, C], %g: DT[R, C]) { %dx = softmax_grad(%y, %g), axis=1 : DT[R, C] "
     "return %dx }"},
    {"log_softmax_grad", "row",
     "graph @g(%y: DT[R, C], %g: DT[R, C]) { %dx = log_softmax_grad(%y, %g), axis=1 : DT[R, C] "
     "return %dx }"},
    {"layer_norm", "row",
     "graph @g(%x: DT[R, C], %r: DT[R, C], %gamma: f32[C], %beta: f32[C]) { "
     "%s = add(%x, %r) : DT[R, C] %y, %mean, %rstd = layer_norm(%s, %gamma, %beta) : "
     "DT[R, C], f32[R], f32[R] return s=%s, y=%y, mean=%mean, rstd=%rstd }"},
    {"layer_norm_grad", "row",
     "graph @g(%x: DT[R, C], %gamma: f32[C], %mean: f32[R], %rstd: f32[R], %dy: DT[R, C]) { "
     "%dx, %dgamma, %dbeta = layer_norm_grad(%x, %gamma, %mean, %rstd, %dy) : "
     "DT[R, C], f32[C], f32[C] %ok = all_finite(%dgamma, %dbeta, %dx) : bool[] "
     "return dx=%dx, dgamma=%dgamma, dbeta=%dbeta, ok=%ok }"},
    {"cross_entropy", "row",
     "graph @g(%x: DT[R, C], %labels: i32[R], %scale: f32[]) { "
     "%loss, %lse = cross_entropy(%x, %labels), ignore_index=2 : f32[], f32[R] "
     "%dx = cross_entropy_grad(%x, %labels, %lse, %scale), ignore_index=2 : DT[R, C] "
     "return loss=%loss, lse=%lse, dx=%dx }"},
    {"cross_entropy_smoothed", "row",
     "graph @g(%x: DT[R, C], %labels: i64[R]) { "
     "%loss, %lse = cross_entropy(%x, %labels), label_smoothing=0.1 : f32[], f32[R] "
     "return loss=%loss }"},
    {"mse_loss", "row",
     "graph @g(%x: DT[R, C], %t: f32[R, C]) { %loss = mse_loss(%x, %t) : f32[] return %loss }"},
    {"bce_with_logits", "column",
     "graph @g(%x: DT[R, C], %t: f32[R, C]) { %loss = bce_with_logits(%x, %t) : f32[] "
     "return %loss }"},
    {"argmax", "row",
     "graph @g(%x: DT[R, C]) { %y = argmax(%x), axis=1 : i32[R] "
     "%m = reduce_max(%x), axes=[1] : DT[R] return y=%y, m=%m }"},
    {"row_mean", "row",
     "graph @g(%x: DT[R, C]) { %e = tanh(%x) : DT[R, C] %y = reduce_mean(%e), axes=[1], out=f32 : "
     "f32[R] %m = reduce_min(%e), axes=[1] : DT[R] return y=%y, m=%m }"},
    {"column_sum", "column",
     "graph @g(%x: DT[R, C], %y: DT[R, C]) { %z = mul(%x, %y) : DT[R, C] "
     "%s = reduce_sum(%z), axes=[0], out=f32 : f32[C] %ok = all_finite(%s, %z) : bool[] "
     "return z=%z, s=%s, ok=%ok }"},
    {"column_extremes", "column",
     "graph @g(%x: DT[R, C]) { %a = reduce_max(%x), axes=[0] : DT[C] "
     "%b = reduce_min(%x), axes=[0] : DT[C] %m = reduce_mean(%x), axes=[0] : DT[C] "
     "return a=%a, b=%b, m=%m }"},
};

struct Size {
  int64_t rows;
  int64_t columns;
};
constexpr Size kSizes[] = {{7, 1},    {1, 3},    {128, 8},   {7, 65}, {7, 128},
                           {3, 1000}, {2, 4096}, {2, 20000}, {0, 8},  {1, 128}};
constexpr const char* kTypes[] = {"f32", "f16", "bf16"};

std::string TextOf(const Body& body, const char* dtype, Size size) {
  return absl::StrReplaceAll(body.text, {{"DT", dtype},
                                         {"[R", absl::StrCat("[", size.rows)},
                                         {" C]", absl::StrCat(" ", size.columns, "]")},
                                         {"[C]", absl::StrCat("[", size.columns, "]")}});
}
double ToleranceOf(const std::string& dtype, Size size) {
  const double sums = 64 + std::log2(static_cast<double>(size.rows * size.columns + 2));
  const double rounding = dtype == "f16" ? 0x1p-10 : dtype == "bf16" ? 0x1p-7 : 0;
  return rounding + 4 * sums * 0x1p-24;
}
// Labels below the number of classes.
ir::ArrayMap LabelsFor(const std::string& text, Size size) {
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

class RowBodies : public testing::TestWithParam<Body> {
 protected:
  static void Check(const char* dtype, Size size) {
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
  for (const Size& size : kSizes) {
    ++number;
    for (int type = 0; type < 3; ++type) {
      if (all || (number % 3 == type && (number / 3 + size.columns) % 2 == 0)) {
        Check(kTypes[type], size);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RowBodies, testing::ValuesIn(kBodies),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace duotone::codegen::cuda
