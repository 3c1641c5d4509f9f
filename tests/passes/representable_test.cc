#include "passes/representable.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace duotone::passes {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(RepresentableTest, FitsUpToTheRoundingBoundaries) {
  EXPECT_EQ(FitIn(65519.0, DType::kF16), Fit::kFits);
  EXPECT_EQ(FitIn(65520.0, DType::kF16), Fit::kOverflows);
  EXPECT_EQ(FitIn(-1e9, DType::kF16), Fit::kOverflows);
  EXPECT_EQ(FitIn(-1e9, DType::kBF16), Fit::kFits);
  EXPECT_EQ(FitIn(3e-8, DType::kF16), Fit::kFits);
  EXPECT_EQ(FitIn(2.9e-8, DType::kF16), Fit::kVanishes);
  EXPECT_EQ(FitIn(1e-8, DType::kBF16), Fit::kFits);
  EXPECT_EQ(FitIn(-std::numeric_limits<float>::max(), DType::kBF16), Fit::kOverflows);
}

TEST(RepresentableTest, WhatIsNoFiniteF32NumberIsNotTheSixteenBitTypesFault) {
  EXPECT_EQ(FitIn(-kInf, DType::kF16), Fit::kFits);
  EXPECT_EQ(FitIn(std::nan(""), DType::kF16), Fit::kFits);
  EXPECT_EQ(FitIn(0.0, DType::kF16), Fit::kFits);
  EXPECT_EQ(FitIn(1e300, DType::kF16), Fit::kFits);   // an infinity in f32 already
  EXPECT_EQ(FitIn(1e-300, DType::kF16), Fit::kFits);  // zero in f32 already
}

TEST(RepresentableTest, ClampingKeepsSignFinitenessAndNonZeroness) {
  const ir::Literal literal{std::vector<double>{-1e9, 1e9, 1e-8, -1e-8, 0.5, -kInf}};
  const ir::Literal expected{std::vector<double>{-65504, 65504, 0x1p-24, -0x1p-24, 0.5, -kInf}};
  EXPECT_EQ(ClampTo(literal, DType::kF16), expected);
  EXPECT_EQ(FitIn(ClampTo(literal, DType::kF16), DType::kF16), Fit::kFits);
}

TEST(RepresentableTest, TheMessageNamesTheFirstElementThatDoesNotFit) {
  EXPECT_EQ(MisfitOf(ir::Literal{std::vector<double>{1, 1e-8, 1e9}}, DType::kF16),
            "1e-08 becomes 0 in f16");
  EXPECT_EQ(MisfitOf(ir::Literal::Float(2.0), DType::kF16), "");
}

}  // namespace
}  // namespace duotone::passes
