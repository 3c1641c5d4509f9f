// Who accessed each word of an allocation in the running launch, to find blocks that race.
#ifndef DUOTONE_RUNTIME_EMULATOR_GLOBAL_SHADOW_H_
#define DUOTONE_RUNTIME_EMULATOR_GLOBAL_SHADOW_H_

#include <atomic>
#include <cstdint>
#include <memory>

namespace duotone::emulator {

enum class AccessKind : uint8_t {
  kRead,
  kReadOnly,  // ld.global.nc: nobody writes it in this launch
  kWrite,
  kAtomic,  // also volatile and relaxed loads
};

// What an access is in conflict with.
enum class Conflict : uint8_t {
  kNone,
  kWithRead,      // of another block
  kWithWrite,     // likewise
  kWithAtomic,    // likewise
  kWithReadOnly,  // a write where something was read as read-only, or the other way round
};

class GlobalShadow {
 public:
  explicit GlobalShadow(int64_t bytes);

  // Notes that `block` of launch `number` accesses `bytes` at `offset` and says what it is in
  // conflict with. From several threads.
  Conflict Access(int64_t offset, int64_t bytes, AccessKind kind, uint32_t number, int64_t block);

  // How many bytes of [offset, offset + bytes) the launch has read and written.
  void Count(int64_t offset, int64_t bytes, uint32_t number, int64_t* read, int64_t* written) const;

 private:
  // Three words for each 4 bytes: plain reads, plain writes, atomics. A word: launch number, the
  // block that came first, the bytes that it touched, those that others touched, whether one read
  // as read-only. Of three blocks that share 4 bytes, two that race on bytes that the first one has
  // not touched go unnoticed.
  using Word = std::atomic<uint64_t>;
  template <AccessKind kKind>
  Conflict AccessGranules(int64_t offset, int64_t bytes, uint64_t launch, uint64_t block);

  std::unique_ptr<Word, void (*)(void*)> words_;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_GLOBAL_SHADOW_H_
