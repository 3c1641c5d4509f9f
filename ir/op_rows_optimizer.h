// Rows of the op table: optimizers, loss scale, learning rate (ir/op_table.cc).
#ifndef DUOTONE_IR_OP_ROWS_OPTIMIZER_H_
#define DUOTONE_IR_OP_ROWS_OPTIMIZER_H_

#include "ir/eval_blocks.h"
#include "ir/grad.h"
#include "ir/op_util.h"
#include "ir/ops_optimizer.h"

namespace duotone::ir {

inline constexpr OpDef kOptimizerRows[] = {
    {.op = Op::kSgdUpdate,
     .name = "sgd_update",
     .operands = {3, 4},
     .attrs = kAttrKindOf<SgdAttrs>,
     .infer = InferSgd,
     .grad = NotDifferentiable,
     .precision =
         FixedPrecision("parameters and momentum are f32; 16-bit gradients are read as they are"),
     .keeps_f32 = OperandSet::All(),
     .linear = kNonLinear,
     .cost = ElementwiseCost<6>,
     .eval = {.run = EvalSgd, .items = ElementBlocks},
     .lower = Lower::kOptimizer,
     .example = "graph @example(%w: f32[4], %g: f16[4], %lr: f32[], %buf: f32[4]) { "
                "%w1, %buf1 = sgd_update(%w, %g, %lr, %buf), momentum=0.9 : f32[4], f32[4] return "
                "w=%w1, buf=%buf1 }",
     .doc = "d = g + weight_decay*w; with momentum, buf' = momentum*buf + d and d = buf' "
            "(Nesterov: d + momentum*buf'); w' = w - "
            "lr*d."},
    {.op = Op::kAdamUpdate,
     .name = "adam_update",
     .operands = {6, 6},
     .attrs = kAttrKindOf<AdamAttrs>,
     .infer = InferAdam,
     .grad = NotDifferentiable,
     .precision = FixedPrecision("parameters and moments are f32: eps=1e-8 is 0 in f16"),
     .keeps_f32 = OperandSet::All(),
     .linear = kNonLinear,
     .cost = ElementwiseCost<15>,
     .eval = {.run = EvalAdam, .items = ElementBlocks},
     .lower = Lower::kOptimizer,
     .example = "graph @example(%w: f32[4], %g: f32[4], %m: f32[4], %v: f32[4], %step: i64[], %lr: "
                "f32[]) { "
                "%w1, %m1, %v1 = adam_update(%w, %g, %m, %v, %step, %lr) : f32[4], f32[4], f32[4] "
                "return w=%w1, m=%m1, v=%v1 }",
     .doc = "Adam with the weight decay added to the gradient: m' = m + (1-beta1)*(g-m), v' = "
            "beta2*v + (1-beta2)*g^2, "
            "w' = w - lr/(1-beta1^step) * m' / (sqrt(v')/sqrt(1-beta2^step) + eps); step counts "
            "this update."},
    {.op = Op::kAdamWUpdate,
     .name = "adamw_update",
     .operands = {6, 6},
     .attrs = kAttrKindOf<AdamAttrs>,
     .infer = InferAdam,
     .grad = NotDifferentiable,
     .precision = FixedPrecision("parameters and moments are f32: eps=1e-8 is 0 in f16"),
     .keeps_f32 = OperandSet::All(),
     .linear = kNonLinear,
     .cost = ElementwiseCost<15>,
     .eval = {.run = EvalAdamW, .items = ElementBlocks},
     .lower = Lower::kOptimizer,
     .example = "graph @example(%w: f32[4], %g: f32[4], %m: f32[4], %v: f32[4], %step: i64[], %lr: "
                "f32[]) { "
                "%w1, %m1, %v1 = adamw_update(%w, %g, %m, %v, %step, %lr), weight_decay=0.01 : "
                "f32[4], f32[4], f32[4] "
                "return w=%w1, m=%m1, v=%v1 }",
     .doc = "adam_update with decoupled weight decay: w is multiplied by 1 - lr*weight_decay, the "
            "gradient is left alone."},
    {.op = Op::kUpdateLossScale,
     .name = "update_loss_scale",
     .operands = {3, 3},
     .attrs = kAttrKindOf<LossScaleAttrs>,
     .infer = InferUpdateLossScale,
     .grad = NotDifferentiable,
     .precision = FixedPrecision("65536 has no f16"),
     .keeps_f32 = OperandSet::All(),
     .linear = kNonLinear,
     .cost = ElementwiseCost<2>,
     .eval = {.run = EvalUpdateLossScale},
     .lower = Lower::kHost,
     .example = "graph @example(%scale: f32[], %tracker: i32[], %ok: bool[]) { "
                "%scale1, %tracker1 = update_loss_scale(%scale, %tracker, %ok) : f32[], i32[] "
                "return scale=%scale1, tracker=%tracker1 }",
     .doc = "GradScaler's arithmetic: backs off where not ok, grows after growth_interval clean "
            "steps, then keeps the scale in "
            "[min_scale, max_scale]."},
    {.op = Op::kLearningRate,
     .name = "learning_rate",
     .operands = {1, 1},
     .attrs = kAttrKindOf<ScheduleAttrs>,
     .infer = InferLearningRate,
     .grad = NotDifferentiable,
     .precision = FixedPrecision("a number for the optimizers, in f32"),
     .keeps_f32 = OperandSet::All(),
     .linear = kNonLinear,
     .cost = ElementwiseCost<10>,
     .eval = {.run = EvalLearningRate},
     .lower = Lower::kHost,
     .example = "graph @example(%step: i64[]) { %lr = learning_rate(%step), schedule=\"cosine\", "
                "base=0.01, "
                "warmup_steps=10, total_steps=100 : f32[] return lr=%lr }",
     .doc = "The rate after `step` updates: base*(step+1)/warmup_steps during warm-up, then "
            "constant, or linear or a half cosine "
            "from base to final at total_steps, then final."},
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_ROWS_OPTIMIZER_H_
