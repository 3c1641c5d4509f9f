// One GPU's context: its streams, its memory, and the way of data to it and back. What
// runtime/cuda/cuda_device.cc and cuda_program.cc stand on.
#ifndef DUOTONE_RUNTIME_CUDA_CUDA_CONTEXT_H_
#define DUOTONE_RUNTIME_CUDA_CUDA_CONTEXT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/cuda/driver.h"

namespace duotone::runtime {

// "1.2 GB", for messages.
std::string MemoryText(int64_t bytes);

class CudaContext {
 public:
  // `name` stands in front of messages: "cuda:0".
  static absl::StatusOr<std::unique_ptr<CudaContext>> Create(std::shared_ptr<const Driver> driver,
                                                             int ordinal, std::string name);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const Driver& driver() const { return *driver_; }
  const std::string& name() const { return name_; }
  const std::string& model() const { return model_; }                // "NVIDIA A100-SXM4-40GB"
  const std::string& architecture() const { return architecture_; }  // "sm_80"
  int64_t max_shared_bytes() const { return max_shared_bytes_; }     // per block
  // All work is in order on this stream; uploads reach it through another.
  CuStream stream() const { return stream_; }

  // Makes the context that of the calling thread; before anything below.
  absl::Status Enter() const;

  // Zeroed memory, padded to kBufferAlignment and aligned to 256 bytes. `what` names its purpose.
  absl::StatusOr<CuDeviceAddress> Allocate(int64_t bytes, std::string_view what);
  void Free(CuDeviceAddress address, int64_t bytes);
  int64_t used() const { return used_; }
  struct Memory {
    int64_t free = 0;
    int64_t total = 0;
  };
  absl::StatusOr<Memory> QueryMemory() const;
  // That `bytes` more are not there, and what to do.
  absl::Status OutOfMemory(int64_t bytes, std::string_view what) const;

  // Host memory that the device can read and write while the host does other things.
  absl::StatusOr<void*> AllocatePinned(int64_t bytes);
  void FreePinned(void* address);

  // Repeats `element` over `bytes` bytes, in stream order. Elements of 1, 2 or 4 bytes, or of 8
  // with equal halves; false for others.
  static bool CanFill(std::span<const uint8_t> element);
  absl::Status Fill(CuDeviceAddress to, std::span<const uint8_t> element, int64_t bytes);
  // Copies through pinned buffers; `from` may be changed when it returns.
  absl::Status Upload(CuDeviceAddress to, const void* from, int64_t bytes);
  // Copies and waits for it.
  absl::Status Download(void* to, CuDeviceAddress from, int64_t bytes);
  // Waits for all work.
  absl::Status Wait();

 private:
  // A piece of an upload on its way: host memory, the same on the device, and the moments when the
  // one and the other may be used again.
  struct Slot {
    void* pinned = nullptr;
    CuDeviceAddress staging = 0;
    int64_t bytes = 0;
    CuEvent arrived = nullptr;
    CuEvent consumed = nullptr;
    bool in_use = false;
  };

  CudaContext(std::shared_ptr<const Driver> driver, int ordinal, std::string name)
      : driver_(std::move(driver)), ordinal_(ordinal), name_(std::move(name)) {}
  absl::Status Open();
  absl::Status CheckDevice();
  absl::Status PrepareSlot(Slot& slot, int64_t bytes);
  absl::Status GrowSlot(Slot& slot, int64_t bytes);
  absl::Status UploadPiece(Slot& slot, CuDeviceAddress to, const void* from, int64_t bytes);
  void FreeSlot(Slot& slot);

  std::shared_ptr<const Driver> driver_;
  const int ordinal_;
  const std::string name_;
  CuDevice device_ = 0;
  std::string model_;
  std::string architecture_;
  int64_t max_shared_bytes_ = 0;
  CuContext context_ = nullptr;
  CuStream stream_ = nullptr;
  CuStream copy_stream_ = nullptr;
  std::array<Slot, 4> slots_;
  size_t next_slot_ = 0;
  int64_t used_ = 0;
};

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_CUDA_CONTEXT_H_
