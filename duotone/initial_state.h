// The first values of a module's state entries, in a device's memory. Not installed.
#ifndef DUOTONE_DUOTONE_INITIAL_STATE_H_
#define DUOTONE_DUOTONE_INITIAL_STATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "ir/graph.h"
#include "runtime/state_store.h"

namespace duotone::internal {

// Adds every entry of the module to an empty store and gives it its first value; `seed` keys the
// random ones.
absl::Status InitialiseState(const ir::Module& module, uint64_t seed, runtime::StateStore& store);
// Makes the derived entries anew from what their sources hold.
absl::Status RefreshDerived(const ir::Module& module, uint64_t seed, runtime::StateStore& store);

}  // namespace duotone::internal

#endif  // DUOTONE_DUOTONE_INITIAL_STATE_H_
