// Loads, stores and atomics of shared memory, cp.async, ldmatrix and stmatrix.
#include "runtime/emulator/code.h"

namespace duotone::emulator {

Handler FindSharedHandler(const Instruction&, const HandlerOptions&) { return nullptr; }

}  // namespace duotone::emulator
