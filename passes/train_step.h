// Makes a training step of the forward graph.
//
//   before  graph @loss(%x: f32[8]) { ... return loss=%loss, logits=%logits }
//   after   graph @eval(%x: f32[8]) { the same, with each dropout replaced by its operand }
//           graph @step(%x: f32[8]) {
//             ...
//             %gradient, %gradient.1 = gradient(%loss, %w, %b)
//             update %rng_position = %rng_position.next
//             return loss=%loss, logits=%logits, grad:w=%gradient, grad:b=%gradient.1
//           }
//
// What is minimised is the f32 sum of the outputs named in `losses`. Differentiated are the
// parameters that an optimizer owns (all, if no optimizer is given) and the loss depends on; the
// others keep their values, those among them that an optimizer owns with a warning. A dropout's
// mask becomes all true in @eval; state updates of the forward graph stay in @step only.
//
// The forward graph is the one called `graph`, else the module's only one, else @loss or @main.
// Leaves alone: a module that has a graph @step.
#ifndef DUOTONE_PASSES_TRAIN_STEP_H_
#define DUOTONE_PASSES_TRAIN_STEP_H_

#include <string>
#include <string_view>
#include <vector>

#include "passes/options.h"
#include "passes/pass.h"

namespace duotone::passes {

class TrainStep final : public Pass {
 public:
  explicit TrainStep(const PassOptions& options)
      : graph_(options.graph), losses_(options.losses), optimizers_(options.optimizers) {}

  std::string_view name() const override { return "train-step"; }
  absl::StatusOr<bool> Run(ir::Module& module, PassContext& ctx) const override;

 private:
  std::string graph_;
  std::vector<std::string> losses_;
  std::vector<OptimizerOptions> optimizers_;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_TRAIN_STEP_H_
