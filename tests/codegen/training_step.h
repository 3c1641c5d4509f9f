// A small training step in f16 with everything that a real one has: casts, dropout, a loss, scaled
// gradients, a guard, an optimizer in place, a loss scale and a random position.
#ifndef DUOTONE_TESTS_CODEGEN_TRAINING_STEP_H_
#define DUOTONE_TESTS_CODEGEN_TRAINING_STEP_H_

#include <string_view>

#include "tests/codegen/run_program.h"

namespace duotone::codegen::cpu {

inline constexpr std::string_view kTrainingStep = R"(
module @mlp {
  param %w: f32[96, 80] = zeros()
  state %m: f32[96, 80] = zeros()
  state %v: f32[96, 80] = zeros()
  state %step: i64[] = zeros()
  state %loss_scale: f32[] = constant(value=1024)
  state %growth_tracker: i32[] = zeros()
  state %rng_position: i64[] = zeros()
  graph @step(%x: f32[70, 96], %y: i32[70]) {
    %x16 = cast(%x), to=f16 : f16[70, 96]
    %w16 = cast(%w), to=f16 : f16[96, 80]
    %h = matmul(%x16, %w16) : f16[70, 80]
    %r = relu(%h) : f16[70, 80]
    %d, %mask = dropout(%r), rate=0.25 : f16[70, 80], bool[70, 80]
    %logits = cast(%d), to=f32 : f32[70, 80]
    %loss, %lse = cross_entropy(%logits, %y) : f32[], f32[70]
    %dlogits = cross_entropy_grad(%logits, %y, %lse, %loss_scale) : f32[70, 80]
    %dh = cast(%dlogits), to=f16 : f16[70, 80]
    %gw = matmul(%x16, %dh), transpose_a=true, out=f32 : f32[96, 80]
    %ok = all_finite(%gw) : bool[]
    %one = constant(), value=1.0 : f32[]
    %inverse = div(%one, %loss_scale) : f32[]
    %inverses = broadcast(%inverse), dims=[] : f32[96, 80]
    %g = mul(%gw, %inverses) : f32[96, 80]
    %lr = learning_rate(%step), base=0.01 : f32[]
    %w.next, %m.next, %v.next = adamw_update(%w, %g, %m, %v, %step, %lr)
        : f32[96, 80], f32[96, 80], f32[96, 80]
    %unit = constant(), value=1 : i64[]
    %step.next = add(%step, %unit) : i64[]
    %scale.next, %tracker.next = update_loss_scale(%loss_scale, %growth_tracker, %ok) : f32[], i32[]
    %rng.next = add(%rng_position, %unit) : i64[]
    %skipped = not(%ok) : bool[]
    update %w = %w.next guard=%ok
    update %m = %m.next guard=%ok
    update %v = %v.next guard=%ok
    update %step = %step.next guard=%ok
    update %loss_scale = %scale.next
    update %growth_tracker = %tracker.next
    update %rng_position = %rng.next
    return loss=%loss, skipped=%skipped
  }
})";

inline ir::ArrayMap TrainingState(const ir::Module& module) {
  ir::ArrayMap state;
  for (const auto& entry : module.state()) state[entry->name] = ir::Array(entry->type);
  state["w"] = RandomArray(state["w"].type(), 3);
  state["loss_scale"].Set(0, 1024);
  return state;
}

}  // namespace duotone::codegen::cpu

#endif  // DUOTONE_TESTS_CODEGEN_TRAINING_STEP_H_
