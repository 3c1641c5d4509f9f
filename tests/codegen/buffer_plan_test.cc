#include "codegen/buffer_plan.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duotone::codegen {
namespace {

using ::testing::ElementsAre;

TEST(BufferPlan, ReusesBytesOfTheDead) {
  // The second is alive with both others; the third takes the place of the first.
  const BufferPlan plan = PlanBuffers({{100, 0, 1}, {64, 1, 2}, {128, 2, 3}}, 64);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 128, 0));
  EXPECT_EQ(plan.arena_bytes, 192);
  EXPECT_EQ(plan.unplanned_bytes, 128 + 64 + 128);
}

TEST(BufferPlan, TakesTheSmallestGapThatFits) {
  // When time 5 comes, [0, 256) and [320, 448) are free between the two that stay.
  const BufferPlan plan =
      PlanBuffers({{256, 0, 4}, {64, 1, 9}, {128, 2, 4}, {64, 3, 9}, {128, 5, 6}, {256, 6, 6}}, 64);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 256, 320, 448, 320, 0));
  EXPECT_EQ(plan.arena_bytes, 512);
}

TEST(BufferPlan, EmptyBuffersTakeNoPlace) {
  const BufferPlan plan = PlanBuffers({{0, 0, 5}, {8, 0, 5}, {0, 2, 3}}, 64);
  EXPECT_EQ(plan.offsets[1], 0);
  EXPECT_EQ(plan.arena_bytes, 64);
  EXPECT_EQ(PlanBuffers({}, 64).arena_bytes, 0);
}

TEST(BufferPlan, NoTwoAliveAtOnceShareBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    int64_t most_alive = 0;
    for (int i = 0; i < 40; ++i) {
      const int first = static_cast<int>(random() % 20);
      lifetimes.push_back(
          {static_cast<int64_t>(random() % 1000), first, first + static_cast<int>(random() % 6)});
    }
    const BufferPlan plan = PlanBuffers(lifetimes, 64);
    for (size_t a = 0; a < lifetimes.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 64, 0);
      EXPECT_LE(plan.offsets[a] + lifetimes[a].bytes, plan.arena_bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool together =
            lifetimes[a].first <= lifetimes[b].last && lifetimes[b].first <= lifetimes[a].last;
        const bool apart = plan.offsets[a] + lifetimes[a].bytes <= plan.offsets[b] ||
                           plan.offsets[b] + lifetimes[b].bytes <= plan.offsets[a];
        ASSERT_TRUE(!together || apart || lifetimes[a].bytes == 0 || lifetimes[b].bytes == 0)
            << a << " and " << b;
      }
    }
    for (int time = 0; time < 26; ++time) {
      int64_t alive = 0;
      for (const Lifetime& life : lifetimes) {
        if (life.first <= time && time <= life.last) alive += life.bytes;
      }
      most_alive = std::max(most_alive, alive);
    }
    EXPECT_GE(plan.arena_bytes, most_alive);
    EXPECT_LE(plan.arena_bytes, plan.unplanned_bytes);
  }
}

}  // namespace
}  // namespace duotone::codegen
