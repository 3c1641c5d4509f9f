#include "passes/weight_copies.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ir/emitter.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::passes {
namespace {

using ir::Graph;
using ir::Node;
using ir::StateEntry;
using ir::Value;

// True for a weight that a copy can follow: something computes its next value.
bool IsTrained(const ir::Module& module, const StateEntry& entry) {
  if (entry.kind != ir::StateKind::kParam || entry.type.dtype != DType::kF32) return false;
  bool updated = false;
  for (const auto& graph : module.graphs()) {
    const ir::Update* update = graph->FindUpdate(&entry);
    if (update == nullptr) continue;
    if (update->next.node->op() == ir::Op::kState) return false;
    updated = true;
  }
  return updated;
}

// The casts of the entry itself to `dtype`, in all graphs.
llvm::SmallVector<Node*, 2> CastsOf(const ir::Module& module, const StateEntry& entry,
                                    DType dtype) {
  llvm::SmallVector<Node*, 2> casts;
  for (const auto& graph : module.graphs()) {
    const Value read = graph->Find(entry.name);
    if (!read) continue;
    for (Node* user : read.node->users()) {
      if (user->op() == ir::Op::kCast && user->type().dtype == dtype) casts.push_back(user);
    }
  }
  return casts;
}

// Makes the copy of `source` that the casts, of which there is one at least, give.
absl::Status MakeCopy(ir::Module& module, const StateEntry& source, llvm::ArrayRef<Node*> casts) {
  const ir::Type type = casts[0]->type();
  ir::NodeInfo info = casts[0]->info();
  info.forward.clear();
  // The copy takes the name that autocast gave its casts.
  for (Node* cast : casts) {
    Graph& graph = *cast->graph();
    DUOTONE_RETURN_IF_ERROR(
        graph.Rename(cast->result(), graph.UniqueName(absl::StrCat(cast->name(), ".cast"))));
  }
  const std::string dtype(DTypeName(type.dtype));
  DUOTONE_ASSIGN_OR_RETURN(
      const StateEntry* copy,
      module.AddState({.name = module.UniqueStateName(absl::StrCat(source.name, ".", dtype)),
                       .kind = ir::StateKind::kDerived,
                       .type = type,
                       .init = {.kind = "cast_of", .source = source.name},
                       .loc = source.loc}));
  for (Node* cast : casts) {
    Graph& graph = *cast->graph();
    graph.ReplaceAllUses(cast->result(), graph.ReadState(copy));
    graph.Erase(cast);
  }
  for (const auto& graph : module.graphs()) {
    const ir::Update* update = graph->FindUpdate(&source);
    if (update == nullptr) continue;
    const Value guard = update->guard;
    const Value next = ir::Emitter(*graph, nullptr, info)
                           .Cast(update->next, type.dtype, absl::StrCat(copy->name, ".next"));
    graph->updates().push_back({copy, next, guard});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> WeightCopies::Run(ir::Module& module, PassContext& ctx) const {
  llvm::SmallVector<const StateEntry*, 16> weights;  // of before the copies
  for (const auto& entry : module.state()) {
    if (IsTrained(module, *entry)) weights.push_back(entry.get());
  }
  int64_t copies = 0;
  for (const StateEntry* weight : weights) {
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      const llvm::SmallVector<Node*, 2> casts = CastsOf(module, *weight, dtype);
      if (casts.empty()) continue;
      DUOTONE_RETURN_IF_ERROR(MakeCopy(module, *weight, casts))
          .With("the copy of %%%s in %s", weight->name, DTypeName(dtype));
      ++copies;
    }
  }
  if (copies > 0) ctx.stats()["copies"] += copies;
  return copies > 0;
}

}  // namespace duotone::passes
