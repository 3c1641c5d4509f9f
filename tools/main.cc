// The `duotone` command: one binary, one subcommand per task. Results go to stdout, progress and
// errors to stderr. Exit codes: 0 done, 1 failed, 2 bad usage.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "tools/command.h"

namespace duotone::tools {
namespace {

constexpr Command kCommands[] = {
    {"opt", "Reads a .duo file, runs passes over it and prints the result.", DeclareOpt},
    {"explain", "Says why each node has its dtype, and what the casts cost.", DeclareExplain},
    {"train", "Trains a .duo model.", DeclareTrain},
    {"kernels", "Compiles a model's CUDA kernels and reports on them, without a GPU.",
     DeclareKernels},
    {"run-ptx", "Runs a kernel of a PTX file on an emulated GPU and checks it.", DeclareRunPtx},
    {"devices", "Lists what this build can run on.", DeclareDevices},
    {"ops", "Prints the op table.", DeclareOps},
    {"passes", "Prints the passes and pipelines.", DeclarePasses},
    {"docs", "Writes the generated pages of docs/.", DeclareDocs},
};

constexpr char kUsagePayload[] = "duotone.usage";

// What is wrong with the command line, and where to read how it is meant.
std::string UsageSentence(const CLI::ParseError& error, int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  const bool is_command =
      std::any_of(std::begin(kCommands), std::end(kCommands),
                  [&](const Command& command) { return command.name == first; });
  if (is_command) return absl::StrFormat("%s (see duotone %s --help)", error.what(), first);
  return absl::StrFormat(
      "%s; the commands are %s",
      first.empty() ? "the command is missing" : absl::StrFormat("there is no command '%s'", first),
      absl::StrJoin(kCommands, ", ",
                    [](std::string* out, const Command& command) { out->append(command.name); }));
}

// What is wrong where an option's value is missing; nothing else. The parser would take the next
// option for the value.
std::string MissingValue(const CLI::App& app, int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const std::vector<const CLI::App*> found = app.get_subcommands(
      [&](const CLI::App* subcommand) { return subcommand->get_name() == command; });
  if (found.size() != 1) return "";
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;
    if (word.size() < 2 || word[0] != '-') continue;
    const size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    const CLI::Option* option = found.front()->get_option_no_throw(name);
    if (option == nullptr || option->get_items_expected_min() == 0) continue;
    const bool has_next = i + 1 < argc && std::string_view(argv[i + 1]).substr(0, 2) != "--";
    if (equals == word.npos ? !has_next : equals + 1 == word.size()) {
      return absl::StrFormat("%s has no value; it takes %s (see duotone %s --help)", name,
                             option->get_type_name(), command);
    }
    if (equals == word.npos) ++i;
  }
  return "";
}

int Main(int argc, char** argv) {
  // A closed pipe or a file at its size limit is a write error, not a reason to die.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app("Duotone compiles computation graphs for mixed-precision training.", "duotone");
  app.require_subcommand(1);
  // A later value wins, so that a script can end in "$@"; subcommands inherit this.
  app.option_defaults()->take_last();
  app.set_version_flag("--version", "duotone " DUOTONE_VERSION);
  std::function<absl::Status()> run;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.doc));
    std::function<absl::Status()> body = command.declare(*sub);
    sub->callback([&run, body = std::move(body)] { run = body; });
  }
  if (const std::string missing = MissingValue(app, argc, argv); !missing.empty()) {
    std::fprintf(stderr, "duotone: %s\n", missing.c_str());
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "duotone: %s\n", UsageSentence(error, argc, argv).c_str());
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

CLI::Validator WholeNumber(int64_t least) {
  auto check = [least](const std::string& text) {
    int64_t number = 0;
    if (absl::SimpleAtoi(text, &number) && number >= least) return std::string();
    return absl::StrFormat("'%s' is not a whole number from %d to 2^63 - 1", text, least);
  };
  return CLI::Validator(check, "");
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
