// duotone opt: text in, passes, text out.
#include <chrono>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "ir/text.h"
#include "passes/fusion_report.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "tools/command.h"
#include "tools/model_flags.h"

namespace duotone::tools {
namespace {

struct OptFlags {
  ModelFlags model;
  std::string file = "-";
  std::string output;
  std::string passes;
  std::string pipeline;
  std::string print_after;
  std::string print_before;
  std::string stop_after;
  std::string skip;
  int64_t bisect_limit = -1;
  bool timing = false;
  bool explain_fusion = false;
  bool verify_each = false;
};

std::vector<std::string> SplitNames(const std::string& text) {
  return absl::StrSplit(text, ',', absl::SkipEmpty());
}

absl::StatusOr<passes::PassList> Passes(const OptFlags& flags) {
  absl::StatusOr<passes::PassOptions> options = flags.model.PassOptions();
  DUOTONE_RETURN_IF_ERROR(options);
  absl::StatusOr<passes::PassList> list;
  if (!flags.pipeline.empty()) {
    list = passes::MakePipeline(flags.pipeline, *options);
  } else {
    const std::vector<std::string> names = SplitNames(flags.passes);
    const std::vector<std::string_view> views(names.begin(), names.end());
    list = passes::MakePasses(views, *options);
  }
  if (!list.ok()) return UsageError(std::string(list.status().message()));
  return list;
}

passes::PassManagerOptions ManagerOptions(const OptFlags& flags) {
  passes::PassManagerOptions options;
  options.skip = SplitNames(flags.skip);
  options.stop_after = flags.stop_after;
  if (flags.bisect_limit >= 0) options.bisect_limit = flags.bisect_limit;
  options.verify = flags.verify_each;
  auto names = [](const std::string& text) {
    return text == "all" ? std::vector<std::string>{"*"} : SplitNames(text);
  };
  options.dump_before = names(flags.print_before);
  if (flags.print_after == "change") {
    options.dump_on_change = true;
  } else {
    options.dump_after = names(flags.print_after);
  }
  // Dumps go to stderr, so that stdout stays one readable model.
  options.sink = [](const passes::Dump& dump) {
    const char* when = dump.when == passes::Dump::When::kBefore ? "before" : "after";
    const char* note = dump.when == passes::Dump::When::kBefore ? ""
                       : dump.changed                           ? " (changed)"
                                                                : " (unchanged)";
    std::fprintf(stderr, "// %s %s, execution %d%s\n%s\n", when, std::string(dump.pass).c_str(),
                 dump.index, note, std::string(dump.text).c_str());
  };
  return options;
}

// Before the passes, which may want numbers: fuse does.
absl::Status BindSizes(const OptFlags& flags, ir::Module& module) {
  DUOTONE_ASSIGN_OR_RETURN(const ir::SizeBinding binding, flags.model.Binding(module));
  if (binding.empty()) return absl::OkStatus();
  for (const auto& graph : module.graphs()) {
    DUOTONE_RETURN_IF_ERROR(ir::BindSizes(*graph, binding))
        .With("--bind: graph @%s", graph->name());
  }
  return absl::OkStatus();
}

// Kernels and bytes of the graphs that have been fused, and why neighbours stay apart.
void ExplainFusion(const ir::Module& module, const passes::PassReport& report) {
  for (const auto& graph : module.graphs()) {
    const passes::FusionReport fusion = passes::MakeFusionReport(*graph);
    if (fusion.kernels > 0) std::fputs(passes::ToText(fusion).c_str(), stderr);
  }
  for (const passes::PassRun& run : report.runs) {
    if (run.pass != "fuse") continue;
    for (const std::string& note : run.notes) std::fprintf(stderr, "%s\n", note.c_str());
  }
}

absl::Status RunOpt(const OptFlags& flags) {
  if (!flags.passes.empty() && !flags.pipeline.empty()) {
    return UsageError("opt: --passes and --pipeline exclude each other");
  }
  DUOTONE_ASSIGN_OR_RETURN(const passes::PassList list, Passes(flags));
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module, ReadModel(flags.file));
  DUOTONE_RETURN_IF_ERROR(BindSizes(flags, *module));
  const passes::PassManager manager(ManagerOptions(flags));
  DUOTONE_ASSIGN_OR_RETURN(const passes::PassReport report, manager.Run(list, *module));
  DUOTONE_RETURN_IF_ERROR(ir::Verify(*module)).With("after the passes");
  for (const std::string& warning : report.warnings)
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  if (flags.timing) std::fputs(report.ToString().c_str(), stderr);
  if (flags.explain_fusion) ExplainFusion(*module, report);
  return WriteResult(flags.output, ir::Print(*module));
}

}  // namespace

std::function<absl::Status()> DeclareOpt(CLI::App& app) {
  auto flags = std::make_shared<OptFlags>();
  app.add_option("FILE", flags->file, "The .duo file; - is the standard input")
      ->capture_default_str();
  app.add_option("-o,--output", flags->output,
                 "Where the result goes; default: the standard output");
  app.add_option("--passes", flags->passes,
                 "Passes to run, separated by commas (see `duotone passes`)");
  app.add_option("--pipeline", flags->pipeline, "A whole pipeline: train, infer or cuda");
  app.add_option("--print-after", flags->print_after,
                 "Print the model to stderr after a pass, after all, or on change")
      ->type_name("PASS|all|change");
  app.add_option("--print-before", flags->print_before,
                 "Print the model to stderr before a pass, or before all")
      ->type_name("PASS|all");
  app.add_option("--stop-after", flags->stop_after, "The last pass to run")->type_name("PASS");
  app.add_option("--skip", flags->skip, "Passes to leave out, separated by commas");
  app.add_option("--bisect-limit", flags->bisect_limit, "Run only the first N pass executions")
      ->type_name("N")
      ->check(WholeNumber(0));
  app.add_flag("--timing", flags->timing, "Print time, changes and statistics per pass to stderr");
  app.add_flag("--explain-fusion", flags->explain_fusion,
               "Print kernels, bytes, and why neighbours are not fused to stderr");
  app.add_flag("--verify-each", flags->verify_each,
               "Verify the model after every pass (always done at the end)");
  flags->model.Declare(app);
  flags->model.DeclareBinding(app, "The value of a named size, put in before the passes: B=128");
  return [flags] { return RunOpt(*flags); };
}

}  // namespace duotone::tools
