#include "passes/pass.h"

#include "base/status.h"

namespace duotone::passes {

absl::StatusOr<bool> GraphPass::Run(ir::Module& module, PassContext& ctx) const {
  bool changed = false;
  for (const auto& graph : module.graphs()) {
    absl::StatusOr<bool> graph_changed = RunOnGraph(*graph, ctx);
    DUOTONE_RETURN_IF_ERROR(graph_changed).With("graph @%s", graph->name());
    changed |= *graph_changed;
  }
  return changed;
}

}  // namespace duotone::passes
