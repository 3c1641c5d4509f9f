// ld, st, atom and red of shared memory.
#include "runtime/emulator/shared_ops.h"

#include <array>
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

// first, first + step, ...
Lanes Steps(uint64_t first, uint64_t step) {
  Lanes lanes;
  for (uint64_t i = 0; i < kLanes; ++i) lanes[i] = first + i * step;
  return lanes;
}

class SharedOpsTest : public testing::TestWithParam<bool> {
 protected:
  static BlockRunner::Options WithChecks(bool checks) {
    BlockRunner::Options options{.shared_bytes = 32768, .warps = 2};
    options.emulator.checks = checks;
    return options;
  }
  template <typename T>
  void Put(uint64_t offset, const std::vector<T>& values) {
    std::vector<std::array<T, 1>> bytes;
    SharedFindings findings;
    for (size_t i = 0; i < values.size(); ++i) {
      std::array<uint64_t, kLanes> offsets;
      offsets.fill(offset + i * sizeof(T));
      if (block_.shared().checked()) {
        block_.shared().Write({.lanes = 1, .bytes = sizeof(T), .offsets = offsets.data()},
                              reinterpret_cast<const uint8_t*>(&values[i]), sizeof(T), findings);
      } else {
        std::memcpy(block_.shared().bytes() + offsets[0], &values[i], sizeof(T));
      }
    }
    block_.Barrier();
  }
  template <typename T>
  std::vector<T> Get(uint64_t offset, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), block_.shared().bytes() + offset, count * sizeof(T));
    return values;
  }

  BlockRunner block_{WithChecks(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(Checks, SharedOpsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "On" : "Off"; });

TEST_P(SharedOpsTest, LoadsExtendToTheRegister) {
  Put<uint8_t>(0, {0x80, 0x81, 0x82, 0x83});
  const auto load = [&](const char* text, Type type) {
    return block_.Run(text, {{"d", type}, {"a", Type::kB32, Repeat({0})}})["d"][17];
  };
  EXPECT_EQ(load("ld.shared.u8 %d, [%a];", Type::kB32), 0x80u);
  EXPECT_EQ(load("ld.shared.s8 %d, [%a];", Type::kB32), 0xffffff80u);
  EXPECT_EQ(load("ld.shared.s8 %d, [%a+1];", Type::kB16), 0xff81u);
  EXPECT_EQ(load("ld.shared.s16 %d, [%a+2];", Type::kB64), 0xffffffffffff8382u);
  EXPECT_EQ(load("ld.shared.u16 %d, [%a+2];", Type::kB64), 0x8382u);
  EXPECT_EQ(load("ld.shared.s32 %d, [%a];", Type::kB64), 0xffffffff83828180u);
  EXPECT_EQ(load("ld.shared.f32 %d, [%a];", Type::kF32), 0x83828180u);
  EXPECT_EQ(block_.ProblemText(), "");
}

TEST_P(SharedOpsTest, StoresTakeTheLowBytes) {
  block_.Run("st.shared.u8 [%a+1], %b; st.shared.u16 [%a+2], %b; st.shared.u8 [%a], 9;",
             {{"a", Type::kB32, Steps(0, 4)}, {"b", Type::kB32, Steps(0x01020304, 1)}});
  EXPECT_EQ(Get<uint32_t>(0, 2), (std::vector<uint32_t>{0x03040409, 0x03050509}));
  EXPECT_EQ(block_.ProblemText(), "");
}

TEST_P(SharedOpsTest, VectorsLieOneLaneBehindTheOther) {
  block_.Run("st.shared.v4.u32 [%a], {%b, %c, %b, %c};", {{"a", Type::kB32, Steps(256, 16)},
                                                          {"b", Type::kB32, Steps(100, 1)},
                                                          {"c", Type::kB32, Steps(200, 1)}});
  EXPECT_EQ(Get<uint32_t>(256 + 16, 4), (std::vector<uint32_t>{101, 201, 101, 201}));
  auto loaded =
      block_.Run("ld.shared.v2.b64 {%x, %y}, [%a];",
                 {{"x", Type::kB64}, {"y", Type::kB64}, {"a", Type::kB64, Steps(256, 16)}});
  EXPECT_EQ(loaded["x"][31], 231ull << 32 | 131);
  EXPECT_EQ(loaded["y"][5], 205ull << 32 | 105);
  EXPECT_EQ(block_.ProblemText(), "");
}

TEST_P(SharedOpsTest, OnlyLanesOfTheMaskTakePart) {
  block_.Run("st.shared.u32 [%a], 1;", {{"a", Type::kB32, Steps(0, 4)}});
  block_.Run("st.shared.u32 [%a], 2;", {{"a", Type::kB32, Steps(0, 4)}}, /*mask=*/6);
  EXPECT_EQ(Get<uint32_t>(0, 4), (std::vector<uint32_t>{1, 2, 2, 1}));
  const Lanes loaded =
      block_.Run("ld.shared.u32 %d, [%a];",
                 {{"d", Type::kB32, Repeat({77})}, {"a", Type::kB32, Steps(0, 4)}}, 3)["d"];
  EXPECT_EQ(loaded[0], 1u);
  EXPECT_EQ(loaded[1], 2u);
  EXPECT_EQ(loaded[2], 77u);
}

// A 32-bit address below the base wraps around, as the hardware's does.
TEST_P(SharedOpsTest, AddressesOf32BitsWrap) {
  Put<uint32_t>(0, {11, 12});
  EXPECT_EQ(block_.Run("ld.shared.u32 %d, [%a+8];",
                       {{"d", Type::kB32}, {"a", Type::kB32, Repeat({0xfffffffc})}})["d"][0],
            12u);
}

TEST_P(SharedOpsTest, AccessBesideTheMemoryIsReportedAndGivesZero) {
  Lanes addresses = Repeat({0});
  addresses[3] = 32768;
  addresses[4] = 1ull << 40;
  Put<uint32_t>(0, {5});
  const Lanes loaded = block_.Run("ld.shared.u32 %d, [%a];", {{"d", Type::kB32, Repeat({9})},
                                                              {"a", Type::kB64, addresses}})["d"];
  EXPECT_EQ(loaded[2], 5u);
  EXPECT_EQ(loaded[3], 0u);
  ASSERT_EQ(block_.problems().size(), 1u);
  EXPECT_EQ(block_.problems()[0].lanes, 0x18u);
  EXPECT_EQ(block_.ProblemText(),
            "out of bounds: thread 3 reads 4 bytes at shared offset 0x8000; the block has 32768 "
            "bytes of shared memory\n");
}

TEST_P(SharedOpsTest, MisalignedAccessIsReportedAndDropped) {
  block_.Run("st.shared.u32 [%a], 5;", {{"a", Type::kB32, Steps(0, 4)}});
  block_.Run("st.shared.v2.f32 [%a], {%b, %b};",
             {{"a", Type::kB32, Steps(4, 8)}, {"b", Type::kF32, Repeat({6})}}, kAllLanes, 0);
  EXPECT_THAT(block_.ProblemText(),
              HasSubstr("misaligned access: thread 0 writes 8 bytes at shared offset 0x4, which is "
                        "no multiple of 8"));
  EXPECT_EQ(Get<uint32_t>(4, 1)[0], 5u);
}

TEST_P(SharedOpsTest, AtomicsAddLaneByLane) {
  Put<uint32_t>(0, {100, 0xffffffff, 5, 7});
  const auto result = block_.Run(
      "atom.shared.add.u32 %d, [%a], %b; red.shared.max.s32 [%a+4], %b; atom.shared.cas.b32 %e, "
      "[%a+8], 5, %b; atom.shared.exch.b32 %f, [%a+12], %b;",
      {{"d", Type::kB32},
       {"e", Type::kB32},
       {"f", Type::kB32},
       {"a", Type::kB32, Repeat({0})},
       {"b", Type::kB32, Steps(1, 1)}});
  EXPECT_EQ(Get<uint32_t>(0, 4), (std::vector<uint32_t>{100 + 528, 32, 1, 32}));
  EXPECT_EQ(result.at("d")[0], 100u);
  EXPECT_EQ(result.at("d")[31], 100u + 496);
  EXPECT_EQ(result.at("e")[0], 5u);
  EXPECT_EQ(result.at("e")[1], 1u);
  EXPECT_EQ(result.at("f")[1], 1u);
  EXPECT_EQ(block_.ProblemText(), "");
}

TEST_P(SharedOpsTest, AtomicsOfHalvesAndWideTypes) {
  Put<double>(0, {0.5});
  Put<uint64_t>(8, {~uint64_t{0}});
  Put<uint16_t>(16, {0x3c00, 0x4000});  // 1, 2
  block_.Run(
      "red.shared.add.f64 [%a], 0d3FF0000000000000; red.shared.min.u64 [%a+8], %w; "
      "red.shared.add.noftz.f16x2 [%a+16], %h;",
      {{"a", Type::kB32, Repeat({0})},
       {"w", Type::kB64, Repeat({12})},
       {"h", Type::kB32, Repeat({0x3c003800})}},  // 0.5 and 1
      /*mask=*/3);
  EXPECT_EQ(Get<double>(0, 1)[0], 2.5);
  EXPECT_EQ(Get<uint64_t>(8, 1)[0], 12u);
  EXPECT_EQ(Get<uint16_t>(16, 2), (std::vector<uint16_t>{0x4000, 0x4400}));  // 2, 4
}

TEST_P(SharedOpsTest, IncrementAndDecrementWrap) {
  Put<uint32_t>(0, {3, 0});
  block_.Run("red.shared.inc.u32 [%a], 3; red.shared.dec.u32 [%a+4], 8;",
             {{"a", Type::kB32, Repeat({0})}}, /*mask=*/1);
  EXPECT_EQ(Get<uint32_t>(0, 2), (std::vector<uint32_t>{0, 8}));
}

// ---- Checks

class SharedChecksTest : public testing::Test {
 protected:
  BlockRunner block_{BlockRunner::Options{.shared_bytes = 1024, .warps = 2}};
};

TEST_F(SharedChecksTest, ARaceNamesBothThreadsAndTheLine) {
  block_.Run("st.shared.u32 [%a], 1;", {{"a", Type::kB32, Steps(0, 4)}}, kAllLanes, 0);
  block_.Run("\nld.shared.u32 %d, [%a];", {{"d", Type::kB32}, {"a", Type::kB32, Repeat({20})}},
             kAllLanes, 1);
  ASSERT_EQ(block_.problems().size(), 1u);
  EXPECT_EQ(block_.problems()[0].lanes, kAllLanes);
  EXPECT_THAT(
      block_.ProblemText(),
      testing::MatchesRegex("race in shared memory: thread 32 reads shared offset 0x14, which "
                            "thread 5 of another warp has written \\(PTX line [0-9]+\\) "
                            "without a barrier between the two since\n"));
}

TEST_F(SharedChecksTest, ABarrierBetweenIsSilent) {
  block_.Run("st.shared.u32 [%a], 1;", {{"a", Type::kB32, Steps(0, 4)}}, kAllLanes, 0);
  block_.Barrier();
  block_.Run("ld.shared.u32 %d, [%a];", {{"d", Type::kB32}, {"a", Type::kB32, Repeat({20})}},
             kAllLanes, 1);
  EXPECT_EQ(block_.ProblemText(), "");
}

TEST_F(SharedChecksTest, LanesThatExchangeNeedAWarpSync) {
  const std::vector<TestRegister> registers = {
      {"d", Type::kB32}, {"a", Type::kB32, Steps(0, 4)}, {"b", Type::kB32, Steps(124, -4)}};
  block_.Run("st.shared.u32 [%a], 1;", registers);
  block_.shared().OnWarpSync(0, kAllLanes);
  block_.Run("ld.shared.u32 %d, [%b];", registers);
  EXPECT_EQ(block_.ProblemText(), "");
  block_.Run("st.shared.u32 [%a+512], 1; ld.shared.u32 %d, [%b+512];", registers);
  EXPECT_THAT(block_.ProblemText(),
              HasSubstr("thread 0 reads shared offset 0x27c, which thread 31 of the same warp has "
                        "written"));
}

TEST_F(SharedChecksTest, UninitialisedWordsAreReported) {
  block_.Run("ld.shared.v2.f32 {%d, %e}, [%a];",
             {{"d", Type::kF32}, {"e", Type::kF32}, {"a", Type::kB32, Repeat({8})}}, /*mask=*/4);
  EXPECT_EQ(block_.ProblemText(),
            "uninitialised read: thread 2 reads shared offset 0x8, which the block has not "
            "written\n");
}

TEST_F(SharedChecksTest, LanesThatWriteDifferentValuesToOneWord) {
  block_.Run("st.shared.u32 [%a], 7;", {{"a", Type::kB32, Repeat({8})}});
  EXPECT_EQ(block_.ProblemText(), "");
  block_.Run("st.shared.u32 [%a], %b;",
             {{"a", Type::kB32, Repeat({64})}, {"b", Type::kB32, Repeat({1, 1, 2})}}, /*mask=*/7);
  EXPECT_THAT(block_.ProblemText(), HasSubstr("threads 0 and 2 write different values to shared "
                                              "offset 0x40 in one instruction"));
}

// The sum depends on the order of its terms, which nothing fixes; one of integers does not.
TEST(SharedAtomicsTest, FloatAdditionsAreReported) {
  const auto kinds = [](std::string_view text) {
    BlockRunner block({.shared_bytes = 1024});
    const std::vector<TestRegister> registers = {
        {"a", Type::kB32, Repeat({64})}, {"g", Type::kB64, Repeat({kSharedWindow + 64})},
        {"h", Type::kB32, Repeat({0})},  {"f", Type::kF32, Repeat({0})},
        {"w", Type::kF64, Repeat({0})},
    };
    block.Run("st.shared.f64 [%a], %w;", registers, /*mask=*/1);
    block.Barrier();
    block.Run(text, registers);
    std::vector<ProblemKind> found;
    for (const Problem& problem : block.problems()) found.push_back(problem.kind);
    return found;
  };
  for (const char* text :
       {"red.shared.add.f32 [%a], %f;", "red.shared.add.f64 [%a], %w;",
        "red.shared.add.noftz.f16x2 [%a], %h;", "red.shared.add.noftz.bf16x2 [%a], %h;",
        "atom.shared.add.f32 %f, [%a], %f;", "atom.add.f32 %f, [%g], %f;"}) {
    EXPECT_THAT(kinds(text), testing::ElementsAre(ProblemKind::kFloatAtomic)) << text;
  }
  EXPECT_THAT(kinds("red.shared.add.u32 [%a], %h;"), testing::IsEmpty());
  EXPECT_THAT(kinds("atom.shared.exch.b32 %h, [%a], %h;"), testing::IsEmpty());
}

// ---- Banks

BankWays Ways(const Lanes& offsets, int bytes, Mask mask = kAllLanes) {
  return CountWays(mask, offsets.data(), bytes);
}

TEST(BankWaysTest, WordsByStride) {
  EXPECT_EQ(Ways(Steps(0, 4), 4).ways, 1);
  EXPECT_EQ(Ways(Steps(128, 8), 4).ways, 2) << "stride 2: lanes i and i + 16";
  EXPECT_EQ(Ways(Steps(0, 16), 4).ways, 4);
  EXPECT_EQ(Ways(Steps(0, 128), 4).ways, 32) << "stride 32: all in one bank";
  EXPECT_EQ(Ways(Steps(0, 132), 4).ways, 1) << "stride 33";
  EXPECT_EQ(Ways(Steps(0, 12), 4).ways, 1) << "stride 3";
  EXPECT_EQ(Ways(Steps(0, 128), 4, 0xf).ways, 4) << "four lanes";
}

TEST(BankWaysTest, LanesOfOneWordShareIt) {
  EXPECT_EQ(Ways(Repeat({400}), 4).ways, 1);
  EXPECT_EQ(Ways(Repeat({0, 128, 256}), 4).ways, 3);
  EXPECT_EQ(Ways(Steps(0, 2), 2).ways, 1) << "two lanes a word";
  EXPECT_EQ(Ways(Steps(0, 1), 1).ways, 1);
}

TEST(BankWaysTest, WideAccessesGoInPhases) {
  EXPECT_EQ(Ways(Steps(0, 8), 8).ways, 2);
  EXPECT_EQ(Ways(Steps(0, 8), 8).ideal, 2);
  EXPECT_EQ(Ways(Steps(0, 16), 8).ways, 4) << "16 lanes over 64 words";
  EXPECT_EQ(Ways(Steps(0, 16), 16).ways, 4);
  EXPECT_EQ(Ways(Steps(0, 16), 16).ideal, 4);
  EXPECT_EQ(Ways(Steps(0, 16), 16, 0xff).ideal, 1) << "one quarter of the warp";
  EXPECT_EQ(Ways(Steps(0, 128), 16).ways, 32) << "8 rows in the same banks, four times";
  EXPECT_EQ(Ways(Steps(0, 144), 16).ways, 4) << "rows padded by 16 bytes";
  EXPECT_EQ(Ways(Repeat({16}), 16).ways, 4) << "one address: a way in each quarter";
}

TEST(BankWaysTest, AreCountedByInstruction) {
  BlockRunner block(BlockRunner::Options{.shared_bytes = 8192});
  block.Run("st.shared.u32 [%a], 1; st.shared.u32 [%a+4], 1;", {{"a", Type::kB32, Steps(0, 8)}},
            /*mask=*/kAllLanes);
  EXPECT_EQ(block.counters().shared_requests, 2);
  EXPECT_EQ(block.counters().shared_ways, 4);
  EXPECT_EQ(block.counters().ideal_shared_ways, 2);
  EXPECT_EQ(block.counters().bytes, 256);
}

}  // namespace
}  // namespace duotone::emulator
