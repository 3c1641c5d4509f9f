// Rows of the op table: data movement.
#ifndef DUOTONE_IR_OP_ROWS_VIEW_H_
#define DUOTONE_IR_OP_ROWS_VIEW_H_

#include "ir/grad.h"
#include "ir/op_util.h"
#include "ir/ops_view.h"

namespace duotone::ir {

inline constexpr OpDef kViewRows[] = {
    {.op = Op::kReshape,
     .name = "reshape",
     .operands = {1, 1},
     .attrs = kAttrKindOf<ReshapeAttrs>,
     .infer = InferReshape,
     .grad = GradReshape,
     .precision = ClearPrecision("moves values without changing them"),
     .linear = {Linearity::Kind::kJoint, {0}},
     .cost = ElementwiseCost<0>,
     .eval = {RunCopy, ElementBlocks, nullptr},
     .lower = Lower::kView,
     .example = "graph @example(%x: f32[B, 4]) { %y = reshape(%x) : f32[4*B] return %y }",
     .doc = "The same elements in row-major order under another shape with as many elements.",
     .keeps_bytes = true},
    {.op = Op::kTranspose,
     .name = "transpose",
     .operands = {1, 1},
     .attrs = kAttrKindOf<TransposeAttrs>,
     .infer = InferTranspose,
     .grad = GradTranspose,
     .precision = ClearPrecision("moves values without changing them"),
     .linear = {Linearity::Kind::kJoint, {0}},
     .cost = ElementwiseCost<0>,
     .eval = {RunTranspose, ElementBlocks, nullptr},
     .lower = Lower::kView,
     .example =
         "graph @example(%x: f32[2, 3, B]) { %y = transpose(%x), perm=[2, 0, 1] : f32[B, 2, 3] "
         "return %y }",
     .doc = "Axis i of the result is axis perm[i] of the operand."},
    {.op = Op::kBroadcast,
     .name = "broadcast",
     .operands = {1, 1},
     .attrs = kAttrKindOf<BroadcastAttrs>,
     .infer = InferBroadcast,
     .grad = GradBroadcast,
     .precision = ClearPrecision("repeats values without changing them"),
     .linear = {Linearity::Kind::kJoint, {0}},
     .cost = ElementwiseCost<0>,
     .eval = {RunBroadcast, ElementBlocks, nullptr},
     .lower = Lower::kView,
     .example = "graph @example(%x: f32[3]) { %y = broadcast(%x), dims=[1] : f32[2, 3] return %y }",
     .doc = "Axis i of the operand becomes axis dims[i] of the result, repeated if its size is 1; "
            "the other "
            "axes of the result repeat the operand."},
    {.op = Op::kSlice,
     .name = "slice",
     .operands = {1, 1},
     .attrs = kAttrKindOf<SliceAttrs>,
     .infer = InferSlice,
     .grad = GradSlice,
     .precision = ClearPrecision("moves values without changing them"),
     .linear = {Linearity::Kind::kJoint, {0}},
     .cost = ElementwiseCost<0>,
     .eval = {RunSlice, ElementBlocks, nullptr},
     .lower = Lower::kView,
     .example = "graph @example(%x: f32[7, B]) { %y = slice(%x), starts=[1, 0], limits=[6, B], "
                "strides=[2, 1] : f32[3, B] return %y }",
     .doc =
         "Elements starts[i], starts[i] + strides[i], ... below limits[i] of each axis; an axis of "
         "named size can only be taken whole."},
    {.op = Op::kPad,
     .name = "pad",
     .operands = {1, 1},
     .attrs = kAttrKindOf<PadAttrs>,
     .infer = InferPad,
     .grad = GradPad,
     .precision = ClearPrecision("moves values without changing them; the padding is rounded once"),
     .linear = {Linearity::Kind::kJoint, {0}},
     .linear_if = PadsWithZero,
     .cost = ElementwiseCost<0>,
     .eval = {RunPad, ElementBlocks, nullptr},
     .lower = Lower::kView,
     .example =
         "graph @example(%x: f32[2, 3]) { %y = pad(%x), low=[1, 0], high=[0, 2], interior=[0, 1] : "
         "f32[3, 7] return %y }",
     .doc = "`value` low[i] times before and high[i] times after each axis, and interior[i] times "
            "between "
            "neighbours."},
    {.op = Op::kConcat,
     .name = "concat",
     .operands = {1, kVariadic},
     .attrs = kAttrKindOf<AxisAttrs>,
     .infer = InferConcat,
     .grad = GradConcat,
     .precision = {Tone::kClear, Tone::kClear, TorchCategory::kUnlisted, TorchCategory::kPromote,
                   "moves values without changing them"},
     .linear = {Linearity::Kind::kJoint, OperandSet::All()},
     .cost = ElementwiseCost<0>,
     .eval = {RunConcat, ElementBlocks, nullptr},
     .lower = Lower::kView,
     .example =
         "graph @example(%a: f32[2, 3], %b: f32[2, 1]) { %y = concat(%a, %b), axis=1 : f32[2, 4] "
         "return %y }",
     .doc = "The operands one after another along an axis, whose sizes must be numbers."},
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_ROWS_VIEW_H_
