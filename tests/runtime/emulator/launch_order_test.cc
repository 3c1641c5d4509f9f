// Values that blocks of one launch hand to each other: in order, or a race.
#include "runtime/emulator/launch_order.h"

#include <gmock/gmock.h>

#include <numeric>
#include <ostream>

#include "absl/strings/str_format.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- The order itself

TEST(LaunchOrder, AReadOfTheWordComesAfterWhatWasLetGoOf) {
  LaunchOrder order;
  EXPECT_FALSE(order.any());
  order.Release(64, /*block=*/1, /*fences=*/2);
  EXPECT_TRUE(order.any());
  order.Acquire(68, /*block=*/3);
  EXPECT_FALSE(order.IsBefore(1, 0, 3)) << "another word";
  order.Acquire(64, 3);
  EXPECT_TRUE(order.IsBefore(1, 0, 3));
  EXPECT_TRUE(order.IsBefore(1, 1, 3));
  EXPECT_FALSE(order.IsBefore(1, 2, 3)) << "after the fence";
  EXPECT_FALSE(order.IsBefore(3, 0, 1));
  EXPECT_FALSE(order.IsBefore(1, 0, 4));
}

TEST(LaunchOrder, AReadBeforeComesNotAfter) {
  LaunchOrder order;
  order.Release(64, 1, 1);
  order.Acquire(64, 3);
  order.Release(64, 2, 1);
  order.Release(64, 1, 2);
  EXPECT_TRUE(order.IsBefore(1, 0, 3));
  EXPECT_FALSE(order.IsBefore(1, 1, 3));
  EXPECT_FALSE(order.IsBefore(2, 0, 3));
  order.Acquire(64, 3);
  EXPECT_TRUE(order.IsBefore(1, 1, 3));
  EXPECT_TRUE(order.IsBefore(2, 0, 3));
}

TEST(LaunchOrder, ABlockDoesNotFollowItself) {
  LaunchOrder order;
  order.Release(64, 1, 1);
  order.Acquire(64, 1);
  EXPECT_FALSE(order.FollowsAny(1));
  order.Release(64, 2, 1);
  order.Acquire(64, 1);
  EXPECT_TRUE(order.FollowsAny(1));
}

TEST(LaunchOrder, IsForgotten) {
  LaunchOrder order;
  order.Release(64, 1, 1);
  order.Acquire(64, 2);
  order.Clear();
  EXPECT_FALSE(order.any());
  EXPECT_FALSE(order.IsBefore(1, 0, 2));
}

// Its memory is bounded: beyond that it no longer says that something is out of order.
TEST(LaunchOrder, HasAnEnd) {
  LaunchOrder order;
  for (int64_t fences = 1; fences <= (1 << 20); ++fences) order.Release(64, 1, fences);
  EXPECT_FALSE(order.IsBefore(1, 0, 2));
  order.Release(64, 1, (1 << 20) + 1);
  EXPECT_TRUE(order.IsBefore(1, 0, 2));
}

// ---- Kernels

// Blocks of a launch count in %c, of which %n knows how many there are; %a is an array of words for
// them, %b one for the result.
std::string Kernel(std::string_view body) {
  return PtxEntry(
      ".param .u64 pa, .param .u64 pb, .param .u64 pc",
      ".reg .b64 %a; .reg .b64 %b; .reg .b64 %c; .reg .b64 %x; .reg .b32 %t; .reg .b32 %k; .reg "
      ".b32 %n; .reg .b32 %r<9>; .reg .b16 %h<3>; .reg .b64 %rd<5>; .reg .pred %p<5>; .shared "
      ".align 4 .b8 last[4];",
      absl::StrFormat("ld.param.u64 %%a, [pa]; ld.param.u64 %%b, [pb]; ld.param.u64 %%c, [pc];\n"
                      "mov.u32 %%t, %%tid.x; mov.u32 %%k, %%ctaid.x; mov.u32 %%n, %%nctaid.x;\n"
                      "%s\nret;",
                      body));
}

// How a launch is run must not decide what is right.
struct Way {
  Schedule schedule = Schedule::kRoundRobin;
  int threads = 1;
  uint64_t seed = 1;
};
constexpr Way kWays[] = {{Schedule::kRoundRobin, 1},     {Schedule::kRoundRobin, 4},
                         {Schedule::kAdversarial, 1},    {Schedule::kAdversarial, 1, 2},
                         {Schedule::kAdversarial, 1, 3}, {Schedule::kAdversarial, 4}};

// Runs the kernel over `words` words at %a, one at %b and one at %c, all zeros.
struct Outcome {
  uint32_t result = 0;
  std::vector<std::string> kinds;
};
Outcome RunOn(const std::string& kernel, int64_t blocks, int64_t threads, const Way& way,
              size_t words = 640) {
  EmulatorOptions options;
  options.schedule = way.schedule;
  options.threads = way.threads;
  options.seed = way.seed;
  PtxRunner runner(options);
  if (!runner.Load(kernel)) return {};
  const uint64_t a = runner.Buffer(std::vector<uint32_t>(words), "partial"),
                 b = runner.Buffer(std::vector<uint32_t>(1), "result"),
                 c = runner.Buffer(std::vector<uint32_t>(2), "counter");
  runner.Run({blocks, 1, 1}, {threads, 1, 1}, {a, b, c});
  return {runner.Read<uint32_t>(b, 1)[0], runner.problem_kinds()};
}

struct Case {
  const char* name;
  std::string body;
  int64_t threads = 1;
};
void PrintTo(const Case& tested, std::ostream* stream) { *stream << tested.name; }
std::string NameOf(const testing::TestParamInfo<Case>& info) { return info.param.name; }

// Each block leaves k + 1 in word k of %a and then counts; %p1: not the last one.
std::string LastBlock(std::string_view store, std::string_view count,
                      std::string_view load = "ld.global.u32 %r4, [%x];",
                      std::string_view after = "") {
  return absl::StrFormat(
      "add.u32 %%r1, %%k, 1; mul.wide.u32 %%x, %%k, 4; add.s64 %%x, %%a, %%x;\n%s\n"
      "sub.u32 %%r2, %%n, 1;\n%s\n"
      "setp.ne.u32 %%p1, %%r3, %%r2; @%%p1 bra DONE;\n"
      "mov.u32 %%r5, 0; mov.u32 %%r6, 0;\n"
      "AGAIN: mul.wide.u32 %%x, %%r6, 4; add.s64 %%x, %%a, %%x;\n%s\n"
      "add.u32 %%r5, %%r5, %%r4; add.u32 %%r6, %%r6, 1;\n"
      "setp.lt.u32 %%p2, %%r6, %%n; @%%p2 bra AGAIN;\n"
      "st.global.u32 [%%b], %%r5;\n%s\nDONE:",
      store, count, load, after);
}
constexpr char kStore[] = "st.global.u32 [%x], %r1;";
constexpr char kCount[] = "membar.gl; atom.global.add.u32 %r3, [%c], 1;";

class OrderedTest : public testing::TestWithParam<Case> {};

TEST_P(OrderedTest, IsNoRace) {
  for (const Way& way : kWays) {
    const Outcome outcome = RunOn(Kernel(GetParam().body), 9, GetParam().threads, way);
    EXPECT_THAT(outcome.kinds, IsEmpty());
    EXPECT_EQ(outcome.result, 45u);
  }
}

// All threads of a block store, one counts for all, and all of the last block add up.
std::string ManyThreads(std::string_view before, std::string_view at_count) {
  return absl::StrFormat(
      "mad.lo.u32 %%r1, %%k, 64, %%t; mul.wide.u32 %%x, %%r1, 4; add.s64 %%x, %%a, %%x;\n"
      "setp.lt.u32 %%p4, %%t, 1; add.u32 %%r2, %%k, 1; selp.u32 %%r2, %%r2, 0, %%p4;\n"
      "st.global.u32 [%%x], %%r2; %s bar.sync 0;\n"
      "setp.ne.u32 %%p1, %%t, 63; @%%p1 bra COUNTED;\n"
      "%s atom.global.inc.u32 %%r3, [%%c], 8; st.shared.u32 [last], %%r3;\n"
      "COUNTED: bar.sync 0; ld.shared.u32 %%r3, [last]; setp.ne.u32 %%p2, %%r3, 8;\n"
      "@%%p2 bra DONE;\n"
      "setp.ge.u32 %%p3, %%t, %%n; @%%p3 bra DONE; mul.wide.u32 %%x, %%t, 256;\n"
      "add.s64 %%x, %%a, %%x; ld.global.u32 %%r4, [%%x]; red.global.add.u32 [%%b], %%r4;\nDONE:",
      before, at_count);
}

INSTANTIATE_TEST_SUITE_P(
    LaunchOrder, OrderedTest,
    testing::Values(
        Case{"Fence", LastBlock(kStore, kCount)},
        Case{"VolatileWordsAndTwoFences",
             LastBlock("st.volatile.global.u32 [%x], %r1;",
                       "membar.sys; atom.global.inc.u32 %r3, [%c], %r2; membar.gl;",
                       "ld.volatile.global.u32 %r4, [%x];")},
        Case{"FenceOfNewKind", LastBlock(kStore,
                                         "fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r3, "
                                         "[%c], 1; fence.sc.gpu;")},
        Case{"AtomicThatReleases",
             LastBlock(kStore, "atom.acq_rel.gpu.global.add.u32 %r3, [%c], 1;")},
        // Every word has been counted when the last block comes, which makes it ready for the next
        // launch.
        Case{"CounterIsReset",
             LastBlock(kStore, kCount, "ld.global.u32 %r4, [%x];", "st.global.u32 [%c], 0;")},
        Case{"SumByAtomics",
             "add.u32 %r1, %k, 1; red.global.add.u32 [%a], %r1; membar.gl;\n"
             "atom.global.add.u32 %r3, [%c], 1; setp.eq.u32 %p1, %r3, 8;\n"
             "@%p1 ld.global.u32 %r4, [%a]; @%p1 st.global.u32 [%b], %r4;"},
        // Two blocks have their halves of one word.
        Case{"HalfWords",
             "add.u32 %r1, %k, 1; mul.wide.u32 %x, %k, 2; add.s64 %x, %a, %x; cvt.u16.u32 %h1, "
             "%r1;\n"
             "st.global.u16 [%x], %h1; membar.gl; atom.global.add.u32 %r3, [%c], 1;\n"
             "setp.ne.u32 %p1, %r3, 8; @%p1 bra DONE; mov.u32 %r5, 0; mov.u32 %r6, 0;\n"
             "AGAIN: mul.wide.u32 %x, %r6, 2; add.s64 %x, %a, %x; ld.global.u16 %h1, [%x];\n"
             "cvt.u32.u16 %r4, %h1; add.u32 %r5, %r5, %r4; add.u32 %r6, %r6, 1;\n"
             "setp.lt.u32 %p2, %r6, %n; @%p2 bra AGAIN; st.global.u32 [%b], %r5;\nDONE:"},
        Case{"EachThreadFences", ManyThreads("membar.gl;", ""), 64},
        Case{"OneThreadFencesForAll", ManyThreads("", "membar.gl;"), 64}),
    NameOf);

class UnorderedTest : public testing::TestWithParam<Case> {};

TEST_P(UnorderedTest, IsARace) {
  for (const Way& way : kWays) {
    const Outcome outcome = RunOn(Kernel(GetParam().body), 9, GetParam().threads, way);
    EXPECT_THAT(outcome.kinds, Not(IsEmpty()));
    EXPECT_THAT(outcome.kinds, Each("race between blocks"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    LaunchOrder, UnorderedTest,
    testing::Values(
        Case{"NoFence", LastBlock(kStore, "atom.global.add.u32 %r3, [%c], 1;")},
        Case{"FenceOnlyAfterwards",
             LastBlock(kStore, "atom.global.add.u32 %r3, [%c], 1; membar.gl;")},
        Case{"FenceOnlyBefore",
             LastBlock("membar.gl; st.global.u32 [%x], %r1;", "atom.global.add.u32 %r3, [%c], 1;")},
        Case{"FenceOfABlock", LastBlock(kStore, "membar.cta; atom.global.add.u32 %r3, [%c], 1;")},
        Case{"AtomicOfABlock", LastBlock(kStore, "atom.acq_rel.cta.global.add.u32 %r3, [%c], 1;")},
        Case{"VolatileWords",
             LastBlock("st.volatile.global.u32 [%x], %r1;", "atom.global.add.u32 %r3, [%c], 1;",
                       "ld.volatile.global.u32 %r4, [%x];")},
        // The result of the atomic is what tells that others have come.
        Case{"NothingIsRead",
             LastBlock(kStore, "membar.gl; red.global.add.u32 [%c], 1; sub.u32 %r3, %n, 1;")},
        // The fourth block takes itself for the last.
        Case{"TooFewAreCounted",
             LastBlock(kStore, "mov.u32 %r2, 3; membar.gl; atom.global.add.u32 %r3, [%c], 1;")},
        // Two blocks have one word.
        Case{"OneWordForTwo", "shr.u32 %k, %k, 1;\n" + LastBlock(kStore, kCount)},
        // What a block stores after it has counted, nobody may rely on.
        Case{"StoredTooLate",
             LastBlock("mov.u32 %r7, 0; st.global.u32 [%x], %r7;",
                       "membar.gl; atom.global.add.u32 %r3, [%c], 1; st.global.u32 [%x], %r1;")},
        Case{"NobodyFences", ManyThreads("", ""), 64}),
    NameOf);

// ---- From one block to the next

// Block 0 stores 7 and then a flag; block 1 reads the flag, and what was stored where it is set.
std::string Flag(std::string_view set, std::string_view get) {
  return absl::StrFormat(
      "setp.ne.u32 %%p1, %%k, 0; @%%p1 bra READ;\n"
      "mov.u32 %%r1, 7; st.global.u32 [%%a], %%r1; %s\nbra DONE;\n"
      "READ: %s setp.eq.u32 %%p2, %%r2, 0; @%%p2 bra DONE;\n"
      "ld.global.u32 %%r3, [%%a]; st.global.u32 [%%b], %%r3;\nDONE:",
      set, get);
}

TEST(LaunchOrder, AFlagHandsAValueOver) {
  const std::string pairs[][2] = {
      {"st.release.gpu.global.u32 [%c], 1;", "ld.acquire.gpu.global.u32 %r2, [%c];"},
      {"membar.gl; st.volatile.global.u32 [%c], 1;",
       "ld.volatile.global.u32 %r2, [%c]; membar.gl;"},
      {"red.release.gpu.global.add.u32 [%c], 1;", "ld.acquire.gpu.global.u32 %r2, [%c];"},
      {"membar.gl; st.relaxed.gpu.global.u32 [%c], 1;", "atom.global.or.b32 %r2, [%c], 0;"},
      // The flag is the second word of what is read.
      {"membar.gl; st.volatile.global.u32 [%c+4], 1;",
       "ld.volatile.global.v2.u32 {%r4, %r2}, [%c]; membar.gl;"}};
  for (const auto& [set, get] : pairs) {
    for (const Way& way : kWays) {
      const Outcome outcome = RunOn(Kernel(Flag(set, get)), 2, 1, way);
      EXPECT_THAT(outcome.kinds, IsEmpty()) << set;
      if (way.schedule == Schedule::kRoundRobin && way.threads == 1) {
        EXPECT_EQ(outcome.result, 7u);
      }
    }
  }
}

TEST(LaunchOrder, AFlagWithoutAFenceIsARace) {
  const std::string pairs[][2] = {
      {"st.volatile.global.u32 [%c], 1;", "ld.volatile.global.u32 %r2, [%c]; membar.gl;"},
      {"membar.gl; st.global.u32 [%c], 1;", "ld.volatile.global.u32 %r2, [%c]; membar.gl;"},
      {"st.release.gpu.global.u32 [%c], 1;", "ld.global.u32 %r2, [%c];"},
      {"st.release.cta.global.u32 [%c], 1;", "ld.acquire.gpu.global.u32 %r2, [%c];"}};
  for (const auto& [set, get] : pairs) {
    for (const Way& way : kWays) {
      EXPECT_THAT(RunOn(Kernel(Flag(set, get)), 2, 1, way).kinds, Contains("race between blocks"))
          << set;
    }
  }
}

// Block k adds k + 1 to the sum in its turn. Blocks that come in order have theirs at once.
TEST(LaunchOrder, BlocksAddInTurn) {
  constexpr char kTurn[] =
      "ld.acquire.gpu.global.u32 %%r1, [%%c]; setp.ne.u32 %%p1, %%r1, %%k; @%%p1 bra DONE;\n"
      "add.u32 %%r1, %%r1, 1; ld.global.u32 %%r2, [%%b]; add.u32 %%r2, %%r2, %%r1;\n"
      "st.global.u32 [%%b], %%r2; %s [%%c], %%r1;\nDONE:";
  const Outcome right =
      RunOn(Kernel(absl::StrFormat(kTurn, "st.release.gpu.global.u32")), 9, 1, {});
  EXPECT_THAT(right.kinds, IsEmpty());
  EXPECT_EQ(right.result, 45u);
  const Outcome wrong =
      RunOn(Kernel(absl::StrFormat(kTurn, "st.relaxed.gpu.global.u32")), 9, 1, {});
  EXPECT_THAT(wrong.kinds, Each("race between blocks"));
  EXPECT_EQ(wrong.result, 45u);
}

// The fourth block changes the word out of turn: the word knows its latest writer, not its first.
TEST(LaunchOrder, AWordThatIsHandedOnKnowsItsLatestWriter) {
  const std::string kernel = Kernel(
      "setp.ge.u32 %p1, %k, 3; @%p1 bra LATE;\n"
      "ld.acquire.gpu.global.u32 %r1, [%c]; ld.global.u32 %r2, [%b]; add.u32 %r2, %r2, 1;\n"
      "st.global.u32 [%b], %r2; setp.eq.u32 %p2, %k, 2; add.u32 %r1, %r1, 1;\n"
      "@!%p2 st.release.gpu.global.u32 [%c], %r1; bra DONE;\n"
      "LATE: ld.acquire.gpu.global.u32 %r1, [%c]; ld.global.u32 %r2, [%b];\nDONE:");
  EXPECT_THAT(RunOn(kernel, 3, 1, {}).kinds, IsEmpty());
  EXPECT_THAT(RunOn(kernel, 4, 1, {}).kinds, ElementsAre("race between blocks"));
}

// ---- Loops of atom.cas

// As CUDA's own additions of bf16: a plain load, then exchanges until nobody was faster.
constexpr char kSwapLoop[] =
    "ld.global.u32 %%r1, [%%b];\n"
    "AGAIN: mov.u32 %%r2, %%r1; add.u32 %%r3, %%r1, 5;\n"
    "atom.global.cas.b32 %%r1, [%s], %%r2, %%r3;\n"
    "setp.ne.s32 %%p1, %%r1, %%r2; @%%p1 bra AGAIN;";

TEST(LaunchOrder, ThePlainLoadOfACompareAndSwapIsAWarning) {
  for (const Way& way : kWays) {
    const Outcome outcome = RunOn(Kernel(absl::StrFormat(kSwapLoop, "%b")), 9, 1, way);
    EXPECT_THAT(outcome.kinds, Not(IsEmpty()));
    EXPECT_THAT(outcome.kinds, Each("plain load before atom.cas"));
    EXPECT_EQ(outcome.result, 45u);
  }
  EXPECT_TRUE(IsWarning(ProblemKind::kPlainCasLoad));
}

TEST(LaunchOrder, OtherPlainLoadsOfWhatAtomicsChangeAreRaces) {
  const std::string others[] = {
      // Added to besides.
      absl::StrFormat(kSwapLoop, "%c") + " red.global.add.u32 [%b], 1;",
      "ld.global.u32 %r1, [%b]; atom.global.add.u32 %r2, [%b], 1;",
      // Another access of the word.
      absl::StrFormat(kSwapLoop, "%c") + " mov.u64 %x, %b; atom.global.cas.b32 %r2, [%x], 0, 1;"};
  for (const std::string& body : others) {
    for (const Way& way : kWays) {
      EXPECT_THAT(RunOn(Kernel(body), 9, 1, way).kinds, Contains("race between blocks")) << body;
    }
  }
}

}  // namespace
}  // namespace duotone::emulator
