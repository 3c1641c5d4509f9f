// Builds a model as a graph.
//
//   GraphBuilder b("mlp");
//   Value x = b.Input("x", F32({"B", 784})), y = b.Input("y", I32({"B"}));
//   Value w = b.Param("w", F32({784, 10}), KaimingUniform());
//   Value logits = Linear(x, w, b.Param("b", F32({10}), Zeros()));
//   b.Output("loss", CrossEntropy(logits, y));
//   absl::StatusOr<Model> model = std::move(b).Build();
//
// No call fails: the builder keeps the first error together with the file and line of the user's
// call, and Build() returns it
// ("mlp.cc:14: matmul: inner sizes differ, 127 and 128"). Operands of different shapes are
// broadcast by NumPy's rule; operands of different floating-point types are cast to the wider one
// (f16 and bf16 meet in f32). The ops are in ops.h.
#ifndef DUOTONE_DUOTONE_GRAPH_BUILDER_H_
#define DUOTONE_DUOTONE_GRAPH_BUILDER_H_

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "duotone/initializers.h"
#include "duotone/types.h"

namespace duotone {

class Value;

namespace internal {
struct BuilderState;  // duotone/internal.h
struct ModelData;     // duotone/internal.h
struct Access;        // duotone/internal.h
}  // namespace internal

// A tensor of a graph under construction. A value that came out of a failed call can be used like
// any other; its type is then f32[] and nothing is added to the graph.
class Value {
 public:
  Value() = default;

  DType dtype() const;
  std::vector<Size> shape() const;
  int rank() const;
  // Negative axes count from the end; 1 for an axis that does not exist.
  Size dim(int axis) const;
  std::string name() const;  // in the text form, without '%'

 private:
  friend struct internal::Access;
  std::shared_ptr<internal::BuilderState> builder_;
  int id_ = -1;  // index into the builder's values; -1: a failed call
};

// A value or a number, with the place of the expression it stands in. A number takes dtype and
// shape from the operand it meets.
class Operand {
 public:
  Operand(Value value, Loc loc = Loc::Here())  // NOLINT(google-explicit-constructor)
      : value_(std::move(value)), loc_(loc) {}
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Operand(T number, Loc loc = Loc::Here())  // NOLINT(google-explicit-constructor)
      : is_number_(true),
        is_integer_(std::is_integral_v<T>),
        number_(static_cast<double>(number)),
        loc_(loc) {}

  const Value& value() const { return value_; }
  bool is_number() const { return is_number_; }
  bool is_integer() const { return is_integer_; }
  double number() const { return number_; }
  Loc loc() const { return loc_; }

 private:
  Value value_;
  bool is_number_ = false;
  bool is_integer_ = false;
  double number_ = 0;
  Loc loc_;
};

// A checked model: a graph with its parameters. Copies share the same, unchanging graph.
class Model {
 public:
  Model() = default;

  std::string name() const;
  // The text form, which ParseModel reads back.
  std::string Text() const;

  struct Entry {
    std::string name;
    TensorType type;
  };
  // Of the graph called `graph`, or by default of the one that is trained (Options::graph); nothing
  // if there is no such graph.
  std::vector<Entry> inputs(std::string_view graph = "") const;
  std::vector<Entry> outputs(std::string_view graph = "") const;
  std::vector<Entry> params() const;

 private:
  friend struct internal::Access;
  std::shared_ptr<const internal::ModelData> data_;
};

// Reads a model in the text form; `source` names the text in messages.
absl::StatusOr<Model> ParseModel(std::string_view text, std::string_view source = "<text>");
// Reads a `.duo` file.
absl::StatusOr<Model> LoadModel(const std::string& path);

class GraphBuilder {
 public:
  // The name of the module in the text form.
  explicit GraphBuilder(std::string_view name);
  GraphBuilder(GraphBuilder&&) = default;
  GraphBuilder& operator=(GraphBuilder&&) = default;

  // An input; named sizes are bound by what is fed.
  Value Input(std::string_view name, TensorType type, Loc loc = Loc::Here());
  // A trained tensor; its sizes are numbers. In a Scope "encoder/0" the entry is called
  // "encoder.0.<name>".
  Value Param(std::string_view name, TensorType type, Initializer init, Loc loc = Loc::Here());
  // A tensor that is kept from step to step, but not trained (running statistics).
  Value State(std::string_view name, TensorType type, Initializer init, Loc loc = Loc::Here());
  // Sets the value that a State entry has after a training step. Every read in the graph sees the
  // value before it.
  void Update(const Value& state, const Value& next, Loc loc = Loc::Here());
  // Names a result. "loss" is what training minimises unless Options::losses says otherwise.
  void Output(std::string_view name, const Value& value, Loc loc = Loc::Here());

  // One number in every element; rounded to the type's dtype.
  Value Constant(TensorType type, double number, Loc loc = Loc::Here());
  // One number per element, in row-major order.
  Value Constant(TensorType type, absl::Span<const double> numbers, Loc loc = Loc::Here());
  // The index of each element along `axis`.
  Value Iota(TensorType type, int axis, Loc loc = Loc::Here());
  // New random numbers in each step.
  Value RandomUniform(TensorType type, double low, double high, Loc loc = Loc::Here());
  Value RandomNormal(TensorType type, double mean, double stddev, Loc loc = Loc::Here());

  // The first error so far; Build() returns the same.
  absl::Status status() const;
  // The graph so far in the text form.
  std::string Text() const;
  // Checks and returns the model.
  absl::StatusOr<Model> Build() &&;

 private:
  friend struct internal::Access;
  std::shared_ptr<internal::BuilderState> state_;
};

// Nodes made while it lives carry this scope path, appended to that of the scopes around it: Scope
// s(b, "encoder/0").
class Scope {
 public:
  Scope(GraphBuilder& builder, std::string_view path);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::shared_ptr<internal::BuilderState> state_;
  size_t outer_length_;
};

enum class AutocastRegion {
  kOff,   // no node is narrowed
  kF16,   // nodes are f16 where autocast is on
  kBF16,  // nodes are bf16 where autocast is on
};

// Nodes made while it lives are in this precision region, and so are their backward nodes; the
// innermost region counts: Autocast exact(b, AutocastRegion::kOff).
class Autocast {
 public:
  Autocast(GraphBuilder& builder, AutocastRegion region);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::shared_ptr<internal::BuilderState> state_;
};

}  // namespace duotone

#endif  // DUOTONE_DUOTONE_GRAPH_BUILDER_H_
