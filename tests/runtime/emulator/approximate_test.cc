// Approximations: correctly rounded against 64 bits of precision, and within the bounds of the PTX
// ISA where they are perturbed.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/runtime/emulator/form_testing.h"
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

// rsqrt.approx.f64 keeps subnormals and all bits.
TEST(Approximations, InverseRootsOfDoublesHaveAllBits) {
  EXPECT_EQ(RunDouble("rsqrt.approx.f64 %d, %a;", 0x1p-1040), 0x1p520);
  EXPECT_EQ(RunDouble("rsqrt.approx.f64 %d, %a;", -0.0), -HUGE_VAL);
  EXPECT_EQ(RunDouble("rsqrt.approx.f64 %d, %a;", HUGE_VAL), 0.0);
  EXPECT_TRUE(std::isnan(RunDouble("rsqrt.approx.f64 %d, %a;", -0x1p-1040)));
  for (double a = 1; a < 4; a += 1.0 / 128) {
    const long double exact = 1 / std::sqrt(static_cast<long double>(a));
    EXPECT_LE(std::fabs(RunDouble("rsqrt.approx.f64 %d, %a;", a) - exact), exact * 0x1.01p-53L);
  }
}

// The exact results of these two lie so near to the middle of two f32 that an f64 does not tell
// on which side.
TEST(Approximations, SixtyFourBitsDecideWhereFiftyThreeDoNot) {
  EXPECT_EQ(FloatOf(RunOne("ex2.approx.f32 %d, %a;", FloatOf(0x3b429d37))), 0x1.00870ap+0f);
  EXPECT_EQ(FloatOf(RunOne("ex2.approx.f32 %d, %a;", FloatOf(0xbcf3a937))), 0x1.f58d62p-1f);
}

// ---- All of them, against 64 bits of precision

using L = long double;

// How far from the exact result an instruction may be.
struct Bound {
  enum class Of { kPlaces, kRelative, kAbsolute, kUnknown };
  Of of;
  double size = 0;
};

// What the ISA documents (PTX ISA 8.5, 9.7.3 and 9.7.4), written down once more.
struct Documented {
  const char* text;
  exact::Format format;
  std::function<L(L a, L b)> exact;
  std::function<Bound(L a, L b)> bound;
  bool of_two = false;
  bool ftz = absl::StrContains(text, ".ftz");
  friend std::ostream& operator<<(std::ostream& out, const Documented& documented) {
    return out << documented.text;
  }
};

Bound OfTurns(L a, L) {
  const L pi = std::acos(-1.0L);
  if (std::fabs(a) <= 2 * pi) return {Bound::Of::kAbsolute, std::exp2(-20.5)};
  if (std::fabs(a) <= 100 * pi) return {Bound::Of::kAbsolute, std::exp2(-14.7)};
  return {Bound::Of::kUnknown, 1};
}
Bound OfLogarithms(L a, L) {
  const bool near_one = a > 0.5L && a < 2;
  return {near_one ? Bound::Of::kAbsolute : Bound::Of::kRelative, 0x1p-22};
}
std::function<Bound(L, L)> Always(Bound::Of of, double size) {
  return [=](L, L) { return Bound{of, size}; };
}

// A divisor between 2^126 and 2^128 makes zero, of infinity NaN.
L ApproximateQuotient(L a, L b) {
  const bool large = std::fabs(b) > 0x1p126L && !std::isinf(b) && !std::isnan(a);
  if (!large) return a / b;
  return std::isinf(a) ? L{kNan} : std::copysign(0.0L, a) * std::copysign(1.0L, b);
}
L Quotient(L a, L b) { return a / b; }
L Reciprocal(L a, L) { return 1 / a; }
L Root(L a, L) { return std::sqrt(a); }
L InverseRoot(L a, L) { return 1 / std::sqrt(a); }
L Power(L a, L) { return std::exp2(a); }
L Logarithm(L a, L) { return std::log2(a); }
L Sine(L a, L) { return std::sin(a); }
L Cosine(L a, L) { return std::cos(a); }
L Tangent(L a, L) { return std::tanh(a); }

std::vector<Documented> Documents() {
  using exact::kBf16, exact::kF16, exact::kF32;
  constexpr auto kPlaces = Bound::Of::kPlaces, kRelative = Bound::Of::kRelative,
                 kAbsolute = Bound::Of::kAbsolute;
  return {
      {"ex2.approx.f32", kF32, Power, Always(kPlaces, 2)},
      {"ex2.approx.ftz.f32", kF32, Power, Always(kPlaces, 2)},
      {"lg2.approx.f32", kF32, Logarithm, OfLogarithms},
      {"lg2.approx.ftz.f32", kF32, Logarithm, OfLogarithms},
      {"rcp.approx.f32", kF32, Reciprocal, Always(kPlaces, 1)},
      {"rcp.approx.ftz.f32", kF32, Reciprocal, Always(kPlaces, 1)},
      {"rsqrt.approx.f32", kF32, InverseRoot, Always(kRelative, std::exp2(-22.9))},
      {"rsqrt.approx.ftz.f32", kF32, InverseRoot, Always(kRelative, std::exp2(-22.9))},
      {"sqrt.approx.f32", kF32, Root, Always(kRelative, 0x1p-23)},
      {"sqrt.approx.ftz.f32", kF32, Root, Always(kRelative, 0x1p-23)},
      {"sin.approx.f32", kF32, Sine, OfTurns},
      {"sin.approx.ftz.f32", kF32, Sine, OfTurns},
      {"cos.approx.f32", kF32, Cosine, OfTurns},
      {"cos.approx.ftz.f32", kF32, Cosine, OfTurns},
      {"tanh.approx.f32", kF32, Tangent, Always(kRelative, 0x1p-11)},
      {"div.approx.f32", kF32, ApproximateQuotient, Always(kPlaces, 2), true},
      {"div.approx.ftz.f32", kF32, ApproximateQuotient, Always(kPlaces, 2), true},
      {"div.full.f32", kF32, Quotient, Always(kPlaces, 2), true},
      {"div.full.ftz.f32", kF32, Quotient, Always(kPlaces, 2), true},
      {"ex2.approx.f16", kF16, Power, Always(kRelative, std::exp2(-9.9))},
      {"ex2.approx.f16x2", kF16, Power, Always(kRelative, std::exp2(-9.9))},
      {"ex2.approx.ftz.bf16", kBf16, Power, Always(kRelative, 0x1p-7)},
      {"ex2.approx.ftz.bf16x2", kBf16, Power, Always(kRelative, 0x1p-7)},
      {"tanh.approx.f16", kF16, Tangent, Always(kAbsolute, std::exp2(-10.987))},
      {"tanh.approx.f16x2", kF16, Tangent, Always(kAbsolute, std::exp2(-10.987))},
      {"tanh.approx.bf16", kBf16, Tangent, Always(kAbsolute, 0x1p-8)},
      {"tanh.approx.bf16x2", kBf16, Tangent, Always(kAbsolute, 0x1p-8)},
  };
}

// Of f32 by the host's conversions, which are exact or round once, and are faster.
L ValueOf(uint64_t bits, const exact::Format& format) {
  if (format.bits == 32) return FloatOf(bits);
  const exact::Number number = exact::Decode(bits, format);
  if (number.kind == exact::Number::Kind::kNan) return kNan;
  const L magnitude = number.kind == exact::Number::Kind::kInfinite
                          ? L{kInf}
                          : std::ldexp(static_cast<L>(number.magnitude), number.exponent);
  return number.negative ? -magnitude : magnitude;
}
uint64_t NearestTo(L value, const exact::Format& format) {
  if (format.bits == 32 && !std::isnan(value)) {
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  return Encode(exact::FromLongDouble(value), format, Rounding::kRn);
}

class EveryApproximation : public ::testing::TestWithParam<Documented> {
 protected:
  // Every `step`-th f32, or all numbers of 16 bits; and the edge values, of two operands crossed.
  static std::pair<Column, Column> Operands(uint64_t step) {
    const exact::Format& format = GetParam().format;
    const uint64_t end = uint64_t{1} << format.bits;
    std::pair<Column, Column> operands;
    const Column edges = EdgeValues(format);
    for (const uint64_t a : edges) {
      for (const uint64_t b : edges) {
        operands.first.push_back(a);
        operands.second.push_back(b);
        if (!GetParam().of_two) break;
      }
    }
    std::mt19937 random(3);
    for (uint64_t bits = 0; bits < end; bits += format.bits == 16 ? 1 : step) {
      operands.first.push_back(bits);
      // Often near enough for a quotient between the ends of f32.
      const bool is_near = GetParam().of_two && random() % 2 == 0;
      operands.second.push_back(is_near ? bits ^ random() >> 7 : random());
    }
    return operands;
  }

  // Calls check(a, b, got) with bits, in the order of the operands, flushed where the form does.
  static void ForMany(uint64_t step, const LineOptions& options,
                      const std::function<void(uint64_t, uint64_t, uint64_t)>& check) {
    const Documented& d = GetParam();
    const auto [a, b] = Operands(step);
    const std::string text = absl::StrCat(d.text, d.of_two ? " %d, %a, %b;" : " %d, %a;");
    const bool of_pairs = absl::EndsWith(d.text, "x2");
    const Type type = d.format.bits == 32 ? Type::kF32 : of_pairs ? Type::kB32 : Type::kB16;
    Column column = a;
    if (of_pairs) {
      for (size_t i = 0; i < a.size() / 2; ++i) column[i] = a[2 * i] | a[2 * i + 1] << 16;
      column.resize(a.size() / 2);
    }
    std::vector<TestColumn> columns = {{"d", type}, {"a", type, column}};
    if (d.of_two) columns.push_back({"b", type, b});
    const Column results = RunColumns(text, columns, options)["d"];
    for (size_t i = 0; i < a.size(); ++i) {
      const uint64_t got = of_pairs ? results[i / 2] >> (i % 2 * 16) & 0xffff : results[i];
      check(Flushed(a[i]), Flushed(b[i]), got);
      if (i % 4096 == 0 && HasFatalFailure()) return;
    }
  }

  static uint64_t Flushed(uint64_t bits) {
    return GetParam().ftz ? Flush(bits, GetParam().format) : bits;
  }
  static L Exact(uint64_t a, uint64_t b) {
    return GetParam().exact(ValueOf(a, GetParam().format), ValueOf(b, GetParam().format));
  }
};

// A long double with an error of a few places decides every rounding but those of exact results
// in the middle of two numbers, which are even then.
TEST_P(EveryApproximation, IsRoundedCorrectly) {
  const Documented& d = GetParam();
  const exact::Format& format = d.format;
  ForMany(d.ftz || d.of_two ? 65537 : 12289, {}, [&](uint64_t a, uint64_t b, uint64_t got) {
    const L exact = Exact(a, b);
    ASSERT_EQ(got, Flushed(NearestTo(exact, format))) << absl::StrFormat("of %#x, %#x", a, b);
    const bool decided =
        NearestTo(exact * (1 - 0x1p-60L), format) == NearestTo(exact * (1 + 0x1p-60L), format);
    if (decided || !std::isfinite(exact)) return;
    const L x = ValueOf(a, format), y = ValueOf(b, format);
    ASSERT_TRUE(d.of_two ? std::fma(exact, y, -x) == 0 : std::exp2(x) == exact && std::rint(x) == x)
        << absl::StrFormat("%#x, %#x is a tie", a, b);
  });
}

TEST_P(EveryApproximation, IsPerturbedWithinItsBound) {
  const Documented& d = GetParam();
  const exact::Format& format = d.format;
  LineOptions options;
  options.handler.perturb = true;
  int moved = 0, count = 0;
  L widest = 0;
  ForMany(65537, options, [&](uint64_t a, uint64_t b, uint64_t got) {
    const L exact = Exact(a, b);
    const uint64_t nearest = NearestTo(exact, format);
    ++count;
    if (got == Flushed(nearest)) return;
    ++moved;
    ASSERT_TRUE(std::isfinite(exact)) << absl::StrFormat("%#x of %#x, %#x", got, a, b);
    const Bound bound = d.bound(ValueOf(a, format), ValueOf(b, format));
    // "n ulp" is from the correctly rounded result.
    const bool of_places = bound.of == Bound::Of::kPlaces;
    const L centre = of_places ? ValueOf(nearest, format) : exact;
    const uint64_t magnitude = nearest & ~format.sign();
    const L place = ValueOf(magnitude + 1, format) - ValueOf(magnitude, format);
    const L unit = of_places                          ? place
                   : bound.of == Bound::Of::kAbsolute ? 1
                   : bound.of == Bound::Of::kRelative ? std::fabs(exact)
                                                      : kInf;
    const L error = std::fabs(ValueOf(got, format) - centre), room = bound.size * unit;
    // What is flushed may have been any subnormal.
    const L smallest = ValueOf(format.smallest_normal(), format);
    if (d.ftz && got == (got & format.sign()) && std::fabs(centre) - room < smallest) return;
    ASSERT_LE(error, room) << absl::StrFormat("%#x of %#x, %#x", got, a, b);
    widest = std::max(widest, error / room);
  });
  // Most of the room is used, in a good part of the cases.
  EXPECT_GT(moved, count / 20);
  EXPECT_GT(widest, 0.5);
}

INSTANTIATE_TEST_SUITE_P(Isa, EveryApproximation, ::testing::ValuesIn(Documents()),
                         [](const auto& info) {
                           std::string name = info.param.text;
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
