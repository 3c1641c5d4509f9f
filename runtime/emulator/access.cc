#include "runtime/emulator/access.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_format.h"

namespace duotone::emulator {
namespace {

// Marks are bytes of 1 and 0. Blocks that race on the same bytes must not be undefined behaviour of
// the host, so they are read and written by atomics.
template <typename T>
bool AllWritten(const uint8_t* marks) {
  constexpr T kOnes = static_cast<T>(0x0101010101010101u);
  return __atomic_load_n(reinterpret_cast<const T*>(marks), __ATOMIC_RELAXED) == kOnes;
}

bool IsWritten(const uint8_t* marks, int bytes) {
  switch (bytes) {
    case 2:
      return AllWritten<uint16_t>(marks);
    case 4:
      return AllWritten<uint32_t>(marks);
    case 8:
      return AllWritten<uint64_t>(marks);
    case 16:
      return AllWritten<uint64_t>(marks) && AllWritten<uint64_t>(marks + 8);
    default:
      break;
  }
  int at = 0;
  for (; at + 8 <= bytes && reinterpret_cast<uintptr_t>(marks) % 8 == 0; at += 8) {
    if (!AllWritten<uint64_t>(marks + at)) return false;
  }
  for (; at < bytes; ++at) {
    if (!AllWritten<uint8_t>(marks + at)) return false;
  }
  return true;
}

template <typename T>
void Mark(uint8_t* marks) {
  constexpr T kOnes = static_cast<T>(0x0101010101010101u);
  __atomic_store_n(reinterpret_cast<T*>(marks), kOnes, __ATOMIC_RELAXED);
}

void MarkWritten(uint8_t* marks, int bytes) {
  switch (bytes) {
    case 2:
      return Mark<uint16_t>(marks);
    case 4:
      return Mark<uint32_t>(marks);
    case 8:
      return Mark<uint64_t>(marks);
    case 16:
      Mark<uint64_t>(marks);
      return Mark<uint64_t>(marks + 8);
    default:
      break;
  }
  int at = 0;
  for (; at + 8 <= bytes && reinterpret_cast<uintptr_t>(marks) % 8 == 0; at += 8) {
    Mark<uint64_t>(marks + at);
  }
  for (; at < bytes; ++at) Mark<uint8_t>(marks + at);
}

}  // namespace

std::string GlobalAccess::Verb() const {
  if (options_.reads && options_.writes) return "changed";
  return options_.writes ? "written" : "read";
}

void GlobalAccess::Found(ProblemKind kind, int lane, uint64_t address, const std::string& what) {
  findings_.resize(std::max(findings_.size(), static_cast<size_t>(kind) + 1));
  Finding& finding = findings_[static_cast<size_t>(kind)];
  if (finding.lanes == 0) {
    finding.address = address;
    finding.what = what;
  }
  finding.lanes |= Mask{1} << lane;
}

void GlobalAccess::ReportFindings() {
  for (size_t kind = 0; kind < findings_.size(); ++kind) {
    Finding& finding = findings_[kind];
    if (finding.lanes == 0) continue;
    warp_.Report(code_, static_cast<ProblemKind>(kind), finding.lanes, finding.address,
                 finding.what);
  }
}

void GlobalAccess::Outside(int lane, uint64_t address, const GlobalMemory::Range* range) {
  bool is_freed = false;
  const std::string where = memory_.Describe(address, &is_freed);
  const std::string what =
      absl::StrFormat("%d bytes are %s at 0x%x, %s", options_.bytes, Verb(), address, where);
  if (is_freed) {
    Found(ProblemKind::kFreedMemory, lane, address, what);
  } else if (range != nullptr && options_.writes && !range->is_writable) {
    Found(ProblemKind::kOutOfBounds, lane, address,
          absl::StrFormat("%s, which this launch only reads", what));
  } else {
    Found(ProblemKind::kOutOfBounds, lane, address, what);
  }
}

void GlobalAccess::CheckWritten(int lane, uint64_t address, int64_t offset,
                                const GlobalMemory::Range& range) {
  // Padding may hold anything.
  const int64_t in_range = range.bytes - static_cast<int64_t>(address - range.begin);
  const int bytes = static_cast<int>(std::min<int64_t>(options_.bytes, in_range));
  uint8_t* marks = range.allocation->written.get() + offset;
  if (options_.reads && bytes > 0 && !IsWritten(marks, bytes)) {
    int first = 0;
    while (first + 1 < bytes && AllWritten<uint8_t>(marks + first)) ++first;
    Found(ProblemKind::kUninitialised, lane, address,
          absl::StrFormat("%d bytes are read at 0x%x, %s; nothing has written the byte at +%d",
                          options_.bytes, address, memory_.Describe(address, nullptr), first));
  }
  if (options_.writes) MarkWritten(marks, options_.bytes);
}

// True for a plain load whose word an atom.cas of the kernel exchanges, and for an atom.cas whose
// word such a load reads: they have the same address operand.
bool GlobalAccess::IsOfCompareAndSwap() const {
  const auto is_load = [](const Instruction& in) {
    return in.op == Op::kLd && in.vector == 1 && !in.is_volatile && !in.nc;
  };
  const auto is_swap = [](const Instruction& in) {
    return in.op == Op::kAtom && in.mode == Mode::kCas;
  };
  const bool is_from_load = is_load(*code_.instruction);
  if (!is_from_load && !is_swap(*code_.instruction)) return false;
  const auto& codes = warp_.block->launch->executable->codes;
  return std::any_of(codes.begin(), codes.end(), [&](const Code& other) {
    // The address's row comes behind the result's.
    return other.instruction != nullptr &&
           (is_from_load ? is_swap(*other.instruction) : is_load(*other.instruction)) &&
           TypeBytes(other.instruction->type) == options_.bytes && other.row[1] == code_.row[1] &&
           other.offset == code_.offset;
  });
}

void GlobalAccess::CheckShadow(int lane, uint64_t address, int64_t offset,
                               const GlobalMemory::Range& range) {
  const int64_t in_range = range.bytes - static_cast<int64_t>(address - range.begin);
  const int bytes = static_cast<int>(std::min<int64_t>(options_.bytes, in_range));
  if (bytes <= 0) return;
  const Conflict conflict =
      range.allocation->shadow->Access(offset, bytes, options_.kind, accessor_);
  if (conflict == Conflict::kNone) return;
  const std::string where = memory_.Describe(address, nullptr);
  if (conflict == Conflict::kWithReadOnly) {
    Found(ProblemKind::kReadOnlyWritten, lane, address,
          absl::StrFormat("%d bytes are %s at 0x%x, %s, which this launch both writes and reads by "
                          "ld.global.nc",
                          options_.bytes, Verb(), address, where));
    return;
  }
  const bool is_load = options_.kind == AccessKind::kRead && conflict == Conflict::kWithAtomic;
  const bool is_swap = options_.kind == AccessKind::kAtomic && conflict == Conflict::kWithRead;
  if ((is_load || is_swap) && IsOfCompareAndSwap()) {
    Found(ProblemKind::kPlainCasLoad, lane, address,
          absl::StrFormat("%d bytes are %s at 0x%x, %s, which blocks of this launch change by "
                          "atom.cas, but read first by a plain load",
                          options_.bytes, Verb(), address, where));
    return;
  }
  constexpr std::string_view kOthers[] = {"", "has read", "has written", "accesses by atomics"};
  Found(ProblemKind::kGlobalRace, lane, address,
        absl::StrFormat("%d bytes are %s at 0x%x, %s, which another block of this launch %s",
                        options_.bytes, Verb(), address, where,
                        kOthers[static_cast<size_t>(conflict)]));
}

// What is wider than an element is a vector, or the word of a flag: it may reach into padding.
int64_t GlobalAccess::LimitOf(const GlobalMemory::Range& range) const {
  return options_.bytes > range.element_bytes ? range.padded_bytes : range.bytes;
}

uint8_t* GlobalAccess::ResolveLane(int lane, uint64_t address) {
  range_ = memory_.FindRange(address, options_.writes, range_);
  const int64_t inside = range_ == nullptr ? 0 : static_cast<int64_t>(address - range_->begin);
  const int64_t limit = range_ == nullptr ? -1 : LimitOf(*range_);
  if (inside + options_.bytes > limit || (options_.writes && !range_->is_writable)) {
    Outside(lane, address, range_);
    return nullptr;
  }
  // cp.async may take fewer bytes than its alignment, which it checks itself.
  if ((address & static_cast<uint64_t>(options_.bytes - 1)) != 0 &&
      std::has_single_bit(static_cast<unsigned>(options_.bytes))) {
    Found(ProblemKind::kMisaligned, lane, address,
          absl::StrFormat("%d bytes are %s at 0x%x, which is no multiple of %d", options_.bytes,
                          Verb(), address, options_.bytes));
    return nullptr;
  }
  const auto offset = static_cast<int64_t>(address - range_->allocation->base);
  if (is_checked_) {
    CheckWritten(lane, address, offset, *range_);
    CheckShadow(lane, address, offset, *range_);
  }
  return range_->allocation->data.get() + offset;
}

// True if the bytes, which lie in the range, have been written and no other block of the launch is
// in conflict with the access. Looking again lane by lane finds what is wrong.
bool GlobalAccess::IsSoundRun(int64_t offset, int64_t bytes, const GlobalMemory::Range& range) {
  uint8_t* marks = range.allocation->written.get() + offset;
  if (options_.reads && !IsWritten(marks, static_cast<int>(bytes))) return false;
  if (options_.writes) MarkWritten(marks, static_cast<int>(bytes));
  return range.allocation->shadow->Access(offset, bytes, options_.kind, accessor_) ==
         Conflict::kNone;
}

bool GlobalAccess::ResolveTogether(const Addresses& addresses, Pointers& pointers) {
  const GlobalMemory::Range* range = memory_.FindRange(addresses[0], options_.writes, nullptr);
  if (range == nullptr || (options_.writes && !range->is_writable)) return false;
  const auto bytes = static_cast<uint64_t>(options_.bytes);
  // Lanes in the padding of a range are looked at one by one.
  if (!std::has_single_bit(bytes) || range->bytes < options_.bytes) return false;
  const uint64_t last = static_cast<uint64_t>(range->bytes) - bytes;
  bool is_outside = false, is_run = true;
  uint64_t all = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    all |= addresses[lane];
    is_outside |= addresses[lane] - range->begin > last;
    is_run &= addresses[lane] == addresses[0] + lane * bytes;
  }
  if (is_outside || (all & (bytes - 1)) != 0) return false;
  const uint64_t base = range->allocation->base;
  if (is_checked_) {
    const auto size = static_cast<int64_t>(bytes);
    if (is_run) {
      if (!IsSoundRun(static_cast<int64_t>(addresses[0] - base), kLanes * size, *range)) {
        return false;
      }
    } else {
      for (const uint64_t address : addresses) {
        if (!IsSoundRun(static_cast<int64_t>(address - base), size, *range)) return false;
      }
    }
  }
  uint8_t* data = range->allocation->data.get();
  for (int lane = 0; lane < kLanes; ++lane) pointers[lane] = data + (addresses[lane] - base);
  is_run_ = is_run;
  return true;
}

GlobalAccess::Pointers GlobalAccess::Resolve(Mask mask, const Addresses& addresses) {
  Pointers pointers;
  if (mask != kAllLanes || !ResolveTogether(addresses, pointers)) {
    pointers.fill(nullptr);
    for (Mask left = mask; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      pointers[lane] = ResolveLane(lane, addresses[lane]);
    }
    if (!findings_.empty()) ReportFindings();
  }
  if (warp_.block->counters != nullptr) Count(mask, addresses);
  return pointers;
}

// Counts the distinct sectors of the request. Lanes mostly come in ascending order; others are
// sorted.
void GlobalAccess::Count(Mask mask, const Addresses& addresses) {
  constexpr uint64_t kSector = 32;
  const auto bytes = static_cast<uint64_t>(options_.bytes);
  InstructionCounters& counters = *warp_.CountersOf(code_);
  ++counters.requests;
  if (is_run_) {
    counters.sectors +=
        static_cast<int64_t>((addresses.back() + bytes - 1) / kSector - addresses[0] / kSector + 1);
    counters.ideal_sectors += static_cast<int64_t>((kLanes * bytes + kSector - 1) / kSector);
    counters.bytes += kLanes * options_.bytes;
    return;
  }
  std::array<uint64_t, kLanes> used;
  size_t count = 0;
  bool ascending = true;
  for (Mask left = mask; left != 0; left &= left - 1) {
    const uint64_t address = addresses[std::countr_zero(left)];
    ascending = ascending && (count == 0 || used[count - 1] <= address);
    used[count++] = address;
  }
  if (!ascending) std::sort(used.begin(), used.begin() + count);
  int64_t sectors = 0, distinct = 0;
  uint64_t next_sector = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i == 0 || used[i] != used[i - 1]) ++distinct;
    const uint64_t first = used[i] / kSector;
    const uint64_t last = (used[i] + bytes - 1) / kSector;
    if (i == 0 || first >= next_sector) {
      sectors += static_cast<int64_t>(last - first) + 1;
    } else if (last >= next_sector) {
      sectors += static_cast<int64_t>(last - next_sector) + 1;
    }
    next_sector = std::max(next_sector, last + 1);
  }
  counters.sectors += sectors;
  counters.ideal_sectors += (distinct * options_.bytes + 31) / 32;
  counters.bytes += static_cast<int64_t>(count) * options_.bytes;
}

}  // namespace duotone::emulator
