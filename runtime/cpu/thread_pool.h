// A fixed set of threads that share the blocks of one loop at a time. Which thread runs a block is
// left open; what a block is, is the caller's choice and must not depend on the number of threads.
// Starting a loop allocates nothing.
#ifndef DUOTONE_RUNTIME_CPU_THREAD_POOL_H_
#define DUOTONE_RUNTIME_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace duotone::runtime {

class ThreadPool {
 public:
  // `threads` counts the caller's; 0 means as many as the hardware runs at once. Where the system
  // refuses to start as many, there are fewer.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(i) once for each i in [0, blocks), on the calling thread and the workers, and
  // returns when all are done. One loop at a time; a body starts no loop.
  template <typename Body>
  void ParallelFor(int64_t blocks, const Body& body) {
    Run(
        blocks, [](const void* b, int64_t i) { (*static_cast<const Body*>(b))(i); }, &body);
  }

 private:
  using BlockFn = void (*)(const void* body, int64_t block);

  void Run(int64_t blocks, BlockFn fn, const void* body);
  void Work();
  void RunBlocks();

  // The loop. Written only while it is closed and nobody is inside.
  BlockFn fn_ = nullptr;
  const void* body_ = nullptr;
  int64_t blocks_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
  // The number of workers inside the loop, plus kClosed while none may enter.
  static constexpr uint32_t kClosed = 1u << 31;
  alignas(64) std::atomic<uint32_t> inside_{kClosed};
  // Counts loops; workers sleep on it.
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CPU_THREAD_POOL_H_
