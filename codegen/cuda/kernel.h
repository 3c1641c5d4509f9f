// What a kernel generator makes of one fusion: CUDA C++ text, the shape of the launch, and what has
// to be passed. codegen/cuda/lower.cc turns it into steps of a Program.
//
//   fusion(%x, %b) family=pointwise     ->   extern "C" __global__ void kernel(const half* in0,
//                                              const half* in1, half* out0) { ... }
//                                            <<<64, 128>>>(operand 0, operand 1, result 0)
#ifndef DUOTONE_CODEGEN_CUDA_KERNEL_H_
#define DUOTONE_CODEGEN_CUDA_KERNEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/gpu_target.h"
#include "ir/graph.h"
#include "runtime/kernel.h"

namespace duotone::codegen::cuda {

// Buffers are padded to runtime::kBufferAlignment, and the padding belongs to them: whole 16-byte
// vectors may be read and written at the end of a flat array. What is there must not reach a
// reduction or a test.

struct CodegenOptions {
  const GpuTarget* target = nullptr;  // never null
  // Rounds at every node and uses neither contraction nor approximate functions, so that results
  // are those of the reference evaluator (design.md, numerics contract).
  bool exact = false;
  // "NODE=SCHEDULE": a candidate of the cost model by its text (codegen/cuda/schedule.h) for the
  // kernel of that node, or of every node with "*".
  std::vector<std::string> schedules;
};

struct Argument {
  enum class Kind : uint8_t {
    kOperand,    // the address of operand `index` of the fusion
    kResult,     // of result `index`
    kTemporary,  // of temporaries[index]
    kTable,      // an array of addresses: `table`, of operands, results and temporaries
    kRandom,     // const RandomState*
    kErrors,     // ErrorRecord*
    kStep,       // int: the number of the launch in the Program, for error records
    kInt,        // int: `value`
  };
  Kind kind = Kind::kOperand;
  int index = 0;
  int64_t value = 0;
  std::vector<Argument> table;
};

// Memory that the kernel and its finish share.
struct Temporary {
  std::string what;  // "partial sums of %b.grad"
  int64_t bytes = 0;
};

// The second stage of a reduction over all blocks: result[i] = combine over c < chunks of
// partial[c, i], in an order that `chunks` decides, in f32 (f64, i64). Deterministic whatever ran
// first. Finishes of several kernels are gathered into one launch.
struct Finish {
  enum class Kind : uint8_t { kSum, kMean, kMax, kMin };
  Kind kind = Kind::kSum;
  int temporary = 0;  // [chunks, elements] of dtype `partial`
  int result = 0;     // of the fusion
  int64_t chunks = 0;
  int64_t elements = 0;
  double count = 1;             // kMean divides by it
  int finite_result = -1;       // the all_finite result (bool[]) that tests result, or none
  DType partial = DType::kF32;  // or f64, i64: what the kernel reduces in
};

struct GeneratedKernel {
  std::string family;  // as in the fusion's attributes
  std::string source;  // complete but for the headers; the entry point is `kernel`
  bool contract = true;
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t shared_bytes = 0;  // dynamic
  std::vector<Argument> arguments;
  std::vector<Temporary> temporaries;
  std::vector<Finish> finishes;
  // Results bool[] of all_finite that the kernel itself clears with atomicAnd on the 4-byte word at
  // the result; the word is 1 before.
  std::vector<int> finite_results;
  std::vector<std::string> labels;  // of `#line` 1, 2, ...
  std::string schedule;             // the chosen candidate
  std::string schedules;            // all candidates, ranked, for dumps
  double flops = 0;
};

// One per family. `fusion` has static types; its composites are still whole, the generator expands
// them (codegen/expand.h). `guard` (bool*), where given, is read first: the kernel returns where it
// is false; it is passed as the operand after the last.
// `in_place` names the operands whose buffer is also a result's: the kernel may read an element of
// them only where it writes that element.
struct GuardOption {
  bool present = false;
  std::vector<int> in_place;
};
absl::StatusOr<GeneratedKernel> GeneratePointwise(const ir::Node& fusion, GuardOption guard,
                                                  const CodegenOptions& options);
absl::StatusOr<GeneratedKernel> GenerateRow(const ir::Node& fusion, GuardOption guard,
                                            const CodegenOptions& options);
absl::StatusOr<GeneratedKernel> GenerateColumn(const ir::Node& fusion, GuardOption guard,
                                               const CodegenOptions& options);
absl::StatusOr<GeneratedKernel> GenerateMatMul(const ir::Node& fusion, GuardOption guard,
                                               const CodegenOptions& options);
absl::StatusOr<GeneratedKernel> GenerateOptimizer(const ir::Node& fusion, GuardOption guard,
                                                  const CodegenOptions& options);
absl::StatusOr<GeneratedKernel> GenerateScatter(const ir::Node& fusion, GuardOption guard,
                                                const CodegenOptions& options);
// What runtime::KernelLaunch::family can be: the families of fusions, and of the two kernels below,
// which lowering adds.
inline constexpr std::string_view kFinishFamily = "finish";
inline constexpr std::string_view kCopyFamily = "copy";
std::vector<std::string_view> KernelFamilies();

// Dispatches on the family.
absl::StatusOr<GeneratedKernel> GenerateKernel(const ir::Node& fusion, GuardOption guard,
                                               const CodegenOptions& options);

// One second stage of a finish launch. Operand j is job j's partial array, result j its result;
// behind the results follow the words of the tests, of those jobs that have one, in their order.
struct FinishJob {
  Finish finish;
  DType dtype = DType::kF32;  // of the result
};
absl::StatusOr<GeneratedKernel> GenerateFinish(const std::vector<FinishJob>& jobs,
                                               const CodegenOptions& options);

// Copies operand 0, of so many bytes, to result 0 where operand 1, the guard, is true.
GeneratedKernel GenerateGuardedCopy(int64_t bytes);

// The texts of codegen/cuda/kernels/*.cuh under the names that sources include.
std::vector<runtime::SourceHeader> KernelHeaders();

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_CODEGEN_CUDA_KERNEL_H_
