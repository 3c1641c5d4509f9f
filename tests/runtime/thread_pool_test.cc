#include "runtime/cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace duotone::runtime {
namespace {

TEST(ThreadPool, RunsEveryBlockOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t blocks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(blocks);
      pool.ParallelFor(blocks, [&](int64_t i) { ++runs[i]; });
      for (int64_t i = 0; i < blocks; ++i) EXPECT_EQ(runs[i], 1) << i << " of " << blocks;
    }
  }
}

// The loop ends only when every block has: what blocks wrote is there without further
// synchronisation.
TEST(ThreadPool, WaitsForAllBlocksInManyShortLoops) {
  ThreadPool pool(4);
  std::vector<int> values(64);
  for (int round = 1; round <= 5000; ++round) {
    pool.ParallelFor(64, [&](int64_t i) { values[i] = round; });
    for (int value : values) ASSERT_EQ(value, round);
  }
}

TEST(ThreadPool, WakesSleepingWorkers) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    // Two blocks that wait for each other need two threads.
    std::atomic<int> arrived = 0;
    pool.ParallelFor(2, [&](int64_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

TEST(ThreadPool, BoundsTheNumberOfThreads) {
  EXPECT_LE(ThreadPool(1 << 30).threads(), 1024);
  EXPECT_GE(ThreadPool(0).threads(), 1);
}

}  // namespace
}  // namespace duotone::runtime
