// Moves casts over data movement so that the narrower type is moved: widening casts sink below it,
// narrowing casts hoist above it, where that saves bytes. Opposite casts meet on the way, and
// fold-casts removes them.
//
//   before  %a = cast(%x) : f32[4, 8]
//           %b = reshape(%a) : f32[32]
//   after   %a = reshape(%x) : f16[32]
//           %b = cast(%a) : f32[32]
//
// Moving n elements and making m of them, a widening cast from L to W bytes sinks where W*n > L*m,
// a narrowing cast from W to L hoists where W*m > L*n. So nothing is cast after a broadcast that
// was cast before it. A named size counts as 64.
//
// Needs: autocast. Leaves alone: casts with other readers; pads whose value the narrow type cannot
// hold; regions where the user switched autocast off.
#ifndef DUOTONE_PASSES_SINK_CASTS_H_
#define DUOTONE_PASSES_SINK_CASTS_H_

#include "passes/pass.h"

namespace duotone::passes {

class SinkCasts final : public GraphPass {
 public:
  std::string_view name() const override { return "sink-casts"; }
  absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext& ctx) const override;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_SINK_CASTS_H_
