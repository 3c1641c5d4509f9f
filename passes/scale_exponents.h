// Which power of the loss scale each value of a graph carries: value = scale^k * true value.
//
// The gradient seed times the scale has k = 1, the reciprocal of the scale -1, everything else
// begins with 0. The `linear` column of the op table says what a node makes of its operands'
// exponents:
//   linear in each operand (mul, matmul)      the exponents add
//   linear in all jointly (add, select)       they must be equal
//   not linear (exp, comparisons, updates)    they must be 0
// A constant that is zero everywhere fits any exponent.
#ifndef DUOTONE_PASSES_SCALE_EXPONENTS_H_
#define DUOTONE_PASSES_SCALE_EXPONENTS_H_

#include <optional>

#include "absl/status/status.h"
#include "ir/graph.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "passes/value_map.h"

namespace duotone::passes {

// An exponent, or nothing for a value that is zero under every scale.
using ScaleExponent = std::optional<int>;

class ScaleExponents {
 public:
  ScaleExponent Of(ir::Value value) const { return exponents_.Lookup(value).exponent; }
  bool IsScaled(ir::Value value) const { return Of(value).value_or(0) != 0; }
  void Set(ir::Value value, ScaleExponent exponent) { exponents_[value].exponent = exponent; }

  // What a node makes of its operands.
  struct Typing {
    // Operands that have to be brought to exponent 0 first, ascending; `result` holds afterwards.
    llvm::SmallVector<int, 2> unscale;
    ScaleExponent result;
  };
  // No result gets an exponent above 1: of several scaled factors all but the first are unscaled.
  Typing TypeOf(const ir::Node& node) const;

 private:
  struct Entry {
    ScaleExponent exponent = 0;
  };
  ValueMap<Entry> exponents_;
};

struct ScaleSource {
  ir::Value value;
  int exponent;
};

// Proves that a graph is free of conflicts: no node has to unscale an operand, and every output and
// every next value of a state has exponent 0. The error names op, operand and place of the first
// one.
absl::Status CheckScaleExponents(const ir::Graph& graph, llvm::ArrayRef<ScaleSource> sources);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_SCALE_EXPONENTS_H_
