// The emulated device's memory: allocations at addresses that are never used twice, which bytes of
// them have been written, and by whom in the running launch.
#ifndef DUOTONE_RUNTIME_EMULATOR_GLOBAL_MEMORY_H_
#define DUOTONE_RUNTIME_EMULATOR_GLOBAL_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/cuda/driver.h"

namespace duotone::emulator {

class GlobalMemory {
 public:
  GlobalMemory(int64_t capacity, bool checked);
  ~GlobalMemory();

  // Uninitialised bytes, aligned to 256; a ResourceExhausted error beyond the capacity. Also for
  // empty allocations the address is a new one.
  absl::StatusOr<uint64_t> Allocate(int64_t bytes, std::string name);
  // NotFound for an address that is none of an allocation. Use of it afterwards is a problem.
  absl::Status Free(uint64_t address);
  int64_t used() const;
  int64_t capacity() const;

  // Copies and fills by the host. OutOfRange says what is beside what.
  absl::Status Write(uint64_t to, const void* from, int64_t bytes);
  absl::Status Read(void* to, uint64_t from, int64_t bytes) const;
  absl::Status Copy(uint64_t to, uint64_t from, int64_t bytes);
  absl::Status Fill(uint64_t to, uint32_t value, int element_bytes, int64_t count);

  // Around a launch, whose blocks then access it from several threads. With a note every access is
  // held against its ranges, and those that begin undefined are marked so.
  void BeginLaunch(uint32_t number, const runtime::LaunchNote* note);
  void EndLaunch();
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_GLOBAL_MEMORY_H_
