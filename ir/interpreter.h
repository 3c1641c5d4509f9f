// Evaluates a graph node by node with the reference evaluation of the op table: the oracle of tests
// and of other backends.
#ifndef DUOTONE_IR_INTERPRETER_H_
#define DUOTONE_IR_INTERPRETER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/eval.h"
#include "ir/graph.h"
#include "llvm/ADT/StringMap.h"

namespace duotone::ir {

// A dense host array that owns its memory.
class Array {
 public:
  Array() = default;
  // Zeros of a static type.
  explicit Array(const Type& type);
  // Converts `values` (row-major) to the type's dtype, rounding to nearest even. One value fills
  // the array.
  static Array Of(const Type& type, llvm::ArrayRef<double> values);

  const Type& type() const { return type_; }
  int64_t elements() const { return type_.elements(); }
  TensorView view() const;
  double Get(int64_t i) const;        // as a double; f64 holds every value but large i64
  void Set(int64_t i, double value);  // rounded to the dtype
  bool BitEqual(const Array& other) const;

 private:
  Type type_;
  llvm::SmallVector<int64_t, 4> shape_;
  std::vector<uint64_t> data_;  // 8-byte aligned bytes
};

using ArrayMap = llvm::StringMap<Array>;

struct InterpreterResult {
  ArrayMap outputs;  // by output name
  ArrayMap state;    // after the updates
};

// Runs a graph with static types. `inputs` by name without '%'; `state` by entry name (missing
// entries are an error).
absl::StatusOr<InterpreterResult> Interpret(const Graph& graph, const ArrayMap& inputs,
                                            const ArrayMap& state, const RandomKey& random = {});

// Evaluates one op on arrays: for constant folding and tests.
absl::StatusOr<std::vector<Array>> EvaluateOp(Op op, Attrs attrs, llvm::ArrayRef<Array> operands,
                                              uint64_t node_id = 0, const RandomKey& random = {});

// The first values of a state entry; `seed` keys random initialisers together with the entry's
// name. Derived entries need their source's array.
absl::StatusOr<Array> Initialise(const StateEntry& entry, uint64_t seed,
                                 const Array* source = nullptr);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_INTERPRETER_H_
