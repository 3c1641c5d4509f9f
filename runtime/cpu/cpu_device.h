// The CPU as a device: runs every step at once on the calling thread and a pool of its own. Results
// do not depend on the number of threads, and a run allocates nothing (library calls apart).
#ifndef DUOTONE_RUNTIME_CPU_CPU_DEVICE_H_
#define DUOTONE_RUNTIME_CPU_CPU_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device.h"

namespace duotone::runtime {

struct CpuDeviceOptions {
  std::string name = "cpu";  // "reference" where programs are lowered without library calls
  int threads = 0;           // 0: as many as the hardware runs at once
  int64_t memory_limit = 0;  // bytes that may be allocated at a time; 0: the machine's memory
};

std::unique_ptr<Device> CreateCpuDevice(CpuDeviceOptions options = {});

// True if this build has the matrix-product library; without it, programs with MatMul steps do not
// load.
bool CpuDeviceHasLibrary();

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CPU_CPU_DEVICE_H_
