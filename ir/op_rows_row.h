// Rows of the op table: composites over rows, f32 inside (ir/op_table.cc).
#ifndef DUOTONE_IR_OP_ROWS_ROW_H_
#define DUOTONE_IR_OP_ROWS_ROW_H_

#include "ir/grad.h"
#include "ir/op_checks.h"
#include "ir/ops_row.h"

namespace duotone::ir {

// f32 inside, so that 16-bit operands and results are safe where their values are.
constexpr Precision CompositePrecision(TorchCategory torch_cuda, std::string_view reason) {
  return {Tone::kInfer, Tone::kInfer, torch_cuda, TorchCategory::kUnlisted, reason};
}

inline constexpr OpDef kRowRows[] = {
    {.op = Op::kSoftmax,
     .name = "softmax",
     .operands = {1, 1},
     .attrs = kAttrKindOf<SoftmaxAttrs>,
     .infer = InferSoftmax,
     .grad = GradSoftmax,
     .precision =
         CompositePrecision(TorchCategory::kFp32SetOptDType,
                            "exponentials and their sum stay in f32; probabilities fit 16 bits"),
     .keeps_f32 = {},
     .linear = kNonLinear,
     .cost = OperandCost<kTranscendentalFlops + 4>,
     .eval = {.run = EvalSoftmax, .items = ItemsSoftmax},
     .lower = Lower::kRow,
     .example = "graph @example(%x: f32[B, 4]) { %y = softmax(%x), axis=1 : f32[B, 4] return %y }",
     .doc = "e^(x - max) divided by its sum along `axis`, in f32 (f64 for f64), rounded once to "
            "`out`; a line "
            "of -inf only gives 0 everywhere, a line with +inf or NaN gives NaN."},
    {.op = Op::kLogSoftmax,
     .name = "log_softmax",
     .operands = {1, 1},
     .attrs = kAttrKindOf<SoftmaxAttrs>,
     .infer = InferSoftmax,
     .grad = GradLogSoftmax,
     .precision =
         CompositePrecision(TorchCategory::kFp32SetOptDType,
                            "exponentials and their sum stay in f32; the result is as wide as x"),
     .keeps_f32 = {},
     .linear = kNonLinear,
     .cost = OperandCost<kTranscendentalFlops + 4>,
     .eval = {.run = EvalLogSoftmax, .items = ItemsSoftmax},
     .lower = Lower::kRow,
     .example = "graph @example(%x: f16[B, 4]) { %y = log_softmax(%x), axis=1, out=f32 : f32[B, 4] "
                "return %y }",
     .doc = "x - max - log(sum(e^(x - max))) along `axis`, in f32 (f64 for f64), rounded once to "
            "`out`; a line of "
            "-inf only stays -inf."},
    {.op = Op::kLogSumExp,
     .name = "logsumexp",
     .operands = {1, 1},
     .attrs = kAttrKindOf<ReduceAttrs>,
     .infer = InferLogSumExp,
     .grad = GradLogSumExp,
     .precision = CompositePrecision(
         TorchCategory::kFp32,
         "exponentials and their sum stay in f32; the result is near the maximum"),
     .keeps_f32 = {},
     .linear = kNonLinear,
     .cost = OperandCost<kTranscendentalFlops + 3>,
     .eval = {.run = EvalLogSumExp, .items = ItemsLogSumExp},
     .lower = Lower::kRow,
     .example = "graph @example(%x: f32[8, 4]) { %y = logsumexp(%x), axes=[1] : f32[8] return %y }",
     .doc = "max + log(sum(e^(x - max))) over `axes`, in f32 (f64 for f64), rounded once to `out`; "
            "-inf over no elements "
            "or -inf only, +inf if +inf is among them."},
    {.op = Op::kLayerNorm,
     .name = "layer_norm",
     .operands = {3, 3},
     .attrs = kAttrKindOf<LayerNormAttrs>,
     .infer = InferLayerNorm,
     .grad = GradLayerNorm,
     .precision = CompositePrecision(
         TorchCategory::kFp32,
         "statistics, gamma and beta stay in f32; the normalised result fits 16 bits"),
     .keeps_f32 = {1, 2},
     .linear = kNonLinear,
     .cost = OperandCost<8>,
     .eval = {.run = EvalLayerNorm, .items = ItemsLayerNorm},
     .lower = Lower::kRow,
     .example =
         "graph @example(%x: f16[B, 4], %gamma: f32[4], %beta: f32[4]) { "
         "%y, %mean, %rstd = layer_norm(%x, %gamma, %beta) : f16[B, 4], f32[B], f32[B] return %y }",
     .doc = "(x - mean) * rstd * gamma + beta over the last axes, which gamma covers, with rstd = "
            "1/sqrt(variance + eps) "
            "and the variance of a second pass, in f32 (f64 for f64); mean and rstd are results."},
    {.op = Op::kSoftmaxGrad,
     .name = "softmax_grad",
     .operands = {2, 2},
     .attrs = kAttrKindOf<SoftmaxAttrs>,
     .infer = InferSoftmaxGrad,
     .grad = GradSoftmaxGrad,
     .precision = CompositePrecision(TorchCategory::kUnlisted, "the sum stays in f32"),
     .keeps_f32 = {},
     .linear = {Linearity::Kind::kEach, {1}},
     .cost = OperandCost<4>,
     .eval = {.run = EvalSoftmaxGrad, .items = ItemsSoftmax},
     .lower = Lower::kRow,
     .example = "graph @example(%y: f32[B, 4], %g: f32[B, 4]) { %dx = softmax_grad(%y, %g), axis=1 "
                ": f32[B, 4] return %dx }",
     .doc = "Gradient of softmax from its result y and the result's gradient g: y * (g - sum(g * "
            "y))."},
    {.op = Op::kLogSoftmaxGrad,
     .name = "log_softmax_grad",
     .operands = {2, 2},
     .attrs = kAttrKindOf<SoftmaxAttrs>,
     .infer = InferSoftmaxGrad,
     .grad = GradLogSoftmaxGrad,
     .precision =
         CompositePrecision(TorchCategory::kUnlisted, "exponentials and the sum stay in f32"),
     .keeps_f32 = {},
     .linear = {Linearity::Kind::kEach, {1}},
     .cost = OperandCost<kTranscendentalFlops + 3>,
     .eval = {.run = EvalLogSoftmaxGrad, .items = ItemsSoftmax},
     .lower = Lower::kRow,
     .example = "graph @example(%y: f32[B, 4], %g: f32[B, 4]) { %dx = log_softmax_grad(%y, %g), "
                "axis=1 : f32[B, 4] "
                "return %dx }",
     .doc = "Gradient of log_softmax from its result y and the result's gradient g: g - e^y * "
            "sum(g)."},
    {.op = Op::kLayerNormGrad,
     .name = "layer_norm_grad",
     .operands = {5, 5},
     .attrs = kAttrKindOf<NoAttrs>,
     .infer = InferLayerNormGrad,
     .grad = NotDifferentiable,
     .precision = CompositePrecision(TorchCategory::kUnlisted,
                                     "sums, statistics and gamma stay in f32; dx is as wide as dy"),
     .keeps_f32 = {1, 2, 3},
     .linear = {Linearity::Kind::kEach, {4}},
     .cost = OperandCost<16>,
     .eval = {.run = EvalLayerNormGrad, .items = ItemsLayerNormGrad},
     .lower = Lower::kRow,
     .example = "graph @example(%x: f16[B, 4], %gamma: f32[4], %mean: f32[B], %rstd: f32[B], %dy: "
                "f16[B, 4]) { "
                "%dx, %dgamma, %dbeta = layer_norm_grad(%x, %gamma, %mean, %rstd, %dy) : f16[B, "
                "4], f32[4], f32[4] "
                "return dx=%dx, dgamma=%dgamma, dbeta=%dbeta }",
     .doc = "Gradients of layer_norm with respect to x, gamma and beta, from x, gamma, the saved "
            "mean and rstd, and the "
            "gradient dy of y."},
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_ROWS_ROW_H_
