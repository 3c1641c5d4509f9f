// cp.async: what waits for it, and what does not.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using testing::HasSubstr;

class AsyncOpsTest : public testing::TestWithParam<bool> {
 protected:
  AsyncOpsTest() {
    std::vector<uint32_t> words(256);
    for (uint32_t i = 0; i < 256; ++i) words[i] = 1000 + i;
    absl::StatusOr<uint64_t> source = block_.memory().Allocate(1024, "%x");
    EXPECT_TRUE(source.ok()) << source.status();
    source_ = *source;
    EXPECT_TRUE(block_.memory().Write(source_, words.data(), 1024).ok());
  }

  static BlockRunner::Options Options(bool checks) {
    BlockRunner::Options options{.shared_bytes = 2048, .warps = 2};
    options.emulator.checks = checks;
    return options;
  }

  // Lane i copies to [16 i] from the i-th 16 bytes of the source; `n` are the bytes it takes.
  std::vector<TestRegister> Registers(uint64_t n = 16) {
    Lanes to, from;
    for (uint64_t i = 0; i < kLanes; ++i) {
      to[i] = 16 * i;
      from[i] = source_ + 16 * i;
    }
    return {{"s", Type::kB32, to},
            {"g", Type::kB64, from},
            {"n", Type::kB32, Repeat({n})},
            {"d", Type::kB32}};
  }
  std::vector<uint32_t> Words(uint64_t offset, size_t count) {
    std::vector<uint32_t> words(count);
    std::memcpy(words.data(), block_.shared().bytes() + offset, 4 * count);
    return words;
  }

  BlockRunner block_{Options(GetParam())};
  uint64_t source_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Checks, AsyncOpsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "On" : "Off"; });

TEST_P(AsyncOpsTest, DataAreThereAfterTheWait) {
  const auto result = block_.Run(
      "cp.async.cg.shared.global [%s], [%g], 16; cp.async.commit_group; cp.async.wait_group 0; "
      "ld.shared.u32 %d, [%s+8];",
      Registers());
  EXPECT_EQ(result.at("d")[0], 1002u);
  EXPECT_EQ(result.at("d")[31], 1126u);
  EXPECT_EQ(block_.ProblemText(), "");
}

// Both addresses have offsets of their own; .ca copies 4 and 8 bytes too.
TEST_P(AsyncOpsTest, SmallCopiesAndOffsets) {
  block_.Run(
      "cp.async.ca.shared.global [%s+4], [%g+16], 4; cp.async.ca.shared.global.L2::128B [%s+8], "
      "[%g], 8; cp.async.wait_all;",
      Registers());
  EXPECT_EQ(Words(4, 3), (std::vector<uint32_t>{1004, 1000, 1001}));
  EXPECT_EQ(Words(20, 3), (std::vector<uint32_t>{1008, 1004, 1005}));
  EXPECT_EQ(block_.ProblemText(), "");
}

TEST_P(AsyncOpsTest, BytesBeyondTheSourceSizeAreZeros) {
  block_.Run("cp.async.cg.shared.global [%s], [%g], 16, %n; cp.async.wait_all;", Registers(8));
  EXPECT_EQ(Words(16, 4), (std::vector<uint32_t>{1004, 1005, 0, 0}));
  EXPECT_EQ(block_.ProblemText(), "");
}

TEST_P(AsyncOpsTest, NothingIsReadForSourceSizeZero) {
  std::vector<TestRegister> registers = Registers(0);
  registers[1].bits = Repeat({16});  // no memory is there
  block_.Run("cp.async.cg.shared.global [%s], [%g], 16, %n; cp.async.wait_all;", registers);
  EXPECT_EQ(Words(0, 4), (std::vector<uint32_t>{0, 0, 0, 0}));
  EXPECT_EQ(block_.ProblemText(), "");
}

TEST_P(AsyncOpsTest, ASourceBesideEveryBufferIsReported) {
  std::vector<TestRegister> registers = Registers();
  registers[1].bits = Repeat({16});
  block_.Run("cp.async.cg.shared.global [%s], [%g], 16;", registers, /*mask=*/1);
  EXPECT_EQ(block_.problems().size(), 1u) << block_.ProblemText();
  EXPECT_EQ(block_.problems()[0].kind, ProblemKind::kOutOfBounds);
}

TEST_P(AsyncOpsTest, ATooLargeSourceSizeIsReported) {
  block_.Run("cp.async.cg.shared.global [%s], [%g], 16, %n;", Registers(20), /*mask=*/1);
  EXPECT_THAT(block_.ProblemText(), HasSubstr("a copy of 16 bytes is to take 20"));
}

// With wait_group 1 the latest group is still on its way: its bytes are poison.
TEST_P(AsyncOpsTest, WaitGroupLeavesTheLatestGroups) {
  block_.Run(
      "cp.async.cg.shared.global [%s], [%g], 16; cp.async.commit_group; "
      "cp.async.cg.shared.global [%s+1024], [%g], 16; cp.async.commit_group; "
      "cp.async.wait_group 1;",
      Registers());
  EXPECT_EQ(Words(0, 1)[0], 1000u);
  EXPECT_EQ(Words(1024, 1)[0], 0xffffffffu);
  block_.Run("cp.async.wait_group 0;", {});
  EXPECT_EQ(Words(1024, 1)[0], 1000u);
}

class AsyncChecksTest : public AsyncOpsTest {};
INSTANTIATE_TEST_SUITE_P(Checks, AsyncChecksTest, testing::Values(true),
                         [](const auto&) { return "On"; });

TEST_P(AsyncChecksTest, AMissingWaitIsReported) {
  block_.Run(
      "cp.async.cg.shared.global [%s], [%g], 16; cp.async.commit_group; ld.shared.u32 %d, [%s];",
      Registers());
  EXPECT_THAT(
      block_.ProblemText(),
      testing::MatchesRegex(
          "missing wait for cp.async: thread 0 reads shared offset 0x0, to which a cp.async "
          "of thread 0 \\(PTX line [0-9]+\\) still copies: it has not been waited for\n"));
}

// The hardware may read the source as late as at the wait.
TEST_P(AsyncChecksTest, ASourceThatIsOverwrittenMeanwhileIsReported) {
  block_.Run(
      "cp.async.cg.shared.global [%s], [%g], 16; st.global.u32 [%g+4], 7; cp.async.wait_all;",
      Registers(), /*mask=*/4);
  EXPECT_THAT(block_.ProblemText(),
              testing::MatchesRegex("missing wait for cp.async: thread 2 waits for a cp.async "
                                    "\\(PTX line [0-9]+\\) whose source has been overwritten since "
                                    "it began\n"));
}

// ... but not what lies behind the bytes that it takes, nor what is written after the wait.
TEST_P(AsyncChecksTest, ASourceMayBeOverwrittenAfterTheWait) {
  block_.Run(
      "cp.async.cg.shared.global [%s], [%g], 16, %n; st.global.u32 [%g+8], 7; cp.async.wait_all; "
      "st.global.u32 [%g], 7;",
      Registers(8));
  EXPECT_EQ(block_.ProblemText(), "");
}

TEST_P(AsyncChecksTest, AMissingBarrierIsARace) {
  const std::string copy = "cp.async.cg.shared.global [%s], [%g], 16; cp.async.wait_all;";
  block_.Run(copy, Registers());
  block_.Barrier();
  block_.Run("ld.shared.u32 %d, [%s];", Registers(), kAllLanes, /*warp=*/1);
  EXPECT_EQ(block_.ProblemText(), "");

  block_.Barrier();
  block_.Run(copy, Registers());
  block_.Run("ld.shared.u32 %d, [%s];", Registers(), kAllLanes, /*warp=*/1);
  EXPECT_THAT(block_.ProblemText(), HasSubstr("thread 32 reads shared offset 0x0, which thread 0 "
                                              "of another warp has written"));
}

// The destination of a copy must be free when the copy begins, not when it is waited for.
TEST_P(AsyncChecksTest, ACopyOverWhatOthersStillReadIsARace) {
  block_.Run("cp.async.cg.shared.global [%s], [%g], 16; cp.async.wait_all;", Registers());
  block_.Barrier();
  block_.Run("ld.shared.u32 %d, [%s];", Registers(), kAllLanes, /*warp=*/1);
  block_.Run("cp.async.cg.shared.global [%s], [%g], 16;", Registers());
  EXPECT_THAT(block_.ProblemText(), HasSubstr("thread 0 copies to shared offset 0x0, which thread "
                                              "32 of another warp has read"));
}

TEST(AsyncHandlersTest, WhichSizesTheyCopy) {
  Instruction copy{.op = Op::kCpAsync, .bytes = 8};
  EXPECT_NE(FindSharedHandler(copy, {}), nullptr);
  copy.bypass_l1 = true;
  EXPECT_EQ(FindSharedHandler(copy, {}), nullptr) << "cp.async.cg copies 16 bytes";
}

}  // namespace
}  // namespace duotone::emulator
