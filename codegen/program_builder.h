// What the lowering to a Program shares between backends: buffers for values, state and outputs,
// their lifetimes, updates that are not done in place, and the plan of the arena. A backend derives
// from it and says what a node becomes.
//
// Time 0 is before the first node, time i + 1 is node i, and the last time is after all nodes.
#ifndef DUOTONE_CODEGEN_PROGRAM_BUILDER_H_
#define DUOTONE_CODEGEN_PROGRAM_BUILDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "codegen/buffer_plan.h"
#include "codegen/storage.h"
#include "ir/graph.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "runtime/program.h"

namespace duotone::codegen {

// The sizes of a static type.
std::vector<int64_t> SizesOf(const ir::Type& type);
int64_t Product(llvm::ArrayRef<int64_t> sizes);

class ProgramBuilder {
 public:
  // `rng_position` names the i64[] state entry that random numbers key on.
  ProgramBuilder(const ir::Graph& graph, std::string rng_position)
      : graph_(graph),
        rng_position_(std::move(rng_position)),
        storage_(graph),
        end_(static_cast<int>(graph.node_count()) + 1) {
    program_.name = graph.name();
  }
  virtual ~ProgramBuilder() = default;

  absl::StatusOr<runtime::Program> Run();

 protected:
  // Checks what the backend does not take, beyond types that are not static.
  virtual absl::Status CheckNode(const ir::Node& node) const = 0;
  // The steps of one node; nodes that only rename their operand's memory and folded constants do
  // not come here.
  virtual absl::Status AddNode(ir::Node* node) = 0;
  // Called after the last node, before the updates that are not done in place.
  virtual absl::Status AfterNodes() { return absl::OkStatus(); }
  // A copy that is only made where `guard` holds.
  virtual absl::Status EmitGuardedCopy(runtime::Copy copy, int guard) = 0;

  // Buffers.
  int NewBuffer(std::string name, const ir::Type& type, runtime::BufferKind kind);
  int NewTemporary(std::string name, DType dtype, std::vector<int64_t> shape);
  int StateBuffer(const ir::StateEntry& entry);
  // The buffer of a value that exists already, alive at least until now.
  int Read(ir::Value value);
  // The buffer that the node computing this root writes, alive from now on.
  int Write(ir::Value root);
  // Makes `buffer` the memory of a value, which has none yet.
  void SetBuffer(ir::Value value, int buffer) { buffers_[KeyOf(value)] = buffer; }
  bool HasBuffer(ir::Value value) const { return buffers_.contains(KeyOf(value)); }
  void Touch(int buffer, int time);
  void Emit(decltype(runtime::Step::action) action, int guard = -1) {
    program_.steps.push_back({std::move(action), guard});
  }

  const ir::Graph& graph() const { return graph_; }
  const StoragePlan& storage() const { return storage_; }
  runtime::Program& program() { return program_; }
  int now() const { return time_; }
  int end() const { return end_; }

 private:
  absl::Status CheckGraph() const;
  void AddInputs();
  void FindRngPosition();
  void CopyOldOutputs();
  void AddOutputs();
  absl::Status AddUpdates();
  absl::Status PlaceBuffers();
  bool FoldConstant(ir::Node* node);
  // A buffer for `value` with the bytes of `root`.
  int Alias(ir::Value value, int root);

  const ir::Graph& graph_;
  const std::string rng_position_;
  const StoragePlan storage_;
  const int end_;
  int time_ = 0;
  runtime::Program program_;
  std::vector<Lifetime> lifetimes_;  // by buffer
  llvm::DenseMap<ValueKey, int> buffers_;
  llvm::DenseMap<const ir::StateEntry*, int> state_;
  llvm::StringMap<int> copied_outputs_;  // buffers of outputs that name an input or state entry
};

}  // namespace duotone::codegen

#endif  // DUOTONE_CODEGEN_PROGRAM_BUILDER_H_
