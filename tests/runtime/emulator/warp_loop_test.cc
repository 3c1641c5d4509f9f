// Fragments of a warp that wait for each other: members that exit, blocks that several ways share,
// loops that wait for another lane.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kUntouched = 7777;

struct Outcome {
  std::vector<uint32_t> values;
  std::vector<std::string> kinds;
  std::vector<Problem> problems;
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
  return {runner.Read<uint32_t>(out, kLanes), runner.problem_kinds(), runner.problems()};
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

// Lanes that name each other must agree about the mask; groups need not
// (OfTwoGroupsComeInAnyOrder).
TEST(Members, WithDifferentMasksAreReported) {
  // Of the lanes from 16 on, and of those before.
  const std::pair<const char*, const char*> masks[] = {
      {"0xffff0000", "-1"}, {"0xfffffff0", "-1"}, {"-1", "0x0000ffff"}};
  for (const auto& [high, low] : masks) {
    for (const char* text :
         {"redux.sync.add.u32 %v, %t, %r2;", "shfl.sync.bfly.b32 %v, %t, 1, 31, %r2;",
          "vote.sync.ballot.b32 %v, %p1, %r2;", "match.any.sync.b32 %v, %t, %r2;",
          "bar.warp.sync %r2;"}) {
      const Outcome outcome = RunWarpOf(absl::StrFormat(
          "setp.lt.u32 %%p1, %%t, 16; selp.b32 %%r2, %s, %s, %%p1;\n%s", low, high, text));
      EXPECT_THAT(outcome.kinds, ElementsAre("divergent lanes")) << high << " " << low << text;
    }
  }
}

// Lanes whose guard is false are at the instruction and do not execute it.
TEST(Members, ThatWaitForLanesWithAFalseGuardSaySo) {
  const Outcome outcome =
      RunWarpOf("setp.lt.u32 %p1, %t, 16; @%p1 shfl.sync.bfly.b32 %v, %t, 1, 31, -1;");
  ASSERT_THAT(outcome.kinds, ElementsAre("divergent lanes"));
  EXPECT_EQ(outcome.problems[0].lanes, 0xffffu);
  EXPECT_THAT(outcome.problems[0].what, AllOf(HasSubstr("for lanes 16-31 of the member mask"),
                                              HasSubstr("lanes 16-31 have a false guard")));
}

TEST(Shuffles, FromLanesThatDoNotTakePartAreReported) {
  const std::string_view absent[] = {
      // Lane 20 exists, and is not in the mask.
      "setp.ge.u32 %p1, %t, 16; @%p1 bra END; shfl.sync.idx.b32 %v, %t, 20, 31, 0xffff; END:",
      // Lanes 8 to 15 look beyond the mask's end.
      "setp.ge.u32 %p1, %t, 16; @%p1 bra END; shfl.sync.down.b32 %v, %t, 8, 31, 0xffff; END:",
      // Lane 20 is in another group.
      "setp.ge.u32 %p1, %t, 16; selp.b32 %r2, 0xffff0000, 0xffff, %p1;\n"
      "shfl.sync.idx.b32 %v, %t, 20, 31, %r2;",
      // Lane 20 is in the mask, and has exited.
      "setp.ge.u32 %p1, %t, 16; @%p1 exit; shfl.sync.idx.b32 %v, %t, 20, 31, -1;"};
  for (const std::string_view body : absent) {
    EXPECT_THAT(RunWarpOf(body).kinds, ElementsAre("shuffle from an absent lane")) << body;
  }
  // A segment of 16 lanes: lanes 8 to 15 keep their own values.
  EXPECT_THAT(RunWarpOf("setp.ge.u32 %p1, %t, 16; @%p1 bra END;\n"
                        "shfl.sync.down.b32 %v, %t, 8, 0x100f, 0xffff; END:")
                  .kinds,
              IsEmpty());
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

// A lock that a lane holds while the others of its warp ask for it: the holder gives it back behind
// the loop, where it does not wait for them.
TEST(Fragments, ThatHoldALockGiveItBack) {
  for (const Schedule schedule : {Schedule::kRoundRobin, Schedule::kAdversarial}) {
    EmulatorOptions options;
    options.schedule = schedule;
    options.instruction_budget = 1000000;
    PtxRunner runner(options);
    ASSERT_TRUE(
        runner.Load(PtxEntry(".param .u64 p", ".reg .b32 %r<4>; .reg .pred %p; .reg .b64 %rd<2>;",
                             "ld.param.u64 %rd1, [p];\n"
                             "AGAIN: atom.acquire.gpu.global.cas.b32 %r1, [%rd1], 0, 1;\n"
                             "setp.ne.u32 %p, %r1, 0; @%p bra AGAIN;\n"
                             "ld.volatile.global.u32 %r2, [%rd1+4]; add.u32 %r2, %r2, 1;\n"
                             "st.volatile.global.u32 [%rd1+4], %r2;\n"
                             "atom.release.gpu.global.exch.b32 %r3, [%rd1], 0; bar.sync 0; ret;")));
    const uint64_t lock = runner.Buffer(std::vector<uint32_t>{0, 0});
    runner.Run({1, 1, 1}, {kLanes + 4, 1, 1}, {lock});
    EXPECT_THAT(runner.problem_kinds(), IsEmpty());
    EXPECT_THAT(runner.Read<uint32_t>(lock, 2), ElementsAre(0u, kLanes + 4));
  }
}

// Odd lanes wait for what even lanes write behind the place where the ways meet. At instructions
// for a whole warp they are together again.
TEST(Fragments, ThatWaitForLanesAtTheirJoinMeetThemAgain) {
  const std::string wait =
      "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra JOIN;\n"
      "AGAIN: ld.volatile.global.u32 %v, [%rd1]; setp.ne.u32 %p2, %v, 5; @%p2 bra AGAIN;\n"
      "JOIN: @%p1 st.volatile.global.u32 [%rd1], 5;\n";
  const std::string_view mma =
      "{ .reg .f32 %d<4>; mov.f32 %d0, 0f00000000;\n"
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3}, {%r2, %r2}, {%r2},\n"
      "  {%d0, %d0, %d0, %d0}; }";
  for (const std::string_view meeting : {std::string_view("bar.sync 0;"), mma}) {
    EmulatorOptions options;
    options.instruction_budget = 1000000;
    const Outcome outcome = RunWarpOf(wait + std::string(meeting) + "activemask.b32 %v;", options);
    EXPECT_THAT(outcome.kinds, IsEmpty()) << meeting;
    EXPECT_THAT(outcome.values, Each(0xffffffffu)) << meeting;
  }
}

// Lanes that wait for each other at an instruction for the whole warp never meet.
TEST(Fragments, ThatAreLeftBehindAtAnAlignedInstructionAreReported) {
  const Outcome outcome = RunWarpOf(
      "setp.eq.u32 %p1, %t, 0; @%p1 bra JOIN;\n"
      "AGAIN: ld.volatile.global.u32 %v, [%rd1]; setp.ne.u32 %p2, %v, 5; @%p2 bra AGAIN;\n"
      "JOIN: @%p1 st.volatile.global.u32 [%rd1], 5; @%p1 bra ONE;\n"
      "bar.sync 0; bra END;\n"
      "ONE: bar.sync 0;\n"
      "END:");
  EXPECT_THAT(outcome.kinds, ElementsAre("divergent lanes"));
}

// A long loop that reads no memory others write is no reason to leave a join.
TEST(Fragments, ThatWorkForLongAreWaitedFor) {
  const Outcome outcome = RunWarpOf(
      "setp.ne.u32 %p1, %t, 0; @%p1 bra JOIN;\n"
      "AGAIN: ld.global.u32 %r2, [%rd1]; add.u32 %r1, %r1, 1;\n"
      "setp.lt.u32 %p2, %r1, 50000; @%p2 bra AGAIN;\n"
      "JOIN: activemask.b32 %v;");
  EXPECT_THAT(outcome.kinds, IsEmpty());
  EXPECT_THAT(outcome.values, Each(0xffffffffu));
}

// Nor is what lanes have read before they parted.
TEST(Fragments, ThatHavePartedJustNowAreWaitedFor) {
  const Outcome outcome = RunWarpOf(
      "atom.global.add.u32 %r2, [%rd1], 0;\n"
      "AGAIN: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 50000; @%p2 bra AGAIN;\n"
      "setp.lt.u32 %p1, %t, 16; @%p1 bra JOIN; add.u32 %r1, %r1, 1;\n"
      "JOIN: activemask.b32 %v;");
  EXPECT_THAT(outcome.kinds, IsEmpty());
  EXPECT_THAT(outcome.values, Each(0xffffffffu));
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
