#include "tests/runtime/fake_device.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "runtime/state_store.h"

namespace duotone::runtime {
namespace {

class FakeProgram final : public LoadedProgram {
 public:
  FakeProgram(FakeDevice* device, std::shared_ptr<const Program> program, DeviceMemory arena)
      : device_(device), program_(std::move(program)), arena_(arena) {}
  ~FakeProgram() override { device_->Free(arena_); }

  const Program& program() const override { return *program_; }
  DeviceMemory memory(int buffer) const override {
    const Buffer& b = program_->buffers[buffer];
    DUOTONE_CHECK(b.kind != BufferKind::kState) << b.name << " lives in the state store";
    return {static_cast<char*>(arena_.address) + b.offset, b.bytes};
  }

 private:
  FakeDevice* device_;
  std::shared_ptr<const Program> program_;
  DeviceMemory arena_;
};

}  // namespace

absl::Status FakeDevice::Record(std::string line) {
  log_.push_back(std::move(line));
  return std::exchange(next_, absl::OkStatus());
}

int64_t FakeDevice::used() const {
  int64_t words = 0;
  for (const auto& [address, memory] : memory_) words += static_cast<int64_t>(memory.size());
  return words * 8;
}

absl::StatusOr<DeviceMemory> FakeDevice::Allocate(int64_t bytes, std::string_view what) {
  DUOTONE_RETURN_IF_ERROR(Record(absl::StrFormat("allocate %d %s", bytes, what)));
  std::vector<uint64_t> memory(static_cast<size_t>(bytes + 8) / 8);
  void* const address = memory.data();
  memory_[address] = std::move(memory);
  return DeviceMemory{address, bytes};
}

void FakeDevice::Free(DeviceMemory memory) {
  log_.push_back(absl::StrFormat("free %d", memory.bytes));
  DUOTONE_CHECK(memory_.erase(memory.address) == 1) << "no such memory";
}

absl::Status FakeDevice::Upload(DeviceMemory memory, const void* from, int64_t bytes) {
  DUOTONE_CHECK(bytes == memory.bytes) << bytes << " bytes for " << memory.bytes;
  if (bytes > 0) std::memcpy(memory.address, from, static_cast<size_t>(bytes));
  return Record(absl::StrFormat("upload %d", bytes));
}

absl::Status FakeDevice::Download(DeviceMemory memory, void* to, int64_t bytes) {
  DUOTONE_CHECK(bytes == memory.bytes) << bytes << " bytes for " << memory.bytes;
  if (bytes > 0) std::memcpy(to, memory.address, static_cast<size_t>(bytes));
  return Record(absl::StrFormat("download %d", bytes));
}

absl::StatusOr<std::unique_ptr<LoadedProgram>> FakeDevice::Load(
    std::shared_ptr<const Program> program, StateStore&) {
  DUOTONE_RETURN_IF_ERROR(CheckProgram(*program));
  DUOTONE_RETURN_IF_ERROR(Record(absl::StrFormat("load @%s", program->name)));
  DUOTONE_ASSIGN_OR_RETURN(DeviceMemory arena, Allocate(program->arena_bytes, "arena"));
  return std::make_unique<FakeProgram>(this, std::move(program), arena);
}

absl::Status FakeDevice::Run(LoadedProgram& program, const RunOptions& options) {
  return Record(absl::StrFormat("run @%s seed=%d", program.program().name, options.seed));
}

absl::Status FakeDevice::Synchronize() { return Record("synchronize"); }

}  // namespace duotone::runtime
