// Short forms for tests that evaluate single ops.
#ifndef DUOTONE_TESTS_IR_OP_TESTING_H_
#define DUOTONE_TESTS_IR_OP_TESTING_H_

#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
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
