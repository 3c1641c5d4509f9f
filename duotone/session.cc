#include "duotone/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/status.h"
#include "duotone/initial_state.h"
#include "duotone/internal.h"
#include "duotone/session_impl.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "passes/training_module.h"

namespace duotone {
namespace internal {
namespace {

StateKind ToPublicKind(ir::StateKind kind) {
  switch (kind) {
    case ir::StateKind::kParam:
      return StateKind::kParam;
    case ir::StateKind::kState:
      return StateKind::kState;
    case ir::StateKind::kDerived:
      return StateKind::kDerived;
  }
  return StateKind::kState;
}

Sizes StaticSizes(const ir::Type& type) {
  Sizes sizes;
  for (const ir::Dim& dim : type.shape) sizes.push_back(dim.size());
  return sizes;
}

ScalarOutput FindScalar(const runtime::Program& program, std::string_view name) {
  const int buffer = program.FindOutput(name);
  if (buffer < 0) return {};
  return {buffer, program.buffers[buffer].dtype};
}

// The rate of the first optimizer: with several, each has its own output lr:<name>.
ScalarOutput FindLearningRate(const runtime::Program& program) {
  if (ScalarOutput lr = FindScalar(program, passes::kLearningRate); lr.buffer >= 0) return lr;
  for (const runtime::NamedBuffer& output : program.outputs) {
    if (std::string_view(output.name).starts_with("lr:")) {
      return {output.buffer, program.buffers[output.buffer].dtype};
    }
  }
  return {};
}

}  // namespace

uint64_t HashModel(const ir::Module& module) {
  return Fnv1a(ir::Print(module, {.attributes = false}));
}

absl::StatusOr<std::unique_ptr<SessionImpl>> SessionImpl::Create(std::unique_ptr<ir::Module> module,
                                                                 const Options& options,
                                                                 uint64_t model_hash,
                                                                 CompileReport report,
                                                                 std::unique_ptr<Backend> backend) {
  std::unique_ptr<SessionImpl> impl(new SessionImpl());
  DUOTONE_RETURN_IF_ERROR(backend->PrepareModule(*module));
  impl->options_ = options;
  impl->module_ = std::move(module);
  impl->ir_text_ = ir::Print(*impl->module_);
  impl->model_hash_ = model_hash;
  impl->report_ = std::move(report);
  impl->backend_ = std::move(backend);
  impl->device_ = &impl->backend_->device();
  impl->state_ = std::make_unique<runtime::StateStore>(impl->device_);
  DUOTONE_RETURN_IF_ERROR(InitialiseState(*impl->module_, options.seed, *impl->state_));
  return impl;
}

absl::StatusOr<std::unique_ptr<Specialisation>> SessionImpl::Make(std::string_view graph,
                                                                  const ir::SizeBinding& sizes) {
  DUOTONE_ASSIGN_OR_RETURN(runtime::Program program, backend_->MakeProgram(*module_, graph, sizes));
  auto made = std::make_unique<Specialisation>();
  made->program = std::make_shared<const runtime::Program>(std::move(program));
  DUOTONE_ASSIGN_OR_RETURN(made->loaded, device_->Load(made->program, *state_));
  for (const std::string& loss : options_.losses) {
    made->losses.push_back(FindScalar(*made->program, loss));
  }
  made->loss_scale = FindScalar(*made->program, passes::kLossScale);
  made->skipped = FindScalar(*made->program, passes::kSkipped);
  made->skipped_steps = FindScalar(*made->program, passes::kSkippedSteps);
  made->consecutive_skips = FindScalar(*made->program, passes::kConsecutiveSkips);
  made->scale_unusable = FindScalar(*made->program, passes::kScaleUnusable);
  made->lr = FindLearningRate(*made->program);
  return made;
}

absl::StatusOr<Specialisation*> SessionImpl::Specialise(std::string_view graph,
                                                        const BoundFeeds& feeds) {
  std::unique_ptr<Specialisation>& slot = programs_[{std::string(graph), feeds.key}];
  if (slot == nullptr) {
    absl::StatusOr<std::unique_ptr<Specialisation>> made = Make(graph, feeds.sizes);
    if (!made.ok()) {
      programs_.erase({std::string(graph), feeds.key});
      return made.status();
    }
    slot = *std::move(made);
  }
  return slot.get();
}

absl::StatusOr<BoundStep> SessionImpl::Bind(absl::Span<const Feed> feeds) {
  const ir::Graph* graph = module_->FindGraph(passes::kStepGraph);
  DUOTONE_ASSIGN_OR_RETURN(BoundFeeds bound, BindFeeds(*graph, feeds));
  BoundStep step;
  step.session_ = this;
  DUOTONE_ASSIGN_OR_RETURN(step.specialisation_, Specialise(passes::kStepGraph, bound));
  step.data_ = std::move(bound.data);
  return step;
}

absl::Status SessionImpl::Execute(Specialisation& specialisation,
                                  const std::vector<const void*>& data, std::string_view what) {
  const runtime::Program& program = *specialisation.program;
  for (size_t i = 0; i < data.size(); ++i) {
    const int buffer = program.inputs[i].buffer;
    if (program.buffers[buffer].bytes == 0) continue;
    DUOTONE_RETURN_IF_ERROR(device_->Upload(specialisation.loaded->memory(buffer), data[i],
                                            program.buffers[buffer].bytes))
        .With("%s", what);
  }
  DUOTONE_RETURN_IF_ERROR(Settle());
  specialisation.last_run = ++runs_;
  DUOTONE_RETURN_IF_ERROR(
      device_->Run(*specialisation.loaded, {.seed = options_.seed, .step = steps_}))
      .With("%s", what);
  return absl::OkStatus();
}

absl::StatusOr<double> SessionImpl::ReadScalar(const Specialisation& specialisation,
                                               ScalarOutput output, double absent) const {
  if (output.buffer < 0) return absent;
  // The widest scalar; narrower ones fill its first bytes.
  alignas(8) char bytes[8] = {};
  DUOTONE_RETURN_IF_ERROR(device_->Download(specialisation.loaded->memory(output.buffer), bytes,
                                            ByteSize(output.dtype)));
  return ElementAsDouble(bytes, output.dtype, 0);
}

SessionImpl::~SessionImpl() {
  if (last_ != nullptr) Finish(*last_);
  for (const std::shared_ptr<StepResult>& result : results_) result->session = nullptr;
}

std::shared_ptr<StepResult> SessionImpl::NewResult() {
  constexpr size_t kResults = 8;
  for (const std::shared_ptr<StepResult>& result : results_) {
    if (result.use_count() > 1) continue;
    *result = {};
    return result;
  }
  if (results_.size() < kResults) {
    return results_.emplace_back(std::make_shared<StepResult>());
  }
  // Somebody collects metrics: the oldest is all theirs from now on.
  auto oldest = std::min_element(results_.begin(), results_.end(),
                                 [](const auto& a, const auto& b) { return a->run < b->run; });
  (*oldest)->session = nullptr;
  return *oldest = std::make_shared<StepResult>();
}

absl::StatusOr<Metrics> SessionImpl::Run(const BoundStep& step) {
  Specialisation& specialisation = *step.specialisation_;
  DUOTONE_RETURN_IF_ERROR(
      Execute(specialisation, step.data_, absl::StrFormat("step %d", steps_ + 1)));
  Metrics metrics;
  metrics.result_ = NewResult();
  StepResult& result = *metrics.result_;
  result.session = this;
  result.specialisation = &specialisation;
  result.run = runs_;
  result.step = ++steps_;
  last_ = metrics.result_;
  if (!device_->works_beside_host()) {
    DUOTONE_RETURN_IF_ERROR(Settle());
  }
  return metrics;
}

absl::Status SessionImpl::Settle() const {
  if (last_ == nullptr) return absl::OkStatus();
  const std::shared_ptr<StepResult> result = std::move(last_);
  last_ = nullptr;
  Finish(*result);
  if (std::exchange(result->status_was_returned, true)) return absl::OkStatus();
  return result->status;
}

void SessionImpl::Finish(StepResult& result) const {
  if (result.ready) return;
  result.ready = true;
  result.status = ReadNumbers(result);
  if (!result.status.ok()) result.loss = std::numeric_limits<double>::quiet_NaN();
}

absl::Status SessionImpl::ReadNumbers(StepResult& result) const {
  // An error in the data is a GPU's to report here.
  DUOTONE_RETURN_IF_ERROR(device_->Synchronize()).With("step %d", result.step);
  const Specialisation& specialisation = *result.specialisation;
  double loss = 0;
  for (ScalarOutput output : specialisation.losses) {
    DUOTONE_ASSIGN_OR_RETURN(const double value, ReadScalar(specialisation, output, 0));
    loss += value;
  }
  result.loss = loss;
  DUOTONE_ASSIGN_OR_RETURN(result.loss_scale,
                           ReadScalar(specialisation, specialisation.loss_scale, 1));
  DUOTONE_ASSIGN_OR_RETURN(result.lr, ReadScalar(specialisation, specialisation.lr, 0));
  DUOTONE_ASSIGN_OR_RETURN(const double skipped,
                           ReadScalar(specialisation, specialisation.skipped, 0));
  result.skipped = skipped != 0;
  DUOTONE_ASSIGN_OR_RETURN(const double total,
                           ReadScalar(specialisation, specialisation.skipped_steps, 0));
  result.skipped_steps = static_cast<int64_t>(total);
  DUOTONE_ASSIGN_OR_RETURN(const double consecutive,
                           ReadScalar(specialisation, specialisation.consecutive_skips, 0));
  result.consecutive_skips = static_cast<int64_t>(consecutive);
  DUOTONE_ASSIGN_OR_RETURN(const double unusable,
                           ReadScalar(specialisation, specialisation.scale_unusable, 0));
  return CheckScale(result, unusable != 0);
}

absl::Status SessionImpl::CheckScale(const StepResult& result, bool unusable) const {
  if (unusable) {
    return FailedPrecondition(
        "step %d: the loss scale has become %g, which or whose inverse f32 cannot hold: no later "
        "step can count (%d steps skipped, the last %d in a row)",
        result.step, result.loss_scale, result.skipped_steps, result.consecutive_skips);
  }
  const int64_t limit = options_.max_consecutive_skips;
  if (limit > 0 && result.consecutive_skips >= limit) {
    return FailedPrecondition(
        "step %d: the gradients were not finite in %d steps in a row (max_consecutive_skips is "
        "%d); "
        "the loss is %g and the loss scale %g",
        result.step, result.consecutive_skips, limit, result.loss, result.loss_scale);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> SessionImpl::ReadBuffer(const Specialisation& specialisation,
                                               int buffer) const {
  const runtime::Buffer& info = specialisation.program->buffers[buffer];
  Tensor tensor(info.dtype, Sizes(info.shape.begin(), info.shape.end()));
  DUOTONE_RETURN_IF_ERROR(device_->Download(specialisation.loaded->memory(buffer), tensor.data(),
                                            static_cast<int64_t>(tensor.bytes())));
  return tensor;
}

absl::StatusOr<Tensor> SessionImpl::ReadOutput(const StepResult& result,
                                               std::string_view name) const {
  const Specialisation& specialisation = *result.specialisation;
  const int buffer = specialisation.program->FindOutput(name);
  if (buffer < 0) {
    return NotFound("there is no output '%s'; the step has %s", name,
                    absl::StrJoin(specialisation.program->outputs, ", ",
                                  [](std::string* out, const runtime::NamedBuffer& output) {
                                    out->append(output.name);
                                  }));
  }
  if (specialisation.last_run != result.run) {
    return FailedPrecondition("output '%s' of step %d was overwritten by a later step", name,
                              result.step);
  }
  return ReadBuffer(specialisation, buffer);
}

absl::StatusOr<Outputs> SessionImpl::Evaluate(absl::Span<const Feed> feeds) {
  const ir::Graph* graph = module_->FindGraph(passes::kEvalGraph);
  if (graph == nullptr) {
    return FailedPrecondition("evaluation: module @%s has no graph @%s", module_->name(),
                              passes::kEvalGraph);
  }
  DUOTONE_ASSIGN_OR_RETURN(BoundFeeds bound, BindFeeds(*graph, feeds));
  DUOTONE_ASSIGN_OR_RETURN(Specialisation * specialisation, Specialise(passes::kEvalGraph, bound));
  DUOTONE_RETURN_IF_ERROR(Execute(*specialisation, bound.data, "evaluation"));
  DUOTONE_RETURN_IF_ERROR(device_->Synchronize()).With("evaluation");
  Outputs outputs;
  for (const runtime::NamedBuffer& output : specialisation->program->outputs) {
    DUOTONE_ASSIGN_OR_RETURN(outputs.tensors_[output.name],
                             ReadBuffer(*specialisation, output.buffer));
  }
  return outputs;
}

std::vector<StateInfo> SessionImpl::States() const {
  std::vector<StateInfo> infos;
  for (const auto& entry : module_->state()) {
    infos.push_back(
        {entry->name, ToPublicKind(entry->kind), entry->type.dtype, StaticSizes(entry->type)});
  }
  return infos;
}

absl::StatusOr<Tensor> SessionImpl::GetState(std::string_view name) const {
  DUOTONE_RETURN_IF_ERROR(Settle());
  const ir::StateEntry* entry = module_->FindState(name);
  if (entry == nullptr) return NotFound("there is no state entry '%s'", name);
  Tensor tensor(entry->type.dtype, StaticSizes(entry->type));
  DUOTONE_RETURN_IF_ERROR(state_->Read(name, tensor.data(), static_cast<int64_t>(tensor.bytes())));
  return tensor;
}

absl::Status SessionImpl::SetState(std::string_view name, const TensorRef& value) {
  DUOTONE_RETURN_IF_ERROR(Settle());
  const ir::StateEntry* entry = module_->FindState(name);
  if (entry == nullptr) return NotFound("there is no state entry '%s'", name);
  if (entry->kind == ir::StateKind::kDerived) {
    return InvalidArgument("state entry %s is derived from %s: set that one", name,
                           entry->init.source);
  }
  const Sizes shape = StaticSizes(entry->type);
  if (value.dtype() != entry->type.dtype || value.elements() != entry->type.elements() ||
      (value.shape() && *value.shape() != shape)) {
    return InvalidArgument("state entry %s: expected %s, given %s", name, entry->type.ToString(),
                           value.ToString());
  }
  DUOTONE_RETURN_IF_ERROR(state_->Write(name, value.data(), entry->type.bytes()));
  if (name == passes::kRngPosition) {
    DUOTONE_ASSIGN_OR_RETURN(Tensor position, GetState(name));
    steps_ = position.values<int64_t>()[0];
  }
  return RefreshDerived(*module_, options_.seed, *state_);
}

absl::StatusOr<CheckpointInfo> SessionImpl::Save(const std::string& path,
                                                 const CheckpointExtras& extras) const {
  Checkpoint checkpoint{.model = module_->name(),
                        .model_hash = model_hash_,
                        .seed = options_.seed,
                        .step = steps_,
                        .extras = extras};
  for (const auto& entry : module_->state()) {
    if (entry->kind == ir::StateKind::kDerived) continue;
    DUOTONE_ASSIGN_OR_RETURN(Tensor value, GetState(entry->name));
    checkpoint.entries.push_back({entry->name, ToPublicKind(entry->kind), std::move(value)});
  }
  DUOTONE_ASSIGN_OR_RETURN(std::string file, WriteCheckpoint(path, checkpoint));
  return CheckpointInfo{std::move(file), steps_, extras};
}

absl::StatusOr<CheckpointInfo> SessionImpl::Load(const std::string& path,
                                                 const LoadCheckpointOptions& options) {
  DUOTONE_RETURN_IF_ERROR(Settle());
  DUOTONE_ASSIGN_OR_RETURN(std::string file, ResolveCheckpoint(path));
  DUOTONE_ASSIGN_OR_RETURN(Checkpoint checkpoint, ReadCheckpointFile(file));
  DUOTONE_RETURN_IF_ERROR(Restore(checkpoint, options)).With("checkpoint '%s'", file);
  return CheckpointInfo{std::move(file), checkpoint.step, std::move(checkpoint.extras)};
}

absl::Status SessionImpl::Restore(const Checkpoint& checkpoint,
                                  const LoadCheckpointOptions& options) {
  if (!options.params_only && checkpoint.model_hash != model_hash_) {
    return FailedPrecondition(
        "it was saved from another model (@%s with the hash %016x; this is @%s with %016x); "
        "params_only takes its parameters alone",
        checkpoint.model, checkpoint.model_hash, module_->name(), model_hash_);
  }
  std::map<std::string_view, const Checkpoint::Entry*> saved;
  for (const Checkpoint::Entry& entry : checkpoint.entries) saved[entry.name] = &entry;
  std::vector<const Checkpoint::Entry*> wanted;
  for (const auto& entry : module_->state()) {
    const bool take = options.params_only ? entry->kind == ir::StateKind::kParam
                                          : entry->kind != ir::StateKind::kDerived;
    if (!take) continue;
    auto it = saved.find(entry->name);
    if (it == saved.end()) {
      return FailedPrecondition("it has no %s %s, which this session keeps",
                                ir::StateKindName(entry->kind), entry->name);
    }
    const Tensor& value = it->second->value;
    if (value.dtype() != entry->type.dtype || value.shape() != StaticSizes(entry->type)) {
      return FailedPrecondition("its %s is %s; this session's is %s", entry->name, value.ToString(),
                                entry->type.ToString());
    }
    wanted.push_back(it->second);
    saved.erase(it);
  }
  if (!options.params_only && !saved.empty()) {
    return FailedPrecondition("its entry %s means nothing to this session: the options differ",
                              saved.begin()->first);
  }
  for (const Checkpoint::Entry* entry : wanted) {
    DUOTONE_RETURN_IF_ERROR(state_->Write(entry->name, entry->value.data(),
                                          static_cast<int64_t>(entry->value.bytes())));
  }
  if (!options.params_only) {
    options_.seed = checkpoint.seed;
    steps_ = checkpoint.step;
  }
  return RefreshDerived(*module_, options_.seed, *state_);
}

std::vector<Model::Entry> SessionImpl::inputs() const {
  std::vector<Model::Entry> entries;
  for (const ir::Node* input : module_->FindGraph(passes::kStepGraph)->inputs()) {
    entries.push_back({input->name(), FromType(input->type())});
  }
  return entries;
}

}  // namespace internal

namespace {

// What is known of a step, once it is there; of no step where no step gave the metrics.
template <typename T>
T Ready(const std::shared_ptr<internal::StepResult>& result, T internal::StepResult::*member) {
  if (result == nullptr) return internal::StepResult{}.*member;
  if (!result->ready) result->session->Finish(*result);
  return (*result).*member;
}

}  // namespace

absl::Status Metrics::status() const {
  const absl::Status status = Ready(result_, &internal::StepResult::status);
  if (result_ != nullptr) result_->status_was_returned = true;
  return status;
}

double Metrics::loss() const { return Ready(result_, &internal::StepResult::loss); }
double Metrics::loss_scale() const { return Ready(result_, &internal::StepResult::loss_scale); }
bool Metrics::skipped() const { return Ready(result_, &internal::StepResult::skipped); }
int64_t Metrics::skipped_steps() const {
  return Ready(result_, &internal::StepResult::skipped_steps);
}
int64_t Metrics::consecutive_skips() const {
  return Ready(result_, &internal::StepResult::consecutive_skips);
}
double Metrics::lr() const { return Ready(result_, &internal::StepResult::lr); }
int64_t Metrics::step() const { return result_ == nullptr ? 0 : result_->step; }

absl::StatusOr<Tensor> Metrics::Output(std::string_view name) const {
  if (result_ == nullptr) return FailedPrecondition("no step gave these metrics");
  if (result_->session == nullptr) {
    return FailedPrecondition("output '%s' of step %d is gone with later steps or the session",
                              name, result_->step);
  }
  return result_->session->ReadOutput(*result_, name);
}

absl::StatusOr<double> Metrics::Get(std::string_view name) const {
  DUOTONE_ASSIGN_OR_RETURN(Tensor tensor, Output(name));
  if (tensor.elements() != 1) {
    return InvalidArgument("output '%s' is %s, not a number", name, tensor.ToString());
  }
  return tensor.Get(0);
}

const Tensor* Outputs::Find(std::string_view name) const {
  auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

absl::StatusOr<double> Outputs::Get(std::string_view name) const {
  const Tensor* tensor = Find(name);
  if (tensor == nullptr) return NotFound("there is no output '%s'", name);
  if (tensor->elements() != 1) {
    return InvalidArgument("output '%s' is %s, not a number", name, tensor->ToString());
  }
  return tensor->Get(0);
}

absl::StatusOr<Metrics> BoundStep::Run() {
  if (session_ == nullptr) return FailedPrecondition("the step is not bound to a session");
  return session_->Run(*this);
}

TrainSession::TrainSession(std::unique_ptr<internal::SessionImpl> impl) : impl_(std::move(impl)) {}
TrainSession::TrainSession(TrainSession&&) noexcept = default;
TrainSession& TrainSession::operator=(TrainSession&&) noexcept = default;
TrainSession::~TrainSession() = default;

absl::StatusOr<Metrics> TrainSession::Step(absl::Span<const Feed> feeds) {
  DUOTONE_ASSIGN_OR_RETURN(BoundStep step, impl_->Bind(feeds));
  return impl_->Run(step);
}

absl::StatusOr<BoundStep> TrainSession::Bind(absl::Span<const Feed> feeds) {
  return impl_->Bind(feeds);
}

absl::StatusOr<Outputs> TrainSession::Evaluate(absl::Span<const Feed> feeds) {
  return impl_->Evaluate(feeds);
}

std::vector<StateInfo> TrainSession::States() const { return impl_->States(); }

absl::StatusOr<Tensor> TrainSession::GetState(std::string_view name) const {
  return impl_->GetState(name);
}

absl::Status TrainSession::SetState(std::string_view name, const TensorRef& value) {
  return impl_->SetState(name, value);
}

absl::StatusOr<CheckpointInfo> TrainSession::SaveCheckpoint(const std::string& path,
                                                            const CheckpointExtras& extras) const {
  return impl_->Save(path, extras);
}

absl::StatusOr<CheckpointInfo> TrainSession::LoadCheckpoint(const std::string& path,
                                                            const LoadCheckpointOptions& options) {
  return impl_->Load(path, options);
}

std::vector<Model::Entry> TrainSession::inputs() const { return impl_->inputs(); }
const std::string& TrainSession::ir_text() const { return impl_->ir_text(); }
const CompileReport& TrainSession::report() const { return impl_->report(); }
int64_t TrainSession::step() const { return impl_->steps(); }
uint64_t TrainSession::seed() const { return impl_->seed(); }

}  // namespace duotone
