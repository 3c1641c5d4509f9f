// Memory as a kernel gets it from a device: padded to 64 bytes, at an aligned address, full of
// garbage. Writes before it or behind its padding are noticed.
#ifndef DUOTONE_TESTS_CODEGEN_CUDA_GUARDED_BUFFER_H_
#define DUOTONE_TESTS_CODEGEN_CUDA_GUARDED_BUFFER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

namespace duotone::codegen::cuda {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t bytes)
      : bytes_(bytes),
        padded_((std::max<int64_t>(bytes, 1) + 63) / 64 * 64),
        storage_(new unsigned char[padded_ + 2 * kGuardBytes + kAlignment]) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(storage_.get()) + kGuardBytes;
    data_ = reinterpret_cast<unsigned char*>((begin + kAlignment - 1) & ~(kAlignment - 1));
    std::memset(data_ - kGuardBytes, kGuard, kGuardBytes);
    std::memset(data_, kGarbage, static_cast<size_t>(padded_));
    std::memset(data_ + padded_, kGuard, kGuardBytes);
  }

  int64_t bytes() const { return bytes_; }
  unsigned char* data() const { return data_; }
  // False once something was written around it.
  bool Intact() const {
    const auto guarded = [](unsigned char byte) { return byte == kGuard; };
    return std::all_of(data_ - kGuardBytes, data_, guarded) &&
           std::all_of(data_ + padded_, data_ + padded_ + kGuardBytes, guarded);
  }

 private:
  static constexpr size_t kGuardBytes = 256;
  static constexpr uintptr_t kAlignment = 256;  // that of the driver's allocations
  static constexpr unsigned char kGuard = 0xa5;
  static constexpr unsigned char kGarbage = 0xff;  // NaN in every float type

  int64_t bytes_;
  int64_t padded_;
  std::unique_ptr<unsigned char[]> storage_;
  unsigned char* data_ = nullptr;
};

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_TESTS_CODEGEN_CUDA_GUARDED_BUFFER_H_
