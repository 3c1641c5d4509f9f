// Runs the kernel of one fusion on the CPU and compares it with the reference evaluation of its
// body.
//
//   ExpectFusionMatches(R"(graph @f(%x: f16[32, 64], %b: f16[64]) {
//     %bb = broadcast(%b), dims=[1] : f16[32, 64]
//     %s = add(%x, %bb) : f16[32, 64]
//     %y = relu(%s) : f16[32, 64]
//     return y=%y
//   })", {}, /*tolerance=*/0, {.family = "pointwise"});
#ifndef DUOTONE_TESTS_CODEGEN_CUDA_RUN_KERNEL_H_
#define DUOTONE_TESTS_CODEGEN_CUDA_RUN_KERNEL_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "codegen/cuda/kernel.h"
#include "ir/graph.h"
#include "ir/interpreter.h"
#include "runtime/kernel.h"

namespace duotone::codegen::cuda {

struct FusionOptions {
  std::string family;  // of a fusion made from a plain graph
  std::string_view target = "sm_80";
  bool exact = false;
  std::vector<std::string> schedules;  // as CodegenOptions::schedules
  std::optional<bool> guard;           // the fusion has a guard with this value
  // Results that share the memory of an operand: {result, operand}.
  std::vector<std::pair<int, int>> in_place;
  ir::RandomKey random;
  uint64_t input_seed = 1;  // of the inputs that the test does not give
};

// A module whose graph @main holds one fusion over its inputs and returns its results. `text` is
// such a module already, or a graph alone that becomes the body. Ends the test process with the
// message if it is neither.
struct FusionModule {
  std::unique_ptr<ir::Module> module;
  ir::Node* fusion = nullptr;
};
FusionModule ParseFusion(std::string_view text, std::string_view family = "");

// What came out of a kernel and its second stages.
struct FusionRun {
  GeneratedKernel kernel;
  std::vector<ir::Array> results;
  runtime::ErrorRecord error;  // claimed: an index was out of range
};
// Generates the kernel, compiles it for the host and runs it twice: with the threads in order and
// in reverse. An error if the two differ in a bit, if memory around a buffer is written, if threads
// deadlock.
absl::StatusOr<FusionRun> RunFusion(const ir::Node& fusion, llvm::ArrayRef<ir::Array> operands,
                                    const FusionOptions& options = {});

// Expects the fusion's kernel to give what ir::Interpret says: |a - b| <= tolerance * max(1, |b|)
// for floats, where NaN equals NaN, and equality for the rest. `inputs` by name; those that are
// missing are made up.
void ExpectFusionMatches(std::string_view text, const ir::ArrayMap& inputs, double tolerance,
                         const FusionOptions& options = {});

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_TESTS_CODEGEN_CUDA_RUN_KERNEL_H_
