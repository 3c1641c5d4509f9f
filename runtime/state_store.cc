#include "runtime/state_store.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace duotone::runtime {

StateStore::~StateStore() {
  for (auto& [name, entry] : entries_) device_->Free(entry.memory);
}

absl::Status StateStore::Add(std::string_view name, DType dtype, std::vector<int64_t> shape) {
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) {
      return InvalidArgument("state %%%s: %s has no size in memory", name,
                             TypeToString(dtype, shape));
    }
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, ByteSize(dtype), &bytes)) {
    return InvalidArgument("state %%%s: %s has no size in memory", name,
                           TypeToString(dtype, shape));
  }
  if (Find(name) != nullptr) return InvalidArgument("state %%%s: is there already", name);
  DUOTONE_ASSIGN_OR_RETURN(DeviceMemory memory,
                           device_->Allocate(bytes, absl::StrFormat("state %%%s, %s", name,
                                                                    TypeToString(dtype, shape))));
  entries_.emplace(std::string(name), Entry{dtype, std::move(shape), memory});
  return absl::OkStatus();
}

const StateStore::Entry* StateStore::Find(std::string_view name) const {
  auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

absl::StatusOr<const StateStore::Entry*> StateStore::EntryFor(const Program& program,
                                                              const NamedBuffer& named) const {
  const Buffer& buffer = program.buffers[named.buffer];
  const Entry* entry = Find(named.name);
  if (entry == nullptr) {
    return FailedPrecondition("program @%s: the session has no state %%%s", program.name,
                              named.name);
  }
  if (entry->dtype != buffer.dtype || entry->shape != buffer.shape) {
    return FailedPrecondition("program @%s: state %%%s is %s in the session, not %s", program.name,
                              named.name, TypeToString(entry->dtype, entry->shape),
                              TypeToString(buffer.dtype, buffer.shape));
  }
  return entry;
}

absl::StatusOr<const StateStore::Entry*> StateStore::Get(std::string_view name,
                                                         int64_t bytes) const {
  const Entry* entry = Find(name);
  if (entry == nullptr) return NotFound("state %%%s: there is no such entry", name);
  if (bytes != entry->memory.bytes) {
    return InvalidArgument("state %%%s: %s has %d bytes, not %d", name,
                           TypeToString(entry->dtype, entry->shape), entry->memory.bytes, bytes);
  }
  return entry;
}

absl::Status StateStore::Write(std::string_view name, const void* from, int64_t bytes) {
  DUOTONE_ASSIGN_OR_RETURN(const Entry* entry, Get(name, bytes));
  return device_->Upload(entry->memory, from, bytes);
}

absl::Status StateStore::Read(std::string_view name, void* to, int64_t bytes) const {
  DUOTONE_ASSIGN_OR_RETURN(const Entry* entry, Get(name, bytes));
  return device_->Download(entry->memory, to, bytes);
}

}  // namespace duotone::runtime
