#include "base/lossless.h"

#include "base/float16.h"
#include "gtest/gtest.h"

namespace duotone {
namespace {

TEST(Lossless, F32HoldsEvery16BitValue) {
  EXPECT_TRUE(IsLossless(DType::kF16, DType::kF32));
  EXPECT_TRUE(IsLossless(DType::kBF16, DType::kF32));
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 half{static_cast<uint16_t>(bits)};
    const bool is_nan = (bits & 0x7fff) > 0x7c00;
    if (is_nan) continue;
    ASSERT_EQ(ToF16(ToF32(half)).bits, bits);
  }
}

TEST(Lossless, NeitherOfThe16BitTypesHoldsTheOther) {
  EXPECT_FALSE(IsLossless(DType::kF16, DType::kBF16));
  EXPECT_FALSE(IsLossless(DType::kBF16, DType::kF16));
  EXPECT_NE(ToF32(ToBF16(1.0f + 0x1p-10f)), 1.0f + 0x1p-10f);  // an f16 value
}

TEST(Lossless, IntegersNeedTheirBits) {
  EXPECT_FALSE(IsLossless(DType::kI32, DType::kF32));  // 2^24 + 1
  EXPECT_TRUE(IsLossless(DType::kI32, DType::kF64));
  EXPECT_FALSE(IsLossless(DType::kI64, DType::kF64));  // 2^53 + 1
  EXPECT_TRUE(IsLossless(DType::kU8, DType::kBF16));   // 255 has 8 bits
  EXPECT_TRUE(IsLossless(DType::kU8, DType::kI32));
  EXPECT_FALSE(IsLossless(DType::kI32, DType::kU8));
}

TEST(Lossless, NoIntegerHoldsAFloat) {
  EXPECT_FALSE(IsLossless(DType::kF16, DType::kI64));
  EXPECT_FALSE(IsLossless(DType::kF32, DType::kBool));
  EXPECT_TRUE(IsLossless(DType::kBool, DType::kF16));
}

}  // namespace
}  // namespace duotone
