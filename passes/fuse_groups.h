// Decides which nodes of a graph become one kernel; passes/fuse_build.h makes the fusions.
//
// One sweep over the nodes in topological order. A group gets its number when it is made, and edges
// between groups go from lower to higher numbers only: a node may join only the last of the groups
// that its operands come from. So there is never a cycle, and no search for one.
//
// Not every node belongs to a group. Views, constants and cheap elementwise nodes whose operands
// are stored anyway are computed again in every kernel that reads them. The rules and their reasons
// stand at the functions of fuse_groups.cc; docs/fusion.md tells them in order.
#ifndef DUOTONE_PASSES_FUSE_GROUPS_H_
#define DUOTONE_PASSES_FUSE_GROUPS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "passes/fuse_facts.h"
#include "passes/value_map.h"

namespace duotone::passes {

enum class Family : uint8_t {
  kPointwise,
  kRow,
  kColumn,
  kMatMul,
  kOptimizer,
  kScatter,
  kCombined,  // an all_finite over the flags of fusions; no kernel
};
// The attribute of the fusion: "pointwise", "row", ...; "" for kCombined.
std::string_view FamilyName(Family family);

// `all_finite` of some results of one group, on behalf of an all_finite of the graph.
struct FiniteTest {
  const ir::Node* combined;
  llvm::SmallVector<ir::Value, 2> values;
};

struct FusionGroup {
  Family family = Family::kPointwise;
  std::vector<const ir::Node*> members;  // as they joined; the build sorts them
  std::vector<FiniteTest> tests;
  // Guarded updates of scalars, by index: the group computes select(guard, next, old), and the
  // update needs no guard.
  std::vector<int> kept_updates;
  bool is_control = false;  // scalars
  // Groups whose results it reads and could have been part of, with what stood against it.
  std::vector<std::pair<int, std::string>> refusals;

  // What it iterates.
  int64_t elements = 0;
  int64_t rows = 0;    // kRow
  int64_t length = 0;  // kRow: of a row; 0 where the reduced axes are no trailing ones
};

struct FusionPlan {
  std::vector<FusionGroup> groups;  // in an order in which they can run
  // The group that stores a node's results. Nodes without one are computed where they are read.
  llvm::DenseMap<const ir::Node*, int> group_of;
  // Cheap nodes that are computed where they are read, although a group stores them too.
  llvm::DenseMap<const ir::Node*, int> stored_by;
  // Position of each node in the graph.
  llvm::DenseMap<const ir::Node*, int> order;
  int64_t visits = 0;  // nodes looked at, for the test that this is near-linear

  int GroupOf(const ir::Node* node) const {
    auto it = group_of.find(node);
    return it == group_of.end() ? -1 : it->second;
  }
};

// The graph has static types; errors name what has to be done first.
absl::StatusOr<FusionPlan> PlanFusions(const ir::Graph& graph);

// Through views that keep the order of elements, down to what they show.
ir::Value FlatRoot(ir::Value value);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_FUSE_GROUPS_H_
