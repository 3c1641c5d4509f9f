#include "duotone/options.h"

#include <charconv>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/gpu_target.h"
#include "base/status.h"
#include "duotone/translate_options.h"
#include "ir/op_def.h"
#include "passes/registry.h"
#include "runtime/cuda/driver.h"
#include "runtime/emulator/options.h"

namespace duotone {
namespace {

absl::Status CheckFinite(std::string_view what, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return InvalidArgument("%s must be a finite number, not %g", what, value);
}

absl::Status CheckNotNegative(std::string_view what, double value) {
  DUOTONE_RETURN_IF_ERROR(CheckFinite(what, value));
  if (value >= 0) return absl::OkStatus();
  return InvalidArgument("%s must not be negative, and is %g", what, value);
}

absl::Status CheckPositive(std::string_view what, double value) {
  DUOTONE_RETURN_IF_ERROR(CheckFinite(what, value));
  if (value > 0) return absl::OkStatus();
  return InvalidArgument("%s must be above 0, and is %g", what, value);
}

absl::Status CheckAutocast(const AutocastOptions& autocast) {
  if (autocast.dtype && !IsLow(*autocast.dtype)) {
    return InvalidArgument("autocast.dtype must be f16 or bf16, not %s",
                           DTypeName(*autocast.dtype));
  }
  for (const PrecisionOverride& override : autocast.overrides) {
    if (override.op.empty() == override.pattern.empty()) {
      return InvalidArgument(
          "autocast.overrides: an override names an op or a pattern, but op is '%s' and pattern is "
          "'%s'",
          override.op, override.pattern);
    }
    if (!override.op.empty() && !ir::OpFromName(override.op)) {
      return InvalidArgument("autocast.overrides: there is no op '%s'", override.op);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLossScale(const LossScale& scale) {
  if (scale.kind == LossScale::Kind::kOff) return absl::OkStatus();
  DUOTONE_RETURN_IF_ERROR(CheckPositive("loss_scale.init_scale", scale.init_scale));
  const float narrow = static_cast<float>(scale.init_scale);
  if (!std::isfinite(narrow) || narrow == 0 || !std::isfinite(1.0f / narrow)) {
    return InvalidArgument("loss_scale.init_scale %g or its inverse does not fit f32",
                           scale.init_scale);
  }
  if (scale.kind == LossScale::Kind::kStatic) return absl::OkStatus();
  DUOTONE_RETURN_IF_ERROR(CheckFinite("loss_scale.growth_factor", scale.growth_factor));
  if (scale.growth_factor <= 1) {
    return InvalidArgument("loss_scale.growth_factor must be above 1, and is %g",
                           scale.growth_factor);
  }
  DUOTONE_RETURN_IF_ERROR(CheckPositive("loss_scale.backoff_factor", scale.backoff_factor));
  if (scale.backoff_factor >= 1) {
    return InvalidArgument("loss_scale.backoff_factor must be below 1, and is %g",
                           scale.backoff_factor);
  }
  if (scale.growth_interval < 1) {
    return InvalidArgument("loss_scale.growth_interval must be at least 1, and is %d",
                           scale.growth_interval);
  }
  DUOTONE_RETURN_IF_ERROR(CheckNotNegative("loss_scale.min_scale", scale.min_scale));
  if (std::isnan(scale.max_scale) || scale.max_scale <= 0 || scale.max_scale < scale.min_scale) {
    return InvalidArgument(
        "loss_scale.max_scale must be above 0 and not below min_scale %g, and is %g",
        scale.min_scale, scale.max_scale);
  }
  if (scale.init_scale < scale.min_scale || scale.init_scale > scale.max_scale) {
    return InvalidArgument("loss_scale.init_scale %g is outside [min_scale %g, max_scale %g]",
                           scale.init_scale, scale.min_scale, scale.max_scale);
  }
  return absl::OkStatus();
}

absl::Status CheckSchedule(const Schedule& schedule) {
  if (schedule.warmup_steps < 0) {
    return InvalidArgument("schedule.warmup_steps must not be negative, and is %d",
                           schedule.warmup_steps);
  }
  DUOTONE_RETURN_IF_ERROR(CheckNotNegative("schedule.final_lr", schedule.final_lr));
  if (schedule.kind == Schedule::Kind::kConstant) return absl::OkStatus();
  if (schedule.total_steps <= schedule.warmup_steps) {
    return InvalidArgument(
        "schedule.total_steps must be above warmup_steps %d, and is %d (the length of the "
        "schedule, "
        "which stopping early does not change)",
        schedule.warmup_steps, schedule.total_steps);
  }
  return absl::OkStatus();
}

absl::Status CheckRate(std::string_view what, double value) {
  DUOTONE_RETURN_IF_ERROR(CheckFinite(what, value));
  if (value >= 0 && value < 1) return absl::OkStatus();
  return InvalidArgument("%s must be in [0, 1), and is %g", what, value);
}

absl::Status CheckOptimizer(const passes::OptimizerOptions& optimizer) {
  DUOTONE_RETURN_IF_ERROR(CheckNotNegative("lr", optimizer.lr));
  DUOTONE_RETURN_IF_ERROR(CheckNotNegative("weight_decay", optimizer.weight_decay));
  DUOTONE_RETURN_IF_ERROR(CheckRate("momentum", optimizer.momentum));
  if (optimizer.nesterov && optimizer.momentum == 0) {
    return InvalidArgument("nesterov needs a momentum above 0");
  }
  DUOTONE_RETURN_IF_ERROR(CheckRate("beta1", optimizer.beta1));
  DUOTONE_RETURN_IF_ERROR(CheckRate("beta2", optimizer.beta2));
  DUOTONE_RETURN_IF_ERROR(CheckPositive("eps", optimizer.eps));
  if (static_cast<float>(optimizer.eps) == 0) {
    return InvalidArgument("eps %g becomes 0 in f32", optimizer.eps);
  }
  return absl::OkStatus();
}

passes::ScheduleOptions ToPassSchedule(const Schedule& schedule) {
  constexpr const char* kNames[] = {"constant", "linear", "cosine"};
  return {.kind = kNames[static_cast<int>(schedule.kind)],
          .final_lr = schedule.final_lr,
          .warmup_steps = schedule.warmup_steps,
          .total_steps = schedule.total_steps};
}

// The fields that all optimizers have.
template <typename T>
passes::OptimizerOptions CommonOf(const T& optimizer, passes::OptimizerOptions::Kind kind) {
  passes::OptimizerOptions result;
  result.kind = kind;
  result.name = optimizer.name;
  result.params = optimizer.params;
  result.lr = optimizer.lr;
  result.weight_decay = optimizer.weight_decay;
  result.schedule = ToPassSchedule(optimizer.schedule);
  return result;
}

template <typename T>
passes::OptimizerOptions AdamOf(const T& adam, passes::OptimizerOptions::Kind kind) {
  passes::OptimizerOptions result = CommonOf(adam, kind);
  result.beta1 = adam.beta1;
  result.beta2 = adam.beta2;
  result.eps = adam.eps;
  return result;
}

passes::OptimizerOptions ToPassOptimizer(const Optimizer& optimizer) {
  using Kind = passes::OptimizerOptions::Kind;
  if (const auto* adamw = std::get_if<AdamW>(&optimizer)) return AdamOf(*adamw, Kind::kAdamW);
  if (const auto* adam = std::get_if<Adam>(&optimizer)) return AdamOf(*adam, Kind::kAdam);
  const Sgd& sgd = std::get<Sgd>(optimizer);
  passes::OptimizerOptions result = CommonOf(sgd, Kind::kSgd);
  result.momentum = sgd.momentum;
  result.nesterov = sgd.nesterov;
  return result;
}

ir::Tone ToPassTone(Tone tone) {
  switch (tone) {
    case Tone::kAllow:
      return ir::Tone::kAllow;
    case Tone::kInfer:
      return ir::Tone::kInfer;
    case Tone::kClear:
      return ir::Tone::kClear;
    case Tone::kDeny:
      return ir::Tone::kDeny;
  }
  return ir::Tone::kUnset;
}

passes::LossScaleOptions ToPassLossScale(const Options& options) {
  using Kind = passes::LossScaleOptions::Kind;
  const LossScale& scale = options.loss_scale;
  passes::LossScaleOptions result{.init_scale = scale.init_scale,
                                  .growth_factor = scale.growth_factor,
                                  .backoff_factor = scale.backoff_factor,
                                  .growth_interval = scale.growth_interval,
                                  .min_scale = scale.min_scale,
                                  .max_scale = scale.max_scale,
                                  .skip_nonfinite = options.skip_nonfinite};
  switch (scale.kind) {
    case LossScale::Kind::kAuto:
      result.kind = options.autocast.dtype == DType::kF16 ? Kind::kDynamic : Kind::kOff;
      break;
    case LossScale::Kind::kOff:
      result.kind = Kind::kOff;
      break;
    case LossScale::Kind::kStatic:
      result.kind = Kind::kStatic;
      break;
    case LossScale::Kind::kDynamic:
      result.kind = Kind::kDynamic;
      break;
  }
  return result;
}

absl::Status CheckDevice(const Device& device) {
  if (const std::optional<std::string_view> emulated = device.emulated()) {
    const absl::Status known = emulator::ParseEmulatorOptions(*emulated).status();
    if (known.ok()) return absl::OkStatus();
    return InvalidArgument("there is no device '%s': %s", device.name(),
                           std::string(known.message()));
  }
  if (device.name() == "cpu" || device.name() == "reference" || device.cuda_ordinal()) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "there is no device '%s'; this build has cpu, reference, emulated:sm_80 and other "
      "architectures, and cuda:0, cuda:1, ... where there is a GPU",
      device.name());
}

}  // namespace

std::optional<int> Device::cuda_ordinal() const {
  constexpr std::string_view kPrefix = "cuda:";
  if (!name_.starts_with(kPrefix)) return std::nullopt;
  int ordinal = -1;
  const char* end = name_.data() + name_.size();
  const auto [stop, error] = std::from_chars(name_.data() + kPrefix.size(), end, ordinal);
  if (error != std::errc() || stop != end || ordinal < 0) return std::nullopt;
  return ordinal;
}

std::optional<std::string_view> Device::emulated() const {
  constexpr std::string_view kPrefix = "emulated:";
  if (!std::string_view(name_).starts_with(kPrefix)) return std::nullopt;
  return std::string_view(name_).substr(kPrefix.size());
}

std::vector<std::string> Device::Available() {
  std::vector<std::string> names = {"cpu", "reference"};
  const auto driver = runtime::LoadDriver();
  int count = 0;
  if (driver.ok() && (*driver)->DeviceGetCount(&count) == runtime::kCuSuccess) {
    for (int i = 0; i < count; ++i) names.push_back(absl::StrCat("cuda:", i));
  }
  for (const GpuTarget& target : AllGpuTargets()) {
    names.push_back(Emulated(target.name).name());
  }
  return names;
}

passes::PassOptions ToPassOptions(const Options& options) {
  passes::PassOptions result;
  result.graph = options.graph;
  result.losses = options.losses;
  result.autocast.dtype = options.autocast.dtype;
  result.autocast.policy = options.autocast.policy == CastPolicy::kPyTorch
                               ? passes::CastPolicy::kPyTorch
                               : passes::CastPolicy::kOptimal;
  result.autocast.torch_device = options.autocast.torch_device == TorchDevice::kCpu
                                     ? passes::TorchDevice::kCpu
                                     : passes::TorchDevice::kCuda;
  for (const PrecisionOverride& override : options.autocast.overrides) {
    passes::PrecisionOverride converted{.pattern = override.pattern,
                                        .tone = ToPassTone(override.tone)};
    if (!override.op.empty()) converted.op = ir::OpFromName(override.op);
    result.autocast.overrides.push_back(std::move(converted));
  }
  result.loss_scale = ToPassLossScale(options);
  for (size_t i = 0; i < options.optimizers.size(); ++i) {
    passes::OptimizerOptions optimizer = ToPassOptimizer(options.optimizers[i]);
    if (optimizer.name.empty()) {
      optimizer.name =
          options.optimizers.size() == 1 ? "optimizer" : absl::StrFormat("optimizer%d", i);
    }
    result.optimizers.push_back(std::move(optimizer));
  }
  return result;
}

absl::Status CheckOptions(const Options& options) {
  DUOTONE_RETURN_IF_ERROR(CheckAutocast(options.autocast));
  DUOTONE_RETURN_IF_ERROR(CheckLossScale(options.loss_scale));
  if (options.max_consecutive_skips < 0) {
    return InvalidArgument("max_consecutive_skips must not be negative, and is %d",
                           options.max_consecutive_skips);
  }
  if (options.optimizers.empty()) {
    return InvalidArgument("optimizers is empty: nothing would be trained; add AdamW{} or Sgd{}");
  }
  const passes::PassOptions translated = ToPassOptions(options);
  for (size_t i = 0; i < options.optimizers.size(); ++i) {
    DUOTONE_RETURN_IF_ERROR(CheckOptimizer(translated.optimizers[i])).With("optimizers[%d]", i);
    const Schedule& schedule = std::visit(
        [](const auto& o) -> const Schedule& { return o.schedule; }, options.optimizers[i]);
    DUOTONE_RETURN_IF_ERROR(CheckSchedule(schedule)).With("optimizers[%d]", i);
  }
  if (options.losses.empty()) return InvalidArgument("losses is empty: name an output to minimise");
  DUOTONE_RETURN_IF_ERROR(CheckDevice(options.device));
  if (options.threads < 0 || options.threads > 4096) {
    return InvalidArgument("threads must be in [0, 4096], and is %d", options.threads);
  }
  for (const std::string& pass : options.dump.print_after) {
    const bool known = pass == "*" || pass == "change" || passes::FindPass(pass) != nullptr;
    if (!known) return InvalidArgument("dump.print_after: there is no pass '%s'", pass);
  }
  return absl::OkStatus();
}

}  // namespace duotone
