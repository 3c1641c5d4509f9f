// Removes nodes that no output and no update depends on, and state reads without readers.
//
//   before  %h = exp(%x) : f32[4]
//           %y = neg(%x) : f32[4]
//           return %y
//   after   %y = neg(%x) : f32[4]
//           return %y
//
// Leaves alone: inputs (they are the graph's signature), outputs, updates and state entries.
#ifndef DUOTONE_PASSES_DCE_H_
#define DUOTONE_PASSES_DCE_H_

#include "passes/pass.h"

namespace duotone::passes {

class Dce final : public GraphPass {
 public:
  std::string_view name() const override { return "dce"; }
  absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext& ctx) const override;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_DCE_H_
