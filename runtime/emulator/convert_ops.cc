// cvt: between all types, with all rounding modes (PTX ISA 8.5, 9.7.9.21).
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

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
  if (!IsFloat(to) && !IsFloat(from) && !in.sat) {
    const int unused = 64 - 8 * TypeBytes(from);
    return IsSigned(from) ? static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused)
                          : bits;
  }
  Exact value = ValueOf(bits, from);
  if (in.ftz && from == Type::kF32) value = Flush(value, FormatOf(from));
  if (IsFloat(to)) return ToFloat(value, in, to);
  if (IsFloat(from)) return ToInteger(RoundToInteger(value, in.rounding), to, from);
  return ToInteger(value, to, from);
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

// ---- The frequent ones

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
template <typename D, typename A>
struct Plain {
  static D Of(A a) { return static_cast<D>(a); }
};

float Canonical(float value) { return value == value ? value : std::bit_cast<float>(0x7fffffffu); }
double Canonical(double value) {
  return value == value ? value : std::bit_cast<double>(uint64_t{0x7fffffffffffffff});
}
float FlushedIf(bool ftz, float value) { return ftz ? Flushed(value) : value; }
double FlushedIf(bool, double value) { return value; }

// From f32 or f64 to one of these, to nearest; .ftz concerns f32 only.
template <typename D, typename A, bool kFtz, bool kSat>
struct ToNearest {
  static D Of(A a) {
    const D value = FlushedIf(kFtz, static_cast<D>(FlushedIf(kFtz, a)));
    if (kSat) return value > 0 ? (value < 1 ? value : D{1}) : D{0};
    return Canonical(value);
  }
};
template <typename D, typename A>
Handler FindToNearest(const Instruction& in) {
  if (in.ftz)
    return in.sat ? Unary<D, A, ToNearest<D, A, true, true>>
                  : Unary<D, A, ToNearest<D, A, true, false>>;
  return in.sat ? Unary<D, A, ToNearest<D, A, false, true>>
                : Unary<D, A, ToNearest<D, A, false, false>>;
}

// To integers, as floats. The host rounds to nearest here.
struct ToNearestInteger {
  template <typename A>
  static A Of(A a) {
    return std::rint(a);
  }
};
struct TowardsZero {
  template <typename A>
  static A Of(A a) {
    return std::trunc(a);
  }
};
struct Downwards {
  template <typename A>
  static A Of(A a) {
    return std::floor(a);
  }
};
struct Upwards {
  template <typename A>
  static A Of(A a) {
    return std::ceil(a);
  }
};
template <typename A, typename R>
struct Integral {
  static A Of(A a) { return Canonical(R::Of(a)); }
};
// Clamped, as ToInteger above.
template <typename D, typename A, typename R, bool kFtz>
struct Clamped {
  static D Of(A a) {
    constexpr D kLowest = std::numeric_limits<D>::min(), kHighest = std::numeric_limits<D>::max();
    constexpr bool kIsWide = sizeof(A) == 8 || sizeof(D) == 8;
    constexpr D kOfNan = kIsWide ? static_cast<D>(D{1} << (8 * sizeof(D) - 1)) : D{0};
    const A value = R::Of(FlushedIf(kFtz, a));
    if (value != value) return kOfNan;
    // The bounds as floats may lie one beyond, and then no number lies between.
    if (value >= static_cast<A>(kHighest)) return kHighest;
    return value <= static_cast<A>(kLowest) ? kLowest : static_cast<D>(value);
  }
};
template <typename D, typename A, typename R>
Handler FindClamped(const Instruction& in) {
  return in.ftz ? Unary<D, A, Clamped<D, A, R, true>> : Unary<D, A, Clamped<D, A, R, false>>;
}
template <typename A, typename R>
Handler FindIntegral(const Instruction& in) {
  switch (in.type) {
    case Type::kU16:
      return FindClamped<uint16_t, A, R>(in);
    case Type::kS16:
      return FindClamped<int16_t, A, R>(in);
    case Type::kU32:
      return FindClamped<uint32_t, A, R>(in);
    case Type::kS32:
      return FindClamped<int32_t, A, R>(in);
    case Type::kU64:
      return FindClamped<uint64_t, A, R>(in);
    case Type::kS64:
      return FindClamped<int64_t, A, R>(in);
    default:
      return in.type == in.source_type && !in.ftz && !in.sat ? Unary<A, A, Integral<A, R>>
                                                             : nullptr;
  }
}
template <typename A>
Handler FindByMode(const Instruction& in) {
  switch (in.rounding) {
    case Rounding::kRni:
      return FindIntegral<A, ToNearestInteger>(in);
    case Rounding::kRzi:
      return FindIntegral<A, TowardsZero>(in);
    case Rounding::kRmi:
      return FindIntegral<A, Downwards>(in);
    case Rounding::kRpi:
      return FindIntegral<A, Upwards>(in);
    default:
      return nullptr;
  }
}

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

template <typename D>
Handler FindFloatOfInteger(Type from) {
  switch (from) {
    case Type::kU32:
      return Unary<D, uint32_t, Plain<D, uint32_t>>;
    case Type::kS32:
      return Unary<D, int32_t, Plain<D, int32_t>>;
    case Type::kU64:
      return Unary<D, uint64_t, Plain<D, uint64_t>>;
    case Type::kS64:
      return Unary<D, int64_t, Plain<D, int64_t>>;
    default:
      return nullptr;
  }
}

// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half.
template <typename H, bool kRelu>
struct PairOf {
  static uint16_t Half(float value) {
    const uint16_t bits = H::Of(value);
    return kRelu && bits >= 0x8000 ? uint16_t{0} : bits;
  }
  static uint32_t Of(float a, float b) { return uint32_t{Half(a)} << 16 | Half(b); }
};
template <typename H>
Handler FindPairOf(bool relu) {
  return relu ? Binary<uint32_t, float, float, PairOf<H, true>>
              : Binary<uint32_t, float, float, PairOf<H, false>>;
}
// The same, rounded in any way.
void ConvertPair(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const float* a = warp.Row<float>(code.row[1]);
  const float* b = warp.Row<float>(code.row[2]);
  ForLanes(warp.Row<uint32_t>(code.row[0]), mask, [&](int lane) {
    return static_cast<uint32_t>(ToFloat(a[lane], in, in.type) << 16 |
                                 ToFloat(b[lane], in, in.type));
  });
}
Handler FindPair(const Instruction& in) {
  if (in.rounding == Rounding::kRz) return ConvertPair;
  if (in.rounding != Rounding::kRn) return nullptr;
  return in.type == Type::kF16x2 ? FindPairOf<SingleToHalf>(in.relu)
                                 : FindPairOf<SingleToBrain>(in.relu);
}

bool IsInteger(Type type) { return type >= Type::kU8 && type <= Type::kS64; }

Handler FindOfIntegers(const Instruction& in) {
  if (in.sat) return nullptr;
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

// From and to f32 and f64: all but directed rounding and some of the flags.
Handler FindOfFloats(const Instruction& in) {
  const bool from_single = in.source_type == Type::kF32;
  const bool to_nearest = in.rounding == Rounding::kNone || in.rounding == Rounding::kRn;
  if (to_nearest && in.type == Type::kF32) {
    return from_single ? FindToNearest<float, float>(in) : FindToNearest<float, double>(in);
  }
  if (to_nearest && in.type == Type::kF64) {
    return from_single ? FindToNearest<double, float>(in) : FindToNearest<double, double>(in);
  }
  return from_single ? FindByMode<float>(in) : FindByMode<double>(in);
}

Handler FindFrequent(const Instruction& in) {
  const Type to = in.type, from = in.source_type;
  // The rows must be as wide as the types.
  if (RowBytes(in.operands[0][0]) != TypeBytes(to) ||
      RowBytes(in.operands[1][0]) != TypeBytes(from)) {
    return nullptr;
  }
  const bool is_plain = !in.sat && !in.ftz && !in.relu;
  if (IsInteger(to) && IsInteger(from)) return FindOfIntegers(in);
  if (from == Type::kF32 && (to == Type::kF16 || to == Type::kBf16)) {
    if (!is_plain || in.rounding != Rounding::kRn) return nullptr;
    return to == Type::kF16 ? Unary<uint16_t, float, SingleToHalf>
                            : Unary<uint16_t, float, SingleToBrain>;
  }
  if (to == Type::kF32 && from == Type::kF16) {
    return is_plain ? Unary<uint32_t, uint16_t, HalfToSingle> : nullptr;
  }
  if (to == Type::kF32 && from == Type::kBf16) {
    return is_plain ? Unary<uint32_t, uint16_t, BrainToSingle> : nullptr;
  }
  if (IsInteger(from) && is_plain && in.rounding == Rounding::kRn) {
    if (to == Type::kF32) return FindFloatOfInteger<float>(from);
    return to == Type::kF64 ? FindFloatOfInteger<double>(from) : nullptr;
  }
  const bool known = to == Type::kF32 || to == Type::kF64 || IsInteger(to);
  return known && (from == Type::kF32 || from == Type::kF64) ? FindOfFloats(in) : nullptr;
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
