// duotone train: trains a .duo model on a data set.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/float16.h"
#include "base/hash.h"
#include "base/status.h"
#include "duotone/session.h"
#include "nlohmann/json.hpp"
#include "tools/command.h"
#include "tools/data/batcher.h"
#include "tools/data/dataset.h"
#include "tools/dumps.h"
#include "tools/json_text.h"
#include "tools/progress.h"
#include "tools/train_flags.h"
#include "tools/training_log.h"

namespace duotone::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Set by Ctrl-C: the step in flight is finished and saved.
std::atomic<bool> interrupted{false};
void OnInterrupt(int) { interrupted = true; }

// The number a size is, or nothing for a named one.
std::optional<int64_t> Number(const Size& size) {
  const std::string& text = size.ToString();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

struct ModelInputs {
  std::vector<InputSpec> specs;
  std::optional<int64_t> fixed_rows;  // of inputs whose first size is a number
};

// The model's inputs without their first axis, which counts the rows of a batch.
absl::StatusOr<ModelInputs> InputsOf(const Model& model, const std::string& graph) {
  ModelInputs inputs;
  for (const Model::Entry& entry : model.inputs(graph)) {
    InputSpec spec{.name = entry.name, .dtype = entry.type.dtype};
    if (entry.type.shape.empty()) {
      return InvalidArgument("input %%%s: %s has no axis for the rows of a batch", entry.name,
                             entry.type.ToString());
    }
    for (size_t i = 1; i < entry.type.shape.size(); ++i) {
      const std::optional<int64_t> size = Number(entry.type.shape[i]);
      if (!size) {
        return InvalidArgument("input %%%s: in %s only the first size may be named", entry.name,
                               entry.type.ToString());
      }
      spec.row_shape.push_back(*size);
    }
    if (const std::optional<int64_t> rows = Number(entry.type.shape[0])) inputs.fixed_rows = rows;
    inputs.specs.push_back(std::move(spec));
  }
  if (inputs.specs.empty()) {
    return InvalidArgument(
        "the model has no inputs to feed data to, or several graphs of which --graph must name "
        "one");
  }
  return inputs;
}

// The classes that the output called "logits" tells apart, or nothing.
std::optional<int64_t> ClassesOf(const Model& model, const std::string& graph) {
  for (const Model::Entry& entry : model.outputs(graph)) {
    if (entry.name == "logits" && !entry.type.shape.empty()) return Number(entry.type.shape.back());
  }
  return std::nullopt;
}

struct EvaluationResult {
  double loss = 0;
  std::optional<double> accuracy;
};

class Trainer {
 public:
  explicit Trainer(const TrainFlags& flags) : flags_(flags) {}

  absl::Status Run();

 private:
  absl::Status LoadModelAndData();
  absl::Status CompileModel();
  absl::Status Resume();
  absl::Status Loop();
  absl::Status OneStep(int64_t step);
  absl::Status Save();
  absl::StatusOr<EvaluationResult> EvaluateTest();
  absl::Status Finish();
  std::vector<Feed> Feeds(const Batch& batch) const;
  uint64_t ParamsHash() const;

  const TrainFlags& flags_;
  Model model_;
  ModelInputs inputs_;
  Dataset data_;
  std::optional<Batcher> train_, test_;
  int64_t steps_per_epoch_ = 0;
  int64_t total_steps_ = 0;
  std::optional<TrainSession> session_;
  std::optional<TrainingLog> log_;
  std::optional<Progress> progress_;
  ScaleHistory scales_;
  Batch batch_;
  std::vector<std::string> losses_;  // the outputs whose sum is minimised
  bool scaled_ = false;
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();
  int64_t skipped_ = 0;
  int64_t saved_at_ = -1;
};

absl::Status Trainer::LoadModelAndData() {
  DUOTONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags_.file, size_t{64} << 20));
  DUOTONE_ASSIGN_OR_RETURN(model_, ParseModel(text, flags_.file == "-" ? "<stdin>" : flags_.file));
  DUOTONE_ASSIGN_OR_RETURN(const passes::PassOptions passes, flags_.model.PassOptions());
  DUOTONE_ASSIGN_OR_RETURN(inputs_, InputsOf(model_, passes.graph));
  DataOptions options{.data_dir = flags_.data_dir};
  if (inputs_.specs[0].row_shape.size() == 1) options.window = inputs_.specs[0].row_shape[0];
  DUOTONE_ASSIGN_OR_RETURN(data_, LoadDataset(flags_.data, options));
  if (const std::optional<int64_t> classes = ClassesOf(model_, passes.graph);
      classes && data_.classes > *classes) {
    return InvalidArgument(
        "the data has labels up to %d, but the model's logits tell %d classes apart",
        data_.classes - 1, *classes);
  }
  const int64_t batch = inputs_.fixed_rows.value_or(flags_.batch);
  DUOTONE_ASSIGN_OR_RETURN(train_, Batcher::Create(data_.train, inputs_.specs, batch));
  if (data_.test) {
    DUOTONE_ASSIGN_OR_RETURN(test_, Batcher::Create(*data_.test, inputs_.specs, batch));
  }
  // A model of fixed size cannot take the last, smaller batch.
  steps_per_epoch_ = inputs_.fixed_rows ? train_->rows() / batch : train_->batches_per_epoch();
  if (steps_per_epoch_ == 0) {
    return InvalidArgument("the data has %d rows, fewer than the %d of the model's fixed batch",
                           train_->rows(), batch);
  }
  const int64_t epochs = flags_.epochs > 0 ? flags_.epochs : flags_.max_steps > 0 ? 0 : 1;
  if (epochs > std::numeric_limits<int64_t>::max() / steps_per_epoch_) {
    return UsageError(absl::StrFormat("--epochs=%d: too many", epochs));
  }
  total_steps_ = epochs > 0 ? epochs * steps_per_epoch_ : flags_.max_steps;
  return absl::OkStatus();
}

absl::Status Trainer::CompileModel() {
  DUOTONE_ASSIGN_OR_RETURN(const Options options, flags_.ToOptions(total_steps_));
  losses_ = options.losses;
  if (flags_.max_steps > 0) total_steps_ = std::min(total_steps_, flags_.max_steps);
  const auto start = Clock::now();
  DUOTONE_ASSIGN_OR_RETURN(session_, Compile(model_, options));
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const CompileReport& report = session_->report();
  scaled_ = options.loss_scale.kind == LossScale::Kind::kDynamic ||
            options.loss_scale.kind == LossScale::Kind::kStatic;
  if (!flags_.quiet) {
    std::fprintf(stderr, "data: %s\n%scompiled in %.2f s\n", data_.description.c_str(),
                 report.text.c_str(), seconds);
  }
  for (const DumpKind& kind : DumpKinds()) {
    if (!flags_.Dumps(kind.name)) continue;
    const int64_t batch = inputs_.fixed_rows.value_or(flags_.batch);
    DUOTONE_RETURN_IF_ERROR(WriteDump(kind, *session_, batch, flags_.dump_dir));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Resume() {
  if (!flags_.resume) return absl::OkStatus();
  if (!std::filesystem::exists(std::filesystem::path(flags_.checkpoint) / "latest")) {
    std::fprintf(stderr, "there is no checkpoint in %s yet: starting anew\n",
                 flags_.checkpoint.c_str());
    return absl::OkStatus();
  }
  DUOTONE_ASSIGN_OR_RETURN(const CheckpointInfo info, session_->LoadCheckpoint(flags_.checkpoint));
  auto counter = [&](const char* name) {
    auto it = info.extras.counters.find(name);
    return it == info.extras.counters.end() ? int64_t{-1} : it->second;
  };
  const int64_t batch = inputs_.fixed_rows.value_or(flags_.batch);
  if (counter("batch") != batch || counter("rows") != train_->rows()) {
    return InvalidArgument(
        "%s was saved with batches of %d of %d rows, not %d of %d: the position in the data would "
        "differ",
        info.path, counter("batch"), counter("rows"), batch, train_->rows());
  }
  saved_at_ = session_->step();
  if (const absl::StatusOr<Tensor> skipped = session_->GetState("skipped_steps"); skipped.ok())
    skipped_ = static_cast<int64_t>(skipped->Get(0));
  if (!flags_.quiet)
    std::fprintf(stderr, "resumed from %s at step %d\n", info.path.c_str(),
                 static_cast<int>(info.step));
  return absl::OkStatus();
}

std::vector<Feed> Trainer::Feeds(const Batch& batch) const {
  std::vector<Feed> feeds;
  for (size_t i = 0; i < inputs_.specs.size(); ++i) {
    const InputSpec& spec = inputs_.specs[i];
    Sizes shape{batch.rows};
    shape.insert(shape.end(), spec.row_shape.begin(), spec.row_shape.end());
    feeds.push_back({spec.name, TensorRef(batch.inputs[i].data(), spec.dtype, std::move(shape))});
  }
  return feeds;
}

absl::Status Trainer::Save() {
  if (flags_.checkpoint.empty() || saved_at_ == session_->step()) return absl::OkStatus();
  const CheckpointExtras extras{
      .counters = {{"batch", inputs_.fixed_rows.value_or(flags_.batch)}, {"rows", train_->rows()}}};
  DUOTONE_RETURN_IF_ERROR(session_->SaveCheckpoint(absl::StrCat(flags_.checkpoint, "/"), extras));
  saved_at_ = session_->step();
  return absl::OkStatus();
}

absl::Status Trainer::OneStep(int64_t step) {
  const auto start = Clock::now();
  train_->Shuffled(session_->seed(), step / steps_per_epoch_, step % steps_per_epoch_, batch_);
  DUOTONE_ASSIGN_OR_RETURN(const Metrics metrics, session_->Step(Feeds(batch_)));
  DUOTONE_RETURN_IF_ERROR(metrics.status());
  last_loss_ = metrics.loss();
  skipped_ = metrics.skipped_steps();
  if (scaled_) scales_.Add(step + 1, metrics.loss_scale());
  progress_->Count(batch_.rows);
  if (log_) {
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    DUOTONE_RETURN_IF_ERROR(log_->Write({.step = step + 1,
                                         .loss = metrics.loss(),
                                         .loss_scale = metrics.loss_scale(),
                                         .skipped = metrics.skipped(),
                                         .ms = ms}));
  }
  const bool end_of_epoch = (step + 1) % steps_per_epoch_ == 0 || step + 1 == total_steps_;
  if (progress_->Due(end_of_epoch)) {
    progress_->Show({.epoch = step / steps_per_epoch_ + 1,
                     .step_in_epoch = step % steps_per_epoch_ + 1,
                     .steps_per_epoch = steps_per_epoch_,
                     .steps_left = total_steps_ - step - 1,
                     .loss = last_loss_,
                     .loss_scale = metrics.loss_scale(),
                     .skipped_total = skipped_},
                    end_of_epoch);
  }
  const bool due = flags_.checkpoint_every > 0 ? (step + 1) % flags_.checkpoint_every == 0
                                               : (step + 1) % steps_per_epoch_ == 0;
  return due ? Save() : absl::OkStatus();
}

absl::Status Trainer::Loop() {
  if (!flags_.log.empty()) {
    DUOTONE_ASSIGN_OR_RETURN(log_, TrainingLog::Open(flags_.log, session_->step()));
  }
  progress_.emplace(scaled_, flags_.quiet);
  for (int64_t step = session_->step(); step < total_steps_ && !interrupted; ++step) {
    DUOTONE_RETURN_IF_ERROR(OneStep(step));
  }
  DUOTONE_RETURN_IF_ERROR(Save());
  if (!interrupted) return absl::OkStatus();
  const std::string note = flags_.checkpoint.empty() ? "" : "; --resume goes on from here";
  return absl::CancelledError(
      absl::StrFormat("interrupted after step %d of %d%s", session_->step(), total_steps_, note));
}

// Rows of `logits` whose largest entry is at the label; the first of equal ones counts, and a row
// that begins with NaN is wrong.
int64_t CountCorrect(const Tensor& logits, const std::vector<int64_t>& labels) {
  const int64_t classes = logits.shape().back();
  auto at = [&](int64_t i) -> double {
    switch (logits.dtype()) {
      case DType::kF64:
        return static_cast<const double*>(logits.data())[i];
      case DType::kF16:
        return ToF32(static_cast<const F16*>(logits.data())[i]);
      case DType::kBF16:
        return ToF32(static_cast<const BF16*>(logits.data())[i]);
      default:
        return static_cast<const float*>(logits.data())[i];
    }
  };
  int64_t correct = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    const int64_t begin = static_cast<int64_t>(row) * classes;
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) {
      if (at(begin + c) > at(begin + best)) best = c;
    }
    correct += best == labels[row] && !std::isnan(at(begin + best));
  }
  return correct;
}

// The labels of a batch, if its last input holds integers.
std::vector<int64_t> LabelsOf(const Batch& batch, const InputSpec& spec) {
  const std::vector<std::byte>& bytes = batch.inputs.back();
  std::vector<int64_t> labels;
  if (spec.dtype == DType::kI32) {
    const auto* values = reinterpret_cast<const int32_t*>(bytes.data());
    labels.assign(values, values + bytes.size() / sizeof(int32_t));
  } else if (spec.dtype == DType::kI64) {
    const auto* values = reinterpret_cast<const int64_t*>(bytes.data());
    labels.assign(values, values + bytes.size() / sizeof(int64_t));
  }
  return labels;
}

absl::StatusOr<EvaluationResult> Trainer::EvaluateTest() {
  EvaluationResult result;
  int64_t rows = 0, labels_seen = 0, correct = 0;
  const int64_t batches =
      inputs_.fixed_rows ? test_->rows() / *inputs_.fixed_rows : test_->batches_per_epoch();
  for (int64_t i = 0; i < batches; ++i) {
    if (interrupted) {
      return absl::CancelledError(
          absl::StrFormat("interrupted in the evaluation, after batch %d of %d", i, batches));
    }
    test_->InOrder(i, batch_);
    DUOTONE_ASSIGN_OR_RETURN(const Outputs outputs, session_->Evaluate(Feeds(batch_)));
    for (const std::string& name : losses_) {
      DUOTONE_ASSIGN_OR_RETURN(const double loss, outputs.Get(name));
      result.loss += loss * static_cast<double>(batch_.rows);
    }
    rows += batch_.rows;
    progress_->Count(batch_.rows);
    progress_->ShowEvaluation(i + 1, batches);
    const Tensor* logits = outputs.Find("logits");
    const std::vector<int64_t> labels = LabelsOf(batch_, inputs_.specs.back());
    if (logits == nullptr || !IsFloat(logits->dtype()) || logits->shape().empty()) continue;
    const int64_t classes = logits->shape().back();
    if (labels.empty() || classes == 0 ||
        logits->elements() / classes != static_cast<int64_t>(labels.size()))
      continue;
    correct += CountCorrect(*logits, labels);
    labels_seen += static_cast<int64_t>(labels.size());
  }
  if (rows > 0) result.loss /= static_cast<double>(rows);
  if (labels_seen > 0)
    result.accuracy = static_cast<double>(correct) / static_cast<double>(labels_seen);
  return result;
}

// FNV-1a over all parameters: two runs with the same hash ended with the same weights.
uint64_t Trainer::ParamsHash() const {
  uint64_t hash = kFnvOffset;
  for (const StateInfo& info : session_->States()) {
    if (info.kind != StateKind::kParam) continue;
    const absl::StatusOr<Tensor> value = session_->GetState(info.name);
    if (value.ok()) hash = Fnv1a({static_cast<const char*>(value->data()), value->bytes()}, hash);
  }
  return hash;
}

absl::Status Trainer::Finish() {
  nlohmann::ordered_json report = {{"schema", 1}, {"steps", session_->step()}};
  // JSON has no Inf and NaN; nlohmann writes them as null.
  report["final_loss"] = last_loss_;
  report["skipped"] = skipped_;
  report["flops_low_share"] = session_->report().flops_low_share;
  report["casts"] = session_->report().casts;
  report["params_hash"] = absl::StrFormat("%016x", ParamsHash());
  if (scaled_ && !flags_.quiet)
    std::fprintf(stderr, "loss scale: %s\n", scales_.ToString().c_str());
  if (test_) {
    DUOTONE_ASSIGN_OR_RETURN(const EvaluationResult result, EvaluateTest());
    const char* name = flags_.data.rfind("text:", 0) == 0 ? "validation_loss" : "test_loss";
    std::printf("%s %.4f\n", name, result.loss);
    report[name] = result.loss;
    if (result.accuracy) {
      std::printf("test_accuracy %.4f\n", *result.accuracy);
      report["test_accuracy"] = *result.accuracy;
    }
  }
  return flags_.json.empty() ? absl::OkStatus()
                             : WriteFileAtomically(flags_.json, JsonText(report));
}

absl::Status Trainer::Run() {
  DUOTONE_RETURN_IF_ERROR(LoadModelAndData());
  DUOTONE_RETURN_IF_ERROR(CompileModel());
  DUOTONE_RETURN_IF_ERROR(Resume());
  DUOTONE_RETURN_IF_ERROR(Loop());
  return Finish();
}

}  // namespace

std::function<absl::Status()> DeclareTrain(CLI::App& app) {
  auto flags = std::make_shared<TrainFlags>();
  flags->Declare(app);
  return [flags]() -> absl::Status {
    DUOTONE_RETURN_IF_ERROR(flags->Check());
    return Trainer(*flags).Run();
  };
}

}  // namespace duotone::tools
