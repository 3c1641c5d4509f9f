// A compiled model that trains.
//
//   absl::StatusOr<TrainSession> session = Compile(std::move(b), {.optimizers = {AdamW{}}});
//   for (const Batch& batch : data) {
//     absl::StatusOr<Metrics> metrics = session->Step({{"x", batch.images}, {"y", batch.labels}});
//     if (!metrics.ok()) ...
//     printf("%g\n", metrics->loss());
//   }
#ifndef DUOTONE_DUOTONE_SESSION_H_
#define DUOTONE_DUOTONE_SESSION_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "duotone/checkpoint.h"
#include "duotone/graph_builder.h"
#include "duotone/options.h"
#include "duotone/types.h"

namespace duotone {

namespace internal {
class SessionImpl;      // duotone/session_impl.h
struct Specialisation;  // duotone/session_impl.h
struct StepResult;      // duotone/session_impl.h
}  // namespace internal

// An input by name with the numbers it gets.
struct Feed {
  std::string_view name;
  TensorRef value;
};

// What a step reports. On a GPU, Step returns while the device works, and the first read waits
// until the step is done. If something in the data then turns out to be wrong (an index out of
// range), the loss is NaN, and the error is what status() returns or, where nobody asks, the
// session's next call. On the CPU, Step itself returns the error.
class Metrics {
 public:
  absl::Status status() const;
  double loss() const;                // the sum of the losses
  double loss_scale() const;          // the one this step used; 1 without scaling
  bool skipped() const;               // the gradients were not finite: no update
  int64_t skipped_steps() const;      // so far
  int64_t consecutive_skips() const;  // up to this step
  double lr() const;                  // the rate of the first optimizer
  // Steps run so far, this one and skipped ones included. Does not wait.
  int64_t step() const;

  // An output of the graph by name. Outputs keep their values until the session's next step.
  absl::StatusOr<Tensor> Output(std::string_view name) const;
  // The same as a number, for scalars.
  absl::StatusOr<double> Get(std::string_view name) const;

 private:
  friend class internal::SessionImpl;
  std::shared_ptr<internal::StepResult> result_;
};

// What Evaluate returns: all outputs of the graph.
class Outputs {
 public:
  // Null if there is no such output.
  const Tensor* Find(std::string_view name) const;
  absl::StatusOr<double> Get(std::string_view name) const;
  const std::map<std::string, Tensor, std::less<>>& all() const { return tensors_; }

 private:
  friend class internal::SessionImpl;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// A step whose feeds are fixed places in the caller's memory: Run() reads what stands there,
// without looking up names and without allocating. Valid as long as the session and the memory.
class BoundStep {
 public:
  absl::StatusOr<Metrics> Run();

 private:
  friend class internal::SessionImpl;
  internal::SessionImpl* session_ = nullptr;
  internal::Specialisation* specialisation_ = nullptr;
  std::vector<const void*> data_;  // in the order of the program's inputs
};

struct StateInfo {
  std::string name;
  StateKind kind = StateKind::kParam;
  DType dtype = DType::kF32;
  Sizes shape;
};

// What compilation did, for people (text) and programs.
struct CompileReport {
  std::string text;                                // a few lines
  std::map<std::string, int64_t> nodes_per_dtype;  // of @step
  int64_t casts = 0;                               // inserted by autocast
  double flops_low_share = 0;                      // in 16 bits
  std::vector<std::string> warnings;
  std::string passes;  // the table of passes with times
};

class TrainSession {
 public:
  TrainSession(TrainSession&&) noexcept;
  TrainSession& operator=(TrainSession&&) noexcept;
  ~TrainSession();

  // One training step. Sizes such as B are bound by the feeds' shapes; the first step with new
  // sizes compiles a variant that shares all state, so the last, smaller batch of an epoch needs
  // nothing special. A wrong feed changes nothing; an error in the
  // data, such as a label out of range, comes before any parameter changes.
  absl::StatusOr<Metrics> Step(absl::Span<const Feed> feeds);
  absl::StatusOr<Metrics> Step(std::initializer_list<Feed> feeds) {
    return Step(absl::Span<const Feed>(feeds.begin(), feeds.size()));
  }
  absl::StatusOr<BoundStep> Bind(absl::Span<const Feed> feeds);
  absl::StatusOr<BoundStep> Bind(std::initializer_list<Feed> feeds) {
    return Bind(absl::Span<const Feed>(feeds.begin(), feeds.size()));
  }
  // Runs the forward graph without dropout and without changing any state.
  absl::StatusOr<Outputs> Evaluate(absl::Span<const Feed> feeds);
  absl::StatusOr<Outputs> Evaluate(std::initializer_list<Feed> feeds) {
    return Evaluate(absl::Span<const Feed>(feeds.begin(), feeds.size()));
  }

  // Parameters, moments, counters: all by name.
  std::vector<StateInfo> States() const;
  absl::StatusOr<Tensor> GetState(std::string_view name) const;
  absl::Status SetState(std::string_view name, const TensorRef& value);

  absl::StatusOr<CheckpointInfo> SaveCheckpoint(const std::string& path,
                                                const CheckpointExtras& extras = {}) const;
  absl::StatusOr<CheckpointInfo> LoadCheckpoint(const std::string& path,
                                                const LoadCheckpointOptions& options = {});

  // The inputs that Step and Evaluate want.
  std::vector<Model::Entry> inputs() const;
  // The module after all passes, with @step and @eval: every dtype and cast is in it.
  const std::string& ir_text() const;
  const CompileReport& report() const;
  int64_t step() const;  // steps run, skipped ones and those before a loaded checkpoint included
  uint64_t seed() const;

 private:
  friend class internal::SessionImpl;
  explicit TrainSession(std::unique_ptr<internal::SessionImpl> impl);
  std::unique_ptr<internal::SessionImpl> impl_;
};

// Compiles a model for training. A failure in the compiler leaves a reproducer and says where.
absl::StatusOr<TrainSession> Compile(const Model& model, const Options& options);
absl::StatusOr<TrainSession> Compile(GraphBuilder&& builder, const Options& options);

}  // namespace duotone

#endif  // DUOTONE_DUOTONE_SESSION_H_
