// The options that say how a model is compiled, the same for opt, explain and train. They are made
// from the table of passes/options_text.h, so a new pass option is a new flag: loss_scale becomes
// --loss-scale. Three differ: dtype is
// --amp, device (whose lists policy=pytorch follows) is --torch-device, and op:NAME=TONE and
// name:REGEX=TONE are given with --override.
#ifndef DUOTONE_TOOLS_MODEL_FLAGS_H_
#define DUOTONE_TOOLS_MODEL_FLAGS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "passes/options.h"

namespace duotone::tools {

class ModelFlags {
 public:
  // Declares the flags on `app`; `this` must outlive the parse.
  void Declare(CLI::App& app);
  // Declares --bind; `help` says what the sizes are for.
  void DeclareBinding(CLI::App& app, const std::string& help);

  // The options the flags add up to. Defaults that depend on others: with --amp=f16 the loss scale
  // is dynamic; without
  // --optimizer there is one AdamW.
  absl::StatusOr<passes::PassOptions> PassOptions() const;
  // What --bind NAME=SIZE says about the sizes of `graph`, or of all graphs of `module`; only for
  // commands that declared it.
  absl::StatusOr<ir::SizeBinding> Binding(const ir::Graph& graph) const;
  absl::StatusOr<ir::SizeBinding> Binding(const ir::Module& module) const;

 private:
  // `names`: the named sizes of `owner`.
  absl::StatusOr<ir::SizeBinding> Binding(const std::string& owner,
                                          const std::vector<std::string>& names) const;

  std::vector<std::pair<std::string, std::string>>
      settings_;  // key and value, in the order of the command line
  std::vector<std::string> texts_;
  std::vector<std::string> overrides_;
  std::vector<std::string> bindings_;
};

// Reads and parses a model file, "-" for the standard input.
absl::StatusOr<std::unique_ptr<ir::Module>> ReadModel(const std::string& path);

// Writes `text` to `path` atomically, or to the standard output for "" and "-".
absl::Status WriteResult(const std::string& path, const std::string& text);

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_MODEL_FLAGS_H_
