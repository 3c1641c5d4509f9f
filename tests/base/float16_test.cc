// f16 and bf16 conversions: every value both ways, and every rounding boundary, against a
// formulation from the formats' definitions.
#include "base/float16.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace duotone {
namespace {

// A 16-bit format by its number of fraction bits; the exponent takes the rest.
struct F16Format {
  using Type = F16;
  static constexpr int kFraction = 10;
  static constexpr int kBias = 15;
  static Type Narrow(float value) { return ToF16(value); }
};
struct BF16Format {
  using Type = BF16;
  static constexpr int kFraction = 7;
  static constexpr int kBias = 127;
  static Type Narrow(float value) { return ToBF16(value); }
};

template <typename Format>
constexpr int kMaxExponent = 2 * Format::kBias + 1;

// The value of a bit pattern, from sign, exponent and fraction, in double, which holds every one
// exactly.
template <typename Format>
double ValueOf(uint16_t bits) {
  const int exponent = (bits & 0x7fff) >> Format::kFraction;
  const int fraction = bits & ((1 << Format::kFraction) - 1);
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == kMaxExponent<Format>) {
    return fraction == 0 ? sign * HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  }
  const int mantissa = exponent == 0 ? fraction : fraction + (1 << Format::kFraction);
  return sign * std::ldexp(mantissa, std::max(exponent, 1) - Format::kBias - Format::kFraction);
}

template <typename Format>
class Float16Test : public testing::Test {};
using Formats = testing::Types<F16Format, BF16Format>;
TYPED_TEST_SUITE(Float16Test, Formats);

TYPED_TEST(Float16Test, EveryValueWidensExactlyAndComesBack) {
  for (int bits = 0; bits <= 0xffff; ++bits) {
    const typename TypeParam::Type value{static_cast<uint16_t>(bits)};
    const double expected = ValueOf<TypeParam>(value.bits);
    const float wide = ToF32(value);
    if (std::isnan(expected)) {
      const uint16_t quiet = 1 << (TypeParam::kFraction - 1);
      EXPECT_TRUE(std::isnan(wide)) << bits;
      EXPECT_EQ(std::signbit(wide), bits >> 15) << bits;
      EXPECT_EQ(TypeParam::Narrow(wide).bits, bits | quiet) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(wide), expected) << bits;
      EXPECT_EQ(std::signbit(wide), bits >> 15) << bits;
      EXPECT_EQ(TypeParam::Narrow(wide), value) << bits;
    }
  }
}

// Between two neighbours of the format, everything below the midpoint goes down, everything above
// up, and the midpoint to the even one. Beyond the largest number, infinity takes the place of the
// next number.
TYPED_TEST(Float16Test, EveryMidpointRoundsToEven) {
  const uint16_t infinity = kMaxExponent<TypeParam> << TypeParam::kFraction;
  for (uint16_t low = 0; low < infinity; ++low) {
    const uint16_t high = low + 1;
    const double below = ValueOf<TypeParam>(low);
    const double step =
        high == infinity ? below - ValueOf<TypeParam>(low - 1) : ValueOf<TypeParam>(high) - below;
    const double middle = below + step / 2;
    const float tie = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(tie), middle) << low;  // f32 holds every midpoint
    for (int sign = 0; sign <= 1; ++sign) {
      const float flip = sign ? -1.0f : 1.0f;
      const uint16_t bit = sign ? 0x8000 : 0;
      EXPECT_EQ(TypeParam::Narrow(flip * tie).bits, bit | (low % 2 == 0 ? low : high)) << low;
      EXPECT_EQ(TypeParam::Narrow(flip * std::nextafter(tie, 0.0f)).bits, bit | low) << low;
      EXPECT_EQ(TypeParam::Narrow(flip * std::nextafter(tie, HUGE_VALF)).bits, bit | high) << low;
    }
  }
}

TYPED_TEST(Float16Test, WholeArraysGiveTheBitsOfSingleNumbers) {
  using Type = typename TypeParam::Type;
  // One block of every alignment and remainder, over floats from all over the range.
  std::vector<float> wide;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 65537 * 3) {
    wide.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (size_t start = 0; start < 9; ++start) {
    std::vector<Type> narrow(wide.size() - start);
    ConvertFromF32(wide.data() + start, narrow.data(), narrow.size());
    std::vector<float> back(narrow.size());
    ConvertToF32(narrow.data(), back.data(), narrow.size());
    for (size_t i = 0; i < narrow.size(); ++i) {
      ASSERT_EQ(narrow[i], TypeParam::Narrow(wide[start + i])) << wide[start + i];
      ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(ToF32(narrow[i])));
    }
  }
}

TEST(Float16, OverflowsBecomeInfinityAndNeverSaturate) {
  EXPECT_EQ(ToF16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(ToF16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(ToF16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(ToF16(-65520.0f).bits, 0xfc00);
  EXPECT_EQ(ToBF16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(Float16, SubnormalsAreKept) {
  EXPECT_EQ(ToF16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(ToF16(0x1p-25f).bits, 0x0000);  // the tie between 0 and the smallest number
  EXPECT_EQ(ToF16(0x1.8p-24f).bits, 0x0002);
  EXPECT_EQ(ToF16(-0.0f).bits, 0x8000);
  EXPECT_EQ(ToBF16(0x1p-133f).bits, 0x0001);
}

}  // namespace
}  // namespace duotone
