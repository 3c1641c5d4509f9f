// Short forms for tests that evaluate single ops.
#ifndef DUOTONE_TESTS_IR_OP_TESTING_H_
#define DUOTONE_TESTS_IR_OP_TESTING_H_

#include <cmath>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "gtest/gtest.h"
#include "ir/grad.h"
#include "ir/interpreter.h"

namespace duotone::ir {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A vector of `values`, or an array of `shape`.
inline Array Vec(DType dtype, std::vector<double> values) {
  return Array::Of({dtype, {Dim(static_cast<int64_t>(values.size()))}}, values);
}
inline Array Tensor(DType dtype, std::initializer_list<int64_t> shape, std::vector<double> values) {
  Type type{dtype, {}};
  for (int64_t size : shape) type.shape.push_back(Dim(size));
  return Array::Of(type, values);
}

inline std::vector<double> Values(const Array& array) {
  std::vector<double> values;
  for (int64_t i = 0; i < array.elements(); ++i) values.push_back(array.Get(i));
  return values;
}

// The first result; a failure of the test if there is none.
inline Array Eval(Op op, Attrs attrs, std::vector<Array> operands) {
  absl::StatusOr<std::vector<Array>> results = EvaluateOp(op, std::move(attrs), operands);
  if (!results.ok()) {
    ADD_FAILURE() << results.status();
    return Array();
  }
  return (*results)[0];
}
inline Array Eval(Op op, std::vector<Array> operands) {
  return Eval(op, DefaultAttrs(DefOf(op).attrs), std::move(operands));
}

// A graph with one node `op` over inputs x0, x1, ... and, for each result r whose gradient is
// given, an input g<r>. Its outputs are the node's results y0, y1, ... and the operands' gradients
// dx0, dx1, ... as the op's gradient function emits them (those it leaves unset are absent).
struct GradientGraph {
  std::unique_ptr<Module> module;
  Graph* graph = nullptr;
  Node* node = nullptr;
};
inline absl::StatusOr<GradientGraph> MakeGradientGraph(Op op, Attrs attrs,
                                                       llvm::ArrayRef<Type> operand_types,
                                                       llvm::ArrayRef<int> results_with_grads) {
  GradientGraph made{.module = std::make_unique<Module>("test")};
  DUOTONE_ASSIGN_OR_RETURN(made.graph, made.module->AddGraph("g"));
  Graph::Spec spec{.op = op, .attrs = std::move(attrs)};
  for (size_t i = 0; i < operand_types.size(); ++i) {
    DUOTONE_ASSIGN_OR_RETURN(const Value input,
                             made.graph->AddInput(absl::StrCat("x", i), operand_types[i]));
    spec.operands.push_back(input);
  }
  DUOTONE_ASSIGN_OR_RETURN(made.node, made.graph->Add(std::move(spec)));
  for (int r = 0; r < made.node->result_count(); ++r) {
    made.graph->outputs().push_back({absl::StrCat("y", r), made.node->result(r)});
  }
  if (results_with_grads.empty()) return made;

  llvm::SmallVector<Value, 2> grads(made.node->result_count());
  for (int r : results_with_grads) {
    DUOTONE_ASSIGN_OR_RETURN(grads[r],
                             made.graph->AddInput(absl::StrCat("g", r), made.node->type(r)));
  }
  llvm::SmallVector<bool, 4> wanted;
  llvm::SmallVector<DType, 4> dtypes;
  for (const Type& type : operand_types) {
    wanted.push_back(type.is_float());
    dtypes.push_back(type.dtype);
  }
  GradContext context(made.node, Emitter(*made.graph), grads, wanted, dtypes);
  DUOTONE_RETURN_IF_ERROR(made.node->def().grad(context));
  for (size_t i = 0; i < operand_types.size(); ++i) {
    const Value gradient = context.operand_grads()[i];
    if (gradient) made.graph->outputs().push_back({absl::StrCat("dx", i), gradient});
  }
  return made;
}

// The gradients of the operands of an op with one result, where the gradient of the result is `g`.
inline std::vector<Array> Gradients(Op op, Attrs attrs, std::vector<Array> operands, Array g) {
  llvm::SmallVector<Type, 4> types;
  ArrayMap inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    types.push_back(operands[i].type());
    inputs[absl::StrCat("x", i)] = operands[i];
  }
  inputs["g0"] = std::move(g);
  std::vector<Array> gradients(operands.size());
  absl::StatusOr<GradientGraph> made = MakeGradientGraph(op, std::move(attrs), types, {0});
  if (!made.ok()) {
    ADD_FAILURE() << made.status();
    return gradients;
  }
  absl::StatusOr<InterpreterResult> result = Interpret(*made->graph, inputs, {});
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    return gradients;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    auto it = result->outputs.find(absl::StrCat("dx", i));
    if (it != result->outputs.end()) gradients[i] = it->second;
  }
  return gradients;
}
inline std::vector<Array> Gradients(Op op, std::vector<Array> operands, Array g) {
  return Gradients(op, DefaultAttrs(DefOf(op).attrs), std::move(operands), std::move(g));
}

// Equal as numbers, with NaN equal to NaN and 0 different from -0.
inline bool SameNumber(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

inline void ExpectValues(const Array& array, const std::vector<double>& expected) {
  const std::vector<double> values = Values(array);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(SameNumber(values[i], expected[i]))
        << "element " << i << " is " << values[i] << ", not " << expected[i];
  }
}

inline void ExpectNear(const Array& array, const std::vector<double>& expected, double relative) {
  const std::vector<double> values = Values(array);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (SameNumber(values[i], expected[i])) continue;
    EXPECT_LE(std::fabs(values[i] - expected[i]), relative * std::fabs(expected[i]))
        << "element " << i << " is " << values[i] << ", not " << expected[i];
  }
}

}  // namespace duotone::ir

#endif  // DUOTONE_TESTS_IR_OP_TESTING_H_
