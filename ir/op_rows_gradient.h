// Rows of the op table: differentiation and the test of gradients for finiteness.
#ifndef DUOTONE_IR_OP_ROWS_GRADIENT_H_
#define DUOTONE_IR_OP_ROWS_GRADIENT_H_

#include "ir/grad.h"
#include "ir/op_util.h"
#include "ir/ops_gradient.h"

namespace duotone::ir {

inline constexpr OpDef kGradientRows[] = {
    {.op = Op::kAllFinite,
     .name = "all_finite",
     .operands = {1, kVariadic},
     .attrs = kAttrKindOf<NoAttrs>,
     .infer = InferAllFinite,
     .grad = StopsGradient,
     .precision = FixedPrecision("observes the stored values"),
     .cost = AllFiniteCost,
     .eval = {RunAllFinite, nullptr, nullptr},
     .lower = Lower::kReduce,
     .example = "graph @example(%a: f32[4], %b: f16[2, 3]) { %ok = all_finite(%a, %b) : bool[] "
                "return %ok }",
     .doc = "True if no element of any operand is infinite or NaN; an operand bool[] is the result "
            "of an earlier test and counts as it stands."},
    {.op = Op::kGradient,
     .name = "gradient",
     .operands = {2, kVariadic},
     .attrs = kAttrKindOf<NoAttrs>,
     .infer = InferGradient,
     .grad = NotDifferentiable,
     .precision = FixedPrecision("expanded by autodiff, which follows the forward nodes' types"),
     .cost = NoCost,
     .lower = Lower::kExpanded,
     .example = "graph @example(%x: f32[], %w: f32[]) { %y = mul(%x, %w) : f32[] "
                "%dx, %dw = gradient(%y, %x, %w) : f32[], f32[] return dx=%dx, dw=%dw }",
     .doc = "The gradients of a scalar, the first operand, with respect to the others; nested ones "
            "expand "
            "innermost first."},
    {.op = Op::kGradientSeed,
     .name = "gradient_seed",
     .operands = {0, 0},
     .attrs = kAttrKindOf<NoAttrs>,
     .infer = InferGradientSeed,
     .grad = StopsGradient,
     .precision = FixedPrecision("1 in f32, and the place where the loss scale comes in"),
     .cost = ElementwiseCost<0>,
     .eval = {RunGradientSeed, nullptr, nullptr},
     .lower = Lower::kElementwise,
     .example = "graph @example() { %seed = gradient_seed() : f32[] return %seed }",
     .doc = "The number 1 from which back-propagation starts; loss scaling multiplies it."},
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_ROWS_GRADIENT_H_
