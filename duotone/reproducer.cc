#include "duotone/reproducer.h"

#include <concepts>
#include <filesystem>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "ir/text.h"
#include "passes/options_text.h"

namespace duotone::internal {
namespace {

// Collects "key=value" for values that differ from the default.
class Pairs {
 public:
  void Add(std::string_view key, std::string_view value, std::string_view default_value = "") {
    if (value != default_value) pairs_.push_back(absl::StrFormat("%s=%s", key, value));
  }
  void Add(std::string_view key, double value, double default_value) {
    // The shortest text that reads back the same.
    std::string text = absl::StrFormat("%g", value);
    if (double read; !absl::SimpleAtod(text, &read) || read != value) {
      text = absl::StrFormat("%.17g", value);
    }
    if (value != default_value) pairs_.push_back(absl::StrFormat("%s=%s", key, text));
  }
  void Add(std::string_view key, int64_t value, int64_t default_value) {
    if (value != default_value) pairs_.push_back(absl::StrFormat("%s=%d", key, value));
  }
  // No conversion: a string literal would become true.
  template <std::same_as<bool> T>
  void Add(std::string_view key, T value, T default_value) {
    if (value != default_value) {
      pairs_.push_back(absl::StrFormat("%s=%s", key, value ? "true" : "false"));
    }
  }
  std::string Text() const { return absl::StrJoin(pairs_, " "); }

 private:
  std::vector<std::string> pairs_;
};

void AddAutocast(const passes::AutocastOptions& autocast, Pairs& pairs) {
  if (autocast.dtype) pairs.Add("dtype", DTypeName(*autocast.dtype));
  if (autocast.policy == passes::CastPolicy::kPyTorch) pairs.Add("policy", "pytorch");
  if (autocast.torch_device == passes::TorchDevice::kCpu) pairs.Add("device", "cpu");
  for (const passes::PrecisionOverride& override : autocast.overrides) {
    pairs.Add(override.op ? absl::StrFormat("op:%s", ir::OpName(*override.op))
                          : absl::StrFormat("name:%s", override.pattern),
              ir::ToneName(override.tone));
  }
}

void AddLossScale(const passes::LossScaleOptions& scale, Pairs& pairs) {
  constexpr const char* kKinds[] = {"off", "static", "dynamic"};
  const passes::LossScaleOptions defaults;
  pairs.Add("loss_scale", kKinds[static_cast<int>(scale.kind)], "off");
  pairs.Add("init_scale", scale.init_scale, defaults.init_scale);
  pairs.Add("growth_factor", scale.growth_factor, defaults.growth_factor);
  pairs.Add("backoff_factor", scale.backoff_factor, defaults.backoff_factor);
  pairs.Add("growth_interval", scale.growth_interval, defaults.growth_interval);
  pairs.Add("min_scale", scale.min_scale, defaults.min_scale);
  pairs.Add("max_scale", scale.max_scale, defaults.max_scale);
  pairs.Add("skip_nonfinite", scale.skip_nonfinite, defaults.skip_nonfinite);
}

void AddOptimizer(const passes::OptimizerOptions& optimizer, size_t index, Pairs& pairs) {
  constexpr const char* kKinds[] = {"sgd", "adam", "adamw"};
  const passes::OptimizerOptions defaults = passes::DefaultOptimizer(optimizer.kind, index);
  pairs.Add("optimizer", kKinds[static_cast<int>(optimizer.kind)]);
  pairs.Add("optimizer_name", optimizer.name, defaults.name);
  pairs.Add("params", optimizer.params, defaults.params);
  pairs.Add("lr", optimizer.lr, defaults.lr);
  pairs.Add("weight_decay", optimizer.weight_decay, defaults.weight_decay);
  pairs.Add("momentum", optimizer.momentum, defaults.momentum);
  pairs.Add("nesterov", optimizer.nesterov, defaults.nesterov);
  pairs.Add("beta1", optimizer.beta1, defaults.beta1);
  pairs.Add("beta2", optimizer.beta2, defaults.beta2);
  pairs.Add("eps", optimizer.eps, defaults.eps);
  pairs.Add("schedule", optimizer.schedule.kind, defaults.schedule.kind);
  pairs.Add("final_lr", optimizer.schedule.final_lr, defaults.schedule.final_lr);
  pairs.Add("warmup_steps", optimizer.schedule.warmup_steps, defaults.schedule.warmup_steps);
  pairs.Add("total_steps", optimizer.schedule.total_steps, defaults.schedule.total_steps);
}

}  // namespace

std::string OptionsText(const passes::PassOptions& options) {
  Pairs pairs;
  pairs.Add("graph", options.graph);
  pairs.Add("losses", absl::StrJoin(options.losses, ","), "loss");
  AddAutocast(options.autocast, pairs);
  AddLossScale(options.loss_scale, pairs);
  for (size_t i = 0; i < options.optimizers.size(); ++i) {
    AddOptimizer(options.optimizers[i], i, pairs);
  }
  pairs.Add("keep_gradients", options.keep_gradients, false);
  return pairs.Text();
}

absl::Status LeaveReproducer(absl::Status error, const ir::Module& model,
                             const passes::PassOptions& options, const std::string& directory) {
  if (error.ok() || directory.empty()) return error;
  const std::string options_text = OptionsText(options);
  const std::string text =
      absl::StrFormat("// %s\n// RUN: --pipeline=train %s\n%s",
                      absl::StrReplaceAll(std::string(error.message()), {{"\n", "\n// "}}),
                      options_text, ir::Print(model));
  const std::string name = absl::StrFormat("duotone-repro-%016x.duo", Fnv1a(text));
  const std::string path = (std::filesystem::path(directory) / name).string();
  const absl::Status written = WriteFileAtomically(path, text);
  const std::string where =
      written.ok()
          ? absl::StrFormat(
                "the compilation that failed is in %s; to repeat it: "
                "duotone opt --pipeline=train --options='%s' %s",
                path, options_text, path)
          : absl::StrFormat("no reproducer was written: %s", std::string(written.message()));
  return absl::Status(error.code(),
                      absl::StrFormat("%s\n(%s)", std::string(error.message()), where));
}

}  // namespace duotone::internal
