// Removes casts that lose nothing, and rounding that only autocast asked for.
//
//   before  %a = cast(%x) : f32[4]       where %x is f16
//           %b = cast(%a), to=f16 : f16[4]
//           %y = relu(%b) : f16[4]
//   after   %y = relu(%x) : f16[4]
//
// Same type: cast(x) to x's own type is x.
//
// Lossless: cast(cast(x, wider), to) is cast(x, to), as the wider type holds every value of x.
//
// Wide value: cast(cast(x: f32, f16), f32) is x where autocast made the narrowing cast. One that
// the user wrote always rounds. Observers see the stored value and keep the pair: outputs, updates,
// and ops whose result is no float (comparisons, argmax, is_finite). So does a backward reader of a
// forward value: it reads the form that is saved, instead of keeping the wide one alive.
//
// Constant: cast(constant) is the constant in the new type, rounded to nearest even. What the user
// casts may become 0 or Inf. Where autocast narrows a constant, that would turn an eps into 0 or a
// mask into -Inf, so each reader gets another form instead:
//   - an op without numeric effect (class clear: select, max, pad ...) reads the nearest finite
//     non-zero value, with a warning if it was too large: a mask of -1e9 becomes -65504, and a
//     fully masked softmax row is no NaN;
//   - an op that adds (jointly linear: add, sub) reads the smallest subnormal for a lost eps;
//   - every other op reads the f32 constant and computes in f32, and its result is cast.
//
// Needs: autocast, sink-casts. Leaves alone: integer to float pairs that round; narrowing casts of
// a constant that are outputs.
#ifndef DUOTONE_PASSES_FOLD_CASTS_H_
#define DUOTONE_PASSES_FOLD_CASTS_H_

#include "passes/pass.h"

namespace duotone::passes {

class FoldCasts final : public GraphPass {
 public:
  std::string_view name() const override { return "fold-casts"; }
  absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext& ctx) const override;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_FOLD_CASTS_H_
