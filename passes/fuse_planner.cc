// The rules by which the fusion planner places a node, one function per kind.
#include "passes/fuse_planner.h"

#include <algorithm>

#include "base/check.h"

namespace duotone::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;

// What may be computed again in every kernel that reads it: a few operations per element.
constexpr double kLazyFlops = 8;
constexpr int kLazySize = 12;
// Of a chain that only one kernel reads, and which therefore is computed once.
constexpr int kSingleSize = 24;
// A view of more tensors than this is stored.
constexpr size_t kMostLeaves = 8;
// Scalars of one group.
constexpr int kMostScalars = 256;

bool IsWideningCast(const Node& node) {
  return node.op() == Op::kCast &&
         ByteSize(node.type().dtype) > ByteSize(node.operand(0).type().dtype);
}

}  // namespace

FusionPlan FusionPlanner::Run() {
  // What follows from an optimizer's updates comes last, so that the scalars of the whole step are
  // one group in front of it.
  bool has_optimizer = false;
  for (const auto& node : graph_.nodes()) {
    const bool after = StateOf(node.get()).after_optimizer;
    has_optimizer |= after;
    if (!after) Visit(*node);
  }
  if (has_optimizer) {
    FlushScalars();
    FlushStoredScalars();
    for (const auto& node : graph_.nodes()) {
      if (StateOf(node.get()).after_optimizer) Visit(*node);
    }
  }
  for (const auto& node : graph_.nodes()) {
    // Sums whose product never came.
    if (StateOf(node.get()).place == Place::kDeferred) Commit(*node, Family::kColumn);
  }
  FlushScalars();
  FlushStoredScalars();
  KeepGuardedScalars();
  return std::move(plan_);
}

void FusionPlanner::Visit(const Node& node) {
  ++plan_.visits;
  if (StateOf(&node).place == Place::kDead) return;
  switch (StateOf(&node).kind) {
    case WorkKind::kFree:
      return VisitFree(node);
    case WorkKind::kElementwise:
      return node.type().is_scalar() ? VisitScalar(node) : VisitElementwise(node);
    case WorkKind::kRow:
    case WorkKind::kReduce:
      return VisitReduction(node);
    case WorkKind::kAllFinite:
      return VisitAllFinite(node);
    case WorkKind::kMatMul:
      return VisitMatMul(node);
    case WorkKind::kGather:
      return Commit(node, Family::kPointwise);
    case WorkKind::kScatter:
      return Commit(node, Family::kScatter);
    case WorkKind::kOptimizer:
      return VisitOptimizer(node);
    case WorkKind::kSource:
    case WorkKind::kFusion:
    case WorkKind::kUnexpanded:
      break;
  }
  DUOTONE_CHECK(false) << node.name();
}

// A view is index arithmetic in whatever reads it. As an output it is stored by a kernel of its own
// unless it is the bytes of a stored value.
void FusionPlanner::VisitFree(const Node& node) {
  State& state = StateOf(&node);
  Gather(node, state);
  if (state.leaves.size() > kMostLeaves || (state.is_single && !HasSingleReader(node))) {
    return Commit(node, Family::kPointwise);
  }
  state.place = Place::kFree;
  if (!IsRoot(node)) return;
  const Value root = FlatRoot({const_cast<Node*>(&node), 0});
  const bool is_alias =
      root.node != &node && (StateOf(root.node).place != Place::kFree || roots_.Contains(root));
  if (is_alias) return;
  if (node.type().is_scalar()) {
    stored_scalars_.push_back(&node);
    return;
  }
  Settle(node);
  const int group = NewGroup(node, Family::kPointwise);
  plan_.groups[group].members.push_back(&node);
  plan_.stored_by[&node] = group;
}

// An elementwise node joins the kernel of its operand where that saves storing the operand, or
// where its own result is stored anyway. Otherwise a cheap one is computed again by its readers.
void FusionPlanner::VisitElementwise(const Node& node) {
  State& state = StateOf(&node);
  Gather(node, state);
  if (IsRoot(node) || PaysToJoin(node, state)) return Commit(node, Family::kPointwise);
  state.flops += FlopsPerElement(node);
  state.size += 1;
  state.is_single |= IsExpensive(node) || state.flops > kLazyFlops || state.size > kLazySize;
  if (MayStayLazy(node, state)) {
    state.place = Place::kLazy;
    return;
  }
  Commit(node, Family::kPointwise);
}

bool FusionPlanner::PaysToJoin(const Node& node, const State& state) {
  const int group = LastGroup(state.leaves);
  if (group < 0 || group == kUnsettled || !Refusal(node, group).empty()) return false;
  // A widening cast would only make what is stored larger.
  if (IsWideningCast(node)) return false;
  if (state.feeds_matmul) return true;
  return std::any_of(state.leaves.begin(), state.leaves.end(), [&](const Leaf& leaf) {
    return StateOf(leaf.value.node).group == group && IsInternal(leaf.value, node, group);
  });
}

bool FusionPlanner::MayStayLazy(const Node& node, const State& state) {
  if (node.result_count() != 1) return false;
  if (state.is_single) {
    return state.size <= kSingleSize && HasSingleReader(node);
  }
  if (state.consumers <= 1) return true;
  // A cast of what the step begins with is never a kernel of its own.
  if (node.op() == Op::kCast && state.size == 1 && LastGroup(state.leaves) < 0) return true;
  // Reading the leaves `consumers` times, against reading them once, storing the result, and
  // reading that `consumers` times.
  const auto elements = static_cast<double>(node.type().elements());
  double read = 0;
  for (const Leaf& leaf : state.leaves) {
    const ir::Type& type = leaf.value.type();
    read += std::min(elements, static_cast<double>(type.elements())) * ByteSize(type.dtype);
  }
  const double own = elements * ByteSize(node.type().dtype);
  return state.consumers * read <= read + (1 + state.consumers) * own;
}

// Arithmetic on one number. If it only reads the state, whoever needs it computes it; the rest
// waits until a kernel needs one of them, and then is one group: guards, counters, the loss scale.
void FusionPlanner::VisitScalar(const Node& node) {
  State& state = StateOf(&node);
  Gather(node, state);
  const bool of_sources = std::all_of(
      state.leaves.begin(), state.leaves.end(),
      [&](const Leaf& leaf) { return StateOf(leaf.value.node).place == Place::kSource; });
  state.flops += FlopsPerElement(node);
  state.size += 1;
  if (!of_sources || IsExpensive(node) || state.flops > 2 * kLazyFlops || state.is_single) {
    state.place = Place::kScalar;
    scalars_.push_back(&node);
    return;
  }
  state.place = Place::kFree;
  if (state.feeds_optimizer || IsRoot(node)) stored_scalars_.push_back(&node);
}

void FusionPlanner::VisitReduction(const Node& node) {
  const RowShape shape = RowShapeOf(node);
  switch (shape.form) {
    case RowShape::Form::kTotal:
      return Commit(node, Family::kPointwise);
    case RowShape::Form::kLeading:
      if (!DeferToWeightGradient(node, shape)) Commit(node, Family::kColumn);
      return;
    case RowShape::Form::kTrailing:
    case RowShape::Form::kOther:
      return Commit(node, Family::kRow);
  }
}

// The gradient of a bias sums the rows that the gradient of the weight multiplies: that kernel has
// them at hand.
bool FusionPlanner::DeferToWeightGradient(const Node& node, const RowShape& shape) {
  if (node.op() != Op::kReduceSum) return false;
  const Node* product = weight_gradients_.Lookup(FlatRoot(node.operand(0)));
  if (product == nullptr) return false;
  const ir::Type& b = product->operand(1).type();
  if (b.shape[0].size() != shape.rows || b.shape[1].size() != shape.length) return false;
  const State& state = StateOf(product);
  if (state.after_optimizer != StateOf(&node).after_optimizer) return false;
  if (state.place == Place::kMember) {
    AddMember(node, state.group);
    return true;
  }
  StateOf(&node).place = Place::kDeferred;
  deferred_[product].push_back(&node);
  return true;
}

void FusionPlanner::VisitMatMul(const Node& node) {
  Commit(node, Family::kMatMul);
  const int group = StateOf(&node).group;
  for (const Node* sum : deferred_.lookup(&node)) {
    // Unless a kernel before this one needed it.
    if (StateOf(sum).place == Place::kDeferred) AddMember(*sum, group);
  }
}

// Each kernel tests its own results while it has them in registers; what is left of the node
// combines the flags.
void FusionPlanner::VisitAllFinite(const Node& node) {
  Settle(node);
  auto add = [&](int group, Value value) {
    std::vector<FiniteTest>& tests = plan_.groups[group].tests;
    if (tests.empty() || tests.back().combined != &node) tests.push_back({&node, {}});
    auto& values = tests.back().values;
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  };
  int direct = -1;  // a pointwise group that only tests
  for (Value operand : node.operands()) {
    ++plan_.visits;
    const Value root = FlatRoot(operand);
    if (CanTest(root, node)) {
      add(StateOf(root.node).group, root);
      continue;
    }
    if (direct < 0) direct = NewGroup(node, Family::kPointwise);
    add(direct, operand);
  }
  AddMember(node, NewGroup(node, Family::kCombined));
}

// True if the group that computes `value` can test it for `combined`.
bool FusionPlanner::CanTest(Value value, const Node& combined) const {
  const State& state = StateOf(value.node);
  if (state.place != Place::kMember) return false;
  const FusionGroup& group = plan_.groups[state.group];
  if (group.family == Family::kCombined || group.family == Family::kOptimizer) return false;
  if (state.roles[value.index] == Role::kFull) return true;
  if (state.roles[value.index] != Role::kAcross) return false;
  // A second stage has one flag.
  return std::none_of(group.tests.begin(), group.tests.end(), [&](const FiniteTest& test) {
    return test.combined != &combined &&
           std::find(test.values.begin(), test.values.end(), value) != test.values.end();
  });
}

// All updates of one optimizer are one group: the same rule, hyperparameters and scalars.
void FusionPlanner::VisitOptimizer(const Node& node) {
  Settle(node);
  const Leaves leaves = LeavesOf(node);
  auto same = [&](const Node& other) {
    if (other.op() != node.op() || !ir::AttrsEqual(other.attrs(), node.attrs()) ||
        other.operand_count() != node.operand_count()) {
      return false;
    }
    for (int i = 0; i < node.operand_count(); ++i) {
      const bool is_scalar = node.operand(i).type().is_scalar();
      if (is_scalar && i > 1 && other.operand(i) != node.operand(i)) return false;
    }
    return true;
  };
  for (int group : optimizers_) {
    if (LastGroup(leaves) < group && same(*plan_.groups[group].members[0])) {
      return AddMember(node, group);
    }
  }
  optimizers_.push_back(NewGroup(node, Family::kOptimizer));
  AddMember(node, optimizers_.back());
}

// Gives the waiting scalars a group: the last group of scalars if nothing stands between, else a
// new one.
void FusionPlanner::FlushScalars() {
  const std::vector<const Node*> waiting = std::move(scalars_);
  scalars_.clear();
  for (const Node* node : waiting) {
    for (const Leaf& leaf : LeavesOf(*node)) {
      const Node* read = leaf.value.node;
      if (StateOf(read).place == Place::kDeferred) Commit(*read, Family::kColumn);
    }
  }
  for (const Node* node : waiting) {
    const int last = LastGroup(LeavesOf(*node));
    DUOTONE_CHECK(last != kUnsettled) << node->name();
    if (last_control_ < 0 || last > last_control_ ||
        group_states_[last_control_].size >= kMostScalars) {
      last_control_ = NewGroup(*node, Family::kPointwise);
      plan_.groups[last_control_].is_control = true;
    }
    AddMember(*node, last_control_);
  }
}

// Scalars of the state that are outputs, or that every element of an optimizer's update would
// compute: a group of scalars stores them too.
void FusionPlanner::FlushStoredScalars() {
  for (const Node* node : stored_scalars_) {
    // It may read what a group behind the last scalars computes: a test of many tensors.
    Settle(*node);
    if (last_control_ < 0 || LastGroup(LeavesOf(*node)) > last_control_) {
      last_control_ = NewGroup(*node, Family::kPointwise);
      plan_.groups[last_control_].is_control = true;
    }
    plan_.groups[last_control_].members.push_back(node);
    plan_.stored_by[node] = last_control_;
  }
  stored_scalars_.clear();
}

// `update %step = %step.next guard=%ok`, where one group computes both: a select in that group in
// place of a guarded copy after it.
void FusionPlanner::KeepGuardedScalars() {
  auto home = [&](Value value) {
    auto it = plan_.stored_by.find(value.node);
    return it != plan_.stored_by.end() ? it->second : plan_.GroupOf(value.node);
  };
  for (size_t i = 0; i < graph_.updates().size(); ++i) {
    const ir::Update& update = graph_.updates()[i];
    if (!update.guard || !update.next.type().is_scalar()) continue;
    const int group = home(update.next);
    if (group < 0 || !plan_.groups[group].is_control) continue;
    // What the guard is computed from must be there, too: it may be a view.
    if (std::max(home(update.guard), LastGroup(LeavesOf(update.guard))) > group) continue;
    plan_.groups[group].kept_updates.push_back(static_cast<int>(i));
  }
}

}  // namespace duotone::passes
