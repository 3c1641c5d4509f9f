#include "passes/fusion_report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "passes/fuse_facts.h"
#include "passes/fuse_reason.h"

namespace duotone::passes {
namespace {

using ir::Node;
using ir::Value;

bool OnlyCasts(const ir::Graph& body) {
  return std::all_of(body.nodes().begin(), body.nodes().end(), [](const auto& node) {
    return node->op() == ir::Op::kCast || WorkKindOf(*node) == WorkKind::kFree;
  });
}

// Why `reader`, which has no refusal of `producer` on record, is not part of it.
std::string ReasonApart(const FusionPlan& plan, Value value, int producer, int reader) {
  const FusionGroup& from = plan.groups[producer];
  const FusionGroup& to = plan.groups[reader];
  for (const auto& [group, refusal] : to.refusals) {
    if (group == producer) return refusal;
  }
  const WorkKind kind = WorkKindOf(*value.node);
  const bool reduces = kind == WorkKind::kRow || kind == WorkKind::kReduce;
  if (reduces && ResultRole(*value.node, value.index) == Role::kAcross) {
    return absl::StrFormat("%%%s is known only when its kernel has ended", value.name());
  }
  if (to.family == Family::kOptimizer) return "the updates of an optimizer are one kernel";
  if (to.family == Family::kMatMul) {
    if (from.family == Family::kMatMul) return "a kernel holds one product";
    return "a product reads each element of its operands for many tiles";
  }
  if (to.is_control) return "the scalars of a step are one kernel";
  return absl::StrFormat("the kernel of %%%s reads what is computed later, too",
                         to.members[0]->name());
}

}  // namespace

FusionReport MakeFusionReport(const ir::Graph& graph) {
  FusionReport report{.graph = graph.name()};
  std::map<std::string, int64_t> families;
  llvm::StringSet<> counted;
  for (const auto& node : graph.nodes()) {
    if (node->op() != ir::Op::kFusion) continue;
    ++report.kernels;
    ++families[node->attrs_as<ir::FusionAttrs>().family];
    report.lone_casts += OnlyCasts(*node->body()) ? 1 : 0;
    for (Value operand : node->operands()) {
      report.bytes += static_cast<double>(operand.type().bytes());
    }
    for (const ir::Type& type : node->types()) report.bytes += static_cast<double>(type.bytes());
    for (const auto& inner : node->body()->nodes()) {
      if (counted.insert(inner->name()).second) report.unfused_bytes += BytesAlone(*inner);
    }
  }
  report.families.assign(families.begin(), families.end());
  return report;
}

std::string ToText(const FusionReport& report) {
  const std::string families = absl::StrJoin(report.families, ", ", absl::PairFormatter(" "));
  std::string text =
      absl::StrFormat("@%s: %d kernels%s, %d casts alone\n", report.graph, report.kernels,
                      families.empty() ? "" : absl::StrCat(" (", families, ")"), report.lone_casts);
  absl::StrAppendFormat(&text, "bytes moved in one run: %s, unfused %s\n", ByteText(report.bytes),
                        ByteText(report.unfused_bytes));
  return text;
}

std::vector<CutEdge> CutEdges(const FusionPlan& plan) {
  std::vector<CutEdge> edges;
  for (int reader = 0; reader < static_cast<int>(plan.groups.size()); ++reader) {
    const FusionGroup& group = plan.groups[reader];
    if (group.members.empty() || group.family == Family::kCombined) continue;
    llvm::DenseSet<std::pair<const Node*, int>> seen;
    // Members, and through what is computed again.
    llvm::SmallVector<const Node*, 16> open(group.members.rbegin(), group.members.rend());
    llvm::DenseSet<const Node*> visited(group.members.begin(), group.members.end());
    while (!open.empty()) {
      const Node* node = open.pop_back_val();
      for (Value operand : node->operands()) {
        const int producer = plan.GroupOf(operand.node);
        if (producer < 0) {
          if (visited.insert(operand.node).second) open.push_back(operand.node);
          continue;
        }
        if (producer == reader || plan.groups[producer].family == Family::kCombined) continue;
        if (!seen.insert({operand.node, operand.index}).second) continue;
        edges.push_back({operand.name(), group.members[0]->name(),
                         ReasonApart(plan, operand, producer, reader)});
      }
    }
  }
  return edges;
}

std::string ToText(const CutEdge& edge) {
  return absl::StrFormat("%%%s -> %%%s: %s", edge.value, edge.reader, edge.reason);
}

}  // namespace duotone::passes
