// The `duotone` command: one binary, one subcommand per task. Results go to stdout, progress and
// errors to stderr. Exit codes: 0 done, 1 failed, 2 bad usage.
#include <csignal>
#include <cstdio>
#include <new>

#include "absl/strings/cord.h"
#include "base/status.h"
#include "tools/command.h"

namespace duotone::tools {
namespace {

constexpr Command kCommands[] = {
    {"opt", "Reads a .duo file, runs passes over it and prints the result.", DeclareOpt},
    {"explain", "Says why each node has its dtype, and what the casts cost.", DeclareExplain},
    {"train", "Trains a .duo model.", DeclareTrain},
    {"devices", "Lists what this build can run on.", DeclareDevices},
    {"ops", "Prints the op table.", DeclareOps},
    {"passes", "Prints the passes and pipelines.", DeclarePasses},
    {"docs", "Writes the generated pages of docs/.", DeclareDocs},
};

constexpr char kUsagePayload[] = "duotone.usage";

int Main(int argc, char** argv) {
  // A closed pipe is a write error, not a reason to die.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Duotone compiles computation graphs for mixed-precision training.", "duotone");
  app.require_subcommand(1);
  app.set_version_flag("--version", "duotone " DUOTONE_VERSION);
  std::function<absl::Status()> run;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.doc));
    std::function<absl::Status()> body = command.declare(*sub);
    sub->callback([&run, body = std::move(body)] { run = body; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  const absl::Status status = run();
  if (status.ok()) {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
    std::fprintf(stderr, "duotone: cannot write the output\n");
    return 1;
  }
  std::fflush(stdout);
  std::fprintf(stderr, "duotone: %s\n", std::string(status.message()).c_str());
  return IsUsageError(status) ? 2 : 1;
}

}  // namespace

absl::Status UsageError(std::string_view sentence) {
  absl::Status status = InvalidArgument("%s", sentence);
  status.SetPayload(kUsagePayload, absl::Cord("1"));
  return status;
}

bool IsUsageError(const absl::Status& status) {
  return status.GetPayload(kUsagePayload).has_value();
}

}  // namespace duotone::tools

int main(int argc, char** argv) {
  try {
    return duotone::tools::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("duotone: out of memory\n", stderr);
    return 1;
  }
}
