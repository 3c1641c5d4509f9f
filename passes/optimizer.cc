#include "passes/optimizer.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ir/emitter.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/training_module.h"

namespace duotone::passes {
namespace {

using ir::Emitter;
using ir::Graph;
using ir::Module;
using ir::Node;
using ir::Op;
using ir::StateEntry;
using ir::Type;
using ir::Value;
using Kind = OptimizerOptions::Kind;

// A gradient with the parameter it belongs to.
struct Trained {
  const StateEntry* param;
  Value gradient;
};

absl::Status CheckOptions(const OptimizerOptions& options) {
  auto check = [&](const char* what, double value, double limit) -> absl::Status {
    if (value >= 0.0 && value < limit) return absl::OkStatus();
    return InvalidArgument("optimizer '%s': %s is %g, but must lie in [0, %g)", options.name, what,
                           value, limit);
  };
  const double inf = HUGE_VAL;
  DUOTONE_RETURN_IF_ERROR(check("the learning rate", options.lr, inf));
  DUOTONE_RETURN_IF_ERROR(check("weight_decay", options.weight_decay, inf));
  if (options.kind == Kind::kSgd) return check("momentum", options.momentum, inf);
  DUOTONE_RETURN_IF_ERROR(check("beta1", options.beta1, 1.0));
  DUOTONE_RETURN_IF_ERROR(check("beta2", options.beta2, 1.0));
  return check("eps", options.eps, inf);
}

// The updates of one optimizer.
class Updates {
 public:
  Updates(Module& module, Graph& step, const OptimizerOptions& options, Value guard)
      : module_(module), step_(step), options_(options), guard_(guard), emit_(step) {}

  // Counter and learning rate; the latter is returned.
  absl::StatusOr<Value> Begin();
  absl::Status Update(const Trained& trained);

 private:
  absl::StatusOr<const StateEntry*> Moment(const char* which, const StateEntry& param);
  void AddUpdate(const StateEntry* entry, Value next) {
    step_.updates().push_back({.entry = entry, .next = next, .guard = guard_});
  }

  Module& module_;
  Graph& step_;
  const OptimizerOptions& options_;
  Value guard_;
  Emitter emit_;
  Value count_;  // of this update, from 1
  Value rate_;
};

absl::StatusOr<Value> Updates::Begin() {
  const Type type{DType::kI64, {}};
  const std::string name = absl::StrCat(options_.name, ".step");
  DUOTONE_ASSIGN_OR_RETURN(const StateEntry* entry, TrainingState(module_, name, type));
  const Value applied = step_.ReadState(entry);
  count_ = emit_.Emit(Op::kAdd, {applied, emit_.Constant(type, 1, absl::StrCat(name, ".one"))},
                      absl::StrCat(name, ".next"));
  AddUpdate(entry, count_);
  Graph::Spec spec{.op = Op::kLearningRate,
                   .operands = {applied},
                   .attrs = ir::ScheduleAttrs{.schedule = options_.schedule.kind,
                                              .base = options_.lr,
                                              .final = options_.schedule.final_lr,
                                              .warmup_steps = options_.schedule.warmup_steps,
                                              .total_steps = options_.schedule.total_steps},
                   .names = {step_.UniqueName(absl::StrCat(options_.name, ".lr"))}};
  DUOTONE_ASSIGN_OR_RETURN(Node * rate, step_.Add(std::move(spec)));
  return rate_ = rate->result();
}

absl::StatusOr<const StateEntry*> Updates::Moment(const char* which, const StateEntry& param) {
  return TrainingState(module_, absl::StrCat(options_.name, ".", which, ".", param.name),
                       param.type);
}

absl::Status Updates::Update(const Trained& trained) {
  const StateEntry& param = *trained.param;
  Graph::Spec spec{.info = {.loc = param.loc}};
  llvm::SmallVector<const StateEntry*, 3> entries = {&param};
  if (options_.kind == Kind::kSgd) {
    spec.op = Op::kSgdUpdate;
    spec.attrs = ir::SgdAttrs{.momentum = options_.momentum,
                              .nesterov = options_.nesterov,
                              .weight_decay = options_.weight_decay};
    spec.operands = {step_.ReadState(&param), trained.gradient, rate_};
    if (options_.momentum != 0.0) {
      DUOTONE_ASSIGN_OR_RETURN(const StateEntry* momentum, Moment("momentum", param));
      entries.push_back(momentum);
      spec.operands.push_back(step_.ReadState(momentum));
    }
  } else {
    spec.op = options_.kind == Kind::kAdam ? Op::kAdamUpdate : Op::kAdamWUpdate;
    spec.attrs = ir::AdamAttrs{.beta1 = options_.beta1,
                               .beta2 = options_.beta2,
                               .eps = options_.eps,
                               .weight_decay = options_.weight_decay};
    DUOTONE_ASSIGN_OR_RETURN(const StateEntry* m, Moment("m", param));
    DUOTONE_ASSIGN_OR_RETURN(const StateEntry* v, Moment("v", param));
    entries.append({m, v});
    spec.operands = {step_.ReadState(&param), trained.gradient, step_.ReadState(m),
                     step_.ReadState(v),      count_,           rate_};
  }
  for (const StateEntry* entry : entries) {
    spec.names.push_back(step_.UniqueName(absl::StrCat(entry->name, ".next")));
  }
  DUOTONE_ASSIGN_OR_RETURN(Node * update, step_.Add(std::move(spec)));
  for (size_t i = 0; i < entries.size(); ++i) {
    AddUpdate(entries[i], update->result(static_cast<int>(i)));
  }
  return absl::OkStatus();
}

absl::Status CheckParameter(const Graph& step, const StateEntry& param,
                            const OptimizerOptions& options) {
  if (IsLow(param.type.dtype)) {
    const bool half = param.type.dtype == DType::kF16;
    return InvalidArgument(
        "optimizer '%s' would update the parameter %%%s in %s, where it stops moving (%s); declare "
        "it f32: autocast makes its 16-bit copy%s",
        options.name, param.name, DTypeName(param.type.dtype),
        half ? "1 + 1e-4 is 1 in f16" : "1 + 2e-3 is 1 in bf16",
        param.loc.empty() ? "" : absl::StrCat(" (", param.loc, ")"));
  }
  if (step.FindUpdate(&param) != nullptr) {
    return InvalidArgument("optimizer '%s' owns the parameter %%%s, which @%s updates itself",
                           options.name, param.name, step.name());
  }
  return absl::OkStatus();
}

// The gradients by optimizer, in the order of the outputs.
absl::StatusOr<std::vector<std::vector<Trained>>> CollectGradients(
    const Module& module, const Graph& step, llvm::ArrayRef<OptimizerOptions> optimizers) {
  DUOTONE_ASSIGN_OR_RETURN(ParameterOwners owners, ParameterOwners::Of(module, optimizers));
  std::vector<std::vector<Trained>> collected(optimizers.size());
  for (const ir::Output& output : step.outputs()) {
    llvm::StringRef name = output.name;
    if (!name.consume_front(kGradPrefix)) continue;
    const StateEntry* param = module.FindState(name);
    if (param == nullptr || param->kind != ir::StateKind::kParam) {
      return InvalidArgument("output %s of @%s: there is no parameter %%%s", output.name,
                             step.name(), std::string_view(name));
    }
    const std::optional<size_t> owner = owners.Find(name);
    if (!owner) continue;
    DUOTONE_RETURN_IF_ERROR(CheckParameter(step, *param, optimizers[*owner]));
    collected[*owner].push_back({param, output.value});
  }
  return collected;
}

// True if an optimizer of the list has been here before.
bool HasUpdates(const Module& module, const Graph& step,
                llvm::ArrayRef<OptimizerOptions> optimizers) {
  return llvm::any_of(optimizers, [&](const OptimizerOptions& options) {
    const StateEntry* count = module.FindState(absl::StrCat(options.name, ".step"));
    return count != nullptr && step.FindUpdate(count) != nullptr;
  });
}

}  // namespace

absl::StatusOr<bool> Optimizer::Run(Module& module, PassContext& ctx) const {
  Graph* step = module.FindGraph(kStepGraph);
  if (step == nullptr || HasUpdates(module, *step, optimizers_)) return false;
  const bool has_gradients = llvm::any_of(step->outputs(), [](const ir::Output& output) {
    return llvm::StringRef(output.name).starts_with(kGradPrefix);
  });
  if (!has_gradients) return false;
  if (optimizers_.empty()) {
    ctx.Warn("no optimizer is given: the parameters keep their values");
    return false;
  }
  for (const OptimizerOptions& options : optimizers_) {
    DUOTONE_RETURN_IF_ERROR(CheckOptions(options));
  }
  DUOTONE_ASSIGN_OR_RETURN(std::vector<std::vector<Trained>> trained,
                           CollectGradients(module, *step, optimizers_));
  bool first = true;
  for (size_t i = 0; i < optimizers_.size(); ++i) {
    const OptimizerOptions& options = optimizers_[i];
    if (trained[i].empty()) continue;
    const ir::Output* guard = step->FindOutput(absl::StrCat(kGuardPrefix, options.name));
    Updates updates(module, *step, options, guard != nullptr ? guard->value : Value{});
    absl::StatusOr<Value> rate = updates.Begin();
    DUOTONE_RETURN_IF_ERROR(rate).With("optimizer '%s'", options.name);
    if (first) {
      DUOTONE_RETURN_IF_ERROR(AddTrainingOutput(*step, kLearningRate, *rate));
      first = false;
    }
    if (optimizers_.size() > 1) {
      DUOTONE_RETURN_IF_ERROR(
          AddTrainingOutput(*step, absl::StrCat(kLearningRate, ":", options.name), *rate));
    }
    for (const Trained& entry : trained[i]) {
      DUOTONE_RETURN_IF_ERROR(updates.Update(entry)).With("optimizer '%s'", options.name);
    }
    ctx.stats()["updated"] += static_cast<int64_t>(trained[i].size());
  }
  const size_t erased = std::erase_if(step->outputs(), [&](const ir::Output& output) {
    const llvm::StringRef name = output.name;
    return name.starts_with(kGuardPrefix) || (!keep_gradients_ && name.starts_with(kGradPrefix));
  });
  return !first || erased > 0;
}

}  // namespace duotone::passes
