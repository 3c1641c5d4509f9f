#include "passes/fuse.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "passes/fuse_build.h"
#include "passes/fuse_groups.h"
#include "passes/fusion_report.h"

namespace duotone::passes {

absl::StatusOr<bool> Fuse::RunOnGraph(ir::Graph& graph, PassContext& ctx) const {
  const bool is_fused = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                    [](const auto& node) { return node->op() == ir::Op::kFusion; });
  if (is_fused || graph.nodes().empty()) return false;
  DUOTONE_ASSIGN_OR_RETURN(const FusionPlan plan, PlanFusions(graph));
  // Views that keep their operand's bytes are taken as they are; others may have to go, although
  // nothing is computed.
  const bool is_plain = std::all_of(graph.nodes().begin(), graph.nodes().end(),
                                    [](const auto& node) { return node->def().keeps_bytes; });
  if (plan.groups.empty() && is_plain) return false;
  for (const CutEdge& edge : CutEdges(plan)) {
    ctx.Note(absl::StrFormat("@%s: %s", graph.name(), ToText(edge)));
  }
  const auto nodes = static_cast<int64_t>(graph.node_count());
  DUOTONE_RETURN_IF_ERROR(BuildFusions(graph, plan));
  ctx.stats()["nodes"] += nodes;
  for (const auto& node : graph.nodes()) {
    if (node->op() != ir::Op::kFusion) continue;
    ctx.stats()["fusions"] += 1;
    ctx.stats()[node->attrs_as<ir::FusionAttrs>().family] += 1;
  }
  return true;
}

}  // namespace duotone::passes
