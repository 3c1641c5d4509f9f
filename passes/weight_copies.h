// Keeps 16-bit copies of trained f32 weights as derived state, so that a step reads them instead of
// casting every weight anew, and the optimizer writes them beside the weights.
//
//   before  param %w: f32[4]
//           %w.f16 = cast(%w), to=f16 : f16[4]
//           update %w = %w.next guard=%ok
//   after   derived %w.f16: f16[4] = cast_of(%w)
//           %w.f16.next = cast(%w.next), to=f16 : f16[4]
//           update %w = %w.next guard=%ok
//           update %w.f16 = %w.f16.next guard=%ok
//
// Every graph that casts the weight reads the copy, and every graph that updates the weight updates
// the copy under the same guard, so the two never differ. The bits of a step stay the same.
//
// Leaves alone: parameters that no graph updates (their casts cost nothing in training), and those
// whose new value is another entry's old one; casts of anything but a parameter itself, such as a
// transposed one; casts to other than 16-bit types.
#ifndef DUOTONE_PASSES_WEIGHT_COPIES_H_
#define DUOTONE_PASSES_WEIGHT_COPIES_H_

#include "passes/pass.h"

namespace duotone::passes {

class WeightCopies final : public Pass {
 public:
  std::string_view name() const override { return "weight-copies"; }
  absl::StatusOr<bool> Run(ir::Module& module, PassContext& ctx) const override;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_WEIGHT_COPIES_H_
