#include "runtime/emulator/global_shadow.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace duotone::emulator {
namespace {

constexpr int kWordsPerGranule = 3;
enum { kReads, kWrites, kAtomics };

// Fields of a word. Launch numbers count modulo 2^23, of which none is 0: a word is forgotten
// before its number comes again.
constexpr int kFirstShift = 0;   // 4 bits: bytes that the first block has touched
constexpr int kOthersShift = 4;  // 4 bits: bytes that other blocks have touched
constexpr int kReadOnlyShift = 8;
constexpr int kBlockShift = 9;    // 32 bits: the first block
constexpr int kLaunchShift = 41;  // 23 bits
constexpr uint64_t kMaskBits = 15;
constexpr uint64_t kReadOnlyBit = uint64_t{1} << kReadOnlyShift;

uint64_t LaunchOf(uint64_t word) { return word >> kLaunchShift; }
uint64_t BlockOf(uint64_t word) { return word >> kBlockShift & 0xffffffffu; }
uint32_t BytesOf(uint64_t word) {
  return static_cast<uint32_t>((word >> kFirstShift | word >> kOthersShift) & kMaskBits);
}

uint64_t LaunchField(uint32_t number) { return number % 0x7fffff + 1; }

bool IsTouched(uint64_t word, uint64_t launch, uint32_t mask) {
  return LaunchOf(word) == launch && (BytesOf(word) & mask) != 0;
}
// True if a block other than `block` has surely touched one of these bytes in this launch. Bytes
// that are not the first block's may be those of `block` itself.
bool IsForeign(uint64_t word, uint64_t launch, uint64_t block, uint32_t mask) {
  const int shift = BlockOf(word) == block ? kOthersShift : kFirstShift;
  return LaunchOf(word) == launch && (word >> shift & mask) != 0;
}

// Adds an access; the word before it.
uint64_t Note(std::atomic<uint64_t>& word, uint64_t launch, uint64_t block, uint32_t mask,
              bool read_only) {
  const uint64_t flags = read_only ? kReadOnlyBit : 0;
  const uint64_t mine = launch << kLaunchShift | block << kBlockShift | mask | flags;
  uint64_t old = word.load();
  while (old != mine) {
    uint64_t next = mine;
    if (LaunchOf(old) == launch) {
      const int shift = BlockOf(old) == block ? kFirstShift : kOthersShift;
      next = old | uint64_t{mask} << shift | flags;
    }
    if (next == old || word.compare_exchange_weak(old, next)) break;
  }
  return old;
}

// An access of some bytes of one granule by its three words.
template <AccessKind kKind>
Conflict AccessGranule(std::atomic<uint64_t>* words, uint32_t mask, uint64_t launch,
                       uint64_t block) {
  // The access is noted first: of two at the same time at least one sees the other.
  if constexpr (kKind == AccessKind::kRead || kKind == AccessKind::kReadOnly) {
    constexpr bool kIsReadOnly = kKind == AccessKind::kReadOnly;
    Note(words[kReads], launch, block, mask, kIsReadOnly);
    const uint64_t writes = words[kWrites].load(), atomics = words[kAtomics].load();
    if (kIsReadOnly && (IsTouched(writes, launch, mask) || IsTouched(atomics, launch, mask))) {
      return Conflict::kWithReadOnly;
    }
    if (IsForeign(writes, launch, block, mask)) return Conflict::kWithWrite;
    if (IsForeign(atomics, launch, block, mask)) return Conflict::kWithAtomic;
    return Conflict::kNone;
  }
  const bool is_atomic = kKind == AccessKind::kAtomic;
  const uint64_t before = Note(words[is_atomic ? kAtomics : kWrites], launch, block, mask, false);
  const uint64_t reads = words[kReads].load();
  if (IsTouched(reads, launch, mask) && (reads & kReadOnlyBit) != 0) return Conflict::kWithReadOnly;
  const uint64_t writes = is_atomic ? words[kWrites].load() : before;
  if (IsForeign(writes, launch, block, mask)) return Conflict::kWithWrite;
  if (IsForeign(reads, launch, block, mask)) return Conflict::kWithRead;
  if (!is_atomic && IsForeign(words[kAtomics].load(), launch, block, mask)) {
    return Conflict::kWithAtomic;
  }
  return Conflict::kNone;
}

// function(words, mask of bytes) for each granule of [offset, offset + bytes).
template <typename Word, typename Function>
void ForGranules(Word* words, int64_t offset, int64_t bytes, const Function& function) {
  words += offset / 4 * kWordsPerGranule;
  if (offset % 4 == 0 && bytes % 4 == 0) {
    const Word* const end = words + bytes / 4 * kWordsPerGranule;
    for (; words != end; words += kWordsPerGranule) function(words, kMaskBits);
    return;
  }
  const int64_t end = offset + bytes;
  for (int64_t at = offset; at < end; words += kWordsPerGranule) {
    const int64_t next = std::min(end, (at / 4 + 1) * 4);
    function(words, static_cast<uint32_t>(((1u << (next - at)) - 1) << (at % 4)));
    at = next;
  }
}

}  // namespace

GlobalShadow::GlobalShadow(int64_t bytes)
    // Zeros that the system gives when they are first touched.
    : words_(static_cast<Word*>(std::calloc(
                 static_cast<size_t>(std::max<int64_t>(1, (bytes + 3) / 4) * kWordsPerGranule),
                 sizeof(Word))),
             std::free) {
  DUOTONE_CHECK(words_ != nullptr) << "no memory for the shadow of " << bytes << " bytes";
}

template <AccessKind kKind>
Conflict GlobalShadow::AccessGranules(int64_t offset, int64_t bytes, uint64_t launch,
                                      uint64_t block) {
  Conflict found = Conflict::kNone;
  ForGranules(words_.get(), offset, bytes, [&](Word* words, uint32_t mask) {
    const Conflict here = AccessGranule<kKind>(words, mask, launch, block);
    if (here != Conflict::kNone) found = here;
  });
  return found;
}

Conflict GlobalShadow::Access(int64_t offset, int64_t bytes, AccessKind kind, uint32_t number,
                              int64_t block) {
  const uint64_t launch = LaunchField(number);
  const uint64_t block_field = static_cast<uint64_t>(block) & 0xffffffffu;
  switch (kind) {
    case AccessKind::kRead:
      return AccessGranules<AccessKind::kRead>(offset, bytes, launch, block_field);
    case AccessKind::kReadOnly:
      return AccessGranules<AccessKind::kReadOnly>(offset, bytes, launch, block_field);
    case AccessKind::kWrite:
      return AccessGranules<AccessKind::kWrite>(offset, bytes, launch, block_field);
    case AccessKind::kAtomic:
      return AccessGranules<AccessKind::kAtomic>(offset, bytes, launch, block_field);
  }
  return Conflict::kNone;
}

void GlobalShadow::Count(int64_t offset, int64_t bytes, uint32_t number, int64_t* read,
                         int64_t* written) const {
  const uint64_t launch = LaunchField(number);
  const auto touched = [&](const Word& word, uint32_t mask) {
    const uint64_t value = word.load(std::memory_order_relaxed);
    return LaunchOf(value) == launch ? BytesOf(value) & mask : 0u;
  };
  const auto count = [](uint32_t bits) {
    return (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1) + (bits >> 3 & 1);
  };
  ForGranules(words_.get(), offset, bytes, [&](const Word* words, uint32_t mask) {
    const uint32_t atomics = touched(words[kAtomics], mask);
    *read += count(touched(words[kReads], mask) | atomics);
    *written += count(touched(words[kWrites], mask) | atomics);
  });
}

}  // namespace duotone::emulator
