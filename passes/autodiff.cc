#include "passes/autodiff.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/status.h"
#include "ir/grad.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/value_map.h"

namespace duotone::passes {
namespace {

using ir::Emitter;
using ir::Graph;
using ir::Node;
using ir::NodeInfo;
using ir::Op;
using ir::Value;

// The dtype in which contributions to a gradient are added.
DType SumDType(DType storage) { return storage == DType::kF64 ? DType::kF64 : DType::kF32; }

// A cast from f32 that autocast inserted: the gradient passes it in f32, see the top of autodiff.h.
bool PassesWide(const Node& node) {
  return node.op() == Op::kCast && node.operand(0).type().dtype == DType::kF32 &&
         IsLow(node.type().dtype) && absl::StartsWith(node.info().dtype_origin, "autocast");
}

bool StopsPath(const Node& node) { return node.def().grad == ir::StopsGradient; }

// What backward nodes that belong to `value` carry.
NodeInfo BackwardInfo(Value value) {
  NodeInfo info = value.node->info();
  info.forward = value.node->name();
  return info;
}

// The expansion of one gradient node.
class Expansion {
 public:
  Expansion(Node* gradient, PassContext& ctx)
      : graph_(*gradient->graph()), gradient_(gradient), ctx_(ctx) {
    for (const auto& node : graph_.nodes()) forward_.insert(node.get());
  }

  absl::Status Run();

 private:
  Value y() const { return gradient_->operand(0); }
  llvm::ArrayRef<Value> xs() const { return gradient_->operands().drop_front(); }
  bool IsFresh(const Node* node) const {
    return node->op() != Op::kInput && node->op() != Op::kState && !forward_.contains(node);
  }

  void FindPath();
  absl::Status Differentiate(Node* node);
  DType StorageOf(Value value) const;
  // The dtype in which a contribution to the gradient of `value` is best delivered.
  DType ContributionOf(Value value) const;
  Value GradientOf(Value value);
  Value Sum(Value value, llvm::ArrayRef<Value> contributions, Emitter& emit);
  void NameAfter(Value gradient, Value value);
  void CountSaved();

  Graph& graph_;
  Node* gradient_;
  PassContext& ctx_;
  llvm::DenseSet<const Node*> forward_;  // the nodes before the expansion
  ValueSet active_;                      // depend on an x by derivatives
  std::vector<Node*> path_;              // between the xs and y, from y backwards
  ValueMap<int> uses_;                   // reads on the path
  ValueMap<llvm::SmallVector<Value, 2>> contributions_;
  ValueMap<Value> gradients_;  // summed
  ValueSet named_;
};

absl::Status Expansion::Run() {
  if (!y().type().is_scalar() || !y().type().is_float()) {
    return InvalidArgument(
        "gradient: %%%s is %s, but only a floating-point scalar has a gradient %s", y().name(),
        y().type().ToString(), gradient_->Place());
  }
  FindPath();
  if (active_.Contains(y())) {
    // The seed is never 16 bits wide: a loss scale of 65536 is no f16 number.
    Emitter emit(graph_, gradient_, BackwardInfo(y()));
    Value seed = emit.Emit(Op::kGradientSeed, {}, "gradient_seed");
    contributions_[y()].push_back(emit.Cast(seed, SumDType(y().type().dtype)));
  }
  for (Node* node : path_) DUOTONE_RETURN_IF_ERROR(Differentiate(node));
  for (int i = 0; i < static_cast<int>(xs().size()); ++i) {
    const Value x = xs()[i];
    Emitter emit(graph_, gradient_, BackwardInfo(x));
    Value gradient = GradientOf(x);
    if (!gradient) {
      ctx_.Warn(absl::StrFormat("%%%s does not depend on %%%s: the gradient is zero %s", y().name(),
                                x.name(), gradient_->Place()));
      gradient = emit.Constant(x.type(), 0.0, absl::StrCat(x.name(), ".grad"));
    }
    NameAfter(gradient, x);
    graph_.ReplaceAllUses(gradient_->result(i), emit.Cast(gradient, x.type().dtype));
  }
  CountSaved();
  graph_.Erase(gradient_);
  return absl::OkStatus();
}

void Expansion::FindPath() {
  for (Value x : xs()) active_.Insert(x);
  std::vector<Node*> reached;
  for (const auto& node : graph_.nodes()) {
    if (node.get() == gradient_) break;
    if (StopsPath(*node)) continue;
    const bool depends = llvm::any_of(node->operands(), [&](Value operand) {
      return operand.type().is_float() && active_.Contains(operand);
    });
    if (!depends) continue;
    reached.push_back(node.get());
    for (int i = 0; i < node->result_count(); ++i) {
      if (node->type(i).is_float()) active_.Insert(node->result(i));
    }
  }
  ValueSet needed;
  needed.Insert(y());
  for (Node* node : llvm::reverse(reached)) {
    bool any = false;
    for (int i = 0; i < node->result_count(); ++i) any = any || needed.Contains(node->result(i));
    if (!any) continue;
    path_.push_back(node);
    for (Value operand : node->operands()) {
      if (!active_.Contains(operand)) continue;
      needed.Insert(operand);
      ++uses_[operand];
    }
  }
}

absl::Status Expansion::Differentiate(Node* node) {
  llvm::SmallVector<Value, 2> result_grads;
  for (int i = 0; i < node->result_count(); ++i)
    result_grads.push_back(GradientOf(node->result(i)));
  if (llvm::none_of(result_grads, [](Value gradient) { return bool(gradient); })) {
    return absl::OkStatus();
  }
  llvm::SmallVector<bool, 4> wanted;
  llvm::SmallVector<DType, 4> dtypes;
  for (Value operand : node->operands()) {
    wanted.push_back(operand.type().is_float() && active_.Contains(operand));
    dtypes.push_back(ContributionOf(operand));
  }
  Emitter emit(graph_, gradient_, BackwardInfo(node->result()));
  emit.set_name_prefix(absl::StrCat(node->name(), ".grad"));
  ir::GradContext grad(node, emit, result_grads, wanted, dtypes);
  DUOTONE_RETURN_IF_ERROR(node->def().grad(grad));
  for (int i = 0; i < node->operand_count(); ++i) {
    const Value contribution = grad.operand_grads()[i];
    if (!contribution || !wanted[i]) continue;
    DUOTONE_CHECK(contribution.type().shape == node->operand(i).type().shape)
        << node->def().name << " operand " << i << " " << contribution.type().ToString();
    contributions_[node->operand(i)].push_back(contribution);
  }
  return absl::OkStatus();
}

DType Expansion::StorageOf(Value value) const {
  const DType dtype = value.type().dtype;
  return PassesWide(*value.node) ? SumDType(dtype) : dtype;
}

DType Expansion::ContributionOf(Value value) const {
  return uses_.Lookup(value) > 1 ? SumDType(value.type().dtype) : StorageOf(value);
}

// Nothing if y does not depend on `value`. Asked for only when all readers have been
// differentiated.
Value Expansion::GradientOf(Value value) {
  if (gradients_.Contains(value)) return gradients_[value];
  Value gradient;
  if (contributions_.Contains(value)) {
    Emitter emit(graph_, gradient_, BackwardInfo(value));
    gradient = Sum(value, contributions_[value], emit);
    // What passes a cast unchanged is called after the cast's operand: %w.grad, not %w.f16.grad.
    if (!PassesWide(*value.node)) NameAfter(gradient, value);
  }
  return gradients_[value] = gradient;
}

Value Expansion::Sum(Value value, llvm::ArrayRef<Value> contributions, Emitter& emit) {
  const std::string name = absl::StrCat(value.name(), ".grad");
  Value sum = contributions[0];
  if (contributions.size() > 1) {
    const DType dtype = SumDType(value.type().dtype);
    sum = emit.Cast(sum, dtype, absl::StrCat(name, ".wide"));
    for (Value next : contributions.drop_front()) {
      next = emit.Cast(next, dtype, absl::StrCat(name, ".wide"));
      sum = emit.Emit(Op::kAdd, {sum, next}, absl::StrCat(name, ".sum"));
    }
  }
  return emit.Cast(sum, StorageOf(value), name);
}

// Renames a node of this expansion that is no other value's gradient.
void Expansion::NameAfter(Value gradient, Value value) {
  const std::string name = absl::StrCat(value.name(), ".grad");
  if (!IsFresh(gradient.node) || named_.Contains(gradient)) return;
  named_.Insert(gradient);
  if (gradient.name() == name) return;
  const absl::Status renamed = graph_.Rename(gradient, graph_.UniqueName(name));
  DUOTONE_CHECK(renamed.ok()) << renamed.ToString();
  if (gradient.index == 0) gradient.node->set_id(Fnv1a(gradient.name()));
}

void Expansion::CountSaved() {
  ValueSet seen;
  for (const auto& node : graph_.nodes()) {
    if (!IsFresh(node.get())) continue;
    for (Value operand : node->operands()) {
      if (!forward_.contains(operand.node) || seen.Contains(operand)) continue;
      seen.Insert(operand);
      ctx_.stats()["saved_values"] += 1;
      if (operand.type().is_static()) ctx_.stats()["saved_bytes"] += operand.type().bytes();
    }
  }
}

}  // namespace

absl::StatusOr<bool> Autodiff::RunOnGraph(Graph& graph, PassContext& ctx) const {
  bool changed = false;
  for (Node* node : graph.NodePointers()) {
    if (node->op() != Op::kGradient) continue;
    DUOTONE_RETURN_IF_ERROR(Expansion(node, ctx).Run()).With("autodiff of @%s", graph.name());
    ctx.stats()["expanded"] += 1;
    changed = true;
  }
  return changed;
}

std::vector<bool> HasDifferentiablePath(const Graph& graph, llvm::ArrayRef<Value> ys,
                                        llvm::ArrayRef<Value> xs) {
  ValueSet needed;
  for (Value y : ys) needed.Insert(y);
  for (const auto& node : llvm::reverse(graph.nodes())) {
    if (StopsPath(*node)) continue;
    bool any = false;
    for (int i = 0; i < node->result_count(); ++i) {
      any = any || (node->type(i).is_float() && needed.Contains(node->result(i)));
    }
    if (!any) continue;
    for (Value operand : node->operands()) {
      if (operand.type().is_float()) needed.Insert(operand);
    }
  }
  std::vector<bool> found;
  for (Value x : xs) found.push_back(needed.Contains(x));
  return found;
}

}  // namespace duotone::passes
