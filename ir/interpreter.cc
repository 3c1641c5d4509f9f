#include "ir/interpreter.h"

#include <cstring>

#include "base/check.h"
#include "base/status.h"
#include "ir/eval_blocks.h"
#include "llvm/ADT/DenseMap.h"

namespace duotone::ir {

Array::Array(const Type& type) : type_(type) {
  for (const Dim& dim : type.shape) shape_.push_back(dim.size());
  data_.resize(static_cast<size_t>(type.bytes()) / 8 + 1);  // never empty: data() is not null
}

Array Array::Of(const Type& type, llvm::ArrayRef<double> values) {
  Array array(type);
  const int64_t count = array.elements();
  DUOTONE_CHECK(values.size() == 1 || static_cast<int64_t>(values.size()) == count)
      << values.size() << " values for " << type.ToString();
  for (int64_t i = 0; i < count; ++i) array.Set(i, values[values.size() == 1 ? 0 : i]);
  return array;
}

TensorView Array::view() const {
  return {type_.dtype, shape_, const_cast<uint64_t*>(data_.data())};
}

double Array::Get(int64_t i) const {
  double buffer;
  return *LoadBlock<double>(view(), i, 1, &buffer);
}

void Array::Set(int64_t i, double value) { StoreBlock<double>(view(), i, 1, &value); }

bool Array::BitEqual(const Array& other) const {
  return type_ == other.type_ &&
         std::memcmp(data_.data(), other.data_.data(), static_cast<size_t>(type_.bytes())) == 0;
}

namespace {

// Evaluates one op on operands whose types it accepts.
absl::StatusOr<std::vector<Array>> Run(Op op, const Attrs& attrs,
                                       llvm::ArrayRef<const Array*> operands,
                                       llvm::ArrayRef<Type> types, uint64_t node_id,
                                       const RandomKey& random) {
  const Evaluation& eval = DefOf(op).eval;
  if (eval.run == nullptr) return InvalidArgument("%s cannot be evaluated by itself", OpName(op));
  std::vector<Array> results;
  for (const Type& type : types) {
    if (!type.is_static()) {
      return InvalidArgument("%s: the result %s has a named size that is not bound", OpName(op),
                             type.ToString());
    }
    results.emplace_back(type);
  }
  llvm::SmallVector<TensorView, 4> operand_views;
  llvm::SmallVector<TensorView, 2> result_views;
  for (const Array* operand : operands) operand_views.push_back(operand->view());
  for (const Array& result : results) result_views.push_back(result.view());

  EvalError error;
  EvalCall call{.attrs = &attrs,
                .operands = operand_views,
                .results = result_views,
                .node_id = node_id,
                .random = random,
                .error = &error};
  constexpr size_t kAlignment = 64;
  std::vector<char> scratch;
  if (eval.scratch_bytes != nullptr) {
    scratch.resize(static_cast<size_t>(eval.scratch_bytes(call)) + kAlignment);
    const auto address = reinterpret_cast<uintptr_t>(scratch.data());
    call.scratch = reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
  }
  eval.run(call, 0, eval.items == nullptr ? 1 : eval.items(call));
  if (error.kind() == EvalError::Kind::kIndexOutOfRange) {
    return InvalidArgument("%s: the index %d is outside [0, %d)", OpName(op), error.value(),
                           error.limit());
  }
  return results;
}

// The arrays of a graph's values while it runs.
class Frame {
 public:
  void Set(const Node* node, std::vector<Array> arrays) { arrays_[node] = std::move(arrays); }
  const Array& Get(Value value) const { return arrays_.find(value.node)->second[value.index]; }

 private:
  llvm::DenseMap<const Node*, std::vector<Array>> arrays_;
};

absl::Status CheckFeed(std::string_view what, std::string_view name, const Type& declared,
                       const ArrayMap& arrays) {
  auto it = arrays.find(name);
  if (it == arrays.end()) return InvalidArgument("no array for %s %%%s", what, name);
  if (it->second.type() != declared) {
    return InvalidArgument("%s %%%s is declared as %s, but its array is %s", what, name,
                           declared.ToString(), it->second.type().ToString());
  }
  return absl::OkStatus();
}

// Puts inputs and state reads into the frame.
absl::Status ReadSources(const Graph& graph, const ArrayMap& inputs, const ArrayMap& state,
                         Frame& frame) {
  for (const Node* input : graph.inputs()) {
    DUOTONE_RETURN_IF_ERROR(CheckFeed("input", input->name(), input->type(), inputs));
    frame.Set(input, {inputs.find(input->name())->second});
  }
  for (const Node* read : graph.state_reads()) {
    DUOTONE_RETURN_IF_ERROR(CheckFeed("state", read->name(), read->type(), state));
    frame.Set(read, {state.find(read->name())->second});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Array>> RunBody(const Graph& body, llvm::ArrayRef<const Array*> operands,
                                           const RandomKey& random);

// Evaluates the computing nodes; the frame holds the sources.
absl::Status RunNodes(const Graph& graph, const RandomKey& random, Frame& frame) {
  for (const auto& node : graph.nodes()) {
    llvm::SmallVector<const Array*, 4> operands;
    for (Value operand : node->operands()) operands.push_back(&frame.Get(operand));
    absl::StatusOr<std::vector<Array>> results =
        node->body() == nullptr
            ? Run(node->op(), node->attrs(), operands, node->types(), node->id(), random)
            : RunBody(*node->body(), operands, random);
    DUOTONE_RETURN_IF_ERROR(results).With("@%s %s", graph.name(), node->Place());
    frame.Set(node.get(), *std::move(results));
  }
  return absl::OkStatus();
}

// The outputs of a fusion's body. Its nodes have the ids they had outside, and so their random
// numbers.
absl::StatusOr<std::vector<Array>> RunBody(const Graph& body, llvm::ArrayRef<const Array*> operands,
                                           const RandomKey& random) {
  Frame frame;
  for (size_t i = 0; i < operands.size(); ++i) frame.Set(body.inputs()[i], {*operands[i]});
  DUOTONE_RETURN_IF_ERROR(RunNodes(body, random, frame));
  std::vector<Array> results;
  for (const Output& output : body.outputs()) results.push_back(frame.Get(output.value));
  return results;
}

}  // namespace

absl::StatusOr<InterpreterResult> Interpret(const Graph& graph, const ArrayMap& inputs,
                                            const ArrayMap& state, const RandomKey& random) {
  Frame frame;
  DUOTONE_RETURN_IF_ERROR(ReadSources(graph, inputs, state, frame)).With("@%s", graph.name());
  DUOTONE_RETURN_IF_ERROR(RunNodes(graph, random, frame));

  InterpreterResult result;
  for (const Output& output : graph.outputs())
    result.outputs[output.name] = frame.Get(output.value);
  for (const auto& entry : state) result.state[entry.getKey()] = entry.getValue();
  // Every value has been computed from the old state, so the order of the updates does not matter.
  for (const Update& update : graph.updates()) {
    DUOTONE_RETURN_IF_ERROR(CheckFeed("state", update.entry->name, update.next.type(), state))
        .With("@%s", graph.name());
    if (update.guard && frame.Get(update.guard).Get(0) == 0) continue;
    result.state[update.entry->name] = frame.Get(update.next);
  }
  return result;
}

absl::StatusOr<std::vector<Array>> EvaluateOp(Op op, Attrs attrs, llvm::ArrayRef<Array> operands,
                                              uint64_t node_id, const RandomKey& random) {
  llvm::SmallVector<Type, 4> operand_types;
  llvm::SmallVector<const Array*, 4> operand_arrays;
  for (const Array& operand : operands) {
    operand_types.push_back(operand.type());
    operand_arrays.push_back(&operand);
  }
  DUOTONE_ASSIGN_OR_RETURN(const Types types, InferTypes(op, operand_types, attrs));
  return Run(op, attrs, operand_arrays, types, node_id, random);
}

}  // namespace duotone::ir
