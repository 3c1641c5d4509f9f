#include "passes/dce.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::passes {
namespace {

// The nodes that outputs and updates read: Graph::IsRoot for all nodes at once.
llvm::DenseSet<const ir::Node*> Roots(const ir::Graph& graph) {
  llvm::DenseSet<const ir::Node*> roots;
  for (const ir::Output& output : graph.outputs()) roots.insert(output.value.node);
  for (const ir::Update& update : graph.updates()) {
    roots.insert(update.next.node);
    if (update.guard) roots.insert(update.guard.node);
  }
  return roots;
}

}  // namespace

absl::StatusOr<bool> Dce::RunOnGraph(ir::Graph& graph, PassContext& ctx) const {
  const llvm::DenseSet<const ir::Node*> roots = Roots(graph);
  int64_t removed = 0;
  // Readers come after what they read, so one backward walk finds everything.
  const std::vector<ir::Node*> nodes = graph.NodePointers();
  for (ir::Node* node : llvm::reverse(nodes)) {
    if (!node->users().empty() || roots.contains(node)) continue;
    graph.Erase(node);
    ++removed;
  }
  // A state read is no line of the text form: removing one alone is no change.
  const llvm::SmallVector<ir::Node*, 8> reads(graph.state_reads());
  for (ir::Node* read : reads) {
    if (read->users().empty() && !roots.contains(read)) graph.EraseStateRead(read);
  }
  if (removed > 0) ctx.stats()["removed"] += removed;
  return removed > 0;
}

}  // namespace duotone::passes
