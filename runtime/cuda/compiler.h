// Compiles the kernels of a Program: CUDA C++ text in, machine code and PTX out.
//
//   DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<KernelCompiler> compiler, CreateNvrtcCompiler());
//   KernelCache cache;  // runtime/cuda/kernel_cache.h
//   DUOTONE_ASSIGN_OR_RETURN(CompileStatistics statistics,
//                            CompileProgram(program, "sm_80", *compiler, &cache, /*threads=*/0));
//   program.kernels[0].cubin
//
// Needs neither a GPU nor its driver.
#ifndef DUOTONE_RUNTIME_CUDA_COMPILER_H_
#define DUOTONE_RUNTIME_CUDA_COMPILER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/kernel.h"
#include "runtime/program.h"

namespace duotone::runtime {

class KernelCache;

struct CompiledKernel {
  // Machine code for exactly the architecture asked for; empty where only PTX is wanted.
  std::string cubin;
  std::string ptx;  // for devices that are newer
  std::string log;  // warnings; usually empty
};

class KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;
  // Threads may call it at the same time. The same arguments give the same bytes. An error carries
  // the compiler's log and the lines of the source it speaks of.
  virtual absl::StatusOr<CompiledKernel> Compile(const Kernel& kernel,
                                                 std::span<const SourceHeader> headers,
                                                 std::string_view architecture) = 0;
  // Everything but source, headers and identity that decides the result.
  virtual std::vector<std::string> options(const Kernel& kernel,
                                           std::string_view architecture) const = 0;
  // Which compiler this is, down to its build: "NVRTC 13.0 build 65be0db3...".
  virtual std::string identity() const = 0;
};

struct NvrtcOptions {
  bool line_info = false;  // line tables in the machine code, for profilers, and in the PTX
  bool only_ptx = false;   // no machine code: takes a third of the time
};

// NVRTC, opened at run time (runtime/cuda/nvrtc.h); an error says where it was searched for.
absl::StatusOr<std::unique_ptr<KernelCompiler>> CreateNvrtcCompiler(
    const NvrtcOptions& options = {});

struct CompileStatistics {
  int kernels = 0;     // in the program
  int compiled = 0;    // by the compiler
  int cache_hits = 0;  // read from the cache
  int threads = 0;
  double seconds = 0;          // from first to last
  double compile_seconds = 0;  // of the compiler, summed over threads
  // Sentences for the user: a cache that cannot be written, what the compiler warned of.
  std::vector<std::string> warnings;
};

// Compiles every kernel of `program` for `architecture` ("sm_80") and fills its architecture, cubin
// and ptx; those that have them already are left alone, equal sources are compiled once. Up to
// `threads` work at a time, 0: as many as the machine runs at once. The result does not depend on
// their number. Of several errors the first kernel's is reported, with the nodes it computes; the
// kernel and its headers are left in a new folder in `reproducer_directory` (empty: nowhere).
absl::StatusOr<CompileStatistics> CompileProgram(Program& program, std::string_view architecture,
                                                 KernelCompiler& compiler, KernelCache* cache,
                                                 int threads,
                                                 const std::string& reproducer_directory = "");

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_COMPILER_H_
