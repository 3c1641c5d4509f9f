// f32 and f64 arithmetic with the rounding modes of PTX, and approximations.
#include "runtime/emulator/code.h"

namespace duotone::emulator {

Handler FindFloatHandler(const Instruction&, const HandlerOptions&) { return nullptr; }

}  // namespace duotone::emulator
