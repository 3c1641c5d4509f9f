// Decides which memory the values of a graph share, before any of it has an address. The same for
// every backend.
//
//   %r = reshape(%x)                              %r is %x's memory
//   %n = add(%w, %g) ; update %w = %n guard=%ok   where %ok holds, %n is written into %w's memory
//   update %a = %b ; update %b = %a               copies at the end, through a temporary
//
// A result may be written straight into the state entry it updates if nothing reads the entry's old
// value afterwards; the node itself may read it if it is elementwise. Under a guard the whole node
// becomes conditional, so its results may reach nothing but updates under the same guard, on ways
// that cannot fail on stale data.
#ifndef DUOTONE_CODEGEN_STORAGE_H_
#define DUOTONE_CODEGEN_STORAGE_H_

#include <utility>
#include <vector>

#include "ir/graph.h"
#include "llvm/ADT/DenseMap.h"

namespace duotone::codegen {

// A value as a key of LLVM's maps.
using ValueKey = std::pair<ir::Node*, int>;
inline ValueKey KeyOf(ir::Value value) { return {value.node, value.index}; }

// True if the node has the same value in every run: constant, iota. A fusion of such nodes has a
// kernel.
bool IsConstant(const ir::Node& node);
// The value whose memory `value` has under another shape: itself unless its node keeps its
// operand's bytes.
ir::Value RootOf(ir::Value value);

class StoragePlan {
 public:
  explicit StoragePlan(const ir::Graph& graph);

  // The entry into whose memory the root `value` is written, or null.
  const ir::StateEntry* EntryWrittenBy(ir::Value value) const {
    return written_.lookup(KeyOf(value));
  }
  // The condition under which the node runs, or an empty value.
  ir::Value GuardOf(ir::Node* node) const { return guards_.lookup(node); }
  // The updates that are left to copies at the end, in the graph's order.
  const std::vector<ir::Update>& copies() const { return copies_; }

 private:
  void CollectReads();
  bool MayWriteInPlace(const ir::Update& update) const;
  // True if no read of the entry's old value comes after `node`, nor from it unless elementwise.
  bool OldValueIsDone(const ir::StateEntry& entry, const ir::Node* node, int result) const;
  // True if the results of `node` reach only updates guarded by `guard`.
  bool FeedsOnlyUpdates(ir::Node* node, ir::Value guard) const;
  // True if an output has the memory of `root`.
  bool IsOutput(ir::Value root) const;

  const ir::Graph& graph_;
  llvm::DenseMap<const ir::Node*, int> position_;  // of computing nodes
  // By entry: the nodes that read its old value; null stands for the end of the graph.
  llvm::DenseMap<const ir::StateEntry*, std::vector<ir::Node*>> reads_;
  llvm::DenseMap<ValueKey, const ir::StateEntry*> written_;
  llvm::DenseMap<const ir::Node*, ir::Value> guards_;
  std::vector<ir::Update> copies_;
};

}  // namespace duotone::codegen

#endif  // DUOTONE_CODEGEN_STORAGE_H_
