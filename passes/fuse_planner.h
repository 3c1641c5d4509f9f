// The sweep behind PlanFusions: its state and its rules. passes/fuse_analysis.cc looks ahead (who
// reads a value), fuse_planner.cc places nodes by kind, fuse_join.cc says when a node may join a
// group.
#ifndef DUOTONE_PASSES_FUSE_PLANNER_H_
#define DUOTONE_PASSES_FUSE_PLANNER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"
#include "passes/fuse_facts.h"
#include "passes/fuse_groups.h"
#include "passes/value_map.h"

namespace duotone::passes {

// A stored value that a node computes from, and where its elements lie: element i / divisor, or 0
// for any other order.
struct Leaf {
  ir::Value value;
  int64_t divisor = 1;
  friend bool operator==(const Leaf&, const Leaf&) = default;
};
using Leaves = llvm::SmallVector<Leaf, 3>;

class FusionPlanner {
 public:
  explicit FusionPlanner(const ir::Graph& graph);
  FusionPlan Run();

 private:
  enum class Place : uint8_t {
    kUnvisited,
    kDead,  // nothing reads it
    kSource,
    kFree,      // computed where it is read: a view, a constant, a scalar of the state
    kLazy,      // computed where it is read: a cheap elementwise node
    kScalar,    // waits for the next group of scalars
    kDeferred,  // a column sum that waits for its matmul
    kMember,
  };

  struct State {
    WorkKind kind = WorkKind::kSource;
    Place place = Place::kUnvisited;
    int group = -1;
    // From looking ahead.
    bool feeds_matmul = false;     // a matmul reads it, through views
    bool feeds_optimizer = false;  // an optimizer reads it, through views and elementwise nodes
    bool after_optimizer = false;  // depends on what an optimizer computes
    int consumers = 0;             // nodes that read it, views looked through, and roots
    // Of kFree and kLazy: what computing it again takes.
    Leaves leaves;
    double flops = 0;        // per element
    int size = 0;            // computing nodes
    bool is_single = false;  // holds an expensive node, so only one kernel may read it
    // Of kMember.
    llvm::SmallVector<Role, 1> roles;  // per result
    int segment = -1;                  // in an optimizer group: which parameter's elements
  };

  // What the plan need not know of a group.
  struct GroupState {
    int size = 0;            // computing nodes, with those that are computed again
    bool has_total = false;  // reduces everything to a number
    llvm::DenseSet<std::pair<const ir::Node*, int>> operands;
  };

  // fuse_analysis.cc: who will read a value.
  void LookAhead();
  void LookAhead(const ir::Node& node);
  void CollectWeightGradients();
  bool IsRoot(const ir::Node& node) const;
  // One node alone will read it, as often as it has elements.
  bool HasSingleReader(const ir::Node& node);
  // Every reader of the leaf is `reader` or in the group, so that it need not be stored.
  bool IsInternal(ir::Value leaf, const ir::Node& reader, int group);

  // fuse_planner.cc: a rule for each kind of node.
  void Visit(const ir::Node& node);
  void VisitFree(const ir::Node& node);
  void VisitElementwise(const ir::Node& node);
  void VisitScalar(const ir::Node& node);
  void VisitReduction(const ir::Node& node);
  void VisitMatMul(const ir::Node& node);
  void VisitAllFinite(const ir::Node& node);
  void VisitOptimizer(const ir::Node& node);
  bool MayStayLazy(const ir::Node& node, const State& state);
  bool PaysToJoin(const ir::Node& node, const State& state);
  bool DeferToWeightGradient(const ir::Node& node, const RowShape& shape);
  void FlushScalars();
  void FlushStoredScalars();
  void KeepGuardedScalars();

  // fuse_join.cc: groups and what may be in them.
  Leaves LeavesOf(ir::Value operand) const;
  Leaves LeavesOf(const ir::Node& node) const;
  // What computing the operands of the node again takes: leaves, flops, size, is_single.
  void Gather(const ir::Node& node, State& state) const;
  // Every leaf of the node gets a group, if it is not stored by anyone yet.
  void Settle(const ir::Node& node);
  // The last of the groups that the leaves come from; -1: none; kUnsettled: one has none yet.
  static constexpr int kUnsettled = 1 << 30;
  int LastGroup(const Leaves& leaves) const;
  // "" if the node may join the last group it reads, else what stands against it.
  std::string Refusal(const ir::Node& node, int group);
  std::string RefusalByRow(const ir::Node& node, const FusionGroup& group, int index);
  std::string RefusalOfElementwise(const ir::Node& node, const FusionGroup& group, int index);
  bool MayDraw(const ir::Node& node) const;
  bool SharesElements(const Leaves& leaves, int group) const;
  std::string RefusalOfSize(const ir::Node& node, int group);
  // Puts the node into the last group it reads if it may join, else into a new one.
  void Commit(const ir::Node& node, Family family);
  int NewGroup(const ir::Node& node, Family family);
  void AddMember(const ir::Node& node, int group);
  bool CanTest(ir::Value value, const ir::Node& combined) const;

  State& StateOf(const ir::Node* node) { return states_[plan_.order.lookup(node)]; }
  const State& StateOf(const ir::Node* node) const { return states_[plan_.order.lookup(node)]; }

  const ir::Graph& graph_;
  FusionPlan plan_;
  std::vector<State> states_;  // by position
  std::vector<GroupState> group_states_;
  ValueSet roots_;                               // values that must be stored as they are
  std::vector<const ir::Node*> scalars_;         // kScalar, in order
  std::vector<const ir::Node*> stored_scalars_;  // kFree, and wanted in memory
  ValueMap<const ir::Node*> weight_gradients_;   // by the root of b: the product a^T b
  llvm::DenseMap<const ir::Node*, llvm::SmallVector<const ir::Node*, 1>> deferred_;
  llvm::SmallVector<int, 2> optimizers_;  // groups
  int last_control_ = -1;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_FUSE_PLANNER_H_
