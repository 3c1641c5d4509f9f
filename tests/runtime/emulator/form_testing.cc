#include "tests/runtime/emulator/form_testing.h"

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace duotone::emulator {
namespace {

using exact::Format;
using exact::Number;

// Two neighbours in one register, the first in the lower half.
Column Paired(const Column& halves) {
  Column pairs;
  for (size_t i = 0; i < halves.size(); i += 2) pairs.push_back(halves[i] | halves[i + 1] << 16);
  return pairs;
}

// -0 lies below +0. NaN counts as missing, or decides with .NaN.
uint64_t SmallerOrLarger(const Form& form, uint64_t a, uint64_t b) {
  const Format& format = form.format;
  const bool a_is_nan = format.IsNan(a), b_is_nan = format.IsNan(b);
  if ((a_is_nan && b_is_nan) || (form.nan && (a_is_nan || b_is_nan))) return format.nan;
  if (a_is_nan) return b;
  if (b_is_nan) return a;
  // Bits in the order of their numbers.
  const auto rank = [&](uint64_t bits) {
    const auto magnitude = static_cast<int64_t>(bits & ~format.sign());
    return format.IsNegative(bits) ? -1 - magnitude : magnitude;
  };
  return (rank(a) < rank(b)) == absl::StartsWith(form.op, "min") ? a : b;
}

}  // namespace

std::vector<std::string> Crossed(const std::vector<std::vector<std::string>>& lists) {
  std::vector<std::string> all = {""};
  for (const std::vector<std::string>& list : lists) {
    std::vector<std::string> longer;
    for (const std::string& start : all) {
      for (const std::string& end : list) longer.push_back(start + end);
    }
    all = longer;
  }
  return all;
}

Form::Form(std::string_view op_and_modifiers, const Format& format)
    : op(op_and_modifiers), format(format) {
  const auto has = [&](const char* modifier) { return absl::StrContains(op, modifier); };
  ftz = has(".ftz"), sat = has(".sat"), relu = has(".relu"), nan = has(".NaN");
  if (has(".rz")) rounding = Rounding::kRz;
  if (has(".rm")) rounding = Rounding::kRm;
  if (has(".rp")) rounding = Rounding::kRp;
  const std::string name = op.substr(0, op.find('.'));
  const bool of_one = name == "neg" || name == "abs" || name == "rcp" || name == "sqrt";
  operands = of_one ? 1 : name == "fma" || name == "mad" ? 3 : 2;
}

uint64_t Form::Expected(uint64_t a, uint64_t b, uint64_t c) const {
  if (ftz) {
    a = Flush(a, format), b = Flush(b, format), c = Flush(c, format);
  }
  const auto is = [&](const char* name) { return absl::StartsWith(op, name); };
  if (is("neg") || is("abs")) {
    if (format.IsNan(a)) return format.nan;
    return is("neg") ? a ^ format.sign() : a & ~format.sign();
  }
  if (is("copysign")) return (a & format.sign()) | (b & ~format.sign());
  if (is("min") || is("max")) return SmallerOrLarger(*this, a, b);
  const Number x = Decode(a, format), y = Decode(b, format), z = Decode(c, format);
  const Number result = is("add")    ? Add(x, y, rounding)
                        : is("sub")  ? Add(x, Negate(y), rounding)
                        : is("mul")  ? Multiply(x, y)
                        : is("div")  ? Divide(x, y)
                        : is("rcp")  ? Divide(exact::FromInteger(1), x)
                        : is("sqrt") ? SquareRoot(x)
                                     : Add(Multiply(x, y), z, rounding);
  uint64_t bits = Encode(result, format, rounding);
  if (ftz) bits = Flush(bits, format);
  if (sat) bits = Saturate(bits, format);
  return relu ? ClampToZero(bits, format) : bits;
}

std::string Form::TypeName(bool of_pair) const {
  return absl::StrFormat("%s%s", emulator::TypeName(format.type), of_pair ? "x2" : "");
}

std::vector<Form> FormsOf(const std::vector<std::string>& ops, const Format& format) {
  std::vector<Form> forms;
  forms.reserve(ops.size());
  for (const std::string& op : ops) forms.emplace_back(op, format);
  return forms;
}

std::string FormName(const ::testing::TestParamInfo<Form>& info) {
  std::string name = absl::StrCat(info.param.op, "_", info.param.TypeName());
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
}

std::vector<Column> OperandsOf(const Form& form, size_t random_ones) {
  const Format& format = form.format;
  const Column edges = EdgeValues(format);
  std::vector<Column> columns(static_cast<size_t>(form.operands));
  const auto add = [&](uint64_t a, uint64_t b, uint64_t c) {
    const uint64_t row[] = {a, b, c};
    for (size_t i = 0; i < columns.size(); ++i) columns[i].push_back(row[i]);
  };
  size_t crossed = 1;
  for (size_t i = 0; i < columns.size(); ++i) crossed *= edges.size();
  for (size_t i = 0; i < crossed; ++i) {
    const size_t n = edges.size();
    add(edges[i % n], edges[i / n % n], edges[i / n / n]);
  }
  std::mt19937_64 random(11);
  const uint64_t all = format.sign() | (format.sign() - 1);
  // Within eight binades of another number; any sign.
  const auto near = [&](uint64_t bits) {
    const uint64_t distance = random() % (16 * format.smallest_normal());
    return (((bits & ~format.sign()) + distance - 8 * format.smallest_normal()) & ~format.sign()) |
           (random() & format.sign());
  };
  for (size_t i = 0; i < random_ones; ++i) {
    const uint64_t a = random() & all;
    uint64_t b = random() & all, c = random() & all;
    if (i % 3 == 1) b = near(a), c = near(a);
    if (i % 3 == 2) b = near(format.one()), c = near(a);
    // Without their last bits in half of the cases.
    const uint64_t kept = i / 3 % 2 == 0 ? all : all << (random() % format.fraction) & all;
    add(a & kept, b & kept, c & kept);
  }
  return columns;
}

void CheckForm(const Form& form, const std::vector<Column>& operands, bool of_pairs) {
  const char* const names[] = {"a", "b", "c"};
  std::string text = absl::StrCat(form.op, ".", form.TypeName(of_pairs), " %d");
  const Type type = of_pairs || form.format.bits == 32 ? Type::kB32
                    : form.format.bits == 16           ? Type::kB16
                                                       : Type::kB64;
  std::vector<TestColumn> columns = {{"d", type}};
  for (size_t i = 0; i < operands.size(); ++i) {
    absl::StrAppend(&text, ", %", names[i]);
    columns.push_back({names[i], type, of_pairs ? Paired(operands[i]) : operands[i]});
  }
  const Column results = RunColumns(text + ";", columns)["d"];
  ASSERT_FALSE(results.empty());
  for (size_t i = 0; i < operands[0].size(); ++i) {
    const uint64_t got = of_pairs ? results[i / 2] >> (i % 2 * 16) & 0xffff : results[i];
    const auto operand = [&](size_t k) { return k < operands.size() ? operands[k][i] : 0; };
    const uint64_t wanted = form.Expected(operand(0), operand(1), operand(2));
    if (form.format.bits == 64 && form.format.IsNan(got) && form.format.IsNan(wanted)) continue;
    ASSERT_EQ(got, wanted) << absl::StrFormat("%s of %#x, %#x, %#x gives %#x instead of %#x", text,
                                              operand(0), operand(1), operand(2), got, wanted);
  }
}

}  // namespace duotone::emulator
