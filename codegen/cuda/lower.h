// Turns a fused entry graph with static types into a Program for CUDA devices: every fusion is one
// launch; second stages of reductions are gathered into few launches; equal kernels are one.
//
//   %h = fusion(%x, %w, %b), family="matmul" { ... }   ->   s0 launch matmul %h k0 <<<64, 256>>>
//                                                           (b0, b1, b2) -> (b3)
#ifndef DUOTONE_CODEGEN_CUDA_LOWER_H_
#define DUOTONE_CODEGEN_CUDA_LOWER_H_

#include <string>

#include "absl/status/statusor.h"
#include "codegen/cuda/kernel.h"
#include "ir/graph.h"
#include "runtime/program.h"

namespace duotone::codegen::cuda {

struct LowerOptions {
  CodegenOptions codegen;
  // The i64[] state entry that random numbers key on, if the module has it.
  std::string rng_position = "rng_position";
};

// The graph has been through passes/fuse: its nodes are fusions, views that need no code,
// constants, and all_finite over flags.
absl::StatusOr<runtime::Program> Lower(const ir::Graph& graph, const LowerOptions& options);

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_CODEGEN_CUDA_LOWER_H_
