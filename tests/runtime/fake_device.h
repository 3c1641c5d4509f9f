// A device that runs nothing: it keeps its memory on the host and records what it is asked for, so
// that sessions can be tested for order, allocation and lifetimes.
#ifndef DUOTONE_TESTS_RUNTIME_FAKE_DEVICE_H_
#define DUOTONE_TESTS_RUNTIME_FAKE_DEVICE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace duotone::runtime {

class FakeDevice final : public Device {
 public:
  // "allocate 64 state %w, f32[16]", "upload 4", "run @step seed=1", …
  const std::vector<std::string>& log() const { return log_; }
  void ClearLog() { log_.clear(); }
  // Bytes that are allocated and not freed.
  int64_t used() const;
  // The next call that may fail returns this.
  void FailNext(absl::Status status) { next_ = std::move(status); }

  std::string_view name() const override { return "fake"; }
  absl::StatusOr<DeviceMemory> Allocate(int64_t bytes, std::string_view what) override;
  void Free(DeviceMemory memory) override;
  absl::Status Upload(DeviceMemory memory, const void* from, int64_t bytes) override;
  absl::Status Download(DeviceMemory memory, void* to, int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(std::shared_ptr<const Program> program,
                                                      StateStore& state) override;
  absl::Status Run(LoadedProgram& program, const RunOptions& options) override;
  absl::Status Synchronize() override;

 private:
  absl::Status Record(std::string line);

  std::vector<std::string> log_;
  std::map<void*, std::vector<uint64_t>> memory_;
  absl::Status next_;
};

}  // namespace duotone::runtime

#endif  // DUOTONE_TESTS_RUNTIME_FAKE_DEVICE_H_
