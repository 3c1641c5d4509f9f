// mov, selp, setp, set, slct, prmt and what else moves or compares values.
#include "runtime/emulator/code.h"

namespace duotone::emulator {

Handler FindMoveHandler(const Instruction&, const HandlerOptions&) { return nullptr; }

}  // namespace duotone::emulator
