#include "tools/model_flags.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "ir/text.h"
#include "passes/options_text.h"
#include "tools/command.h"

namespace duotone::tools {
namespace {

std::string FlagOf(std::string_view key) {
  if (key == "dtype") return "--amp";
  if (key == "device") return "--torch-device";
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

// The option's sentence with its default, which for two options PassOptions() chooses.
std::string HelpOf(const passes::OptionKey& key) {
  std::string_view initial = key.initial;
  if (key.name == "optimizer") initial = "adamw";
  if (key.name == "loss_scale") initial = "dynamic with --amp=f16, else off";
  return initial.empty() ? std::string(key.doc) : absl::StrFormat("%s [%s]", key.doc, initial);
}

}  // namespace

void ModelFlags::Declare(CLI::App& app) {
  for (const passes::OptionKey& key : passes::OptionKeys()) {
    const std::string name(key.name);
    app.add_option_function<std::vector<std::string>>(
           FlagOf(name),
           [this, name](const std::vector<std::string>& values) {
             for (const std::string& value : values) settings_.emplace_back(name, value);
           },
           HelpOf(key))
        ->type_name(std::string(key.values))
        ->trigger_on_parse()
        ->take_all()
        ->allow_extra_args(false)
        ->group("Model");
  }
  app.add_option("--options", texts_,
                 "The same as text, as in reproducers and text tests: 'dtype=f16 lr=0.1'")
      ->type_name("TEXT")
      ->take_all()
      ->allow_extra_args(false)
      ->group("Model");
  app.add_option("--override", overrides_,
                 "Precision of an op or of nodes by name: op:exp=deny, name:fc1/.*=allow (allow, "
                 "infer, clear, deny)")
      ->type_name("WHAT=TONE")
      ->take_all()
      ->allow_extra_args(false)
      ->group("Model");
}

void ModelFlags::DeclareBinding(CLI::App& app, const std::string& help) {
  app.add_option("--bind", bindings_, help)
      ->type_name("NAME=SIZE")
      ->take_all()
      ->allow_extra_args(false)
      ->group("Model");
}

absl::StatusOr<passes::PassOptions> ModelFlags::PassOptions() const {
  // Optimizer flags before the first --optimizer speak of that one, or of the default one.
  auto settings = settings_;
  auto first = std::find_if(settings.begin(), settings.end(),
                            [](const auto& s) { return s.first == "optimizer"; });
  if (first == settings.end()) first = settings.insert(settings.begin(), {"optimizer", "adamw"});
  std::rotate(settings.begin(), first, first + 1);
  passes::PassOptions options;
  bool has_scale = false;
  for (const auto& [key, value] : settings) {
    const absl::Status status = passes::SetOption(options, key, value);
    if (!status.ok()) {
      return UsageError(
          absl::StrFormat("%s=%s: %s", FlagOf(key), value, std::string(status.message())));
    }
    has_scale = has_scale || key == "loss_scale";
  }
  for (const std::string& text : texts_) {
    if (options.optimizers.size() == 1 && text.find("optimizer=") != std::string::npos &&
        std::none_of(settings_.begin(), settings_.end(),
                     [](const auto& s) { return s.first == "optimizer"; })) {
      options.optimizers.clear();  // the default makes way for the text's own
    }
    const absl::Status status = passes::ParseOptions(text, options);
    if (!status.ok())
      return UsageError(absl::StrFormat("--options: %s", std::string(status.message())));
    has_scale = has_scale || text.find("loss_scale=") != std::string::npos;
  }
  for (const std::string& text : overrides_) {
    if (text.rfind("op:", 0) != 0 && text.rfind("name:", 0) != 0) {
      return UsageError(
          absl::StrFormat("--override=%s: expected op:NAME=TONE or name:REGEX=TONE", text));
    }
    const absl::Status status = passes::ParseOptions(text, options);
    if (!status.ok())
      return UsageError(absl::StrFormat("--override: %s", std::string(status.message())));
  }
  if (options.autocast.dtype == DType::kF16 && !has_scale) {
    options.loss_scale.kind = passes::LossScaleOptions::Kind::kDynamic;
  }
  return options;
}

absl::StatusOr<ir::SizeBinding> ModelFlags::Binding(const ir::Graph& graph) const {
  return Binding("@" + graph.name(), ir::NamedSizes(graph));
}

absl::StatusOr<ir::SizeBinding> ModelFlags::Binding(const ir::Module& module) const {
  std::vector<std::string> names;
  for (const auto& graph : module.graphs()) {
    for (const std::string& name : ir::NamedSizes(*graph)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return Binding("module @" + module.name(), names);
}

absl::StatusOr<ir::SizeBinding> ModelFlags::Binding(const std::string& owner,
                                                    const std::vector<std::string>& names) const {
  ir::SizeBinding binding;
  for (const std::string& text : bindings_) {
    const size_t equals = text.find('=');
    int64_t size = -1;
    if (equals != std::string::npos) {
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, size);
      if (error != std::errc() || stop != end) size = -1;
    }
    if (size < 0)
      return UsageError(
          absl::StrFormat("--bind=%s: expected NAME=SIZE with a size of at least 0", text));
    const std::string name = text.substr(0, equals);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return InvalidArgument("--bind=%s: %s has no named size %s; it has: %s", text, owner, name,
                             absl::StrJoin(names, ", "));
    }
    auto [it, is_new] = binding.try_emplace(name, size);
    if (!is_new && it->second != size) {
      return UsageError(
          absl::StrFormat("--bind: %s is bound to %d and to %d", name, it->second, size));
    }
  }
  return binding;
}

absl::StatusOr<std::unique_ptr<ir::Module>> ReadModel(const std::string& path) {
  DUOTONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, ir::ParseLimits().max_bytes));
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module,
                           ir::Parse(text, path == "-" ? "<stdin>" : path));
  DUOTONE_RETURN_IF_ERROR(ir::Verify(*module)).With("%s", path);
  return module;
}

absl::Status WriteResult(const std::string& path, const std::string& text) {
  if (!path.empty() && path != "-") return WriteFileAtomically(path, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return absl::OkStatus();
}

}  // namespace duotone::tools
