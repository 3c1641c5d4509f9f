// mma: fragments in registers, and what is counted.
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "base/float16.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

// Small integers are exact, so a plain product of matrices is the result.
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
      const auto lane = static_cast<size_t>(row) % 8 * 4 + static_cast<size_t>(column) / 2;
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
