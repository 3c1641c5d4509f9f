// Which blocks of the running launch come after which others: a block lets go of what it has done
// by a fence and an access of a word after it, and a block that then reads the word comes after it.
#ifndef DUOTONE_RUNTIME_EMULATOR_LAUNCH_ORDER_H_
#define DUOTONE_RUNTIME_EMULATOR_LAUNCH_ORDER_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace duotone::emulator {

// The time of a block is the number of fences that its threads have executed (of a reach of the GPU
// or more). The PTX ISA ("Release and Acquire Patterns" of its memory consistency model) also wants
// the fence to be the releasing thread's own, and another one in the reading thread: neither is
// asked for here. Order that comes through a third block's words is not seen.
//
// From several threads. A word of 4 bytes is its address; blocks are told apart modulo kBlocks.
class LaunchOrder {
 public:
  static constexpr int64_t kBlocks = int64_t{1} << 26;

  // Nothing is in order, as when a launch begins.
  void Clear();

  // By an access of `word` that follows, `block` lets go of what it did before its latest fence,
  // the `fences`-th. Told before others can see the access.
  void Release(uint64_t word, int64_t block, int64_t fences);
  // `block` has read `word`.
  void Acquire(uint64_t word, int64_t block);

  // False as long as no block has let go of anything.
  bool any() const { return any_.load(); }
  // Whether what `earlier` did after `fences` fences comes before what `later` does now. True
  // without looking once a launch has had more than kMaxEntries of what is remembered.
  bool IsBefore(int64_t earlier, int64_t fences, int64_t later) const;
  // Whether `block` comes after anything that another has done.
  bool FollowsAny(int64_t block) const;

 private:
  static constexpr int64_t kMaxEntries = int64_t{1} << 20;

  struct Event {
    int64_t fences = 0;
    int64_t time = 0;  // how many came before it at the word
  };
  struct Word {
    int64_t releases = 0;
    // By block, of each number of fences the first.
    std::unordered_map<int64_t, std::vector<Event>> of_block;
  };
  bool AddEntry();

  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  int64_t entries_ = 0;
  bool is_full_ = false;
  std::unordered_map<uint64_t, Word> words_;
  // By block, how many releases of each word it has seen, where another's is among them.
  std::unordered_map<int64_t, std::unordered_map<const Word*, int64_t>> seen_;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_LAUNCH_ORDER_H_
