// Rows of the op table: reductions (ir/op_table.cc).
#ifndef DUOTONE_IR_OP_ROWS_REDUCE_H_
#define DUOTONE_IR_OP_ROWS_REDUCE_H_

#include "ir/grad.h"
#include "ir/ops_reduce.h"

namespace duotone::ir {

inline constexpr OpDef kReduceRows[] = {
    {.op = Op::kReduceSum,
     .name = "reduce_sum",
     .operands = {1, 1},
     .attrs = kAttrKindOf<ReduceAttrs>,
     .infer = InferReduceSum,
     .grad = GradReduceSum,
     .precision = {.f16 = Tone::kDeny,
                   .bf16 = Tone::kInfer,
                   .torch_cuda = TorchCategory::kFp32SetOptDType,
                   .torch_cpu = TorchCategory::kUnlisted,
                   .reason =
                       "a sum can leave f16's range: 4096 elements of 100 make 409600. Sums that a "
                       "gradient makes name their result dtype with out= and are left alone"},
     .keeps_f32 = {},
     .linear = {Linearity::Kind::kJoint, {0}},
     .cost = CostReduce,
     .eval = {.run = EvalReduceSum, .items = ItemsReduce},
     .lower = Lower::kReduce,
     .example = "graph @example(%x: f32[8, 4]) { %y = reduce_sum(%x), axes=[1], keep_dims=true : "
                "f32[8, 1] return %y }",
     .doc = "Sum over `axes`, accumulated in f32 (f64 for f64, i64 for integers) and rounded once "
            "to `out`; 0 over no elements."},
    {.op = Op::kReduceMean,
     .name = "reduce_mean",
     .operands = {1, 1},
     .attrs = kAttrKindOf<ReduceAttrs>,
     .infer = InferReduceMean,
     .grad = GradReduceMean,
     .precision =
         {.f16 = Tone::kDeny,
          .bf16 = Tone::kInfer,
          .torch_cuda = TorchCategory::kUnlisted,
          .torch_cpu = TorchCategory::kUnlisted,
          .reason =
              "a mean loses small terms and its gradient, divided by the count, underflows in f16"},
     .keeps_f32 = {},
     .linear = {Linearity::Kind::kJoint, {0}},
     .cost = CostReduce,
     .eval = {.run = EvalReduceMean, .items = ItemsReduce},
     .lower = Lower::kReduce,
     .example =
         "graph @example(%x: f32[B, 4]) { %y = reduce_mean(%x), axes=[0, 1] : f32[] return %y }",
     .doc = "Mean over `axes`: the sum in f32 (f64 for f64) divided by the number of elements, "
            "rounded once to `out`; NaN over no elements."},
    {.op = Op::kReduceMax,
     .name = "reduce_max",
     .operands = {1, 1},
     .attrs = kAttrKindOf<ReduceAttrs>,
     .infer = InferReduceMaxMin,
     .grad = GradReduceMaxMin,
     .precision = {.f16 = Tone::kClear,
                   .bf16 = Tone::kClear,
                   .torch_cuda = TorchCategory::kUnlisted,
                   .torch_cpu = TorchCategory::kUnlisted,
                   .reason = "the result is one of the operand's elements"},
     .keeps_f32 = {},
     .linear = kNonLinear,
     .cost = CostReduce,
     .eval = {.run = EvalReduceMax, .items = ItemsReduce},
     .lower = Lower::kReduce,
     .example =
         "graph @example(%x: f32[8, 4]) { %y = reduce_max(%x), axes=[0] : f32[4] return %y }",
     .doc = "Greatest element over `axes`; NaN if one is NaN; -inf (integers: the least value) "
            "over no elements. Ties share the gradient equally."},
    {.op = Op::kReduceMin,
     .name = "reduce_min",
     .operands = {1, 1},
     .attrs = kAttrKindOf<ReduceAttrs>,
     .infer = InferReduceMaxMin,
     .grad = GradReduceMaxMin,
     .precision = {.f16 = Tone::kClear,
                   .bf16 = Tone::kClear,
                   .torch_cuda = TorchCategory::kUnlisted,
                   .torch_cpu = TorchCategory::kUnlisted,
                   .reason = "the result is one of the operand's elements"},
     .keeps_f32 = {},
     .linear = kNonLinear,
     .cost = CostReduce,
     .eval = {.run = EvalReduceMin, .items = ItemsReduce},
     .lower = Lower::kReduce,
     .example =
         "graph @example(%x: f32[8, 4]) { %y = reduce_min(%x), axes=[0] : f32[4] return %y }",
     .doc = "Least element over `axes`; NaN if one is NaN; +inf (integers: the greatest value) "
            "over no elements. Ties share the gradient equally."},
    {.op = Op::kArgMax,
     .name = "argmax",
     .operands = {1, 1},
     .attrs = kAttrKindOf<AxisAttrs>,
     .infer = InferArgMax,
     .grad = StopsGradient,
     .precision = {.f16 = Tone::kClear,
                   .bf16 = Tone::kClear,
                   .torch_cuda = TorchCategory::kUnlisted,
                   .torch_cpu = TorchCategory::kUnlisted,
                   .reason = "rounding keeps the order; elements that become equal are a tie"},
     .keeps_f32 = {},
     .linear = kNonLinear,
     .cost = CostReduce,
     .eval = {.run = EvalArgMax, .items = ItemsArgMax},
     .lower = Lower::kReduce,
     .example = "graph @example(%x: f32[8, 4]) { %y = argmax(%x), axis=1 : i32[8] return %y }",
     .doc = "Index of the first greatest element along `axis`, which is removed; NaN counts as the "
            "greatest."},
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_ROWS_REDUCE_H_
