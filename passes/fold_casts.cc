#include "passes/fold_casts.h"

#include "base/lossless.h"
#include "ir/emitter.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/fold_constant_casts.h"
#include "passes/rewrite.h"

namespace duotone::passes {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

// Sees the value as it is stored: its result is no float, so a rounding can change it by a whole
// step.
bool IsObserver(const Node& node) {
  return llvm::none_of(node.types(), [](const ir::Type& type) { return type.is_float(); });
}

bool IsBackward(const Node& node) { return !node.info().forward.empty(); }

bool FoldSameType(Graph& graph, Node* cast, PassContext& ctx) {
  if (cast->operand(0).type().dtype != cast->type().dtype) return false;
  ReplaceNode(graph, cast, cast->operand(0));
  ++ctx.stats()["same type"];
  return true;
}

bool FoldLossless(Graph& graph, Node* cast, PassContext& ctx) {
  if (!IsCast(cast->operand(0))) return false;
  const Value source = cast->operand(0).node->operand(0);
  if (!IsLossless(source.type().dtype, cast->operand(0).type().dtype)) return false;
  ++ctx.stats()["lossless"];
  if (source.type().dtype == cast->type().dtype) {
    ReplaceNode(graph, cast, source);
    return true;
  }
  const Value direct = ir::Emitter(graph, cast, cast->info()).Cast(source, cast->type().dtype);
  ReplaceNode(graph, cast, direct, /*take_name=*/true);
  return true;
}

// Readers of `cast`, a widening of a value that autocast narrowed, take the wide value.
bool TakeWideValue(Graph& graph, Node* cast, PassContext& ctx) {
  if (!IsCast(cast->operand(0))) return false;
  const Node* narrowing = cast->operand(0).node;
  const Value wide = narrowing->operand(0);
  if (!IsOfAutocast(*narrowing) || !wide.type().is_float() ||
      wide.type().dtype != cast->type().dtype) {
    return false;
  }
  bool changed = false;
  const llvm::SmallVector<Node*, 4> readers(cast->users());
  for (Node* reader : readers) {
    if (IsObserver(*reader) || (IsBackward(*reader) && !IsBackward(*narrowing))) continue;
    for (int i = 0; i < reader->operand_count(); ++i) {
      if (reader->operand(i) != cast->result()) continue;
      graph.SetOperand(reader, i, wide);
      ++ctx.stats()["wide value"];
      changed = true;
    }
  }
  if (changed) EraseDead(graph, cast);
  return changed;
}

bool Fold(Graph& graph, Node* cast, PassContext& ctx) {
  if (FoldSameType(graph, cast, ctx) || FoldLossless(graph, cast, ctx) ||
      TakeWideValue(graph, cast, ctx)) {
    return true;
  }
  return ConstantOf(cast->operand(0)) != nullptr && FoldConstantCast(graph, cast, ctx);
}

// One walk over the casts there are now, in order. A rule erases the cast it stands on, what lies
// before it, and readers that are no casts; casts it makes wait for the next walk.
bool FoldOnce(Graph& graph, PassContext& ctx) {
  llvm::SmallVector<Node*, 16> casts;
  for (const auto& node : graph.nodes()) {
    if (node->op() == ir::Op::kCast) casts.push_back(node.get());
  }
  bool changed = false;
  for (Node* cast : casts) changed |= Fold(graph, cast, ctx);
  return changed;
}

}  // namespace

absl::StatusOr<bool> FoldCasts::RunOnGraph(Graph& graph, PassContext& ctx) const {
  bool changed = false;
  while (FoldOnce(graph, ctx)) changed = true;
  return changed;
}

}  // namespace duotone::passes
