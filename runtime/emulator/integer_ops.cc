// Integer arithmetic, logic, shifts and bit fields.
#include "runtime/emulator/code.h"

namespace duotone::emulator {

Handler FindIntegerHandler(const Instruction&, const HandlerOptions&) { return nullptr; }

}  // namespace duotone::emulator
