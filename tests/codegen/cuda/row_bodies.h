// Bodies of row and column fusions over rows of any number, length and dtype.
#ifndef DUOTONE_TESTS_CODEGEN_CUDA_ROW_BODIES_H_
#define DUOTONE_TESTS_CODEGEN_CUDA_ROW_BODIES_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace duotone::codegen::cuda {

// A body over rows: DT stands for the dtype, R for the rows, C for the elements of a row.
struct RowBody {
  const char* name;
  const char* family;
  const char* text;
};

inline constexpr RowBody kRowBodies[] = {
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

struct RowSize {
  int64_t rows;
  int64_t columns;
};

inline std::string TextOf(const RowBody& body, const char* dtype, RowSize size) {
  return absl::StrReplaceAll(body.text, {{"DT", dtype},
                                         {"[R", absl::StrCat("[", size.rows)},
                                         {" C]", absl::StrCat(" ", size.columns, "]")},
                                         {"[C]", absl::StrCat("[", size.columns, "]")}});
}
}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_TESTS_CODEGEN_CUDA_ROW_BODIES_H_
