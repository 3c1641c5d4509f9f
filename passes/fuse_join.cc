// When a node may be part of a group: the legality of fusion.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "passes/fuse_planner.h"

namespace duotone::passes {
namespace {

using ir::Node;
using ir::Value;

// Beyond these a kernel would run out of registers; an optimizer's loops over its parameters, so it
// has no limit.
constexpr int kMostNodes = 64;
constexpr size_t kMostOperands = 20;

}  // namespace

Leaves FusionPlanner::LeavesOf(Value operand) const {
  const State& state = StateOf(operand.node);
  if (state.place == Place::kFree || state.place == Place::kLazy) return state.leaves;
  return {{operand, 1}};
}

Leaves FusionPlanner::LeavesOf(const Node& node) const {
  Leaves leaves;
  for (Value operand : node.operands()) {
    for (const Leaf& leaf : LeavesOf(operand)) {
      if (std::find(leaves.begin(), leaves.end(), leaf) == leaves.end()) leaves.push_back(leaf);
    }
  }
  return leaves;
}

void FusionPlanner::Gather(const Node& node, State& state) const {
  state.leaves = LeavesOf(node);
  if (state.kind == WorkKind::kFree) {
    const int64_t own = ViewDivisor(node);
    for (Leaf& leaf : state.leaves) leaf.divisor *= own;
  }
  for (Value operand : node.operands()) {
    const State& read = StateOf(operand.node);
    if (read.place != Place::kFree && read.place != Place::kLazy) continue;
    state.flops += read.flops;
    state.size += read.size;
    state.is_single |= read.is_single;
  }
}

void FusionPlanner::Settle(const Node& node) {
  for (Value operand : node.operands()) {
    for (const Leaf& leaf : LeavesOf(operand)) {
      const Node* read = leaf.value.node;
      if (StateOf(read).place == Place::kScalar) FlushScalars();
      if (StateOf(read).place == Place::kDeferred) Commit(*read, Family::kColumn);
    }
  }
}

int FusionPlanner::LastGroup(const Leaves& leaves) const {
  int last = -1;
  for (const Leaf& leaf : leaves) {
    const State& state = StateOf(leaf.value.node);
    if (state.place == Place::kScalar || state.place == Place::kDeferred) return kUnsettled;
    if (state.place == Place::kMember) last = std::max(last, state.group);
  }
  return last;
}

std::string FusionPlanner::RefusalOfSize(const Node& node, int group) {
  if (plan_.groups[group].family == Family::kOptimizer) return "";
  const GroupState& state = group_states_[group];
  int size = state.size + 1;
  size_t operands = state.operands.size();
  for (Value operand : node.operands()) {
    const State& read = StateOf(operand.node);
    if (read.place == Place::kFree || read.place == Place::kLazy) size += read.size;
  }
  for (const Leaf& leaf : LeavesOf(node)) {
    const bool is_new = StateOf(leaf.value.node).group != group &&
                        !state.operands.contains({leaf.value.node, leaf.value.index});
    operands += is_new ? 1 : 0;
  }
  if (size > kMostNodes) {
    return absl::StrFormat("the kernel would compute %d nodes, more than %d", size, kMostNodes);
  }
  if (operands > kMostOperands) {
    return absl::StrFormat("the kernel would read %d tensors, more than %d", operands,
                           kMostOperands);
  }
  return "";
}

std::string FusionPlanner::Refusal(const Node& node, int index) {
  ++plan_.visits;
  const FusionGroup& group = plan_.groups[index];
  for (const Leaf& leaf : LeavesOf(node)) {
    const State& read = StateOf(leaf.value.node);
    if (read.group != index || read.place != Place::kMember) continue;
    if (read.roles[leaf.value.index] == Role::kAcross) {
      return absl::StrFormat("%%%s is known only when its kernel has ended", leaf.value.name());
    }
  }
  switch (StateOf(&node).kind) {
    case WorkKind::kElementwise:
      if (std::string why = RefusalOfElementwise(node, group, index); !why.empty()) return why;
      break;
    case WorkKind::kRow:
    case WorkKind::kReduce:
      if (std::string why = RefusalByRow(node, group, index); !why.empty()) return why;
      break;
    case WorkKind::kMatMul:
      return "a product computes each tile from many rows and columns of its operands";
    case WorkKind::kGather:
    case WorkKind::kScatter:
      return absl::StrFormat("%s reads rows in another order", node.def().name);
    default:
      return absl::StrFormat("%s is a kernel of its own", node.def().name);
  }
  return RefusalOfSize(node, index);
}

// One of the leaves is something that the group has element by element, computed or read.
bool FusionPlanner::SharesElements(const Leaves& leaves, int group) const {
  return std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) {
    if (leaf.divisor != 1) return false;
    const State& read = StateOf(leaf.value.node);
    if (read.place == Place::kMember && read.group == group) {
      return read.roles[leaf.value.index] == Role::kFull;
    }
    return leaf.value.type().elements() == plan_.groups[group].elements &&
           group_states_[group].operands.contains({leaf.value.node, leaf.value.index});
  });
}

// Random numbers are in the node or in what is computed again for it: all that is expensive there
// may be some.
bool FusionPlanner::MayDraw(const Node& node) const {
  return node.def().lower == ir::Lower::kRandom ||
         std::any_of(node.operands().begin(), node.operands().end(), [&](Value operand) {
           const State& read = StateOf(operand.node);
           return (read.place == Place::kFree || read.place == Place::kLazy) && read.is_single;
         });
}

// Each element of the node needs the same element of the group's values, or its row's.
std::string FusionPlanner::RefusalOfElementwise(const Node& node, const FusionGroup& group,
                                                int index) {
  const int64_t elements = node.type().elements();
  const bool has_rows = group.family == Family::kRow && group.length > 0;
  switch (group.family) {
    case Family::kPointwise:
    case Family::kMatMul:
    case Family::kRow:
      if (elements == group.elements || (has_rows && elements == group.rows)) break;
      return absl::StrFormat("%%%s has %d elements, the kernel computes %d", node.name(), elements,
                             group.elements);
    case Family::kOptimizer:
      if (MayDraw(node)) {
        return absl::StrFormat("%%%s may need random numbers", node.name());
      }
      break;
    default:
      return absl::StrFormat("a %s kernel has no epilogue", FamilyName(group.family));
  }
  if (group.family == Family::kRow && elements == group.elements &&
      !SharesElements(LeavesOf(node), index)) {
    return absl::StrFormat("%%%s shares numbers per row with the kernel, but no elements",
                           node.name());
  }
  int segment = -1;
  for (const Leaf& leaf : LeavesOf(node)) {
    const State& read = StateOf(leaf.value.node);
    if (read.place != Place::kMember || read.group != index) continue;
    const int64_t size = leaf.value.type().elements();
    const bool same = leaf.divisor == 1 && size == elements;
    const bool of_row = has_rows && read.roles[leaf.value.index] == Role::kRow &&
                        elements == group.elements && leaf.divisor == group.length;
    if (!same && !of_row) {
      return absl::StrFormat("%%%s reads %%%s in another order", node.name(), leaf.value.name());
    }
    if (group.family != Family::kOptimizer) continue;
    if (segment >= 0 && segment != read.segment) {
      return absl::StrFormat("%%%s reads the updates of two parameters", node.name());
    }
    segment = read.segment;
  }
  return "";
}

// A reduction works on the rows of the group, or makes rows of what the group computes.
std::string FusionPlanner::RefusalByRow(const Node& node, const FusionGroup& group, int index) {
  const RowShape shape = RowShapeOf(node);
  const bool is_row = group.family == Family::kRow;
  const bool is_pointwise = group.family == Family::kPointwise && !group.is_control;
  if (group.family == Family::kMatMul) {
    return absl::StrFormat("%s reads rows of %d, the product computes tiles", node.def().name,
                           shape.length);
  }
  if (!is_row && !is_pointwise) {
    return absl::StrFormat("%s is no part of a %s kernel", node.def().name,
                           FamilyName(group.family));
  }
  bool of_rows = false;  // of numbers per row
  switch (shape.form) {
    case RowShape::Form::kOther:
      return absl::StrFormat("%s reduces axes between others", node.def().name);
    case RowShape::Form::kTotal:
      of_rows = is_row && shape.length == group.rows && group.length > 0;
      if (is_pointwise ? shape.length == group.elements : of_rows) break;
      return absl::StrFormat("%s reduces everything to one number", node.def().name);
    case RowShape::Form::kTrailing:
      if (is_pointwise && group_states_[index].has_total) {
        return "that kernel reduces everything to one number";
      }
      if (is_pointwise ? shape.rows * shape.length == group.elements
                       : shape.rows == group.rows && shape.length == group.length) {
        break;
      }
      return absl::StrFormat("%s works on %d rows of %d, the kernel on %d of %d", node.def().name,
                             shape.rows, shape.length, group.rows, group.length);
    case RowShape::Form::kLeading:
      if (is_row && shape.rows == group.rows && shape.length == group.length) break;
      return absl::StrFormat("%s sums %d rows of %d, the kernel works on %d of %d", node.def().name,
                             shape.rows, shape.length, group.rows, group.length);
  }
  bool shares = false;
  for (int i = 0; i < node.operand_count(); ++i) {
    const bool is_main = of_rows || OperandRole(node, i) == Role::kFull;
    shares |= is_main && (of_rows || SharesElements(LeavesOf(node.operand(i)), index));
  }
  if (!shares) {
    return absl::StrFormat("%s shares numbers per row with the kernel, but no elements",
                           node.def().name);
  }
  for (int i = 0; i < node.operand_count(); ++i) {
    const Role wanted = of_rows ? Role::kRow : OperandRole(node, i);
    for (const Leaf& leaf : LeavesOf(node.operand(i))) {
      const State& read = StateOf(leaf.value.node);
      if (read.place != Place::kMember || read.group != index) continue;
      const bool fits = leaf.divisor == 1 && read.roles[leaf.value.index] == wanted &&
                        leaf.value.type().elements() == node.operand(i).type().elements();
      if (!fits) {
        return absl::StrFormat("%s reads %%%s in another order", node.def().name,
                               leaf.value.name());
      }
    }
  }
  return "";
}

void FusionPlanner::Commit(const Node& node, Family family) {
  State& state = StateOf(&node);
  state.place = Place::kUnvisited;  // a sum that is deferred no longer
  Settle(node);
  const int last = LastGroup(LeavesOf(node));
  std::string refusal = last < 0 ? "" : Refusal(node, last);
  if (last >= 0 && refusal.empty()) return AddMember(node, last);
  const int group = NewGroup(node, family);
  if (last >= 0) plan_.groups[group].refusals.emplace_back(last, std::move(refusal));
  AddMember(node, group);
}

int FusionPlanner::NewGroup(const Node& node, Family family) {
  FusionGroup group{.family = family, .elements = node.type().elements()};
  const WorkKind kind = StateOf(&node).kind;
  if (kind == WorkKind::kRow || kind == WorkKind::kReduce) {
    group.elements = node.operand(0).type().elements();
  }
  plan_.groups.push_back(std::move(group));
  group_states_.emplace_back();
  return static_cast<int>(plan_.groups.size()) - 1;
}

void FusionPlanner::AddMember(const Node& node, int index) {
  FusionGroup& group = plan_.groups[index];
  GroupState& group_state = group_states_[index];
  State& state = StateOf(&node);
  const bool reduces = state.kind == WorkKind::kRow || state.kind == WorkKind::kReduce;
  if (reduces && group.family != Family::kMatMul) {
    const RowShape shape = RowShapeOf(node);
    group_state.has_total |= shape.form == RowShape::Form::kTotal;
    if (shape.form == RowShape::Form::kTrailing || shape.form == RowShape::Form::kOther) {
      group.family = Family::kRow;
      group.rows = shape.rows;
      group.length = shape.form == RowShape::Form::kTrailing ? shape.length : 0;
    }
  }
  for (int i = 0; i < node.result_count(); ++i) {
    Role role = Role::kFull;
    if (reduces) {
      role = ResultRole(node, i);
    } else if (group.family == Family::kRow && node.type(i).elements() != group.elements) {
      role = Role::kRow;
    } else if (group.family == Family::kCombined) {
      role = Role::kAcross;
    }
    state.roles.push_back(role);
  }
  for (const Leaf& leaf : group.family == Family::kCombined ? Leaves() : LeavesOf(node)) {
    const State& read = StateOf(leaf.value.node);
    if (read.place == Place::kMember && read.group == index) {
      state.segment = read.segment;
    } else {
      group_state.operands.insert({leaf.value.node, leaf.value.index});
    }
  }
  if (state.kind == WorkKind::kOptimizer) state.segment = plan_.order.lookup(&node);
  group_state.size += 1;
  for (Value operand : node.operands()) {
    const State& read = StateOf(operand.node);
    if (read.place == Place::kFree || read.place == Place::kLazy) group_state.size += read.size;
  }
  group.members.push_back(&node);
  plan_.group_of[&node] = index;
  state.place = Place::kMember;
  state.group = index;
}

}  // namespace duotone::passes
