#include "ir/op_docs.h"

#include <algorithm>
#include <concepts>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ir/op_def.h"

namespace duotone::ir {
namespace {

// Default values of attributes as the text form spells them.
std::string Spelled(bool value) { return value ? "true" : "false"; }
std::string Spelled(double value) { return absl::StrFormat("%g", value); }
std::string Spelled(int64_t value) { return absl::StrCat(value); }
std::string Spelled(const std::string& value) { return value; }
std::string Spelled(DType value) { return std::string(DTypeName(value)); }
std::string Spelled(const std::optional<DType>& value) {
  return value ? Spelled(*value) : "the operand's dtype";
}
std::string Spelled(const Dim& value) { return value.ToString(); }
std::string Spelled(const Shape& value) { return ToString(value); }
std::string Spelled(const Ints& value) {
  return absl::StrCat("[", absl::StrJoin(value, ", "), "]");
}
std::string Spelled(const Literal& value) { return Spelled(value.AsDouble(0)); }

std::string AttributesOf(const OpDef& def) {
  std::vector<std::string> entries;
  ForEachField(DefaultAttrs(def.attrs), [&](std::string_view name, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::same_as<T, ResultType> || std::same_as<T, ResultShape>) {
      entries.push_back("the result's type, after the colon");
    } else {
      entries.push_back(absl::StrFormat("`%s` = %s", name, Spelled(value)));
    }
  });
  return entries.empty() ? "none" : absl::StrJoin(entries, "; ");
}

std::string OperandCount(const Arity& arity) {
  if (arity.max == kVariadic) return absl::StrCat(arity.min, " or more");
  if (arity.min == arity.max) return absl::StrCat(arity.min);
  return absl::StrCat(arity.min, " to ", arity.max);
}

std::string Positions(const OperandSet& set, const Arity& arity) {
  if (arity.max == kVariadic && set.contains(31)) return "every operand";
  std::vector<int> positions;
  for (int i = 0; i < std::min(arity.max, 31); ++i) {
    if (set.contains(i)) positions.push_back(i);
  }
  return absl::StrJoin(positions, ", ");
}

std::string LinearIn(const OpDef& def) {
  if (def.linear.kind == Linearity::Kind::kNone) return "no operand";
  const bool joint = def.linear.kind == Linearity::Kind::kJoint;
  return absl::StrCat(Positions(def.linear.operands, def.operands),
                      joint ? " (together)" : " (each by itself)",
                      def.linear_if == nullptr ? "" : ", for some attributes");
}

void AppendOp(const OpDef& def, std::string& page) {
  const Precision& p = def.precision;
  absl::StrAppend(&page, absl::StrFormat("\n## %s\n\n%s\n\n", def.name, def.doc));
  if (!def.example.empty())
    absl::StrAppend(&page, absl::StrFormat("```\n%s\n```\n\n", def.example));
  absl::StrAppend(&page,
                  absl::StrFormat("- operands: %s\n- attributes: %s\n", OperandCount(def.operands),
                                  AttributesOf(def)),
                  absl::StrFormat("- precision: %s in f16, %s in bf16: %s\n", ToneName(p.f16),
                                  ToneName(p.bf16), p.reason),
                  absl::StrFormat("- torch.autocast: %s on cuda, %s on cpu\n",
                                  TorchCategoryName(p.torch_cuda), TorchCategoryName(p.torch_cpu)));
  if (!def.keeps_f32.empty()) {
    absl::StrAppend(&page, absl::StrFormat("- never narrowed: operands %s\n",
                                           Positions(def.keeps_f32, def.operands)));
  }
  absl::StrAppend(&page, absl::StrFormat("- linear in: %s\n- lowering: %s\n", LinearIn(def),
                                         LowerName(def.lower)));
}

}  // namespace

std::string OpsMarkdown() {
  std::string page =
      "# Ops\n\n"
      "Printed from the op table (`ir/op_rows_*.h`); `DUOTONE_BLESS=1` with the test "
      "`ir_op_docs_test` refreshes it.\n\n"
      "What the entries mean: *precision* is what autocast may do with the op, with the reason "
      "(docs/mixed_precision.md);\n"
      "*torch.autocast* is PyTorch's category, which the policy `pytorch` follows; *linear in* "
      "names the "
      "operands through which\n"
      "a scaled gradient passes unchanged in scale; *lowering* is the family of kernels that "
      "executes the "
      "op.\n\n"
      "| op | f16 | bf16 | meaning |\n| --- | --- | --- | --- |\n";
  for (const OpDef& def : AllOps()) {
    absl::StrAppend(&page,
                    absl::StrFormat("| [%s](#%s) | %s | %s | %s |\n", def.name, def.name,
                                    ToneName(def.precision.f16), ToneName(def.precision.bf16),
                                    absl::StrReplaceAll(std::string(def.doc), {{"|", "\\|"}})));
  }
  for (const OpDef& def : AllOps()) AppendOp(def, page);
  return page;
}

}  // namespace duotone::ir
