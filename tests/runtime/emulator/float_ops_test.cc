// f32 and f64 instructions against quad precision, rounded here.
#include <gmock/gmock.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "absl/strings/str_format.h"
#include "runtime/emulator/rounding.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using Quad = __float128;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Samples() {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               -1.0f,
                               3.0f,
                               0.1f,
                               kInf,
                               -kInf,
                               kNan,
                               1.5f,
                               0x1p-149f,
                               -0x1p-149f,
                               0x1p-126f,
                               -0x1p-126f,
                               0x1.fffffep127f,
                               -0x1.fffffep127f,
                               0x1p64f,
                               0x1p-64f,
                               0x1.000002p0f,
                               0x1.fffffep-1f,
                               0x1p24f,
                               16777215.0f,
                               0x1.8p-127f,
                               7.0f,
                               -0.3f,
                               1e-30f,
                               1e30f,
                               100.5f};
  std::mt19937 random(7);
  while (values.size() < 96) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    values.push_back(value);
  }
  return values;
}

// The f32 that `exact` rounds to. Neighbours are compared in quad precision, which holds every sum
// and product of f32 up to its last bit or well beyond it.
float Rounded(Quad exact, Rounding rounding) {
  if (exact != exact) return kNan;
  const Quad largest = 0x1.fffffep127;
  const Quad magnitude = exact < 0 ? -exact : exact;
  if (magnitude > Quad{1e300}) return exact > 0 ? kInf : -kInf;
  // A candidate from above and one from below.
  auto nearest = static_cast<float>(static_cast<double>(exact));
  float below = nearest, above = nearest;
  while (Quad{below} > exact) below = std::nextafterf(below, -kInf);
  while (Quad{above} < exact) above = std::nextafterf(above, kInf);
  if (std::isinf(below) || std::isinf(above)) {
    // Between the largest number and what would be 2^128.
    const bool to_inf = rounding == Rounding::kRn   ? magnitude >= Quad{0x1.ffffffp127}
                        : rounding == Rounding::kRp ? exact > 0
                        : rounding == Rounding::kRm ? exact < 0
                                                    : false;
    if (magnitude <= largest) return nearest;
    const float end = to_inf ? kInf : 0x1.fffffep127f;
    return exact > 0 ? end : -end;
  }
  while (Quad{std::nextafterf(below, kInf)} <= exact) below = std::nextafterf(below, kInf);
  while (Quad{std::nextafterf(above, -kInf)} >= exact) above = std::nextafterf(above, -kInf);
  switch (rounding) {
    case Rounding::kRm:
      return below;
    case Rounding::kRp:
      return above;
    case Rounding::kRz:
      return exact > 0 ? below : above;
    default:
      break;
  }
  const Quad low = exact - Quad{below}, high = Quad{above} - exact;
  if (low != high) return low < high ? below : above;
  return (std::bit_cast<uint32_t>(below) & 1) == 0 ? below : above;
}

// A sum may need more than the 113 bits of quad precision; what is lost then lies far below the
// last bit of an f32, but says on which side of it the exact sum is: the last bit of the result is
// set on that side.
Quad Sum(Quad a, Quad b) {
  const Quad sum = a + b;
  const Quad back = sum - a;
  const Quad lost = (a - (sum - back)) + (b - back);
  unsigned __int128 bits;
  std::memcpy(&bits, &sum, sizeof(bits));
  if (lost == 0 || sum == 0 || (bits & 1) != 0) return sum;
  bits += (lost > 0) == (sum > 0) ? 1 : -1;
  Quad odd;
  std::memcpy(&odd, &bits, sizeof(odd));
  return odd;
}

// Signs of zeros and specials are the host's, whose operations are IEEE's.
void CheckAgainstQuad(const std::string& op, Rounding rounding,
                      const std::function<Quad(Quad, Quad, Quad)>& exact,
                      const std::function<float(float, float, float)>& host) {
  const std::vector<float> values = Samples();
  for (size_t turn = 1; turn < 40; turn += 3) {
    for (size_t i = 0; i < values.size(); i += kLanes) {
      std::vector<float> a, b, c;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        a.push_back(values[i + lane]);
        b.push_back(values[(i + lane + turn) % values.size()]);
        c.push_back(values[(i + lane * turn + 5) % values.size()]);
        // Operands that the instruction does not have say nothing.
        if (op.find("%b") == std::string::npos) b.back() = 1;
        if (op.find("%c") == std::string::npos) c.back() = 1;
      }
      auto result = RunLines(op, {{"d", Type::kF32},
                                  {"a", Type::kF32, Floats(a)},
                                  {"b", Type::kF32, Floats(b)},
                                  {"c", Type::kF32, Floats(c)}});
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float got = FloatOf(result["d"][lane]);
        const float usual = host(a[lane], b[lane], c[lane]);
        const std::string where =
            absl::StrFormat("%s of %a, %a, %a", op, a[lane], b[lane], c[lane]);
        if (std::isnan(usual)) {
          ASSERT_EQ(result["d"][lane], 0x7fffffffu) << where;
          continue;
        }
        const bool has_inf = std::isinf(a[lane]) || std::isinf(b[lane]) || std::isinf(c[lane]);
        const Quad value = exact(a[lane], b[lane], c[lane]);
        if (has_inf || value == 0) {
          ASSERT_EQ(got, usual) << where;
          continue;
        }
        ASSERT_EQ(got, Rounded(value, rounding)) << where;
      }
    }
  }
}

class EveryRounding : public ::testing::TestWithParam<std::pair<const char*, Rounding>> {};

TEST_P(EveryRounding, SumsProductsAndFusedOnesRoundOnce) {
  const auto& [name, rounding] = GetParam();
  CheckAgainstQuad(
      absl::StrFormat("add.%s.f32 %%d, %%a, %%b;", name), rounding,
      [](Quad a, Quad b, Quad) { return Sum(a, b); },
      [](float a, float b, float) { return a + b; });
  CheckAgainstQuad(
      absl::StrFormat("sub.%s.f32 %%d, %%a, %%b;", name), rounding,
      [](Quad a, Quad b, Quad) { return Sum(a, -b); },
      [](float a, float b, float) { return a - b; });
  CheckAgainstQuad(
      absl::StrFormat("mul.%s.f32 %%d, %%a, %%b;", name), rounding,
      [](Quad a, Quad b, Quad) { return a * b; }, [](float a, float b, float) { return a * b; });
}

TEST_P(EveryRounding, FmaRoundsOnce) {
  const auto& [name, rounding] = GetParam();
  CheckAgainstQuad(
      absl::StrFormat("fma.%s.f32 %%d, %%a, %%b, %%c;", name), rounding,
      [](Quad a, Quad b, Quad c) { return Sum(a * b, c); },
      [](float a, float b, float c) { return std::fmaf(a, b, c); });
}

TEST_P(EveryRounding, QuotientsAndRootsRoundOnce) {
  const auto& [name, rounding] = GetParam();
  CheckAgainstQuad(
      absl::StrFormat("div.%s.f32 %%d, %%a, %%b;", name), rounding,
      [](Quad a, Quad b, Quad) { return b == 0 ? Quad{0} : a / b; },
      [](float a, float b, float) { return a / b; });
  CheckAgainstQuad(
      absl::StrFormat("rcp.%s.f32 %%d, %%a;", name), rounding,
      [](Quad a, Quad, Quad) { return a == 0 ? Quad{0} : 1 / a; },
      [](float a, float, float) { return 1.0f / a; });
}

INSTANTIATE_TEST_SUITE_P(Modes, EveryRounding,
                         ::testing::Values(std::pair("rn", Rounding::kRn),
                                           std::pair("rz", Rounding::kRz),
                                           std::pair("rm", Rounding::kRm),
                                           std::pair("rp", Rounding::kRp)),
                         [](const auto& info) { return info.param.first; });

uint64_t RunOne(const std::string& text, float a, float b = 0) {
  return RunLines(
      text,
      {{"d", Type::kF32}, {"a", Type::kF32, Floats({a})}, {"b", Type::kF32, Floats({b})}})["d"][0];
}

TEST(FloatOps, RootsAreOfTheHost) {
  for (float value : Samples()) {
    const uint64_t got = RunOne("sqrt.rn.f32 %d, %a;", value);
    const float wanted = std::sqrt(value);
    EXPECT_EQ(got, std::isnan(wanted) ? 0x7fffffffu : std::bit_cast<uint32_t>(wanted));
  }
  // 2 has no exact root: the neighbours on its two sides.
  const float down = FloatOf(RunOne("sqrt.rm.f32 %d, %a;", 2.0f));
  const float up = FloatOf(RunOne("sqrt.rp.f32 %d, %a;", 2.0f));
  EXPECT_LT(double{down} * down, 2.0);
  EXPECT_GT(double{up} * up, 2.0);
  EXPECT_EQ(std::nextafterf(down, kInf), up);
}

TEST(FloatOps, FtzFlushesOperandsAndResultsKeepingTheSign) {
  EXPECT_EQ(RunOne("add.ftz.f32 %d, %a, %b;", 0x1p-130f, 0x1p-130f), 0u);
  EXPECT_EQ(RunOne("mul.ftz.f32 %d, %a, %b;", -0x1p-100f, 0x1p-40f), 0x80000000u);
  EXPECT_EQ(RunOne("mul.f32 %d, %a, %b;", 0x1p-100f, 0x1p-40f), std::bit_cast<uint32_t>(0x1p-140f));
  EXPECT_EQ(RunOne("add.ftz.f32 %d, %a, %b;", 0x1p-126f, 0.0f), std::bit_cast<uint32_t>(0x1p-126f));
}

TEST(FloatOps, SatClampsToOneAndMakesNanZero) {
  EXPECT_EQ(FloatOf(RunOne("add.sat.f32 %d, %a, %b;", 0.75f, 0.5f)), 1.0f);
  EXPECT_EQ(RunOne("add.sat.f32 %d, %a, %b;", -3.0f, 0.5f), 0u);
  EXPECT_EQ(RunOne("add.sat.f32 %d, %a, %b;", kNan, 0.5f), 0u);
  EXPECT_EQ(FloatOf(RunOne("mul.sat.f32 %d, %a, %b;", 0.5f, 0.5f)), 0.25f);
}

TEST(FloatOps, MinAndMaxPreferNumbersAndOrderZeros) {
  EXPECT_EQ(FloatOf(RunOne("min.f32 %d, %a, %b;", kNan, 2.0f)), 2.0f);
  EXPECT_EQ(FloatOf(RunOne("max.f32 %d, %a, %b;", -1.0f, kNan)), -1.0f);
  EXPECT_EQ(RunOne("max.NaN.f32 %d, %a, %b;", -1.0f, kNan), 0x7fffffffu);
  EXPECT_EQ(RunOne("min.f32 %d, %a, %b;", 0.0f, -0.0f), 0x80000000u);
  EXPECT_EQ(RunOne("max.f32 %d, %a, %b;", -0.0f, 0.0f), 0u);
  EXPECT_EQ(RunOne("min.f32 %d, %a, %b;", kNan, kNan), 0x7fffffffu);
}

TEST(FloatOps, CopysignTakesTheSignOfItsFirstOperand) {
  EXPECT_EQ(FloatOf(RunOne("copysign.f32 %d, %a, %b;", -2.0f, 3.0f)), -3.0f);
  EXPECT_EQ(FloatOf(RunOne("copysign.f32 %d, %a, %b;", 2.0f, -3.0f)), 3.0f);
}

TEST(FloatOps, DoublesAreOfTheHostInEveryMode) {
  const auto run = [](const std::string& text, double a, double b) {
    return DoubleOf(RunLines(text, {{"d", Type::kF64},
                                    {"a", Type::kF64, Doubles({a})},
                                    {"b", Type::kF64, Doubles({b})}})["d"][0]);
  };
  EXPECT_EQ(run("add.rn.f64 %d, %a, %b;", 0.1, 0.2), 0.1 + 0.2);
  EXPECT_EQ(run("div.rn.f64 %d, %a, %b;", 1.0, 3.0), 1.0 / 3.0);
  const double down = run("div.rm.f64 %d, %a, %b;", 1.0, 3.0);
  const double up = run("div.rp.f64 %d, %a, %b;", 1.0, 3.0);
  EXPECT_LT(Quad{down} * 3, Quad{1});
  EXPECT_GT(Quad{up} * 3, Quad{1});
  EXPECT_EQ(std::nextafter(down, 1.0), up);
  EXPECT_EQ(run("div.rz.f64 %d, %a, %b;", -1.0, 3.0), -down);
}

// Where the host has no such instruction: the same bits as where it has.
TEST(FloatOps, FusedMultiplyAddNeedsNoInstructionForIt) {
  const std::vector<float> values = Samples();
  for (float a : values) {
    for (float b : values) {
      for (float c : values) {
        const float wanted = std::fmaf(a, b, c), got = FusedMultiplyAdd(a, b, c);
        if (std::isnan(wanted)) {
          ASSERT_TRUE(std::isnan(got));
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(wanted))
              << absl::StrFormat("%a * %a + %a", a, b, c);
        }
      }
    }
  }
}

TEST(FloatOps, RoundingModesOfTheHostAreLeftAlone) {
  const int before = std::fegetround();
  RunLines("div.rp.f64 %d, %a, %a;", {{"d", Type::kF64}, {"a", Type::kF64, Doubles({3.0})}});
  EXPECT_EQ(std::fegetround(), before);
}

}  // namespace
}  // namespace duotone::emulator
