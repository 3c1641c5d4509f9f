// Runs the graphs of a module on the CPU device, with feeds and results as ir::Array, so that tests
// can set them beside ir::Interpret.
#ifndef DUOTONE_TESTS_CODEGEN_RUN_PROGRAM_H_
#define DUOTONE_TESTS_CODEGEN_RUN_PROGRAM_H_

#include <memory>
#include <string>
#include <string_view>

#include "codegen/cpu/lower.h"
#include "ir/interpreter.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/state_store.h"

namespace duotone::codegen::cpu {

// The module behind `text`; ends the test process with the message if it is not one.
std::unique_ptr<ir::Module> ParseOrDie(std::string_view text);

// A pseudo-random array: floats on [-2, 2), integers on [0, 4), bool.
ir::Array RandomArray(const ir::Type& type, uint64_t seed);
// Such arrays for the inputs of a graph, or for the state of a module.
ir::ArrayMap RandomInputs(const ir::Graph& graph, uint64_t seed);
ir::ArrayMap RandomState(const ir::Module& module, uint64_t seed);

// A session on a CPU device of its own: one state, one loaded program per graph asked for. Builds
// without the matrix library do without it.
class CpuSession {
 public:
  CpuSession(const ir::Module& module, const ir::ArrayMap& state, int threads,
             LowerOptions options = {});

  // Runs one graph on `inputs`: its outputs and the state behind it, or the error of the run.
  absl::StatusOr<ir::InterpreterResult> Run(const ir::Graph& graph, const ir::ArrayMap& inputs,
                                            runtime::RunOptions options = {});
  // The state now.
  ir::ArrayMap State();
  // Loads the graph if it is not loaded yet.
  absl::StatusOr<runtime::LoadedProgram*> Load(const ir::Graph& graph);
  runtime::Device& device() { return *device_; }

 private:
  const ir::Module& module_;
  LowerOptions options_;
  std::unique_ptr<runtime::Device> device_;
  runtime::StateStore state_;
  std::map<std::string, std::unique_ptr<runtime::LoadedProgram>> programs_;
};

// "" if both have the same names and bits, else the first difference in words.
std::string Difference(const ir::ArrayMap& actual, const ir::ArrayMap& expected);
std::string Difference(const ir::InterpreterResult& actual, const ir::InterpreterResult& expected);

}  // namespace duotone::codegen::cpu

#endif  // DUOTONE_TESTS_CODEGEN_RUN_PROGRAM_H_
