// The error bounds of transcendental functions that docs/numerics.md states, measured against the
// same function in f64.
#include <functional>
#include <string_view>

#include "tests/ir/op_testing.h"
#include "tests/ir/sweep.h"

namespace duotone::ir {
namespace {

struct Bound {
  Op op;
  double low;
  double high;  // the range of operands
  double ulps;  // units in the last place of the exact result in f32
  std::function<double(double)> exact;
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The distance between neighbouring f32 numbers at `value`.
double UlpAt(double value) {
  const double magnitude = std::max(std::fabs(value), 0x1p-126);
  return std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

constexpr int64_t kPoints = 200000;

class AccuracyTest : public testing::TestWithParam<Bound> {};

TEST_P(AccuracyTest, StaysWithinItsBound) {
  const Bound& bound = GetParam();
  const std::vector<double> points = Sweep(bound.low, bound.high, kPoints);
  const Array y = Eval(bound.op, {Vec(DType::kF32, points)});
  double worst = 0;
  double worst_at = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const double exact = bound.exact(points[i]);
    const double error = std::fabs(y.Get(static_cast<int64_t>(i)) - exact) / UlpAt(exact);
    if (error > worst) {
      worst = error;
      worst_at = points[i];
    }
  }
  EXPECT_LE(worst, bound.ulps) << "at " << worst_at;
  RecordProperty("ulps", absl::StrCat(worst));
}

// The bounds of docs/numerics.md, in the column cpu.
INSTANTIATE_TEST_SUITE_P(
    Functions, AccuracyTest,
    testing::Values(
        Bound{Op::kExp, -87, 88.7, 1, [](double x) { return std::exp(x); }},
        Bound{Op::kLog, 0x1p-126, 3e38, 1, [](double x) { return std::log(x); }},
        Bound{Op::kTanh, -20, 20, 3, [](double x) { return std::tanh(x); }},
        Bound{Op::kErf, -6, 6, 2, [](double x) { return std::erf(x); }},
        Bound{Op::kSigmoid, -80, 80, 3, Sigmoid},
        Bound{Op::kSoftplus, -80, 80, 3, [](double x) { return std::log1p(std::exp(x)); }},
        Bound{Op::kSilu, -80, 80, 4, [](double x) { return x * Sigmoid(x); }},
        Bound{Op::kRsqrt, 0x1p-126, 3e38, 1.5, [](double x) { return 1 / std::sqrt(x); }},
        Bound{Op::kGelu, -1, 80, 4,
              [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }}),
    [](const auto& info) { return std::string(OpName(info.param.op)); });

TEST(PowAccuracy, StaysWithinOneUnit) {
  for (double exponent : {-7.5, -2.0, -0.5, 0.3, 2.0, 3.0, 9.25}) {
    const std::vector<double> points = Sweep(0.01, 100, kPoints);
    const std::vector<double> exponents(points.size(), static_cast<float>(exponent));
    const Array y = Eval(Op::kPow, {Vec(DType::kF32, points), Vec(DType::kF32, exponents)});
    for (size_t i = 0; i < points.size(); ++i) {
      const double exact = std::pow(points[i], exponents[i]);
      ASSERT_LE(std::fabs(y.Get(static_cast<int64_t>(i)) - exact), UlpAt(exact)) << points[i];
    }
  }
}

// Below -1 the tail's relative error grows with x^2; its absolute error does not.
TEST(GeluAccuracy, TailIsAbsolutelyClose) {
  const std::vector<double> points = Sweep(-40, -1, kPoints);
  const Array y = Eval(Op::kGelu, {Vec(DType::kF32, points)});
  for (size_t i = 0; i < points.size(); ++i) {
    const double exact = 0.5 * points[i] * std::erfc(-points[i] * std::sqrt(0.5));
    ASSERT_LE(std::fabs(y.Get(static_cast<int64_t>(i)) - exact), 0x1p-23) << points[i];
  }
}

}  // namespace
}  // namespace duotone::ir
