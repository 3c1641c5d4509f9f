// The state of one session in device memory: parameters, moments, counters. Programs of the session
// (step, eval, other batch sizes) are tied to it when they are loaded and share it.
#ifndef DUOTONE_RUNTIME_STATE_STORE_H_
#define DUOTONE_RUNTIME_STATE_STORE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace duotone::runtime {

class StateStore {
 public:
  struct Entry {
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;
    DeviceMemory memory;
  };

  // The device outlives the store.
  explicit StateStore(Device* device) : device_(device) {}
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  Device* device() const { return device_; }

  // Adds an entry with all bytes zero.
  absl::Status Add(std::string_view name, DType dtype, std::vector<int64_t> shape);
  const Entry* Find(std::string_view name) const;
  // The entry that one of the program's state buffers stands for; an error unless it is there and
  // has the buffer's dtype and shape.
  absl::StatusOr<const Entry*> EntryFor(const Program& program, const NamedBuffer& named) const;
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }

  // Copies an entry from or to the host; `bytes` must be its size.
  absl::Status Write(std::string_view name, const void* from, int64_t bytes);
  absl::Status Read(std::string_view name, void* to, int64_t bytes) const;

 private:
  absl::StatusOr<const Entry*> Get(std::string_view name, int64_t bytes) const;

  Device* device_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_STATE_STORE_H_
