// The tensor core against exact numbers (exact_tensor_core.h) over the whole range of every type,
// and its rules one by one in numbers that can be followed by hand.
#include "runtime/emulator/tensor_core.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/float16.h"
#include "tests/runtime/emulator/exact_tensor_core.h"

namespace duotone::emulator {
namespace {

// ---- Random tiles

struct Format {
  int exponent_bits;
  int mantissa_bits;
  int spare_bits = 0;  // below the mantissa

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
Format FormatOf(Type type) {
  if (type == Type::kF16) return {5, 10};
  if (type == Type::kBf16) return {8, 7};
  if (type == Type::kTf32) return {8, 10, 13};
  return {8, 23};
}

class Tiles {
 public:
  explicit Tiles(const TensorCoreModel& model) : model_(model) {}

  // Tile number `i`; the numbers from `kKinds` on repeat the kinds.
  static constexpr int kKinds = 8;
  TensorTile Draw(int i) {
    const Format factor = FormatOf(model_.type), result = FormatOf(model_.accumulator);
    // Exponents of products, and how far those of a tile's numbers lie apart.
    const int least = 2 * (1 - factor.bias()), most = 2 * factor.bias();
    const int spread = 1 << Below(4);
    switch (i % kKinds) {
      case 0:  // any bits, NaN and infinity as often as others
        return Fill([&] { return AnyBits(factor); }, [&] { return AnyBits(factor); },
                    [&] { return AnyBits(result); });
      case 1: {  // all finite numbers
        const auto any = [&] { return Number(factor, 1 - factor.bias(), 2 * factor.bias()); };
        return Fill(any, any, [&] { return Number(result, 1 - result.bias(), 2 * result.bias()); });
      }
      case 2: {  // one that is not finite
        TensorTile tile = Near(Between(least, most), spread);
        const uint32_t infinity = ((1u << factor.exponent_bits) - 1)
                                  << (factor.mantissa_bits + factor.spare_bits);
        tile.a[Below(TensorTile::kM)][Below(model_.k)] = infinity;
        tile.b[Below(model_.k)][Below(TensorTile::kN)] =
            infinity | (Below(2) == 0 ? 0 : AnyBits(factor));
        const uint32_t last = ((1u << result.exponent_bits) - 1) << result.mantissa_bits;
        tile.c[Below(TensorTile::kM)][Below(TensorTile::kN)] = last;
        return tile;
      }
      case 3:  // products that reach beyond the accumulator
        return Near(std::min(most, result.bias() - Below(4)), spread);
      case 4:  // and that end among its subnormal numbers, or below them
        return Near(std::max(least, 1 - result.bias() - Below(result.mantissa_bits + 4)), spread);
      case 5: {  // mostly zeros
        const auto few = [&] { return Below(8) == 0 ? Finite(factor) : Zero(factor); };
        return Fill(few, few, [&] { return Below(2) == 0 ? Below(1000) : Zero(result); });
      }
      case 6: {  // sums that cancel, wholly or but for what is cut off
        TensorTile tile = Near(Between(least, most), spread);
        for (int row = 0; row < TensorTile::kM; ++row) {
          for (int n = 0; n < TensorTile::kN; ++n) Cancel(row, n, tile);
        }
        return tile;
      }
      default:
        return Near(Between(least, most), spread);
    }
  }

  std::vector<uint32_t> Row(const TensorTile& tile, int row) const {
    return {tile.a[row], tile.a[row] + model_.k};
  }
  std::vector<uint32_t> Column(const TensorTile& tile, int n) const {
    std::vector<uint32_t> column;
    column.reserve(static_cast<size_t>(model_.k));
    for (int k = 0; k < model_.k; ++k) column.push_back(tile.b[k][n]);
    return column;
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  int Between(int first, int last) { return first + Below(last - first + 1); }

  uint32_t AnyBits(const Format& format) {
    return random_() >> (31 - format.exponent_bits - format.mantissa_bits - format.spare_bits);
  }
  uint32_t Zero(const Format& format) { return Signed(0, format); }
  uint32_t Signed(uint32_t magnitude, const Format& format) {
    const int place = format.exponent_bits + format.mantissa_bits + format.spare_bits;
    return magnitude | static_cast<uint32_t>(Below(2)) << place;
  }
  // With an exponent from `first` on; below the least one are subnormal numbers.
  uint32_t Number(const Format& format, int first, int count) {
    const int field =
        std::clamp(first + Below(count) + format.bias(), 0, (1 << format.exponent_bits) - 2);
    const int bits = format.mantissa_bits + format.spare_bits;
    return Signed(static_cast<uint32_t>(field) << bits | (random_() >> (32 - bits)), format);
  }
  uint32_t Finite(const Format& format) {
    return Number(format, -format.bias(), 2 * format.bias() + 1);
  }

  template <typename A, typename B, typename C>
  TensorTile Fill(const A& a, const B& b, const C& c) {
    TensorTile tile;
    for (auto& row : tile.a) {
      for (int k = 0; k < model_.k; ++k) row[k] = a();
    }
    for (int k = 0; k < model_.k; ++k) {
      for (uint32_t& number : tile.b[k]) number = b();
    }
    for (auto& row : tile.c) {
      for (uint32_t& number : row) number = c();
    }
    return tile;
  }
  // Products with exponents about `exponent`, accumulators from far below to a little above.
  TensorTile Near(int exponent, int spread) {
    const Format factor = FormatOf(model_.type), result = FormatOf(model_.accumulator);
    const int least = 1 - factor.bias(), most = factor.bias();
    const int a = Between(std::max(least, exponent - most), std::min(most, exponent - least));
    const int distance = Between(-30, 4);
    return Fill(
        [&] { return Below(16) == 0 ? Zero(factor) : Number(factor, a, spread); },
        [&] { return Below(16) == 0 ? Zero(factor) : Number(factor, exponent - a, spread); },
        [&] {
          return Below(16) == 0 ? Zero(result) : Number(result, exponent + distance, spread);
        });
  }
  // The accumulator becomes the negative of the products' sum.
  void Cancel(int row, int n, TensorTile& tile) {
    const Format result = FormatOf(model_.accumulator);
    tile.c[row][n] = ExactTensorDot(model_, Row(tile, row), Column(tile, n), 0) ^
                     1u << (result.exponent_bits + result.mantissa_bits);
  }

  TensorCoreModel model_;
  std::mt19937 random_{11};
};

struct Case {
  int compute;
  Type type;
  Type accumulator;
  int k;
  int turing_group = 8;

  TensorCoreModel model() const {
    return TensorCoreModelOf(compute, type, accumulator, k, turing_group);
  }
};
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const int turing_group : {4, 8}) {
    cases.push_back({75, Type::kF16, Type::kF32, 8, turing_group});
    cases.push_back({75, Type::kF16, Type::kF16, 8, turing_group});
  }
  for (const int compute : {80, 86, 89, 90}) {
    for (const int k : {8, 16}) {
      cases.push_back({compute, Type::kF16, Type::kF32, k});
      cases.push_back({compute, Type::kF16, Type::kF16, k});
      cases.push_back({compute, Type::kBf16, Type::kF32, k});
    }
    cases.push_back({compute, Type::kTf32, Type::kF32, 4});
    cases.push_back({compute, Type::kTf32, Type::kF32, 8});
  }
  return cases;
}
std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  const auto& [compute, type, accumulator, k, turing_group] = info.param;
  const std::string name = type == Type::kF16 ? "F16" : type == Type::kBf16 ? "Bf16" : "Tf32";
  return "Sm" + std::to_string(compute) + name + (accumulator == Type::kF16 ? "ToF16" : "ToF32") +
         "K" + std::to_string(k) + (compute == 75 ? "By" + std::to_string(turing_group) : "");
}

class EveryTensorCore : public ::testing::TestWithParam<Case> {};

TEST_P(EveryTensorCore, IsTheModelBitForBit) {
  const TensorCoreModel model = GetParam().model();
  const bool is_half = model.accumulator == Type::kF16;
  Tiles tiles(model);
  int zeros = 0, subnormals = 0, infinities = 0, nans = 0;
  for (int i = 0; i < 12 * Tiles::kKinds; ++i) {
    const TensorTile before = tiles.Draw(i);
    TensorTile after = before, portably = before;
    MultiplyTile(model, after);
    MultiplyTilePortably(model, portably);
    for (int row = 0; row < TensorTile::kM; ++row) {
      for (int n = 0; n < TensorTile::kN; ++n) {
        const std::vector<uint32_t> a = tiles.Row(before, row), b = tiles.Column(before, n);
        const uint32_t c = before.c[row][n], exact = ExactTensorDot(model, a, b, c);
        ASSERT_EQ(TensorDot(model, a, b, c), exact) << "tile " << i << ", " << row << ", " << n;
        ASSERT_EQ(after.c[row][n], exact) << "tile " << i << ", " << row << ", " << n;
        ASSERT_EQ(portably.c[row][n], exact) << "tile " << i << ", " << row << ", " << n;
        const uint32_t magnitude = exact & (is_half ? 0x7fff : 0x7fffffff);
        const uint32_t normal = is_half ? 0x400 : 0x800000,
                       infinity = is_half ? 0x7c00 : 0x7f800000;
        zeros += magnitude == 0;
        subnormals += magnitude != 0 && magnitude < normal;
        infinities += magnitude == infinity;
        nans += magnitude > infinity;
      }
    }
  }
  EXPECT_GT(zeros, 50);
  EXPECT_GT(subnormals, 50);
  EXPECT_GT(infinities, 50);
  EXPECT_GT(nans, 50);
}

INSTANTIATE_TEST_SUITE_P(Forms, EveryTensorCore, ::testing::ValuesIn(AllCases()), NameOf);

// ---- The rules one by one

uint32_t Encode(float value, Type type) {
  if (type == Type::kF16) return ToF16(value).bits;
  if (type == Type::kBf16) return ToBF16(value).bits;
  return std::bit_cast<uint32_t>(value);
}

using Products = std::vector<std::pair<float, float>>;

// The bits of c + the products; what is left of k are 0 * 1. Every element of a tile of them is the
// same.
uint32_t Dot(const Case& form, const Products& products, float c) {
  const TensorCoreModel model = form.model();
  std::vector<uint32_t> a(static_cast<size_t>(model.k)), b(a.size(), Encode(1, model.type));
  for (size_t i = 0; i < products.size(); ++i) {
    a[i] = Encode(products[i].first, model.type);
    b[i] = Encode(products[i].second, model.type);
  }
  const uint32_t start = Encode(c, model.accumulator);
  TensorTile tile;
  for (auto& row : tile.a) std::copy(a.begin(), a.end(), row);
  for (size_t k = 0; k < b.size(); ++k) std::fill_n(tile.b[k], TensorTile::kN, b[k]);
  for (auto& row : tile.c) std::fill_n(row, TensorTile::kN, start);
  MultiplyTile(model, tile);
  const uint32_t result = TensorDot(model, a, b, start);
  for (const auto& row : tile.c) EXPECT_THAT(row, ::testing::Each(result));
  return result;
}
float SingleDot(const Case& form, const Products& products, float c) {
  return std::bit_cast<float>(Dot(form, products, c));
}

constexpr Case kAmpereHalf = {80, Type::kF16, Type::kF32, 16};
constexpr Case kAmpereHalfToHalf = {80, Type::kF16, Type::kF16, 16};
constexpr Case kAmpereBf16 = {80, Type::kBf16, Type::kF32, 16};
constexpr Case kHopperBf16 = {90, Type::kBf16, Type::kF32, 16};

TEST(TensorCore, SpecialValuesWin) {
  constexpr float kInf = INFINITY;
  EXPECT_EQ(Dot(kAmpereHalf, {{NAN, 1}}, 0), 0x7fffffffu);
  EXPECT_EQ(Dot(kAmpereHalf, {{1, 1}}, -NAN), 0x7fffffffu);
  EXPECT_EQ(Dot(kAmpereHalf, {{kInf, 0}}, 0), 0x7fffffffu);
  EXPECT_EQ(Dot(kAmpereHalf, {{kInf, 1}}, -kInf), 0x7fffffffu);
  EXPECT_EQ(Dot(kAmpereHalf, {{kInf, 1}, {1, -kInf}}, 0), 0x7fffffffu);
  EXPECT_EQ(Dot(kAmpereHalfToHalf, {{NAN, 1}}, 0), 0x7fffu);
  EXPECT_EQ(Dot(kAmpereHalf, {{kInf, 1}}, 0), 0x7f800000u);
  EXPECT_EQ(Dot(kAmpereHalf, {{kInf, -1}}, 0), 0xff800000u);
  EXPECT_EQ(Dot(kAmpereHalf, {{1, 1}}, kInf), 0x7f800000u);
  EXPECT_EQ(Dot(kAmpereHalfToHalf, {{kInf, -1}}, 0), 0xfc00u);
}

// 2^129 in the first eight products, which the others take back: too late in two groups.
TEST(TensorCore, AGroupThatOverflowsStaysInfinite) {
  Products products(8, {0x1p63f, 0x1p63f});
  products.resize(16, {0x1p63f, -0x1p63f});
  EXPECT_EQ(SingleDot(kAmpereBf16, products, 0), INFINITY);
  EXPECT_EQ(SingleDot(kHopperBf16, products, 0), 0);
  products[8].second = -INFINITY;
  EXPECT_EQ(Dot(kAmpereBf16, products, 0), 0x7fffffffu);
  EXPECT_EQ(SingleDot(kHopperBf16, products, 0), -INFINITY);
}

// The unit of a sum is 2^-24 or 2^-25 of its largest exponent.
TEST(TensorCore, ArchitecturesDifferInGroupsAndBits) {
  const Products halves(16, {0.5f, 1.0f}), ones(16, {1.0f, 1.0f});
  const auto run = [](int compute, const Products& products) {
    return SingleDot({compute, Type::kF16, Type::kF32, 16}, products, 0x1p25f);
  };
  EXPECT_EQ(run(80, ones), 0x1p25f);    // the unit is 2
  EXPECT_EQ(run(90, halves), 0x1p25f);  // the unit is 1
  EXPECT_EQ(run(90, ones), 0x1p25f + 16);
}

TEST(TensorCore, GroupsAndBitsAreThoseOfEachArchitecture) {
  using ::testing::Pair;
  const auto model = [](const Case& form) {
    return std::pair(form.model().group, form.model().fraction_bits);
  };
  EXPECT_THAT(model({75, Type::kF16, Type::kF32, 8, 4}), Pair(4, 24));
  EXPECT_THAT(model({75, Type::kF16, Type::kF32, 8, 8}), Pair(8, 24));
  for (const int compute : {80, 86, 89}) {
    EXPECT_THAT(model({compute, Type::kBf16, Type::kF32, 8}), Pair(8, 24));
    EXPECT_THAT(model({compute, Type::kBf16, Type::kF32, 16}), Pair(8, 24));
    EXPECT_THAT(model({compute, Type::kTf32, Type::kF32, 8}), Pair(4, 24));
  }
  EXPECT_THAT(model({90, Type::kF16, Type::kF32, 16}), Pair(16, 25));
  EXPECT_THAT(model({90, Type::kTf32, Type::kF32, 8}), Pair(8, 25));
}

// 2^24 + 3 lies between 2^24 + 2 and 2^24 + 4, which the nearest even would be.
TEST(TensorCore, SinglesAreCutOffTowardsZero) {
  EXPECT_EQ(SingleDot(kAmpereHalf, {{3, 1}}, 0x1p24f), 0x1p24f + 2);
  EXPECT_EQ(SingleDot(kAmpereHalf, {{3, -1}}, -0x1p24f), -0x1p24f - 2);
}

TEST(TensorCore, HalvesAreRoundedToTheNearestEven) {
  const auto half = [](const Products& products, float c) {
    return ToF32(F16{static_cast<uint16_t>(Dot(kAmpereHalfToHalf, products, c))});
  };
  EXPECT_EQ(half({{1, 1}}, 2048), 2048);
  EXPECT_EQ(half({{1, 1}}, 2050), 2052);
  EXPECT_EQ(half({{1, 1}, {1, 0x1p-10f}}, 2048), 2050);
  EXPECT_EQ(half({{15.984375f, 1}}, 65504), 65504);
  EXPECT_EQ(half({{16, 1}}, 65504), INFINITY);
}

// 16 products of almost 4 and a 1: more than 2^31 of their unit.
TEST(TensorCore, TheLargestSumIsHeld) {
  constexpr float kAlmostTwo = 2 - 0x1p-10f;
  const Products products(16, {kAlmostTwo, kAlmostTwo});
  EXPECT_EQ(SingleDot({90, Type::kF16, Type::kF32, 16}, products, 1), 65 - 0x1p-4f + 0x1p-16f);
}

// 2^-24 counts with 2^-14, beside which 2^-39 is nothing.
TEST(TensorCore, ASubnormalFactorHasTheLeastExponent) {
  EXPECT_EQ(SingleDot(kAmpereHalf, {{0x1p-24f, 1}}, 0x1p-39f), 0x1p-24f);
  EXPECT_EQ(SingleDot(kAmpereHalf, {{0x1p-24f, 1}}, 0x1p-38f), 0x1p-24f + 0x1p-38f);
}

TEST(TensorCore, SubnormalResultsAreKept) {
  EXPECT_EQ(SingleDot(kAmpereBf16, {{0x1p-70f, 0x1p-70f}}, 0), 0x1p-140f);
  EXPECT_EQ(SingleDot(kAmpereBf16, {{0x1p-70f, 0x1p-70f}}, -0x1p-126f), -0x1p-126f + 0x1p-140f);
}

// 0 * 2^100 has the exponent -26, beside which 2^-140 is nothing.
TEST(TensorCore, AZeroHasAnExponent) {
  EXPECT_EQ(SingleDot(kAmpereBf16, {{0x1p-70f, 0x1p-70f}, {0, 0x1p100f}}, 0), 0);
}

TEST(TensorCore, ASumOfZeroIsPositive) {
  EXPECT_EQ(Dot(kAmpereHalf, {{-1, 1}}, 1), 0u);
  const Products zeros(16, {-0.0f, 1.0f});
  EXPECT_EQ(Dot(kAmpereHalf, zeros, -0.0f), 0u);
  EXPECT_EQ(Dot(kAmpereHalfToHalf, zeros, -0.0f), 0u);
}

// -2^-150 is half of the least f32, -2^-25 of the least f16.
TEST(TensorCore, WhatIsTooSmallKeepsItsSign) {
  EXPECT_EQ(Dot({80, Type::kBf16, Type::kF32, 8}, {{-0x1p-75f, 0x1p-75f}}, 0), 0x80000000u);
  EXPECT_EQ(Dot({80, Type::kF16, Type::kF16, 8}, {{-0x1p-14f, 0x1p-11f}}, 0), 0x8000u);
}

}  // namespace
}  // namespace duotone::emulator
