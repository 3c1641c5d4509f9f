#include "runtime/emulator/global_shadow.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace duotone::emulator {
namespace {

constexpr int kWordsPerGranule = 3;
enum { kReads, kWrites, kAtomics };

// Fields of a word. Launch numbers count modulo 2^23, of which none is 0: a word is forgotten
// before its number comes again. Fences beyond the field's range count as its last: order is then
// taken for granted where it may not be there.
constexpr int kFirstShift = 0;    // 4 bits: bytes that the first block has touched
constexpr int kOthersShift = 4;   // 4 bits: bytes that other blocks have touched
constexpr int kFlagShift = 8;     // in kReads: one was read-only; in kAtomics: one was no mere read
constexpr int kFencesShift = 9;   // 6 bits: after which the first block last touched all its bytes
constexpr int kBlockShift = 15;   // 26 bits: the first block
constexpr int kLaunchShift = 41;  // 23 bits
constexpr uint64_t kMaskBits = 15;
constexpr uint64_t kFencesBits = 63;
constexpr uint64_t kFlagBit = uint64_t{1} << kFlagShift;
static_assert(LaunchOrder::kBlocks == int64_t{1} << (kLaunchShift - kBlockShift));

uint64_t LaunchOf(uint64_t word) { return word >> kLaunchShift; }
// Of which launch and block.
uint64_t OwnerOf(uint64_t word) { return word >> kBlockShift; }
int64_t BlockOf(uint64_t word) {
  return static_cast<int64_t>(OwnerOf(word)) & (LaunchOrder::kBlocks - 1);
}
int64_t FencesOf(uint64_t word) { return static_cast<int64_t>(word >> kFencesShift & kFencesBits); }
uint32_t BytesOf(uint64_t word) {
  return static_cast<uint32_t>((word >> kFirstShift | word >> kOthersShift) & kMaskBits);
}

uint64_t LaunchField(uint32_t number) { return number % 0x7fffff + 1; }

bool IsTouched(uint64_t word, uint64_t launch, uint32_t mask) {
  return LaunchOf(word) == launch && (BytesOf(word) & mask) != 0;
}

// An accessor as a word that nobody else has touched, without bytes.
uint64_t WordOf(const Accessor& accessor) {
  const uint64_t fences = std::min(static_cast<uint64_t>(accessor.fences), kFencesBits);
  const auto block = static_cast<uint64_t>(accessor.block & (LaunchOrder::kBlocks - 1));
  return LaunchField(accessor.launch) << kLaunchShift | block << kBlockShift |
         fences << kFencesShift;
}

// Adds an access; the word before it.
uint64_t Note(std::atomic<uint64_t>& word, uint64_t self, uint32_t mask, bool flag) {
  const uint64_t flags = flag ? kFlagBit : 0;
  const uint64_t mine = self | mask | flags;
  uint64_t old = word.load();
  while (old != mine) {
    uint64_t next = mine;
    if (OwnerOf(old) == OwnerOf(mine)) {
      next = old | mask | flags;
      if ((old & kMaskBits & ~uint64_t{mask}) == 0) {
        next = (next & ~(kFencesBits << kFencesShift)) | (mine & kFencesBits << kFencesShift);
      }
    } else if (LaunchOf(old) == LaunchOf(mine)) {
      next = old | uint64_t{mask} << kOthersShift | flags;
    }
    if (next == old || word.compare_exchange_weak(old, next)) break;
  }
  return old;
}

// One access, with the order of its block.
class Observer {
 public:
  explicit Observer(const Accessor& accessor)
      : self_(WordOf(accessor)), block_(accessor.block), order_(*accessor.order) {}

  uint64_t self() const { return self_; }
  uint64_t launch() const { return LaunchOf(self_); }

  // True if a block other than this one has surely touched one of these bytes in this launch, and
  // not before. Bytes that are not the first block's may be those of this block itself.
  bool IsForeign(uint64_t word, uint32_t mask) {
    if (LaunchOf(word) != launch()) return false;
    if (OwnerOf(word) == OwnerOf(self_)) {
      return (word >> kOthersShift & mask) != 0 && !order_.FollowsAny(block_);
    }
    return (word >> kFirstShift & mask) != 0 && !ComesAfter(word);
  }

  // After a write of these bytes, before which the word was `before` and not foreign: if that was
  // another block's and is now overwritten, the word becomes this block's.
  void TakeOver(std::atomic<uint64_t>& word, uint64_t before, uint32_t mask) const {
    if (LaunchOf(before) != launch() || OwnerOf(before) == OwnerOf(self_)) return;
    uint64_t now = word.load();
    while (OwnerOf(now) == OwnerOf(before) && (BytesOf(now) & ~mask) == 0) {
      if (word.compare_exchange_weak(now, self_ | mask)) break;
    }
  }

 private:
  // Neighbouring words are mostly the same block's.
  bool ComesAfter(uint64_t word) {
    const uint64_t first = word >> kFencesShift;
    if (first == known_) return true;
    if (!order_.IsBefore(BlockOf(word), FencesOf(word), block_)) return false;
    known_ = first;
    return true;
  }

  const uint64_t self_;
  const int64_t block_;
  const LaunchOrder& order_;
  uint64_t known_ = 0;  // a first block and its fences that come before
};

// An access of some bytes of one granule by its three words.
template <AccessKind kKind>
Conflict AccessGranule(std::atomic<uint64_t>* words, uint32_t mask, Observer& observer) {
  // The access is noted first: of two at the same time at least one sees the other.
  if constexpr (kKind == AccessKind::kRead || kKind == AccessKind::kReadOnly) {
    constexpr bool kIsReadOnly = kKind == AccessKind::kReadOnly;
    Note(words[kReads], observer.self(), mask, kIsReadOnly);
    const uint64_t writes = words[kWrites].load(), atomics = words[kAtomics].load();
    const bool changes = (atomics & kFlagBit) != 0;
    if (kIsReadOnly && (IsTouched(writes, observer.launch(), mask) ||
                        (changes && IsTouched(atomics, observer.launch(), mask)))) {
      return Conflict::kWithReadOnly;
    }
    if (observer.IsForeign(writes, mask)) return Conflict::kWithWrite;
    if (changes && observer.IsForeign(atomics, mask)) return Conflict::kWithAtomic;
    return Conflict::kNone;
  }
  if constexpr (kKind == AccessKind::kVolatileRead) {
    Note(words[kAtomics], observer.self(), mask, false);
    return observer.IsForeign(words[kWrites].load(), mask) ? Conflict::kWithWrite : Conflict::kNone;
  }
  const bool is_atomic = kKind == AccessKind::kAtomic;
  std::atomic<uint64_t>& noted = words[is_atomic ? kAtomics : kWrites];
  const uint64_t before = Note(noted, observer.self(), mask, is_atomic);
  const uint64_t reads = words[kReads].load();
  if (IsTouched(reads, observer.launch(), mask) && (reads & kFlagBit) != 0) {
    return Conflict::kWithReadOnly;
  }
  const uint64_t writes = is_atomic ? words[kWrites].load() : before;
  if (observer.IsForeign(writes, mask)) return Conflict::kWithWrite;
  if (observer.IsForeign(reads, mask)) return Conflict::kWithRead;
  if (is_atomic) return Conflict::kNone;
  if (const uint64_t atomics = words[kAtomics].load(); observer.IsForeign(atomics, mask)) {
    return (atomics & kFlagBit) != 0 ? Conflict::kWithAtomic : Conflict::kWithRead;
  }
  observer.TakeOver(noted, before, mask);
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
Conflict GlobalShadow::AccessGranules(int64_t offset, int64_t bytes, const Accessor& accessor) {
  Conflict found = Conflict::kNone;
  Observer observer(accessor);
  ForGranules(words_.get(), offset, bytes, [&](Word* words, uint32_t mask) {
    const Conflict here = AccessGranule<kKind>(words, mask, observer);
    if (here != Conflict::kNone) found = here;
  });
  return found;
}

Conflict GlobalShadow::Access(int64_t offset, int64_t bytes, AccessKind kind,
                              const Accessor& accessor) {
  switch (kind) {
    case AccessKind::kRead:
      return AccessGranules<AccessKind::kRead>(offset, bytes, accessor);
    case AccessKind::kReadOnly:
      return AccessGranules<AccessKind::kReadOnly>(offset, bytes, accessor);
    case AccessKind::kVolatileRead:
      return AccessGranules<AccessKind::kVolatileRead>(offset, bytes, accessor);
    case AccessKind::kWrite:
      return AccessGranules<AccessKind::kWrite>(offset, bytes, accessor);
    case AccessKind::kAtomic:
      return AccessGranules<AccessKind::kAtomic>(offset, bytes, accessor);
  }
  return Conflict::kNone;
}

void GlobalShadow::Count(int64_t offset, int64_t bytes, uint32_t number, int64_t* read,
                         int64_t* written) const {
  const uint64_t launch = LaunchField(number);
  const auto touched = [&](uint64_t word, uint32_t mask) {
    return LaunchOf(word) == launch ? BytesOf(word) & mask : 0u;
  };
  const auto count = [](uint32_t bits) {
    return (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1) + (bits >> 3 & 1);
  };
  ForGranules(words_.get(), offset, bytes, [&](const Word* words, uint32_t mask) {
    const uint64_t word = words[kAtomics].load(std::memory_order_relaxed);
    const uint32_t atomics = touched(word, mask);
    const uint32_t changes = (word & kFlagBit) != 0 ? atomics : 0;
    *read += count(touched(words[kReads].load(std::memory_order_relaxed), mask) | atomics);
    *written += count(touched(words[kWrites].load(std::memory_order_relaxed), mask) | changes);
  });
}

}  // namespace duotone::emulator
