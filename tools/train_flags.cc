#include "tools/train_flags.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "passes/options.h"
#include "tools/command.h"
#include "tools/data/dataset.h"
#include "tools/dumps.h"

namespace duotone::tools {
namespace {

LossScale ToLossScale(const passes::LossScaleOptions& from) {
  LossScale to;
  switch (from.kind) {
    case passes::LossScaleOptions::Kind::kOff:
      to.kind = LossScale::Kind::kOff;
      break;
    case passes::LossScaleOptions::Kind::kStatic:
      to.kind = LossScale::Kind::kStatic;
      break;
    case passes::LossScaleOptions::Kind::kDynamic:
      to.kind = LossScale::Kind::kDynamic;
      break;
  }
  to.init_scale = from.init_scale;
  to.growth_factor = from.growth_factor;
  to.backoff_factor = from.backoff_factor;
  to.growth_interval = from.growth_interval;
  to.min_scale = from.min_scale;
  to.max_scale = from.max_scale;
  return to;
}

absl::StatusOr<Schedule> ToSchedule(const passes::ScheduleOptions& from, int64_t total_steps) {
  Schedule to{.warmup_steps = from.warmup_steps, .final_lr = from.final_lr};
  if (from.kind == "constant") return to;
  if (from.kind != "linear" && from.kind != "cosine") {
    return UsageError(
        absl::StrFormat("--schedule=%s: known are constant, linear and cosine", from.kind));
  }
  to.kind = from.kind == "linear" ? Schedule::Kind::kLinear : Schedule::Kind::kCosine;
  to.total_steps = from.total_steps > 0 ? from.total_steps : total_steps;
  return to;
}

absl::StatusOr<Optimizer> ToOptimizer(const passes::OptimizerOptions& from, int64_t total_steps) {
  DUOTONE_ASSIGN_OR_RETURN(const Schedule schedule, ToSchedule(from.schedule, total_steps));
  auto with_common = [&](auto to) -> Optimizer {
    to.lr = from.lr;
    to.weight_decay = from.weight_decay;
    to.schedule = schedule;
    to.params = from.params;
    to.name = from.name;
    return to;
  };
  switch (from.kind) {
    case passes::OptimizerOptions::Kind::kSgd:
      return with_common(Sgd{.momentum = from.momentum, .nesterov = from.nesterov});
    case passes::OptimizerOptions::Kind::kAdam:
      return with_common(Adam{.beta1 = from.beta1, .beta2 = from.beta2, .eps = from.eps});
    case passes::OptimizerOptions::Kind::kAdamW:
      return with_common(AdamW{.beta1 = from.beta1, .beta2 = from.beta2, .eps = from.eps});
  }
  return UsageError("--optimizer: unknown kind");
}

Tone ToTone(ir::Tone tone) {
  switch (tone) {
    case ir::Tone::kAllow:
      return Tone::kAllow;
    case ir::Tone::kInfer:
      return Tone::kInfer;
    case ir::Tone::kClear:
      return Tone::kClear;
    case ir::Tone::kUnset:
    case ir::Tone::kDeny:
    case ir::Tone::kFixed:
      return Tone::kDeny;
  }
  return Tone::kDeny;
}

AutocastOptions ToAutocast(const passes::AutocastOptions& from) {
  AutocastOptions to{.dtype = from.dtype};
  to.policy =
      from.policy == passes::CastPolicy::kOptimal ? CastPolicy::kOptimal : CastPolicy::kPyTorch;
  to.torch_device =
      from.torch_device == passes::TorchDevice::kCuda ? TorchDevice::kCuda : TorchDevice::kCpu;
  for (const passes::PrecisionOverride& rule : from.overrides) {
    to.overrides.push_back({.op = rule.op ? std::string(ir::OpName(*rule.op)) : "",
                            .pattern = rule.pattern,
                            .tone = ToTone(rule.tone)});
  }
  return to;
}

}  // namespace

void TrainFlags::Declare(CLI::App& app) {
  app.add_option("FILE", file, "The .duo model; - is the standard input")->required();
  app.add_option("--data", data, "The data set:\n" + DataSpecHelp())->required()->type_name("SPEC");
  app.add_option("--data-dir", data_dir, "The folder of fashion-mnist's files");
  app.add_option("--batch", batch, "Rows per step")
      ->capture_default_str()
      ->type_name("N")
      ->check(WholeNumber(1));
  app.add_option("--epochs", epochs, "Times the data is gone through (default 1)")
      ->type_name("N")
      ->check(WholeNumber(1));
  app.add_option("--max-steps", max_steps,
                 "Stop after so many steps; a schedule keeps its own length")
      ->type_name("N")
      ->check(WholeNumber(1));
  app.add_option("--log", log, "A row per step: step, loss, loss_scale, skipped, ms")
      ->type_name("F.csv|F.jsonl");
  app.add_option("--json", json, "Results as JSON")->type_name("FILE");
  app.add_option("--checkpoint", checkpoint,
                 "Where checkpoints are saved, at each epoch's end and on Ctrl-C")
      ->type_name("DIR");
  app.add_option("--checkpoint-every", checkpoint_every, "Save every N steps instead")
      ->type_name("N")
      ->check(WholeNumber(1));
  app.add_flag("--resume", resume, "Go on from the newest checkpoint, if there is one");
  app.add_option("--seed", seed, "Of initial values, row order and random ops")
      ->type_name("N")
      ->capture_default_str()
      ->check(WholeNumber(0));
  app.add_option("--threads", threads,
                 "0: as many as the hardware runs; results do not depend on it")
      ->type_name("N")
      ->check(WholeNumber(0));
  app.add_option("--device", device,
                 "cpu, reference, cuda:N or emulated:sm_80 (see `duotone devices`)")
      ->capture_default_str();
  app.add_flag("--exact", exact, "Every node by the reference evaluator, rounded at every node");
  app.add_flag("--deterministic", deterministic, "No effect on these devices: they always are");
  app.add_option("--max-consecutive-skips", max_consecutive_skips,
                 "Fail after so many skipped steps in a row; 0: never")
      ->type_name("N")
      ->check(WholeNumber(0));
  std::string kinds;
  for (const DumpKind& kind : DumpKinds())
    kinds += absl::StrFormat("\n  %-7s %s", kind.name, kind.doc);
  app.add_option("--dump", dump, "What to write down, separated by commas:" + kinds)
      ->delimiter(',')
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--dump-dir", dump_dir, "Where dumps go")->capture_default_str();
  app.add_flag("-q,--quiet", quiet, "No report and no progress");
  model.Declare(app);
}

bool TrainFlags::Dumps(std::string_view kind) const {
  return std::find(dump.begin(), dump.end(), kind) != dump.end();
}

absl::Status TrainFlags::Check() const {
  for (const std::string& kind : dump) {
    if (std::none_of(DumpKinds().begin(), DumpKinds().end(),
                     [&](const DumpKind& k) { return k.name == kind; })) {
      return UsageError(absl::StrFormat(
          "--dump=%s: train can write %s", kind,
          absl::StrJoin(DumpKinds(), " and ",
                        [](std::string* out, const DumpKind& k) { out->append(k.name); })));
    }
  }
  // Found before the data is read.
  DUOTONE_ASSIGN_OR_RETURN(const passes::PassOptions options, model.PassOptions());
  if (options.keep_gradients) {
    return UsageError("--keep-gradients: train has no use for them; opt shows them");
  }
  if (resume && checkpoint.empty()) return UsageError("--resume needs --checkpoint=DIR");
  if (checkpoint_every > 0 && checkpoint.empty())
    return UsageError("--checkpoint-every needs --checkpoint=DIR");
  return absl::OkStatus();
}

absl::StatusOr<Options> TrainFlags::ToOptions(int64_t total_steps) const {
  DUOTONE_ASSIGN_OR_RETURN(const passes::PassOptions from, model.PassOptions());
  Options options;
  options.autocast = ToAutocast(from.autocast);
  options.loss_scale = ToLossScale(from.loss_scale);
  options.skip_nonfinite = from.loss_scale.skip_nonfinite;
  options.max_consecutive_skips = max_consecutive_skips;
  for (const passes::OptimizerOptions& optimizer : from.optimizers) {
    DUOTONE_ASSIGN_OR_RETURN(Optimizer converted, ToOptimizer(optimizer, total_steps));
    options.optimizers.push_back(std::move(converted));
  }
  options.losses = from.losses;
  options.graph = from.graph;
  options.device = Device(device);
  if (!quiet) {
    options.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  }
  options.threads = threads;
  options.seed = seed;
  options.exact = exact;
  const absl::Status status = CheckOptions(options);
  if (!status.ok()) return UsageError(std::string(status.message()));
  return options;
}

}  // namespace duotone::tools
