#include "passes/simplify.h"

#include <array>

#include "llvm/ADT/SmallVector.h"
#include "passes/rewrite.h"
#include "passes/simplify_rules.h"

namespace duotone::passes {
namespace {

using ir::Graph;
using ir::Node;

// The rules by the op they start from.
using RuleIndex = std::array<llvm::SmallVector<const SimplifyRule*, 4>, ir::kOpCount>;

const RuleIndex& Rules() {
  static const auto* const kIndex = [] {
    auto* index = new RuleIndex();
    for (llvm::ArrayRef<SimplifyRule> table : {IdentityRules(), CompositeRules()}) {
      for (const SimplifyRule& rule : table) {
        (*index)[static_cast<size_t>(rule.op)].push_back(&rule);
      }
    }
    return index;
  }();
  return *kIndex;
}

// Applies the first rule that fits. The node is then gone.
bool SimplifyNode(Graph& graph, Node* node, PassContext& ctx) {
  if (const Replacement folded = FoldConstants(graph, node); folded.value) {
    ReplaceNode(graph, node, folded.value, folded.made);
    ++ctx.stats()["constants"];
    return true;
  }
  for (const SimplifyRule* rule : Rules()[static_cast<size_t>(node->op())]) {
    const Replacement replacement = rule->apply(graph, node);
    if (!replacement.value) continue;
    ReplaceNode(graph, node, replacement.value, replacement.made);
    ++ctx.stats()[std::string(rule->name)];
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<bool> Simplify::RunOnGraph(Graph& graph, PassContext& ctx) const {
  bool changed = false;
  // A walk sees a node after its operands have been simplified, and erases only that node and what
  // lies before it. Nodes that rules made are visited by the next walk.
  for (bool again = true; again;) {
    again = false;
    for (Node* node : graph.NodePointers()) again |= SimplifyNode(graph, node, ctx);
    changed |= again;
  }
  return changed;
}

}  // namespace duotone::passes
