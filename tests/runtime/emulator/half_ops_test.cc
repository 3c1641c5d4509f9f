// f16 and bf16 instructions, alone and as pairs, against exact arithmetic in integers: all numbers
// for one operand; all edge values and random ones for two and three.
#include <gmock/gmock.h>

#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/runtime/emulator/exact_arithmetic.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using exact::Decode;
using exact::Format;
using exact::kBf16;
using exact::kF16;
using exact::Number;
using Column = std::vector<uint64_t>;

// An instruction of one of the formats.
struct Form {
  Form(std::string_view op_and_modifiers, const Format& format)
      : op(op_and_modifiers), format(format) {
    const auto has = [&](const char* modifier) { return op.find(modifier) != std::string::npos; };
    ftz = has(".ftz"), sat = has(".sat"), relu = has(".relu"), nan = has(".NaN");
  }
  bool Is(std::string_view name) const { return op.compare(0, 3, name) == 0; }
  uint64_t In(uint64_t bits) const { return ftz ? Flush(bits, format) : bits; }
  uint64_t Out(uint64_t bits) const {
    if (ftz) bits = Flush(bits, format);
    if (sat) bits = Saturate(bits, format);
    return relu ? ClampToZero(bits, format) : bits;
  }
  std::string TypeName(bool of_pair) const {
    return absl::StrCat(format.type == Type::kF16 ? "f16" : "bf16", of_pair ? "x2" : "");
  }

  std::string op;  // "fma.rn.ftz.sat"
  Format format;
  bool ftz, sat, relu, nan;
};

// The forms of ops that exist for f16 and bf16.
std::vector<Form> Forms(const std::vector<std::string>& of_f16,
                        const std::vector<std::string>& of_bf16) {
  std::vector<Form> forms;
  for (const std::string& op : of_f16) forms.emplace_back(op, kF16);
  for (const std::string& op : of_bf16) forms.emplace_back(op, kBf16);
  return forms;
}
std::string FormName(const ::testing::TestParamInfo<Form>& info) {
  std::string name = absl::StrCat(info.param.op, "_", info.param.TypeName(false));
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
}

// Two neighbours in one register, the first in the lower half.
Column Paired(const Column& halves) {
  Column pairs;
  for (size_t i = 0; i < halves.size(); i += 2) pairs.push_back(halves[i] | halves[i + 1] << 16);
  return pairs;
}

// Runs the form on the operands, and its pairs on two of them at a time.
void Check(const Form& form, const std::vector<Column>& operands,
           const std::function<uint64_t(uint64_t, uint64_t, uint64_t)>& expected) {
  const size_t count = operands[0].size();
  const char* const names[] = {"a", "b", "c"};
  for (const bool of_pairs : {false, true}) {
    std::string text = absl::StrCat(form.op, ".", form.TypeName(of_pairs), " %d");
    const Type type = of_pairs ? Type::kB32 : Type::kB16;
    std::vector<TestColumn> columns = {{"d", type}};
    for (size_t i = 0; i < operands.size(); ++i) {
      absl::StrAppend(&text, ", %", names[i]);
      columns.push_back({names[i], type, of_pairs ? Paired(operands[i]) : operands[i]});
    }
    const Column results = RunColumns(text + ";", columns)["d"];
    for (size_t i = 0; i < count; ++i) {
      const uint64_t got = of_pairs ? results[i / 2] >> (i % 2 * 16) & 0xffff : results[i];
      const auto operand = [&](size_t k) { return k < operands.size() ? operands[k][i] : 0; };
      const uint64_t wanted = expected(operand(0), operand(1), operand(2));
      ASSERT_EQ(got, wanted) << absl::StreamFormat("%s of %#x, %#x, %#x gives %#x instead of %#x",
                                                   text, operand(0), operand(1), operand(2), got,
                                                   wanted);
    }
  }
}

// ---- One operand: all 65536 numbers

const Column& AllNumbers() {
  static const Column all = [] {
    Column numbers(65536);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    return numbers;
  }();
  return all;
}

class OfOne : public ::testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Forms, OfOne,
                         ::testing::ValuesIn(Forms({"neg", "neg.ftz", "abs", "abs.ftz"},
                                                   {"neg", "abs"})),
                         FormName);

// NaN becomes the canonical one, everything else changes its sign only.
TEST_P(OfOne, ChangesTheSignOnly) {
  const Form& form = GetParam();
  const Format& format = form.format;
  Check(form, {AllNumbers()}, [&](uint64_t a, uint64_t, uint64_t) {
    if (format.IsNan(a)) return format.nan;
    return form.In(form.Is("neg") ? a ^ format.sign() : a & ~format.sign());
  });
}

// ---- Two and three operands

// All edge values crossed, then random numbers: in half of them any, in half of them with exponents
// near those of the first, where terms cancel and ties are frequent.
std::vector<Column> Operands(const Format& format, int count, size_t random_ones) {
  const std::vector<uint64_t> edges = EdgeValues(format);
  std::vector<Column> columns(3);
  for (const uint64_t a : edges) {
    for (const uint64_t b : edges) {
      for (const uint64_t c : edges) {
        columns[0].push_back(a);
        columns[1].push_back(b);
        columns[2].push_back(c);
        if (count < 3) break;
      }
    }
  }
  std::mt19937 random(11);
  for (size_t i = 0; i < random_ones; ++i) {
    const uint64_t a = random() & 0xffff;
    const auto other = [&]() -> uint64_t {
      if (i % 2 == 0) return random() & 0xffff;
      const uint64_t near = a + random() % (16 << format.fraction) - (8 << format.fraction);
      return (near & 0x7fff) | (random() & 0x8000);
    };
    columns[0].push_back(a);
    columns[1].push_back(other());
    columns[2].push_back(other());
  }
  columns.resize(static_cast<size_t>(count));
  return columns;
}
constexpr size_t kRandomOnes = 30000;

class OfTwo : public ::testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(
    Forms, OfTwo,
    ::testing::ValuesIn(Forms({"add", "add.rn", "add.ftz", "add.sat", "add.rn.ftz.sat", "sub",
                               "sub.rn", "sub.ftz", "sub.sat", "sub.rn.ftz.sat", "mul", "mul.rn",
                               "mul.ftz", "mul.sat", "mul.rn.ftz.sat"},
                              {"add", "add.rn", "sub", "sub.rn", "mul", "mul.rn"})),
    FormName);

TEST_P(OfTwo, RoundsTheExactResultOnce) {
  const Form& form = GetParam();
  const Format& format = form.format;
  Check(form, Operands(format, 2, kRandomOnes), [&](uint64_t x, uint64_t y, uint64_t) {
    const Number a = Decode(form.In(x), format), b = Decode(form.In(y), format);
    const Number result =
        form.Is("mul") ? Multiply(a, b) : Add(a, form.Is("sub") ? Negate(b) : b, Rounding::kRn);
    return form.Out(Encode(result, format, Rounding::kRn));
  });
}

class OfThree : public ::testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Forms, OfThree,
                         ::testing::ValuesIn(Forms({"fma.rn", "fma.rn.ftz", "fma.rn.sat",
                                                    "fma.rn.ftz.sat", "fma.rn.relu",
                                                    "fma.rn.ftz.relu"},
                                                   {"fma.rn", "fma.rn.relu"})),
                         FormName);

TEST_P(OfThree, RoundsTheExactResultOnce) {
  const Form& form = GetParam();
  const Format& format = form.format;
  Check(form, Operands(format, 3, kRandomOnes), [&](uint64_t x, uint64_t y, uint64_t z) {
    const Number a = Decode(form.In(x), format), b = Decode(form.In(y), format),
                 c = Decode(form.In(z), format);
    return form.Out(Encode(Add(Multiply(a, b), c, Rounding::kRn), format, Rounding::kRn));
  });
}

class SmallerOrLarger : public ::testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Forms, SmallerOrLarger,
                         ::testing::ValuesIn(Forms({"min", "min.ftz", "min.NaN", "min.ftz.NaN",
                                                    "max", "max.ftz", "max.NaN", "max.ftz.NaN"},
                                                   {"min", "min.NaN", "max", "max.NaN"})),
                         FormName);

// -0 lies below +0. NaN counts as missing, or decides with .NaN.
TEST_P(SmallerOrLarger, IsOneOfTheTwo) {
  const Form& form = GetParam();
  const Format& format = form.format;
  // Bits of numbers in the order of the numbers.
  const auto rank = [&](uint64_t bits) {
    const auto magnitude = static_cast<int64_t>(bits & ~format.sign());
    return format.IsNegative(bits) ? -1 - magnitude : magnitude;
  };
  Check(form, Operands(format, 2, kRandomOnes), [&](uint64_t x, uint64_t y, uint64_t) {
    const bool a_is_nan = format.IsNan(x), b_is_nan = format.IsNan(y);
    if ((a_is_nan && b_is_nan) || (form.nan && (a_is_nan || b_is_nan))) return format.nan;
    const uint64_t a = form.In(x), b = form.In(y);
    if (a_is_nan) return b;
    if (b_is_nan) return a;
    return (rank(a) < rank(b)) == form.Is("min") ? a : b;
  });
}

// The lower half of a pair of registers is the first of its numbers.
TEST(HalfOps, PairsAreTwoNumbers) {
  const uint64_t pair =
      RunLines("add.f16x2 %d, %a, %b;", {{"d", Type::kB32},
                                         {"a", Type::kB32, Repeat({0x40003c00})},
                                         {"b", Type::kB32, Repeat({0x3c003c00})}})["d"][0];
  EXPECT_EQ(pair, 0x42004000u);  // 3, 2
}

}  // namespace
}  // namespace duotone::emulator
