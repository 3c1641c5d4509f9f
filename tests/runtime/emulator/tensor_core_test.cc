// The tensor core against the model in another form: exact products and sums in long double, which
// holds every term in full.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <random>

#include "base/float16.h"
#include "runtime/emulator/tensor_core.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

// The model in long double: every term is an exact multiple of its unit, of at most 64 bits.
long double ValueOf(uint32_t bits, Type type) {
  if (type == Type::kF16) return ToF32(F16{static_cast<uint16_t>(bits)});
  if (type == Type::kBf16) return ToF32(BF16{static_cast<uint16_t>(bits)});
  if (type == Type::kTf32) return std::bit_cast<float>(bits & 0xffffe000u);
  return std::bit_cast<float>(bits);
}
// The exponent with which a number counts: that of its leading place, subnormal numbers as the
// smallest normal one, zero as 2^-126.
int ExponentOf(long double value, Type type) {
  const int lowest = type == Type::kF16 ? -14 : -126;
  if (value == 0) return -126;
  return std::max(std::ilogb(value), lowest);
}

uint32_t Model(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, uint32_t c,
               Type type, Type accumulator, const TensorCoreModel& model) {
  for (size_t begin = 0; begin < a.size(); begin += static_cast<size_t>(model.group)) {
    const size_t end = std::min(a.size(), begin + static_cast<size_t>(model.group));
    std::vector<long double> terms = {ValueOf(c, accumulator)};
    if (std::isinf(terms[0])) continue;  // a group has overflown: the products are finite
    int largest = ExponentOf(terms[0], accumulator);
    for (size_t i = begin; i < end; ++i) {
      const long double x = ValueOf(a[i], type), y = ValueOf(b[i], type);
      terms.push_back(x * y);
      largest = std::max(largest, ExponentOf(x, type) + ExponentOf(y, type));
    }
    const long double unit = std::ldexp(1.0L, largest - model.fraction_bits);
    long double sum = 0;  // a multiple of the unit with at most 40 bits
    for (long double term : terms) sum += std::trunc(term / unit);
    const long double value = sum * unit;
    if (accumulator == Type::kF16) {
      // To the nearest multiple of the last place, ties to even; the result is exact in f32.
      const int place = std::max(value == 0 ? -14 : std::ilogb(value), -14) - 10;
      const long double rounded = std::nearbyint(std::ldexp(value, -place));
      c = ToF16(static_cast<float>(std::ldexp(rounded, place))).bits;
      continue;
    }
    // Cut off to 24 bits.
    float rounded = static_cast<float>(value);
    if (std::fabs(static_cast<long double>(rounded)) > std::fabs(value)) {
      rounded = std::nextafterf(rounded, 0.0f);
    }
    if (value == 0) rounded = 0.0f;
    c = std::bit_cast<uint32_t>(rounded);
  }
  return c;
}

uint32_t Dot(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, uint32_t c, Type type,
             Type accumulator, const TensorCoreModel& model) {
  std::vector<TensorTerm> x, y;
  for (uint32_t bits : a) x.push_back(DecodeTensorTerm(bits, type));
  for (uint32_t bits : b) y.push_back(DecodeTensorTerm(bits, type));
  return TensorDot(x, y, c, accumulator, model);
}

struct Case {
  int compute;
  Type type;
  Type accumulator;
  int k;
  int turing_group = 8;
};

class EveryTensorCore : public ::testing::TestWithParam<Case> {};

// Numbers of all magnitudes, with zeros and subnormals.
TEST_P(EveryTensorCore, IsTheModelBitForBit) {
  const auto& [compute, type, accumulator, k, turing_group] = GetParam();
  const TensorCoreModel model = TensorCoreModelOf(compute, type, k, turing_group);
  std::mt19937 random(11);
  for (int round = 0; round < 4000; ++round) {
    // Exponents near each other in most rounds, so that cancellation happens.
    const int spread = round % 4 == 0 ? 24 : 1 + round % 7;
    std::vector<uint32_t> a, b;
    const auto number = [&]() -> uint32_t {
      if (random() % 16 == 0) return random() % 2 == 0 ? 0 : random() % 1000;  // tiny or zero
      const float magnitude =
          std::ldexp(1.0f + static_cast<float>(random() % 8192) / 8192.0f,
                     static_cast<int>(random() % static_cast<unsigned>(spread)) - spread / 2);
      const float value = random() % 2 == 0 ? magnitude : -magnitude;
      if (type == Type::kF16) return ToF16(value).bits;
      if (type == Type::kBf16) return ToBF16(value).bits;
      return std::bit_cast<uint32_t>(value);
    };
    for (int i = 0; i < k; ++i) {
      a.push_back(number());
      b.push_back(number());
    }
    const float start = std::ldexp(static_cast<float>(random() % 65536) - 32768.0f,
                                   static_cast<int>(random() % 20) - 22);
    const uint32_t c =
        accumulator == Type::kF16 ? ToF16(start).bits : std::bit_cast<uint32_t>(start);
    ASSERT_EQ(Dot(a, b, c, type, accumulator, model), Model(a, b, c, type, accumulator, model))
        << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, EveryTensorCore,
    ::testing::Values(Case{75, Type::kF16, Type::kF32, 8}, Case{75, Type::kF16, Type::kF16, 8},
                      Case{80, Type::kF16, Type::kF32, 16}, Case{80, Type::kBf16, Type::kF32, 16},
                      Case{80, Type::kTf32, Type::kF32, 8}, Case{90, Type::kF16, Type::kF32, 16},
                      Case{90, Type::kBf16, Type::kF32, 16}, Case{75, Type::kF16, Type::kF32, 8, 4},
                      Case{80, Type::kF16, Type::kF16, 16}, Case{90, Type::kF16, Type::kF16, 16},
                      Case{80, Type::kTf32, Type::kF32, 4}, Case{90, Type::kTf32, Type::kF32, 8}));

constexpr uint32_t kOne = 0x3c00, kInfHalf = 0x7c00, kNanHalf = 0x7e00;

TEST(TensorCore, SpecialValuesWin) {
  const TensorCoreModel model = TensorCoreModelOf(80, Type::kF16, 8, 8);
  const auto dot = [&](uint32_t a, uint32_t b, uint32_t c) {
    std::vector<uint32_t> x(8, 0), y(8, kOne);
    x[3] = a;
    y[3] = b;
    return Dot(x, y, c, Type::kF16, Type::kF32, model);
  };
  EXPECT_EQ(dot(kNanHalf, kOne, 0), 0x7fffffffu);
  EXPECT_EQ(dot(kInfHalf, kOne, 0), 0x7f800000u);
  EXPECT_EQ(dot(kInfHalf, kOne | 0x8000, 0), 0xff800000u);
  EXPECT_EQ(dot(kInfHalf, 0, 0), 0x7fffffffu);
  EXPECT_EQ(dot(kInfHalf, kOne, 0xff800000u), 0x7fffffffu);
  EXPECT_EQ(dot(kOne, kOne, 0x7f800000u), 0x7f800000u);
}

// 2^24 and eight ones: with 24 fraction bits ones are kept beside 2^24, and the sum is cut off; two
// groups keep less than one.
TEST(TensorCore, ArchitecturesDifferInGroupsAndBits) {
  std::vector<uint32_t> a(16, ToF16(0.5f).bits), b(16, kOne);
  const uint32_t c = std::bit_cast<uint32_t>(0x1p25f);
  const auto run = [&](int compute) {
    return std::bit_cast<float>(
        Dot(a, b, c, Type::kF16, Type::kF32, TensorCoreModelOf(compute, Type::kF16, 16, 8)));
  };
  EXPECT_EQ(run(80), 0x1p25f);  // each half is cut off beside 2^25: the unit is 2
  EXPECT_EQ(run(90), 0x1p25f);  // the unit is 1
  a.assign(16, kOne);
  EXPECT_EQ(run(80), 0x1p25f);       // ones are cut off still
  EXPECT_EQ(run(90), 0x1p25f + 16);  // and here they are not
}

TEST(TensorCore, TuringsGroupIsAnOption) {
  EXPECT_EQ(TensorCoreModelOf(75, Type::kF16, 8, 4).group, 4);
  EXPECT_EQ(TensorCoreModelOf(75, Type::kF16, 8, 8).group, 8);
  EXPECT_EQ(TensorCoreModelOf(86, Type::kTf32, 8, 8).group, 4);
}

// ---- mma: small integers are exact, so a plain product of matrices is the result

struct Form {
  const char* name;
  int k;
  Type type;
  bool half_result;
  int compute;
};

class EveryMma : public ::testing::TestWithParam<Form> {};

TEST_P(EveryMma, FragmentsAreThoseOfTheIsa) {
  const Form& form = GetParam();
  std::mt19937 random(5);
  int a[16][16] = {}, b[16][8] = {}, c[16][8] = {};
  for (int k = 0; k < form.k; ++k) {
    for (auto& row : a) row[k] = static_cast<int>(random() % 9) - 4;
    for (int& value : b[k]) value = static_cast<int>(random() % 9) - 4;
  }
  for (auto& row : c) {
    for (int& value : row) value = static_cast<int>(random() % 9) - 4;
  }
  const auto encode = [&](int value) -> uint64_t {
    const auto f = static_cast<float>(value);
    if (form.type == Type::kF16) return ToF16(f).bits;
    if (form.type == Type::kBf16) return ToBF16(f).bits;
    return std::bit_cast<uint32_t>(f);
  };
  const bool is_tf32 = form.type == Type::kTf32;
  std::vector<TestRegister> registers;
  std::string names[4];
  const auto add = [&](int group, const std::string& name, Type type, const auto& value) {
    TestRegister reg{name, type, {}};
    for (int lane = 0; lane < kLanes; ++lane) reg.bits[static_cast<size_t>(lane)] = value(lane);
    registers.push_back(reg);
    names[group] += (names[group].empty() ? "%" : ", %") + name;
  };
  const int results = form.half_result ? 2 : 4;
  const Type d_type = form.half_result ? Type::kB32 : Type::kF32;
  for (int i = 0; i < results; ++i) {
    add(0, "d" + std::to_string(i), d_type, [](int) { return uint64_t{0}; });
  }
  // PTX ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours.
  const int a_registers = is_tf32 ? form.k / 2 : form.k / 4;
  for (int i = 0; i < a_registers; ++i) {
    add(1, "a" + std::to_string(i), Type::kB32, [&](int lane) -> uint64_t {
      const int row = lane / 4 + (i % 2 == 1 ? 8 : 0);
      if (is_tf32) return encode(a[row][lane % 4 + (i >= 2 ? 4 : 0)]);
      const int column = lane % 4 * 2 + (i >= 2 ? 8 : 0);
      return encode(a[row][column]) | encode(a[row][column + 1]) << 16;
    });
  }
  const int b_registers = is_tf32 ? form.k / 4 : form.k / 8;
  for (int i = 0; i < b_registers; ++i) {
    add(2, "b" + std::to_string(i), Type::kB32, [&](int lane) -> uint64_t {
      const int n = lane / 4;
      if (is_tf32) return encode(b[lane % 4 + 4 * i][n]);
      const int k = lane % 4 * 2 + 8 * i;
      return encode(b[k][n]) | encode(b[k + 1][n]) << 16;
    });
  }
  for (int i = 0; i < results; ++i) {
    add(3, "c" + std::to_string(i), d_type, [&](int lane) -> uint64_t {
      const int column = lane % 4 * 2;
      if (form.half_result) {
        const int row = lane / 4 + 8 * i;
        return uint64_t{ToF16(static_cast<float>(c[row][column])).bits} |
               uint64_t{ToF16(static_cast<float>(c[row][column + 1])).bits} << 16;
      }
      const int row = lane / 4 + (i >= 2 ? 8 : 0);
      return std::bit_cast<uint32_t>(static_cast<float>(c[row][column + i % 2]));
    });
  }
  LineOptions options;
  options.handler.compute = form.compute;
  auto result = RunLines(std::string(form.name) + " {" + names[0] + "}, {" + names[1] + "}, {" +
                             names[2] + "}, {" + names[3] + "};",
                         registers, options);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      int sum = c[row][column];
      for (int k = 0; k < form.k; ++k) sum += a[row][k] * b[k][column];
      const auto lane = static_cast<size_t>(row % 8 * 4 + column / 2);
      if (form.half_result) {
        const uint64_t pair = result["d" + std::to_string(row / 8)][lane];
        const auto bits = static_cast<uint16_t>(column % 2 == 0 ? pair : pair >> 16);
        EXPECT_EQ(ToF32(F16{bits}), static_cast<float>(sum));
      } else {
        const int i = row / 8 * 2 + column % 2;
        EXPECT_EQ(FloatOf(result["d" + std::to_string(i)][lane]), static_cast<float>(sum));
      }
    }
  }
}

// 2 * 16 * 8 * 16 for each warp that executes it.
TEST(Mma, FlopsAreCounted) {
  PtxRunner runner;
  ASSERT_TRUE(runner.Load(PtxEntry(
      "", ".reg .b32 %a<4>; .reg .b32 %b<2>; .reg .f32 %c<4>;",
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, "
      "%a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3}; ret;")));
  runner.Run({3, 1, 1}, {64, 1, 1}, {});
  EXPECT_EQ(runner.Counters("mma").flops, 6 * 2 * 16 * 8 * 16);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, EveryMma,
    ::testing::Values(
        Form{"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, Type::kF16, false, 80},
        Form{"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, Type::kBf16, false, 90},
        Form{"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, Type::kF16, true, 80},
        Form{"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 8, Type::kF16, false, 75},
        Form{"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, Type::kTf32, false, 80},
        Form{"mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 4, Type::kTf32, false, 80}));

}  // namespace
}  // namespace duotone::emulator
