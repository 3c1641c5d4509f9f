// f16 and bf16 instructions, alone and as pairs, against exact arithmetic in integers: all numbers
// for one operand; all edge values and random ones for two and three.
#include <gmock/gmock.h>

#include "tests/runtime/emulator/form_testing.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

// The forms of ops that exist for f16 and bf16.
std::vector<Form> Forms(const std::vector<std::string>& of_f16,
                        const std::vector<std::string>& of_bf16) {
  std::vector<Form> forms = FormsOf(of_f16, exact::kF16);
  for (const Form& form : FormsOf(of_bf16, exact::kBf16)) forms.push_back(form);
  return forms;
}

class OfOne : public ::testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Forms, OfOne,
                         ::testing::ValuesIn(Forms({"neg", "neg.ftz", "abs", "abs.ftz"},
                                                   {"neg", "abs"})),
                         FormName);

// NaN becomes the canonical one, everything else changes its sign only.
TEST_P(OfOne, ChangesTheSignOfAllNumbers) {
  Column all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  for (const bool of_pairs : {false, true}) CheckForm(GetParam(), {all}, of_pairs);
}

class OfMany : public ::testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(
    Forms, OfMany,
    ::testing::ValuesIn(
        Forms(Crossed({{"add", "sub", "mul"}, {"", ".rn"}, {"", ".ftz"}, {"", ".sat"}}),
              Crossed({{"add", "sub", "mul"}, {"", ".rn"}}))),
    FormName);
INSTANTIATE_TEST_SUITE_P(
    Fused, OfMany,
    ::testing::ValuesIn(Forms(Crossed({{"fma.rn"}, {"", ".ftz"}, {"", ".sat", ".relu"}}),
                              {"fma.rn", "fma.rn.relu"})),
    FormName);
INSTANTIATE_TEST_SUITE_P(
    Choices, OfMany,
    ::testing::ValuesIn(Forms(Crossed({{"min", "max"}, {"", ".ftz"}, {"", ".NaN"}}),
                              Crossed({{"min", "max"}, {"", ".NaN"}}))),
    FormName);

TEST_P(OfMany, RoundsTheExactResultOnce) {
  const std::vector<Column> operands = OperandsOf(GetParam(), 20000);
  for (const bool of_pairs : {false, true}) CheckForm(GetParam(), operands, of_pairs);
}

// The lower half of a register is the first of its numbers.
TEST(HalfOps, PairsAreTwoNumbers) {
  const uint64_t pair =
      RunLines("add.f16x2 %d, %a, %b;", {{"d", Type::kB32},
                                         {"a", Type::kB32, Repeat({0x40003c00})},
                                         {"b", Type::kB32, Repeat({0x3c003c00})}})["d"][0];
  EXPECT_EQ(pair, 0x42004000u);  // 3, 2
}

}  // namespace
}  // namespace duotone::emulator
