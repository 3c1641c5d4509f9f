#include "passes/precision_report.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "passes/colour.h"

namespace duotone::passes {
namespace {

using ir::Lower;
using ir::Node;
using ir::Value;

// Tensor cores take 16-byte rows: eight 16-bit numbers.
constexpr int64_t kAlignment = 8;
constexpr size_t kMaxAlignmentWarnings = 8;

bool CountsFlops(const Node& node) {
  const Lower lower = node.def().lower;
  return lower != Lower::kOptimizer && lower != Lower::kHost && lower != Lower::kSource &&
         lower != Lower::kExpanded && node.op() != ir::Op::kCast;
}

// True if the floating-point operands that may be 16-bit all are, and there is one.
bool WorksInLow(const Node& node) {
  bool any = false;
  for (int i = 0; i < node.operand_count(); ++i) {
    const DType dtype = node.operand(i).type().dtype;
    if (!IsFloat(dtype) || node.def().keeps_f32.contains(i)) continue;
    if (!IsLow(dtype)) return false;
    any = true;
  }
  return any;
}

class Reporter {
 public:
  Reporter(const ir::Graph& graph, const AutocastOptions& options, const ir::SizeBinding& binding)
      : graph_(graph), options_(options), given_(binding), binding_(binding) {
    for (const std::string& name : ir::NamedSizes(graph)) binding_.try_emplace(name, kNominalSize);
  }

  absl::StatusOr<PrecisionExplanation> Run(bool explain) {
    if (options_.dtype) {
      DUOTONE_ASSIGN_OR_RETURN(colouring_, Colour(graph_, options_));
      totals().dtype = std::string(DTypeName(*options_.dtype));
    }
    std::array<int64_t, kDTypes.size()> counts{};
    for (const auto& owned : graph_.nodes()) {
      const Node& node = *owned;
      ++counts[static_cast<size_t>(node.type().dtype)];
      DUOTONE_RETURN_IF_ERROR(AddCost(node)).With("%s %s", node.def().name, node.Place());
      if (explain && node.op() != ir::Op::kCast) result_.nodes.push_back(Explain(node));
    }
    for (const DTypeInfo& info : kDTypes) {
      const int64_t count = counts[static_cast<size_t>(info.dtype)];
      if (count > 0) totals().nodes_per_dtype.emplace_back(info.name, count);
    }
    if (totals().flops_low == 0) WarnOfNoLowWork();
    if (unaligned_ > kMaxAlignmentWarnings) {
      totals().warnings.push_back(absl::StrFormat("%d more matrix products are not aligned",
                                                  unaligned_ - kMaxAlignmentWarnings));
    }
    return std::move(result_);
  }

 private:
  CompileReport& totals() { return result_.totals; }

  absl::StatusOr<ir::Type> Bound(const ir::Type& type) const {
    DUOTONE_ASSIGN_OR_RETURN(ir::Shape shape, ir::BindShape(type.shape, binding_));
    return ir::Type{type.dtype, std::move(shape)};
  }

  absl::Status AddCost(const Node& node) {
    llvm::SmallVector<ir::Type, 4> operands;
    for (Value operand : node.operands()) {
      DUOTONE_ASSIGN_OR_RETURN(ir::Type type, Bound(operand.type()));
      operands.push_back(std::move(type));
    }
    llvm::SmallVector<ir::Type, 2> results;
    for (const ir::Type& own : node.types()) {
      DUOTONE_ASSIGN_OR_RETURN(ir::Type type, Bound(own));
      results.push_back(std::move(type));
    }
    ir::Attrs attrs = node.attrs();
    DUOTONE_RETURN_IF_ERROR(ir::BindAttrs(attrs, binding_));
    const ir::Cost cost = node.def().cost(operands, results, attrs);
    totals().cost += cost.bytes;
    if (node.op() == ir::Op::kCast) AddCast(node, results[0].bytes());
    if (!CountsFlops(node)) return absl::OkStatus();
    const bool low = WorksInLow(node);
    totals().flops += cost.flops;
    if (low) totals().flops_low += cost.flops;
    if (node.def().lower != Lower::kMatMul) return absl::OkStatus();
    totals().matmul_flops += cost.flops;
    if (low) totals().matmul_flops_low += cost.flops;
    if (low && node.info().forward.empty()) CheckAlignment(node);
    return absl::OkStatus();
  }

  void AddCast(const Node& node, int64_t bytes) {
    const bool inserted = RuleOfOrigin(node.info().dtype_origin).has_value();
    if (inserted) {
      ++totals().casts_inserted;
      totals().cast_bytes += bytes;
    }
    CastEntry entry{.value = node.operand(0).name(),
                    .from = std::string(DTypeName(node.operand(0).type().dtype)),
                    .to = std::string(DTypeName(node.type().dtype)),
                    .bytes = bytes,
                    .origin = inserted ? node.info().dtype_origin : "user"};
    for (const Node* reader : node.users()) entry.readers.push_back(reader->name());
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value.node == &node) entry.readers.push_back("output " + output.name);
    }
    for (const ir::Update& update : graph_.updates()) {
      if (update.next.node == &node) entry.readers.push_back("update " + update.entry->name);
    }
    std::sort(entry.readers.begin(), entry.readers.end());
    entry.readers.erase(std::unique(entry.readers.begin(), entry.readers.end()),
                        entry.readers.end());
    result_.casts.push_back(std::move(entry));
  }

  // Backward products have the sizes of their forward ones, so only those are looked at. Sizes that
  // are not known do not count.
  void CheckAlignment(const Node& node) {
    const auto* attrs = std::get_if<ir::MatMulAttrs>(&node.attrs());
    if (attrs == nullptr || node.type().rank() < 2 || node.operand(0).type().rank() < 2) return;
    const ir::Shape& result = node.type().shape;
    const ir::Shape& lhs = node.operand(0).type().shape;
    const std::pair<char, ir::Dim> sizes[] = {
        {'m', result[result.size() - 2]},
        {'n', result.back()},
        {'k', attrs->transpose_a ? lhs[lhs.size() - 2] : lhs.back()}};
    std::vector<std::string> bad;
    for (const auto& [letter, dim] : sizes) {
      absl::StatusOr<int64_t> size = dim.Bind(given_);
      if (size.ok() && *size % kAlignment != 0)
        bad.push_back(absl::StrFormat("%c = %d", letter, *size));
    }
    if (bad.empty() || ++unaligned_ > kMaxAlignmentWarnings) return;
    totals().warnings.push_back(
        absl::StrFormat("%s %s: %s %s, so tensor cores pad or are not used", node.def().name,
                        node.Place(), absl::StrJoin(bad, " and "),
                        bad.size() == 1 ? "is no multiple of 8" : "are no multiples of 8"));
  }

  void WarnOfNoLowWork() {
    std::string why;
    if (!options_.dtype) {
      why = "autocast is off";
    } else if (totals().flops == 0) {
      why = "the graph has no floating-point work";
    } else {
      why = "no op of the graph is allow-listed";
      for (const auto& node : graph_.nodes()) {
        const ir::Precision& precision = node->def().precision;
        if ((*options_.dtype == DType::kF16 ? precision.f16 : precision.bf16) != ir::Tone::kAllow) {
          continue;
        }
        why = absl::StrFormat("%s %s is %s", node->def().name, node->Place(),
                              ReasonFor(colouring_, options_, node.get()));
        break;
      }
    }
    totals().warnings.push_back(absl::StrFormat("no FLOP is in 16 bits: %s", why));
  }

  NodeExplanation Explain(const Node& node) const {
    NodeExplanation row{.name = node.name(),
                        .op = std::string(node.def().name),
                        .dtype = std::string(DTypeName(node.type().dtype))};
    const Node* cause = &node;
    if (!node.info().forward.empty()) {
      const Value forward = graph_.Find(node.info().forward);
      if (forward) cause = forward.node;
    }
    if (!options_.dtype) {
      row.rule = "user";
      row.reason = absl::StrFormat("%s: as written, autocast is off", row.dtype);
    } else {
      GiveReason(*cause, row);
    }
    if (!node.info().forward.empty()) {
      row.reason = absl::StrFormat("backward of %%%s; %s", node.info().forward, row.reason);
    }
    return row;
  }

  void GiveReason(const Node& node, NodeExplanation& row) const {
    auto it = colouring_.nodes.find(&node);
    const std::optional<Rule> recorded = RuleOfOrigin(node.info().dtype_origin);
    if (it == colouring_.nodes.end()) {  // an input or a state entry
      row.rule = RuleCode(Rule::kFixed);
      row.reason = "read as declared";
      return;
    }
    const Rule found = it->second.rule;
    row.rule = RuleCode(recorded.value_or(found));
    if (recorded && node.op() == ir::Op::kConstant) {
      row.reason = absl::StrFormat("%s: a constant in the type of its readers",
                                   DTypeName(node.type().dtype));
      return;
    }
    if (recorded && *recorded != found) {
      // Other options, or other passes since: what the graph records counts.
      row.reason = absl::StrFormat("%s: %s", DTypeName(node.type().dtype),
                                   AllRules()[static_cast<size_t>(*recorded)].doc);
      return;
    }
    row.reason = ReasonFor(colouring_, options_, &node);
    for (const Node* step : PathOf(colouring_, &node)) row.path.push_back(step->name());
  }

  const ir::Graph& graph_;
  const AutocastOptions& options_;
  const ir::SizeBinding& given_;
  ir::SizeBinding binding_;
  Colouring colouring_;
  PrecisionExplanation result_;
  size_t unaligned_ = 0;
};

std::string BytesText(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, bytes, kUnits[unit]);
}

}  // namespace

absl::StatusOr<CompileReport> MakeCompileReport(const ir::Graph& graph,
                                                const AutocastOptions& options,
                                                const ir::SizeBinding& binding) {
  DUOTONE_ASSIGN_OR_RETURN(PrecisionExplanation explanation,
                           Reporter(graph, options, binding).Run(/*explain=*/false));
  return std::move(explanation.totals);
}

absl::StatusOr<PrecisionExplanation> ExplainPrecision(const ir::Graph& graph,
                                                      const AutocastOptions& options,
                                                      const ir::SizeBinding& binding) {
  return Reporter(graph, options, binding).Run(/*explain=*/true);
}

std::string ToText(const CompileReport& report) {
  std::string text = absl::StrFormat("autocast %s:", report.dtype);
  for (size_t i = 0; i < report.nodes_per_dtype.size(); ++i) {
    const auto& [dtype, count] = report.nodes_per_dtype[i];
    text += i == 0 ? absl::StrFormat(" %d node%s %s", count, count == 1 ? "" : "s", dtype)
                   : absl::StrFormat(", %d %s", count, dtype);
  }
  text += absl::StrFormat("; %d cast%s inserted, %s written by them\n", report.casts_inserted,
                          report.casts_inserted == 1 ? "" : "s", BytesText(report.cast_bytes));
  text += absl::StrFormat("FLOPs %.3g, %.1f %% in 16 bits (of the matrix products %.1f %%)\n",
                          report.flops, 100 * report.low_share(), 100 * report.matmul_low_share());
  for (const std::string& warning : report.warnings) {
    text += absl::StrFormat("warning: %s\n", warning);
  }
  return text;
}

std::string ToText(const PrecisionExplanation& explanation) {
  std::string text;
  for (const NodeExplanation& node : explanation.nodes) {
    text += absl::StrFormat("%%%s = %s : %s  %s\n", node.name, node.op, node.dtype, node.reason);
  }
  if (!explanation.casts.empty()) text += "\ncasts\n";
  for (const CastEntry& cast : explanation.casts) {
    text += absl::StrFormat("%%%s  %s -> %s  %s  for %s  (%s)\n", cast.value, cast.from, cast.to,
                            BytesText(cast.bytes), absl::StrJoin(cast.readers, ", "), cast.origin);
  }
  return text + "\n" + ToText(explanation.totals);
}

}  // namespace duotone::passes
