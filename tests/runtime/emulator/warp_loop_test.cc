// Fragments of a warp that wait for each other: members that exit, blocks that several ways share,
// loops that wait for another lane.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kUntouched = 7777;

struct Outcome {
  std::vector<uint32_t> values;
  std::vector<std::string> kinds;
};

// One block of one warp: lane %t runs `body` and stores %v in its element of an array at %rd1,
// whose elements are kUntouched before.
Outcome RunWarpOf(std::string_view body, const EmulatorOptions& options = {}) {
  PtxRunner runner(options);
  const std::string ptx = PtxEntry(
      ".param .u64 p",
      ".reg .b32 %r<10>; .reg .b32 %v; .reg .b32 %t; .reg .pred %p<5>; .reg .b64 %rd<4>;",
      absl::StrFormat("ld.param.u64 %%rd1, [p]; mov.u32 %%t, %%tid.x; mov.u32 %%v, 0;\n%s\n"
                      "mul.wide.u32 %%rd2, %%t, 4; add.s64 %%rd3, %%rd1, %%rd2;\n"
                      "st.global.u32 [%%rd3], %%v; ret;",
                      body));
  if (!runner.Load(ptx)) return {};
  const uint64_t out = runner.Buffer(std::vector<uint32_t>(kLanes, kUntouched));
  runner.Run({1, 1, 1}, {kLanes, 1, 1}, {out});
  return {runner.Read<uint32_t>(out, kLanes), runner.problem_kinds()};
}

// Lanes of the member mask that exit while others wait for them are not waited for (PTX ISA 8.5,
// 9.7.9.6: "all non-exited threads"), whichever of them run first.
TEST(Members, ThatExitAreNotWaitedFor) {
  for (const std::string_view condition : {"@%p1", "@!%p1"}) {
    const Outcome outcome =
        RunWarpOf(absl::StrFormat("setp.lt.u32 %%p1, %%t, 16; %s bra MEET; exit;\n"
                                  "MEET: shfl.sync.bfly.b32 %%v, %%t, 1, 31, -1;",
                                  condition));
    EXPECT_THAT(outcome.kinds, IsEmpty()) << condition;
    for (uint32_t t = 0; t < kLanes; ++t) {
      const bool exits = (t < 16) != (condition == "@%p1");
      EXPECT_EQ(outcome.values[t], exits ? kUntouched : t ^ 1) << condition << " lane " << t;
    }
  }
}

// Two ways lead into one block, whose shuffle brings their lanes together; behind it, at the
// post-dominator, they are together with all others.
TEST(Members, OfABlockThatWaysSharePassTheJoinWithAllLanes) {
  const Outcome outcome = RunWarpOf(
      "setp.lt.u32 %p1, %t, 8; @%p1 bra SHARED;\n"
      "setp.lt.u32 %p2, %t, 16; @%p2 bra SHARED;\n"
      "bra BEHIND;\n"
      "SHARED: shfl.sync.idx.b32 %r2, %t, 9, 31, 0xffff;\n"
      "BEHIND: activemask.b32 %v;");
  EXPECT_THAT(outcome.kinds, IsEmpty());
  EXPECT_THAT(outcome.values, Each(0xffffffffu));
}

// Lanes of two groups come to one shuffle one after the other: each group has its own members.
TEST(Members, OfTwoGroupsComeInAnyOrder) {
  const Outcome outcome = RunWarpOf(
      "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0;\n"
      "selp.b32 %r2, 0x55555555, 0xaaaaaaaa, %p1;\n"
      "setp.lt.u32 %p2, %t, 8; @%p2 bra SHARED;\n"
      "setp.lt.u32 %p3, %t, 20; @%p3 bra SHARED;\n"
      "add.u32 %t, %t, 0;\n"
      "SHARED: redux.sync.max.u32 %v, %t, %r2;");
  EXPECT_THAT(outcome.kinds, IsEmpty());
  for (uint32_t t = 0; t < kLanes; ++t) EXPECT_EQ(outcome.values[t], t % 2 == 0 ? 30u : 31u);
}

TEST(Members, ThatWaitElsewhereAreReported) {
  const Outcome outcome = RunWarpOf(
      "setp.lt.u32 %p1, %t, 16; @%p1 bra LOW;\n"
      "shfl.sync.idx.b32 %v, %t, 0, 31, -1; bra END;\n"
      "LOW: shfl.sync.idx.b32 %v, %t, 1, 31, -1;\n"
      "END:");
  EXPECT_THAT(outcome.kinds, ElementsAre("divergent lanes"));
}

TEST(Members, ALaneOutsideItsOwnMaskIsReported) {
  const Outcome outcome = RunWarpOf("shfl.sync.idx.b32 %v, %t, 0, 31, 0x7fffffff;");
  EXPECT_THAT(outcome.kinds, ElementsAre("divergent lanes"));
}

// Lanes wait in a loop, in which they part and come together, for what lane 0 has yet to write.
TEST(Fragments, ThatWaitInALoopLetOthersRun) {
  for (const Schedule schedule : {Schedule::kRoundRobin, Schedule::kAdversarial}) {
    EmulatorOptions options;
    options.schedule = schedule;
    options.instruction_budget = 1000000;
    const Outcome outcome = RunWarpOf(
        "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0;\n"
        "setp.ne.u32 %p2, %t, 0; @%p2 bra AGAIN;\n"
        "st.volatile.global.u32 [%rd1], 5; bra OUT;\n"
        "AGAIN: @%p1 bra EVEN;\n"
        "add.u32 %r2, %r2, 1; bra READ;\n"
        "EVEN: add.u32 %r2, %r2, 2;\n"
        "READ: ld.volatile.global.u32 %v, [%rd1];\n"
        "setp.ne.u32 %p3, %v, 5; @%p3 bra AGAIN;\n"
        "OUT:",
        options);
    EXPECT_THAT(outcome.kinds, IsEmpty());
    for (uint32_t t = 1; t < kLanes; ++t) EXPECT_EQ(outcome.values[t], 5u);
  }
}

// A kernel of five instructions may execute five, and not four.
TEST(Budget, HoldsToTheInstruction) {
  for (int64_t budget = 1; budget <= 7; ++budget) {
    EmulatorOptions options;
    options.instruction_budget = budget;
    PtxRunner runner(options);
    ASSERT_TRUE(runner.Load(
        PtxEntry("", ".reg .b32 %r;",
                 "mov.u32 %r, 1; add.u32 %r, %r, 1; add.u32 %r, %r, 2; add.u32 %r, %r, 3; ret;")));
    runner.Run({1, 1, 1}, {kLanes, 1, 1}, {});
    if (budget < 5) {
      EXPECT_THAT(runner.problem_kinds(), ElementsAre("endless loop")) << budget;
    } else {
      EXPECT_THAT(runner.problem_kinds(), IsEmpty()) << budget;
    }
  }
}

}  // namespace
}  // namespace duotone::emulator
