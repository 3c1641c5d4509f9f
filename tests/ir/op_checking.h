// Longer checks of single ops: evaluation in pieces, messages of errors, gradient functions against
// central differences.
#ifndef DUOTONE_TESTS_IR_OP_CHECKING_H_
#define DUOTONE_TESTS_IR_OP_CHECKING_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/grad.h"
#include "ir/graph.h"
#include "ir/interpreter.h"
#include "tests/ir/op_testing.h"

namespace duotone::ir {

// MakeArray(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}); one value fills the array.
inline Array MakeArray(DType dtype, std::vector<int64_t> shape, std::vector<double> values) {
  Type type{dtype, {}};
  for (int64_t size : shape) type.shape.push_back(size);
  return Array::Of(type, values);
}
inline Array F32(std::vector<int64_t> shape, std::vector<double> values) {
  return MakeArray(DType::kF32, std::move(shape), std::move(values));
}
inline Array F64(std::vector<int64_t> shape, std::vector<double> values) {
  return MakeArray(DType::kF64, std::move(shape), std::move(values));
}

// Numbers in [-1, 1) that look random and are the same in every run.
inline std::vector<double> Noise(int64_t count, uint64_t seed = 1) {
  std::vector<double> values;
  uint64_t state = seed * 0x9e3779b97f4a7c15ull;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    values.push_back(static_cast<double>(state >> 11) * 0x1p-52 - 1.0);
  }
  return values;
}
inline Array NoiseArray(DType dtype, std::vector<int64_t> shape, uint64_t seed = 1) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return MakeArray(dtype, shape, count == 0 ? std::vector<double>{} : Noise(count, seed));
}

// The results of one op; a failure of the test if it cannot be evaluated.
inline std::vector<Array> EvalAll(Op op, Attrs attrs, std::vector<Array> operands,
                                  uint64_t node_id = 0, const RandomKey& random = {}) {
  absl::StatusOr<std::vector<Array>> results =
      EvaluateOp(op, std::move(attrs), operands, node_id, random);
  if (!results.ok()) {
    ADD_FAILURE() << results.status();
    return std::vector<Array>(3, Array(Type{DType::kF32, {}}));
  }
  return *std::move(results);
}
// The message of the error that types (or evaluating) give, or "" if there is none.
inline std::string InferError(Op op, Attrs attrs, std::vector<Type> operands) {
  return std::string(InferTypes(op, operands, attrs).status().message());
}
inline std::string EvalMessage(Op op, Attrs attrs, std::vector<Array> operands) {
  return std::string(EvaluateOp(op, std::move(attrs), operands).status().message());
}

// Evaluates item by item from the last to the first, and expects the bits of the evaluation in one
// piece.
inline void ExpectSameInPieces(Op op, Attrs attrs, std::vector<Array> operands) {
  const std::vector<Array> whole = EvalAll(op, attrs, operands);
  std::vector<Type> types;
  std::vector<TensorView> operand_views;
  for (const Array& operand : operands) {
    types.push_back(operand.type());
    operand_views.push_back(operand.view());
  }
  absl::StatusOr<Types> inferred = InferTypes(op, types, attrs);
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  std::vector<Array> pieces;
  for (const Type& type : *inferred) pieces.emplace_back(type);
  std::vector<TensorView> result_views;
  for (const Array& piece : pieces) result_views.push_back(piece.view());
  EvalError error;
  EvalCall call{
      .attrs = &attrs, .operands = operand_views, .results = result_views, .error = &error};
  const Evaluation& eval = DefOf(op).eval;
  std::vector<double> scratch(eval.scratch_bytes ? eval.scratch_bytes(call) / 8 + 1 : 1, 77.0);
  call.scratch = scratch.data();
  ASSERT_NE(eval.items, nullptr);
  for (int64_t item = eval.items(call); item-- > 0;) eval.run(call, item, item + 1);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(whole[i].BitEqual(pieces[i])) << OpName(op) << " result " << i;
  }
}

// sum over results of sum(seed * result).
inline double WeightedSum(Op op, const Attrs& attrs, const std::vector<Array>& operands,
                          const std::vector<Array>& seeds, const std::vector<bool>& seeded) {
  const std::vector<Array> results = EvalAll(op, attrs, operands);
  double sum = 0;
  for (size_t r = 0; r < results.size(); ++r) {
    if (!seeded[r]) continue;
    for (int64_t i = 0; i < results[r].elements(); ++i) sum += seeds[r].Get(i) * results[r].Get(i);
  }
  return sum;
}

// Compares the op's gradient function with central differences in f64, at `operands`, for the
// operands in `wanted` and with gradients flowing into the results in `seeded`.
inline void ExpectGradient(Op op, Attrs attrs, std::vector<Array> operands, std::vector<int> wanted,
                           std::vector<int> seeded = {0}, double tolerance = 1e-7) {
  Module module("m");
  absl::StatusOr<Graph*> graph_or = module.AddGraph("g");
  ASSERT_TRUE(graph_or.ok()) << graph_or.status();
  Graph& graph = **graph_or;
  ArrayMap inputs;
  Graph::Spec spec{.op = op, .attrs = attrs, .id = 0};  // the id that EvaluateOp uses
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string name = absl::StrCat("x", i);
    absl::StatusOr<Value> input = graph.AddInput(name, operands[i].type());
    ASSERT_TRUE(input.ok()) << input.status();
    inputs[name] = operands[i];
    spec.operands.push_back(*input);
  }
  absl::StatusOr<Node*> node = graph.Add(std::move(spec));
  ASSERT_TRUE(node.ok()) << node.status();

  std::vector<Array> seeds;
  std::vector<bool> is_seeded((*node)->result_count(), false);
  for (int r : seeded) is_seeded[r] = true;
  std::vector<Value> grads;
  for (int r = 0; r < (*node)->result_count(); ++r) {
    const Type type = (*node)->type(r);
    seeds.push_back(Array::Of(
        type, type.is_float() ? Noise(type.elements(), 1000 + r) : std::vector<double>{0.0}));
    grads.emplace_back();
    if (!is_seeded[r]) continue;
    const std::string name = absl::StrCat("seed", r);
    grads.back() = *graph.AddInput(name, type);
    inputs[name] = seeds.back();
  }
  llvm::SmallVector<bool, 4> is_wanted(operands.size(), false);
  llvm::SmallVector<DType, 4> dtypes;
  for (int i : wanted) is_wanted[i] = true;
  for (const Array& operand : operands) dtypes.push_back(operand.type().dtype);
  GradContext context(*node, Emitter(graph), grads, is_wanted, dtypes);
  ASSERT_TRUE(DefOf(op).grad(context).ok());
  for (int i : wanted) {
    const Value gradient = context.operand_grads()[i];
    ASSERT_TRUE(static_cast<bool>(gradient)) << "no gradient of operand " << i;
    EXPECT_EQ(gradient.type(), operands[i].type());
    graph.outputs().push_back({absl::StrCat("d", i), gradient});
  }
  absl::StatusOr<InterpreterResult> result = Interpret(graph, inputs, {});
  ASSERT_TRUE(result.ok()) << result.status();

  for (int i : wanted) {
    const Array& gradient = result->outputs[absl::StrCat("d", i)];
    for (int64_t e = 0; e < operands[i].elements(); ++e) {
      constexpr double kStep = 1e-5;
      std::vector<Array> moved = operands;
      const double x = operands[i].Get(e);
      moved[i].Set(e, x + kStep);
      const double above = WeightedSum(op, attrs, moved, seeds, is_seeded);
      moved[i].Set(e, x - kStep);
      const double below = WeightedSum(op, attrs, moved, seeds, is_seeded);
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient.Get(e), expected, tolerance * (1 + std::fabs(expected)))
          << OpName(op) << " operand " << i << " element " << e;
    }
  }
}

}  // namespace duotone::ir

#endif  // DUOTONE_TESTS_IR_OP_CHECKING_H_
