// The rules of simplify, as tables: which op a rule starts from, and the value that replaces the
// node's result.
#ifndef DUOTONE_PASSES_SIMPLIFY_RULES_H_
#define DUOTONE_PASSES_SIMPLIFY_RULES_H_

#include <string_view>

#include "ir/graph.h"
#include "llvm/ADT/ArrayRef.h"

namespace duotone::passes {

// What replaces result 0 of the node; an empty value: the rule does not apply. `made` is set if the
// value is a new node, which takes the old one's name.
struct Replacement {
  ir::Value value;
  bool made = false;

  static Replacement None() { return {}; }
  static Replacement Existing(ir::Value value) { return {value, false}; }
  static Replacement New(ir::Value value) { return {value, true}; }
};

struct SimplifyRule {
  std::string_view name;  // its counter in the statistics
  ir::Op op;              // the op at the root
  Replacement (*apply)(ir::Graph& graph, ir::Node* node);
};

// simplify_identities.cc, simplify_composites.cc
llvm::ArrayRef<SimplifyRule> IdentityRules();
llvm::ArrayRef<SimplifyRule> CompositeRules();

// simplify_constants.cc: for any op whose operands are all constants.
Replacement FoldConstants(ir::Graph& graph, ir::Node* node);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_SIMPLIFY_RULES_H_
