// The row of the op table for fusions.
#ifndef DUOTONE_IR_OP_ROWS_FUSION_H_
#define DUOTONE_IR_OP_ROWS_FUSION_H_

#include <string_view>

#include "base/status.h"
#include "ir/grad.h"
#include "ir/op_util.h"

namespace duotone::ir {

// What `family` may be: the kernel families of design.md section 7 that code is generated for.
inline constexpr std::string_view kFusionFamilies[] = {"pointwise", "row",       "column",
                                                       "matmul",    "optimizer", "scatter"};

// With a body, Graph::Add takes the types from its outputs and never gets here.
inline absl::StatusOr<Types> InferFusion(llvm::ArrayRef<Type>, Attrs&) {
  return InvalidArgument("it needs a body");
}

inline Cost CostFusion(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs&) {
  return {.bytes = BytesMoved(operands, results)};
}

inline constexpr OpDef kFusionRows[] = {
    {.op = Op::kFusion,
     .name = "fusion",
     .operands = {0, kVariadic},
     .attrs = kAttrKindOf<FusionAttrs>,
     .infer = InferFusion,
     .grad = NotDifferentiable,
     .precision = FixedPrecision("made after every dtype is decided"),
     .keeps_f32 = OperandSet::All(),
     .linear = kNonLinear,
     .cost = CostFusion,
     .eval = {},
     .lower = Lower::kFused,
     .example = "graph @example(%x: f32[4]) { %y = fusion(%x) : f32[4] body(%a: f32[4]) { "
                "%n = neg(%a) : f32[4] return %n } return %y }",
     .doc = "One kernel of a device: the results are the outputs of the body, whose inputs are the "
            "operands, by position."},
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_ROWS_FUSION_H_
