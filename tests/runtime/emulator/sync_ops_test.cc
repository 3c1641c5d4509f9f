// vote, match, redux and activemask against the definitions of the PTX ISA, for lanes in groups
// that each have their own member mask.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

constexpr uint64_t kOld = 0xdeadbeef;

// Lanes by chance in four groups, of which the last does not execute.
struct Groups {
  std::array<Mask, 4> lanes = {};
  Lanes members = {};
  Mask active = 0;

  explicit Groups(std::mt19937& random) {
    std::array<size_t, kLanes> group;
    for (int lane = 0; lane < kLanes; ++lane) {
      group[lane] = random() % 4;
      lanes[group[lane]] |= Mask{1} << lane;
    }
    for (int lane = 0; lane < kLanes; ++lane) members[lane] = lanes[group[lane]];
    active = ~lanes[3];
  }
  bool Has(int lane) const { return (active >> lane & 1) != 0; }
};

TEST(SyncOps, VotesAreThoseOfTheMembers) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    const Groups groups(random);
    // One group agrees on true, one on false, one does not agree (unless by chance).
    Lanes p = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      p[lane] = (groups.lanes[0] >> lane & 1) != 0   ? 1
                : (groups.lanes[1] >> lane & 1) != 0 ? 0
                                                     : random() % 2;
    }
    auto result = RunLines(
        "vote.sync.ballot.b32 %ballot, %p, %m; vote.sync.ballot.b32 %inverse, !%p, %m;\n"
        "vote.sync.any.pred %any, %p, %m; vote.sync.all.pred %all, %p, %m;\n"
        "vote.sync.uni.pred %uni, %p, %m;",
        {{"ballot", Type::kB32, Repeat({kOld})},
         {"inverse", Type::kB32, Repeat({kOld})},
         {"any", Type::kPred},
         {"all", Type::kPred},
         {"uni", Type::kPred},
         {"p", Type::kPred, p},
         {"m", Type::kB32, groups.members}},
        {.mask = groups.active});
    for (int lane = 0; lane < kLanes; ++lane) {
      uint64_t yes = 0, no = 0;
      for (int other = 0; other < kLanes; ++other) {
        if ((groups.members[lane] >> other & 1) == 0) continue;
        (p[other] != 0 ? yes : no) |= uint64_t{1} << other;
      }
      const bool has = groups.Has(lane);
      EXPECT_EQ(result["ballot"][lane], has ? yes : kOld);
      EXPECT_EQ(result["inverse"][lane], has ? no : kOld);
      EXPECT_EQ(result["any"][lane], has && yes != 0);
      EXPECT_EQ(result["all"][lane], has && no == 0);
      EXPECT_EQ(result["uni"][lane], has && (yes == 0 || no == 0));
    }
  }
}

TEST(SyncOps, MatchesCompareAllBitsOfTheMembers) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 30; ++round) {
    std::mt19937 chance(static_cast<uint32_t>(round));
    const Groups groups(chance);
    const uint64_t high = random() << 32, low = random() & 0xffffffff;
    // Values differ in one half only; those of group 0 are all equal.
    Lanes a = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      a[lane] = high | low;
      if ((groups.lanes[0] >> lane & 1) == 0) a[lane] ^= (random() % 2) << 40 | random() % 2;
    }
    auto result = RunLines(
        "match.any.sync.b64 %any, %a, %m; match.all.sync.b64 %all|%p, %a, %m;\n"
        "cvt.u32.u64 %b, %a; match.any.sync.b32 %any32, %b, %m;\n"
        "match.all.sync.b32 %all32|%p32, %b, %m;",
        {{"any", Type::kB32},
         {"all", Type::kB32},
         {"any32", Type::kB32},
         {"all32", Type::kB32},
         {"p", Type::kPred},
         {"p32", Type::kPred},
         {"a", Type::kB64, a},
         {"b", Type::kB32},
         {"m", Type::kB32, groups.members}},
        {.mask = groups.active});
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!groups.Has(lane)) continue;
      uint64_t same = 0, same32 = 0;
      for (int other = 0; other < kLanes; ++other) {
        if ((groups.members[lane] >> other & 1) == 0) continue;
        if (a[other] == a[lane]) same |= uint64_t{1} << other;
        if ((a[other] & 0xffffffff) == (a[lane] & 0xffffffff)) same32 |= uint64_t{1} << other;
      }
      const bool all = same == groups.members[lane], all32 = same32 == groups.members[lane];
      EXPECT_EQ(result["any"][lane], same);
      EXPECT_EQ(result["any32"][lane], same32);
      EXPECT_EQ(result["all"][lane], all ? same : 0);
      EXPECT_EQ(result["all32"][lane], all32 ? same32 : 0);
      EXPECT_EQ(result["p"][lane], all);
      EXPECT_EQ(result["p32"][lane], all32);
    }
  }
}

TEST(SyncOps, ReductionsAreThoseOfTheMembers) {
  struct Reduction {
    const char* name;
    std::function<int64_t(int64_t, int64_t)> combine;
    bool is_signed;
  };
  const auto smaller = [](int64_t a, int64_t b) { return std::min(a, b); };
  const auto larger = [](int64_t a, int64_t b) { return std::max(a, b); };
  const Reduction reductions[] = {
      {"add.s32", std::plus<int64_t>(), true},
      {"add.u32", std::plus<int64_t>(), false},
      {"min.s32", smaller, true},
      {"min.u32", smaller, false},
      {"max.s32", larger, true},
      {"max.u32", larger, false},
      {"and.b32", std::bit_and<int64_t>(), false},
      {"or.b32", std::bit_or<int64_t>(), false},
      {"xor.b32", std::bit_xor<int64_t>(), false},
  };
  std::mt19937 random(5);
  for (const Reduction& reduction : reductions) {
    for (int round = 0; round < 10; ++round) {
      const Groups groups(random);
      Lanes a;
      for (uint64_t& value : a) value = random();
      auto result = RunLines(absl::StrFormat("redux.sync.%s %%d, %%a, %%m;", reduction.name),
                             {{"d", Type::kB32, Repeat({kOld})},
                              {"a", Type::kB32, a},
                              {"m", Type::kB32, groups.members}},
                             {.mask = groups.active});
      for (int lane = 0; lane < kLanes; ++lane) {
        if (!groups.Has(lane)) {
          EXPECT_EQ(result["d"][lane], kOld);
          continue;
        }
        bool is_first = true;
        int64_t wanted = 0;
        for (int other = 0; other < kLanes; ++other) {
          if ((groups.members[lane] >> other & 1) == 0) continue;
          const int64_t value = reduction.is_signed
                                    ? static_cast<int32_t>(static_cast<uint32_t>(a[other]))
                                    : static_cast<int64_t>(a[other]);
          wanted = is_first ? value : reduction.combine(wanted, value);
          is_first = false;
        }
        EXPECT_EQ(result["d"][lane], static_cast<uint32_t>(wanted)) << reduction.name;
      }
    }
  }
}

TEST(SyncOps, ShufflesOfSomeLanesLeaveTheOthersAlone) {
  Lanes a;
  for (uint64_t lane = 0; lane < kLanes; ++lane) a[lane] = 100 + lane;
  const auto result = RunLines(
      "shfl.sync.bfly.b32 %d|%p, %a, 2, 31, 0x0000ffff;",
      {{"d", Type::kB32, Repeat({kOld})}, {"p", Type::kPred, Repeat({0})}, {"a", Type::kB32, a}},
      {.mask = 0xffff});
  for (uint64_t lane = 0; lane < kLanes; ++lane) {
    EXPECT_EQ(result.at("d")[lane], lane < 16 ? 100 + (lane ^ 2) : kOld);
    EXPECT_EQ(result.at("p")[lane], lane < 16 ? 1u : 0u);
  }
}

TEST(SyncOps, ActivemaskIsThatOfTheInstruction) {
  const auto result = RunLines("activemask.b32 %d;", {{"d", Type::kB32}}, {.mask = 0x00f0f001});
  for (int lane = 0; lane < kLanes; ++lane) {
    const bool has = (0x00f0f001u >> lane & 1) != 0;
    EXPECT_EQ(result.at("d")[lane], has ? 0x00f0f001u : 0u);
  }
}

}  // namespace
}  // namespace duotone::emulator
