// What lanes of a warp do together: shfl, vote, match, redux, activemask.
#include "runtime/emulator/code.h"

namespace duotone::emulator {

Handler FindSyncHandler(const Instruction&, const HandlerOptions&) { return nullptr; }

}  // namespace duotone::emulator
