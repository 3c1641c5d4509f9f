#include "tests/passes/training_test_lib.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "ir/text.h"
#include "passes/autocast.h"
#include "passes/autodiff.h"
#include "passes/loss_scale.h"
#include "passes/optimizer.h"
#include "passes/train_step.h"

namespace duotone::passes {

absl::StatusOr<Trainer> Trainer::Make(std::string_view text, const PassOptions& options) {
  Trainer trainer;
  DUOTONE_ASSIGN_OR_RETURN(trainer.module_, ir::Parse(text));
  const TrainStep train_step(options);
  const Autocast autocast(options.autocast);
  const Autodiff autodiff;
  const LossScale loss_scale(options);
  const Optimizer optimizer(options);
  PassContext ctx;
  for (const Pass* pass :
       std::vector<const Pass*>{&train_step, &autocast, &autodiff, &loss_scale, &optimizer}) {
    DUOTONE_RETURN_IF_ERROR(pass->Run(*trainer.module_, ctx)).With("%s", pass->name());
    DUOTONE_RETURN_IF_ERROR(ir::Verify(*trainer.module_)).With("after %s", pass->name());
  }
  trainer.warnings_ = ctx.warnings();
  for (const auto& entry : trainer.module_->state()) {
    DUOTONE_ASSIGN_OR_RETURN(trainer.state_[entry->name], ir::Initialise(*entry, /*seed=*/1));
  }
  return trainer;
}

absl::StatusOr<ir::ArrayMap> Trainer::Step(const ir::ArrayMap& inputs) {
  const ir::RandomKey key{.seed = 1, .step = static_cast<int64_t>(Get("rng_position"))};
  DUOTONE_ASSIGN_OR_RETURN(ir::InterpreterResult result,
                           ir::Interpret(*module_->FindGraph("step"), inputs, state_, key));
  state_ = std::move(result.state);
  return std::move(result.outputs);
}

double Trainer::Get(std::string_view entry, int64_t i) const {
  auto it = state_.find(entry);
  if (it == state_.end() && entry == "rng_position") return 0;
  DUOTONE_CHECK(it != state_.end()) << entry;
  return it->second.Get(i);
}

void Trainer::Set(std::string_view entry, double value) {
  auto it = state_.find(entry);
  DUOTONE_CHECK(it != state_.end()) << entry;
  for (int64_t i = 0; i < it->second.elements(); ++i) it->second.Set(i, value);
}

absl::StatusOr<std::unique_ptr<ir::Module>> Differentiated(std::string_view text) {
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module, ir::Parse(text));
  PassContext ctx;
  DUOTONE_RETURN_IF_ERROR(Autodiff().Run(*module, ctx));
  DUOTONE_RETURN_IF_ERROR(ir::Verify(*module));
  return module;
}

ir::Array F32(double value) { return ir::Array::Of({DType::kF32, {}}, {value}); }

ir::Array F32(std::vector<double> values) {
  return ir::Array::Of({DType::kF32, {static_cast<int64_t>(values.size())}}, values);
}

ir::Array F64(std::vector<double> values, std::vector<int64_t> shape) {
  ir::Type type{DType::kF64, {}};
  for (int64_t size : shape) type.shape.push_back(size);
  return ir::Array::Of(type, values);
}

OptimizerOptions OptimizerOf(OptimizerOptions::Kind kind, double lr) {
  OptimizerOptions options;
  options.kind = kind;
  options.lr = lr;
  return options;
}

}  // namespace duotone::passes
