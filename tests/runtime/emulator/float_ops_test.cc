// f32 and f64 instructions in all their forms against exact arithmetic in integers.
#include <gmock/gmock.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_format.h"
#include "runtime/emulator/rounding.h"
#include "tests/runtime/emulator/form_testing.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

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

// The forms of ops that exist for f32 and f64.
std::vector<Form> Forms(const std::vector<std::string>& of_f32,
                        const std::vector<std::string>& of_f64) {
  std::vector<Form> forms = FormsOf(of_f32, exact::kF32);
  for (const Form& form : FormsOf(of_f64, exact::kF64)) forms.push_back(form);
  return forms;
}
const std::vector<std::string> kModes = {".rn", ".rz", ".rm", ".rp"}, kFtz = {"", ".ftz"},
                               kSat = {"", ".sat"};

class EveryForm : public ::testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(
    Sums, EveryForm,
    ::testing::ValuesIn(
        Forms(Crossed({{"add", "sub", "mul"}, {"", ".rn", ".rz", ".rm", ".rp"}, kFtz, kSat}),
              Crossed({{"add", "sub", "mul"}, {"", ".rn", ".rz", ".rm", ".rp"}}))),
    FormName);
INSTANTIATE_TEST_SUITE_P(Fused, EveryForm,
                         ::testing::ValuesIn(Forms(Crossed({{"fma", "mad"}, kModes, kFtz, kSat}),
                                                   Crossed({{"fma", "mad"}, kModes}))),
                         FormName);
INSTANTIATE_TEST_SUITE_P(Quotients, EveryForm,
                         ::testing::ValuesIn(Forms(Crossed({{"div", "rcp", "sqrt"}, kModes, kFtz}),
                                                   Crossed({{"div", "rcp", "sqrt"}, kModes}))),
                         FormName);
INSTANTIATE_TEST_SUITE_P(Choices, EveryForm,
                         ::testing::ValuesIn(Forms(Crossed({{"min", "max"}, kFtz, {"", ".NaN"}}),
                                                   {"min", "max"})),
                         FormName);
INSTANTIATE_TEST_SUITE_P(Signs, EveryForm,
                         ::testing::ValuesIn(Forms({"neg", "neg.ftz", "abs", "abs.ftz", "copysign"},
                                                   {"neg", "abs", "copysign"})),
                         FormName);

// With all edge values crossed and random ones.
TEST_P(EveryForm, RoundsTheExactResultOnce) { CheckForm(GetParam(), OperandsOf(GetParam(), 6000)); }

uint64_t RunOne(const std::string& text, float a, float b = 0) {
  return RunLines(
      text,
      {{"d", Type::kF32}, {"a", Type::kF32, Floats({a})}, {"b", Type::kF32, Floats({b})}})["d"][0];
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
