// Rows of the op table: matrix products (ir/op_table.cc).
#ifndef DUOTONE_IR_OP_ROWS_MATMUL_H_
#define DUOTONE_IR_OP_ROWS_MATMUL_H_

#include "ir/ops_matmul.h"

namespace duotone::ir {

inline constexpr OpDef kMatMulRows[] = {
    {.op = Op::kMatMul,
     .name = "matmul",
     .operands = {2, 2},
     .attrs = kAttrKindOf<MatMulAttrs>,
     .infer = InferMatMul,
     .grad = GradMatMul,
     .precision = {.f16 = Tone::kAllow,
                   .bf16 = Tone::kAllow,
                   .torch_cuda = TorchCategory::kLower,
                   .torch_cpu = TorchCategory::kLower,
                   .reason = "the work is here, and products are accumulated in f32"},
     .keeps_f32 = {},
     .linear = {Linearity::Kind::kEach, {0, 1}},
     .cost = CostMatMul,
     .eval = {.run = EvalMatMul, .items = ItemsMatMul},
     .lower = Lower::kMatMul,
     .example = "graph @example(%x: f32[B, 4], %w: f32[8, 4]) { %y = matmul(%x, %w), "
                "transpose_b=true : f32[B, 8] "
                "return %y }",
     .doc = "Product over the last axis of the first operand and the second-to-last of the second "
            "(exchanged by "
            "transpose_a, transpose_b), accumulated in f32 (f64 for f64) and rounded once to "
            "`out`; leading axes are a batch, "
            "and an operand of rank 2 is shared by it."},
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_ROWS_MATMUL_H_
