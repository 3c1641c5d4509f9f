// What a GPU of an architecture says about itself and its kernels, as the driver's attributes.
#ifndef DUOTONE_RUNTIME_EMULATOR_ATTRIBUTES_H_
#define DUOTONE_RUNTIME_EMULATOR_ATTRIBUTES_H_

#include <optional>

#include "base/gpu_target.h"
#include "runtime/emulator/code.h"

namespace duotone::emulator {

// CUdevice_attribute; nothing for those that are not known of the emulated device.
std::optional<int> DeviceAttribute(const GpuTarget& target, int attribute);

// How many 32-bit registers per thread the machine code may need. PTX has as many as it likes;
// this is the largest number of bytes that are alive at one instruction of the entry, rounded as
// registers are given out. What the driver's translation makes of it is not known.
int EstimateRegisters(const Executable& kernel, const GpuTarget& target);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_ATTRIBUTES_H_
