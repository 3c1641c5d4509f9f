// Rows of the op table: gather, scatter and dropout (ir/op_table.cc).
#ifndef DUOTONE_IR_OP_ROWS_GATHER_H_
#define DUOTONE_IR_OP_ROWS_GATHER_H_

#include "ir/eval_blocks.h"
#include "ir/op_util.h"
#include "ir/ops_gather.h"

namespace duotone::ir {

inline constexpr OpDef kGatherRows[] = {
    {.op = Op::kGather,
     .name = "gather",
     .operands = {2, 2},
     .attrs = kAttrKindOf<NoAttrs>,
     .infer = InferGather,
     .grad = GradGather,
     .precision = ClearPrecision("copies rows"),
     .keeps_f32 = {},
     .linear = {Linearity::Kind::kEach, {0}},
     .cost = CostGather,
     .eval = {.run = EvalGather, .items = ItemsGather},
     .lower = Lower::kGather,
     .example = "graph @example(%table: f32[100, 8], %indices: i32[B]) { %y = gather(%table, "
                "%indices) : f32[B, 8] return %y }",
     .doc = "Rows of `table` [V, D...] by index: [..] gives [.., D...]. An index outside [0, V) is "
            "an error of the run and gives "
            "zeros."},
    {.op = Op::kScatterAdd,
     .name = "scatter_add",
     .operands = {3, 3},
     .attrs = kAttrKindOf<NoAttrs>,
     .infer = InferScatterAdd,
     .grad = GradScatterAdd,
     .precision = {Tone::kClear, Tone::kClear, TorchCategory::kPromote, TorchCategory::kUnlisted,
                   "accumulates in f32 and adds 16-bit updates to an f32 base as they are"},
     .keeps_f32 = {0},
     .linear = {Linearity::Kind::kJoint, {0, 2}},
     .cost = CostScatterAdd,
     .eval = {.run = EvalScatterAdd, .items = ItemsScatterAdd, .scratch_bytes = ScratchScatterAdd},
     .lower = Lower::kGather,
     .example = "graph @example(%base: f32[100, 8], %indices: i32[B], %updates: f16[B, 8]) { "
                "%y = scatter_add(%base, %indices, %updates) : f32[100, 8] return %y }",
     .doc = "`base` [V, D...] plus each row of `updates` [.., D...] at its index [..], in the "
            "order of the indices, accumulated in "
            "f32 (f64 for f64). An index outside [0, V) is an error of the run and adds nothing."},
    {.op = Op::kDropout,
     .name = "dropout",
     .operands = {1, 1},
     .attrs = kAttrKindOf<DropoutAttrs>,
     .infer = InferDropout,
     .grad = GradDropout,
     .precision = ClearPrecision("a mask and a factor of modest size"),
     .keeps_f32 = {},
     .linear = {Linearity::Kind::kEach, {0}},
     .cost = ElementwiseCost<2>,
     .eval = {.run = EvalDropout, .items = ElementBlocks},
     .lower = Lower::kRandom,
     .example = "graph @example(%x: f32[B, 8]) { %y, %mask = dropout(%x), rate=0.1 : f32[B, 8], "
                "bool[B, 8] return %y }",
     .doc = "x / (1 - rate) where 32 random bits are at least floor(rate * 2^32), else 0; the mask "
            "of kept elements is the second "
            "result. The bits are a function of seed, step, micro-batch, node id and element."},
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_ROWS_GATHER_H_
