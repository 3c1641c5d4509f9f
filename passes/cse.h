// Merges nodes that compute the same: equal op, attributes, operands and precision region. The
// earlier node stays.
//
//   before  %a = cast(%x), to=f16 : f16[4]
//           %b = cast(%x), to=f16 : f16[4]
//           %y = add(%a, %b) : f16[4]
//   after   %a = cast(%x), to=f16 : f16[4]
//           %y = add(%a, %a) : f16[4]
//
// A dtype of the user's always rounds, one of autocast's need not: the merged node is the user's if
// either was.
//
// Leaves alone: random numbers and dropout (each node is its own stream), gradient nodes (they
// expand in place), and nodes of different precision regions as long as autocast may still colour
// them differently.
#ifndef DUOTONE_PASSES_CSE_H_
#define DUOTONE_PASSES_CSE_H_

#include "passes/pass.h"

namespace duotone::passes {

class Cse final : public GraphPass {
 public:
  std::string_view name() const override { return "cse"; }
  absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext& ctx) const override;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_CSE_H_
