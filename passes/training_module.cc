#include "passes/training_module.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"

namespace duotone::passes {
namespace {

bool IsIdentifier(std::string_view name) {
  if (name.empty() || !(absl::ascii_isalpha(name[0]) || name[0] == '_')) return false;
  for (char c : name) {
    if (!(absl::ascii_isalnum(c) || c == '_' || c == '.')) return false;
  }
  return true;
}

absl::Status CheckNames(llvm::ArrayRef<OptimizerOptions> optimizers) {
  llvm::StringSet<> seen;
  for (const OptimizerOptions& options : optimizers) {
    if (!IsIdentifier(options.name)) {
      return InvalidArgument(
          "optimizer '%s': the name is the prefix of its state entries and must consist of "
          "letters, digits, '_' and '.', and not begin with a digit",
          options.name);
    }
    if (!seen.insert(options.name).second) {
      return InvalidArgument("optimizer '%s': two optimizers have this name", options.name);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const ir::StateEntry*> TrainingState(ir::Module& module, std::string_view name,
                                                    ir::Type type, ir::Initializer init) {
  if (const ir::StateEntry* entry = module.FindState(name)) {
    if (entry->kind != ir::StateKind::kState || entry->type != type) {
      return InvalidArgument(
          "%s %%%s: the name belongs to a state of training with the type %s; rename this one",
          ir::StateKindName(entry->kind), name, type.ToString());
    }
    return entry;
  }
  return module.AddState({.name = std::string(name),
                          .kind = ir::StateKind::kState,
                          .type = std::move(type),
                          .init = std::move(init)});
}

absl::Status AddTrainingOutput(ir::Graph& graph, std::string_view name, ir::Value value) {
  if (graph.FindOutput(name) != nullptr) {
    return InvalidArgument("output %s of @%s: the name belongs to training; rename the output",
                           name, graph.name());
  }
  graph.outputs().push_back({std::string(name), value});
  return absl::OkStatus();
}

absl::Status CheckOutputNamesAreFree(const ir::Graph& graph) {
  for (const ir::Output& output : graph.outputs()) {
    const llvm::StringRef name = output.name;
    bool taken = name.starts_with(kGradPrefix) || name.starts_with(kGuardPrefix) ||
                 name.starts_with("lr:") || name.starts_with("skipped:");
    for (const char* own :
         {kLossScale, kSkippedSteps, kConsecutiveSkips, kSkipped, kScaleUnusable, kLearningRate}) {
      taken = taken || name == own;
    }
    if (taken) {
      return InvalidArgument("output %s of @%s: the name belongs to training; rename the output",
                             output.name, graph.name());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ParameterOwners> ParameterOwners::Of(const ir::Module& module,
                                                    llvm::ArrayRef<OptimizerOptions> optimizers) {
  DUOTONE_RETURN_IF_ERROR(CheckNames(optimizers));
  ParameterOwners owners;
  owners.owns_any_.resize(optimizers.size());
  for (size_t i = 0; i < optimizers.size(); ++i) {
    const OptimizerOptions& options = optimizers[i];
    const llvm::Regex pattern("^(" + options.params + ")$");
    std::string problem;
    if (!pattern.isValid(problem)) {
      return InvalidArgument("optimizer '%s': the pattern '%s' is no regular expression: %s",
                             options.name, options.params, problem);
    }
    for (const auto& entry : module.state()) {
      if (entry->kind != ir::StateKind::kParam || owners.owner_.contains(entry->name)) continue;
      if (!pattern.match(entry->name)) continue;
      owners.owner_[entry->name] = i;
      owners.owns_any_[i] = true;
    }
  }
  return owners;
}

std::optional<size_t> ParameterOwners::Find(std::string_view param) const {
  auto it = owner_.find(param);
  if (it == owner_.end()) return std::nullopt;
  return it->second;
}

}  // namespace duotone::passes
