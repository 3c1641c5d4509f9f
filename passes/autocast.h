// Gives every node one of two tones, a 16-bit type or f32, and inserts the casts.
//
//   before  %h = matmul(%x, %w) : f32[8, 8]
//           %e = exp(%h) : f32[8, 8]
//   after   %x.f16 = cast(%x), to=f16 : f16[8, 8]
//           %w.f16 = cast(%w), to=f16 : f16[8, 8]
//           %h = matmul(%x.f16, %w.f16), out=f32 : f32[8, 8]
//           %e = exp(%h) : f32[8, 8]
//
// passes/colour.h decides; this carries it out. A value needed in another type has one cast per
// type, right behind its definition and shared by all readers. A constant gets a 16-bit twin
// instead. Inputs, state, outputs and updates keep their declared types. What is made or changed
// here says so in its dtype's origin ("autocast:<rule>").
//
// Needs: autodiff not to have run, so that backward nodes inherit their types.   Leaves alone: f64,
// integers, casts and 16-bit types of the user's, regions with autocast off, and graphs that it has
// been through before.
#ifndef DUOTONE_PASSES_AUTOCAST_H_
#define DUOTONE_PASSES_AUTOCAST_H_

#include <utility>

#include "passes/options.h"
#include "passes/pass.h"

namespace duotone::passes {

class Autocast final : public Pass {
 public:
  explicit Autocast(AutocastOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "autocast"; }
  absl::StatusOr<bool> Run(ir::Module& module, PassContext& ctx) const override;

 private:
  AutocastOptions options_;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_AUTOCAST_H_
