#include "duotone/initial_state.h"

#include <utility>
#include <vector>

#include "base/status.h"
#include "ir/interpreter.h"

namespace duotone::internal {

absl::Status InitialiseState(const ir::Module& module, uint64_t seed, runtime::StateStore& store) {
  for (const auto& entry : module.state()) {
    std::vector<int64_t> shape;
    for (const ir::Dim& dim : entry->type.shape) shape.push_back(dim.size());
    DUOTONE_RETURN_IF_ERROR(store.Add(entry->name, entry->type.dtype, std::move(shape)));
    if (entry->kind == ir::StateKind::kDerived) continue;
    absl::StatusOr<ir::Array> value = ir::Initialise(*entry, seed);
    DUOTONE_RETURN_IF_ERROR(value).With("%s %%%s", ir::StateKindName(entry->kind), entry->name);
    DUOTONE_RETURN_IF_ERROR(store.Write(entry->name, value->view().data, entry->type.bytes()));
  }
  return RefreshDerived(module, seed, store);
}

absl::Status RefreshDerived(const ir::Module& module, uint64_t seed, runtime::StateStore& store) {
  for (const auto& entry : module.state()) {
    if (entry->kind != ir::StateKind::kDerived) continue;
    const ir::StateEntry* source_entry = module.FindState(entry->init.source);
    if (source_entry == nullptr) {
      return Internal("derived %%%s: its source %%%s is no state entry", entry->name,
                      entry->init.source);
    }
    ir::Array source(source_entry->type);
    DUOTONE_RETURN_IF_ERROR(
        store.Read(source_entry->name, source.view().data, source_entry->type.bytes()));
    DUOTONE_ASSIGN_OR_RETURN(ir::Array value, ir::Initialise(*entry, seed, &source));
    DUOTONE_RETURN_IF_ERROR(store.Write(entry->name, value.view().data, entry->type.bytes()));
  }
  return absl::OkStatus();
}

}  // namespace duotone::internal
