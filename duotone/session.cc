#include "duotone/session.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/status.h"
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
  DUOTONE_RETURN_IF_ERROR(impl->InitialiseState());
  return impl;
}

absl::Status SessionImpl::InitialiseState() {
  for (const auto& entry : module_->state()) {
    const Sizes shape = StaticSizes(entry->type);
    DUOTONE_RETURN_IF_ERROR(
        state_->Add(entry->name, entry->type.dtype, {shape.begin(), shape.end()}));
    if (entry->kind == ir::StateKind::kDerived) continue;
    absl::StatusOr<ir::Array> value = ir::Initialise(*entry, options_.seed);
    DUOTONE_RETURN_IF_ERROR(value).With("%s %%%s", ir::StateKindName(entry->kind), entry->name);
    DUOTONE_RETURN_IF_ERROR(state_->Write(entry->name, value->view().data, entry->type.bytes()));
  }
  return RefreshDerived();
}

absl::Status SessionImpl::RefreshDerived() {
  for (const auto& entry : module_->state()) {
    if (entry->kind != ir::StateKind::kDerived) continue;
    const ir::StateEntry* source_entry = module_->FindState(entry->init.source);
    if (source_entry == nullptr) {
      return Internal("derived %%%s: its source %%%s is no state entry", entry->name,
                      entry->init.source);
    }
    ir::Array source(source_entry->type);
    DUOTONE_RETURN_IF_ERROR(
        state_->Read(source_entry->name, source.view().data, source_entry->type.bytes()));
    DUOTONE_ASSIGN_OR_RETURN(ir::Array value, ir::Initialise(*entry, options_.seed, &source));
    DUOTONE_RETURN_IF_ERROR(state_->Write(entry->name, value.view().data, entry->type.bytes()));
  }
  return absl::OkStatus();
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
                                  const std::vector<const void*>& data) {
  const runtime::Program& program = *specialisation.program;
  for (size_t i = 0; i < data.size(); ++i) {
    const int buffer = program.inputs[i].buffer;
    if (program.buffers[buffer].bytes == 0) continue;
    DUOTONE_RETURN_IF_ERROR(device_->Upload(specialisation.loaded->memory(buffer), data[i],
                                            program.buffers[buffer].bytes));
  }
  specialisation.last_run = ++runs_;
  return device_->Run(*specialisation.loaded, {.seed = options_.seed, .step = steps_});
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

absl::StatusOr<Metrics> SessionImpl::Run(const BoundStep& step) {
  Specialisation& specialisation = *step.specialisation_;
  DUOTONE_RETURN_IF_ERROR(Execute(specialisation, step.data_)).With("step %d", steps_ + 1);
  // The scalars below are needed now; an error in the data is a GPU's to report here.
  DUOTONE_RETURN_IF_ERROR(device_->Synchronize()).With("step %d", steps_ + 1);
  Metrics metrics;
  metrics.session_ = this;
  metrics.specialisation_ = &specialisation;
  metrics.run_ = runs_;
  metrics.step_ = ++steps_;
  for (ScalarOutput loss : specialisation.losses) {
    DUOTONE_ASSIGN_OR_RETURN(double value, ReadScalar(specialisation, loss, 0));
    metrics.loss_ += value;
  }
  DUOTONE_ASSIGN_OR_RETURN(metrics.loss_scale_,
                           ReadScalar(specialisation, specialisation.loss_scale, 1));
  DUOTONE_ASSIGN_OR_RETURN(metrics.lr_, ReadScalar(specialisation, specialisation.lr, 0));
  DUOTONE_ASSIGN_OR_RETURN(double skipped, ReadScalar(specialisation, specialisation.skipped, 0));
  metrics.skipped_ = skipped != 0;
  DUOTONE_ASSIGN_OR_RETURN(double total,
                           ReadScalar(specialisation, specialisation.skipped_steps, 0));
  metrics.skipped_steps_ = static_cast<int64_t>(total);
  DUOTONE_ASSIGN_OR_RETURN(double consecutive,
                           ReadScalar(specialisation, specialisation.consecutive_skips, 0));
  metrics.consecutive_skips_ = static_cast<int64_t>(consecutive);
  DUOTONE_ASSIGN_OR_RETURN(double unusable,
                           ReadScalar(specialisation, specialisation.scale_unusable, 0));
  DUOTONE_RETURN_IF_ERROR(CheckScale(metrics, unusable != 0));
  return metrics;
}

absl::Status SessionImpl::CheckScale(const Metrics& metrics, bool unusable) const {
  if (unusable) {
    return FailedPrecondition(
        "step %d: the loss scale has become %g, which or whose inverse f32 cannot hold: no later "
        "step can count (%d steps skipped, the last %d in a row)",
        metrics.step(), metrics.loss_scale(), metrics.skipped_steps(), metrics.consecutive_skips());
  }
  const int64_t limit = options_.max_consecutive_skips;
  if (limit > 0 && metrics.consecutive_skips() >= limit) {
    return FailedPrecondition(
        "step %d: the gradients were not finite in %d steps in a row (max_consecutive_skips is "
        "%d); "
        "the loss is %g and the loss scale %g",
        metrics.step(), metrics.consecutive_skips(), limit, metrics.loss(), metrics.loss_scale());
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

absl::StatusOr<Tensor> SessionImpl::ReadOutput(const Metrics& metrics,
                                               std::string_view name) const {
  const Specialisation& specialisation = *metrics.specialisation_;
  const int buffer = specialisation.program->FindOutput(name);
  if (buffer < 0) {
    return NotFound("there is no output '%s'; the step has %s", name,
                    absl::StrJoin(specialisation.program->outputs, ", ",
                                  [](std::string* out, const runtime::NamedBuffer& output) {
                                    out->append(output.name);
                                  }));
  }
  if (specialisation.last_run != metrics.run_) {
    return FailedPrecondition("output '%s' of step %d was overwritten by a later step", name,
                              metrics.step());
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
  DUOTONE_RETURN_IF_ERROR(Execute(*specialisation, bound.data)).With("evaluation");
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
  const ir::StateEntry* entry = module_->FindState(name);
  if (entry == nullptr) return NotFound("there is no state entry '%s'", name);
  Tensor tensor(entry->type.dtype, StaticSizes(entry->type));
  DUOTONE_RETURN_IF_ERROR(state_->Read(name, tensor.data(), static_cast<int64_t>(tensor.bytes())));
  return tensor;
}

absl::Status SessionImpl::SetState(std::string_view name, const TensorRef& value) {
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
  return RefreshDerived();
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
  return RefreshDerived();
}

std::vector<Model::Entry> SessionImpl::inputs() const {
  std::vector<Model::Entry> entries;
  for (const ir::Node* input : module_->FindGraph(passes::kStepGraph)->inputs()) {
    entries.push_back({input->name(), FromType(input->type())});
  }
  return entries;
}

}  // namespace internal

absl::StatusOr<Tensor> Metrics::Output(std::string_view name) const {
  if (session_ == nullptr) return FailedPrecondition("no step gave these metrics");
  return session_->ReadOutput(*this, name);
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
