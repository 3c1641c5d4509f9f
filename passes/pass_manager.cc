#include "passes/pass_manager.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "ir/text.h"

namespace duotone::passes {
namespace {

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool Wants(const std::vector<std::string>& names, std::string_view pass) {
  return Contains(names, "*") || Contains(names, pass);
}

int64_t CountNodes(const ir::Module& module) {
  int64_t count = 0;
  for (const auto& graph : module.graphs()) count += static_cast<int64_t>(graph->node_count());
  return count;
}

std::string_view OutcomeName(PassRun::Outcome outcome) {
  switch (outcome) {
    case PassRun::Outcome::kRun:
      return "run";
    case PassRun::Outcome::kSkipped:
      return "skipped";
    case PassRun::Outcome::kBeyondBisectLimit:
      return "beyond the bisect limit";
    case PassRun::Outcome::kStopped:
      return "after the stop";
  }
  return "";
}

// One execution: timing, statistics, dumps and verification around Pass::Run.
absl::Status Execute(const Pass& pass, const PassManagerOptions& options, int index,
                     ir::Module& module, PassRun& run, std::vector<std::string>& warnings) {
  auto dump = [&](Dump::When when) {
    const std::string text = ir::Print(module);
    options.sink(
        {.index = index, .pass = pass.name(), .when = when, .changed = run.changed, .text = text});
  };
  if (options.sink && Wants(options.dump_before, pass.name())) dump(Dump::When::kBefore);

  PassContext ctx;
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<bool> changed = pass.Run(module, ctx);
  run.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  run.stats = ctx.stats();
  run.notes = ctx.notes();
  for (const std::string& sentence : ctx.warnings()) {
    warnings.push_back(absl::StrFormat("pass %s: %s", pass.name(), sentence));
  }
  DUOTONE_RETURN_IF_ERROR(changed).With("pass %s", pass.name());
  run.changed = *changed;
  run.nodes_after = CountNodes(module);

  if (options.sink &&
      (Wants(options.dump_after, pass.name()) || (options.dump_on_change && run.changed))) {
    dump(Dump::When::kAfter);
  }
  if (options.verify) {
    DUOTONE_RETURN_IF_ERROR(ir::Verify(module)).With("pass %s: its result is invalid", pass.name());
  }
  return absl::OkStatus();
}

}  // namespace

bool PassReport::changed() const {
  return std::any_of(runs.begin(), runs.end(), [](const PassRun& run) { return run.changed; });
}

std::string PassReport::ToString() const {
  std::string text = absl::StrFormat("%-12s %-7s %9s %7s %7s  %s\n", "pass", "changed", "ms",
                                     "before", "after", "statistics");
  for (const PassRun& run : runs) {
    if (run.outcome != PassRun::Outcome::kRun) {
      text += absl::StrFormat("%-12s %s\n", run.pass, OutcomeName(run.outcome));
      continue;
    }
    const std::string stats = absl::StrJoin(run.stats, " ", absl::PairFormatter("="));
    std::string line =
        absl::StrFormat("%-12s %-7s %9.3f %7d %7d  %s", run.pass, run.changed ? "yes" : "no",
                        run.ms, run.nodes_before, run.nodes_after, stats);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  for (const std::string& warning : warnings) text += absl::StrFormat("warning: %s\n", warning);
  return text;
}

absl::Status PassManager::CheckOptions(const PassList& passes) const {
  auto check = [&](std::string_view option, const std::string& name) -> absl::Status {
    const bool known = std::any_of(passes.begin(), passes.end(),
                                   [&](const auto& pass) { return pass->name() == name; });
    if (known || name == "*") return absl::OkStatus();
    return InvalidArgument("%s: there is no pass '%s' in this pipeline", option, name);
  };
  for (const std::string& name : options_.skip) DUOTONE_RETURN_IF_ERROR(check("skip", name));
  if (!options_.stop_after.empty()) {
    DUOTONE_RETURN_IF_ERROR(check("stop after", options_.stop_after));
  }
  for (const std::string& name : options_.dump_before) {
    DUOTONE_RETURN_IF_ERROR(check("dump before", name));
  }
  for (const std::string& name : options_.dump_after) {
    DUOTONE_RETURN_IF_ERROR(check("dump after", name));
  }
  return absl::OkStatus();
}

absl::StatusOr<PassReport> PassManager::Run(const PassList& passes, ir::Module& module) const {
  DUOTONE_RETURN_IF_ERROR(CheckOptions(passes));
  if (options_.verify) {
    DUOTONE_RETURN_IF_ERROR(ir::Verify(module))
        .With("before the first pass: the module is invalid");
  }
  PassReport report;
  int executed = 0;
  bool stopped = false;
  for (const auto& pass : passes) {
    PassRun& run = report.runs.emplace_back();
    run.pass = std::string(pass->name());
    run.nodes_before = run.nodes_after = CountNodes(module);
    if (stopped) {
      run.outcome = PassRun::Outcome::kStopped;
    } else if (Wants(options_.skip, pass->name())) {
      run.outcome = PassRun::Outcome::kSkipped;
    } else if (executed >= options_.bisect_limit) {
      run.outcome = PassRun::Outcome::kBeyondBisectLimit;
    } else {
      DUOTONE_RETURN_IF_ERROR(Execute(*pass, options_, executed++, module, run, report.warnings));
    }
    stopped |= pass->name() == options_.stop_after;
  }
  return report;
}

}  // namespace duotone::passes
