#include "runtime/cpu/thread_pool.h"

#include <algorithm>
#include <system_error>

namespace duotone::runtime {
namespace {

constexpr int kMaxThreads = 1024;
// How often a worker looks for the next loop before it sleeps: tens of microseconds, the length of
// a small step.
constexpr int kSpins = 1000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  threads = std::clamp(threads, 1, kMaxThreads);
  workers_.reserve(threads - 1);
  for (int i = 1; i < threads; ++i) {
    try {
      workers_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      break;
    }
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunBlocks() {
  for (int64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < blocks_;
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    fn_(body_, i);
  }
}

void ThreadPool::Run(int64_t blocks, BlockFn fn, const void* body) {
  if (blocks <= 1 || workers_.empty()) {
    for (int64_t i = 0; i < blocks; ++i) fn(body, i);
    return;
  }
  fn_ = fn;
  body_ = body;
  blocks_ = blocks;
  next_.store(0, std::memory_order_relaxed);
  inside_.fetch_and(~kClosed, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  RunBlocks();
  // A worker that has not entered yet has nothing left to do: close the loop and wait for those
  // inside.
  inside_.fetch_or(kClosed, std::memory_order_acq_rel);
  for (int spins = 0; inside_.load(std::memory_order_acquire) != kClosed; ++spins) {
    if (spins < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::Work() {
  uint32_t seen = 0;
  while (true) {
    for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == seen; ++i) Pause();
    generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if ((inside_.fetch_add(1, std::memory_order_acquire) & kClosed) == 0) RunBlocks();
    inside_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace duotone::runtime
