// Replaces the nodes of a graph by the fusions of a plan.
#ifndef DUOTONE_PASSES_FUSE_BUILD_H_
#define DUOTONE_PASSES_FUSE_BUILD_H_

#include "absl/status/status.h"
#include "ir/graph.h"
#include "passes/fuse_groups.h"

namespace duotone::passes {

// Values keep their names, and random nodes their ids. Nodes that nothing reads are gone.
absl::Status BuildFusions(ir::Graph& graph, const FusionPlan& plan);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_FUSE_BUILD_H_
