// Philox4x32-10 against the known answers of its authors' Random123 library, and the project's keys
// and distributions.
#include "base/philox.h"

#include <cmath>
#include <set>

#include "gtest/gtest.h"

namespace duotone {
namespace {

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0}, {0, 0, 0, 0}),
            (RandomWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (RandomWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (RandomWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EachPartOfTheKeyChangesTheWords) {
  const std::set<RandomWords> draws = {
      RandomBlock(1, 2, 3, 4, 5),          RandomBlock(2, 2, 3, 4, 5),
      RandomBlock(1, 3, 3, 4, 5),          RandomBlock(1, 2, 4, 4, 5),
      RandomBlock(1, 2, 3, 5, 5),          RandomBlock(1, 2, 3, 4, 6),
      RandomBlock(1ull << 32, 2, 3, 4, 5), RandomBlock(1, 2ll << 32, 3, 4, 5),
      RandomBlock(1, 2, 3, 4ull << 32, 5), RandomBlock(1, 2, 3, 4, 5ull << 32),
      RandomBlock(1, 2, 3ll << 32, 4, 5)};
  EXPECT_EQ(draws.size(), 11u);
}

TEST(Philox, UniformNumbersReachBothEndsOfTheRange) {
  EXPECT_EQ(UniformFromBits(0), 0.0f);
  EXPECT_EQ(UniformFromBits(0xffffffffu), 1.0f - 0x1p-24f);
  EXPECT_EQ(UniformFromBits(0x80000000u), 0.5f);
  EXPECT_EQ(UniformBetween(0, -3.0f, 5.0f), -3.0f);
  EXPECT_EQ(UniformBetween(0x80000000u, -3.0f, 5.0f), 1.0f);
}

// 1 + (1 - 2^-24) * 1e-7 rounds to the float above 1, which is the end of the range.
TEST(Philox, UniformNumbersStayBelowTheEnd) {
  const float high = std::nextafter(1.0f, 2.0f);
  EXPECT_EQ(UniformBetween(0xffffffffu, 1.0f, high), 1.0f);
  EXPECT_EQ(UniformBetween(0xffffffffu, 2.0f, 2.0f), 2.0f);
}

TEST(Philox, NormalNumbersFollowBoxAndMuller) {
  // u1 = 1/2, u2 = 1/4: the radius is sqrt(2 ln 2), the angle a quarter turn.
  const auto [x, y] = NormalFromBits((0x7fffffu << 8), 0x40000000u);
  EXPECT_NEAR(x, 0.0f, 1e-6);
  EXPECT_NEAR(y, 1.17741002, 1e-6);
  // u1 = 1: the radius is 0, not the logarithm of 0.
  EXPECT_EQ(NormalFromBits(0xffffffffu, 0)[0], 0.0f);
  // u1 = 2^-24, the smallest.
  EXPECT_NEAR(NormalFromBits(0, 0)[0], std::sqrt(48 * std::log(2.0)), 1e-5);
}

TEST(Philox, MomentsOfManyDraws) {
  constexpr int kBlocks = 50000;
  double uniform_sum = 0, normal_sum = 0, normal_squares = 0;
  for (int block = 0; block < kBlocks; ++block) {
    const RandomWords words = RandomBlock(7, 0, 0, 99, block);
    for (uint32_t word : words) uniform_sum += UniformFromBits(word);
    for (int k = 0; k < 4; k += 2) {
      for (float z : NormalFromBits(words[k], words[k + 1])) {
        normal_sum += z;
        normal_squares += static_cast<double>(z) * z;
      }
    }
  }
  constexpr double kDraws = 4.0 * kBlocks;
  EXPECT_NEAR(uniform_sum / kDraws, 0.5, 4 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(normal_sum / kDraws, 0.0, 4 / std::sqrt(kDraws));
  EXPECT_NEAR(normal_squares / kDraws, 1.0, 4 * std::sqrt(2 / kDraws));
}

}  // namespace
}  // namespace duotone
