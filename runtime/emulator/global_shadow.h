// Who accessed each word of an allocation in the running launch, to find blocks that race.
#ifndef DUOTONE_RUNTIME_EMULATOR_GLOBAL_SHADOW_H_
#define DUOTONE_RUNTIME_EMULATOR_GLOBAL_SHADOW_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/emulator/launch_order.h"

namespace duotone::emulator {

enum class AccessKind : uint8_t {
  kRead,
  kReadOnly,      // ld.global.nc: nobody writes it in this launch
  kVolatileRead,  // also relaxed and acquiring ones: atomics may change what they read
  kWrite,
  kAtomic,  // also volatile and relaxed stores that let go of something
};

// What an access is in conflict with.
enum class Conflict : uint8_t {
  kNone,
  kWithRead,      // of another block
  kWithWrite,     // likewise
  kWithAtomic,    // likewise
  kWithReadOnly,  // a write where something was read as read-only, or the other way round
};

// Who accesses.
struct Accessor {
  uint32_t launch = 0;  // its number
  int64_t block = 0;
  int64_t fences = 0;                  // after which the block accesses
  const LaunchOrder* order = nullptr;  // of the launch
};

class GlobalShadow {
 public:
  explicit GlobalShadow(int64_t bytes);

  // Notes an access of `bytes` at `offset` and says what it is in conflict with: what comes before
  // it in the order of blocks is not. From several threads.
  Conflict Access(int64_t offset, int64_t bytes, AccessKind kind, const Accessor& accessor);

  // How many bytes of [offset, offset + bytes) the launch has read and written.
  void Count(int64_t offset, int64_t bytes, uint32_t number, int64_t* read, int64_t* written) const;

 private:
  // Three words for each 4 bytes: plain reads, plain writes, atomics and volatile reads. A word:
  // launch number, the block that came first, after how many fences, the bytes that it touched,
  // those that others touched, and a flag: whether one of the plain reads was read-only, or one of
  // the atomics more than a read. Of three blocks that share 4 bytes, two that race on
  // bytes that the first one has not touched go unnoticed. A write that comes after all others
  // makes its block the first, so that a word which is handed on from block to block knows its
  // latest. Others of a word count as one where order is asked for: the first is the one that must
  // come before; where that is the accessing block itself, it must come after any block at all.
  using Word = std::atomic<uint64_t>;
  template <AccessKind kKind>
  Conflict AccessGranules(int64_t offset, int64_t bytes, const Accessor& accessor);

  std::unique_ptr<Word, void (*)(void*)> words_;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_GLOBAL_SHADOW_H_
