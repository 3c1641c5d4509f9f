// cvt: between all types, with all rounding modes (PTX ISA 8.5, 9.7.9.21).
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/float16.h"
#include "runtime/emulator/lane_loops.h"
#include "runtime/emulator/rounding.h"

namespace duotone::emulator {
namespace {

uint64_t ReadLane(Warp& warp, uint32_t row, int register_bytes, int type_bytes, int lane) {
  uint64_t value = 0;
  std::memcpy(&value, warp.Row<uint8_t>(row) + lane * register_bytes,
              static_cast<size_t>(type_bytes));
  return value;
}

// A result narrower than its register is extended by its sign or zeros.
void WriteLane(Warp& warp, uint32_t row, int register_bytes, Type type, int lane, uint64_t value) {
  const int bits = 8 * TypeBytes(type);
  if (bits < 64) {
    value &= (uint64_t{1} << bits) - 1;
    if (IsSigned(type) && (value >> (bits - 1) & 1) != 0) value |= ~uint64_t{0} << bits;
  }
  std::memcpy(warp.Row<uint8_t>(row) + lane * register_bytes, &value,
              static_cast<size_t>(register_bytes));
}

Exact ValueOf(uint64_t bits, Type type) {
  if (IsFloat(type)) return Decode(bits, FormatOf(type));
  const int width = 8 * TypeBytes(type);
  if (!IsSigned(type)) return static_cast<Exact>(bits);
  return static_cast<Exact>(static_cast<int64_t>(bits << (64 - width)) >> (64 - width));
}

// The bits of a finite or infinite value as an integer of the type: clamped. Of NaN: zero, but for
// f64 and for 64-bit results the number in the middle.
uint64_t ToInteger(Exact value, Type type, Type source) {
  const int width = 8 * TypeBytes(type);
  if (std::isnan(value)) {
    return source == Type::kF64 || width == 64 ? uint64_t{1} << (width - 1) : 0;
  }
  const bool is_signed = IsSigned(type);
  const Exact low = is_signed ? -std::ldexp(1.0L, width - 1) : 0.0L;
  const Exact high = std::ldexp(1.0L, is_signed ? width - 1 : width) - 1;
  const Exact clamped = value < low ? low : value > high ? high : value;
  if (clamped < 0) return static_cast<uint64_t>(static_cast<int64_t>(clamped));
  return static_cast<uint64_t>(clamped);
}

bool IsIntegral(Rounding rounding) {
  return rounding == Rounding::kRni || rounding == Rounding::kRzi || rounding == Rounding::kRmi ||
         rounding == Rounding::kRpi;
}

uint64_t ToFloat(Exact value, const Instruction& in, Type type) {
  const FloatFormat& format = FormatOf(type);
  Exact result = IsIntegral(in.rounding) ? RoundToInteger(value, in.rounding)
                                         : RoundTo(value, format, in.rounding);
  if (in.ftz && type == Type::kF32) result = Flush(result, format);
  // NaN saturates to +0, and .relu keeps it.
  if (in.sat) result = result > 0 ? (result < 1 ? result : 1.0L) : 0.0L;
  if (in.relu && (result < 0 || (result == 0 && std::signbit(result)))) result = 0;
  return Encode(result, format);
}

uint64_t Convert(uint64_t bits, const Instruction& in) {
  const Type to = in.type, from = in.source_type;
  Exact value = ValueOf(bits, from);
  if (in.ftz && from == Type::kF32) value = Flush(value, FormatOf(from));
  if (IsFloat(to)) return ToFloat(value, in, to);
  if (IsFloat(from)) return ToInteger(RoundToInteger(value, in.rounding), to, from);
  return in.sat
             ? ToInteger(value, to, from)
             : static_cast<uint64_t>(value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value))
                                               : static_cast<uint64_t>(value));
}

// Any conversion, lane by lane.
void ConvertAny(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const int to_bytes = RowBytes(in.operands[0][0]);
  const int from_bytes = RowBytes(in.operands[1][0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const uint64_t bits = ReadLane(warp, code.row[1], from_bytes, TypeBytes(in.source_type), lane);
    WriteLane(warp, code.row[0], to_bytes, in.type, lane, Convert(bits, in));
  }
}

// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half.
void ConvertAnyPair(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const float* a = warp.Row<float>(code.row[1]);
  const float* b = warp.Row<float>(code.row[2]);
  ForLanes(warp.Row<uint32_t>(code.row[0]), mask, [&](int lane) {
    return static_cast<uint32_t>(ToFloat(a[lane], in, in.type) << 16 |
                                 ToFloat(b[lane], in, in.type));
  });
}

// ---- The frequent ones

template <typename F>
struct Pair {
  static uint32_t Of(float a, float b) { return uint32_t{F::Of(a)} << 16 | uint32_t{F::Of(b)}; }
};

struct HalfToSingle {
  static uint32_t Of(uint16_t a) {
    const uint32_t bits = std::bit_cast<uint32_t>(ToF32(F16{a}));
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
  }
};
struct BrainToSingle {
  static uint32_t Of(uint16_t a) {
    const uint32_t bits = uint32_t{a} << 16;
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
  }
};
struct SingleToHalf {
  static uint16_t Of(float a) {
    const uint16_t bits = ToF16(a).bits;
    return (bits & 0x7fff) > 0x7c00 ? uint16_t{0x7fff} : bits;
  }
};
struct SingleToBrain {
  static uint16_t Of(float a) {
    const uint16_t bits = ToBF16(a).bits;
    return (bits & 0x7fff) > 0x7f80 ? uint16_t{0x7fff} : bits;
  }
};
// NaN becomes +0.
template <bool kFtz>
struct Saturate {
  static float Of(float value) {
    const float a = kFtz ? Flushed(value) : value;
    return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f;
  }
};
struct SingleToDouble {
  static uint64_t Of(float a) {
    return std::isnan(a) ? 0x7fffffffffffffffu : std::bit_cast<uint64_t>(double{a});
  }
};
struct DoubleToSingle {
  static uint32_t Of(double a) {
    return std::isnan(a) ? 0x7fffffffu : std::bit_cast<uint32_t>(static_cast<float>(a));
  }
};
template <typename D, typename A>
struct Plain {
  static D Of(A a) { return static_cast<D>(a); }
};

// Integers of the same or another width: the value modulo the result's.
template <typename D>
Handler FindIntegerTo(Type from) {
  switch (from) {
    case Type::kU16:
      return Unary<D, uint16_t, Plain<D, uint16_t>>;
    case Type::kS16:
      return Unary<D, int16_t, Plain<D, int16_t>>;
    case Type::kU32:
      return Unary<D, uint32_t, Plain<D, uint32_t>>;
    case Type::kS32:
      return Unary<D, int32_t, Plain<D, int32_t>>;
    case Type::kU64:
    case Type::kS64:
      return Unary<D, uint64_t, Plain<D, uint64_t>>;
    default:
      return nullptr;
  }
}

bool IsInteger(Type type) { return type >= Type::kU8 && type <= Type::kS64; }

// To f32 and f64 and from there.
Handler FindFrequentFloat(const Instruction& in) {
  const bool is_single = in.type == Type::kF32;
  if (is_single && in.source_type == Type::kF32 && in.rounding == Rounding::kNone && in.sat) {
    return in.ftz ? Unary<float, float, Saturate<true>> : Unary<float, float, Saturate<false>>;
  }
  if (in.sat || in.ftz) return nullptr;
  if (is_single && in.source_type == Type::kF64 && in.rounding == Rounding::kRn) {
    return Unary<uint32_t, double, DoubleToSingle>;
  }
  if (in.type == Type::kF64 && in.source_type == Type::kF32 && in.rounding == Rounding::kNone) {
    return Unary<uint64_t, float, SingleToDouble>;
  }
  return nullptr;
}

Handler FindPair(const Instruction& in) {
  if (in.rounding != Rounding::kRn && in.rounding != Rounding::kRz) return nullptr;
  if (in.rounding == Rounding::kRz || in.relu || in.sat || in.ftz) return ConvertAnyPair;
  return in.type == Type::kF16x2 ? Binary<uint32_t, float, float, Pair<SingleToHalf>>
                                 : Binary<uint32_t, float, float, Pair<SingleToBrain>>;
}

Handler FindFrequent(const Instruction& in) {
  if (const Handler found = FindFrequentFloat(in)) return found;
  const bool is_plain = !in.sat && !in.ftz && !in.relu;
  // The rows must be as wide as the types.
  if (!is_plain || RowBytes(in.operands[0][0]) != TypeBytes(in.type) ||
      RowBytes(in.operands[1][0]) != TypeBytes(in.source_type)) {
    return nullptr;
  }
  if (IsInteger(in.type) && IsInteger(in.source_type)) {
    switch (TypeBytes(in.type)) {
      case 2:
        return FindIntegerTo<uint16_t>(in.source_type);
      case 4:
        return FindIntegerTo<uint32_t>(in.source_type);
      case 8:
        return FindIntegerTo<uint64_t>(in.source_type);
      default:
        return nullptr;
    }
  }
  if (in.type == Type::kF32 && in.source_type == Type::kF16) {
    return Unary<uint32_t, uint16_t, HalfToSingle>;
  }
  if (in.type == Type::kF32 && in.source_type == Type::kBf16) {
    return Unary<uint32_t, uint16_t, BrainToSingle>;
  }
  if (in.rounding != Rounding::kRn) return nullptr;
  if (in.source_type == Type::kF32 && in.type == Type::kF16) {
    return Unary<uint16_t, float, SingleToHalf>;
  }
  if (in.source_type == Type::kF32 && in.type == Type::kBf16) {
    return Unary<uint16_t, float, SingleToBrain>;
  }
  if (in.source_type == Type::kS32 && in.type == Type::kF32) {
    return Unary<float, int32_t, Plain<float, int32_t>>;
  }
  if (in.source_type == Type::kU32 && in.type == Type::kF32) {
    return Unary<float, uint32_t, Plain<float, uint32_t>>;
  }
  return nullptr;
}

// Conversions that lose something say how they round.
bool HasItsRounding(const Instruction& in) {
  const bool to_float = IsFloat(in.type), from_float = IsFloat(in.source_type);
  if (!to_float && from_float) return IsIntegral(in.rounding);
  if (to_float && !from_float) {
    return in.rounding != Rounding::kNone && in.rounding != Rounding::kRna &&
           !IsIntegral(in.rounding);
  }
  if (!to_float) return in.rounding == Rounding::kNone;
  const FloatFormat& to = FormatOf(in.type);
  const FloatFormat& from = FormatOf(in.source_type);
  const bool is_exact = to.mantissa >= from.mantissa && to.min_exponent <= from.min_exponent;
  if (is_exact && in.type == in.source_type) {
    return in.rounding == Rounding::kNone || IsIntegral(in.rounding);
  }
  return is_exact ? true : in.rounding != Rounding::kNone && !IsIntegral(in.rounding);
}

}  // namespace

Handler FindConvertHandler(const Instruction& in, const HandlerOptions&) {
  if (in.op != Op::kCvt) return nullptr;
  if (IsPair(in.type)) return FindPair(in);
  if (!HasItsRounding(in)) return nullptr;
  if (const Handler frequent = FindFrequent(in)) return frequent;
  return ConvertAny;
}

}  // namespace duotone::emulator
