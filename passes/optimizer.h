// Turns the gradients of @step into updates of the parameters.
//
//   before  return loss=%loss, grad:w=%g, guard:opt=%step_ok
//   after   %opt.step.next = %opt.step + 1
//           %lr = learning_rate(...)
//           %w.next, %w.m.next, %w.v.next = adamw_update(%w, %g, %opt.m.w, %opt.v.w, ...)
//           update %w = %w.next guard=%step_ok ; update %opt.m.w = ... ; update %opt.step = ...
//           return loss=%loss, lr=%lr
//
// One step counter per optimizer, <name>.step (i64[]), counts the updates applied: bias corrections
// and the learning-rate schedule follow it, so neither advances on a skipped step. Moments are
// <name>.m.<param> and <name>.v.<param> (Adam, AdamW), <name>.momentum.<param> (SGD with momentum),
// zeros at first. Every update has the optimizer's guard, if loss-scale has made one. The output lr
// is the rate of this step; with several optimizers also lr:<name>, and lr is the first one's.
//
// A 16-bit parameter is refused: 1 + 1e-4 is 1 in f16 and 1 + 2e-3 is 1 in bf16, so it would stop
// moving. A parameter without an optimizer keeps its value.
//
// Needs: loss-scale (updates take unscaled, guarded gradients). Leaves alone: other graphs than
// @step, and a @step without grad: outputs or with these optimizers' updates.
#ifndef DUOTONE_PASSES_OPTIMIZER_H_
#define DUOTONE_PASSES_OPTIMIZER_H_

#include <string_view>
#include <vector>

#include "passes/options.h"
#include "passes/pass.h"

namespace duotone::passes {

class Optimizer final : public Pass {
 public:
  explicit Optimizer(const PassOptions& options)
      : optimizers_(options.optimizers), keep_gradients_(options.keep_gradients) {}

  std::string_view name() const override { return "optimizer"; }
  absl::StatusOr<bool> Run(ir::Module& module, PassContext& ctx) const override;

 private:
  std::vector<OptimizerOptions> optimizers_;
  bool keep_gradients_;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_OPTIMIZER_H_
