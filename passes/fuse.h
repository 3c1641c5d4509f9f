// Groups the nodes of a graph into fusions: one node per kernel, with the computation in its body.
//
//   before  %h = matmul(%x, %w) ; %a = add(%h, %b) ; %y = relu(%a)
//   after   %y = fusion(%x, %w, %b), family="matmul",
//             reason="add, relu in the epilogue of matmul; saves 256 KB"
//             body(%x, %w, %b) { matmul, add, relu ; return %y }
//
// Needs: static sizes, and everything expanded. Leaves alone: graphs that have fusions already.
// Bodies compute what the nodes computed, and random nodes keep their ids, so that the results are
// the same bits. docs/fusion.md has the rules and their reasons.
#ifndef DUOTONE_PASSES_FUSE_H_
#define DUOTONE_PASSES_FUSE_H_

#include "passes/pass.h"

namespace duotone::passes {

class Fuse final : public GraphPass {
 public:
  std::string_view name() const override { return "fuse"; }
  absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext& ctx) const override;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_FUSE_H_
