// Sentences about problems, and counters rolled up.
#include <gmock/gmock.h>

#include "runtime/emulator/counter_report.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

TEST(Problems, LanesAreRuns) {
  EXPECT_EQ(LanesText(0xffffffff), "all 32");
  EXPECT_EQ(LanesText(0x8000008f), "0-3, 7, 31");
  EXPECT_EQ(LanesText(0), "none");
}

Problem Example(ProblemKind kind, int line, int64_t block) {
  Problem problem;
  problem.kind = kind;
  problem.kernel = "k";
  problem.node = "h1";
  problem.place = "relu (mlp.cc:3, node %h1)";
  problem.line = line;
  problem.text = "ld.global.u32 %r1, [%rd1];";
  problem.block = {block, 0, 0};
  problem.lanes = 1;
  problem.what = "it is wrong";
  return problem;
}

TEST(Problems, SayWhatAndWhere) {
  EXPECT_EQ(Example(ProblemKind::kOutOfBounds, 12, 3).ToString(),
            "out of bounds in the kernel of %h1, relu (mlp.cc:3, node %h1), PTX line 12 "
            "'ld.global.u32 %r1, [%rd1];', block (3, 0, 0), warp 0, lane 0: it is wrong");
}

// Of one kind at one instruction the first block is shown, whichever came first.
TEST(Problems, OfOneKindAreCounted) {
  ProblemLog log;
  log.Add(Example(ProblemKind::kOutOfBounds, 12, 3));
  log.Add(Example(ProblemKind::kOutOfBounds, 12, 1));
  log.Add(Example(ProblemKind::kOutOfBounds, 12, 2));
  ASSERT_THAT(log.problems(), SizeIs(1));
  EXPECT_EQ(log.problems()[0].count, 3);
  EXPECT_EQ(log.problems()[0].block[0], 1);
  log.Add(Example(ProblemKind::kMisaligned, 12, 3));
  log.Add(Example(ProblemKind::kOutOfBounds, 13, 3));
  EXPECT_THAT(log.problems(), SizeIs(3));
  EXPECT_THAT(log.ToString(1), HasSubstr("and 2 more kinds of problems"));
  // Another instruction on the same line.
  Problem other = Example(ProblemKind::kOutOfBounds, 13, 3);
  other.text = "st.global.u32 [%rd1], %r1;";
  log.Add(other);
  ASSERT_THAT(log.problems(), SizeIs(4));
  EXPECT_EQ(log.problems()[3].text, other.text);
  log.Clear();
  EXPECT_THAT(log.problems(), SizeIs(0));
  EXPECT_FALSE(log.has_errors());
}

TEST(Problems, FloatAtomicsAreWarnings) {
  ProblemLog log;
  log.Add(Example(ProblemKind::kFloatAtomic, 1, 0));
  EXPECT_FALSE(log.has_errors());
  log.Add(Example(ProblemKind::kTrap, 2, 0));
  EXPECT_TRUE(log.has_errors());
}

// Two blocks of a warp copy 32 words each, put them into shared memory and take exponentials.
class CountedKernel : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(runner_.Load(PtxEntry(
        ".param .u64 a",
        ".reg .b64 %a; .reg .b64 %x; .reg .b32 %t; .reg .b32 %c; .reg .b32 %s; .reg .f32 %f<4>;",
        ".loc 1 3 0\nld.param.u64 %a, [a]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;\n"
        "mad.lo.u32 %c, %c, 32, %t; mul.wide.u32 %x, %c, 4;\n"
        "add.s64 %a, %a, %x; ld.global.f32 %f1, [%a];\n"
        ".loc 1 5 0\nmov.u32 %s, buffer; mad.lo.u32 %s, %t, 8, %s; st.shared.f32 [%s], %f1;\n"
        "bar.sync 0; ld.shared.f32 %f2, [%s];\n"
        ".loc 1 9 0\nex2.approx.f32 %f2, %f2; add.f32 %f2, %f2, %f1; st.global.f32 [%a], %f2; ret;",
        "sm_80", ".file 1 \"source.cu\"\n.shared .align 4 .b8 buffer[256];")));
    const uint64_t a = runner_.Buffer(std::vector<float>(64, 1.0f));
    runner_.Run({2, 1, 1}, {32, 1, 1}, {a});
  }
  PtxRunner runner_;
};

TEST_F(CountedKernel, IsSummedByUnit) {
  const LaunchRecord& record = *runner_.machine().records().front();
  const runtime::CountedWork work = WorkOf(record);
  EXPECT_EQ(work.fp32, 1 * 2);
  EXPECT_EQ(work.mufu, 1 * 2);
  EXPECT_EQ(work.barriers, 1 * 2);
  EXPECT_EQ(work.requests, 2 * 2);
  // Each block's words fill four sectors, once to read and once to write; in blocks of 32 words.
  EXPECT_EQ(work.sectors, 2 * 2 * 4);
  EXPECT_EQ(work.ideal_sectors, 2 * 2 * 4);
  // A stride of two words: two ways.
  EXPECT_EQ(work.shared_requests, 2 * 2);
  EXPECT_EQ(work.shared_ways, 2 * 2 * 2);
  EXPECT_EQ(work.ideal_shared_ways, 2 * 2);
  EXPECT_EQ(work.bytes_moved, 4 * 256);
  EXPECT_EQ(work.bytes_read, 256);
  EXPECT_EQ(work.bytes_written, 256);
}

TEST_F(CountedKernel, IsSummedByPlace) {
  const std::vector<CounterRow> rows = CountersByPlace(*runner_.machine().records().front());
  ASSERT_THAT(rows, SizeIs(testing::Ge(3u)));
  EXPECT_EQ(rows[0].place, "source.cu:3");
  EXPECT_EQ(rows[0].counters.executions, 7 * 2);
  EXPECT_EQ(rows[1].place, "source.cu:5");
  EXPECT_EQ(rows[1].of(Unit::kBarrier), 2);
  EXPECT_EQ(rows[1].of(Unit::kMufu), 0);
  EXPECT_EQ(rows[2].place, "source.cu:9");
  EXPECT_EQ(rows[2].of(Unit::kMufu), 2);
}

TEST_F(CountedKernel, HasARowForEachInstruction) {
  const std::vector<CounterRow> rows = CountersByInstruction(*runner_.machine().records().front());
  ASSERT_THAT(rows, SizeIs(16));
  EXPECT_EQ(rows[9].instruction, "st.shared.f32 [%s], %f1;");
  EXPECT_EQ(rows[9].place, "source.cu:5");
  EXPECT_EQ(rows[9].of(Unit::kShared), 2);
}

TEST_F(CountedKernel, IsATableForPeople) {
  const std::string text = ToText(*runner_.machine().records().front(), true);
  EXPECT_THAT(text, AllOf(HasSubstr("1 launch of 2x1x1 blocks of 32x1x1 threads"),
                          HasSubstr("source.cu:9"), HasSubstr("2.00 (ideal 1.00)"),
                          HasSubstr("ex2.approx.f32 %f2, %f2;"), Not(HasSubstr("skipped by"))));
}

// Only the first of two warps multiplies, and only the second one branches. PTX without lines has
// one place.
TEST(Counters, InstructionsAreThoseThatAreIssued) {
  PtxRunner runner;
  ASSERT_TRUE(runner.Load(PtxEntry("", ".reg .b32 %t; .reg .pred %p;",
                                   "mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32;\n"
                                   "@%p mul.lo.u32 %t, %t, 3; @!%p bra END;\n"
                                   "add.u32 %t, %t, 1;\nEND: ret;")));
  for (int i = 0; i < 2; ++i) runner.Run({1, 1, 1}, {64, 1, 1}, {});
  const LaunchRecord& record = *runner.machine().records().front();
  EXPECT_EQ(record.instructions, 2 * (6 + 5));
  EXPECT_EQ(WorkOf(record).instructions, 6 + 5);
  EXPECT_EQ(WorkOf(record).skipped, 2);
  const std::vector<CounterRow> rows = CountersByPlace(record);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].place, "(no line of the source)");
  EXPECT_EQ(rows[0].counters.issued(), record.instructions);
  EXPECT_THAT(ToText(record),
              AllOf(HasSubstr("2 launches of 1x1x1"), HasSubstr("; 4 skipped by their guards\n")));
}

}  // namespace
}  // namespace duotone::emulator
