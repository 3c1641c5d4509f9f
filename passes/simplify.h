// Makes a graph smaller without changing what it computes: constants are folded, identities
// removed, and composites recognised that autocast and the kernels treat better than their parts.
//
//   before  %one = constant(), value=1.0 : f32[4]
//           %h = mul(%x, %one) : f32[4]
//           %y = reshape(%h) : f32[2, 2]
//           %z = reshape(%y) : f32[4]
//   after   (every reader of %z reads %x)
//
// Three tables of rules, one row per rule (simplify_rules.h).
//
// Identities give the same bits for all values, NaN, Inf and -0 included (the bits of a NaN apart).
// So add(x, 0) stays: it turns -0 into 0; and mul(x, 0) stays: it is NaN for an infinite x.
//
// Constants: ops on constants are evaluated by the reference evaluation, up to 4096 elements; a
// splat (one number for all elements) of any size stays a splat. Casts that autocast made are left
// to fold-casts.
//
// Composites are the same function of the real numbers: softmax, log_softmax and logsumexp written
// with exp, and binary cross-entropy of a sigmoid. Where only the written form overflows or
// saturates (an exp above f32's range, a probability rounded to 1), the composite gives the
// function's true value. A NaN or Inf in the operand reaches the result of either form.
#ifndef DUOTONE_PASSES_SIMPLIFY_H_
#define DUOTONE_PASSES_SIMPLIFY_H_

#include "passes/pass.h"

namespace duotone::passes {

class Simplify final : public GraphPass {
 public:
  std::string_view name() const override { return "simplify"; }
  absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext& ctx) const override;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_SIMPLIFY_H_
