// What executes programs: an interface of a few functions that a host, a GPU driver and its
// emulation can all offer.
//
//   std::unique_ptr<Device> device = CreateCpuDevice();  // runtime/cpu/cpu_device.h
//   StateStore state(device.get());                      // runtime/state_store.h
//   absl::Status added = state.Add("w", DType::kF32, {4, 4});
//   auto step = device->Load(program, state);
//   device->Upload((*step)->memory(program->FindInput("x")), x, sizeof(x));
//   device->Run(**step, {.seed = 1});
//   device->Synchronize();
//   device->Download((*step)->memory(program->FindOutput("loss")), &loss, sizeof(loss));
#ifndef DUOTONE_RUNTIME_DEVICE_H_
#define DUOTONE_RUNTIME_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/program.h"

namespace duotone::runtime {

class StateStore;

// A range of a device's memory. `address` means something to the device only.
struct DeviceMemory {
  void* address = nullptr;
  int64_t bytes = 0;
};

// A program with its arena on one device, tied to the state of one session. Gives its memory back
// when destroyed; device and state store outlive it.
class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
  virtual const Program& program() const = 0;
  // Where a buffer lives: fixed from Load on, so feeds and metrics can be bound once.
  virtual DeviceMemory memory(int buffer) const = 0;
};

struct RunOptions {
  uint64_t seed = 0;
  int64_t step = 0;  // for programs without a rng_position state
  int64_t micro_batch = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  // "cpu", "cuda:0"
  // What kernels have to be compiled for: "sm_80"; "" for devices that take none.
  virtual std::string_view architecture() const { return ""; }

  // Zeroed memory, aligned to kBufferAlignment; a ResourceExhausted error if there is not enough.
  // `what` names its purpose in the message.
  virtual absl::StatusOr<DeviceMemory> Allocate(int64_t bytes, std::string_view what) = 0;
  virtual void Free(DeviceMemory memory) = 0;

  // Copies exactly `bytes`, which must be the size of `memory`. An upload may return before it is
  // done, but the source may be changed then; a download waits for the work that was given to the
  // device before.
  virtual absl::Status Upload(DeviceMemory memory, const void* from, int64_t bytes) = 0;
  virtual absl::Status Download(DeviceMemory memory, void* to, int64_t bytes) = 0;

  // Allocates the arena, fills constants and ties the program to the state entries it names.
  virtual absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(
      std::shared_ptr<const Program> program, StateStore& state) = 0;
  // Gives one run to the device, in order after all work before it. An error in the data (an index
  // out of range) is reported here by devices that run at once, and the steps from the failing one
  // on are not run; other devices run them all and report it in the next Synchronize or Download.
  virtual absl::Status Run(LoadedProgram& program, const RunOptions& options) = 0;
  // Waits for all work.
  virtual absl::Status Synchronize() = 0;
  // True if Run returns before the run is done.
  virtual bool works_beside_host() const { return false; }
};

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_DEVICE_H_
