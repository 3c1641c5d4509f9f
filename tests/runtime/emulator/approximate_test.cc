// Approximations: correctly rounded against 64 bits of precision, and within the bounds of the PTX
// ISA where they are perturbed.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <random>

#include "base/float16.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

uint64_t RunOne(const std::string& text, float a, float b = 0) {
  return RunLines(
      text,
      {{"d", Type::kF32}, {"a", Type::kF32, Floats({a})}, {"b", Type::kF32, Floats({b})}})["d"][0];
}
double RunDouble(const std::string& text, double a) {
  return DoubleOf(RunLines(text, {{"d", Type::kF64}, {"a", Type::kF64, Doubles({a})}})["d"][0]);
}

TEST(Approximations, SpecialValuesAreThoseOfTheIsa) {
  EXPECT_EQ(RunOne("ex2.approx.f32 %d, %a;", -kInf), 0u);
  EXPECT_EQ(FloatOf(RunOne("ex2.approx.f32 %d, %a;", -0.0f)), 1.0f);
  EXPECT_EQ(FloatOf(RunOne("ex2.approx.f32 %d, %a;", kInf)), kInf);
  EXPECT_EQ(FloatOf(RunOne("lg2.approx.f32 %d, %a;", -0.0f)), -kInf);
  EXPECT_EQ(RunOne("lg2.approx.f32 %d, %a;", -1.0f), 0x7fffffffu);
  EXPECT_EQ(FloatOf(RunOne("rcp.approx.ftz.f32 %d, %a;", -0x1p-130f)), -kInf);
  EXPECT_EQ(RunOne("rcp.approx.ftz.f32 %d, %a;", -kInf), 0x80000000u);
  EXPECT_EQ(FloatOf(RunOne("rsqrt.approx.f32 %d, %a;", 0.0f)), kInf);
  EXPECT_EQ(RunOne("rsqrt.approx.f32 %d, %a;", -2.0f), 0x7fffffffu);
  EXPECT_EQ(FloatOf(RunOne("tanh.approx.f32 %d, %a;", -kInf)), -1.0f);
  EXPECT_EQ(RunOne("sin.approx.f32 %d, %a;", kInf), 0x7fffffffu);
}

// div.approx stops at divisors of 2^126; div.full does not.
TEST(Approximations, QuotientsByLargeDivisors) {
  EXPECT_EQ(RunOne("div.approx.f32 %d, %a, %b;", 1.0f, 0x1p127f), 0u);
  EXPECT_EQ(RunOne("div.approx.f32 %d, %a, %b;", kInf, 0x1p127f), 0x7fffffffu);
  EXPECT_EQ(FloatOf(RunOne("div.full.f32 %d, %a, %b;", 0x1p127f, 0x1p127f)), 1.0f);
  EXPECT_EQ(FloatOf(RunOne("div.full.f32 %d, %a, %b;", kInf, 0x1p127f)), kInf);
  EXPECT_EQ(FloatOf(RunOne("div.approx.f32 %d, %a, %b;", 3.0f, 0x1p126f)), 0x1.8p-125f);
}

// Operands and results that are subnormal become zeros, and only the upper half of the bits counts.
TEST(Approximations, OfDoublesFlushAndHaveHalfTheBits) {
  EXPECT_EQ(RunDouble("rcp.approx.ftz.f64 %d, %a;", 0x1p-1023), HUGE_VAL);
  EXPECT_EQ(RunDouble("rcp.approx.ftz.f64 %d, %a;", -0x1p-1030), -HUGE_VAL);
  EXPECT_EQ(RunDouble("rcp.approx.ftz.f64 %d, %a;", 0x1.8p1023), 0.0);
  EXPECT_EQ(RunDouble("rsqrt.approx.ftz.f64 %d, %a;", 0x1p-1023), HUGE_VAL);
  EXPECT_EQ(RunDouble("rcp.approx.ftz.f64 %d, %a;", 4.0), 0.25);
  EXPECT_TRUE(std::isnan(RunDouble("rcp.approx.ftz.f64 %d, %a;",
                                   std::bit_cast<double>(uint64_t{0x7ff0000000000001}))));
  const double third = RunDouble("rcp.approx.ftz.f64 %d, %a;", 3.0);
  EXPECT_EQ(std::bit_cast<uint64_t>(third) & 0xffffffff, 0u);
  EXPECT_NEAR(third, 1.0 / 3.0, 0x1p-21);
}

// What the ISA documents, written down once more.
struct Documented {
  const char* text;
  Type type;
  std::function<long double(long double, long double)> exact;
  float low, high;  // of the operands
  double ulps, relative, absolute;
  friend std::ostream& operator<<(std::ostream& out, const Documented& documented) {
    return out << documented.text;
  }
};

std::vector<Documented> Documents() {
  using L = long double;
  const double pi2 = 6.28;
  return {
      {"ex2.approx.f32 %d, %a;", Type::kF32, [](L a, L) { return std::exp2(a); }, -140, 127, 2, 0,
       0},
      {"lg2.approx.f32 %d, %a;", Type::kF32, [](L a, L) { return std::log2(a); }, 0.5f, 2, 0, 0,
       std::exp2(-22)},
      {"rcp.approx.ftz.f32 %d, %a;", Type::kF32, [](L a, L) { return 1 / a; }, -1e3f, 1e3f, 1, 0,
       0},
      {"rsqrt.approx.f32 %d, %a;", Type::kF32, [](L a, L) { return 1 / std::sqrt(a); }, 1e-3f, 1e6f,
       0, std::exp2(-22.9), 0},
      {"sqrt.approx.f32 %d, %a;", Type::kF32, [](L a, L) { return std::sqrt(a); }, 1e-3f, 1e6f, 0,
       std::exp2(-23), 0},
      {"sin.approx.f32 %d, %a;", Type::kF32, [](L a, L) { return std::sin(a); },
       static_cast<float>(-pi2), static_cast<float>(pi2), 0, 0, std::exp2(-20.5)},
      {"cos.approx.f32 %d, %a;", Type::kF32, [](L a, L) { return std::cos(a); },
       static_cast<float>(-pi2), static_cast<float>(pi2), 0, 0, std::exp2(-20.5)},
      {"tanh.approx.f32 %d, %a;", Type::kF32, [](L a, L) { return std::tanh(a); }, -9, 9, 0,
       std::exp2(-11), 0},
      {"div.approx.f32 %d, %a, %b;", Type::kF32, [](L a, L b) { return a / b; }, 0.1f, 1e4f, 2, 0,
       0},
      {"div.full.f32 %d, %a, %b;", Type::kF32, [](L a, L b) { return a / b; }, 0.1f, 1e4f, 2, 0, 0},
      {"ex2.approx.f16 %d, %a;", Type::kF16, [](L a, L) { return std::exp2(a); }, -13, 15, 0,
       std::exp2(-9.9), 0},
      {"ex2.approx.ftz.bf16 %d, %a;", Type::kBf16, [](L a, L) { return std::exp2(a); }, -100, 100,
       0, std::exp2(-7), 0},
      {"tanh.approx.f16 %d, %a;", Type::kF16, [](L a, L) { return std::tanh(a); }, -5, 5, 0, 0,
       std::exp2(-10.987)},
      {"tanh.approx.bf16 %d, %a;", Type::kBf16, [](L a, L) { return std::tanh(a); }, -5, 5, 0, 0,
       std::exp2(-8)},
  };
}

uint64_t BitsOf(float value, Type type) {
  if (type == Type::kF16) return ToF16(value).bits;
  if (type == Type::kBf16) return ToBF16(value).bits;
  return std::bit_cast<uint32_t>(value);
}
float ValueOf(uint64_t bits, Type type) {
  if (type == Type::kF16) return ToF32(F16{static_cast<uint16_t>(bits)});
  if (type == Type::kBf16) return ToF32(BF16{static_cast<uint16_t>(bits)});
  return FloatOf(bits);
}

class EveryApproximation : public ::testing::TestWithParam<Documented> {
 protected:
  // Calls check(a, b, result) for many operands.
  void ForMany(const LineOptions& options,
               const std::function<void(float, float, float)>& check) const {
    const Documented& d = GetParam();
    std::mt19937 random(4);
    std::uniform_real_distribution<float> uniform(d.low, d.high);
    const Type register_type = d.type == Type::kF32 ? Type::kF32 : Type::kB16;
    for (int round = 0; round < 60; ++round) {
      Lanes a, b;
      for (auto& bits : a) bits = BitsOf(uniform(random), d.type);
      for (auto& bits : b) bits = BitsOf(uniform(random), d.type);
      auto result =
          RunLines(d.text, {{"d", register_type}, {"a", register_type, a}, {"b", register_type, b}},
                   options);
      for (size_t lane = 0; lane < kLanes; ++lane) {
        check(ValueOf(a[lane], d.type), ValueOf(b[lane], d.type),
              ValueOf(result["d"][lane], d.type));
      }
    }
  }
};

// No other number of the type lies nearer.
TEST_P(EveryApproximation, IsRoundedCorrectly) {
  const Documented& d = GetParam();
  ForMany({}, [&](float a, float b, float result) {
    const long double exact = d.exact(a, b);
    const uint64_t bits = BitsOf(result, d.type);
    for (const int step : {-1, 1}) {
      const float neighbour = ValueOf(bits + static_cast<uint64_t>(step), d.type);
      if (std::isnan(neighbour)) continue;
      ASSERT_LE(std::fabs(result - exact), std::fabs(neighbour - exact) * (1 + 1e-9L)) << a;
    }
  });
}

TEST_P(EveryApproximation, IsPerturbedWithinItsBound) {
  const Documented& d = GetParam();
  LineOptions options;
  options.handler.perturb = true;
  int moved = 0, count = 0;
  double widest = 0;
  ForMany(options, [&](float a, float b, float result) {
    const long double exact = d.exact(a, b);
    const float nearest = ValueOf(BitsOf(static_cast<float>(exact), d.type), d.type);
    const double place = std::fabs(std::nextafter(nearest, kInf) - nearest);
    // "n ulp" is from the correctly rounded result.
    const long double error = d.ulps > 0 ? std::fabs(static_cast<long double>(result) - nearest)
                                         : std::fabs(result - exact);
    const double room = d.ulps > 0       ? d.ulps * place
                        : d.relative > 0 ? d.relative * std::fabs(static_cast<double>(exact))
                                         : d.absolute;
    // The format may have no number as near as the bound says: then the nearest one.
    if (result != nearest) {
      ASSERT_LE(error, room * 1.0001) << a << " gives " << result;
    }
    moved += result != nearest;
    widest = std::max(widest, static_cast<double>(error) / room);
    ++count;
  });
  // Most of the room is used, in a good part of the cases.
  EXPECT_GT(moved, count / 20);
  EXPECT_GT(widest, 0.5);
}

INSTANTIATE_TEST_SUITE_P(Isa, EveryApproximation, ::testing::ValuesIn(Documents()),
                         [](const auto& info) {
                           std::string name = info.param.text;
                           name = name.substr(0, name.find(' '));
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

TEST(Approximations, WhatIsDefinedExactlyIsNotPerturbed) {
  LineOptions options;
  options.handler.perturb = true;
  const auto run = [&](const std::string& text, float a) {
    return FloatOf(
        RunLines(text, {{"d", Type::kF32}, {"a", Type::kF32, Floats({a})}}, options)["d"][0]);
  };
  EXPECT_EQ(run("ex2.approx.f32 %d, %a;", 0.0f), 1.0f);
  for (int i = 1; i < 100; ++i) {
    const float subnormal = static_cast<float>(i) * 0x1p-140f;
    EXPECT_EQ(run("tanh.approx.f32 %d, %a;", subnormal), subnormal);
  }
}

}  // namespace
}  // namespace duotone::emulator
