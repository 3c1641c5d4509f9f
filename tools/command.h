// The subcommands of `duotone`. Each adds itself to the command line and returns what to run once
// that is parsed.
#ifndef DUOTONE_TOOLS_COMMAND_H_
#define DUOTONE_TOOLS_COMMAND_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace duotone::tools {

// An error in how the command was called (exit code 2) rather than in what it worked on (exit code
// 1).
absl::Status UsageError(std::string_view sentence);
bool IsUsageError(const absl::Status& status);

// Checks that a value is a whole number of at least `least`; flags above 2^63 - 1 are refused too.
CLI::Validator WholeNumber(int64_t least);

struct Command {
  std::string_view name;
  std::string_view doc;  // one sentence, shown by --help
  // Declares the command's options on `app`; the returned function runs it and may be called once.
  std::function<absl::Status()> (*declare)(CLI::App& app);
};

// In the order of --help.
std::function<absl::Status()> DeclareOpt(CLI::App& app);
std::function<absl::Status()> DeclareExplain(CLI::App& app);
std::function<absl::Status()> DeclareTrain(CLI::App& app);
std::function<absl::Status()> DeclareKernels(CLI::App& app);
std::function<absl::Status()> DeclareRunPtx(CLI::App& app);
std::function<absl::Status()> DeclareDevices(CLI::App& app);
std::function<absl::Status()> DeclareOps(CLI::App& app);
std::function<absl::Status()> DeclarePasses(CLI::App& app);
std::function<absl::Status()> DeclareDocs(CLI::App& app);

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_COMMAND_H_
