// cvt, setp and what else converts and compares.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "base/float16.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

uint64_t Convert(const std::string& op, Type to, Type from, uint64_t bits) {
  return RunLines(op + " %d, %a;", {{"d", to}, {"a", from, Repeat({bits})}})["d"][0];
}
uint64_t FromFloat(const std::string& op, Type to, float value) {
  return Convert(op, to, Type::kF32, std::bit_cast<uint32_t>(value));
}

// Every f16 has its f32, and comes back.
TEST(ConvertOps, HalvesAreExactInSingles) {
  for (uint32_t bits = 0; bits < 65536; bits += kLanes) {
    Lanes halves;
    for (uint32_t lane = 0; lane < kLanes; ++lane) halves[lane] = bits + lane;
    auto result = RunLines("cvt.f32.f16 %f, %h; cvt.rn.f16.f32 %back, %f;",
                           {{"f", Type::kF32}, {"h", Type::kB16, halves}, {"back", Type::kB16}});
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t half = bits + lane;
      const int exponent = static_cast<int>(half >> 10 & 31), mantissa = half & 1023;
      if (exponent == 31 && mantissa != 0) {
        EXPECT_EQ(result["f"][lane], 0x7fffffffu);
        EXPECT_EQ(result["back"][lane], 0x7fffu);
        continue;
      }
      const double magnitude = exponent == 31  ? HUGE_VAL
                               : exponent == 0 ? std::ldexp(mantissa, -24)
                                               : std::ldexp(1024 + mantissa, exponent - 25);
      const double value = (half & 0x8000) != 0 ? -magnitude : magnitude;
      ASSERT_EQ(double{FloatOf(result["f"][lane])}, value) << half;
      ASSERT_EQ(result["back"][lane], half);
    }
  }
}

// 1 + 2^-11 lies in the middle of two f16; 1 + 3 * 2^-11 too, with the even one above.
TEST(ConvertOps, SinglesRoundToHalvesInEveryMode) {
  const float low = 1.0f + 0x1p-11f, high = 1.0f + 3 * 0x1p-11f;
  EXPECT_EQ(FromFloat("cvt.rn.f16.f32", Type::kB16, low), 0x3c00u);
  EXPECT_EQ(FromFloat("cvt.rn.f16.f32", Type::kB16, high), 0x3c02u);
  EXPECT_EQ(FromFloat("cvt.rz.f16.f32", Type::kB16, high), 0x3c01u);
  EXPECT_EQ(FromFloat("cvt.rp.f16.f32", Type::kB16, low), 0x3c01u);
  EXPECT_EQ(FromFloat("cvt.rm.f16.f32", Type::kB16, -low), 0xbc01u);
  EXPECT_EQ(FromFloat("cvt.rn.f16.f32", Type::kB16, 65520.0f), 0x7c00u);
  EXPECT_EQ(FromFloat("cvt.rz.f16.f32", Type::kB16, 65520.0f), 0x7bffu);
  EXPECT_EQ(FromFloat("cvt.rn.f16.f32", Type::kB16, 0x1p-25f), 0x0000u);
  EXPECT_EQ(FromFloat("cvt.rn.f16.f32", Type::kB16, 0x1.8p-25f), 0x0001u);
  EXPECT_EQ(FromFloat("cvt.rn.f16.f32", Type::kB16, std::nanf("")), 0x7fffu);
}

TEST(ConvertOps, BfloatsAndTf32KeepTheUpperBits) {
  EXPECT_EQ(FromFloat("cvt.rn.bf16.f32", Type::kB16, 1.0f + 0x1p-8f), 0x3f80u);
  EXPECT_EQ(FromFloat("cvt.rn.bf16.f32", Type::kB16, 1.0f + 3 * 0x1p-8f), 0x3f82u);
  EXPECT_EQ(FromFloat("cvt.rn.relu.bf16.f32", Type::kB16, -1.0f), 0u);
  EXPECT_EQ(Convert("cvt.f32.bf16", Type::kF32, Type::kB16, 0xc040), 0xc0400000u);
  // Ties go away from zero.
  EXPECT_EQ(FromFloat("cvt.rna.tf32.f32", Type::kB32, 1.0f + 0x1p-11f), 0x3f802000u);
  EXPECT_EQ(FromFloat("cvt.rna.tf32.f32", Type::kB32, -1.0f - 0x1p-11f), 0xbf802000u);
}

TEST(ConvertOps, ThePairsFirstOperandIsTheUpperHalf) {
  const uint64_t pair =
      RunLines("cvt.rn.f16x2.f32 %d, %a, %b;", {{"d", Type::kB32},
                                                {"a", Type::kF32, Floats({2.0f})},
                                                {"b", Type::kF32, Floats({1.0f})}})["d"][0];
  EXPECT_EQ(pair, 0x40003c00u);
}

TEST(ConvertOps, IntegersAreClampedAndRounded) {
  EXPECT_EQ(FromFloat("cvt.rni.s32.f32", Type::kS32, 2.5f), 2u);
  EXPECT_EQ(FromFloat("cvt.rzi.s32.f32", Type::kS32, -2.9f), 0xfffffffeu);
  EXPECT_EQ(FromFloat("cvt.rmi.s32.f32", Type::kS32, -2.1f), 0xfffffffdu);
  EXPECT_EQ(FromFloat("cvt.rpi.s32.f32", Type::kS32, 2.1f), 3u);
  EXPECT_EQ(FromFloat("cvt.rzi.s32.f32", Type::kS32, 1e20f), 0x7fffffffu);
  EXPECT_EQ(FromFloat("cvt.rzi.s32.f32", Type::kS32, -kInf), 0x80000000u);
  EXPECT_EQ(FromFloat("cvt.rzi.u32.f32", Type::kU32, -5.0f), 0u);
  EXPECT_EQ(FromFloat("cvt.rzi.s32.f32", Type::kS32, std::nanf("")), 0u);
  EXPECT_EQ(FromFloat("cvt.rzi.u64.f32", Type::kU64, 0x1p63f), uint64_t{1} << 63);
  EXPECT_EQ(FromFloat("cvt.rmi.f32.f32", Type::kF32, -0.5f), std::bit_cast<uint32_t>(-1.0f));
  EXPECT_EQ(FromFloat("cvt.rni.f32.f32", Type::kF32, 3.5f), std::bit_cast<uint32_t>(4.0f));
  EXPECT_EQ(FromFloat("cvt.sat.f32.f32", Type::kF32, 7.0f), std::bit_cast<uint32_t>(1.0f));
  EXPECT_EQ(FromFloat("cvt.sat.f32.f32", Type::kF32, std::nanf("")), 0u);
}

TEST(ConvertOps, LargeIntegersRoundToSingles) {
  // 2^24 + 1 is a tie; 2^24 + 3 too.
  EXPECT_EQ(FloatOf(Convert("cvt.rn.f32.s32", Type::kF32, Type::kS32, (1 << 24) + 1)), 0x1p24f);
  EXPECT_EQ(FloatOf(Convert("cvt.rn.f32.u32", Type::kF32, Type::kU32, (1 << 24) + 3)), 0x1p24f + 4);
  EXPECT_EQ(FloatOf(Convert("cvt.rz.f32.u64", Type::kF32, Type::kU64, ~uint64_t{0})),
            0x1.fffffep63f);
  EXPECT_EQ(FloatOf(Convert("cvt.rp.f32.s32", Type::kF32, Type::kS32, (1 << 24) + 1)), 0x1p24f + 2);
}

TEST(ConvertOps, IntegersAreExtendedByTheirSourceAndSaturateWhenAsked) {
  EXPECT_EQ(Convert("cvt.s64.s32", Type::kS64, Type::kS32, 0x80000000u), 0xffffffff80000000u);
  EXPECT_EQ(Convert("cvt.u64.u32", Type::kU64, Type::kU32, 0x80000000u), 0x80000000u);
  EXPECT_EQ(Convert("cvt.u32.u64", Type::kU32, Type::kU64, 0x123456789u), 0x23456789u);
  EXPECT_EQ(Convert("cvt.sat.u8.s32", Type::kU16, Type::kS32, 0xfffffff0u), 0u);
  EXPECT_EQ(Convert("cvt.sat.s8.s32", Type::kS16, Type::kS32, 300), 127u);
  // The result is narrower than its register.
  EXPECT_EQ(Convert("cvt.s8.s32", Type::kS32, Type::kS32, 0x80), 0xffffff80u);
  EXPECT_EQ(Convert("cvt.u16.u8", Type::kU16, Type::kU16, 0x1ff), 0xffu);
}

// ---- Comparisons

bool Compares(const std::string& op, Type type, uint64_t a, uint64_t b) {
  return RunLines(
             op + " %p, %a, %b;",
             {{"p", Type::kPred}, {"a", type, Repeat({a})}, {"b", type, Repeat({b})}})["p"][0] != 0;
}
bool ComparesFloats(const std::string& op, float a, float b) {
  return Compares(op, Type::kF32, std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b));
}

TEST(Comparisons, NanIsUnordered) {
  const float nan = std::nanf("");
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge", "num"}) {
    EXPECT_FALSE(ComparesFloats(absl::StrFormat("setp.%s.f32", op), nan, 1.0f)) << op;
  }
  for (const char* op : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"}) {
    EXPECT_TRUE(ComparesFloats(absl::StrFormat("setp.%s.f32", op), 1.0f, nan)) << op;
  }
  EXPECT_TRUE(ComparesFloats("setp.ltu.f32", 1.0f, 2.0f));
  EXPECT_FALSE(ComparesFloats("setp.geu.f32", 1.0f, 2.0f));
  EXPECT_TRUE(ComparesFloats("setp.eq.f32", 0.0f, -0.0f));
  EXPECT_TRUE(ComparesFloats("setp.eq.ftz.f32", 0x1p-130f, -0x1p-140f));
  EXPECT_FALSE(ComparesFloats("setp.eq.f32", 0x1p-130f, -0x1p-140f));
}

TEST(Comparisons, IntegersAreSignedOrNot) {
  EXPECT_TRUE(Compares("setp.lt.s32", Type::kB32, 0xffffffffu, 0));
  EXPECT_FALSE(Compares("setp.lt.u32", Type::kB32, 0xffffffffu, 0));
  EXPECT_TRUE(Compares("setp.hi.u32", Type::kB32, 0xffffffffu, 0));
  EXPECT_TRUE(Compares("setp.ge.s64", Type::kB64, 5, 0x8000000000000000u));
  EXPECT_TRUE(Compares("setp.lt.s16", Type::kB16, 0x8000, 1));
}

// set writes a value as wide as its type, and the register beside it keeps its own.
TEST(Comparisons, SetIsAsWideAsItsResult) {
  auto result = RunLines(
      "set.eq.u16.f16 %d, %a, %b; set.lt.s16.bf16 %e, %b, %a; set.eq.f16.f16 %f, %a, %b;\n"
      "set.eq.u32.f16 %g, %a, %b; set.ne.f32.u16 %h, %a, %b;",
      {{"d", Type::kU16, Repeat({5})},
       {"d_next", Type::kU16, Repeat({0x1234})},
       {"e", Type::kS16, Repeat({5})},
       {"e_next", Type::kU16, Repeat({0x1234})},
       {"f", Type::kB16},
       {"f_next", Type::kU16, Repeat({0x1234})},
       {"g", Type::kU32},
       {"h", Type::kF32},
       {"a", Type::kB16, Repeat({0x3c00})},
       {"b", Type::kB16, Repeat({0x3c00, 0})}});
  EXPECT_EQ(result["d"], Repeat({0xffff, 0}));
  EXPECT_EQ(result["e"], Repeat({0, 0xffff}));
  EXPECT_EQ(result["f"], Repeat({0x3c00, 0}));
  EXPECT_EQ(result["g"], Repeat({0xffffffff, 0}));
  EXPECT_EQ(result["h"], Floats({0.0f, 1.0f}));
  for (const char* next : {"d_next", "e_next", "f_next"}) {
    EXPECT_EQ(result[next], Repeat({0x1234})) << next;
  }
}

// As __heq2_mask of cuda_fp16.h has it: the low half tells of the low elements.
TEST(Comparisons, SetOfPairsHasAResultPerHalf) {
  auto result = RunLines(
      "set.eq.u32.f16x2 %d, %a, %b; set.eq.f16x2.f16x2 %e, %a, %b;\n"
      "set.eq.s32.bf16x2 %f, %a, %b; set.eq.bf16x2.bf16x2 %g, %a, %b;",
      {{"d", Type::kU32},
       {"e", Type::kB32},
       {"f", Type::kS32},
       {"g", Type::kB32},
       {"a", Type::kB32, Repeat({0x3c003c00})},
       {"b", Type::kB32, Repeat({0x3c003c00, 0x3c000000, 0x00003c00, 0})}});
  EXPECT_EQ(result["d"], Repeat({0xffffffff, 0xffff0000, 0x0000ffff, 0}));
  EXPECT_EQ(result["e"], Repeat({0x3c003c00, 0x3c000000, 0x00003c00, 0}));
  EXPECT_EQ(result["f"], result["d"]);
  EXPECT_EQ(result["g"], Repeat({0x3f803f80, 0x3f800000, 0x00003f80, 0}));
}

// p|q = a < b and c; q is the opposite comparison, and c.
TEST(Comparisons, TwoResultsAreCombinedWithAThird) {
  auto result = RunLines("setp.lt.and.s32 %p|%q, %a, %b, %c; setp.lt.or.s32 %r, %a, %b, !%c;",
                         {{"p", Type::kPred},
                          {"q", Type::kPred},
                          {"r", Type::kPred},
                          {"a", Type::kB32, Repeat({1, 2, 1, 2})},
                          {"b", Type::kB32, Repeat({2, 1, 2, 1})},
                          {"c", Type::kPred, Repeat({1, 1, 0, 0})}});
  EXPECT_EQ(result["p"], Repeat({1, 0, 0, 0}));
  EXPECT_EQ(result["q"], Repeat({0, 1, 0, 0}));
  EXPECT_EQ(result["r"], Repeat({1, 0, 1, 1}));
}

TEST(Moves, PackAndUnpackFromTheLowest) {
  auto result = RunLines("mov.b64 %d, {%a, %b}; mov.b64 {%x, %y}, %d; mov.b32 {%h, %l}, %a;",
                         {{"d", Type::kB64},
                          {"a", Type::kB32, Repeat({0x11112222})},
                          {"b", Type::kB32, Repeat({0x33334444})},
                          {"x", Type::kB32},
                          {"y", Type::kB32},
                          {"h", Type::kB16},
                          {"l", Type::kB16}});
  EXPECT_EQ(result["d"][0], 0x3333444411112222u);
  EXPECT_EQ(result["x"][0], 0x11112222u);
  EXPECT_EQ(result["y"][0], 0x33334444u);
  EXPECT_EQ(result["h"][0], 0x2222u);
  EXPECT_EQ(result["l"][0], 0x1111u);
}

TEST(Moves, SelectionsFollowPredicateAndSign) {
  auto result = RunLines("selp.b32 %d, %a, %b, %p; slct.b32.s32 %e, %a, %b, %c;",
                         {{"d", Type::kB32},
                          {"e", Type::kB32},
                          {"a", Type::kB32, Repeat({1})},
                          {"b", Type::kB32, Repeat({2})},
                          {"c", Type::kS32, Repeat({0, 0xffffffffu})},
                          {"p", Type::kPred, Repeat({1, 0})}});
  EXPECT_EQ(result["d"], Repeat({1, 2}));
  EXPECT_EQ(result["e"], Repeat({1, 2}));
}

TEST(Moves, TestpClassifies) {
  auto is = [](const char* property, float value) {
    return RunLines(absl::StrFormat("testp.%s.f32 %%p, %%a;", property),
                    {{"p", Type::kPred}, {"a", Type::kF32, Floats({value})}})["p"][0] != 0;
  };
  EXPECT_TRUE(is("finite", 1.0f));
  EXPECT_FALSE(is("finite", kInf));
  EXPECT_TRUE(is("infinite", -kInf));
  EXPECT_TRUE(is("notanumber", std::nanf("")));
  EXPECT_TRUE(is("subnormal", 0x1p-140f));
  EXPECT_TRUE(is("normal", 0.0f));
  EXPECT_FALSE(is("normal", 0x1p-140f));
}

}  // namespace
}  // namespace duotone::emulator
