// Expands `gradient(y, xs)` nodes into the backward graph (reverse mode).
//
//   before  %h = tanh(%x) ; %loss = reduce_sum(%h), axes=[0] ; %dx = gradient(%loss, %x)
//   after   %h = tanh(%x) ; %loss = ... ; %seed = gradient_seed() ;
//           %h.grad = broadcast(%seed) ; ... ; %x.grad = mul(%h.grad, 1 - h*h)
//
// Gradient nodes are expanded in the graph's order, so one whose y depends on another's result
// differentiates ordinary nodes. Only nodes on a path from an x to y are visited; a path ends at a
// value that is no floating-point number and at stop_gradient. If y is x itself the gradient is the
// seed, which has the value 1 and is f32 (f64 for f64). An x that y does not depend on gets zeros
// and a warning.
//
// Precision. A gradient is stored in the dtype of its value. Contributions of several uses are
// summed in f32 (f64 for f64) and rounded once. A cast from f32 that autocast inserted is no
// rounding of the gradient: what arrives there is summed in f32 and goes on as f32, so a weight's
// gradient reaches its fp32 master unrounded, also when the weight is used twice through one cast.
// Casts of the user round.
//
// Names and origin. The gradient of %h is %h.grad; backward nodes carry forward=, and the scope,
// place, dtype origin and precision region of their forward node.
//
// Saved values are the forward values that backward nodes read; ctx.stats() counts them
// (saved_values) and, where shapes are static, their bytes (saved_bytes).
//
// Needs: the coloured forward graph (autocast), since gradients inherit its dtypes.
#ifndef DUOTONE_PASSES_AUTODIFF_H_
#define DUOTONE_PASSES_AUTODIFF_H_

#include <string_view>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "passes/pass.h"

namespace duotone::passes {

class Autodiff final : public GraphPass {
 public:
  std::string_view name() const override { return "autodiff"; }
  absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext& ctx) const override;
};

// For each x: does a path that derivatives follow lead from it to one of `ys`?
std::vector<bool> HasDifferentiablePath(const ir::Graph& graph, llvm::ArrayRef<ir::Value> ys,
                                        llvm::ArrayRef<ir::Value> xs);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_AUTODIFF_H_
