// Scales the gradients of @step, unscales them where true values are needed, and decides on the
// device whether the step counts. Nothing is read by the host.
//
//   before  %seed = gradient_seed() ; ... %w.grad = reduce_sum(...)
//           return loss=%loss, grad:w=%w.grad
//   after   %scaled_seed = mul(%seed, %loss_scale) ; ... %w.grad = reduce_sum(...)
//           %w.grad.unscaled = mul(%w.grad, 1 / %loss_scale)
//           %all_finite = all_finite(%w.grad) ; %step_ok = and(%all_finite, %scale_usable)
//           update %loss_scale, %growth_tracker, %skipped_steps, %consecutive_skips
//           return loss=%loss, grad:w=%w.grad.unscaled, guard:<opt>=%step_ok,
//                  loss_scale=%loss_scale, skipped=..., scale_unusable=...,
//                  skipped_steps=..., consecutive_skips=...
//
// Where the scale is. Every gradient seed of the step is multiplied, in f32: those of the loss and
// of gradient() nodes that the user wrote. passes/scale_exponents.h follows the scale through the
// graph; where a scaled value meets a non-linear op, a sum with unscaled terms, an output or a
// state update, it is unscaled once: cast to f32, multiplied by the reciprocal, rounded back to its
// dtype. So clipping, gradient penalties and logged norms see true gradients. The result is proved
// by CheckScaleExponents.
//
// Finiteness is tested on the scaled gradient, before the multiplication. Each optimizer has a test
// of its own gradients and with it its own guard, the output guard:<name>, so that one may step
// while another skips. The one scale backs off if any test fails. A gradient that was unscaled
// early (for clipping) also counts the scaled values it was computed from, which clipping could
// hide.
//
// Guards. guard = gradients finite and the scale usable: its reciprocal is finite and positive,
// which excludes 0, negative numbers, Inf, NaN, and scales so small or large that one of the two
// vanishes. State updates written in the forward graph get the guard of all tests (in addition to
// their own); to escape it is reserved to rng_position.
//
// Outputs: loss_scale (the one used in this step; 1 where scaling is off), skipped (some update was
// skipped; with several optimizers also skipped:<name>), skipped_steps and consecutive_skips
// (counted up to this step), scale_unusable (the run must end: no later step can count).
//
// Kinds: dynamic (scale and tracker by update_loss_scale, GradScaler's arithmetic), static, off.
// With skip_nonfinite the guard includes finiteness also where the kind is static or off; dynamic
// always does.
//
// Needs: autodiff. Leaves alone: other graphs than @step, and a @step that has the output
// `skipped`.
#ifndef DUOTONE_PASSES_LOSS_SCALE_H_
#define DUOTONE_PASSES_LOSS_SCALE_H_

#include <string_view>
#include <vector>

#include "passes/options.h"
#include "passes/pass.h"

namespace duotone::passes {

class LossScale final : public Pass {
 public:
  explicit LossScale(const PassOptions& options)
      : options_(options.loss_scale), optimizers_(options.optimizers) {}

  std::string_view name() const override { return "loss-scale"; }
  absl::StatusOr<bool> Run(ir::Module& module, PassContext& ctx) const override;

 private:
  LossScaleOptions options_;
  std::vector<OptimizerOptions> optimizers_;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_LOSS_SCALE_H_
