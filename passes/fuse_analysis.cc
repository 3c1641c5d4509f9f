// Who will read a value: the part of the fusion planner that looks ahead.
#include <algorithm>

#include "base/check.h"
#include "passes/fuse_planner.h"

namespace duotone::passes {

using ir::Node;
using ir::Value;

FusionPlanner::FusionPlanner(const ir::Graph& graph) : graph_(graph) {
  auto add = [&](const Node* node) {
    plan_.order[node] = static_cast<int>(states_.size());
    State state{.kind = WorkKindOf(*node)};
    if (state.kind == WorkKind::kSource) {
      state.place = Place::kSource;
      state.leaves.push_back({{const_cast<Node*>(node), 0}, 1});
    }
    states_.push_back(std::move(state));
  };
  for (const Node* input : graph.inputs()) add(input);
  for (const Node* read : graph.state_reads()) add(read);
  for (const auto& node : graph.nodes()) add(node.get());

  auto add_root = [&](Value value) {
    if (!value) return;
    roots_.Insert(value);
    ++StateOf(value.node).consumers;
    // A reshape as output is its operand's bytes.
    if (const Value root = FlatRoot(value); StateOf(root.node).kind != WorkKind::kFree) {
      roots_.Insert(root);
    }
  };
  for (const ir::Output& output : graph.outputs()) add_root(output.value);
  for (const ir::Update& update : graph.updates()) {
    add_root(update.next);
    add_root(update.guard);
  }
  LookAhead();
  CollectWeightGradients();
}

void FusionPlanner::LookAhead() {
  for (const auto& node : graph_.nodes()) {
    State& state = StateOf(node.get());
    state.after_optimizer = state.kind == WorkKind::kOptimizer ||
                            std::any_of(node->operands().begin(), node->operands().end(),
                                        [&](Value v) { return StateOf(v.node).after_optimizer; });
  }
  const ir::Graph::NodeList& nodes = graph_.nodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) LookAhead(**it);
}

// Tells the operands of `node`, whose own readers are known, about their reader.
void FusionPlanner::LookAhead(const Node& node) {
  State& state = StateOf(&node);
  if (state.consumers == 0) {
    state.place = Place::kDead;
    return;
  }
  const bool is_view = state.kind == WorkKind::kFree;
  const bool passes_on = is_view || state.kind == WorkKind::kElementwise;
  // Saturates: views of views may be many.
  constexpr int kMany = 1 << 20;
  for (Value operand : node.operands()) {
    ++plan_.visits;
    State& read = StateOf(operand.node);
    read.consumers = std::min(kMany, read.consumers + (is_view ? state.consumers : 1));
    read.feeds_matmul |= is_view ? state.feeds_matmul : state.kind == WorkKind::kMatMul;
    read.feeds_optimizer |= passes_on ? state.feeds_optimizer : state.kind == WorkKind::kOptimizer;
  }
}

// The products a^T b of two matrices, by b: the gradient of a weight, where b is the gradient of
// what the weight made.
void FusionPlanner::CollectWeightGradients() {
  for (const auto& node : graph_.nodes()) {
    const State& state = StateOf(node.get());
    if (state.kind != WorkKind::kMatMul || state.place == Place::kDead) continue;
    const auto& attrs = node->attrs_as<ir::MatMulAttrs>();
    const Value b = node->operand(1);
    if (!attrs.transpose_a || attrs.transpose_b || b.type().rank() != 2) continue;
    const Value root = FlatRoot(b);
    if (!weight_gradients_.Contains(root)) weight_gradients_[root] = node.get();
  }
}

bool FusionPlanner::IsRoot(const Node& node) const {
  for (int i = 0; i < node.result_count(); ++i) {
    if (roots_.Contains({const_cast<Node*>(&node), i})) return true;
  }
  return false;
}

bool FusionPlanner::HasSingleReader(const Node& node) {
  const Node* at = &node;
  while (true) {
    ++plan_.visits;
    if (IsRoot(*at) || at->users().size() != 1) return false;
    const Node* user = at->users()[0];
    const State& state = StateOf(user);
    switch (state.kind) {
      case WorkKind::kFree:
        if (user->operand_count() != 1 || user->type().elements() != node.type().elements()) {
          return false;
        }
        if (std::holds_alternative<ir::PadAttrs>(user->attrs())) return false;
        at = user;
        continue;
      case WorkKind::kElementwise:
      case WorkKind::kReduce:
        return true;
      case WorkKind::kRow:
        // Norm parameters are read once per row.
        return user->operand(0).type().elements() == node.type().elements();
      default:
        return false;
    }
  }
}

bool FusionPlanner::IsInternal(Value leaf, const Node& reader, int group) {
  // A value with many readers is stored anyway.
  constexpr int kMost = 64;
  int looked_at = 0;
  llvm::SmallVector<Value, 8> open = {leaf};
  while (!open.empty()) {
    const Value value = open.pop_back_val();
    if (roots_.Contains(value)) return false;
    for (const Node* user : value.node->users()) {
      ++plan_.visits;
      if (++looked_at > kMost) return false;
      const bool reads = std::find(user->operands().begin(), user->operands().end(), value) !=
                         user->operands().end();
      if (!reads || user == &reader) continue;
      const State& state = StateOf(user);
      if (state.place == Place::kDead) continue;
      if (state.place == Place::kMember && state.group == group) continue;
      if (state.place != Place::kFree && state.place != Place::kLazy) return false;
      open.push_back({const_cast<Node*>(user), 0});
    }
  }
  return true;
}

}  // namespace duotone::passes
