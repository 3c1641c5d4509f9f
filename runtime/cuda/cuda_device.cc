#include "runtime/cuda/cuda_device.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "runtime/cuda/cuda_context.h"
#include "runtime/cuda/cuda_program.h"

namespace duotone::runtime {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(std::unique_ptr<CudaContext> context, const CudaDeviceOptions& options)
      : context_(std::move(context)),
        use_graphs_(options.use_graphs && context_->driver().has_graphs()),
        log_(options.log) {}
  ~CudaDevice() override {
    DUOTONE_CHECK(programs_.empty()) << programs_.size() << " programs are still loaded";
  }

  std::string_view name() const override { return context_->name(); }
  std::string_view architecture() const override { return context_->architecture(); }
  absl::StatusOr<DeviceMemory> Allocate(int64_t bytes, std::string_view what) override;
  void Free(DeviceMemory memory) override;
  absl::Status Upload(DeviceMemory memory, const void* from, int64_t bytes) override;
  absl::Status Download(DeviceMemory memory, void* to, int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(std::shared_ptr<const Program> program,
                                                      StateStore& state) override;
  absl::Status Run(LoadedProgram& program, const RunOptions& options) override;
  absl::Status Synchronize() override;
  bool works_beside_host() const override { return true; }

 private:
  // The first error in the data of any program, once the device has been waited for.
  absl::Status TakeErrors();

  std::mutex mutex_;  // one caller at a time
  std::unique_ptr<CudaContext> context_;
  const bool use_graphs_;
  const std::function<void(const std::string&)> log_;
  std::vector<CudaProgram*> programs_;
};

CuDeviceAddress AddressOf(const DeviceMemory& memory) {
  return reinterpret_cast<CuDeviceAddress>(memory.address);
}

absl::StatusOr<DeviceMemory> CudaDevice::Allocate(int64_t bytes, std::string_view what) {
  std::lock_guard<std::mutex> lock(mutex_);
  DUOTONE_RETURN_IF_ERROR(context_->Enter());
  DUOTONE_ASSIGN_OR_RETURN(const CuDeviceAddress address, context_->Allocate(bytes, what));
  return DeviceMemory{reinterpret_cast<void*>(address), bytes};
}

void CudaDevice::Free(DeviceMemory memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (context_->Enter().ok()) context_->Free(AddressOf(memory), memory.bytes);
}

absl::Status CudaDevice::Upload(DeviceMemory memory, const void* from, int64_t bytes) {
  DUOTONE_CHECK(bytes == memory.bytes) << bytes << " bytes for " << memory.bytes;
  std::lock_guard<std::mutex> lock(mutex_);
  DUOTONE_RETURN_IF_ERROR(context_->Enter());
  for (CudaProgram* program : programs_) program->DropMirror(memory);
  return context_->Upload(AddressOf(memory), from, bytes);
}

absl::Status CudaDevice::Download(DeviceMemory memory, void* to, int64_t bytes) {
  DUOTONE_CHECK(bytes == memory.bytes) << bytes << " bytes for " << memory.bytes;
  std::lock_guard<std::mutex> lock(mutex_);
  DUOTONE_RETURN_IF_ERROR(context_->Enter());
  DUOTONE_RETURN_IF_ERROR(context_->Wait());
  DUOTONE_RETURN_IF_ERROR(TakeErrors());
  const bool is_here =
      std::any_of(programs_.begin(), programs_.end(),
                  [&](const CudaProgram* program) { return program->ReadMirror(memory, to); });
  return is_here ? absl::OkStatus() : context_->Download(to, AddressOf(memory), bytes);
}

absl::StatusOr<std::unique_ptr<LoadedProgram>> CudaDevice::Load(
    std::shared_ptr<const Program> program, StateStore& state) {
  DUOTONE_RETURN_IF_ERROR(CheckProgram(*program));
  DUOTONE_RETURN_IF_ERROR(CheckCudaProgram(*program, context_->name()));
  std::lock_guard<std::mutex> lock(mutex_);
  DUOTONE_RETURN_IF_ERROR(context_->Enter());
  auto loaded = std::make_unique<CudaProgram>(context_.get(), std::move(program), use_graphs_);
  DUOTONE_RETURN_IF_ERROR(loaded->Prepare(state, log_));
  programs_.push_back(loaded.get());
  loaded->set_on_destroy([this, gone = loaded.get()] {
    std::unique_lock<std::mutex> destroying(mutex_);
    std::erase(programs_, gone);
    return destroying;
  });
  return loaded;
}

absl::Status CudaDevice::Run(LoadedProgram& program, const RunOptions& options) {
  std::lock_guard<std::mutex> lock(mutex_);
  DUOTONE_RETURN_IF_ERROR(context_->Enter());
  return static_cast<CudaProgram&>(program).Run(options);
}

absl::Status CudaDevice::Synchronize() {
  std::lock_guard<std::mutex> lock(mutex_);
  DUOTONE_RETURN_IF_ERROR(context_->Enter());
  DUOTONE_RETURN_IF_ERROR(context_->Wait());
  return TakeErrors();
}

absl::Status CudaDevice::TakeErrors() {
  absl::Status first;
  for (CudaProgram* program : programs_) first.Update(program->TakeError());
  return first;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const CudaDeviceOptions& options) {
  const std::string name =
      options.name.empty() ? absl::StrCat("cuda:", options.ordinal) : options.name;
  std::shared_ptr<const Driver> driver = options.driver;
  if (driver == nullptr) {
    absl::StatusOr<std::shared_ptr<const Driver>> loaded = LoadDriver();
    DUOTONE_RETURN_IF_ERROR(loaded).With("%s", name);
    driver = *std::move(loaded);
  }
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<CudaContext> context,
                           CudaContext::Create(std::move(driver), options.ordinal, name));
  return std::make_unique<CudaDevice>(std::move(context), options);
}

}  // namespace duotone::runtime
