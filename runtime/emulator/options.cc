#include "runtime/emulator/options.h"

#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/gpu_target.h"
#include "base/status.h"

namespace duotone::emulator {
namespace {

// A word behind the architecture; one with a number is written NAME=N.
struct Word {
  std::string_view name;
  std::string_view help;
  void (*apply)(EmulatorOptions& options, int64_t number) = nullptr;
  // Of words with a number: its range, and what it is without the word.
  int64_t least = 0;
  int64_t greatest = 0;
  int64_t (*value)(const EmulatorOptions& options) = nullptr;

  bool takes_number() const { return value != nullptr; }
};

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr Word kWords[] = {
    {"unchecked", "only bounds and alignment are checked: faster",
     [](EmulatorOptions& options, int64_t) { options.checks = false; }},
    {"adversarial", "warps and blocks run in a random order, atomics from the last lane",
     [](EmulatorOptions& options, int64_t) { options.schedule = Schedule::kAdversarial; }},
    {"perturb", "approximate instructions err at random within their documented bounds",
     [](EmulatorOptions& options, int64_t) { options.perturb_approximations = true; }},
    {"turing4", "an addition of sm_75's tensor cores takes 4 products instead of 8",
     [](EmulatorOptions& options, int64_t) { options.turing_group = 4; }},
    {"seed", "of `adversarial` and `perturb`",
     [](EmulatorOptions& options, int64_t number) { options.seed = static_cast<uint64_t>(number); },
     0, kMost, [](const EmulatorOptions& options) { return static_cast<int64_t>(options.seed); }},
    {"budget", "warp instructions of a block after which it is in an endless loop",
     [](EmulatorOptions& options, int64_t number) { options.instruction_budget = number; }, 1,
     kMost, [](const EmulatorOptions& options) { return options.instruction_budget; }},
    {"memory", "of the device, in MiB",
     [](EmulatorOptions& options, int64_t number) { options.memory_bytes = number << 20; }, 1,
     int64_t{1} << 20, [](const EmulatorOptions& options) { return options.memory_bytes >> 20; }},
};

std::string KnownWords() {
  std::string text;
  for (const Word& word : kWords) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", std::string(word.name),
                    word.takes_number() ? "=N" : "");
  }
  return text;
}

absl::Status Apply(std::string_view text, EmulatorOptions& options) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  for (const Word& word : kWords) {
    if (word.name != name) continue;
    const bool takes_number = word.takes_number();
    if (takes_number != (equals != std::string_view::npos)) {
      return InvalidArgument("'%s': %s %s", text, word.name,
                             takes_number ? "needs a number: =N" : "takes no value");
    }
    int64_t number = 0;
    if (takes_number && (!absl::SimpleAtoi(std::string(text.substr(equals + 1)), &number) ||
                         number < word.least || number > word.greatest)) {
      return InvalidArgument("'%s': the number must be in [%d, %d]", text, word.least,
                             word.greatest);
    }
    word.apply(options, number);
    return absl::OkStatus();
  }
  return InvalidArgument("'%s' is none of %s", text, KnownWords());
}

}  // namespace

absl::StatusOr<EmulatorOptions> ParseEmulatorOptions(std::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(std::string(text), ',');
  EmulatorOptions options;
  options.architecture = words[0];
  DUOTONE_RETURN_IF_ERROR(FindGpuTarget(words[0]).status());
  for (size_t i = 1; i < words.size(); ++i) {
    DUOTONE_RETURN_IF_ERROR(Apply(words[i], options));
  }
  return options;
}

std::string EmulatorOptionsMarkdown() {
  std::string text = "| word | meaning |\n| --- | --- |\n";
  for (const Word& word : kWords) {
    if (word.takes_number()) {
      absl::StrAppendFormat(&text, "| `%s=N` | %s; %d without it |\n", word.name, word.help,
                            word.value(EmulatorOptions()));
    } else {
      absl::StrAppendFormat(&text, "| `%s` | %s |\n", word.name, word.help);
    }
  }
  return text;
}

}  // namespace duotone::emulator
