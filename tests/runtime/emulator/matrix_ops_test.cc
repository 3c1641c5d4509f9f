// ldmatrix and stmatrix against the layout that the PTX ISA gives.
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using testing::HasSubstr;

constexpr int kTileBytes = 16 * 32;  // 16 x 16 elements

BlockRunner::Options Sm(int compute, bool checks = true) {
  BlockRunner::Options options{.handler = {.compute = compute}, .shared_bytes = 8192, .warps = 2};
  options.emulator.checks = checks;
  return options;
}

// Element (row, column) of a 16 x 16 tile is 100 row + column.
uint32_t Element(int row, int column) { return static_cast<uint32_t>(100 * row + column); }
uint32_t Pair(uint32_t low, uint32_t high) { return low | high << 16; }

// Rows of `pitch` bytes, written by warp `warp`; a barrier follows.
void PutTile(BlockRunner& block, uint64_t pitch, int warp = 0) {
  for (int row = 0; row < 16; ++row) {
    Lanes addresses = {}, values = {};
    for (int lane = 0; lane < 16; ++lane) {
      addresses[lane] = row * pitch + 2 * static_cast<uint64_t>(lane);
      values[lane] = Element(row, lane);
    }
    block.Run("st.shared.b16 [%a], %v;", {{"a", Type::kB32, addresses}, {"v", Type::kB16, values}},
              0xffff, warp);
  }
  block.Barrier();
}

// Lane l points at row l % 16, its left or right half: the four 8 x 8 matrices of the tile in the
// order of mma's A.
Lanes TileRows(uint64_t pitch) {
  Lanes addresses;
  for (uint64_t lane = 0; lane < kLanes; ++lane) {
    addresses[lane] = (lane % 16) * pitch + (lane / 16) * 16;
  }
  return addresses;
}

std::vector<TestRegister> Fragment(const Lanes& addresses) {
  return {{"a", Type::kB32, addresses},
          {"r0", Type::kB32, Repeat({1})},
          {"r1", Type::kB32, Repeat({2})},
          {"r2", Type::kB32, Repeat({3})},
          {"r3", Type::kB32, Repeat({4})}};
}

TEST(LdmatrixTest, FourMatricesAreTheOperandOfMma) {
  for (const bool checks : {true, false}) {
    BlockRunner block(Sm(80, checks));
    PutTile(block, 32);
    auto result = block.Run("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%a];",
                            Fragment(TileRows(32)));
    for (int lane = 0; lane < kLanes; ++lane) {
      const int g = lane >> 2, c = 2 * (lane & 3);
      EXPECT_EQ(result["r0"][lane], Pair(Element(g, c), Element(g, c + 1)));
      EXPECT_EQ(result["r1"][lane], Pair(Element(g + 8, c), Element(g + 8, c + 1)));
      EXPECT_EQ(result["r2"][lane], Pair(Element(g, c + 8), Element(g, c + 9)));
      EXPECT_EQ(result["r3"][lane], Pair(Element(g + 8, c + 8), Element(g + 8, c + 9)));
    }
    EXPECT_EQ(block.ProblemText(), "");
  }
}

TEST(LdmatrixTest, TransGivesTheTranspose) {
  BlockRunner block(Sm(80));
  PutTile(block, 32);
  auto result = block.Run("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0, %r1}, [%a];",
                          Fragment(TileRows(32)));
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane >> 2, c = 2 * (lane & 3);
    EXPECT_EQ(result["r0"][lane], Pair(Element(c, g), Element(c + 1, g)));
    EXPECT_EQ(result["r1"][lane], Pair(Element(c + 8, g), Element(c + 9, g)));
  }
  EXPECT_EQ(result["r2"][0], 3u);
  EXPECT_EQ(block.ProblemText(), "");
}

TEST(LdmatrixTest, OneMatrixLooksAtEightAddresses) {
  BlockRunner block(Sm(75));
  PutTile(block, 32);
  Lanes addresses = TileRows(32);
  for (int lane = 8; lane < kLanes; ++lane) addresses[lane] = 0xfffffff1;
  auto result =
      block.Run("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%a];", Fragment(addresses));
  EXPECT_EQ(result["r0"][31], Pair(Element(7, 6), Element(7, 7)));
  EXPECT_EQ(block.ProblemText(), "");
}

TEST(LdmatrixTest, RowsMustBeAlignedAndWithinBounds) {
  BlockRunner block(Sm(80));
  PutTile(block, 32);
  Lanes addresses = TileRows(32);
  addresses[2] += 8;
  addresses[3] = 8192;
  auto result =
      block.Run("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%a];", Fragment(addresses));
  EXPECT_THAT(block.ProblemText(), HasSubstr("thread 2 reads 16 bytes at shared offset 0x48"));
  EXPECT_THAT(block.ProblemText(), HasSubstr("thread 3 reads 16 bytes at shared offset 0x2000"));
  EXPECT_EQ(result["r0"][8], 0u);
  EXPECT_EQ(result["r0"][4], Pair(Element(1, 0), Element(1, 1)));
}

TEST(LdmatrixTest, AllLanesMustBeThere) {
  BlockRunner block(Sm(80));
  PutTile(block, 32);
  block.Run("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%a];", Fragment(TileRows(32)),
            /*mask=*/0xffff);
  EXPECT_THAT(block.ProblemText(), HasSubstr("16 lanes of the warp are here"));
}

TEST(LdmatrixTest, ReadsOfOtherWarpsWritesNeedABarrier) {
  const std::string load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%a];";
  BlockRunner block(Sm(80));
  PutTile(block, 32);
  block.Run(load, Fragment(TileRows(32)), kAllLanes, /*warp=*/1);
  EXPECT_EQ(block.ProblemText(), "");
  block.Run("st.shared.u32 [%a], 1;", {{"a", Type::kB32, Repeat({36})}}, /*mask=*/1);
  // Word 1 of row 1 went to lane 5.
  EXPECT_THAT(block.ProblemText(), HasSubstr("thread 0 writes shared offset 0x24, which thread 37 "
                                             "of another warp has read"));
}

// 16 bytes of eight rows 128 bytes apart share four banks; exchanged by their row number (a
// swizzle), or with padded rows, they do not.
TEST(LdmatrixTest, BanksOfPlainSwizzledAndPaddedTiles) {
  const std::string load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%a];";
  BlockRunner block(Sm(80, /*checks=*/false));
  Lanes swizzled;
  for (uint64_t lane = 0; lane < kLanes; ++lane) {
    const uint64_t row = lane % 16, half = lane / 16;
    swizzled[lane] = row * 128 + ((half ^ (row % 8)) * 16);
  }
  block.Run(load, Fragment(TileRows(128)));
  EXPECT_EQ(block.counters().shared_ways, 32);
  EXPECT_EQ(block.counters().ideal_shared_ways, 4);
  block.Run(load, Fragment(swizzled));
  EXPECT_EQ(block.counters().shared_ways, 4);
  block.Run(load, Fragment(TileRows(144)));
  EXPECT_EQ(block.counters().shared_ways, 4);
  EXPECT_EQ(block.counters().bytes, 512);
}

TEST(StmatrixTest, IsTheMirrorOfLdmatrix) {
  for (const bool checks : {true, false}) {
    for (const std::string trans : {"", ".trans"}) {
      BlockRunner block(Sm(90, checks));
      PutTile(block, 32);
      auto loaded = block.Run("ldmatrix.sync.aligned.m8n8.x4" + trans +
                                  ".shared.b16 {%r0, %r1, %r2, %r3}, "
                                  "[%a];",
                              Fragment(TileRows(32)));
      std::vector<TestRegister> fragment = Fragment(TileRows(32));
      for (TestRegister& reg : fragment) {
        reg.bits = loaded[reg.name];
        if (reg.name == "a") {
          for (uint64_t& address : reg.bits) address += 1024;
        }
      }
      block.Run("stmatrix.sync.aligned.m8n8.x4" + trans + ".shared.b16 [%a], {%r0, %r1, %r2, %r3};",
                fragment);
      EXPECT_EQ(std::memcmp(block.shared().bytes(), block.shared().bytes() + 1024, kTileBytes), 0);
      EXPECT_EQ(block.ProblemText(), "");
    }
  }
}

TEST(StmatrixTest, OtherLanesNeedABarrierToReadIt) {
  BlockRunner block(Sm(90));
  block.Run("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%a], {%r0};", Fragment(TileRows(16)));
  block.Run("ld.shared.u32 %d, [%a];", {{"d", Type::kB32}, {"a", Type::kB32, Repeat({20})}},
            /*mask=*/1 << 5);
  EXPECT_EQ(block.ProblemText(), "") << "row 1, word 1 is lane 5's";
  block.Run("ld.shared.u32 %d, [%a];", {{"d", Type::kB32}, {"a", Type::kB32, Repeat({20})}},
            /*mask=*/1);
  EXPECT_THAT(block.ProblemText(), HasSubstr("thread 0 reads shared offset 0x14, which thread 5 "
                                             "of the same warp has written"));
}

}  // namespace
}  // namespace duotone::emulator
