// Barriers that lanes of a warp come to at different places, and what warps may not ask of one.
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
using testing::HasSubstr;
using testing::IsEmpty;

struct Outcome {
  std::vector<uint32_t> values;
  std::vector<Problem> problems;
  std::vector<std::string> kinds;
};

// One block of `threads`: thread %t runs `body`, with %odd saying whether it is odd, and stores %v.
Outcome RunBlock(std::string_view body, int64_t threads, const EmulatorOptions& options = {}) {
  PtxRunner runner(options);
  const std::string ptx =
      PtxEntry(".param .u64 p",
               ".reg .b32 %r<10>; .reg .b32 %v; .reg .b32 %t; .reg .pred %p<5>; .reg .pred %odd;\n"
               ".reg .b64 %rd<4>;",
               absl::StrFormat("mov.u32 %%t, %%tid.x; mov.u32 %%v, 0; mov.u32 %%r1, buffer;\n"
                               "and.b32 %%r2, %%t, 1; setp.eq.u32 %%odd, %%r2, 1;\n%s\n"
                               "ld.param.u64 %%rd1, [p]; mul.wide.u32 %%rd2, %%t, 4;\n"
                               "add.s64 %%rd3, %%rd1, %%rd2; st.global.u32 [%%rd3], %%v; ret;",
                               body),
               "sm_80", ".shared .align 4 .b8 buffer[4096];");
  if (!runner.Load(ptx)) return {};
  const auto count = static_cast<size_t>(threads);
  const uint64_t out = runner.Buffer(std::vector<uint32_t>(count, 7777));
  runner.Run({1, 1, 1}, {threads, 1, 1}, {out});
  return {runner.Read<uint32_t>(out, count), runner.problems(), runner.problem_kinds()};
}

// Odd and even lanes each have an instruction of their own.
std::string TwoWays(std::string_view odd, std::string_view even) {
  return absl::StrFormat("@%%odd bra ODD;\n%s bra END;\nODD: %s\nEND:", even, odd);
}

// "barrier{.cta} instruction causes executing thread to wait for all non-exited threads from its
// warp" (PTX ISA 8.5, 9.7.13.1): at whichever instruction they are.
TEST(UnalignedBarriers, TakeLanesOfAWarpFromDifferentPlaces) {
  for (const Schedule schedule : {Schedule::kRoundRobin, Schedule::kAdversarial}) {
    EmulatorOptions options;
    options.schedule = schedule;
    const Outcome outcome = RunBlock("mad.lo.u32 %r3, %t, 4, %r1; st.shared.u32 [%r3], %t;\n" +
                                         TwoWays("barrier.sync 0;", "barrier.sync 0;") +
                                         "xor.b32 %r4, %t, 127; mad.lo.u32 %r3, %r4, 4, %r1;\n"
                                         "ld.shared.u32 %v, [%r3];",
                                     128, options);
    EXPECT_THAT(outcome.problems, IsEmpty());
    for (uint32_t t = 0; t < 128; ++t) EXPECT_EQ(outcome.values[t], t ^ 127);
  }
}

TEST(UnalignedBarriers, ReduceOverAllPlaces) {
  const Outcome outcome =
      RunBlock("setp.lt.u32 %p1, %t, 41; setp.ge.u32 %p2, %t, 41;\n" +
                   TwoWays("barrier.red.popc.u32 %v, 0, %p1; add.u32 %v, %v, 100;",
                           "barrier.red.popc.u32 %v, 0, !%p2;"),
               64);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(outcome.values[t], t % 2 == 1 ? 141u : 41u);
}

TEST(UnalignedBarriers, MayBeGuarded) {
  const Outcome outcome =
      RunBlock("@%odd barrier.sync 1; @!%odd barrier.sync 1; bar.sync 0; activemask.b32 %v;", 64);
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_THAT(outcome.values, Each(0xffffffffu));
}

// Even lanes come to where the ways meet, and not to the barrier, before odd ones pass theirs.
TEST(UnalignedBarriers, TakeLanesFromBehindAJoin) {
  const Outcome outcome = RunBlock(
      "@!%odd bra JOIN; add.u32 %v, %v, 1; barrier.sync 0; add.u32 %v, %v, 1;\n"
      "JOIN: add.u32 %v, %v, 10; @%odd bra END; barrier.sync 0; add.u32 %v, %v, 100;\n"
      "END: barrier.sync 0;",
      64);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(outcome.values[t], t % 2 == 1 ? 12u : 110u);
}

// Lanes that arrive go on when all of their warp have, wherever.
TEST(UnalignedBarriers, ArriveFromDifferentPlaces) {
  const Outcome outcome = RunBlock(
      "mad.lo.u32 %r3, %t, 4, %r1; setp.ge.u32 %p1, %t, 32; @%p1 bra READ;\n"
      "st.shared.u32 [%r3], %t;\n" +
          TwoWays("barrier.arrive 3, 64;", "barrier.arrive 3, 64;") +
          "bra DONE;\nREAD: barrier.sync 3, 64; ld.shared.u32 %v, [%r3-128];\nDONE:",
      64);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t t = 32; t < 64; ++t) EXPECT_EQ(outcome.values[t], t - 32);
}

TEST(AlignedBarriers, AtDifferentPlacesOfAWarpAreReported) {
  for (const std::string_view other : {"bar.sync 0;", "barrier.sync.aligned 0;"}) {
    for (const std::string_view one : {"bar.sync 0;", "barrier.sync 0;"}) {
      for (const std::string& ways : {TwoWays(one, other), TwoWays(other, one)}) {
        const Outcome outcome = RunBlock(ways, 32);
        ASSERT_THAT(outcome.kinds, ElementsAre("divergent lanes")) << ways;
        EXPECT_THAT(outcome.problems[0].what,
                    HasSubstr("at a barrier that the others do not reach"));
      }
    }
  }
}

TEST(Barriers, OfOneWarpMustBeTheSame) {
  const std::pair<std::string, const char*> cases[] = {
      {TwoWays("barrier.sync 1;", "barrier.sync 2;"),
       "lane 0 is at barrier 2 (barrier.sync, all threads), lane 1 at barrier 1 "},
      {TwoWays("barrier.sync 1, 32;", "barrier.sync 1;"), "lane 1 at barrier 1 (barrier.sync, 32 "},
      {TwoWays("barrier.arrive 1, 64;", "barrier.sync 1, 64;"),
       "lane 1 at barrier 1 (barrier.arrive, 64 threads)"},
      {"bar.sync %r2;", "lane 0 is at barrier 0 (barrier.sync, all threads), lane 1 at barrier 1 "},
  };
  for (const auto& [body, message] : cases) {
    const Outcome outcome = RunBlock(body, 32);
    ASSERT_THAT(outcome.kinds, ElementsAre("divergent lanes")) << body;
    EXPECT_THAT(outcome.problems[0].what, HasSubstr(message));
  }
}

// A warp's number need not be a constant.
TEST(Barriers, MayBeNamedByARegister) {
  const Outcome outcome = RunBlock("shr.u32 %r3, %t, 6; bar.sync %r3, 64; mov.u32 %v, 1;", 256);
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_THAT(outcome.values, Each(1u));
}

TEST(Barriers, ThatCannotCompleteAreReported) {
  const std::pair<const char*, const char*> cases[] = {
      {"bar.sync 16;", "there is no barrier 16; a block has 16"},
      {"bar.sync 1, 40;", "barrier 1 for 40 threads; it must be a multiple of 32"},
      {"bar.arrive 1, 0;", "arriving at barrier 1 for 0 threads; their number must be given"},
      {"bar.sync 1, 96;",
       "warps 0, 1 wait at barrier 1 for ever; it is for 96 threads, and the block has no other "
       "warps"},
      {"setp.lt.u32 %p1, %t, 32; @%p1 exit; bar.sync 1, 64;",
       "warps 1 wait at barrier 1 for ever; the others have exited"},
      {"setp.lt.u32 %p1, %t, 32; @%p1 bra LOW; bar.sync 1, 64; bra END;\n"
       "LOW: bar.sync 2, 64; END:",
       "warps 1 wait at barrier 1 for ever; warps 0 wait at other ones"},
      {"setp.lt.u32 %p1, %t, 32; @%p1 bra LOW; bar.sync 1, 64; bra END;\n"
       "LOW: bar.sync 1, 96; END:",
       "barrier 1 is used with 96 threads and with 64 at the same time"},
      {"setp.lt.u32 %p1, %t, 32; @%p1 bra LOW; bar.sync 0; bra END;\n"
       "LOW: bar.red.popc.u32 %v, 0, %p1; END:",
       "barrier 0 is used by barrier.red and by barrier.sync or .arrive at the same time"},
  };
  for (const auto& [body, message] : cases) {
    const Outcome outcome = RunBlock(body, 64);
    ASSERT_THAT(outcome.kinds, ElementsAre("deadlock")) << body;
    EXPECT_THAT(outcome.problems[0].what, HasSubstr(message));
  }
}

}  // namespace
}  // namespace duotone::emulator
