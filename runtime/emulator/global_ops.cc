// Loads, stores and atomics of global, constant, local, parameter and generic addresses.
#include "runtime/emulator/code.h"

namespace duotone::emulator {

Handler FindGlobalHandler(const Instruction&, const HandlerOptions&) { return nullptr; }

}  // namespace duotone::emulator
