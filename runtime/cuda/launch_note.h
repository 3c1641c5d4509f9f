// What the launches of a program are about, for devices that check what kernels do
// (Driver::NoteNextLaunch): which bytes each may access, and which of them hold nothing yet.
//
//   launch of %h = relu(%x):  %x 256 bytes, read;  %h 256 bytes, written, undefined before
#ifndef DUOTONE_RUNTIME_CUDA_LAUNCH_NOTE_H_
#define DUOTONE_RUNTIME_CUDA_LAUNCH_NOTE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/program.h"

namespace duotone::runtime {

// Where a loaded program lies.
struct ProgramPlaces {
  std::span<const CuDeviceAddress> buffers;  // by buffer
  CuDeviceAddress random = 0;                // a RandomState
  CuDeviceAddress errors = 0;                // an ErrorRecord
  // By step, the parameters of its launch as its arguments name them: of a table its address.
  std::span<const std::vector<uint64_t>> values;
};

// A note for every step that is a launch, null for others. Notes keep the program alive.
//
// A temporary or an output is undefined before the launch that touches it first, unless that one
// reads it: what lies there is a value of another buffer or of the run before.
std::vector<std::shared_ptr<const LaunchNote>> MakeLaunchNotes(
    const std::shared_ptr<const Program>& program, const ProgramPlaces& places);

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_LAUNCH_NOTE_H_
