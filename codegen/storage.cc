#include "codegen/storage.h"

#include <algorithm>

#include "llvm/ADT/DenseSet.h"

namespace duotone::codegen {
namespace {

// True if a result may take the memory of an operand of the same type.
bool IsElementwise(const ir::Node& node) {
  const ir::Lower family = node.def().lower;
  return family == ir::Lower::kElementwise || family == ir::Lower::kOptimizer;
}

// True if the node computes something, whatever the bytes of its operands are.
bool TakesAnyData(const ir::Node& node) {
  const ir::Lower family = node.def().lower;
  return family == ir::Lower::kElementwise || family == ir::Lower::kView ||
         family == ir::Lower::kReduce;
}

// True if every element of the fusion's results depends on the same element of operand `index` at
// most: all ways from it to the body's outputs lead through elementwise nodes. The kernel reads the
// elements before it writes them. Blocks of an optimizer's kernel work on one update each, in no
// order: what two of them read may not be overwritten.
bool ReadsOwnElementOnly(const ir::Node& fusion, int index) {
  const ir::Node* input = fusion.body()->inputs()[index];
  llvm::DenseSet<const ir::Node*> seen;
  std::vector<const ir::Node*> work = {input};
  int updates = 0;
  while (!work.empty()) {
    const ir::Node* current = work.back();
    work.pop_back();
    if (!seen.insert(current).second) continue;
    if (current->def().lower == ir::Lower::kOptimizer && ++updates > 1) return false;
    if (current != input &&
        (!IsElementwise(*current) || current->type().shape != input->type().shape))
      return false;
    work.insert(work.end(), current->users().begin(), current->users().end());
  }
  return true;
}

// True for a kernel of one thread, which reads all its operands before it writes anything.
bool ComputesScalarsOnly(const ir::Node& fusion) {
  const auto is_scalar = [](const ir::Type& type) { return type.is_scalar(); };
  return fusion.attrs_as<ir::FusionAttrs>().family == "pointwise" &&
         std::all_of(fusion.types().begin(), fusion.types().end(), is_scalar) &&
         std::all_of(fusion.operands().begin(), fusion.operands().end(),
                     [&](ir::Value operand) { return is_scalar(operand.type()); });
}

// True for kernels that go over the elements of rows: several times, results being stored on the
// way, and with groups of threads that repeat the last row.
bool RepeatsElements(const ir::Node& fusion) {
  const std::string& family = fusion.attrs_as<ir::FusionAttrs>().family;
  return family == "row" || family == "column";
}

// True if `node` may write result `result` over `entry` although it reads it.
bool MayOverwriteOperand(const ir::Graph& graph, const ir::Node& node, int result,
                         const ir::StateEntry& entry) {
  if (node.type(result).shape != entry.type.shape || node.type(result).dtype != entry.type.dtype)
    return false;
  if (node.body() == nullptr) return IsElementwise(node);
  if (ComputesScalarsOnly(node)) return true;
  for (int i = 0; i < node.operand_count(); ++i) {
    const bool reads = graph.EntryOf(RootOf(node.operand(i)).node) == &entry;
    if (!reads) continue;
    if (RootOf(node.operand(i)) != node.operand(i) || !ReadsOwnElementOnly(node, i) ||
        RepeatsElements(node)) {
      return false;
    }
  }
  return true;
}

// True for the result of a test that kernels gather: its memory is set before the first of them
// runs, whatever the guard says, and while others may still read the entry's old value.
bool IsGathered(ir::Value value) {
  if (value.node->body() != nullptr) {
    return value.node->body()->outputs()[value.index].value.node->op() == ir::Op::kAllFinite;
  }
  return value.node->op() == ir::Op::kAllFinite &&
         std::any_of(value.node->operands().begin(), value.node->operands().end(),
                     [](ir::Value operand) { return operand.node->body() != nullptr; });
}

// True if the whole node can be made conditional: kernels of one stage.
bool TakesGuard(const ir::Node& node) {
  if (node.body() == nullptr) return true;
  return std::all_of(node.body()->nodes().begin(), node.body()->nodes().end(),
                     [](const auto& inner) {
                       return IsElementwise(*inner) || inner->def().lower == ir::Lower::kView ||
                              IsConstant(*inner);
                     });
}

}  // namespace

bool IsConstant(const ir::Node& node) {
  return node.operand_count() == 0 && node.body() == nullptr && node.op() != ir::Op::kInput &&
         node.op() != ir::Op::kState && node.def().lower != ir::Lower::kRandom;
}

ir::Value RootOf(ir::Value value) {
  while (value.node->def().keeps_bytes &&
         value.node->operand(0).type().dtype == value.type().dtype) {
    value = value.node->operand(0);
  }
  return value;
}

StoragePlan::StoragePlan(const ir::Graph& graph) : graph_(graph) {
  for (const auto& node : graph.nodes()) {
    const int position = static_cast<int>(position_.size());
    position_[node.get()] = position;
  }
  CollectReads();
  for (const ir::Update& update : graph.updates()) {
    const ir::Value next = RootOf(update.next);
    if (MayWriteInPlace(update)) {
      written_[KeyOf(next)] = update.entry;
      if (update.guard) guards_[next.node] = update.guard;
    } else {
      copies_.push_back(update);
    }
  }
}

void StoragePlan::CollectReads() {
  auto read = [&](ir::Value value, ir::Node* reader) {
    const ir::Node* root = RootOf(value).node;
    if (const ir::StateEntry* entry = graph_.EntryOf(root)) reads_[entry].push_back(reader);
  };
  for (const auto& node : graph_.nodes()) {
    // A node that only renames its operand's memory reads nothing itself.
    if (RootOf(node->result()).node != node.get()) continue;
    for (ir::Value operand : node->operands()) read(operand, node.get());
  }
  // Outputs are copied before anything is written; updates and guards read at the end.
  for (const ir::Update& update : graph_.updates()) {
    read(update.next, nullptr);
    if (update.guard) read(update.guard, nullptr);
  }
}

bool StoragePlan::MayWriteInPlace(const ir::Update& update) const {
  const ir::Value next = RootOf(update.next);
  auto producer = position_.find(next.node);
  if (producer == position_.end() || IsConstant(*next.node)) return false;
  if (written_.contains(KeyOf(next)) || IsOutput(next) || IsGathered(next)) return false;
  if (!OldValueIsDone(*update.entry, next.node, next.index)) return false;
  // A step has one guard: none, or this one.
  const ir::Value other = guards_.lookup(next.node);
  if (other && other != update.guard) return false;
  if (!update.guard) return true;
  if (!TakesGuard(*next.node)) return false;
  const ir::Node* guard = RootOf(update.guard).node;
  if (guard->op() == ir::Op::kState) return false;
  auto tested = position_.find(guard);
  if (tested != position_.end() && tested->second >= producer->second) return false;
  return FeedsOnlyUpdates(next.node, update.guard);
}

bool StoragePlan::OldValueIsDone(const ir::StateEntry& entry, const ir::Node* node,
                                 int result) const {
  auto reads = reads_.find(&entry);
  if (reads == reads_.end()) return true;
  return std::all_of(reads->second.begin(), reads->second.end(), [&](const ir::Node* reader) {
    if (reader == nullptr) return false;
    if (reader != node) return position_.lookup(reader) < position_.lookup(node);
    // The elements of operand and result must correspond: a scalar beside a tensor is read by every
    // item.
    return MayOverwriteOperand(graph_, *node, result, entry);
  });
}

bool StoragePlan::FeedsOnlyUpdates(ir::Node* node, ir::Value guard) const {
  llvm::DenseSet<const ir::Node*> seen;
  std::vector<ir::Node*> work = {node};
  while (!work.empty()) {
    ir::Node* current = work.back();
    work.pop_back();
    if (!seen.insert(current).second) continue;
    if (current != node && !TakesAnyData(*current)) return false;
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value.node == current) return false;
    }
    for (const ir::Update& update : graph_.updates()) {
      if (update.guard.node == current) return false;
      if (update.next.node == current && update.guard != guard) return false;
    }
    work.insert(work.end(), current->users().begin(), current->users().end());
  }
  return true;
}

bool StoragePlan::IsOutput(ir::Value root) const {
  return std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                     [&](const ir::Output& output) { return RootOf(output.value) == root; });
}

}  // namespace duotone::codegen
