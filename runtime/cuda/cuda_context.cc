#include "runtime/cuda/cuda_context.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/gpu_target.h"
#include "base/integer.h"
#include "base/status.h"
#include "runtime/program.h"

namespace duotone::runtime {
namespace {

// The largest piece in which an upload travels: four of them are on their way at a time.
constexpr int64_t kSlotBytes = 4 << 20;

int64_t Padded(int64_t bytes) {
  return std::max<int64_t>(1, CeilDiv(bytes, kBufferAlignment)) * kBufferAlignment;
}

std::string DeviceList(int count) {
  std::string text = "cuda:0";
  for (int i = 1; i < count; ++i)
    absl::StrAppend(&text, i + 1 < count ? ", " : " and ", "cuda:", i);
  return text;
}

}  // namespace

std::string MemoryText(int64_t bytes) {
  if (bytes < 1000) return absl::StrFormat("%d B", bytes);
  double size = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KB", "MB", "GB", "TB"}) {
    if (size < 1000) break;
    size /= 1000;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", size, unit);
}

absl::StatusOr<std::unique_ptr<CudaContext>> CudaContext::Create(
    std::shared_ptr<const Driver> driver, int ordinal, std::string name) {
  std::unique_ptr<CudaContext> context(
      new CudaContext(std::move(driver), ordinal, std::move(name)));
  DUOTONE_RETURN_IF_ERROR(context->Open()).With("%s", context->name_);
  return context;
}

absl::Status CudaContext::Open() {
  int count = 0;
  const CuResult counted = driver_->DeviceGetCount(&count);
  if (counted == kCuNoDevice || (counted == kCuSuccess && count == 0)) {
    return FailedPrecondition("the driver finds no CUDA device on this machine");
  }
  DUOTONE_RETURN_IF_ERROR(driver_->Check(counted, "counting devices"));
  if (ordinal_ < 0 || ordinal_ >= count) {
    return FailedPrecondition("there is no such device; this machine has %s", DeviceList(count));
  }
  DUOTONE_RETURN_IF_ERROR(
      driver_->Check(driver_->DeviceGet(&device_, ordinal_), "opening the device"));
  DUOTONE_RETURN_IF_ERROR(CheckDevice());
  DUOTONE_RETURN_IF_ERROR(driver_->Check(driver_->DevicePrimaryCtxRetain(&context_, device_),
                                         "creating a context on %s", model_));
  DUOTONE_RETURN_IF_ERROR(Enter());
  for (CuStream* stream : {&stream_, &copy_stream_}) {
    DUOTONE_RETURN_IF_ERROR(
        driver_->Check(driver_->StreamCreate(stream, kCuStreamNonBlocking), "creating a stream"));
  }
  return absl::OkStatus();
}

absl::Status CudaContext::CheckDevice() {
  char model[256] = {};
  DUOTONE_RETURN_IF_ERROR(driver_->Check(driver_->DeviceGetName(model, sizeof(model) - 1, device_),
                                         "asking for the device's name"));
  model_ = model;
  const auto attribute = [&](int which, int* value) {
    return driver_->Check(driver_->DeviceGetAttribute(value, which, device_),
                          "asking %s for attribute %d", model_, which);
  };
  int major = 0, minor = 0, shared = 0;
  DUOTONE_RETURN_IF_ERROR(attribute(kCuComputeCapabilityMajor, &major));
  DUOTONE_RETURN_IF_ERROR(attribute(kCuComputeCapabilityMinor, &minor));
  DUOTONE_RETURN_IF_ERROR(attribute(kCuMaxSharedMemoryPerBlockOptin, &shared));
  max_shared_bytes_ = shared;
  architecture_ = absl::StrFormat("sm_%d%d", major, minor);
  const GpuTarget& oldest = AllGpuTargets().front();
  if (10 * major + minor < oldest.compute) {
    return FailedPrecondition("%s is %s; kernels are made for %s and newer", model_, architecture_,
                              oldest.name);
  }
  return absl::OkStatus();
}

CudaContext::~CudaContext() {
  if (context_ == nullptr) return;
  // Errors have been reported by the calls that caused them; a broken context frees all anyway.
  if (Enter().ok()) {
    if (stream_ != nullptr) driver_->StreamSynchronize(stream_);
    for (Slot& slot : slots_) FreeSlot(slot);
    for (CuStream stream : {stream_, copy_stream_}) {
      if (stream != nullptr) driver_->StreamDestroy(stream);
    }
  }
  driver_->DevicePrimaryCtxRelease(device_);
}

absl::Status CudaContext::Enter() const {
  return driver_->Check(driver_->CtxSetCurrent(context_), "%s: entering the context", name_);
}

absl::StatusOr<CudaContext::Memory> CudaContext::QueryMemory() const {
  size_t free = 0, total = 0;
  DUOTONE_RETURN_IF_ERROR(
      driver_->Check(driver_->MemGetInfo(&free, &total), "%s: asking for free memory", name_));
  return Memory{static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

absl::Status CudaContext::OutOfMemory(int64_t bytes, std::string_view what) const {
  const absl::StatusOr<Memory> memory = QueryMemory();
  const std::string state =
      memory.ok()
          ? absl::StrFormat("%s of %s are free, %s are used by this session",
                            MemoryText(memory->free), MemoryText(memory->total), MemoryText(used_))
          : absl::StrFormat("%s are used by this session", MemoryText(used_));
  return ResourceExhausted(
      "%s (%s): out of memory: %s needs %s; %s. A smaller batch, a 16-bit type or gradient "
      "accumulation needs less",
      name_, model_, what, MemoryText(bytes), state);
}

absl::StatusOr<CuDeviceAddress> CudaContext::Allocate(int64_t bytes, std::string_view what) {
  CuDeviceAddress address = 0;
  const int64_t padded = Padded(bytes);
  const CuResult result = driver_->MemAlloc(&address, static_cast<size_t>(padded));
  if (result == kCuOutOfMemory) return OutOfMemory(bytes, what);
  DUOTONE_RETURN_IF_ERROR(
      driver_->Check(result, "%s: allocating %s for %s", name_, MemoryText(bytes), what));
  used_ += padded;
  const uint8_t zero = 0;
  absl::Status cleared = Fill(address, {&zero, 1}, padded);
  if (!cleared.ok()) {
    Free(address, bytes);
    return cleared;
  }
  return address;
}

void CudaContext::Free(CuDeviceAddress address, int64_t bytes) {
  if (address == 0) return;
  driver_->MemFree(address);
  used_ -= Padded(bytes);
}

absl::StatusOr<void*> CudaContext::AllocatePinned(int64_t bytes) {
  void* address = nullptr;
  const CuResult result =
      driver_->MemHostAlloc(&address, static_cast<size_t>(bytes), kCuMemHostAllocPortable);
  DUOTONE_RETURN_IF_ERROR(
      driver_->Check(result, "%s: allocating %s of pinned host memory", name_, MemoryText(bytes)));
  return address;
}

void CudaContext::FreePinned(void* address) {
  if (address != nullptr) driver_->MemFreeHost(address);
}

bool CudaContext::CanFill(std::span<const uint8_t> element) {
  if (element.size() == 8) return std::equal(element.begin(), element.begin() + 4, &element[4]);
  return element.size() == 1 || element.size() == 2 || element.size() == 4;
}

absl::Status CudaContext::Fill(CuDeviceAddress to, std::span<const uint8_t> element,
                               int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const size_t size = std::min<size_t>(element.size(), 4);
  const size_t count = static_cast<size_t>(bytes) / size;
  CuResult result = kCuSuccess;
  if (size == 4) {
    unsigned value = 0;
    std::memcpy(&value, element.data(), sizeof(value));
    result = driver_->MemsetD32Async(to, value, count, stream_);
  } else if (size == 2) {
    unsigned short value = 0;
    std::memcpy(&value, element.data(), sizeof(value));
    result = driver_->MemsetD16Async(to, value, count, stream_);
  } else {
    result = driver_->MemsetD8Async(to, element[0], count, stream_);
  }
  return driver_->Check(result, "%s: filling %s", name_, MemoryText(bytes));
}

absl::Status CudaContext::PrepareSlot(Slot& slot, int64_t bytes) {
  if (slot.in_use) {
    DUOTONE_RETURN_IF_ERROR(driver_->Check(driver_->EventSynchronize(slot.consumed),
                                           "%s: waiting for an upload", name_));
  }
  slot.in_use = false;
  if (slot.bytes >= bytes) return absl::OkStatus();
  FreeSlot(slot);
  absl::Status grown = GrowSlot(slot, bytes);
  if (!grown.ok()) FreeSlot(slot);
  return grown;
}

absl::Status CudaContext::GrowSlot(Slot& slot, int64_t bytes) {
  // Rounding up keeps feeds of a few sizes from growing it again and again.
  slot.bytes = 64 << 10;
  while (slot.bytes < bytes) slot.bytes *= 2;
  DUOTONE_ASSIGN_OR_RETURN(slot.pinned, AllocatePinned(slot.bytes));
  DUOTONE_ASSIGN_OR_RETURN(slot.staging, Allocate(slot.bytes, "a buffer for uploads"));
  for (CuEvent* event : {&slot.arrived, &slot.consumed}) {
    DUOTONE_RETURN_IF_ERROR(driver_->Check(driver_->EventCreate(event, kCuEventDisableTiming),
                                           "%s: creating an event", name_));
  }
  // The memory is cleared on the stream that computes; the other one may write it from now on.
  return Wait();
}

void CudaContext::FreeSlot(Slot& slot) {
  FreePinned(slot.pinned);
  Free(slot.staging, slot.bytes);
  for (CuEvent event : {slot.arrived, slot.consumed}) {
    if (event != nullptr) driver_->EventDestroy(event);
  }
  slot = Slot();
}

// Host to device on the stream for copies, while the other one may still compute; then within the
// device, in its order.
absl::Status CudaContext::UploadPiece(Slot& slot, CuDeviceAddress to, const void* from,
                                      int64_t bytes) {
  DUOTONE_RETURN_IF_ERROR(PrepareSlot(slot, bytes));
  const size_t size = static_cast<size_t>(bytes);
  std::memcpy(slot.pinned, from, size);
  const auto check = [&](CuResult result) {
    return driver_->Check(result, "%s: uploading %s", name_, MemoryText(bytes));
  };
  DUOTONE_RETURN_IF_ERROR(
      check(driver_->MemcpyHtoDAsync(slot.staging, slot.pinned, size, copy_stream_)));
  slot.in_use = true;
  DUOTONE_RETURN_IF_ERROR(check(driver_->EventRecord(slot.arrived, copy_stream_)));
  DUOTONE_RETURN_IF_ERROR(check(driver_->StreamWaitEvent(stream_, slot.arrived, 0)));
  DUOTONE_RETURN_IF_ERROR(check(driver_->MemcpyDtoDAsync(to, slot.staging, size, stream_)));
  return check(driver_->EventRecord(slot.consumed, stream_));
}

absl::Status CudaContext::Upload(CuDeviceAddress to, const void* from, int64_t bytes) {
  for (int64_t done = 0; done < bytes; done += kSlotBytes) {
    Slot& slot = slots_[next_slot_++ % slots_.size()];
    DUOTONE_RETURN_IF_ERROR(UploadPiece(slot, to + static_cast<CuDeviceAddress>(done),
                                        static_cast<const char*>(from) + done,
                                        std::min(kSlotBytes, bytes - done)));
  }
  return absl::OkStatus();
}

absl::Status CudaContext::Download(void* to, CuDeviceAddress from, int64_t bytes) {
  DUOTONE_RETURN_IF_ERROR(Wait());
  if (bytes == 0) return absl::OkStatus();
  return driver_->Check(driver_->MemcpyDtoH(to, from, static_cast<size_t>(bytes)),
                        "%s: downloading %s", name_, MemoryText(bytes));
}

absl::Status CudaContext::Wait() {
  return driver_->Check(driver_->StreamSynchronize(stream_), "%s: waiting for the device", name_);
}

}  // namespace duotone::runtime
