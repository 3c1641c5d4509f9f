// f16 and bf16 instructions against exact arithmetic in integers and a search for the nearest
// number of the format.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>

#include "base/float16.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using Wide = __int128;

// A 16-bit format whose finite numbers are integers of one small unit: f16 itself, and bf16 with
// its exponents near 0.
struct Format {
  Type type;
  int unit;       // the exponent of the unit
  int low, high;  // bits without the sign: the numbers in between are used
};
const Format kHalf = {Type::kF16, -24, 0, 0x7bff};
const Format kBrain = {Type::kBf16, -36, 0x3180, 0x4780};

float ValueOf(uint64_t bits, const Format& format) {
  const auto half = static_cast<uint16_t>(bits);
  return format.type == Type::kF16 ? ToF32(F16{half}) : ToF32(BF16{half});
}
Wide UnitsOf(uint64_t bits, const Format& format) {
  return static_cast<Wide>(std::ldexp(static_cast<double>(ValueOf(bits, format)), -format.unit));
}

// The number nearest to `exact` squared units, ties to even bits; the sign of zero is `negative`.
uint64_t Nearest(Wide exact, const Format& format, bool negative) {
  const uint64_t sign = exact < 0 || (exact == 0 && negative) ? 0x8000 : 0;
  if (exact == 0) return sign;
  const Wide magnitude = exact < 0 ? -exact : exact;
  const auto at = [&](int bits) {
    const double value = ValueOf(static_cast<uint64_t>(bits), format);
    return static_cast<Wide>(std::ldexp(value, -2 * format.unit));
  };
  int low = 0, high = format.type == Type::kF16 ? 0x7bff : 0x5000;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (at(middle) <= magnitude ? low : high) = middle;
  }
  if (at(high) <= magnitude) low = high;
  const bool is_largest = format.type == Type::kF16 && low == 0x7bff;
  // Beyond the largest f16 the next one would be 65536.
  const Wide above = is_largest ? Wide{65536} << (-2 * format.unit) : at(low + 1);
  const Wide to_low = magnitude - at(low), to_above = above - magnitude;
  const bool up = to_low > to_above || (to_low == to_above && low % 2 == 1);
  return sign | static_cast<uint64_t>(up ? low + 1 : low);
}

class EveryFormat : public ::testing::TestWithParam<Format> {
 protected:
  std::string Name(const std::string& op) const {
    return op + (GetParam().type == Type::kF16 ? ".f16" : ".bf16");
  }
  // Many triples of numbers; every third has a small difference of exponents.
  void ForMany(const std::string& text,
               const std::function<uint64_t(uint64_t, uint64_t, uint64_t)>& expected) {
    const Format& format = GetParam();
    std::mt19937 random(6);
    const auto number = [&](int around) -> uint64_t {
      int bits = format.low +
                 static_cast<int>(random() % static_cast<unsigned>(format.high - format.low + 1));
      if (around > 0) bits = around + static_cast<int>(random() % 0x400) - 0x200;
      bits = std::clamp(bits, format.low, format.high);
      return static_cast<uint64_t>(bits) | (random() % 2 == 0 ? 0x8000 : 0);
    };
    for (int round = 0; round < 400; ++round) {
      Lanes a, b, c;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        a[lane] = number(0);
        const int near = round % 3 == 0 ? static_cast<int>(a[lane] & 0x7fff) : 0;
        b[lane] = number(near);
        c[lane] = number(near);
      }
      auto result = RunLines(
          text,
          {{"d", Type::kB16}, {"a", Type::kB16, a}, {"b", Type::kB16, b}, {"c", Type::kB16, c}});
      for (size_t lane = 0; lane < kLanes; ++lane) {
        ASSERT_EQ(result["d"][lane], expected(a[lane], b[lane], c[lane]))
            << text << " of " << ValueOf(a[lane], format) << ", " << ValueOf(b[lane], format)
            << ", " << ValueOf(c[lane], format);
      }
    }
  }
  Wide Units(uint64_t bits) const { return UnitsOf(bits, GetParam()); }
  Wide Squared(uint64_t bits) const { return Units(bits) << -GetParam().unit; }
  static bool Negative(uint64_t bits) { return (bits & 0x8000) != 0; }
};

TEST_P(EveryFormat, SumsRoundOnce) {
  ForMany(Name("add.rn") + " %d, %a, %b;", [&](uint64_t a, uint64_t b, uint64_t) {
    return Nearest(Squared(a) + Squared(b), GetParam(), Negative(a) && Negative(b));
  });
  ForMany(Name("sub.rn") + " %d, %a, %b;", [&](uint64_t a, uint64_t b, uint64_t) {
    return Nearest(Squared(a) - Squared(b), GetParam(), Negative(a) && !Negative(b));
  });
}

TEST_P(EveryFormat, ProductsRoundOnce) {
  ForMany(Name("mul.rn") + " %d, %a, %b;", [&](uint64_t a, uint64_t b, uint64_t) {
    return Nearest(Units(a) * Units(b), GetParam(), Negative(a) != Negative(b));
  });
}

TEST_P(EveryFormat, FusedOnesRoundOnce) {
  ForMany(Name("fma.rn") + " %d, %a, %b, %c;", [&](uint64_t a, uint64_t b, uint64_t c) {
    const Wide product = Units(a) * Units(b);
    const bool negative = Negative(c) && Negative(a) != Negative(b);
    return Nearest(product + Squared(c), GetParam(), negative);
  });
}

TEST_P(EveryFormat, MinAndMaxAreOneOfTheTwo) {
  ForMany(Name("min") + " %d, %a, %b;", [&](uint64_t a, uint64_t b, uint64_t) {
    if (Units(a) == Units(b)) return Negative(a) ? a : b;
    return Units(a) < Units(b) ? a : b;
  });
  ForMany(Name("max") + " %d, %a, %b;", [&](uint64_t a, uint64_t b, uint64_t) {
    if (Units(a) == Units(b)) return Negative(a) ? b : a;
    return Units(a) > Units(b) ? a : b;
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, ::testing::Values(kHalf, kBrain),
                         [](const auto& info) { return std::string(TypeName(info.param.type)); });

// Over all bits: NaN becomes the canonical one, everything else changes its sign only.
TEST(HalfOps, SignsOfAllNumbers) {
  for (uint32_t first = 0; first < 65536; first += kLanes) {
    Lanes a;
    for (uint32_t lane = 0; lane < kLanes; ++lane) a[lane] = first + lane;
    auto result = RunLines("neg.f16 %n, %a; abs.f16 %m, %a; neg.bf16 %o, %a; abs.bf16 %p, %a;",
                           {{"n", Type::kB16},
                            {"m", Type::kB16},
                            {"o", Type::kB16},
                            {"p", Type::kB16},
                            {"a", Type::kB16, a}});
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint64_t bits = a[lane];
      const bool is_nan = (bits & 0x7fff) > 0x7c00, is_bf16_nan = (bits & 0x7fff) > 0x7f80;
      EXPECT_EQ(result["n"][lane], is_nan ? 0x7fff : bits ^ 0x8000) << bits;
      EXPECT_EQ(result["m"][lane], is_nan ? 0x7fff : bits & 0x7fff) << bits;
      EXPECT_EQ(result["o"][lane], is_bf16_nan ? 0x7fff : bits ^ 0x8000) << bits;
      EXPECT_EQ(result["p"][lane], is_bf16_nan ? 0x7fff : bits & 0x7fff) << bits;
    }
  }
}

uint64_t RunHalf(const std::string& text, uint64_t a, uint64_t b = 0, uint64_t c = 0) {
  return RunLines(text, {{"d", Type::kB16},
                         {"a", Type::kB16, Repeat({a})},
                         {"b", Type::kB16, Repeat({b})},
                         {"c", Type::kB16, Repeat({c})}})["d"][0];
}

TEST(HalfOps, SpecialValues) {
  EXPECT_EQ(RunHalf("sub.f16 %d, %a, %b;", 0x7c00, 0x7c00), 0x7fffu);
  EXPECT_EQ(RunHalf("mul.f16 %d, %a, %b;", 0x7c00, 0x0000), 0x7fffu);
  EXPECT_EQ(RunHalf("add.f16 %d, %a, %b;", 0xfc00, 0x3c00), 0xfc00u);
  EXPECT_EQ(RunHalf("max.f16 %d, %a, %b;", 0x7e00, 0xbc00), 0xbc00u);
  EXPECT_EQ(RunHalf("max.NaN.f16 %d, %a, %b;", 0x7e00, 0xbc00), 0x7fffu);
  EXPECT_EQ(RunHalf("fma.rn.relu.f16 %d, %a, %b, %c;", 0x3c00, 0xbc00, 0x0000), 0x0000u);
  EXPECT_EQ(RunHalf("fma.rn.relu.f16 %d, %a, %b, %c;", 0x7e00, 0xbc00, 0x0000), 0x7fffu);
}

TEST(HalfOps, FlushAndSaturate) {
  // 2^-20 is subnormal.
  EXPECT_EQ(RunHalf("add.ftz.f16 %d, %a, %b;", 0x0010, 0x0010), 0x0000u);
  EXPECT_EQ(RunHalf("mul.ftz.f16 %d, %a, %b;", 0x8400, 0x3800), 0x8000u);
  EXPECT_EQ(RunHalf("mul.f16 %d, %a, %b;", 0x8400, 0x3800), 0x8200u);
  EXPECT_EQ(RunHalf("add.sat.f16 %d, %a, %b;", 0x3c00, 0x3c00), 0x3c00u);
  EXPECT_EQ(RunHalf("add.sat.f16 %d, %a, %b;", 0xbc00, 0x3800), 0x0000u);
  EXPECT_EQ(RunHalf("add.sat.f16 %d, %a, %b;", 0x7e00, 0x3800), 0x0000u);
}

TEST(HalfOps, PairsAreTwoNumbers) {
  const uint64_t pair =
      RunLines("add.f16x2 %d, %a, %b;", {{"d", Type::kB32},
                                         {"a", Type::kB32, Repeat({0x40003c00})},
                                         {"b", Type::kB32, Repeat({0x3c003c00})}})["d"][0];
  EXPECT_EQ(pair, 0x42004000u);  // 3, 2
}

}  // namespace
}  // namespace duotone::emulator
