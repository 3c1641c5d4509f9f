// cvt, setp and what else converts and compares.
#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/runtime/emulator/form_testing.h"
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

// ---- Every form of cvt, against exact integers

using Modifiers = std::vector<std::string>;

const Modifiers kModes = {".rn", ".rz", ".rm", ".rp"};
const Modifiers kIntegralModes = {".rni", ".rzi", ".rmi", ".rpi"};
const std::vector<Type> kIntegers = {Type::kU8, Type::kU16, Type::kU32, Type::kU64,
                                     Type::kS8, Type::kS16, Type::kS32, Type::kS64};

const exact::Format& FormatOfFloat(Type type) {
  for (const exact::Format* format : {&exact::kF16, &exact::kBf16, &exact::kF32}) {
    if (format->type == type) return *format;
  }
  return type == Type::kTf32 ? exact::kTf32 : exact::kF64;
}
int WidthOf(Type type) { return 8 * TypeBytes(type); }
__int128 LowestOf(Type type) { return IsSigned(type) ? -(__int128{1} << (WidthOf(type) - 1)) : 0; }
__int128 HighestOf(Type type) {
  return (__int128{1} << (IsSigned(type) ? WidthOf(type) - 1 : WidthOf(type))) - 1;
}
__int128 IntegerOf(uint64_t bits, Type type) {
  const int unused = 64 - WidthOf(type);
  return IsSigned(type) ? __int128{static_cast<int64_t>(bits << unused) >> unused}
                        : static_cast<__int128>(bits << unused >> unused);
}

// One form: cvt{modifiers}.to.from.
struct Conversion {
  Conversion(std::string_view words, Type to, Type from) : modifiers(words), to(to), from(from) {
    const auto has = [&](const char* one) { return absl::StrContains(modifiers, one); };
    ftz = has(".ftz"), sat = has(".sat"), relu = has(".relu");
    const std::pair<const char*, Rounding> names[] = {
        {".rni", Rounding::kRni}, {".rzi", Rounding::kRzi}, {".rmi", Rounding::kRmi},
        {".rpi", Rounding::kRpi}, {".rna", Rounding::kRna}, {".rn", Rounding::kRn},
        {".rz", Rounding::kRz},   {".rm", Rounding::kRm},   {".rp", Rounding::kRp}};
    for (const auto& [name, value] : names) {
      if (rounding == Rounding::kNone && has(name)) rounding = value;
    }
    is_integral = has(".rni") || has(".rzi") || has(".rmi") || has(".rpi");
  }

  // What the type's bits become, as many as the result has.
  uint64_t Expected(uint64_t bits) const {
    if (!IsFloat(from)) return OfInteger(IntegerOf(bits, from));
    const exact::Format& format = FormatOfFloat(from);
    if (ftz && from == Type::kF32) bits = Flush(bits, format);
    if (IsFloat(to)) return ToFloat(Decode(bits, format));
    // PTX ISA 8.5, 9.7.9.21: of NaN the middle number where 64 bits are involved, else 0.
    const bool wide = from == Type::kF64 || WidthOf(to) == 64;
    if (format.IsNan(bits)) return wide ? uint64_t{1} << (WidthOf(to) - 1) : 0;
    return Clamped(exact::ToInteger(Decode(bits, format), rounding));
  }
  uint64_t OfInteger(__int128 value) const {
    if (IsFloat(to)) return ToFloat(exact::FromInteger(value));
    return sat ? Clamped(value) : static_cast<uint64_t>(value);
  }
  uint64_t Clamped(__int128 value) const {
    return static_cast<uint64_t>(std::clamp(value, LowestOf(to), HighestOf(to)));
  }
  uint64_t ToFloat(exact::Number value) const {
    const exact::Format& format = FormatOfFloat(to);
    if (is_integral && value.kind == exact::Number::Kind::kFinite && value.exponent < 0) {
      const bool negative = value.negative;  // also of a zero
      value = exact::FromInteger(exact::ToInteger(value, rounding));
      value.negative = negative;
    }
    uint64_t bits = Encode(value, format, rounding);
    if (ftz && to == Type::kF32) bits = Flush(bits, format);
    if (sat) bits = Saturate(bits, format);
    if (relu) bits = ClampToZero(bits, format);
    return to == Type::kTf32 ? bits << 13 | (format.IsNan(bits) ? 0x1fff : 0) : bits;
  }

  std::string modifiers;
  Type to, from;
  Rounding rounding = Rounding::kNone;
  bool ftz, sat, relu, is_integral;
};

// A register for numbers of a type: those of 8 bits have none of their own.
Type RegisterOf(Type type) {
  const Type by_bytes[] = {Type::kB16, Type::kB16, Type::kB32, Type::kB64};
  return by_bytes[std::countr_zero(static_cast<unsigned>(TypeBytes(type)))];
}

// Results that are narrower than their registers are extended by their sign or zeros.
void Check(const Conversion& form, const Column& operands) {
  const std::string text = absl::StrFormat("cvt%s.%s.%s %%d, %%a;", form.modifiers,
                                           TypeName(form.to), TypeName(form.from));
  const Column results =
      RunColumns(text, {{"d", RegisterOf(form.to)}, {"a", RegisterOf(form.from), operands}})["d"];
  const int unused = 64 - WidthOf(RegisterOf(form.to));
  for (size_t i = 0; i < operands.size() && i < results.size(); ++i) {
    uint64_t wanted = form.Expected(operands[i]);
    if (!IsFloat(form.to)) wanted = static_cast<uint64_t>(IntegerOf(wanted, form.to));
    wanted = wanted << unused >> unused;
    ASSERT_EQ(results[i], wanted) << absl::StrFormat("%s of %#x gives %#x instead of %#x", text,
                                                     operands[i], results[i], wanted);
  }
}

// Numbers around the ends of all integer types and powers of two, and random ones of all sizes.
Column Integers() {
  std::mt19937_64 random(1);
  Column values;
  for (int shift = 0; shift < 64; ++shift) {
    for (const uint64_t near : {-2, -1, 0, 1, 2}) {
      values.push_back((uint64_t{1} << shift) + near);
      values.push_back(~values.back() + 1);
    }
    // A few bits in front: the middle between two floats, and its neighbours.
    for (const int width : {9, 12, 25, 54}) {
      const uint64_t tie = (random() >> (64 - width) | 1) << shift;
      for (const uint64_t near : {-1, 0, 1}) values.push_back(tie + near);
    }
    for (int i = 0; i < 8; ++i) values.push_back(random() >> shift);
  }
  return values;
}

// All numbers of a format with 16 bits. Of others: edge values, the neighbours of small multiples
// of a quarter and of integers near the ends of integer types, and random ones.
Column FloatsOf(const exact::Format& format, int random_ones = 4000) {
  Column values;
  if (format.bits == 16) {
    for (uint64_t bits = 0; bits < 65536; ++bits) values.push_back(bits);
    return values;
  }
  values = EdgeValues(format);
  const auto add = [&](long double value) {
    const uint64_t nearest = Encode(exact::FromLongDouble(value), format, Rounding::kRn);
    for (const uint64_t near : {-1, 0, 1}) {
      values.push_back(nearest + near);
      values.push_back((nearest + near) ^ format.sign());
    }
  };
  for (int i = 1; i <= 20; ++i) add(0.25L * i);
  for (const int width : {7, 8, 15, 16, 31, 32, 63, 64}) {
    for (int i = -8; i <= 8; ++i) add(std::ldexp(1.0L, width) + 0.25L * i);
  }
  std::mt19937_64 random(2);
  for (int i = 0; i < random_ones; ++i) {
    // Half of them between 2^-6 and 2^70, as far as the format goes.
    const uint64_t bits = random() >> (64 - format.bits);
    const uint64_t field = static_cast<uint64_t>(random() % 76) - 6;
    const uint64_t exponent = format.one() + (field << format.fraction);
    values.push_back(
        i % 2 == 0 ? bits : (bits & (format.sign() | (format.smallest_normal() - 1))) | exponent);
  }
  return values;
}

TEST(Conversions, OfIntegersWrapOrSaturate) {
  for (const Type to : kIntegers) {
    for (const Type from : kIntegers) {
      Check({"", to, from}, Integers());
      // .sat is there where not all values fit.
      const int room = WidthOf(to) - (IsSigned(to) ? 1 : 0);
      const bool fits =
          IsSigned(from) ? IsSigned(to) && WidthOf(from) <= WidthOf(to) : WidthOf(from) <= room;
      if (!fits) Check({".sat", to, from}, Integers());
    }
  }
}

TEST(Conversions, OfIntegersToFloatsRoundOnce) {
  for (const Type from : kIntegers) {
    for (const Type to : {Type::kF16, Type::kF32, Type::kF64}) {
      for (const std::string& mode : Crossed({kModes, {"", ".sat"}})) {
        Check({mode, to, from}, Integers());
      }
    }
    if (WidthOf(from) == 8) continue;
    for (const std::string& mode : kModes) Check({mode, Type::kBf16, from}, Integers());
  }
}

class ToIntegers : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(From, ToIntegers,
                         ::testing::Values(Type::kF16, Type::kBf16, Type::kF32, Type::kF64),
                         [](const auto& info) { return std::string(TypeName(info.param)); });

TEST_P(ToIntegers, RoundAndClamp) {
  const Type from = GetParam();
  const Column values = FloatsOf(FormatOfFloat(from));
  for (const Type to : kIntegers) {
    if (from == Type::kBf16 && WidthOf(to) == 8) continue;
    for (const std::string& mode : kIntegralModes) {
      Check({mode, to, from}, values);
      if (from == Type::kF32) Check({mode + ".ftz", to, from}, values);
    }
    // Nothing is left to saturate.
    if (from != Type::kBf16) Check({".rni.sat", to, from}, values);
  }
}

TEST(Conversions, WithinATypeRoundToIntegers) {
  const Modifiers modes = {"", ".rni", ".rzi", ".rmi", ".rpi"}, sat = {"", ".sat"};
  const std::pair<Type, Modifiers> all[] = {{Type::kF16, Crossed({modes, sat})},
                                            {Type::kBf16, kIntegralModes},
                                            {Type::kF32, Crossed({modes, {"", ".ftz"}, sat})},
                                            {Type::kF64, Crossed({modes, sat})}};
  for (const auto& [type, forms] : all) {
    for (const std::string& form : forms) Check({form, type, type}, FloatsOf(FormatOfFloat(type)));
  }
}

TEST(Conversions, ToWiderFloatsAreExact) {
  for (const std::string& form : Crossed({{"", ".ftz"}, {"", ".sat"}})) {
    Check({form, Type::kF32, Type::kF16}, FloatsOf(exact::kF16));
    Check({form, Type::kF64, Type::kF32}, FloatsOf(exact::kF32));
  }
  Check({"", Type::kF64, Type::kF16}, FloatsOf(exact::kF16));
  Check({".sat", Type::kF64, Type::kF16}, FloatsOf(exact::kF16));
  Check({"", Type::kF32, Type::kBf16}, FloatsOf(exact::kBf16));
  Check({".ftz", Type::kF32, Type::kBf16}, FloatsOf(exact::kBf16));
  Check({"", Type::kF64, Type::kBf16}, FloatsOf(exact::kBf16));
}

// For every `step`-th number of a narrow format: the middle between it and the next one in the wide
// format, and its neighbours there. A third is negative. Then whatever FloatsOf gives.
Column Middles(const exact::Format& narrow, const exact::Format& wide, uint64_t step) {
  Column values = FloatsOf(wide, 1000);
  for (uint64_t bits = 0; bits < narrow.infinity(); bits += step) {
    exact::Number middle = Decode(bits, narrow);
    middle.magnitude = 2 * middle.magnitude + 1;
    middle.exponent -= 1;
    const uint64_t tie = Encode(middle, wide, Rounding::kRn);
    const uint64_t sign = bits / step % 3 == 0 ? wide.sign() : 0;
    for (const uint64_t near : {-1, 0, 1}) values.push_back((tie + near) | sign);
  }
  return values;
}

TEST(Conversions, ToNarrowerFloatsRoundOnce) {
  using exact::kBf16, exact::kF16, exact::kF32, exact::kF64;
  for (const std::string& mode : kModes) {
    Check({mode, Type::kF16, Type::kF32}, Middles(kF16, kF32, 1));
    Check({mode, Type::kF16, Type::kF64}, Middles(kF16, kF64, 7));
    Check({mode, Type::kBf16, Type::kF32}, Middles(kBf16, kF32, 1));
    Check({mode, Type::kBf16, Type::kF64}, Middles(kBf16, kF64, 7));
    Check({mode, Type::kBf16, Type::kF16}, FloatsOf(kF16));
    Check({mode, Type::kF16, Type::kBf16}, FloatsOf(kBf16));
    for (const std::string& more : Crossed({{"", ".ftz"}, {"", ".sat"}})) {
      Check({mode + more, Type::kF16, Type::kF32}, Middles(kF16, kF32, 37));
      Check({mode + more, Type::kF32, Type::kF64}, Middles(kF32, kF64, 999983));
    }
    Check({mode + ".sat", Type::kF16, Type::kF64}, Middles(kF16, kF64, 37));
  }
  for (const char* mode : {".rn.relu", ".rz.relu"}) {
    Check({mode, Type::kF16, Type::kF32}, Middles(kF16, kF32, 37));
    Check({mode, Type::kBf16, Type::kF32}, Middles(kBf16, kF32, 37));
  }
  for (const char* mode : {".rna", ".rn", ".rz", ".rn.relu", ".rz.relu"}) {
    Check({mode, Type::kTf32, Type::kF32}, Middles(exact::kTf32, kF32, 17));
  }
}

// The lower part of a wider register is the operand, and the result fills the lower part.
TEST(Conversions, TakeWiderRegisters) {
  const auto wide = [](const char* op, uint64_t bits) {
    return Convert(op, Type::kB64, Type::kB64, bits | uint64_t{0xdead} << 48);
  };
  EXPECT_EQ(wide("cvt.sat.f32.f32", 0x40000000), 0x3f800000u);
  EXPECT_EQ(wide("cvt.rzi.s32.f32", 0xc0000000), 0xfffffffffffffffeu);
  EXPECT_EQ(wide("cvt.f64.f32", 0x3f800000), uint64_t{0x3ff} << 52);
  EXPECT_EQ(wide("cvt.rn.f16.f32", 0x3f800000), 0x3c00u);
  EXPECT_EQ(wide("cvt.u32.u16", 0x12345), 0x2345u);
  EXPECT_EQ(Convert("cvt.rn.f32.f64", Type::kB64, Type::kF64, uint64_t{0x3ff} << 52), 0x3f800000u);
}

// The first operand becomes the upper half.
TEST(Conversions, ToPairsAreTwoConversions) {
  for (const exact::Format& format : {exact::kF16, exact::kBf16}) {
    const Column a = Middles(format, exact::kF32, 7), b(a.rbegin(), a.rend());
    for (const char* mode : {".rn", ".rz", ".rn.relu", ".rz.relu"}) {
      const Column results =
          RunColumns(absl::StrFormat("cvt%s.%sx2.f32 %%d, %%a, %%b;", mode, TypeName(format.type)),
                     {{"d", Type::kB32}, {"a", Type::kF32, a}, {"b", Type::kF32, b}})["d"];
      const Conversion one(mode, format.type, Type::kF32);
      for (size_t i = 0; i < results.size(); ++i) {
        ASSERT_EQ(results[i], one.Expected(a[i]) << 16 | one.Expected(b[i])) << mode;
      }
    }
  }
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

// All float comparisons of all formats, as setp and set, of edge values crossed.
class FloatComparisons : public ::testing::TestWithParam<exact::Format> {
 protected:
  enum class Order { kLess, kEqual, kGreater, kUnordered };
  // Bits of numbers are in the order of the numbers but for their signs.
  static Order OrderOf(uint64_t a, uint64_t b, const exact::Format& format) {
    if (format.IsNan(a) || format.IsNan(b)) return Order::kUnordered;
    const auto rank = [&](uint64_t bits) {
      const auto magnitude = static_cast<int64_t>(bits & ~format.sign());
      return format.IsNegative(bits) ? -magnitude : magnitude;
    };
    if (rank(a) == rank(b)) return Order::kEqual;
    return rank(a) < rank(b) ? Order::kLess : Order::kGreater;
  }
  struct Comparison {
    const char* name;
    std::vector<Order> holds;
  };
  static std::vector<Comparison> All() {
    constexpr auto kLess = Order::kLess, kEqual = Order::kEqual, kGreater = Order::kGreater,
                   kUnordered = Order::kUnordered;
    return {{"eq", {kEqual}},
            {"ne", {kLess, kGreater}},
            {"lt", {kLess}},
            {"le", {kLess, kEqual}},
            {"gt", {kGreater}},
            {"ge", {kGreater, kEqual}},
            {"equ", {kEqual, kUnordered}},
            {"neu", {kLess, kGreater, kUnordered}},
            {"ltu", {kLess, kUnordered}},
            {"leu", {kLess, kEqual, kUnordered}},
            {"gtu", {kGreater, kUnordered}},
            {"geu", {kGreater, kEqual, kUnordered}},
            {"num", {kLess, kEqual, kGreater}},
            {"nan", {kUnordered}}};
  }
  // Calls check(form, a, b, expected) for each comparison, with and without .ftz.
  template <typename F>
  static void ForAll(const F& check) {
    const exact::Format& format = GetParam();
    Column a, b;
    for (const uint64_t x : EdgeValues(format)) {
      for (const uint64_t y : EdgeValues(format)) a.push_back(x), b.push_back(y);
    }
    for (const Comparison& comparison : All()) {
      for (const bool ftz : {false, true}) {
        if (ftz && format.type != Type::kF16 && format.type != Type::kF32) continue;
        std::vector<bool> expected;
        for (size_t i = 0; i < a.size(); ++i) {
          const Order order = ftz ? OrderOf(Flush(a[i], format), Flush(b[i], format), format)
                                  : OrderOf(a[i], b[i], format);
          expected.push_back(std::ranges::count(comparison.holds, order) != 0);
        }
        check(absl::StrCat(".", comparison.name, ftz ? ".ftz" : ""), a, b, expected);
      }
    }
  }
  static Column Paired(const Column& halves) {
    Column pairs;
    for (size_t i = 0; i < halves.size(); i += 2) pairs.push_back(halves[i] | halves[i + 1] << 16);
    return pairs;
  }
};
INSTANTIATE_TEST_SUITE_P(Of, FloatComparisons,
                         ::testing::Values(exact::kF16, exact::kBf16, exact::kF32, exact::kF64),
                         [](const auto& info) { return std::string(TypeName(info.param.type)); });

TEST_P(FloatComparisons, OfSetpAndSetAreThoseOfTheNumbers) {
  const Type type = GetParam().type, row = RegisterOf(type);
  const std::string_view name = TypeName(type);
  ForAll([&](const std::string& form, const Column& a, const Column& b,
             const std::vector<bool>& expected) {
    auto results =
        RunColumns(absl::StrFormat("setp%s.%s %%p, %%a, %%b; set%s.u32.%s %%d, %%a, %%b;", form,
                                   name, form, name),
                   {{"p", Type::kPred}, {"d", Type::kB32}, {"a", row, a}, {"b", row, b}});
    const Column p = results["p"], d = results["d"];
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(p[i], expected[i] ? 1u : 0u) << form << " of " << a[i] << ", " << b[i];
      ASSERT_EQ(d[i], expected[i] ? 0xffffffffu : 0u) << form << " of " << a[i] << ", " << b[i];
    }
  });
}

using PairComparisons = FloatComparisons;
INSTANTIATE_TEST_SUITE_P(Of, PairComparisons, ::testing::Values(exact::kF16, exact::kBf16),
                         [](const auto& info) { return std::string(TypeName(info.param.type)); });

TEST_P(PairComparisons, AreTwo) {
  const exact::Format& format = GetParam();
  const std::string_view name = TypeName(format.type);
  ForAll([&](const std::string& form, const Column& a, const Column& b,
             const std::vector<bool>& expected) {
    auto results =
        RunColumns(absl::StrFormat("setp%s.%sx2 %%p|%%q, %%a, %%b; set%s.%sx2.%sx2 %%d, %%a, %%b;",
                                   form, name, form, name, name),
                   {{"p", Type::kPred},
                    {"q", Type::kPred},
                    {"d", Type::kB32},
                    {"a", Type::kB32, Paired(a)},
                    {"b", Type::kB32, Paired(b)}});
    const Column predicates[] = {results["p"], results["q"]}, d = results["d"];
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(predicates[i % 2][i / 2], expected[i] ? 1u : 0u) << form;
      ASSERT_EQ(d[i / 2] >> (i % 2 * 16) & 0xffff, expected[i] ? format.one() : 0u) << form;
    }
  });
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
