// cvt: between all types, with all rounding modes.
#include "runtime/emulator/code.h"

namespace duotone::emulator {

Handler FindConvertHandler(const Instruction&, const HandlerOptions&) { return nullptr; }

}  // namespace duotone::emulator
