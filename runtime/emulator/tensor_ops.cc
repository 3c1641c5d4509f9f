// mma: fragments of a warp to and from the tensor core.
#include "runtime/emulator/code.h"

namespace duotone::emulator {

Handler FindTensorHandler(const Instruction&, const HandlerOptions&) { return nullptr; }

}  // namespace duotone::emulator
