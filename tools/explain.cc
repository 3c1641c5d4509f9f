// duotone explain: why each node of a model has its dtype, and what the casts cost.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "duotone/internal.h"
#include "nlohmann/json.hpp"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/precision_report.h"
#include "tools/command.h"
#include "tools/json_text.h"
#include "tools/model_flags.h"

namespace duotone::tools {
namespace {

struct ExplainFlags {
  ModelFlags model;
  std::string file;
  std::string node;
  std::string json;
  bool step = false;
};

// Colours the model's forward graph, or makes its whole training step, and returns the graph to
// explain. A module that is compiled already is explained as it is.
absl::StatusOr<const ir::Graph*> Prepare(const ExplainFlags& flags,
                                         const passes::PassOptions& options, ir::Module& module) {
  if (const ir::Graph* step = module.FindGraph("step")) return step;
  absl::StatusOr<passes::PassList> list =
      flags.step ? passes::MakePipeline("train", options)
                 : passes::MakePasses({"simplify", "autocast"}, options);
  DUOTONE_RETURN_IF_ERROR(list);
  DUOTONE_ASSIGN_OR_RETURN(const passes::PassReport report,
                           passes::PassManager().Run(*list, module));
  for (const std::string& warning : report.warnings)
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  if (flags.step) return module.FindGraph("step");
  return internal::ForwardGraph(module, options.graph);
}

nlohmann::ordered_json ToJson(const passes::PrecisionExplanation& explanation) {
  nlohmann::ordered_json json = {
      {"schema", 1}, {"nodes", nlohmann::json::array()}, {"casts", nlohmann::json::array()}};
  for (const passes::NodeExplanation& node : explanation.nodes) {
    json["nodes"].push_back({{"name", node.name},
                             {"op", node.op},
                             {"dtype", node.dtype},
                             {"rule", node.rule},
                             {"reason", node.reason},
                             {"path", node.path}});
  }
  for (const passes::CastEntry& cast : explanation.casts) {
    json["casts"].push_back({{"value", cast.value},
                             {"from", cast.from},
                             {"to", cast.to},
                             {"bytes", cast.bytes},
                             {"readers", cast.readers},
                             {"origin", cast.origin}});
  }
  const passes::CompileReport& totals = explanation.totals;
  json["totals"] = {{"casts", totals.casts_inserted},
                    {"cast_bytes", totals.cast_bytes},
                    {"cost", totals.cost},
                    {"flops", totals.flops},
                    {"flops_low_share", totals.low_share()},
                    {"warnings", totals.warnings}};
  return json;
}

// Leaves only what concerns the node called `name` (with or without '%').
absl::Status KeepOnly(std::string_view name, passes::PrecisionExplanation& explanation) {
  if (!name.empty() && name.front() == '%') name.remove_prefix(1);
  std::erase_if(explanation.nodes,
                [&](const passes::NodeExplanation& node) { return node.name != name; });
  std::erase_if(explanation.casts, [&](const passes::CastEntry& cast) {
    return cast.value != name &&
           std::find(cast.readers.begin(), cast.readers.end(), name) == cast.readers.end();
  });
  if (explanation.nodes.empty() && explanation.casts.empty()) {
    return NotFound("the graph has no node %%%s", name);
  }
  return absl::OkStatus();
}

absl::Status RunExplain(const ExplainFlags& flags) {
  DUOTONE_ASSIGN_OR_RETURN(const passes::PassOptions options, flags.model.PassOptions());
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module, ReadModel(flags.file));
  DUOTONE_ASSIGN_OR_RETURN(const ir::Graph* graph, Prepare(flags, options, *module));
  DUOTONE_ASSIGN_OR_RETURN(const ir::SizeBinding binding, flags.model.Binding(*graph));
  DUOTONE_ASSIGN_OR_RETURN(passes::PrecisionExplanation explanation,
                           passes::ExplainPrecision(*graph, options.autocast, binding));
  if (!flags.node.empty()) {
    DUOTONE_RETURN_IF_ERROR(KeepOnly(flags.node, explanation));
  }
  if (!flags.json.empty()) {
    DUOTONE_RETURN_IF_ERROR(WriteResult(flags.json, JsonText(ToJson(explanation))));
    if (flags.json == "-") return absl::OkStatus();
  }
  return WriteResult("", passes::ToText(explanation));
}

}  // namespace

std::function<absl::Status()> DeclareExplain(CLI::App& app) {
  auto flags = std::make_shared<ExplainFlags>();
  app.add_option("FILE", flags->file, "The .duo file; - is the standard input")->required();
  app.add_option("NODE", flags->node, "Only this node: %h");
  app.add_flag("--step", flags->step,
               "Explain the whole training step, not only the forward graph");
  app.add_option("--json", flags->json, "Also as JSON; - prints nothing but the JSON")
      ->type_name("FILE");
  flags->model.Declare(app);
  flags->model.DeclareBinding(app, "The value of a named size, for costs: B=128 (default: 128)");
  return [flags] { return RunExplain(*flags); };
}

}  // namespace duotone::tools
