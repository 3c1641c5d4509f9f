#include "passes/fuse_groups.h"

#include "base/status.h"
#include "passes/fuse_planner.h"

namespace duotone::passes {

using ir::Node;
using ir::Value;

std::string_view FamilyName(Family family) {
  switch (family) {
    case Family::kPointwise:
      return "pointwise";
    case Family::kRow:
      return "row";
    case Family::kColumn:
      return "column";
    case Family::kMatMul:
      return "matmul";
    case Family::kOptimizer:
      return "optimizer";
    case Family::kScatter:
      return "scatter";
    case Family::kCombined:
      return "";
  }
  return "";
}

Value FlatRoot(Value value) {
  while (WorkKindOf(*value.node) == WorkKind::kFree && value.node->operand_count() == 1 &&
         ViewDivisor(*value.node) == 1 &&
         value.node->operand(0).type().dtype == value.type().dtype) {
    value = value.node->operand(0);
  }
  return value;
}

namespace {

absl::Status CheckStatic(const ir::Graph& graph) {
  for (const Node* input : graph.inputs()) {
    if (input->type().is_static()) continue;
    return InvalidArgument("fuse: input %%%s of @%s has a named size, %s; bind it (--bind)",
                           input->name(), graph.name(), input->type().ToString());
  }
  for (const auto& node : graph.nodes()) {
    for (const ir::Type& type : node->types()) {
      if (type.is_static()) continue;
      return InvalidArgument("fuse: %s has a named size, %s; bind it %s", node->def().name,
                             type.ToString(), node->Place());
    }
    if (WorkKindOf(*node) == WorkKind::kUnexpanded) {
      return InvalidArgument("fuse: %s must be expanded before; run autodiff %s", node->def().name,
                             node->Place());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FusionPlan> PlanFusions(const ir::Graph& graph) {
  DUOTONE_RETURN_IF_ERROR(CheckStatic(graph));
  return FusionPlanner(graph).Run();
}

}  // namespace duotone::passes
