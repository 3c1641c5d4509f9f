// Rows of the op table: losses, f32 inside (ir/op_table.cc).
#ifndef DUOTONE_IR_OP_ROWS_LOSS_H_
#define DUOTONE_IR_OP_ROWS_LOSS_H_

#include "ir/grad.h"
#include "ir/op_checks.h"
#include "ir/ops_loss.h"

namespace duotone::ir {

// A loss: f32 on both of PyTorch's devices.
constexpr Precision LossPrecision(std::string_view reason) {
  return {Tone::kDeny, Tone::kDeny, TorchCategory::kFp32, TorchCategory::kFp32, reason};
}

inline constexpr OpDef kLossRows[] = {
    {.op = Op::kCrossEntropy,
     .name = "cross_entropy",
     .operands = {2, 2},
     .attrs = kAttrKindOf<CrossEntropyAttrs>,
     .infer = InferCrossEntropy,
     .grad = GradCrossEntropy,
     .precision = LossPrecision("the difference of logits and their log-sum-exp cancels, and "
                                "rounded logits bias the loss"),
     .keeps_f32 = {},
     .linear = kNonLinear,
     .cost = OperandCost<kTranscendentalFlops + 3>,
     .eval = {.run = EvalCrossEntropy},
     .lower = Lower::kRow,
     .example = "graph @example(%logits: f32[B, 10], %labels: i32[B]) { "
                "%loss, %lse = cross_entropy(%logits, %labels), label_smoothing=0.1 : f32[], "
                "f32[B] return loss=%loss }",
     .doc = "Mean of -log softmax(logits)[label] over the rows whose label is not ignore_index (0 "
            "if there are none), with label "
            "smoothing as in PyTorch; the second result is the log-sum-exp of each row."},
    {.op = Op::kMseLoss,
     .name = "mse_loss",
     .operands = {2, 2},
     .attrs = kAttrKindOf<NoAttrs>,
     .infer = InferPairLoss,
     .grad = GradMseLoss,
     .precision = LossPrecision("squares leave f16's range above 255, and the difference cancels"),
     .keeps_f32 = {1},
     .linear = kNonLinear,
     .cost = OperandCost<3>,
     .eval = {.run = EvalMseLoss},
     .lower = Lower::kRow,
     .example = "graph @example(%x: f32[B, 4], %target: f32[B, 4]) { %loss = mse_loss(%x, %target) "
                ": f32[] return loss=%loss }",
     .doc = "Mean of (x - target)^2 over all elements, in f32 (f64 for f64)."},
    {.op = Op::kBceWithLogits,
     .name = "bce_with_logits",
     .operands = {2, 2},
     .attrs = kAttrKindOf<NoAttrs>,
     .infer = InferPairLoss,
     .grad = GradBceWithLogits,
     .precision = LossPrecision("the logarithm of a probability near 1 needs more than 11 bits"),
     .keeps_f32 = {1},
     .linear = kNonLinear,
     .cost = OperandCost<2 * kTranscendentalFlops + 4>,
     .eval = {.run = EvalBceWithLogits},
     .lower = Lower::kRow,
     .example = "graph @example(%x: f32[B], %target: f32[B]) { %loss = bce_with_logits(%x, "
                "%target) : f32[] return loss=%loss }",
     .doc = "Mean of max(x, 0) - x*target + log(1 + e^-|x|) over all elements: binary "
            "cross-entropy of sigmoid(x), in f32 (f64 "
            "for f64)."},
    {.op = Op::kCrossEntropyGrad,
     .name = "cross_entropy_grad",
     .operands = {4, 4},
     .attrs = kAttrKindOf<CrossEntropyAttrs>,
     .infer = InferCrossEntropyGrad,
     .grad = NotDifferentiable,
     .precision = {Tone::kDeny, Tone::kDeny, TorchCategory::kUnlisted, TorchCategory::kUnlisted,
                   "part of a loss: it reads the logits in the form in which the loss read them"},
     .keeps_f32 = {2, 3},
     .linear = {Linearity::Kind::kEach, {3}},
     .cost = OperandCost<kTranscendentalFlops + 3>,
     .eval = {.run = EvalCrossEntropyGrad, .items = ItemsCrossEntropyGrad},
     .lower = Lower::kRow,
     .example =
         "graph @example(%logits: f16[B, 10], %labels: i32[B], %lse: f32[B], %dloss: f32[]) { "
         "%dlogits = cross_entropy_grad(%logits, %labels, %lse, %dloss) : f16[B, 10] return "
         "%dlogits }",
     .doc = "Gradient of cross_entropy with respect to the logits: dloss / rows * (softmax(logits) "
            "- target), in the logits' dtype."},
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_ROWS_LOSS_H_
