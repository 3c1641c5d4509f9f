#include "passes/cse.h"

#include "base/hash.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::passes {
namespace {

using ir::Lower;
using ir::Node;

// Fusions are made when nothing is left to merge, so their bodies are not compared.
bool IsMergeable(const Node& node) {
  const Lower lower = node.def().lower;
  return lower != Lower::kRandom && lower != Lower::kExpanded && lower != Lower::kSource &&
         lower != Lower::kFused;
}

// Autocast never touches a fixed op, so its region means nothing.
bool RegionMatters(const Node& node) {
  const ir::Precision& precision = node.def().precision;
  return precision.f16 != ir::Tone::kFixed || precision.bf16 != ir::Tone::kFixed;
}

uint64_t Hash(const Node& node) {
  uint64_t hash = HashCombine(ir::HashAttrs(node.attrs()), static_cast<uint64_t>(node.op()));
  for (ir::Value operand : node.operands()) {
    hash = HashCombine(hash, reinterpret_cast<uintptr_t>(operand.node));
    hash = HashCombine(hash, static_cast<uint64_t>(operand.index));
  }
  return hash;
}

bool Same(const Node& a, const Node& b) {
  return a.op() == b.op() && a.operands() == b.operands() && a.types() == b.types() &&
         ir::AttrsEqual(a.attrs(), b.attrs()) &&
         (!RegionMatters(a) || a.info().region == b.info().region);
}

}  // namespace

absl::StatusOr<bool> Cse::RunOnGraph(ir::Graph& graph, PassContext& ctx) const {
  llvm::DenseMap<uint64_t, llvm::SmallVector<Node*, 1>> seen;
  int64_t merged = 0;
  for (Node* node : graph.NodePointers()) {
    if (!IsMergeable(*node)) continue;
    // The two largest keys are DenseMap's own.
    llvm::SmallVector<Node*, 1>& candidates = seen[Hash(*node) >> 1];
    Node* earlier = nullptr;
    for (Node* candidate : candidates) {
      if (Same(*candidate, *node)) earlier = candidate;
    }
    if (earlier == nullptr) {
      candidates.push_back(node);
      continue;
    }
    if (node->info().dtype_origin.empty()) earlier->info().dtype_origin.clear();
    for (int i = 0; i < node->result_count(); ++i) {
      graph.ReplaceAllUses(node->result(i), earlier->result(i));
    }
    graph.Erase(node);
    ++merged;
  }
  if (merged > 0) ctx.stats()["merged"] += merged;
  return merged > 0;
}

}  // namespace duotone::passes
