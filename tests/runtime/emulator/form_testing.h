// Float instructions in all their forms, run on many operands and compared with exact arithmetic.
#ifndef DUOTONE_TESTS_RUNTIME_EMULATOR_FORM_TESTING_H_
#define DUOTONE_TESTS_RUNTIME_EMULATOR_FORM_TESTING_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/emulator/exact_arithmetic.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {

using Column = std::vector<uint64_t>;

// All concatenations of one of each: {".rn"} x {"", ".sat"}.
std::vector<std::string> Crossed(const std::vector<std::vector<std::string>>& lists);

// An instruction with its modifiers on a format: Form("fma.rn.ftz.sat", exact::kF16).
struct Form {
  Form(std::string_view op_and_modifiers, const exact::Format& format);
  // What add, sub, mul, fma, mad, div, rcp, sqrt, neg, abs, min, max and copysign must give.
  uint64_t Expected(uint64_t a, uint64_t b, uint64_t c) const;
  std::string TypeName(bool of_pair = false) const;  // "f16", "f16x2"
  friend std::ostream& operator<<(std::ostream& out, const Form& form) {
    return out << form.op << "." << form.TypeName();
  }

  std::string op;
  exact::Format format;
  Rounding rounding = Rounding::kRn;  // also where none is named
  bool ftz, sat, relu, nan;
  int operands;
};

std::vector<Form> FormsOf(const std::vector<std::string>& ops, const exact::Format& format);
std::string FormName(const ::testing::TestParamInfo<Form>& info);

// Columns of operands: all edge values crossed (one, two or three of them), then random ones, some
// of which are near each other or have few bits, so that terms cancel and ties are frequent.
std::vector<Column> OperandsOf(const Form& form, size_t random_ones);

// Runs the form on the operands, or the pairs of it on two of them at a time. NaN of f64 may be
// any.
void CheckForm(const Form& form, const std::vector<Column>& operands, bool of_pairs = false);

}  // namespace duotone::emulator

#endif  // DUOTONE_TESTS_RUNTIME_EMULATOR_FORM_TESTING_H_
