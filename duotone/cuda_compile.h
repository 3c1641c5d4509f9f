// From a training module to compiled CUDA kernels: copies of weights, sizes, fusion, code
// generation, NVRTC. Sessions and `duotone kernels` share it; not installed.
//
//   DUOTONE_RETURN_IF_ERROR(AddWeightCopies(module));       // once, before the state is allocated
//   DUOTONE_ASSIGN_OR_RETURN(CudaEntry entry, LowerForCuda(module, "step", {{"B", 128}}, options));
//   entry.program.kernels[0].source                         // readable without any part of CUDA
//   DUOTONE_ASSIGN_OR_RETURN(runtime::CompileStatistics statistics, CompileKernels(entry.program,
//                                                                                  options));
#ifndef DUOTONE_DUOTONE_CUDA_COMPILE_H_
#define DUOTONE_DUOTONE_CUDA_COMPILE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/gpu_target.h"
#include "ir/graph.h"
#include "passes/options.h"
#include "passes/pass_manager.h"
#include "runtime/cuda/compiler.h"
#include "runtime/program.h"

namespace duotone::internal {

struct CudaCompileOptions {
  const GpuTarget* target = nullptr;  // never null
  bool exact = false;                 // rounds where the reference evaluator does
  // "NODE=SCHEDULE", see codegen/cuda/kernel.h.
  std::vector<std::string> schedules;
  passes::PassOptions passes;  // for the passes that run here
  // Compiled with; null: NVRTC is opened.
  runtime::KernelCompiler* compiler = nullptr;
  runtime::KernelCache* cache = nullptr;  // null: none
  int threads = 0;                        // 0: as many as the machine runs at once
  std::string reproducer_directory;       // for a kernel that does not compile; empty: nowhere
};

struct CudaEntry {
  std::unique_ptr<ir::Module> module;  // with the fused entry as its only graph
  const ir::Graph* graph = nullptr;
  passes::PassReport passes;
  runtime::Program program;
  std::vector<std::string> warnings;  // "bf16 on sm_75 computes through f32"
};

// Adds the 16-bit copies of the weights that the module's graphs read as casts: the part of the
// pipeline `cuda` before fuse. They are derived state, so it comes before the state is allocated. A
// module that has them stays as it is.
absl::StatusOr<passes::PassReport> AddWeightCopies(ir::Module& trained,
                                                   const passes::PassOptions& options);

// The program of one entry for `options.target`, with source texts but no machine code. Every named
// size of the entry must be bound.
absl::StatusOr<CudaEntry> LowerForCuda(const ir::Module& trained, std::string_view entry,
                                       const ir::SizeBinding& sizes,
                                       const CudaCompileOptions& options);

// Fills in the machine code of all kernels.
absl::StatusOr<runtime::CompileStatistics> CompileKernels(runtime::Program& program,
                                                          const CudaCompileOptions& options);

// Both at once.
absl::StatusOr<runtime::Program> CompileForCuda(const ir::Module& trained, std::string_view entry,
                                                const ir::SizeBinding& sizes,
                                                const CudaCompileOptions& options);

}  // namespace duotone::internal

#endif  // DUOTONE_DUOTONE_CUDA_COMPILE_H_
