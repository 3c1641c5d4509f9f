// Integer instructions against arithmetic of the host that is written another way: in 128 bits, or
// bit by bit.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <random>

#include "absl/strings/str_format.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using Wide = __int128;

int64_t SignExtend(uint64_t bits, int width) {
  return static_cast<int64_t>(bits << (64 - width)) >> (64 - width);
}
uint64_t Low(Wide value, int width) {
  const auto bits = static_cast<uint64_t>(value);
  return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

// Values at the edges of every width, and random ones.
std::vector<uint64_t> Samples(int width, uint64_t seed) {
  std::vector<uint64_t> values = {0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 255, 256};
  for (int bit = 0; bit < width; bit += 5) values.push_back(uint64_t{1} << bit);
  for (uint64_t v : std::vector<uint64_t>(values)) values.push_back(~v);
  const uint64_t top = uint64_t{1} << (width - 1);
  values.insert(values.end(), {top, top - 1, top + 1});
  std::mt19937_64 random(seed);
  while (values.size() % kLanes != 0 || values.size() < 128) values.push_back(random());
  for (uint64_t& value : values) value = Low(value, width);
  return values;
}

struct Shape {
  Type type;
  int width;
  bool is_signed;
};
const Shape kShapes[] = {{Type::kU16, 16, false}, {Type::kS16, 16, true},  {Type::kU32, 32, false},
                         {Type::kS32, 32, true},  {Type::kU64, 64, false}, {Type::kS64, 64, true}};

Wide Value(uint64_t bits, const Shape& shape) {
  return shape.is_signed ? Wide{SignExtend(bits, shape.width)} : Wide{bits};
}

Type BitsType(int width) {
  return width == 16 ? Type::kB16 : width == 32 ? Type::kB32 : Type::kB64;
}

// Runs `text` over samples of two (or with C three) operands and compares each lane.
void Check(const std::string& text, int d_width, int a_width, int b_width, int c_width,
           const std::function<uint64_t(uint64_t, uint64_t, uint64_t)>& expected) {
  const std::vector<uint64_t> as = Samples(a_width, 1);
  std::vector<uint64_t> bs = Samples(b_width, 2), cs = Samples(c_width, 3);
  for (size_t turn = 0; turn < 3; ++turn) {
    std::rotate(bs.begin(), bs.begin() + 7, bs.end());
    std::rotate(cs.begin(), cs.begin() + 13, cs.end());
    for (size_t i = 0; i + kLanes <= as.size(); i += kLanes) {
      Lanes a, b, c;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        a[lane] = as[i + lane];
        b[lane] = bs[(i + lane) % bs.size()];
        c[lane] = cs[(i + lane) % cs.size()];
      }
      auto result = RunLines(text, {{"d", BitsType(d_width)},
                                    {"a", BitsType(a_width), a},
                                    {"b", BitsType(b_width), b},
                                    {"c", BitsType(c_width), c}});
      for (size_t lane = 0; lane < kLanes; ++lane) {
        ASSERT_EQ(result["d"][lane], expected(a[lane], b[lane], c[lane]))
            << text << absl::StrFormat(" of 0x%x, 0x%x, 0x%x", a[lane], b[lane], c[lane]);
      }
    }
  }
}

class EveryInteger : public ::testing::TestWithParam<Shape> {
 protected:
  void Binary(std::string_view op, const std::function<Wide(Wide, Wide)>& expected) {
    const Shape& s = GetParam();
    Check(absl::StrFormat("%s.%s %%d, %%a, %%b;", op, TypeName(s.type)), s.width, s.width, s.width,
          32, [&](uint64_t a, uint64_t b, uint64_t) {
            return Low(expected(Value(a, s), Value(b, s)), s.width);
          });
  }
};

TEST_P(EveryInteger, SumsWrapAround) {
  Binary("add", [](Wide a, Wide b) { return a + b; });
  Binary("sub", [](Wide a, Wide b) { return a - b; });
}

TEST_P(EveryInteger, ProductsHaveALowAndAHighHalf) {
  const int width = GetParam().width;
  Binary("mul.lo", [](Wide a, Wide b) {
    return static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
  });
  Binary("mul.hi", [&](Wide a, Wide b) {
    if (width < 64) return (a * b) >> width;
    // 64 x 64 bits of the unsigned type do not fit the signed 128: by halves.
    if (GetParam().is_signed) return (a * b) >> 64;
    const auto product = static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b);
    return static_cast<Wide>(product >> 64);
  });
}

TEST_P(EveryInteger, DivisionTruncatesAndByZeroGivesOnes) {
  Binary("div", [](Wide a, Wide b) { return b == 0 ? Wide{-1} : a / b; });
  Binary("rem", [](Wide a, Wide b) { return b == 0 ? a : a % b; });
}

TEST_P(EveryInteger, MinAndMaxAreOfTheType) {
  Binary("min", [](Wide a, Wide b) { return std::min(a, b); });
  Binary("max", [](Wide a, Wide b) { return std::max(a, b); });
}

TEST_P(EveryInteger, SadAddsTheDistance) {
  const Shape& s = GetParam();
  Check(absl::StrFormat("sad.%s %%d, %%a, %%b, %%c;", TypeName(s.type)), s.width, s.width, s.width,
        s.width, [&](uint64_t a, uint64_t b, uint64_t c) {
          const Wide x = Value(a, s), y = Value(b, s);
          return Low((x > y ? x - y : y - x) + Value(c, s), s.width);
        });
}

TEST_P(EveryInteger, WideProductsAndTheirSums) {
  const Shape& s = GetParam();
  if (s.width == 64) return;
  Check(absl::StrFormat("mul.wide.%s %%d, %%a, %%b;", TypeName(s.type)), 2 * s.width, s.width,
        s.width, 32, [&](uint64_t a, uint64_t b, uint64_t) {
          return Low(Value(a, s) * Value(b, s), 2 * s.width);
        });
  Check(absl::StrFormat("mad.wide.%s %%d, %%a, %%b, %%c;", TypeName(s.type)), 2 * s.width, s.width,
        s.width, 2 * s.width, [&](uint64_t a, uint64_t b, uint64_t c) {
          return Low(Value(a, s) * Value(b, s) + Wide{c}, 2 * s.width);
        });
}

TEST_P(EveryInteger, MadAddsToAHalf) {
  const Shape& s = GetParam();
  Check(absl::StrFormat("mad.lo.%s %%d, %%a, %%b, %%c;", TypeName(s.type)), s.width, s.width,
        s.width, s.width, [&](uint64_t a, uint64_t b, uint64_t c) {
          return Low(static_cast<Wide>(a * b) + Wide{c}, s.width);
        });
}

INSTANTIATE_TEST_SUITE_P(Types, EveryInteger, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(TypeName(info.param.type)); });

TEST(IntegerOps, SaturatedSumsStopAtTheEnds) {
  const auto clamp = [](Wide v) { return Low(std::clamp<Wide>(v, INT32_MIN, INT32_MAX), 32); };
  const auto s = [](uint64_t v) { return Wide{SignExtend(v, 32)}; };
  Check("add.sat.s32 %d, %a, %b;", 32, 32, 32, 32,
        [&](uint64_t a, uint64_t b, uint64_t) { return clamp(s(a) + s(b)); });
  Check("sub.sat.s32 %d, %a, %b;", 32, 32, 32, 32,
        [&](uint64_t a, uint64_t b, uint64_t) { return clamp(s(a) - s(b)); });
}

// Two halves with a carry between them are one addition of twice the width.
TEST(IntegerOps, CarriesJoinHalves) {
  Check(
      "{ .reg .b32 l1, h1, l2, h2, l, h;\n"
      "mov.b64 {l1, h1}, %a; mov.b64 {l2, h2}, %b;\n"
      "add.cc.u32 l, l1, l2; addc.u32 h, h1, h2; mov.b64 %d, {l, h}; }",
      64, 64, 64, 32, [](uint64_t a, uint64_t b, uint64_t) { return a + b; });
}
TEST(IntegerOps, BorrowsJoinHalves) {
  Check(
      "{ .reg .b32 l1, h1, l2, h2, l, h;\n"
      "mov.b64 {l1, h1}, %a; mov.b64 {l2, h2}, %b;\n"
      "sub.cc.u32 l, l1, l2; subc.u32 h, h1, h2; mov.b64 %d, {l, h}; }",
      64, 64, 64, 32, [](uint64_t a, uint64_t b, uint64_t) { return a - b; });
}

// The high half of a product and a sum; saturated for s32.
TEST(IntegerOps, MadOfHighHalves) {
  const auto s = [](uint64_t v) { return Wide{SignExtend(v, 32)}; };
  Check("mad.hi.s32 %d, %a, %b, %c;", 32, 32, 32, 32,
        [&](uint64_t a, uint64_t b, uint64_t c) { return Low((s(a) * s(b) >> 32) + s(c), 32); });
  Check("mad.hi.sat.s32 %d, %a, %b, %c;", 32, 32, 32, 32, [&](uint64_t a, uint64_t b, uint64_t c) {
    return Low(std::clamp<Wide>((s(a) * s(b) >> 32) + s(c), INT32_MIN, INT32_MAX), 32);
  });
  Check("mad.hi.u64 %d, %a, %b, %c;", 64, 64, 64, 64, [](uint64_t a, uint64_t b, uint64_t c) {
    return Low(static_cast<Wide>(static_cast<unsigned __int128>(a) * b >> 64) + c, 64);
  });
}

// A product of 64 bits from products of 32: mad.lo.cc and madc.hi.
TEST(IntegerOps, MadCarries) {
  Check(
      "{ .reg .b32 la, ha, lb, hb, l, h;\n"
      "mov.b64 {la, ha}, %a; mov.b64 {lb, hb}, %b;\n"
      "mul.lo.u32 l, la, lb; mul.hi.u32 h, la, lb;\n"
      "mad.lo.u32 h, la, hb, h; mad.lo.u32 h, ha, lb, h; mov.b64 %d, {l, h};\n"
      "mov.b64 {l, h}, %c; mad.lo.cc.u32 l, la, lb, l; madc.hi.u32 h, la, lb, h;\n"
      "mad.lo.u32 h, la, hb, h; mad.lo.u32 h, ha, lb, h; mov.b64 %d, {l, h}; }",
      64, 64, 64, 64, [](uint64_t a, uint64_t b, uint64_t c) { return a * b + c; });
}

TEST(IntegerOps, Mul24TakesTheLow24Bits) {
  const auto unsigned24 = [](uint64_t v) { return Wide{v & 0xffffff}; };
  const auto signed24 = [](uint64_t v) { return Wide{SignExtend(v & 0xffffff, 24)}; };
  Check("mul24.lo.u32 %d, %a, %b;", 32, 32, 32, 32,
        [&](uint64_t a, uint64_t b, uint64_t) { return Low(unsigned24(a) * unsigned24(b), 32); });
  Check("mul24.hi.u32 %d, %a, %b;", 32, 32, 32, 32, [&](uint64_t a, uint64_t b, uint64_t) {
    return Low(unsigned24(a) * unsigned24(b) >> 16, 32);
  });
  Check("mul24.lo.s32 %d, %a, %b;", 32, 32, 32, 32,
        [&](uint64_t a, uint64_t b, uint64_t) { return Low(signed24(a) * signed24(b), 32); });
  Check("mul24.hi.s32 %d, %a, %b;", 32, 32, 32, 32,
        [&](uint64_t a, uint64_t b, uint64_t) { return Low(signed24(a) * signed24(b) >> 16, 32); });
}

TEST(IntegerOps, SignsAndZeros) {
  for (int width : {16, 32, 64}) {
    Check(absl::StrFormat("abs.s%d %%d, %%a;", width), width, width, 32, 32,
          [&](uint64_t a, uint64_t, uint64_t) {
            const Wide value = SignExtend(a, width);
            return Low(value < 0 ? -value : value, width);
          });
    Check(absl::StrFormat("neg.s%d %%d, %%a;", width), width, width, 32, 32,
          [&](uint64_t a, uint64_t, uint64_t) { return Low(-Wide{SignExtend(a, width)}, width); });
    Check(absl::StrFormat("cnot.b%d %%d, %%a;", width), width, width, 32, 32,
          [](uint64_t a, uint64_t, uint64_t) { return uint64_t{a == 0}; });
  }
}

TEST(IntegerOps, LogicIsBitwise) {
  for (int width : {16, 32, 64}) {
    const auto text = [&](std::string_view op) {
      return absl::StrFormat("%s.b%d %%d, %%a, %%b;", op, width);
    };
    Check(text("and"), width, width, width, 32,
          [](uint64_t a, uint64_t b, uint64_t) { return a & b; });
    Check(text("or"), width, width, width, 32,
          [](uint64_t a, uint64_t b, uint64_t) { return a | b; });
    Check(text("xor"), width, width, width, 32,
          [](uint64_t a, uint64_t b, uint64_t) { return a ^ b; });
    Check(absl::StrFormat("not.b%d %%d, %%a;", width), width, width, 32, 32,
          [&](uint64_t a, uint64_t, uint64_t) { return Low(~a, width); });
  }
}

TEST(IntegerOps, Lop3LooksUpEachBit) {
  for (int table : {0x00, 0x96, 0xe8, 0xca, 0xff, 0x1b}) {
    Check(absl::StrFormat("lop3.b32 %%d, %%a, %%b, %%c, %d;", table), 32, 32, 32, 32,
          [&](uint64_t a, uint64_t b, uint64_t c) {
            uint64_t result = 0;
            for (int bit = 0; bit < 32; ++bit) {
              const auto at = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
              result |= uint64_t{static_cast<unsigned>(table) >> at & 1} << bit;
            }
            return result;
          });
  }
}

TEST(IntegerOps, ShiftsBeyondTheWidthShiftEverythingOut) {
  for (int width : {16, 32, 64}) {
    const auto limit = static_cast<uint64_t>(width);
    Check(absl::StrFormat("shl.b%d %%d, %%a, %%b;", width), width, width, 32, 32,
          [&](uint64_t a, uint64_t b, uint64_t) {
            return b >= limit ? 0 : Low(Wide{a} << b, width);
          });
    Check(absl::StrFormat("shr.u%d %%d, %%a, %%b;", width), width, width, 32, 32,
          [&](uint64_t a, uint64_t b, uint64_t) { return b >= limit ? 0 : a >> b; });
    Check(absl::StrFormat("shr.s%d %%d, %%a, %%b;", width), width, width, 32, 32,
          [&](uint64_t a, uint64_t b, uint64_t) {
            return Low(SignExtend(a, width) >> std::min(b, limit - 1), width);
          });
  }
}

TEST(IntegerOps, FunnelShiftsWrapOrClamp) {
  const auto both = [](uint64_t a, uint64_t b) { return b << 32 | a; };
  Check("shf.l.wrap.b32 %d, %a, %b, %c;", 32, 32, 32, 32, [&](uint64_t a, uint64_t b, uint64_t c) {
    return Low(Wide{both(a, b)} << (c % 32) >> 32, 32);
  });
  Check("shf.r.wrap.b32 %d, %a, %b, %c;", 32, 32, 32, 32,
        [&](uint64_t a, uint64_t b, uint64_t c) { return Low(both(a, b) >> (c % 32), 32); });
  Check("shf.l.clamp.b32 %d, %a, %b, %c;", 32, 32, 32, 32, [&](uint64_t a, uint64_t b, uint64_t c) {
    return Low(Wide{both(a, b)} << std::min<uint64_t>(c, 32) >> 32, 32);
  });
}

TEST(IntegerOps, BitFieldsAreTakenAndPutBitByBit) {
  for (int width : {32, 64}) {
    const auto bits = static_cast<uint64_t>(width);
    Check(absl::StrFormat("bfe.u%d %%d, %%a, %%b, %%c;", width), width, width, 32, 32,
          [&](uint64_t a, uint64_t b, uint64_t c) {
            uint64_t result = 0;
            for (uint64_t i = 0; i < (c & 255) && (b & 255) + i < bits; ++i) {
              result |= (a >> ((b & 255) + i) & 1) << i;
            }
            return result;
          });
    Check(absl::StrFormat("bfe.s%d %%d, %%a, %%b, %%c;", width), width, width, 32, 32,
          [&](uint64_t a, uint64_t b, uint64_t c) {
            const uint64_t at = b & 255, length = c & 255;
            if (length == 0) return uint64_t{0};
            const uint64_t sign = a >> std::min(at + length - 1, bits - 1) & 1;
            uint64_t result = 0;
            for (uint64_t i = 0; i < bits; ++i) {
              const bool is_field = i < length && at + i < bits;
              result |= (is_field ? a >> (at + i) & 1 : sign) << i;
            }
            return result;
          });
  }
}

// bfi d, a, b, position, length: bit by bit; the position and length are c's two bytes here.
TEST(IntegerOps, BitFieldsArePut) {
  for (int width : {32, 64}) {
    const auto bits = static_cast<uint64_t>(width);
    Check(absl::StrFormat("{ .reg .b32 at, count; and.b32 at, %%c, 127; shr.u32 count, %%c, 8;\n"
                          "and.b32 count, count, 127; bfi.b%d %%d, %%a, %%b, at, count; }",
                          width),
          width, width, width, 32, [&](uint64_t a, uint64_t b, uint64_t c) {
            const uint64_t at = c & 127, count = c >> 8 & 127;
            uint64_t result = b;
            for (uint64_t i = 0; i < count && at + i < bits; ++i) {
              result &= ~(uint64_t{1} << (at + i));
              result |= (a >> i & 1) << (at + i);
            }
            return result;
          });
  }
}

TEST(IntegerOps, BitsAreCountedAndFound) {
  Check("popc.b32 %d, %a;", 32, 32, 32, 32, [](uint64_t a, uint64_t, uint64_t) {
    uint64_t count = 0;
    for (; a != 0; a >>= 1) count += a & 1;
    return count;
  });
  Check("clz.b64 %d, %a;", 32, 64, 32, 32, [](uint64_t a, uint64_t, uint64_t) {
    uint64_t count = 0;
    while (count < 64 && (a >> (63 - count) & 1) == 0) ++count;
    return count;
  });
  Check("brev.b32 %d, %a;", 32, 32, 32, 32, [](uint64_t a, uint64_t, uint64_t) {
    uint64_t result = 0;
    for (int i = 0; i < 32; ++i) result |= (a >> i & 1) << (31 - i);
    return result;
  });
  Check("bfind.u32 %d, %a;", 32, 32, 32, 32, [](uint64_t a, uint64_t, uint64_t) {
    for (int i = 31; i >= 0; --i) {
      if ((a >> i & 1) != 0) return static_cast<uint64_t>(i);
    }
    return uint64_t{0xffffffff};
  });
  Check("bfind.shiftamt.s32 %d, %a;", 32, 32, 32, 32, [](uint64_t a, uint64_t, uint64_t) {
    const uint64_t sign = a >> 31 & 1;
    for (int i = 31; i >= 0; --i) {
      if ((a >> i & 1) != sign) return static_cast<uint64_t>(31 - i);
    }
    return uint64_t{0xffffffff};
  });
}

TEST(IntegerOps, FunnelShiftsToTheRightClamp) {
  Check("shf.r.clamp.b32 %d, %a, %b, %c;", 32, 32, 32, 32, [](uint64_t a, uint64_t b, uint64_t c) {
    return Low(Wide{b << 32 | a} >> std::min<uint64_t>(c, 32), 32);
  });
}

// Modes stand for selectors: bytes of b:a from c on, backwards, one four times, clamped, halves.
TEST(IntegerOps, PrmtHasModes) {
  const auto bytes = [](uint64_t both, int b0, int b1, int b2, int b3) {
    const auto byte = [&](int i) { return both >> (8 * (i & 7)) & 255; };
    return byte(b0) | byte(b1) << 8 | byte(b2) << 16 | byte(b3) << 24;
  };
  struct ModeCase {
    const char* name;
    std::function<uint64_t(uint64_t, int)> expected;
  };
  const ModeCase kModes[] = {
      {"f4e", [&](uint64_t v, int c) { return bytes(v, c, c + 1, c + 2, c + 3); }},
      {"b4e", [&](uint64_t v, int c) { return bytes(v, c, c - 1, c - 2, c - 3); }},
      {"rc8", [&](uint64_t v, int c) { return bytes(v, c, c, c, c); }},
      {"ecl",
       [&](uint64_t v, int c) {
         return bytes(v, std::max(0, c), std::max(1, c), std::max(2, c), std::max(3, c));
       }},
      {"ecr",
       [&](uint64_t v, int c) {
         return bytes(v, std::min(0, c), std::min(1, c), std::min(2, c), std::min(3, c));
       }},
      {"rc16",
       [&](uint64_t v, int c) {
         const int half = c % 2 * 2;
         return bytes(v, half, half + 1, half, half + 1);
       }},
  };
  for (const ModeCase& mode : kModes) {
    Check(absl::StrFormat("prmt.b32.%s %%d, %%a, %%b, %%c;", mode.name), 32, 32, 32, 32,
          [&](uint64_t a, uint64_t b, uint64_t c) {
            return mode.expected(b << 32 | a, static_cast<int>(c & 3));
          });
  }
}

// Lanes outside the mask keep what they had.
TEST(IntegerOps, OtherLanesAreLeftAlone) {
  Lanes before;
  before.fill(99);
  auto result =
      RunLines("add.s32 %d, %a, 1;", {{"d", Type::kB32, before}, {"a", Type::kB32, Repeat({5})}},
               {.mask = 0x0000ff00});
  for (int lane = 0; lane < kLanes; ++lane) {
    EXPECT_EQ(result["d"][static_cast<size_t>(lane)], lane >= 8 && lane < 16 ? 6u : 99u);
  }
}

// Bytes of b:a, chosen by the nibbles of c; the top bit of a nibble spreads the byte's sign.
TEST(IntegerOps, PrmtPicksBytes) {
  Check("prmt.b32 %d, %a, %b, %c;", 32, 32, 32, 32, [](uint64_t a, uint64_t b, uint64_t c) {
    uint64_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const uint64_t pick = c >> (4 * i) & 15;
      const uint64_t from = (pick & 7) < 4 ? a >> (8 * (pick & 3)) : b >> (8 * (pick & 3));
      uint64_t byte = from & 255;
      if (pick >= 8) byte = byte >= 128 ? 255 : 0;
      result |= byte << (8 * i);
    }
    return result;
  });
}

}  // namespace
}  // namespace duotone::emulator
