// Maps and sets by ir::Value, for passes.
#ifndef DUOTONE_PASSES_VALUE_MAP_H_
#define DUOTONE_PASSES_VALUE_MAP_H_

#include <utility>

#include "ir/graph.h"
#include "llvm/ADT/DenseMap.h"

namespace duotone::passes {

// Iteration order is that of addresses: look values up, never walk the map.
template <typename T>
class ValueMap {
 public:
  T& operator[](ir::Value value) { return map_[Key(value)]; }
  // The value stored, or T().
  T Lookup(ir::Value value) const { return map_.lookup(Key(value)); }
  bool Contains(ir::Value value) const { return map_.contains(Key(value)); }

 private:
  static std::pair<const ir::Node*, int> Key(ir::Value value) { return {value.node, value.index}; }
  llvm::DenseMap<std::pair<const ir::Node*, int>, T> map_;
};

class ValueSet {
 public:
  void Insert(ir::Value value) { map_[value] = true; }
  bool Contains(ir::Value value) const { return map_.Contains(value); }

 private:
  ValueMap<bool> map_;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_VALUE_MAP_H_
