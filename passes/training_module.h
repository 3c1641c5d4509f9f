// What train-step, loss-scale and optimizer agree on: the names of entries, states and outputs of a
// module that trains, and which optimizer owns which parameter.
//
// Between the passes everything travels as text, so that each can be tested alone:
//   grad:<param>     output of @step, from train-step to optimizer: the gradient of a parameter
//   guard:<opt>      output of @step, from loss-scale to optimizer: bool[], this optimizer may step
#ifndef DUOTONE_PASSES_TRAINING_MODULE_H_
#define DUOTONE_PASSES_TRAINING_MODULE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "llvm/ADT/ArrayRef.h"
#include "passes/options.h"

namespace duotone::passes {

inline constexpr char kStepGraph[] = "step";
inline constexpr char kEvalGraph[] = "eval";

inline constexpr char kGradPrefix[] = "grad:";
inline constexpr char kGuardPrefix[] = "guard:";

// States of a training module, none of them guarded: they advance on skipped steps too.
inline constexpr char kRngPosition[] = "rng_position";            // i64[], +1 per step
inline constexpr char kLossScale[] = "loss_scale";                // f32[]; also an output
inline constexpr char kGrowthTracker[] = "growth_tracker";        // i32[]
inline constexpr char kSkippedSteps[] = "skipped_steps";          // i64[]; also an output
inline constexpr char kConsecutiveSkips[] = "consecutive_skips";  // i64[]; also an output
// Outputs.
inline constexpr char kSkipped[] = "skipped";               // bool[]: an update was skipped
inline constexpr char kScaleUnusable[] = "scale_unusable";  // bool[]: the run must end
inline constexpr char kLearningRate[] = "lr";               // f32[]

// The entry called `name` of kind state with that type: the one the module has, or a new one. A
// parameter or value of that name, or an entry of another type, is an error.
absl::StatusOr<const ir::StateEntry*> TrainingState(ir::Module& module, std::string_view name,
                                                    ir::Type type, ir::Initializer init = {});

// Adds an output; a name that the graph's author has used is an error.
absl::Status AddTrainingOutput(ir::Graph& graph, std::string_view name, ir::Value value);

// An error if the graph has an output whose name one of the passes gives to its own.
absl::Status CheckOutputNamesAreFree(const ir::Graph& graph);

// Which optimizer owns a parameter: the first whose pattern (a POSIX extended regular expression,
// as llvm::Regex reads it) matches the whole name.
class ParameterOwners {
 public:
  // Errors: a pattern that is no regular expression; a name that is no identifier or given twice.
  static absl::StatusOr<ParameterOwners> Of(const ir::Module& module,
                                            llvm::ArrayRef<OptimizerOptions> optimizers);

  // The position of the owner in the list of optimizers; nothing if the parameter is frozen.
  std::optional<size_t> Find(std::string_view param) const;
  // True if optimizer `i` owns at least one parameter.
  bool OwnsAny(size_t i) const { return owns_any_[i]; }

 private:
  llvm::StringMap<size_t> owner_;
  std::vector<bool> owns_any_;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_TRAINING_MODULE_H_
