#include "passes/loss_scale.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "ir/emitter.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/scale_exponents.h"
#include "passes/training_module.h"
#include "passes/value_map.h"

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
using Kind = LossScaleOptions::Kind;

// Gradients that are tested together: those of one optimizer, or those of none.
struct Group {
  std::string name;
  llvm::SmallVector<Value, 8> checks;
  Value guard;
};

absl::Status CheckOptions(const LossScaleOptions& options) {
  if (options.kind == Kind::kOff) return absl::OkStatus();
  const float init = static_cast<float>(options.init_scale);
  if (!std::isfinite(init) || !(init > 0.0f) || !std::isfinite(1.0f / init)) {
    return InvalidArgument(
        "loss-scale: the initial scale %g must be a positive f32 with a finite reciprocal",
        options.init_scale);
  }
  if (options.kind == Kind::kStatic) return absl::OkStatus();
  if (!(options.growth_factor > 1.0) || !std::isfinite(options.growth_factor)) {
    return InvalidArgument("loss-scale: the growth factor %g must be above 1",
                           options.growth_factor);
  }
  if (!(options.backoff_factor > 0.0 && options.backoff_factor < 1.0)) {
    return InvalidArgument("loss-scale: the backoff factor %g must lie between 0 and 1",
                           options.backoff_factor);
  }
  if (options.growth_interval < 1 || options.growth_interval > 0x7fffffff) {
    return InvalidArgument("loss-scale: the growth interval %d must lie in [1, 2^31)",
                           options.growth_interval);
  }
  if (!(options.min_scale >= 0.0) || !(options.max_scale >= options.min_scale)) {
    return InvalidArgument(
        "loss-scale: the floor %g and the ceiling %g must satisfy 0 <= floor <= "
        "ceiling",
        options.min_scale, options.max_scale);
  }
  return absl::OkStatus();
}

// The rewriting of one @step.
class Scaling {
 public:
  Scaling(Module& module, Graph& step, const LossScaleOptions& options, PassContext& ctx)
      : module_(module), step_(step), options_(options), ctx_(ctx), end_(step) {}

  absl::Status Run(llvm::ArrayRef<Node*> seeds, llvm::ArrayRef<OptimizerOptions> optimizers);

 private:
  bool scales() const { return options_.kind != Kind::kOff; }
  bool tests_finiteness() const {
    return options_.kind == Kind::kDynamic || options_.skip_nonfinite;
  }

  absl::Status ScaleSeeds(llvm::ArrayRef<Node*> seeds);
  Node* NodeAfter(const Node* node) const;
  absl::Status Unscale();
  Value Unscaled(Value value, Node* before);
  absl::StatusOr<std::vector<Group>> MakeGroups(llvm::ArrayRef<OptimizerOptions> optimizers);
  llvm::SmallVector<Value, 8> ScaledSourcesOf(Value value) const;
  void AddChecks(Value gradient, Group& group) const;
  Value And(Value a, Value b, std::string_view name);
  absl::Status Decide(std::vector<Group>& groups);
  absl::Status UpdateScale();
  absl::Status Count();

  Module& module_;
  Graph& step_;
  const LossScaleOptions& options_;
  PassContext& ctx_;
  Emitter end_;  // appends

  Value scale_;    // the state's value, if this step scales
  Value inverse_;  // its reciprocal
  ScaleExponents exponents_;
  ValueMap<Value> unscaled_;                         // by scaled value
  std::vector<std::pair<Value, Value>> unscalings_;  // (scaled, unscaled), in order
  Value all_finite_;
  Value step_ok_;
  Value skipped_;
};

absl::Status Scaling::Run(llvm::ArrayRef<Node*> seeds,
                          llvm::ArrayRef<OptimizerOptions> optimizers) {
  if (scales()) {
    DUOTONE_RETURN_IF_ERROR(ScaleSeeds(seeds));
    DUOTONE_RETURN_IF_ERROR(Unscale());
  }
  DUOTONE_ASSIGN_OR_RETURN(std::vector<Group> groups, MakeGroups(optimizers));
  DUOTONE_RETURN_IF_ERROR(Decide(groups));
  if (options_.kind == Kind::kDynamic) {
    DUOTONE_RETURN_IF_ERROR(UpdateScale());
  }
  return Count();
}

absl::Status Scaling::ScaleSeeds(llvm::ArrayRef<Node*> seeds) {
  DUOTONE_ASSIGN_OR_RETURN(
      const StateEntry* entry,
      TrainingState(module_, kLossScale, Type{DType::kF32, {}},
                    {.kind = "constant", .args = {{"value", options_.init_scale}}}));
  scale_ = step_.ReadState(entry);
  exponents_.Set(scale_, 1);
  Emitter emit(step_, seeds.empty() ? nullptr : seeds[0]);
  inverse_ = emit.Emit(Op::kDiv, {emit.Constant(scale_.type(), 1.0, "loss_scale.one"), scale_},
                       "loss_scale.inverse");
  for (Node* seed : seeds) {
    // f32 times f32: in f16 a scale of 65536 would be infinite.
    Emitter after(step_, NodeAfter(seed), seed->info());
    const Value scaled =
        after.Emit(Op::kMul, {seed->result(), scale_}, absl::StrCat(seed->name(), ".scaled"));
    step_.ReplaceAllUses(seed->result(), scaled);
    step_.SetOperand(scaled.node, 0, seed->result());
  }
  ctx_.stats()["seeds"] += static_cast<int64_t>(seeds.size());
  return absl::OkStatus();
}

Node* Scaling::NodeAfter(const Node* node) const {
  auto it = llvm::find_if(step_.nodes(), [&](const auto& other) { return other.get() == node; });
  return ++it == step_.nodes().end() ? nullptr : it->get();
}

absl::Status Scaling::Unscale() {
  for (Node* node : step_.NodePointers()) {
    if (node == inverse_.node) continue;
    const ScaleExponents::Typing typing = exponents_.TypeOf(*node);
    for (int i : typing.unscale) step_.SetOperand(node, i, Unscaled(node->operand(i), node));
    for (int i = 0; i < node->result_count(); ++i) {
      exponents_.Set(node->result(i), node->type(i).is_float() ? typing.result : 0);
    }
  }
  for (ir::Output& output : step_.outputs()) {
    if (exponents_.IsScaled(output.value)) output.value = Unscaled(output.value, nullptr);
  }
  for (ir::Update& update : step_.updates()) {
    if (exponents_.IsScaled(update.next)) update.next = Unscaled(update.next, nullptr);
  }
  ctx_.stats()["unscaled"] += static_cast<int64_t>(unscalings_.size());
  return CheckScaleExponents(step_, {{scale_, 1}, {inverse_, -1}});
}

// One node per value, in front of its first reader that needs it.
Value Scaling::Unscaled(Value value, Node* before) {
  Value& unscaled = unscaled_[value];
  if (unscaled) return unscaled;
  const DType dtype = value.type().dtype;
  const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const std::string name = absl::StrCat(value.name(), ".unscaled");
  Emitter emit(step_, before, value.node->info());
  emit.info().dtype_origin.clear();  // f32 by nature, not by a decision of autocast's
  emit.set_name_prefix(name);
  const Value factor = emit.BroadcastScalar(emit.Cast(inverse_, wide), value.type().shape);
  const Value product = emit.Emit(Op::kMul, {emit.Cast(value, wide), factor},
                                  dtype == wide ? name : absl::StrCat(name, ".wide"));
  emit.info().dtype_origin = value.node->info().dtype_origin;
  unscaled = emit.Cast(product, dtype, name);
  unscalings_.push_back({value, unscaled});
  return unscaled;
}

// The scaled values whose unscaling `value` is or was computed from, in the order of unscaling.
llvm::SmallVector<Value, 8> Scaling::ScaledSourcesOf(Value value) const {
  // Most gradients are unscaled last of all, and nothing is computed from an unscaled value.
  const bool any_inside = llvm::any_of(
      unscalings_, [](const auto& pair) { return !pair.second.node->users().empty(); });
  llvm::DenseSet<const Node*> seen;
  llvm::SmallVector<const Node*, 32> stack = {value.node};
  while (!stack.empty()) {
    const Node* node = stack.pop_back_val();
    if (!seen.insert(node).second || !any_inside) continue;
    for (Value operand : node->operands()) stack.push_back(operand.node);
  }
  llvm::SmallVector<Value, 8> sources;
  for (const auto& [scaled, unscaled] : unscalings_) {
    if (seen.contains(unscaled.node)) sources.push_back(scaled);
  }
  return sources;
}

void Scaling::AddChecks(Value gradient, Group& group) const {
  llvm::SmallVector<Value, 8> checks = ScaledSourcesOf(gradient);
  const bool is_unscaled =
      llvm::any_of(unscalings_, [&](const auto& pair) { return pair.second == gradient; });
  if (!is_unscaled) checks.push_back(gradient);
  for (Value check : checks) {
    if (!llvm::is_contained(group.checks, check)) group.checks.push_back(check);
  }
}

// One group per optimizer that owns gradients, in the order of the optimizers, then one without a
// name for what is left: gradients that no optimizer owns, and those behind the graph's own
// updates.
absl::StatusOr<std::vector<Group>> Scaling::MakeGroups(
    llvm::ArrayRef<OptimizerOptions> optimizers) {
  DUOTONE_ASSIGN_OR_RETURN(ParameterOwners owners, ParameterOwners::Of(module_, optimizers));
  std::vector<Group> groups;
  for (const OptimizerOptions& options : optimizers) groups.push_back({.name = options.name});
  groups.push_back({});
  for (const ir::Output& output : step_.outputs()) {
    llvm::StringRef param = output.name;
    if (!param.consume_front(kGradPrefix) || !output.value.type().is_float()) continue;
    AddChecks(output.value, groups[owners.Find(param).value_or(optimizers.size())]);
  }
  for (const ir::Update& update : step_.updates()) {
    for (Value source : ScaledSourcesOf(update.next)) {
      if (!llvm::is_contained(groups.back().checks, source)) groups.back().checks.push_back(source);
    }
  }
  llvm::erase_if(groups, [](const Group& group) { return group.checks.empty(); });
  return groups;
}

// An empty value counts as true.
Value Scaling::And(Value a, Value b, std::string_view name) {
  if (!a || !b) return a ? a : b;
  return end_.Emit(Op::kAnd, {a, b}, name);
}

absl::Status Scaling::Decide(std::vector<Group>& groups) {
  Value usable;
  if (scales()) {
    const Value positive =
        end_.Emit(Op::kGreater, {inverse_, end_.Constant(scale_.type(), 0.0, "loss_scale.zero")},
                  "loss_scale.positive");
    const Value finite = end_.Emit(Op::kIsFinite, {inverse_}, "loss_scale.finite");
    usable = And(positive, finite, "scale_usable");
  }
  for (Group& group : groups) {
    const bool several = groups.size() > 1;
    const std::string suffix =
        several ? absl::StrCat(".", group.name.empty() ? "other" : group.name) : "";
    if (tests_finiteness()) {
      const Value finite =
          end_.Emit(Op::kAllFinite, group.checks, absl::StrCat("all_finite", suffix));
      all_finite_ = And(all_finite_, finite, "all_finite");
      group.guard = finite;
    }
    if (several) group.guard = And(group.guard, usable, absl::StrCat("may_step", suffix));
  }
  if (!all_finite_ && tests_finiteness()) {
    all_finite_ = end_.Constant({DType::kBool, {}}, 1, "all_finite");
  }
  step_ok_ = And(all_finite_, usable, "step_ok");
  if (groups.size() == 1) groups[0].guard = step_ok_;

  for (ir::Update& update : step_.updates()) {
    if (update.entry->name == kRngPosition) continue;
    update.guard = And(update.guard, step_ok_, absl::StrCat(update.entry->name, ".guard"));
  }
  const int64_t named = llvm::count_if(groups, [](const Group& g) { return !g.name.empty(); });
  for (const Group& group : groups) {
    if (group.name.empty()) continue;
    DUOTONE_RETURN_IF_ERROR(
        AddTrainingOutput(step_, absl::StrCat(kGuardPrefix, group.name), group.guard));
    if (named == 1) continue;
    const Value skipped = end_.Emit(Op::kNot, {group.guard}, absl::StrCat("skipped.", group.name));
    DUOTONE_RETURN_IF_ERROR(
        AddTrainingOutput(step_, absl::StrCat(kSkipped, ":", group.name), skipped));
  }
  const Value reported = scales() ? scale_ : end_.Constant({DType::kF32, {}}, 1.0, "no_loss_scale");
  DUOTONE_RETURN_IF_ERROR(AddTrainingOutput(step_, kLossScale, reported));
  skipped_ = end_.Emit(Op::kNot, {step_ok_}, "skip");
  DUOTONE_RETURN_IF_ERROR(AddTrainingOutput(step_, kSkipped, skipped_));
  const Value unusable = usable ? end_.Emit(Op::kNot, {usable}, "scale_unusable")
                                : end_.Constant({DType::kBool, {}}, 0, "scale_unusable");
  return AddTrainingOutput(step_, kScaleUnusable, unusable);
}

absl::Status Scaling::UpdateScale() {
  const StateEntry* scale = module_.FindState(kLossScale);
  DUOTONE_ASSIGN_OR_RETURN(const StateEntry* tracker,
                           TrainingState(module_, kGrowthTracker, Type{DType::kI32, {}}));
  Graph::Spec spec{
      .op = Op::kUpdateLossScale,
      .operands = {scale_, step_.ReadState(tracker), all_finite_},
      .attrs = ir::LossScaleAttrs{.growth_factor = options_.growth_factor,
                                  .backoff_factor = options_.backoff_factor,
                                  .growth_interval = options_.growth_interval,
                                  .min_scale = options_.min_scale,
                                  .max_scale = options_.max_scale},
      .names = {step_.UniqueName("loss_scale.next"), step_.UniqueName("growth_tracker.next")}};
  DUOTONE_ASSIGN_OR_RETURN(Node * update, step_.Add(std::move(spec)));
  step_.updates().push_back({.entry = scale, .next = update->result(0)});
  step_.updates().push_back({.entry = tracker, .next = update->result(1)});
  return absl::OkStatus();
}

// The counters advance on the device, so that nobody has to wait for `skipped`.
absl::Status Scaling::Count() {
  const Type type{DType::kI64, {}};
  const Value one = end_.Constant(type, 1, "skipped_steps.one");
  const Value zero = end_.Constant(type, 0, "skipped_steps.zero");
  auto count = [&](const char* name, Value otherwise) -> absl::Status {
    DUOTONE_ASSIGN_OR_RETURN(const StateEntry* entry, TrainingState(module_, name, type));
    const Value before = step_.ReadState(entry);
    const Value next =
        end_.Emit(Op::kSelect,
                  {skipped_, end_.Emit(Op::kAdd, {before, one}, absl::StrCat(name, ".more")),
                   otherwise ? otherwise : before},
                  absl::StrCat(name, ".next"));
    step_.updates().push_back({.entry = entry, .next = next});
    return AddTrainingOutput(step_, name, next);
  };
  DUOTONE_RETURN_IF_ERROR(count(kSkippedSteps, Value{}));
  return count(kConsecutiveSkips, zero);
}

}  // namespace

absl::StatusOr<bool> LossScale::Run(Module& module, PassContext& ctx) const {
  Graph* step = module.FindGraph(kStepGraph);
  if (step == nullptr || step->FindOutput(kSkipped) != nullptr) return false;
  if (options_.kind == Kind::kOff && !options_.skip_nonfinite) return false;
  DUOTONE_RETURN_IF_ERROR(CheckOptions(options_));
  std::vector<Node*> seeds;
  for (const auto& node : step->nodes()) {
    if (node->op() == Op::kGradient) {
      return FailedPrecondition("loss-scale: gradient has not been expanded; run autodiff first %s",
                                node->Place());
    }
    if (node->op() == Op::kGradientSeed) seeds.push_back(node.get());
  }
  const bool has_gradients = llvm::any_of(step->outputs(), [](const ir::Output& output) {
    return llvm::StringRef(output.name).starts_with(kGradPrefix);
  });
  if (!has_gradients && (seeds.empty() || options_.kind == Kind::kOff)) return false;
  DUOTONE_RETURN_IF_ERROR(Scaling(module, *step, options_, ctx).Run(seeds, optimizers_))
      .With("loss-scale");
  return true;
}

}  // namespace duotone::passes
