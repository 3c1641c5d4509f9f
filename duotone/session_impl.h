// What a TrainSession is made of: the compiled module, one loaded program per entry and binding of
// named sizes, and the state that all of them share.
#ifndef DUOTONE_DUOTONE_SESSION_IMPL_H_
#define DUOTONE_DUOTONE_SESSION_IMPL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "duotone/backend.h"
#include "duotone/feeds.h"
#include "duotone/session.h"
#include "ir/graph.h"
#include "runtime/device.h"
#include "runtime/state_store.h"

namespace duotone::internal {

// A scalar output that every step reads; absent outputs keep buffer -1.
struct ScalarOutput {
  int buffer = -1;
  DType dtype = DType::kF32;
};

// One entry graph compiled for one binding of its named sizes.
struct Specialisation {
  std::shared_ptr<const runtime::Program> program;
  std::unique_ptr<runtime::LoadedProgram> loaded;
  std::vector<ScalarOutput> losses;
  ScalarOutput loss_scale, skipped, skipped_steps, consecutive_skips, scale_unusable, lr;
  uint64_t last_run = 0;  // the number of its latest run, in the session's counting
};

// What is known of a step: nothing until it is ready.
struct StepResult {
  const SessionImpl* session = nullptr;  // null once the session is gone
  const Specialisation* specialisation = nullptr;
  uint64_t run = 0;  // the run whose outputs may be read
  int64_t step = 0;
  bool ready = false;
  absl::Status status;
  bool status_was_returned = false;
  double loss = 0;
  double loss_scale = 1;
  double lr = 0;
  int64_t skipped_steps = 0;
  int64_t consecutive_skips = 0;
  bool skipped = false;
};

class SessionImpl {
 public:
  ~SessionImpl();
  // `module` has been through the training pipeline; `model_hash` is that of the model it was made
  // from.
  static absl::StatusOr<std::unique_ptr<SessionImpl>> Create(std::unique_ptr<ir::Module> module,
                                                             const Options& options,
                                                             uint64_t model_hash,
                                                             CompileReport report,
                                                             std::unique_ptr<Backend> backend);
  static TrainSession Wrap(std::unique_ptr<SessionImpl> impl) {
    return TrainSession(std::move(impl));
  }

  absl::StatusOr<BoundStep> Bind(absl::Span<const Feed> feeds);
  absl::StatusOr<Metrics> Run(const BoundStep& step);
  absl::StatusOr<Outputs> Evaluate(absl::Span<const Feed> feeds);
  absl::StatusOr<Tensor> ReadOutput(const StepResult& result, std::string_view name) const;
  // Waits for the step, if it is not ready, and reads its numbers.
  void Finish(StepResult& result) const;

  std::vector<StateInfo> States() const;
  absl::StatusOr<Tensor> GetState(std::string_view name) const;
  absl::Status SetState(std::string_view name, const TensorRef& value);
  absl::StatusOr<CheckpointInfo> Save(const std::string& path,
                                      const CheckpointExtras& extras) const;
  absl::StatusOr<CheckpointInfo> Load(const std::string& path,
                                      const LoadCheckpointOptions& options);

  std::vector<Model::Entry> inputs() const;
  const std::string& ir_text() const { return ir_text_; }
  const CompileReport& report() const { return report_; }
  int64_t steps() const { return steps_; }
  uint64_t seed() const { return options_.seed; }

 private:
  SessionImpl() = default;

  // The entry called `graph` compiled for these sizes; made on first use.
  absl::StatusOr<Specialisation*> Specialise(std::string_view graph, const BoundFeeds& feeds);
  absl::StatusOr<std::unique_ptr<Specialisation>> Make(std::string_view graph,
                                                       const ir::SizeBinding& sizes);
  // Uploads the feeds, waits for the last step, and gives the run to the device.
  // `what` is named in errors: "step 7".
  absl::Status Execute(Specialisation& specialisation, const std::vector<const void*>& data,
                       std::string_view what);
  // Waits for the last step; its error, unless somebody has got it already.
  absl::Status Settle() const;
  // One that nobody holds, or a new one: steps do not allocate once there are enough.
  std::shared_ptr<StepResult> NewResult();
  absl::Status ReadNumbers(StepResult& result) const;
  absl::StatusOr<double> ReadScalar(const Specialisation& specialisation, ScalarOutput output,
                                    double absent) const;
  absl::StatusOr<Tensor> ReadBuffer(const Specialisation& specialisation, int buffer) const;
  absl::Status CheckScale(const StepResult& result, bool unusable) const;
  // Checks that a checkpoint fits and writes its entries; all or nothing as far as checks go.
  absl::Status Restore(const Checkpoint& checkpoint, const LoadCheckpointOptions& options);

  Options options_;
  std::unique_ptr<ir::Module> module_;
  std::string ir_text_;
  uint64_t model_hash_ = 0;
  CompileReport report_;
  std::unique_ptr<Backend> backend_;
  runtime::Device* device_ = nullptr;  // the backend's
  std::unique_ptr<runtime::StateStore> state_;
  // By entry name and the values of its named sizes. Destroyed before the state and the device they
  // are tied to.
  std::map<std::pair<std::string, std::vector<int64_t>>, std::unique_ptr<Specialisation>> programs_;
  int64_t steps_ = 0;
  uint64_t runs_ = 0;
  mutable std::shared_ptr<StepResult> last_;  // null where its error has been dealt with
  std::vector<std::shared_ptr<StepResult>> results_;
};

// The hash that a checkpoint keeps of the model: of its text without source locations.
uint64_t HashModel(const ir::Module& module);

}  // namespace duotone::internal

#endif  // DUOTONE_DUOTONE_SESSION_IMPL_H_
