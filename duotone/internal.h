// What the public classes hide: the module under construction, and the helper that every graph
// function is written with. For the .cc files of this folder and for tools that print a model's IR;
// not installed.
#ifndef DUOTONE_DUOTONE_INTERNAL_H_
#define DUOTONE_DUOTONE_INTERNAL_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "duotone/graph_builder.h"
#include "ir/graph.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::internal {

struct BuilderState {
  explicit BuilderState(std::string_view name);

  std::string name;
  std::unique_ptr<ir::Module> module;  // null after Build()
  ir::Graph* graph = nullptr;
  absl::Status error;             // the first
  std::vector<ir::Value> values;  // by Value::id_
  std::string scope;
  std::vector<ir::Region> regions;

  // Keeps the first error: "<file>:<line>: <what>: <message>".
  void Fail(Loc loc, std::string_view what, std::string_view message);
};

struct ModelData {
  std::unique_ptr<const ir::Module> module;
};

// The door to the private parts of the public classes.
struct Access {
  static const std::shared_ptr<BuilderState>& State(const Value& value) { return value.builder_; }
  static int Id(const Value& value) { return value.id_; }
  static Value Make(std::shared_ptr<BuilderState> state, ir::Value value);
  static Value Failed(std::shared_ptr<BuilderState> state);
  static const std::shared_ptr<BuilderState>& State(const GraphBuilder& builder) {
    return builder.state_;
  }
  static Model MakeModel(std::unique_ptr<const ir::Module> module);
  // Null for a default-constructed model.
  static const ir::Module* ModuleOf(const Model& model) {
    return model.data_ == nullptr ? nullptr : model.data_->module.get();
  }
};

// The size, shape or type as the IR has it, or an error that quotes the text.
absl::StatusOr<ir::Dim> ToDim(const Size& size);
absl::StatusOr<ir::Shape> ToShape(const std::vector<Size>& shape);
absl::StatusOr<ir::Type> ToType(const TensorType& type);
TensorType FromType(const ir::Type& type);

// The graph of `module` that is trained: the one called `name`; without a name the only graph, else
// @loss or @main.
absl::StatusOr<const ir::Graph*> ForwardGraph(const ir::Module& module, std::string_view name = "");

// One call of a graph function: checks that its operands belong together, adds nodes, and turns the
// first failure into the builder's error. After a failure every method returns an empty value and
// adds nothing.
class Call {
 public:
  // `what` is the text name shown in messages.
  Call(std::string_view what, Loc loc, llvm::ArrayRef<const Value*> operands);
  Call(std::string_view what, Loc loc, std::shared_ptr<BuilderState> state);

  bool ok() const { return ok_; }
  BuilderState& state() { return *state_; }
  ir::Value operand(int i) const { return ok_ ? operands_[i] : ir::Value{}; }
  llvm::ArrayRef<ir::Value> operands() const { return operands_; }

  void Fail(std::string_view message);
  void Fail(const absl::Status& status) { Fail(std::string_view(std::string(status.message()))); }
  template <typename... Args>
  void Fail(const absl::FormatSpec<Args...>& format, const Args&... args) {
    Fail(std::string_view(absl::StrFormat(format, args...)));
  }
  // The value, or a failure with the status' message.
  template <typename T>
  T Get(absl::StatusOr<T> value) {
    if (value.ok()) return *std::move(value);
    Fail(value.status());
    return T{};
  }

  // Adds a node and returns it; null after a failure.
  ir::Node* EmitNode(ir::Op op, llvm::ArrayRef<ir::Value> operands, ir::Attrs attrs = {});
  ir::Value Emit(ir::Op op, llvm::ArrayRef<ir::Value> operands, ir::Attrs attrs = {});

  // Fails unless the number can be an element of `dtype`.
  void CheckNumber(DType dtype, double number, bool is_integer);
  // A splat constant of `type`, if the number fits it.
  ir::Value Number(const ir::Type& type, double number, bool is_integer);
  ir::Value CastTo(ir::Value value, DType dtype);
  ir::Value ReshapeTo(ir::Value value, llvm::ArrayRef<ir::Dim> shape);
  // By NumPy's rule, with an explicit node unless nothing changes.
  ir::Value BroadcastTo(ir::Value value, llvm::ArrayRef<ir::Dim> shape);
  // Casts all to the dtype in which they meet; integers and floats do not.
  void Promote(llvm::MutableArrayRef<ir::Value> values);
  // Broadcasts all to their common shape.
  void BroadcastTogether(llvm::MutableArrayRef<ir::Value> values);
  // The axis counted from 0.
  int64_t Axis(int64_t axis, int rank);

  Value Result(ir::Value value) { return ok_ ? Access::Make(state_, value) : Failed(); }
  Value Failed() { return Access::Failed(state_); }

 private:
  std::string what_;
  Loc loc_;
  std::shared_ptr<BuilderState> state_;
  llvm::SmallVector<ir::Value, 4> operands_;
  bool ok_ = true;
};

// The common shape of two by NumPy's rule, or a sentence that names the sizes that do not match.
absl::StatusOr<ir::Shape> BroadcastShapes(llvm::ArrayRef<ir::Dim> a, llvm::ArrayRef<ir::Dim> b);
// The dtype in which two meet, or nothing.
std::optional<DType> PromotedDType(DType a, DType b);
// Names that the text form can hold: letters, digits, '_' and '.', beginning with a letter or '_'.
bool IsName(std::string_view name);

}  // namespace duotone::internal

#endif  // DUOTONE_DUOTONE_INTERNAL_H_
