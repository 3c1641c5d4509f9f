// Warps and blocks: lanes that part and come together, barriers, what warps do together, schedules.
#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "absl/strings/str_format.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A kernel of one pointer whose threads each store %v at their number; `body` sets %v.
std::string StoreKernel(std::string_view body, std::string_view registers = "",
                        std::string_view variables = "") {
  return PtxEntry(".param .u64 p",
                  absl::StrFormat(".reg .b32 %%r<10>; .reg .b32 %%v; .reg .b32 %%t; .reg .pred "
                                  "%%p<5>; .reg .b64 %%rd<6>; %s",
                                  registers),
                  absl::StrFormat("mov.u32 %%t, %%tid.x; mov.u32 %%v, 0;\n%s\nDONE:\n"
                                  "ld.param.u64 %%rd1, [p];\n"
                                  "mov.u32 %%r8, %%ctaid.x; mov.u32 %%r9, %%ntid.x;\n"
                                  "mad.lo.u32 %%r8, %%r8, %%r9, %%t;\n"
                                  "mul.wide.u32 %%rd2, %%r8, 4; add.s64 %%rd3, %%rd1, %%rd2;\n"
                                  "st.global.u32 [%%rd3], %%v; ret;",
                                  body),
                  "sm_80", variables);
}

struct Outcome {
  std::vector<uint32_t> values;
  std::vector<Problem> problems;
  std::vector<std::string> kinds;
};
Outcome RunStore(const std::string& ptx, int64_t threads, int64_t blocks = 1,
                 EmulatorOptions options = {}) {
  PtxRunner runner(options);
  if (!runner.Load(ptx)) return {};
  const auto count = static_cast<size_t>(threads * blocks);
  const uint64_t out = runner.Buffer(std::vector<uint32_t>(count, 7777));
  runner.Run({blocks, 1, 1}, {threads, 1, 1}, {out});
  return {runner.Read<uint32_t>(out, count), runner.problems(), runner.problem_kinds()};
}

TEST(Divergence, LanesComeTogetherBehindAnIf) {
  const Outcome outcome = RunStore(StoreKernel("setp.lt.u32 %p1, %t, 10;\n"
                                               "@%p1 bra THEN;\n"
                                               "activemask.b32 %v; bra JOIN;\n"
                                               "THEN: activemask.b32 %v;\n"
                                               "JOIN: activemask.b32 %r1; xor.b32 %v, %v, %r1;"),
                                   32);
  EXPECT_THAT(outcome.problems, IsEmpty());
  // Inside each way only its own lanes, behind it all of them.
  for (uint32_t t = 0; t < 32; ++t) {
    EXPECT_EQ(outcome.values[t], t < 10 ? ~0x3ffu : 0x3ffu);
  }
}

TEST(Divergence, LoopsOfDifferentLengthEndTogether) {
  const Outcome outcome =
      RunStore(StoreKernel("and.b32 %r1, %t, 7; mov.u32 %r2, 0;\n"
                           "LOOP: add.u32 %v, %v, %t; add.u32 %r2, %r2, 1;\n"
                           "setp.le.u32 %p1, %r2, %r1; @%p1 bra LOOP;\n"
                           "activemask.b32 %r3; setp.ne.u32 %p2, %r3, -1; @%p2 mov.u32 %v, 9999;"),
               32);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(outcome.values[t], t * (t % 8 + 1));
}

// Branches within branches within a loop, against the same in C++.
TEST(Divergence, NestedBranchesComputeWhatTheySay) {
  const Outcome outcome = RunStore(StoreKernel("mov.u32 %r1, 0;\n"
                                               "LOOP: add.u32 %r2, %t, %r1; and.b32 %r3, %r2, 1;\n"
                                               "setp.eq.u32 %p1, %r3, 0; @%p1 bra EVEN;\n"
                                               "and.b32 %r3, %r2, 2; setp.eq.u32 %p2, %r3, 0;\n"
                                               "@%p2 bra ONE; add.u32 %v, %v, 100; bra NEXT;\n"
                                               "ONE: setp.gt.u32 %p3, %v, 300; @%p3 bra OUT;\n"
                                               "add.u32 %v, %v, 10; bra NEXT;\n"
                                               "EVEN: add.u32 %v, %v, 1;\n"
                                               "NEXT: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, "
                                               "17; @%p1 bra LOOP;\nOUT:"),
                                   64);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t t = 0; t < 64; ++t) {
    uint32_t v = 0;
    for (uint32_t i = 0; i < 17; ++i) {
      const uint32_t x = t + i;
      if (x % 2 == 0) {
        v += 1;
      } else if ((x & 2) != 0) {
        v += 100;
      } else {
        if (v > 300) break;
        v += 10;
      }
    }
    EXPECT_EQ(outcome.values[t], v) << t;
  }
}

TEST(Divergence, LanesThatExitAreNotWaitedFor) {
  const Outcome outcome = RunStore(StoreKernel("setp.ge.u32 %p1, %t, 20; @%p1 exit;\n"
                                               "activemask.b32 %v; bar.sync 0;"),
                                   64);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(outcome.values[t], t < 20 ? 0xfffffu : 7777u);
}

// nvcc makes `if (t >= n) return;` a branch to the only ret.
TEST(Divergence, LanesThatBranchToTheEndAreNotWaitedForAtABarrier) {
  const Outcome outcome = RunStore(StoreKernel("setp.ge.u32 %p1, %t, 20; @%p1 bra GONE;\n"
                                               "bar.sync 0; activemask.b32 %v; bra DONE;\n"
                                               "GONE: ret;"),
                                   64);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(outcome.values[t], t < 20 ? 0xfffffu : 7777u);
}

TEST(Divergence, CallsReturnWhereTheyCameFrom) {
  const std::string function =
      ".func (.param .b32 r) triple(.param .b32 x) { .reg .b32 %a<3>; .reg .pred %q;\n"
      "ld.param.u32 %a0, [x]; setp.gt.u32 %q, %a0, 40; @%q bra BIG;\n"
      "mul.lo.u32 %a1, %a0, 3; st.param.b32 [r], %a1; ret;\n"
      "BIG: st.param.b32 [r], %a0; ret; }\n";
  const std::string call =
      "{ .param .b32 x0; .param .b32 r0; st.param.b32 [x0], %t;\n"
      "call.uni (r0), triple, (x0); ld.param.b32 %v, [r0]; }\n";
  const Outcome outcome = RunStore(
      StoreKernel("setp.lt.u32 %p1, %t, 8; @%p1 bra SKIP;\n" + call +
                      "SKIP: activemask.b32 %r1; setp.ne.u32 %p2, %r1, -1; @%p2 mov.u32 %v, 5;",
                  "", function),
      64);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t t = 0; t < 64; ++t) {
    EXPECT_EQ(outcome.values[t], t < 8 ? 0u : t > 40 ? t : 3 * t) << t;
  }
}

TEST(Divergence, AShuffleOfLanesThatNeverMeetIsReported) {
  const Outcome outcome = RunStore(StoreKernel("setp.lt.u32 %p1, %t, 16; @%p1 bra SKIP;\n"
                                               "shfl.sync.idx.b32 %v, %t, 0, 31, -1; bra END;\n"
                                               "SKIP: bar.sync 0;\nEND:"),
                                   32);
  EXPECT_THAT(outcome.kinds, ElementsAre("divergent lanes"));
  EXPECT_THAT(outcome.problems[0].ToString(), HasSubstr("0-15"));
}

// A block of 16 threads has no whole warp for ldmatrix.
TEST(Divergence, AlignedInstructionsNeedAWholeWarp) {
  const Outcome outcome = RunStore(
      StoreKernel("mov.u32 %r1, buffer; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%v}, [%r1];", "",
                  ".shared .align 16 .b8 buffer[128];"),
      16);
  ASSERT_THAT(outcome.kinds, ::testing::Contains("divergent lanes"));
  EXPECT_THAT(outcome.problems[0].what, HasSubstr("lanes 16-31 are not in the block"));
}

TEST(Divergence, MembersMeetInDifferentPlacesOfTheProgram) {
  // Both ways have their own members.
  const Outcome outcome =
      RunStore(StoreKernel("setp.lt.u32 %p1, %t, 16; @%p1 bra LOW;\n"
                           "shfl.sync.idx.b32 %v, %t, 20, 31, 0xffff0000; bra END;\n"
                           "LOW: shfl.sync.idx.b32 %v, %t, 3, 31, 0x0000ffff;\nEND:"),
               32);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(outcome.values[t], t < 16 ? 3u : 20u);
}

TEST(Budget, AnEndlessLoopEnds) {
  EmulatorOptions options;
  options.instruction_budget = 100000;
  const Outcome outcome =
      RunStore(StoreKernel("AGAIN: add.u32 %v, %v, 1; bra AGAIN;"), 32, 1, options);
  EXPECT_THAT(outcome.kinds, ElementsAre("endless loop"));
}

// A block that does not end is the launch's last.
TEST(Budget, AnEndlessLoopEndsTheLaunch) {
  EmulatorOptions options;
  options.instruction_budget = 10000;
  options.threads = 1;
  const Outcome outcome =
      RunStore(StoreKernel("AGAIN: add.u32 %v, %v, 1; bra AGAIN;"), 32, 50, options);
  ASSERT_THAT(outcome.kinds, ElementsAre("endless loop"));
  EXPECT_EQ(outcome.problems[0].count, 1);
}

// ---- Barriers

// Each thread writes its place, and reads the opposite one behind the barrier.
std::string Exchange(std::string_view barrier) {
  return StoreKernel(absl::StrFormat("mov.u32 %%r1, buffer; mad.lo.u32 %%r2, %%t, 4, %%r1;\n"
                                     "st.shared.u32 [%%r2], %%t;\n%s\n"
                                     "mov.u32 %%r4, %%ntid.x; sub.u32 %%r4, %%r4, 1;\n"
                                     "sub.u32 %%r3, %%r4, %%t; mad.lo.u32 %%r2, %%r3, 4, %%r1;\n"
                                     "ld.shared.u32 %%v, [%%r2];",
                                     barrier),
                     "", ".shared .align 4 .b8 buffer[4096];");
}

TEST(Barriers, OrderSharedMemoryBetweenWarps) {
  for (const Schedule schedule : {Schedule::kRoundRobin, Schedule::kAdversarial}) {
    EmulatorOptions options;
    options.schedule = schedule;
    const Outcome outcome = RunStore(Exchange("bar.sync 0;"), 256, 3, options);
    EXPECT_THAT(outcome.problems, IsEmpty());
    for (uint32_t i = 0; i < 768; ++i) EXPECT_EQ(outcome.values[i], 255 - i % 256);
  }
}

TEST(Barriers, AMissingOneIsARace) {
  const Outcome outcome = RunStore(Exchange(""), 256);
  EXPECT_THAT(outcome.kinds, ::testing::Contains("race in shared memory"));
}

TEST(Barriers, WarpSyncOrdersTheLanesOfAWarp) {
  EXPECT_THAT(RunStore(Exchange("bar.warp.sync -1;"), 32).problems, IsEmpty());
  EXPECT_THAT(RunStore(Exchange(""), 32).kinds, ::testing::Contains("race in shared memory"));
}

TEST(Barriers, ReduceAPredicateOverTheBlock) {
  const auto run = [](std::string_view reduction) {
    return RunStore(StoreKernel(absl::StrFormat("setp.lt.u32 %%p1, %%t, 70;\n%s\n", reduction)),
                    128);
  };
  EXPECT_THAT(run("bar.red.or.pred %p2, 0, %p1; selp.u32 %v, 1, 0, %p2;").values, Each(1u));
  EXPECT_THAT(run("bar.red.and.pred %p2, 0, %p1; selp.u32 %v, 1, 0, %p2;").values, Each(0u));
  EXPECT_THAT(run("bar.red.popc.u32 %v, 0, %p1;").values, Each(70u));
}

TEST(Barriers, ThatNotAllLanesReachAreReported) {
  const Outcome outcome =
      RunStore(StoreKernel("setp.lt.u32 %p1, %t, 16; @%p1 bra END; bar.sync 0;\nEND:\n"
                           "shfl.sync.idx.b32 %v, %t, 0, 31, -1;"),
               32);
  EXPECT_THAT(outcome.kinds, ElementsAre("divergent lanes"));
}

TEST(Barriers, OfWarpsThatWaitForEachOtherAreADeadlock) {
  const Outcome outcome = RunStore(StoreKernel("setp.lt.u32 %p1, %t, 32; @%p1 bra ONE;\n"
                                               "bar.sync 2, 64; bra END;\n"
                                               "ONE: bar.sync 1, 64;\nEND:"),
                                   64);
  EXPECT_THAT(outcome.kinds, ElementsAre("deadlock"));
}

// Every thread adds to a word and reads it: the opponent of thread 0 is another one.
TEST(Barriers, ARaceHasTwoThreads) {
  const Outcome outcome =
      RunStore(StoreKernel("mov.u32 %r1, buffer; setp.eq.u32 %p1, %t, 0;\n"
                           "@%p1 st.shared.u32 [%r1], 0; bar.sync 0;\n"
                           "red.shared.add.u32 [%r1], 1; ld.shared.u32 %v, [%r1];",
                           "", ".shared .align 4 .b8 buffer[4];"),
               32);
  ASSERT_THAT(outcome.kinds, ElementsAre("race in shared memory"));
  EXPECT_THAT(outcome.problems[0].what, HasSubstr("thread 0 reads"));
  EXPECT_THAT(outcome.problems[0].what, HasSubstr("which thread 1 of the same warp"));
}

// What a warp wrote before it exited comes before what the others do behind their barrier.
TEST(Barriers, WarpsThatHaveExitedHaveArrived) {
  for (const Schedule schedule : {Schedule::kRoundRobin, Schedule::kAdversarial}) {
    EmulatorOptions options;
    options.schedule = schedule;
    const Outcome outcome =
        RunStore(StoreKernel("mov.u32 %r1, buffer; mad.lo.u32 %r2, %t, 4, %r1;\n"
                             "st.shared.u32 [%r2], %t; setp.ge.u32 %p1, %t, 32; @%p1 exit;\n"
                             "bar.sync 0; ld.shared.u32 %v, [%r2+128];",
                             "", ".shared .align 4 .b8 buffer[256];"),
                 64, 1, options);
    EXPECT_THAT(outcome.problems, IsEmpty());
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(outcome.values[t], t + 32);
  }
}

// A warp waits in a loop for what another one does, first or last of the two, by atomics or
// volatile accesses: it is given that within few instructions, and the data before the flag are
// ordered.
TEST(Flags, HandDataToWarpsThatWaitInALoop) {
  const std::pair<const char*, const char*> ways[] = {
      {"atom.shared.exch.b32 %r3, [%r1], 1;", "atom.shared.add.u32 %r2, [%r1], 0;"},
      {"st.volatile.shared.u32 [%r1], 1;", "ld.volatile.shared.u32 %r2, [%r1];"},
      {"st.release.cta.shared.u32 [%r1], 1;", "ld.acquire.cta.shared.u32 %r2, [%r1];"},
      {"red.shared.or.b32 [%r1], 1;", "ld.relaxed.cta.shared.u32 %r2, [%r1];"},
  };
  for (const auto& [set, poll] : ways) {
    for (const char* first : {"eq", "ne"}) {
      for (const Schedule schedule : {Schedule::kRoundRobin, Schedule::kAdversarial}) {
        EmulatorOptions options;
        options.schedule = schedule;
        options.instruction_budget = 1 << 18;
        const Outcome outcome = RunStore(
            StoreKernel(absl::StrFormat("mov.u32 %%r1, buffer; setp.eq.u32 %%p1, %%t, 0;\n"
                                        "@%%p1 st.shared.u32 [%%r1], 0; bar.sync 0;\n"
                                        "setp.lt.u32 %%p2, %%t, 32; selp.u32 %%r4, 0, 1, %%p2;\n"
                                        "setp.%s.u32 %%p3, %%r4, 0; @%%p3 bra POLL;\n"
                                        "and.b32 %%r5, %%t, 31; setp.ne.u32 %%p4, %%r5, 0;\n"
                                        "@%%p4 bra DONE; st.shared.u32 [%%r1+4], 77;\n"
                                        "membar.cta; %s bra DONE;\n"
                                        "POLL: %s setp.eq.u32 %%p1, %%r2, 0; @%%p1 bra POLL;\n"
                                        "membar.cta; ld.shared.u32 %%v, [%%r1+4];",
                                        first, set, poll),
                        "", ".shared .align 4 .b8 buffer[8];"),
            64, 1, options);
        EXPECT_THAT(outcome.kinds, IsEmpty()) << set << " " << first;
        const bool polls_first = std::string_view(first) == "eq";
        for (size_t t = 0; t < outcome.values.size(); ++t) {
          EXPECT_EQ(outcome.values[t], (t < 32) == polls_first ? 77u : 0u);
        }
      }
    }
  }
}

TEST(Barriers, NamedOnesJoinSomeWarps) {
  // Warps 0 and 1 meet at barrier 1; warps 2 and 3 go by.
  const Outcome outcome = RunStore(StoreKernel("setp.ge.u32 %p1, %t, 64; @%p1 bra END;\n"
                                               "bar.sync 1, 64; mov.u32 %v, 5;\nEND:"),
                                   128);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t t = 0; t < 128; ++t) EXPECT_EQ(outcome.values[t], t < 64 ? 5u : 0u);
}

// ---- Shuffles against the formulas of the ISA, over all values of b and some of c

TEST(SyncOps, ShufflesFollowTheirFormulas) {
  const std::pair<const char*, int> kModes[] = {{"up", 0}, {"down", 1}, {"bfly", 2}, {"idx", 3}};
  std::mt19937 random(9);
  for (const auto& [name, mode] : kModes) {
    for (uint32_t c : {0x1fu, 0x0u, 0x181fu, 0x1c07u, 0x100fu, 0x1800u}) {
      Lanes a, b;
      for (auto& value : a) value = random();
      for (auto& value : b) value = random() % 40;
      auto result = RunLines(
          absl::StrFormat("shfl.sync.%s.b32 %%d|%%p, %%a, %%b, %d, -1;", name, c),
          {{"d", Type::kB32}, {"p", Type::kPred}, {"a", Type::kB32, a}, {"b", Type::kB32, b}});
      for (int lane = 0; lane < kLanes; ++lane) {
        const int bval = static_cast<int>(b[static_cast<size_t>(lane)] & 31);
        const int segment = static_cast<int>(c >> 8 & 31), clamp = static_cast<int>(c & 31);
        const int last = (lane & segment) | (clamp & ~segment);
        const int first = lane & segment;
        int from = lane;
        bool valid = false;
        if (mode == 0) valid = (from = lane - bval) >= last;
        if (mode == 1) valid = (from = lane + bval) <= last;
        if (mode == 2) valid = (from = lane ^ bval) <= last;
        if (mode == 3) valid = (from = first | (bval & ~segment)) <= last;
        if (!valid) from = lane;
        EXPECT_EQ(result["d"][static_cast<size_t>(lane)],
                  a[static_cast<size_t>(from)] & 0xffffffff);
        EXPECT_EQ(result["p"][static_cast<size_t>(lane)], valid ? 1u : 0u);
      }
    }
  }
}

TEST(SyncOps, VotesMatchesAndReductions) {
  Lanes p = {}, a;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    p[lane] = lane % 3 == 0;
    a[lane] = lane % 4;
  }
  auto result = RunLines(
      "vote.sync.ballot.b32 %ballot, %p, -1; vote.sync.any.pred %any, %p, -1;\n"
      "vote.sync.all.pred %all, %p, -1; vote.sync.uni.pred %uni, %p, -1;\n"
      "match.any.sync.b32 %same, %a, -1; redux.sync.add.s32 %sum, %a, -1;\n"
      "redux.sync.max.u32 %max, %a, -1; redux.sync.or.b32 %or, %a, -1;",
      {{"ballot", Type::kB32},
       {"any", Type::kPred},
       {"all", Type::kPred},
       {"uni", Type::kPred},
       {"same", Type::kB32},
       {"sum", Type::kB32},
       {"max", Type::kB32},
       {"or", Type::kB32},
       {"p", Type::kPred, p},
       {"a", Type::kB32, a}});
  uint32_t ballot = 0;
  for (int lane = 0; lane < kLanes; lane += 3) ballot |= 1u << lane;
  EXPECT_THAT(result["ballot"], Each(ballot));
  EXPECT_THAT(result["any"], Each(1u));
  EXPECT_THAT(result["all"], Each(0u));
  EXPECT_THAT(result["uni"], Each(0u));
  for (size_t lane = 0; lane < kLanes; ++lane) {
    EXPECT_EQ(result["same"][lane], 0x11111111u << (lane % 4));
  }
  EXPECT_THAT(result["sum"], Each(48u));
  EXPECT_THAT(result["max"], Each(3u));
  EXPECT_THAT(result["or"], Each(3u));
}

// ---- Shapes

TEST(Shapes, PartialWarpsAndThreeDimensions) {
  for (const int64_t threads : {1, 31, 33, 1024}) {
    const Outcome outcome = RunStore(StoreKernel("activemask.b32 %v;"), threads, 2);
    EXPECT_THAT(outcome.problems, IsEmpty());
    for (size_t i = 0; i < outcome.values.size(); ++i) {
      const auto t = static_cast<int64_t>(i) % threads;
      const int64_t in_warp = std::min<int64_t>(32, threads - t / 32 * 32);
      EXPECT_EQ(outcome.values[i], in_warp == 32 ? ~0u : (1u << in_warp) - 1);
    }
  }
  PtxRunner runner;
  ASSERT_TRUE(
      runner.Load(StoreKernel("mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z;\n"
                              "mov.u32 %r3, %ntid.x; mov.u32 %r4, %ntid.y;\n"
                              "mad.lo.u32 %r5, %r2, %r4, %r1; mad.lo.u32 %t, %r5, %r3, %t;"
                              "mov.u32 %v, %t;")));
  const uint64_t out = runner.Buffer(std::vector<uint32_t>(60, 0));
  runner.Run({1, 1, 1}, {5, 4, 3}, {out});
  std::vector<uint32_t> wanted(60);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(runner.Read<uint32_t>(out, 60), wanted);
}

TEST(Shapes, OutsideTheLimitsAreRefused) {
  Machine machine({});
  absl::StatusOr<LoadedModule*> module = machine.Load(StoreKernel(""));
  ASSERT_TRUE(module.ok()) << module.status();
  absl::StatusOr<const Executable*> kernel = machine.Find(**module, "k");
  ASSERT_TRUE(kernel.ok());
  LaunchRequest request{
      .module = *module, .kernel = *kernel, .parameters = std::vector<uint8_t>(8)};
  request.grid = {0, 1, 1};
  EXPECT_THAT(std::string(machine.Run(request).message()), HasSubstr("grid.x is 0"));
  request.grid = {1, 70000, 1};
  EXPECT_THAT(std::string(machine.Run(request).message()), HasSubstr("grid.y is 70000"));
  request.grid = {1, 1, 1};
  request.block = {1024, 2, 1};
  EXPECT_THAT(std::string(machine.Run(request).message()), HasSubstr("2048 threads"));
  request.block = {1, 1, 1};
  request.shared_bytes = 1 << 20;
  EXPECT_THAT(std::string(machine.Run(request).message()), HasSubstr("shared memory"));
  request.shared_bytes = 0;
  request.parameters.pop_back();
  EXPECT_THAT(std::string(machine.Run(request).message()), HasSubstr("7 bytes of parameters"));
}

// Counters say how many lanes each instruction had.
TEST(Counters, CountExecutionsAndLanes) {
  PtxRunner runner;
  ASSERT_TRUE(runner.Load(StoreKernel("setp.lt.u32 %p1, %t, 10; @%p1 mul.lo.u32 %v, %t, 3;")));
  const uint64_t out = runner.Buffer(std::vector<uint32_t>(64, 0));
  runner.Run({1, 1, 1}, {64, 1, 1}, {out});
  const InstructionCounters counters = runner.Counters("@%p1 mul.lo");
  EXPECT_EQ(counters.executions, 1);
  EXPECT_EQ(counters.skipped, 1);  // by the other warp
  EXPECT_EQ(counters.lanes, 10);
}

TEST(Machine, PtxRunsOnItsArchitectureAndLaterOnes) {
  const auto loads = [](const char* target, const char* architecture) {
    Machine machine({.architecture = architecture});
    return machine.Load(PtxEntry("", "", "ret;", target)).ok();
  };
  EXPECT_TRUE(loads("sm_70", "sm_75"));
  EXPECT_TRUE(loads("sm_80", "sm_80"));
  EXPECT_TRUE(loads("sm_80", "sm_90"));
  EXPECT_FALSE(loads("sm_90", "sm_89"));
  // Those with a letter on it alone.
  EXPECT_TRUE(loads("sm_90a", "sm_90"));
  EXPECT_FALSE(loads("sm_90a", "sm_100"));
  EXPECT_FALSE(loads("sm_100f", "sm_120"));
}

}  // namespace
}  // namespace duotone::emulator
