// Turns an entry graph with static types into a Program for the CPU device.
//
//   graph @step(%x: f32[8, 4]) {             s0 matmul  %h  b2 = b0 * b1  1x8x4x4
//     %h = matmul(%x, %w) : f32[8, 4]        s1 call    neg %y  b3 = (b2)
//     %y = neg(%h) : f32[8, 4]
//     return y=%y
//   }
//
// Every node becomes a call of its reference evaluation, except: products of matrices are library
// calls; constants are evaluated here; a node that keeps its operand's bytes (reshape) only gives
// them another shape.
//
// Updates keep read-old semantics. A node's result is written straight into the state entry it
// updates if nothing reads the old value afterwards; a guard then makes the whole step conditional,
// which needs that its results reach nothing but updates under the same guard. All other updates
// are (guarded) copies at the end; cycles go through temporaries.
#ifndef DUOTONE_CODEGEN_CPU_LOWER_H_
#define DUOTONE_CODEGEN_CPU_LOWER_H_

#include <string>

#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "runtime/program.h"

namespace duotone::codegen::cpu {

struct LowerOptions {
  // False: products of matrices by reference evaluation too, so that every bit agrees with
  // ir::Interpret.
  bool use_library = true;
  // The i64[] state entry that random numbers key on, if the module has it.
  std::string rng_position = "rng_position";
};

// The graph is verified and has static types (ir::BindSizes).
absl::StatusOr<runtime::Program> Lower(const ir::Graph& graph, const LowerOptions& options = {});

}  // namespace duotone::codegen::cpu

#endif  // DUOTONE_CODEGEN_CPU_LOWER_H_
