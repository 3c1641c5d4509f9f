// Rows of the op table: ops without operands.
#ifndef DUOTONE_IR_OP_ROWS_SOURCE_H_
#define DUOTONE_IR_OP_ROWS_SOURCE_H_

#include "ir/grad.h"
#include "ir/op_util.h"
#include "ir/ops_source.h"

namespace duotone::ir {

inline constexpr OpDef kSourceRows[] = {
    {.op = Op::kInput,
     .name = "input",
     .operands = {0, 0},
     .attrs = kAttrKindOf<NoAttrs>,
     .infer = InferDeclared,
     .grad = StopsGradient,
     .precision = FixedPrecision("the user declares its type"),
     .cost = NoCost,
     .lower = Lower::kSource,
     .doc = "A value fed to the graph: `graph @g(%x: f32[B, 4])`."},
    {.op = Op::kState,
     .name = "state",
     .operands = {0, 0},
     .attrs = kAttrKindOf<NoAttrs>,
     .infer = InferDeclared,
     .grad = StopsGradient,
     .precision = FixedPrecision("the state table declares its type"),
     .cost = NoCost,
     .lower = Lower::kSource,
     .doc = "The value of a state entry before the step; it is read by the entry's name."},
    {.op = Op::kConstant,
     .name = "constant",
     .operands = {0, 0},
     .attrs = kAttrKindOf<ConstantAttrs>,
     .infer = InferConstant,
     .grad = StopsGradient,
     .precision = FixedPrecision("its type is part of what it says; readers cast it"),
     .cost = ElementwiseCost<0>,
     .eval = {RunConstant, ElementBlocks, nullptr},
     .lower = Lower::kElementwise,
     .example = "graph @example() { %y = constant(), value=0.5 : f32[2, 3] return %y }",
     .doc = "One number for all elements, or one number per element in row-major order, rounded "
            "once to "
            "the type."},
    {.op = Op::kIota,
     .name = "iota",
     .operands = {0, 0},
     .attrs = kAttrKindOf<IotaAttrs>,
     .infer = InferIota,
     .grad = StopsGradient,
     .precision = FixedPrecision("counts beyond 2048 (f16) or 256 (bf16) would be rounded"),
     .cost = ElementwiseCost<1>,
     .eval = {RunIota, ElementBlocks, nullptr},
     .lower = Lower::kElementwise,
     .example = "graph @example() { %y = iota(), axis=1 : i32[2, 3] return %y }",
     .doc = "The index along an axis: 0, 1, 2, ..., the same for all other axes."},
    {.op = Op::kSizeOf,
     .name = "size_of",
     .operands = {0, 0},
     .attrs = kAttrKindOf<SizeOfAttrs>,
     .infer = InferSizeOf,
     .grad = StopsGradient,
     .precision = FixedPrecision("an integer"),
     .cost = ElementwiseCost<0>,
     .eval = {RunSizeOf, nullptr, nullptr},
     .lower = Lower::kElementwise,
     .example = "graph @example(%x: f32[B, 4]) { %n = size_of(), size=4*B : i64[] return %n }",
     .doc = "The number behind a size, known when the graph's named sizes are bound."},
    {.op = Op::kRandomUniform,
     .name = "random_uniform",
     .operands = {0, 0},
     .attrs = kAttrKindOf<UniformAttrs>,
     .infer = InferRandomUniform,
     .grad = StopsGradient,
     .precision = FixedPrecision("drawn in f32 and rounded to the type the user asked for"),
     .cost = ElementwiseCost<20>,
     .eval = {RunRandomUniform, ElementBlocks, nullptr},
     .lower = Lower::kRandom,
     .example = "graph @example() { %y = random_uniform(), low=-1.0 : f32[4] return %y }",
     .doc = "Uniform numbers on [low, high) in steps of 2^-24 of the range, keyed by seed, step, "
            "micro-batch, node id and element."},
    {.op = Op::kRandomNormal,
     .name = "random_normal",
     .operands = {0, 0},
     .attrs = kAttrKindOf<NormalAttrs>,
     .infer = InferRandomNormal,
     .grad = StopsGradient,
     .precision = FixedPrecision("drawn in f32 and rounded to the type the user asked for"),
     .cost = ElementwiseCost<40>,
     .eval = {RunRandomNormal, ElementBlocks, nullptr},
     .lower = Lower::kRandom,
     .example = "graph @example() { %y = random_normal(), stddev=0.02 : f32[4] return %y }",
     .doc = "Normal numbers by Box and Muller's formula (base/philox.h), keyed like "
            "random_uniform's."},
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_ROWS_SOURCE_H_
