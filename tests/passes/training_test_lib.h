// Runs whole training steps on the reference interpreter, for tests of the training passes.
#ifndef DUOTONE_TESTS_PASSES_TRAINING_TEST_LIB_H_
#define DUOTONE_TESTS_PASSES_TRAINING_TEST_LIB_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/interpreter.h"
#include "passes/options.h"

namespace duotone::passes {

// A module that has gone through train-step, autocast, autodiff, loss-scale and optimizer, with its
// state.
class Trainer {
 public:
  // Sizes must be numbers. A module that has a @step is left alone by train-step.
  static absl::StatusOr<Trainer> Make(std::string_view text, const PassOptions& options);

  // Runs @step once; the state afterwards replaces the one before. Returns the outputs.
  absl::StatusOr<ir::ArrayMap> Step(const ir::ArrayMap& inputs);

  // Element i of a state entry.
  double Get(std::string_view entry, int64_t i = 0) const;
  void Set(std::string_view entry, double value);
  const ir::ArrayMap& state() const { return state_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::unique_ptr<ir::Module> module_;
  ir::ArrayMap state_;
  std::vector<std::string> warnings_;
};

// A parsed module on which autodiff has been run.
absl::StatusOr<std::unique_ptr<ir::Module>> Differentiated(std::string_view text);

ir::Array F32(double value);
ir::Array F32(std::vector<double> values);
ir::Array F64(std::vector<double> values, std::vector<int64_t> shape);

// One optimizer of that kind and rate, without weight decay.
OptimizerOptions OptimizerOf(OptimizerOptions::Kind kind, double lr);

}  // namespace duotone::passes

#endif  // DUOTONE_TESTS_PASSES_TRAINING_TEST_LIB_H_
