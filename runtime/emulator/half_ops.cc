// f16, bf16, f16x2 and bf16x2 arithmetic.
#include "runtime/emulator/code.h"

namespace duotone::emulator {

Handler FindHalfHandler(const Instruction&, const HandlerOptions&) { return nullptr; }

}  // namespace duotone::emulator
