#include "runtime/emulator/global_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/integer.h"
#include "base/status.h"
#include "runtime/program.h"

namespace duotone::emulator {
namespace {

constexpr uint64_t kFirstBase = 0x7000'0000'0000;
constexpr int64_t kAlignment = 256;
// Nothing lies in between: accesses beside a buffer do not reach the next one.
constexpr int64_t kGap = 4096;
// What undefined memory holds: no number in any float type.
constexpr int kPoison = 0xff;

std::unique_ptr<uint8_t, void (*)(void*)> Zeros(int64_t bytes) {
  // Zeros that the system gives when they are first touched, aligned for the widest access.
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1)) + 64;
  auto* memory = static_cast<uint8_t*>(std::calloc(size, 1));
  return {memory, std::free};
}

}  // namespace

GlobalMemory::GlobalMemory(int64_t capacity, bool checked)
    : capacity_(capacity), is_checked_(checked), next_base_(kFirstBase) {}

GlobalMemory::~GlobalMemory() = default;

absl::StatusOr<uint64_t> GlobalMemory::Allocate(int64_t bytes, std::string name) {
  if (bytes < 0 || bytes > capacity_ - used_) {
    return ResourceExhausted("%d bytes for %s are not there: %d of %d are in use", bytes, name,
                             used_, capacity_);
  }
  auto made = std::make_unique<Allocation>();
  made->base = next_base_;
  made->bytes = bytes;
  made->name = std::move(name);
  made->data = Zeros(bytes);
  if (is_checked_) made->written = Zeros(bytes);
  if (made->data == nullptr || (is_checked_ && made->written == nullptr)) {
    return ResourceExhausted("the host has no %d bytes for %s", bytes, made->name);
  }
  if (is_checked_) made->shadow = std::make_unique<GlobalShadow>(bytes);
  used_ += bytes;
  next_base_ += static_cast<uint64_t>(RoundUp(bytes, kAlignment) + kGap);
  const uint64_t base = made->base;
  allocations_[base] = std::move(made);
  return base;
}

void GlobalMemory::MakeVariable(uint64_t address, bool is_constant) {
  if (Allocation* allocation = Find(address)) {
    allocation->is_variable = true;
    allocation->is_constant = is_constant;
  }
}

absl::Status GlobalMemory::Free(uint64_t address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) {
    return NotFound("0x%x is no allocation: it is %s", address, Describe(address, nullptr));
  }
  used_ -= found->second->bytes;
  freed_[address] = {found->second->bytes, found->second->name};
  allocations_.erase(found);
  return absl::OkStatus();
}

GlobalMemory::Allocation* GlobalMemory::Find(uint64_t address) const {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation* allocation = std::prev(after)->second.get();
  const uint64_t offset = address - allocation->base;
  return offset <= static_cast<uint64_t>(allocation->bytes) ? allocation : nullptr;
}

absl::StatusOr<GlobalMemory::Allocation*> GlobalMemory::FindFor(uint64_t address, int64_t bytes,
                                                                std::string_view what) const {
  Allocation* allocation = Find(address);
  const bool fits = allocation != nullptr && bytes >= 0 &&
                    bytes <= allocation->bytes - static_cast<int64_t>(address - allocation->base);
  if (fits) return allocation;
  return InvalidArgument("%s of %d bytes at 0x%x: it is %s", what, bytes, address,
                         Describe(address, nullptr));
}

std::string GlobalMemory::Describe(uint64_t address, bool* freed) const {
  if (freed != nullptr) *freed = false;
  if (address < kFirstBase - kGap || address >= next_base_) {
    return address < 4096 ? "a null pointer" : "no address of device memory";
  }
  auto after_freed = freed_.upper_bound(address);
  if (after_freed != freed_.begin()) {
    const auto& [base, was] = *std::prev(after_freed);
    if (address - base < static_cast<uint64_t>(was.bytes)) {
      if (freed != nullptr) *freed = true;
      return absl::StrFormat("%d bytes into %s (%d bytes), which has been freed", address - base,
                             was.name, was.bytes);
    }
  }
  const auto text = [&](uint64_t base, int64_t bytes, std::string_view name) {
    if (address < base) {
      return absl::StrFormat("%d bytes before %s (%d bytes)", base - address, name, bytes);
    }
    const auto offset = static_cast<int64_t>(address - base);
    if (offset < bytes) return absl::StrFormat("%d bytes into %s (%d bytes)", offset, name, bytes);
    return absl::StrFormat("%d bytes behind the end of %s (%d bytes)", offset - bytes, name, bytes);
  };
  // The launch's own buffers say more than the allocation they lie in.
  const Range* nearest = nullptr;
  uint64_t nearest_distance = UINT64_MAX;
  for (const Range& range : ranges_) {
    const uint64_t end = range.begin + static_cast<uint64_t>(range.bytes);
    const uint64_t distance = address < range.begin ? range.begin - address
                              : address < end       ? 0
                                                    : address - end + 1;
    if (distance < nearest_distance) {
      nearest = &range;
      nearest_distance = distance;
    }
  }
  if (nearest != nullptr && nearest_distance < uint64_t{kGap}) {
    return text(nearest->begin, nearest->bytes, nearest->name);
  }
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return "no address of device memory";
  const Allocation& allocation = *std::prev(after)->second;
  return text(allocation.base, allocation.bytes, allocation.name);
}

// ---- The host's copies

absl::Status GlobalMemory::Write(uint64_t to, const void* from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  DUOTONE_ASSIGN_OR_RETURN(Allocation * allocation, FindFor(to, bytes, "a copy to the device"));
  const uint64_t offset = to - allocation->base;
  std::memcpy(allocation->data.get() + offset, from, static_cast<size_t>(bytes));
  if (is_checked_) std::memset(allocation->written.get() + offset, 1, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status GlobalMemory::Read(void* to, uint64_t from, int64_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  DUOTONE_ASSIGN_OR_RETURN(const Allocation* allocation,
                           FindFor(from, bytes, "a copy from the device"));
  std::memcpy(to, allocation->data.get() + (from - allocation->base), static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status GlobalMemory::ReadMarks(uint8_t* to, uint64_t from, int64_t bytes) const {
  DUOTONE_CHECK(is_checked_);
  if (bytes == 0) return absl::OkStatus();
  DUOTONE_ASSIGN_OR_RETURN(const Allocation* allocation, FindFor(from, bytes, "a look at marks"));
  std::memcpy(to, allocation->written.get() + (from - allocation->base),
              static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status GlobalMemory::Copy(uint64_t to, uint64_t from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  DUOTONE_ASSIGN_OR_RETURN(Allocation * target, FindFor(to, bytes, "a copy on the device"));
  DUOTONE_ASSIGN_OR_RETURN(const Allocation* source, FindFor(from, bytes, "a copy on the device"));
  const auto size = static_cast<size_t>(bytes);
  std::memmove(target->data.get() + (to - target->base), source->data.get() + (from - source->base),
               size);
  if (is_checked_) {
    std::memmove(target->written.get() + (to - target->base),
                 source->written.get() + (from - source->base), size);
  }
  return absl::OkStatus();
}

absl::Status GlobalMemory::Fill(uint64_t to, uint32_t value, int element_bytes, int64_t count) {
  if (count == 0) return absl::OkStatus();
  if (count > capacity_ / element_bytes) {
    return InvalidArgument("a fill of %d elements of %d bytes", count, element_bytes);
  }
  const int64_t bytes = count * element_bytes;
  DUOTONE_ASSIGN_OR_RETURN(Allocation * allocation, FindFor(to, bytes, "a fill"));
  uint8_t* at = allocation->data.get() + (to - allocation->base);
  if (element_bytes == 1) {
    std::memset(at, static_cast<int>(value & 0xff), static_cast<size_t>(bytes));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(at + i * element_bytes, &value, static_cast<size_t>(element_bytes));
    }
  }
  if (is_checked_) {
    std::memset(allocation->written.get() + (to - allocation->base), 1, static_cast<size_t>(bytes));
  }
  return absl::OkStatus();
}

// ---- Launches

void GlobalMemory::AddRange(const Range& range) {
  for (Range& known : ranges_) {
    if (known.begin != range.begin || known.allocation != range.allocation) continue;
    known.bytes = std::max(known.bytes, range.bytes);
    known.padded_bytes = std::max(known.padded_bytes, range.padded_bytes);
    known.element_bytes = std::min(known.element_bytes, range.element_bytes);
    known.is_writable = known.is_writable || range.is_writable;
    return;
  }
  ranges_.push_back(range);
}

// A buffer that begins undefined holds what another has left. Bytes that also belong to a buffer
// which does not are kept.
void GlobalMemory::MarkUndefined(const runtime::LaunchNote& note) {
  for (const runtime::LaunchNote::Range& range : note.ranges) {
    if (!range.is_undefined || range.bytes == 0) continue;
    Allocation* allocation = Find(range.address);
    if (allocation == nullptr) continue;
    const auto offset = static_cast<int64_t>(range.address - allocation->base);
    for (int64_t at = 0; at < range.bytes;) {
      const uint64_t address = range.address + static_cast<uint64_t>(at);
      int64_t next = range.bytes;
      bool is_kept = false;
      for (const runtime::LaunchNote::Range& other : note.ranges) {
        if (other.is_undefined || other.bytes == 0) continue;
        const uint64_t end = other.address + static_cast<uint64_t>(other.bytes);
        if (address >= other.address && address < end) {
          is_kept = true;
          next = std::min(next, static_cast<int64_t>(end - range.address));
        } else if (other.address > address) {
          next = std::min(next, static_cast<int64_t>(other.address - range.address));
        }
      }
      if (!is_kept) {
        const int64_t count = std::min(next - at, allocation->bytes - offset - at);
        if (count <= 0) break;
        std::memset(allocation->data.get() + offset + at, kPoison, static_cast<size_t>(count));
        std::memset(allocation->written.get() + offset + at, 0, static_cast<size_t>(count));
      }
      at = next;
    }
  }
}

void GlobalMemory::BeginLaunch(uint32_t number, const runtime::LaunchNote* note) {
  launch_ = number;
  ranges_.clear();
  if (note != nullptr && is_checked_) MarkUndefined(*note);
  for (const auto& [base, allocation] : allocations_) {
    if (note != nullptr && !allocation->is_variable) continue;
    ranges_.push_back({.begin = base,
                       .bytes = allocation->bytes,
                       .padded_bytes = allocation->bytes,
                       .is_writable = !allocation->is_constant,
                       .name = allocation->name,
                       .allocation = allocation.get()});
  }
  if (note != nullptr) {
    for (const runtime::LaunchNote::Range& range : note->ranges) {
      Allocation* allocation = Find(range.address);
      if (allocation == nullptr || range.bytes == 0) continue;
      const int64_t left =
          allocation->bytes - static_cast<int64_t>(range.address - allocation->base);
      AddRange({.begin = range.address,
                .bytes = std::min(range.bytes, left),
                .padded_bytes = std::min(RoundUp(range.bytes, runtime::kBufferAlignment), left),
                .element_bytes = range.element_bytes,
                .is_writable = range.is_written,
                .name = range.name,
                .allocation = allocation});
    }
  }
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  uint64_t end = 0;
  for (Range& range : ranges_) {
    end = std::max(end, range.begin + static_cast<uint64_t>(range.padded_bytes));
    range.max_end = end;
  }
}

GlobalMemory::Traffic GlobalMemory::EndLaunch(bool counted) {
  Traffic traffic;
  if (counted && is_checked_) {
    traffic = {0, 0};
    uint64_t done = 0;
    for (const Range& range : ranges_) {
      // Ranges may overlap; each byte counts once.
      const uint64_t begin = std::max(range.begin, done);
      const uint64_t end = range.begin + static_cast<uint64_t>(range.bytes);
      if (begin >= end) continue;
      range.allocation->shadow->Count(static_cast<int64_t>(begin - range.allocation->base),
                                      static_cast<int64_t>(end - begin), launch_, &traffic.read,
                                      &traffic.written);
      done = end;
    }
  }
  ranges_.clear();
  order_.Clear();
  return traffic;
}

const GlobalMemory::Range* GlobalMemory::FindRange(uint64_t address, bool for_write,
                                                   const Range* hint) const {
  const auto suits = [&](const Range& range) { return range.is_writable || !for_write; };
  if (hint != nullptr && address - hint->begin < static_cast<uint64_t>(hint->bytes) &&
      suits(*hint)) {
    return hint;
  }
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                [](uint64_t a, const Range& range) { return a < range.begin; });
  // Of several ranges here one that suits; else one that at least has the byte, or its padding.
  const Range* best = nullptr;
  int best_rank = 0;
  while (after != ranges_.begin()) {
    --after;
    if (after->max_end <= address) break;
    const uint64_t offset = address - after->begin;
    if (offset >= static_cast<uint64_t>(after->padded_bytes)) continue;
    const int rank =
        1 + 2 * (offset < static_cast<uint64_t>(after->bytes) ? 1 : 0) + (suits(*after) ? 1 : 0);
    if (rank > best_rank) {
      best = &*after;
      best_rank = rank;
    }
    if (rank == 4) break;
  }
  return best;
}

}  // namespace duotone::emulator
