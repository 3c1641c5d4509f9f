#include "passes/options_text.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace duotone::passes {
namespace {

using ir::Tone;

absl::Status SetDouble(double& to, std::string_view value) {
  if (absl::SimpleAtod(std::string(value), &to)) return absl::OkStatus();
  return InvalidArgument("'%s' is no number", value);
}

absl::Status SetInt(int64_t& to, std::string_view value) {
  if (absl::SimpleAtoi(std::string(value), &to)) return absl::OkStatus();
  return InvalidArgument("'%s' is no integer", value);
}

absl::Status SetBool(bool& to, std::string_view value) {
  if (value != "true" && value != "false")
    return InvalidArgument("'%s' is not true or false", value);
  to = value == "true";
  return absl::OkStatus();
}

template <typename T>
using Choices = std::initializer_list<std::pair<std::string_view, T>>;

template <typename T, typename U>
absl::Status SetChoice(T& to, std::string_view value, Choices<U> choices) {
  for (const auto& [name, choice] : choices) {
    if (name == value) {
      to = choice;
      return absl::OkStatus();
    }
  }
  return InvalidArgument("'%s' is unknown; known: %s", value,
                         absl::StrJoin(choices, ", ", [](std::string* out, const auto& choice) {
                           out->append(choice.first);
                         }));
}

absl::Status SetLoss(PassOptions& o, std::string_view v) {
  o.losses = absl::StrSplit(std::string(v), ',');
  return absl::OkStatus();
}

absl::Status SetDType(PassOptions& o, std::string_view v) {
  return SetChoice<std::optional<DType>, std::optional<DType>>(
      o.autocast.dtype, v, {{"off", std::nullopt}, {"f16", DType::kF16}, {"bf16", DType::kBF16}});
}

using Kind = OptimizerOptions::Kind;
absl::Status BeginOptimizer(PassOptions& o, std::string_view v) {
  Kind kind = Kind::kAdamW;
  DUOTONE_RETURN_IF_ERROR((SetChoice<Kind, Kind>(
      kind, v, {{"sgd", Kind::kSgd}, {"adam", Kind::kAdam}, {"adamw", Kind::kAdamW}})));
  o.optimizers.push_back(DefaultOptimizer(kind, o.optimizers.size()));
  return absl::OkStatus();
}

// A key that sets `member` of the last optimizer through `fn`.
template <auto member, auto fn>
absl::Status OfOptimizer(PassOptions& o, std::string_view v) {
  if (o.optimizers.empty()) return InvalidArgument("write optimizer=sgd|adam|adamw first");
  return fn(o.optimizers.back().*member, v);
}

// The same for keys that only sgd, or only adam and adamw have.
template <auto member, auto fn>
absl::Status OfSgd(PassOptions& o, std::string_view v) {
  if (!o.optimizers.empty() && o.optimizers.back().kind != Kind::kSgd)
    return InvalidArgument("only sgd has it; write optimizer=sgd first");
  return OfOptimizer<member, fn>(o, v);
}

template <auto member, auto fn>
absl::Status OfAdam(PassOptions& o, std::string_view v) {
  if (!o.optimizers.empty() && o.optimizers.back().kind == Kind::kSgd)
    return InvalidArgument("sgd has no such option");
  return OfOptimizer<member, fn>(o, v);
}

template <auto member, auto fn>
absl::Status OfSchedule(PassOptions& o, std::string_view v) {
  if (o.optimizers.empty()) return InvalidArgument("write optimizer=sgd|adam|adamw first");
  return fn(o.optimizers.back().schedule.*member, v);
}

template <auto member, auto fn>
absl::Status OfLossScale(PassOptions& o, std::string_view v) {
  return fn(o.loss_scale.*member, v);
}

absl::Status SetString(std::string& to, std::string_view value) {
  to = std::string(value);
  return absl::OkStatus();
}

using LS = LossScaleOptions;
using OO = OptimizerOptions;
using SO = ScheduleOptions;

constexpr OptionKey kKeys[] = {
    {"graph", "NAME", "", "the forward graph that is trained",
     [](PassOptions& o, std::string_view v) { return SetString(o.graph, v); }},
    {"losses", "NAME,...", "loss", "the outputs whose sum is minimised", SetLoss},
    {"dtype", "off|f16|bf16", "off", "autocast's 16-bit type", SetDType},
    {"policy", "optimal|pytorch", "optimal", "autocast's cast policy",
     [](PassOptions& o, std::string_view v) {
       return SetChoice<CastPolicy, CastPolicy>(
           o.autocast.policy, v,
           {{"optimal", CastPolicy::kOptimal}, {"pytorch", CastPolicy::kPyTorch}});
     }},
    {"device", "cuda|cpu", "cuda", "whose lists policy=pytorch follows",
     [](PassOptions& o, std::string_view v) {
       return SetChoice<TorchDevice, TorchDevice>(
           o.autocast.torch_device, v, {{"cuda", TorchDevice::kCuda}, {"cpu", TorchDevice::kCpu}});
     }},
    {"loss_scale", "off|static|dynamic", "off", "the kind of loss scaling",
     [](PassOptions& o, std::string_view v) {
       return SetChoice<LS::Kind, LS::Kind>(o.loss_scale.kind, v,
                                            {{"off", LS::Kind::kOff},
                                             {"static", LS::Kind::kStatic},
                                             {"dynamic", LS::Kind::kDynamic}});
     }},
    {"init_scale", "NUMBER", "65536", "the first scale", OfLossScale<&LS::init_scale, SetDouble>},
    {"growth_factor", "NUMBER", "2", "factor after growth_interval good steps",
     OfLossScale<&LS::growth_factor, SetDouble>},
    {"backoff_factor", "NUMBER", "0.5", "factor after a skipped step",
     OfLossScale<&LS::backoff_factor, SetDouble>},
    {"growth_interval", "INTEGER", "2000", "good steps before the scale grows",
     OfLossScale<&LS::growth_interval, SetInt>},
    {"min_scale", "NUMBER", "0", "floor of the scale", OfLossScale<&LS::min_scale, SetDouble>},
    {"max_scale", "NUMBER", "inf", "ceiling of the scale", OfLossScale<&LS::max_scale, SetDouble>},
    {"skip_nonfinite", "true|false", "true", "guard updates also without scaling",
     OfLossScale<&LS::skip_nonfinite, SetBool>},
    {"optimizer", "sgd|adam|adamw", "", "begins an optimizer", BeginOptimizer},
    {"optimizer_name", "NAME", "optimizer", "prefix of its state",
     OfOptimizer<&OO::name, SetString>},
    {"params", "REGEX", ".*", "the parameters it owns", OfOptimizer<&OO::params, SetString>},
    {"lr", "NUMBER", "0.001", "learning rate", OfOptimizer<&OO::lr, SetDouble>},
    {"weight_decay", "NUMBER", "", "weight decay (adamw: 0.01, others: 0)",
     OfOptimizer<&OO::weight_decay, SetDouble>},
    {"momentum", "NUMBER", "0", "momentum of sgd", OfSgd<&OO::momentum, SetDouble>},
    {"nesterov", "true|false", "false", "Nesterov's momentum of sgd",
     OfSgd<&OO::nesterov, SetBool>},
    {"beta1", "NUMBER", "0.9", "decay of adam's first moment", OfAdam<&OO::beta1, SetDouble>},
    {"beta2", "NUMBER", "0.999", "decay of adam's second moment", OfAdam<&OO::beta2, SetDouble>},
    {"eps", "NUMBER", "1e-08", "adam's eps", OfAdam<&OO::eps, SetDouble>},
    {"schedule", "constant|linear|cosine", "constant", "learning-rate schedule",
     OfSchedule<&SO::kind, SetString>},
    {"final_lr", "NUMBER", "0", "the rate at total_steps", OfSchedule<&SO::final_lr, SetDouble>},
    {"warmup_steps", "INTEGER", "0", "linear warm-up", OfSchedule<&SO::warmup_steps, SetInt>},
    {"total_steps", "INTEGER", "0", "the schedule's length", OfSchedule<&SO::total_steps, SetInt>},
    {"keep_gradients", "true|false", "false", "leaves the outputs grad:<param>",
     [](PassOptions& o, std::string_view v) { return SetBool(o.keep_gradients, v); }},
};

// op:NAME=TONE and name:REGEX=TONE.
absl::Status AddOverride(PassOptions& options, std::string_view key, std::string_view value) {
  PrecisionOverride precision;
  const std::string_view what = key.substr(key.find(':') + 1);
  if (key.substr(0, 3) == "op:") {
    precision.op = ir::OpFromName(what);
    if (!precision.op) return InvalidArgument("there is no op '%s'", what);
  } else {
    precision.pattern = std::string(what);
  }
  DUOTONE_RETURN_IF_ERROR((SetChoice<Tone, Tone>(precision.tone, value,
                                                 {{"allow", Tone::kAllow},
                                                  {"infer", Tone::kInfer},
                                                  {"clear", Tone::kClear},
                                                  {"deny", Tone::kDeny}})));
  options.autocast.overrides.push_back(std::move(precision));
  return absl::OkStatus();
}

}  // namespace

absl::Status SetOption(PassOptions& options, std::string_view key, std::string_view value) {
  if (key.substr(0, 3) == "op:" || key.substr(0, 5) == "name:") {
    return AddOverride(options, key, value);
  }
  for (const OptionKey& known : kKeys) {
    if (known.name == key) return known.set(options, value);
  }
  return InvalidArgument("there is no such option");
}

OptimizerOptions DefaultOptimizer(OptimizerOptions::Kind kind, size_t index) {
  OptimizerOptions optimizer{.kind = kind};
  // As in PyTorch and the public API.
  if (kind == OptimizerOptions::Kind::kAdamW) optimizer.weight_decay = 0.01;
  if (index > 0) optimizer.name = absl::StrFormat("optimizer%d", index);
  return optimizer;
}

llvm::ArrayRef<OptionKey> OptionKeys() { return kKeys; }

absl::Status ParseOptions(std::string_view text, PassOptions& options) {
  for (const std::string& item : std::vector<std::string>(
           absl::StrSplit(std::string(text), absl::ByAnyChar(" \t"), absl::SkipEmpty()))) {
    // The last '=': a regular expression may hold others.
    const size_t equals = item.rfind('=');
    if (equals == std::string::npos)
      return InvalidArgument("option '%s': expected key=value", item);
    const std::string_view key = std::string_view(item).substr(0, equals);
    DUOTONE_RETURN_IF_ERROR(SetOption(options, key, std::string_view(item).substr(equals + 1)))
        .With("option %s", key);
  }
  return absl::OkStatus();
}

absl::StatusOr<PassList> ParsePasses(std::string_view text) {
  constexpr std::string_view kPipelineFlag = "--pipeline=";
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  PassOptions options;
  if (text.substr(0, kPipelineFlag.size()) == kPipelineFlag) {
    text.remove_prefix(kPipelineFlag.size());
    const size_t space = std::min(text.find(' '), text.size());
    DUOTONE_RETURN_IF_ERROR(ParseOptions(text.substr(space), options));
    return MakePipeline(text.substr(0, space), options);
  }
  std::vector<std::string_view> names;
  while (true) {
    const size_t end = std::min(text.find_first_of(",{"), text.size());
    names.push_back(text.substr(0, end));
    text.remove_prefix(end);
    if (!text.empty() && text.front() == '{') {
      const size_t close = text.find('}');
      if (close == std::string_view::npos) {
        return InvalidArgument("pass %s: the options have no closing '}'", names.back());
      }
      DUOTONE_RETURN_IF_ERROR(ParseOptions(text.substr(1, close - 1), options))
          .With("pass %s", names.back());
      text.remove_prefix(close + 1);
    }
    if (text.empty()) break;
    if (text.front() != ',') {
      return InvalidArgument("pass %s: expected ',' between passes, not '%s'", names.back(), text);
    }
    text.remove_prefix(1);
  }
  return MakePasses(names, options);
}

}  // namespace duotone::passes
