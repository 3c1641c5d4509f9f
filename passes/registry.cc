#include "passes/registry.h"

#include "passes/autocast.h"
#include "passes/autodiff.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/fold_casts.h"
#include "passes/fuse.h"
#include "passes/loss_scale.h"
#include "passes/optimizer.h"
#include "passes/simplify.h"
#include "passes/sink_casts.h"
#include "passes/train_step.h"
#include "passes/weight_copies.h"

namespace duotone::passes {
namespace {

// A pass without options.
template <typename P>
std::unique_ptr<Pass> Make(const PassOptions&) {
  return std::make_unique<P>();
}

// A pass that picks its part of the options.
template <typename P>
std::unique_ptr<Pass> MakeFrom(const PassOptions& options) {
  return std::make_unique<P>(options);
}

std::unique_ptr<Pass> MakeAutocast(const PassOptions& options) {
  return std::make_unique<Autocast>(options.autocast);
}

constexpr PassInfo kPasses[] = {
    {.name = "autocast",
     .doc = "Decides for every node between a 16-bit type and f32, and inserts the casts.",
     .options = "dtype=f16",
     .before = R"(graph @g(%x: f32[8, 8], %w: f32[8, 8]) {
  %h = matmul(%x, %w) : f32[8, 8]
  %y = relu(%h) : f32[8, 8]
  %z = matmul(%y, %w) : f32[8, 8]
  return %z
})",
     .after = R"(graph @g(%x: f32[8, 8], %w: f32[8, 8]) {
  %x.f16 = cast(%x), to=f16 : f16[8, 8] {origin="autocast:allow"}
  %w.f16 = cast(%w), to=f16 : f16[8, 8] {origin="autocast:allow"}
  %h = matmul(%x.f16, %w.f16) : f16[8, 8] {origin="autocast:allow"}
  %y = relu(%h) : f16[8, 8] {origin="autocast:between"}
  %z = matmul(%y, %w.f16), out=f32 : f32[8, 8] {origin="autocast:allow"}
  return %z
})",
     .make = MakeAutocast},
    {.name = "autodiff",
     .doc = "Expands gradient nodes into the backward graph; each backward node inherits the "
            "precision of its forward node.",
     .before = R"(graph @g(%x: f32[], %w: f32[]) {
  %loss = mul(%x, %w) : f32[]
  %dw = gradient(%loss, %w) : f32[]
  return loss=%loss, dw=%dw
})",
     .after = R"(graph @g(%x: f32[], %w: f32[]) {
  %loss = mul(%x, %w) : f32[]
  %loss.grad = gradient_seed() : f32[] {forward="loss"}
  %w.grad = mul(%loss.grad, %x) : f32[] {forward="loss"}
  return loss=%loss, dw=%w.grad
})",
     .make = Make<Autodiff>},
    {.name = "cse",
     .doc = "Merges nodes that compute the same, except random ones; the earlier node stays.",
     .before = R"(graph @g(%x: f32[4]) {
  %a = cast(%x), to=f16 : f16[4]
  %b = cast(%x), to=f16 : f16[4]
  %y = add(%a, %b) : f16[4]
  return %y
})",
     .after = R"(graph @g(%x: f32[4]) {
  %a = cast(%x), to=f16 : f16[4]
  %y = add(%a, %a) : f16[4]
  return %y
})",
     .make = Make<Cse>},
    {.name = "dce",
     .doc = "Removes nodes that no output and no update depends on.",
     .before = R"(graph @g(%x: f32[4]) {
  %h = exp(%x) : f32[4]
  %y = neg(%x) : f32[4]
  return %y
})",
     .after = R"(graph @g(%x: f32[4]) {
  %y = neg(%x) : f32[4]
  return %y
})",
     .make = Make<Dce>},
    {.name = "fold-casts",
     .doc = "Removes casts that lose nothing, and rounding that only autocast asked for.",
     .before = R"(graph @g(%x: f16[4]) {
  %a = cast(%x) : f32[4]
  %b = cast(%a), to=f16 : f16[4]
  %y = relu(%b) : f16[4]
  return %y
})",
     .after = R"(graph @g(%x: f16[4]) {
  %y = relu(%x) : f16[4]
  return %y
})",
     .make = Make<FoldCasts>},
    {.name = "fuse",
     .doc = "Groups nodes into fusions, one per kernel; needs static sizes.",
     .before = R"(graph @g(%x: f32[64, 32], %w: f32[32, 16], %b: f32[64, 16]) {
  %h = matmul(%x, %w) : f32[64, 16]
  %a = add(%h, %b) : f32[64, 16]
  %y = relu(%a) : f32[64, 16]
  return %y
})",
     .after = R"(graph @g(%x: f32[64, 32], %w: f32[32, 16], %b: f32[64, 16]) {
  %y = fusion(%x, %w, %b), family="matmul", reason="add, relu in the epilogue of matmul; saves 16 KB" : f32[64, 16] body(%x: f32[64, 32], %w: f32[32, 16], %b: f32[64, 16]) {
    %h = matmul(%x, %w) : f32[64, 16]
    %a = add(%h, %b) : f32[64, 16]
    %y = relu(%a) : f32[64, 16]
    return %y
  }
  return %y
})",
     .make = Make<Fuse>},
    {.name = "loss-scale",
     .doc = "Scales the gradient seed, unscales where true values are needed, and guards the step "
            "by the finiteness of the gradients.",
     .options = "loss_scale=dynamic optimizer=sgd",
     .before = R"(module @m {
  param %w: f32[] = ones()
  graph @step(%x: f32[]) {
    %seed = gradient_seed() : f32[]
    %w.grad = mul(%seed, %x) : f32[]
    return "grad:w"=%w.grad
  }
})",
     .after = R"(module @m {
  param %w: f32[] = ones()
  state %loss_scale: f32[] = constant(value=65536)
  state %growth_tracker: i32[] = zeros()
  state %skipped_steps: i64[] = zeros()
  state %consecutive_skips: i64[] = zeros()

  graph @step(%x: f32[]) {
    %loss_scale.one = constant(), value=1.0 : f32[]
    %loss_scale.inverse = div(%loss_scale.one, %loss_scale) : f32[]
    %seed = gradient_seed() : f32[]
    %seed.scaled = mul(%seed, %loss_scale) : f32[]
    %w.grad = mul(%seed.scaled, %x) : f32[]
    %w.grad.unscaled = mul(%w.grad, %loss_scale.inverse) : f32[]
    %loss_scale.zero = constant() : f32[]
    %loss_scale.positive = gt(%loss_scale.inverse, %loss_scale.zero) : bool[]
    %loss_scale.finite = is_finite(%loss_scale.inverse) : bool[]
    %scale_usable = and(%loss_scale.positive, %loss_scale.finite) : bool[]
    %all_finite = all_finite(%w.grad) : bool[]
    %step_ok = and(%all_finite, %scale_usable) : bool[]
    %skip = not(%step_ok) : bool[]
    %scale_unusable = not(%scale_usable) : bool[]
    %loss_scale.next, %growth_tracker.next = update_loss_scale(%loss_scale, %growth_tracker, %all_finite) : f32[], i32[]
    %skipped_steps.one = constant(), value=1 : i64[]
    %skipped_steps.zero = constant(), value=0 : i64[]
    %skipped_steps.more = add(%skipped_steps, %skipped_steps.one) : i64[]
    %skipped_steps.next = select(%skip, %skipped_steps.more, %skipped_steps) : i64[]
    %consecutive_skips.more = add(%consecutive_skips, %skipped_steps.one) : i64[]
    %consecutive_skips.next = select(%skip, %consecutive_skips.more, %skipped_steps.zero) : i64[]
    update %loss_scale = %loss_scale.next
    update %growth_tracker = %growth_tracker.next
    update %skipped_steps = %skipped_steps.next
    update %consecutive_skips = %consecutive_skips.next
    return "grad:w"=%w.grad.unscaled, "guard:optimizer"=%step_ok, loss_scale=%loss_scale, skipped=%skip, scale_unusable=%scale_unusable, skipped_steps=%skipped_steps.next, consecutive_skips=%consecutive_skips.next
  }
})",
     .make = MakeFrom<LossScale>},
    {.name = "optimizer",
     .doc = "Turns gradients into guarded updates of the parameters, moments and step counters.",
     .options = "optimizer=sgd lr=0.1",
     .before = R"(module @m {
  param %w: f32[] = ones()
  graph @step(%g: f32[], %ok: bool[]) {
    return "grad:w"=%g, "guard:optimizer"=%ok
  }
})",
     .after = R"(module @m {
  param %w: f32[] = ones()
  state %optimizer.step: i64[] = zeros()

  graph @step(%g: f32[], %ok: bool[]) {
    %optimizer.step.one = constant(), value=1 : i64[]
    %optimizer.step.next = add(%optimizer.step, %optimizer.step.one) : i64[]
    %optimizer.lr = learning_rate(%optimizer.step), base=0.1 : f32[]
    %w.next = sgd_update(%w, %g, %optimizer.lr) : f32[]
    update %optimizer.step = %optimizer.step.next guard=%ok
    update %w = %w.next guard=%ok
    return lr=%optimizer.lr
  }
})",
     .make = MakeFrom<Optimizer>},
    {.name = "simplify",
     .doc =
         "Folds constants, removes identities that hold for all values, and recognises composites.",
     .before = R"(graph @g(%x: f32[4]) {
  %half = constant(), value=0.5 : f32[4]
  %one = add(%half, %half) : f32[4]
  %h = mul(%x, %one) : f32[4]
  %y = relu(%h) : f32[4]
  return %y
})",
     .after = R"(graph @g(%x: f32[4]) {
  %y = relu(%x) : f32[4]
  return %y
})",
     .make = Make<Simplify>},
    {.name = "sink-casts",
     .doc = "Moves casts over data movement so that the narrower type is moved.",
     .before = R"(graph @g(%x: f16[4, 8]) {
  %a = cast(%x) : f32[4, 8]
  %b = reshape(%a) : f32[32]
  return %b
})",
     .after = R"(graph @g(%x: f16[4, 8]) {
  %a = reshape(%x) : f16[32]
  %b = cast(%a) : f32[32]
  return %b
})",
     .make = Make<SinkCasts>},
    {.name = "train-step",
     .doc = "Makes the training step, with gradients as outputs, and the evaluation of the forward "
            "graph.",
     .options = "optimizer=sgd",
     .before = R"(module @m {
  param %w: f32[] = ones()
  graph @loss(%x: f32[]) {
    %loss = mul(%x, %w) : f32[]
    return loss=%loss
  }
})",
     .after = R"(module @m {
  param %w: f32[] = ones()
  state %rng_position: i64[] = zeros()

  graph @eval(%x: f32[]) {
    %loss = mul(%x, %w) : f32[]
    return loss=%loss
  }

  graph @step(%x: f32[]) {
    %loss = mul(%x, %w) : f32[]
    %gradient.w = gradient(%loss, %w) : f32[]
    %rng_position.one = constant(), value=1 : i64[]
    %rng_position.next = add(%rng_position, %rng_position.one) : i64[]
    update %rng_position = %rng_position.next
    return loss=%loss, "grad:w"=%gradient.w
  }
})",
     .make = MakeFrom<TrainStep>},
    {.name = "weight-copies",
     .doc = "Keeps 16-bit copies of trained weights as derived state, updated with the weights.",
     .before = R"(module @m {
  param %w: f32[4] = ones()
  graph @step(%x: f16[4], %ok: bool[]) {
    %w.f16 = cast(%w), to=f16 : f16[4]
    %y = mul(%x, %w.f16) : f16[4]
    %w.next = neg(%w) : f32[4]
    update %w = %w.next guard=%ok
    return y=%y
  }
})",
     .after = R"(module @m {
  param %w: f32[4] = ones()
  derived %w.f16: f16[4] = cast_of(%w)
  graph @step(%x: f16[4], %ok: bool[]) {
    %y = mul(%x, %w.f16) : f16[4]
    %w.next = neg(%w) : f32[4]
    %w.f16.next = cast(%w.next), to=f16 : f16[4]
    update %w = %w.next guard=%ok
    update %w.f16 = %w.f16.next guard=%ok
    return y=%y
  }
})",
     .make = Make<WeightCopies>},
};

}  // namespace

llvm::ArrayRef<PassInfo> AllPasses() { return kPasses; }

const PassInfo* FindPass(std::string_view name) {
  for (const PassInfo& info : kPasses) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

}  // namespace duotone::passes
