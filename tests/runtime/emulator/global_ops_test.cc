// Loads, stores and atomics of global and local memory, and what is wrong with them.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <ostream>

#include "absl/strings/str_format.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A kernel of two pointers, in %a and %b; %t is the thread's number in the grid.
std::string Kernel(std::string_view body, std::string_view variables = "",
                   std::string_view target = "sm_80") {
  return PtxEntry(".param .u64 pa, .param .u64 pb",
                  ".reg .b64 %a; .reg .b64 %b; .reg .b64 %x; .reg .b64 %y; .reg .b32 %t; .reg .b32 "
                  "%r<9>; .reg .f32 %f<9>; .reg .b64 %rd<5>; .reg .b16 %h<5>; .reg .pred %p<3>;",
                  absl::StrFormat("ld.param.u64 %%a, [pa]; ld.param.u64 %%b, [pb];\n"
                                  "mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x;\n"
                                  "mov.u32 %%t, %%tid.x; mad.lo.u32 %%t, %%r1, %%r2, %%t;\n%s\n"
                                  "ret;",
                                  body),
                  target, variables);
}

// %x = %a + 4 * thread, %y = %b + 4 * thread.
constexpr char kWords[] = "mul.wide.u32 %x, %t, 4; add.s64 %y, %b, %x; add.s64 %x, %a, %x;\n";

struct Launch {
  int64_t blocks = 1;
  int64_t threads = 32;
};

// Runs over two buffers of so many words, the first 0, 1, 2, ..., the second uninitialised.
struct Outcome {
  std::vector<uint32_t> result;
  std::vector<std::string> kinds;
  std::vector<Problem> problems;
  InstructionCounters loads, stores;
};
Outcome RunOn(const std::string& ptx, size_t words, const Launch& launch = {},
              EmulatorOptions options = {}) {
  PtxRunner runner(options);
  if (!runner.Load(ptx)) return {};
  std::vector<uint32_t> values(words);
  std::iota(values.begin(), values.end(), 0);
  const uint64_t a = runner.Buffer(values, "first");
  const uint64_t b = runner.Uninitialised(static_cast<int64_t>(words) * 4, "second");
  runner.Run({launch.blocks, 1, 1}, {launch.threads, 1, 1}, {a, b});
  return {runner.Read<uint32_t>(b, words), runner.problem_kinds(), runner.problems(),
          runner.Counters("ld.global"), runner.Counters("st.global")};
}

TEST(GlobalOps, CopiesWordsOfEveryWidth) {
  const std::string copies[] = {
      "ld.global.u32 %r3, [%x]; st.global.u32 [%y], %r3;",
      "ld.global.nc.f32 %f1, [%x]; st.global.f32 [%y], %f1;",
      "ld.global.v2.u16 {%h1, %h2}, [%x]; st.global.v2.u16 [%y], {%h1, %h2};",
      "ld.global.u8 %r3, [%x]; ld.global.u8 %r4, [%x+1]; ld.global.u8 %r5, [%x+2];\n"
      "ld.global.u8 %r6, [%x+3]; st.global.u8 [%y], %r3; st.global.u8 [%y+1], %r4;\n"
      "st.global.u8 [%y+2], %r5; st.global.u8 [%y+3], %r6;",
      "ld.u32 %r3, [%x]; st.u32 [%y], %r3;",
  };
  std::vector<uint32_t> wanted(128);
  std::iota(wanted.begin(), wanted.end(), 0);
  for (const std::string& copy : copies) {
    for (const bool checks : {true, false}) {
      EmulatorOptions options;
      options.checks = checks;
      const Outcome outcome = RunOn(Kernel(kWords + copy), 128, {2, 64}, options);
      EXPECT_THAT(outcome.problems, IsEmpty()) << copy;
      EXPECT_EQ(outcome.result, wanted) << copy;
    }
  }
}

TEST(GlobalOps, VectorsTakeFourWords) {
  const Outcome outcome =
      RunOn(Kernel("mul.wide.u32 %x, %t, 16; add.s64 %y, %b, %x; add.s64 %x, %a, %x;\n"
                   "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%x];\n"
                   "st.global.v4.u32 [%y], {%r6, %r5, %r4, %r3};"),
            128);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(outcome.result[i], i / 4 * 4 + 3 - i % 4);
}

TEST(GlobalOps, NarrowLoadsAreExtendedBySignOrZero) {
  PtxRunner runner;
  ASSERT_TRUE(
      runner.Load(Kernel("ld.global.s8 %r3, [%a]; ld.global.u8 %r4, [%a];\n"
                         "st.global.u32 [%b], %r3; st.global.u32 [%b+4], %r4;")));
  const uint64_t a = runner.Buffer(std::vector<uint8_t>{0x80}), b = runner.Uninitialised(8);
  runner.Run({1, 1, 1}, {1, 1, 1}, {a, b});
  EXPECT_THAT(runner.Read<uint32_t>(b, 2), ElementsAre(0xffffff80u, 0x80u));
}

// Sums of many blocks and lanes; the old values are all different.
TEST(GlobalOps, AtomicsAreOneAfterTheOther) {
  for (const Schedule schedule : {Schedule::kRoundRobin, Schedule::kAdversarial}) {
    EmulatorOptions options;
    options.schedule = schedule;
    PtxRunner runner(options);
    ASSERT_TRUE(
        runner.Load(Kernel("atom.global.add.u32 %r3, [%a], 1;\n"
                           "mul.wide.u32 %x, %r3, 4; add.s64 %y, %b, %x;\n"
                           "st.global.u32 [%y], %t; red.global.max.u32 [%a+4], %t;\n"
                           "atom.add.u64 %rd1, [%a+8], 3;")));
    const uint64_t a = runner.Buffer(std::vector<uint32_t>(4, 0));
    const uint64_t b = runner.Uninitialised(4 * 2048);
    runner.Run({16, 1, 1}, {128, 1, 1}, {a, b});
    EXPECT_THAT(runner.problems(), IsEmpty());
    EXPECT_THAT(runner.Read<uint32_t>(a, 4), ElementsAre(2048, 2047, 3 * 2048, 0));
    std::vector<uint32_t> seen = runner.Read<uint32_t>(b, 2048);
    std::sort(seen.begin(), seen.end());
    std::vector<uint32_t> wanted(2048);
    std::iota(wanted.begin(), wanted.end(), 0);
    EXPECT_EQ(seen, wanted);
  }
}

TEST(GlobalOps, LocalMemoryIsEachThreadsOwn) {
  const Outcome outcome =
      RunOn(Kernel(std::string(".local .align 4 .b8 mine[64];\n") + kWords +
                   "mov.u64 %rd1, mine; st.local.u32 [%rd1+8], %t; cvta.local.u64 %rd2, %rd1;\n"
                   "ld.u32 %r3, [%rd2+8]; st.global.u32 [%y], %r3;"),
            32);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(outcome.result[i], i);
}

TEST(GlobalOps, VariablesOfTheModuleHaveTheirValues) {
  const Outcome outcome =
      RunOn(Kernel(std::string(kWords) +
                       "and.b32 %r3, %t, 3; mul.wide.u32 %rd1, %r3, 4; mov.u64 %rd2, table;\n"
                       "add.s64 %rd2, %rd2, %rd1; ld.const.u32 %r4, [%rd2];\n"
                       "st.global.u32 [%y], %r4;",
                   ".const .align 4 .u32 table[4] = {5, 6, 7, 8};"),
            32);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(outcome.result[i], 5 + i % 4);
}

// ---- Problems, each with what is wrong about it

struct Wrong {
  const char* name;
  std::string body;
  std::string kind;
  std::string words;  // of the sentence
  Launch launch;
  friend std::ostream& operator<<(std::ostream& out, const Wrong& wrong) {
    return out << wrong.name;
  }
};

class EveryWrong : public ::testing::TestWithParam<Wrong> {};

TEST_P(EveryWrong, AccessIsReported) {
  const Wrong& wrong = GetParam();
  const Outcome outcome = RunOn(Kernel(kWords + wrong.body), 64, wrong.launch);
  ASSERT_THAT(outcome.kinds, ElementsAre(wrong.kind));
  EXPECT_THAT(outcome.problems[0].ToString(), HasSubstr(wrong.words));
}

INSTANTIATE_TEST_SUITE_P(
    Accesses, EveryWrong,
    ::testing::Values(
        Wrong{"Behind",
              "ld.global.u32 %r3, [%x+256];",
              "out of bounds",
              "0 bytes behind the end of first (256 bytes)",
              {}},
        Wrong{"Before", "st.global.u32 [%a+-4], %t;", "out of bounds", "4 bytes before first", {}},
        Wrong{"BeforeLocal",
              ".local .align 4 .b8 mine[64];\nmov.u64 %rd1, mine; st.local.u32 [%rd1+-4], %t;",
              "out of bounds",
              "4 bytes at -4 of local memory (64 bytes)",
              {}},
        Wrong{"BeforeParameters",
              "ld.param.u32 %r3, [pa+-8];",
              "out of bounds",
              "4 bytes at -8 of the parameters (16 bytes)",
              {}},
        Wrong{"AcrossTheEnd",
              "ld.global.u32 %r3, [%x+128];",
              "out of bounds",
              "warp 1, lanes 0-15",
              {1, 48}},
        Wrong{"Null",
              "mov.u64 %x, 0; ld.global.u32 %r3, [%x];",
              "out of bounds",
              "a null pointer",
              {}},
        Wrong{
            "Odd", "ld.global.u32 %r3, [%x+2];", "misaligned access", "no multiple of 4", {1, 32}},
        Wrong{"OddVector",
              "ld.global.v2.u32 {%r3, %r4}, [%a+4];",
              "misaligned access",
              "no multiple of 8",
              {}},
        Wrong{"Unwritten",
              "ld.global.u32 %r3, [%y];",
              "uninitialised read",
              "nothing has written",
              {}},
        Wrong{"UnwrittenByte",
              "st.global.u8 [%y], %t; st.global.u8 [%y+1], %t; st.global.u8 [%y+3], %t;\n"
              "ld.global.u32 %r3, [%y];",
              "uninitialised read",
              "the byte at +2",
              {}},
        Wrong{"TwoBlocksWriteOne",
              "st.global.u32 [%b], %t;",
              "race between blocks",
              "which another block of this launch has written",
              {2, 1}},
        Wrong{"AReadOfWhatAnotherWrites",
              "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p1, %r4, 0; @%p1 st.global.u32 [%a], %t;\n"
              "@!%p1 ld.global.u32 %r3, [%a];",
              "race between blocks",
              "another block",
              {2, 1}},
        Wrong{"VolatileHandOver",
              "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p1, %r4, 0;\n"
              "@%p1 st.volatile.global.u32 [%a], %t; @!%p1 ld.volatile.global.u32 %r3, [%a];",
              "race between blocks",
              "another block",
              {2, 1}},
        Wrong{"AWriteOfWhatAnotherReadsVolatile",
              "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p1, %r4, 0;\n"
              "@%p1 ld.volatile.global.u32 %r3, [%a]; @!%p1 st.global.u32 [%a], %t;",
              "race between blocks",
              "which another block of this launch has read",
              {2, 1}},
        Wrong{"AWriteOfWhatAnotherChanges",
              "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p1, %r4, 0;\n"
              "@%p1 red.global.add.u32 [%a], 1; @!%p1 st.global.u32 [%a], %t;",
              "race between blocks",
              "which another block of this launch accesses by atomics",
              {2, 1}},
        Wrong{"Wild",
              "mov.u64 %x, 0xfffffffffffffff0; ld.global.u32 %r3, [%x];",
              "out of bounds",
              "no address of device memory",
              {}},
        Wrong{"AtomicsAndReads",
              "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p1, %r4, 0;\n"
              "@%p1 red.global.add.u32 [%a], 1; @!%p1 ld.global.u32 %r3, [%a];",
              "race between blocks",
              "another block",
              {2, 1}},
        Wrong{"ReadOnlyAndWritten",
              "ld.global.nc.u32 %r3, [%x]; st.global.u32 [%x], %r3;",
              "read-only load of written memory",
              "ld.global.nc",
              {}},
        Wrong{"SumOfFloats",
              "red.global.add.f32 [%a], 0f3F800000;",
              "float atomic",
              "the order of these additions is not fixed",
              {}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(GlobalOps, FreedMemoryIsKnown) {
  PtxRunner runner;
  ASSERT_TRUE(runner.Load(Kernel("ld.global.u32 %r3, [%a];")));
  const uint64_t a = runner.Buffer(std::vector<uint32_t>(4, 0), "old");
  ASSERT_TRUE(runner.machine().memory().Free(a).ok());
  runner.Run({1, 1, 1}, {1, 1, 1}, {a, a});
  EXPECT_THAT(runner.problem_kinds(), ElementsAre("use of freed memory"));
  EXPECT_THAT(runner.problems()[0].what, HasSubstr("old (16 bytes), which has been freed"));
  EXPECT_FALSE(runner.machine().memory().Free(a).ok());
}

TEST(GlobalOps, WhatIsRightIsSilent) {
  // Blocks of 31 threads meet within words.
  const std::string right[] = {
      // Neighbouring bytes of one word belong to different blocks.
      "cvt.u64.u32 %rd1, %t; add.s64 %rd2, %b, %rd1; st.global.u8 [%rd2], %t;",
      // ... and each block changes its own again.
      "cvt.u64.u32 %rd1, %t; add.s64 %rd2, %b, %rd1; st.global.u8 [%rd2], %t;\n"
      "ld.global.u8 %r3, [%rd2]; st.global.u8 [%rd2], %r3; ld.global.u8 %r3, [%rd2];",
      // All blocks read the same.
      "ld.global.u32 %r3, [%a]; ld.global.nc.u32 %r4, [%a+4];",
      // Atomics of several blocks, and volatile reads of them.
      "red.global.add.u32 [%a], 1; ld.volatile.global.u32 %r3, [%a];",
      // All blocks read the same in every way.
      "ld.volatile.global.u32 %r3, [%a]; ld.global.u32 %r3, [%a]; ld.global.nc.u32 %r3, [%a];",
      // A thread reads what it has written.
      "st.global.u32 [%y], %t; ld.global.u32 %r3, [%y];",
  };
  for (const std::string& body : right) {
    EXPECT_THAT(RunOn(Kernel(kWords + body), 93, {3, 31}).problems, IsEmpty()) << body;
  }
}

TEST(GlobalOps, BytesThatAreReadVolatileAreNotWritten) {
  PtxRunner runner;
  ASSERT_TRUE(runner.Load(Kernel("ld.volatile.global.u32 %r3, [%a]; red.global.add.u32 [%b], 1;")));
  const uint64_t a = runner.Buffer(std::vector<uint32_t>{1, 2}),
                 b = runner.Buffer(std::vector<uint32_t>{0});
  runner.Run({2, 1, 1}, {1, 1, 1}, {a, b});
  const LaunchRecord& record = *runner.machine().records().front();
  EXPECT_EQ(record.bytes_read, 4 + 4);
  EXPECT_EQ(record.bytes_written, 4);
}

// A read of what an earlier launch has written is no race.
TEST(GlobalOps, LaunchesAreInOrder) {
  PtxRunner runner;
  ASSERT_TRUE(
      runner.Load(Kernel("ld.global.u32 %r3, [%a]; setp.eq.u32 %p1, %t, 0;\n"
                         "@%p1 st.global.u32 [%b], %r3;")));
  const uint64_t x = runner.Buffer(std::vector<uint32_t>{42}), y = runner.Uninitialised(4),
                 z = runner.Uninitialised(4);
  runner.Run({2, 1, 1}, {1, 1, 1}, {x, y});
  runner.Run({2, 1, 1}, {1, 1, 1}, {y, z});
  EXPECT_THAT(runner.problems(), IsEmpty());
  EXPECT_THAT(runner.Read<uint32_t>(z, 1), ElementsAre(42u));
}

// ---- A note says which buffers a launch may touch

std::shared_ptr<runtime::LaunchNote> NoteOf(uint64_t address, int64_t bytes, bool written,
                                            bool undefined = false) {
  auto note = std::make_shared<runtime::LaunchNote>();
  note->ranges.push_back({address, bytes, "%x", written, undefined});
  return note;
}

TEST(Notes, OtherBuffersOfTheAllocationAreOutOfBounds) {
  PtxRunner runner;
  ASSERT_TRUE(runner.Load(Kernel(std::string(kWords) + "ld.global.u32 %r3, [%x];")));
  const uint64_t a = runner.Buffer(std::vector<uint32_t>(64, 1));
  runner.Run({1, 1, 1}, {16, 1, 1}, {a, a}, 0, NoteOf(a, 64, false));
  EXPECT_THAT(runner.problems(), IsEmpty());
  runner.Run({1, 1, 1}, {17, 1, 1}, {a, a}, 0, NoteOf(a, 64, false));
  EXPECT_THAT(runner.problem_kinds(), ElementsAre("out of bounds"));
  EXPECT_THAT(runner.problems()[0].what, HasSubstr("0 bytes behind the end of %x (64 bytes)"));
}

TEST(Notes, OnlyVectorsReachIntoPadding) {
  PtxRunner runner;
  ASSERT_TRUE(runner.Load(Kernel("ld.global.v2.u32 {%r3, %r4}, [%a+56];")));
  const uint64_t a = runner.Buffer(std::vector<uint32_t>(32, 1));
  runner.Run({1, 1, 1}, {1, 1, 1}, {a, a}, 0, NoteOf(a, 60, false));
  EXPECT_THAT(runner.problems(), IsEmpty());
  ASSERT_TRUE(runner.Load(Kernel("ld.global.u32 %r3, [%a+60];")));
  runner.Run({1, 1, 1}, {1, 1, 1}, {a, a}, 0, NoteOf(a, 60, false));
  EXPECT_THAT(runner.problem_kinds(), ElementsAre("out of bounds"));
}

TEST(Notes, WhatALaunchOnlyReadsItMustNotWrite) {
  PtxRunner runner;
  ASSERT_TRUE(runner.Load(Kernel("st.global.u32 [%a], %t;")));
  const uint64_t a = runner.Buffer(std::vector<uint32_t>(16, 1));
  runner.Run({1, 1, 1}, {1, 1, 1}, {a, a}, 0, NoteOf(a, 64, false));
  EXPECT_THAT(runner.problem_kinds(), ElementsAre("out of bounds"));
  EXPECT_THAT(runner.problems()[0].what, HasSubstr("which this launch only reads"));
}

TEST(Notes, UndefinedBuffersForgetWhatTheyHeld) {
  PtxRunner runner;
  ASSERT_TRUE(runner.Load(Kernel("ld.global.u32 %r3, [%a];")));
  const uint64_t a = runner.Buffer(std::vector<uint32_t>(16, 1));
  runner.Run({1, 1, 1}, {1, 1, 1}, {a, a}, 0, NoteOf(a, 64, true, true));
  EXPECT_THAT(runner.problem_kinds(), ElementsAre("uninitialised read"));
}

// ---- Sectors, by hand: 32 lanes of 4 bytes

struct Pattern {
  const char* name;
  std::string address;  // sets %x
  int64_t sectors;
  int64_t ideal;
  friend std::ostream& operator<<(std::ostream& out, const Pattern& pattern) {
    return out << pattern.name;
  }
};

class EveryPattern : public ::testing::TestWithParam<Pattern> {};

TEST_P(EveryPattern, TouchesSoManySectors) {
  const Outcome outcome =
      RunOn(Kernel(GetParam().address + "add.s64 %x, %a, %x; ld.global.u32 %r3, [%x];"), 2048);
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_EQ(outcome.loads.requests, 1);
  EXPECT_EQ(outcome.loads.sectors, GetParam().sectors);
  EXPECT_EQ(outcome.loads.ideal_sectors, GetParam().ideal);
  EXPECT_EQ(outcome.loads.bytes, 128);
}

INSTANTIATE_TEST_SUITE_P(
    Strides, EveryPattern,
    ::testing::Values(Pattern{"Contiguous", "mul.wide.u32 %x, %t, 4;", 4, 4},
                      Pattern{"Shifted", "mul.wide.u32 %x, %t, 4; add.s64 %x, %x, 4;", 5, 4},
                      Pattern{"EverySecond", "mul.wide.u32 %x, %t, 8;", 8, 4},
                      Pattern{"OneSectorEach", "mul.wide.u32 %x, %t, 32;", 32, 4},
                      Pattern{"Backwards", "sub.u32 %r3, 31, %t; mul.wide.u32 %x, %r3, 4;", 4, 4},
                      Pattern{"Broadcast", "mov.u64 %x, 0;", 1, 1}),
    [](const auto& info) { return std::string(info.param.name); });

// ---- The host's side

TEST(GlobalMemory, CopiesOutsideAreRefusedWithTheirPlace) {
  GlobalMemory memory(1024, true);
  const absl::StatusOr<uint64_t> a = memory.Allocate(100, "a");
  ASSERT_TRUE(a.ok());
  uint8_t bytes[100] = {};
  EXPECT_TRUE(memory.Write(*a, bytes, 100).ok());
  EXPECT_THAT(std::string(memory.Write(*a + 1, bytes, 100).message()), HasSubstr("1 bytes into a"));
  EXPECT_FALSE(memory.Read(bytes, *a + 101, 1).ok());
  EXPECT_FALSE(memory.Fill(*a, 0, 4, 26).ok());
  EXPECT_FALSE(memory.Copy(*a, *a + 50, 51).ok());
  EXPECT_FALSE(memory.Write(0, bytes, 1).ok());
  EXPECT_EQ(memory.Allocate(1000, "b").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(memory.Allocate(0, "empty").ok());
}

}  // namespace
}  // namespace duotone::emulator
