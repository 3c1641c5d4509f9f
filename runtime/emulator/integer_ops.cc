// Integer arithmetic, logic, shifts and bit fields: PTX ISA 8.5, 9.7.1, 9.7.2 and 9.7.8.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/emulator/lane_loops.h"

namespace duotone::emulator {
namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
template <typename T>
constexpr int kBits = 8 * static_cast<int>(sizeof(T));
// Products of the type fit; of 64 bits, into the compiler's 128.
template <typename T>
struct WideOf {
  using type = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
};
template <>
struct WideOf<int64_t> {
  using type = __int128;
};
template <>
struct WideOf<uint64_t> {
  using type = unsigned __int128;
};
template <typename T>
using Wide = typename WideOf<T>::type;

// ---- Arithmetic. Sums wrap around, so they are those of the unsigned type.

template <typename T>
struct Add {
  static T Of(T a, T b) { return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b)); }
};
template <typename T>
struct Sub {
  static T Of(T a, T b) { return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b)); }
};
template <typename T>
T Clamp(Wide<T> value) {
  return static_cast<T>(
      std::clamp<Wide<T>>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}
struct AddSaturated {
  static int32_t Of(int32_t a, int32_t b) { return Clamp<int32_t>(int64_t{a} + b); }
};
struct SubSaturated {
  static int32_t Of(int32_t a, int32_t b) { return Clamp<int32_t>(int64_t{a} - b); }
};
template <typename T>
struct MulLo {
  static T Of(T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(Unsigned<T>(a)) * Unsigned<T>(b));
  }
};
template <typename T>
struct MulHi {
  static T Of(T a, T b) { return static_cast<T>(Wide<T>(a) * Wide<T>(b) >> kBits<T>); }
};
template <typename D, typename T>
struct MulWide {
  static D Of(T a, T b) { return static_cast<D>(Wide<T>(a) * Wide<T>(b)); }
};
template <typename D, typename T, typename Product>
struct MulAdd {
  static D Of(T a, T b, D c) { return Add<D>::Of(Product::Of(a, b), c); }
};
struct MadHiSaturated {
  static int32_t Of(int32_t a, int32_t b, int32_t c) {
    return Clamp<int32_t>(int64_t{MulHi<int32_t>::Of(a, b)} + c);
  }
};
// The low 24 bits of the operands, sign- or zero-extended; the low or high 32 of 48 bits.
template <typename T, bool kHigh>
struct Mul24 {
  static T Of(T a, T b) {
    const auto wide = static_cast<Wide<T>>(static_cast<T>(a << 8) >> 8) *
                      static_cast<Wide<T>>(static_cast<T>(b << 8) >> 8);
    return static_cast<T>(kHigh ? wide >> 16 : wide);
  }
};
// Division by zero gives all ones, and the dividend as its remainder, as hardware does; the ISA
// leaves it open. The most negative number divided by -1 is itself.
template <typename T>
struct Div {
  static T Of(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Sub<T>::Of(0, a);
    }
    return static_cast<T>(a / b);
  }
};
template <typename T>
struct Rem {
  static T Of(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
template <typename T>
struct Abs {
  static T Of(T a) { return a < 0 ? Sub<T>::Of(0, a) : a; }
};
template <typename T>
struct Neg {
  static T Of(T a) { return Sub<T>::Of(0, a); }
};
template <typename T>
struct Min {
  static T Of(T a, T b) { return std::min(a, b); }
};
template <typename T>
struct Max {
  static T Of(T a, T b) { return std::max(a, b); }
};
template <typename T>
struct Sad {
  static T Of(T a, T b, T c) { return Add<T>::Of(c, a < b ? Sub<T>::Of(b, a) : Sub<T>::Of(a, b)); }
};

// ---- Carries: bit i of Warp::carry is lane i's condition code

template <typename T>
void AddCarry(Warp& warp, const Code& code, Mask mask) {
  using U = Unsigned<T>;
  const bool takes = code.instruction->op == Op::kAddc;
  const U* a = warp.Row<U>(code.row[1]);
  const U* b = warp.Row<U>(code.row[2]);
  const Mask before = takes ? warp.carry : 0;
  Mask after = 0;
  U sums[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto wide = static_cast<unsigned __int128>(a[lane]) + b[lane] + (before >> lane & 1);
    sums[lane] = static_cast<U>(wide);
    after |= static_cast<Mask>(wide >> kBits<U> & 1) << lane;
  }
  ForLanes(warp.Row<U>(code.row[0]), mask, [&](int lane) { return sums[lane]; });
  if (code.instruction->carry_out) warp.carry = (warp.carry & ~mask) | (after & mask);
}

// The condition code is the borrow, as subc takes it (PTX ISA 8.5, 9.7.2.3).
template <typename T>
void SubCarry(Warp& warp, const Code& code, Mask mask) {
  using U = Unsigned<T>;
  const bool takes = code.instruction->op == Op::kSubc;
  const U* a = warp.Row<U>(code.row[1]);
  const U* b = warp.Row<U>(code.row[2]);
  const Mask before = takes ? warp.carry : 0;
  Mask after = 0;
  U differences[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto wide = static_cast<__int128>(a[lane]) - b[lane] - (before >> lane & 1);
    differences[lane] = static_cast<U>(wide);
    after |= static_cast<Mask>(wide < 0) << lane;
  }
  ForLanes(warp.Row<U>(code.row[0]), mask, [&](int lane) { return differences[lane]; });
  if (code.instruction->carry_out) warp.carry = (warp.carry & ~mask) | (after & mask);
}

template <typename T>
void MadCarry(Warp& warp, const Code& code, Mask mask) {
  using U = Unsigned<T>;
  const bool takes = code.instruction->op == Op::kMadc;
  const bool high = code.instruction->product == Product::kHi;
  const T* a = warp.Row<T>(code.row[1]);
  const T* b = warp.Row<T>(code.row[2]);
  const U* c = warp.Row<U>(code.row[3]);
  const Mask before = takes ? warp.carry : 0;
  Mask after = 0;
  U sums[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const U product =
        static_cast<U>(high ? MulHi<T>::Of(a[lane], b[lane]) : MulLo<T>::Of(a[lane], b[lane]));
    const auto wide = static_cast<unsigned __int128>(product) + c[lane] + (before >> lane & 1);
    sums[lane] = static_cast<U>(wide);
    after |= static_cast<Mask>(wide >> kBits<U> & 1) << lane;
  }
  ForLanes(warp.Row<U>(code.row[0]), mask, [&](int lane) { return sums[lane]; });
  if (code.instruction->carry_out) warp.carry = (warp.carry & ~mask) | (after & mask);
}

// ---- Logic

template <typename T>
struct And {
  static T Of(T a, T b) { return static_cast<T>(a & b); }
};
template <typename T>
struct Or {
  static T Of(T a, T b) { return static_cast<T>(a | b); }
};
template <typename T>
struct Xor {
  static T Of(T a, T b) { return static_cast<T>(a ^ b); }
};
template <typename T>
struct Not {
  static T Of(T a) { return static_cast<T>(~a); }
};
template <typename T>
struct Cnot {
  static T Of(T a) { return a == 0 ? 1 : 0; }
};

// Bit i of the table is the result for bits (a, b, c) that spell i.
void Lop3(Warp& warp, const Code& code, Mask mask) {
  const uint32_t* a = warp.Row<uint32_t>(code.row[1]);
  const uint32_t* b = warp.Row<uint32_t>(code.row[2]);
  const uint32_t* c = warp.Row<uint32_t>(code.row[3]);
  const uint32_t* table = warp.Row<uint32_t>(code.row[4]);
  ForLanes(warp.Row<uint32_t>(code.row[0]), mask, [=](int lane) {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t chosen = 0u - (table[lane] >> i & 1);
      result |= chosen & (i & 4 ? a[lane] : ~a[lane]) & (i & 2 ? b[lane] : ~b[lane]) &
                (i & 1 ? c[lane] : ~c[lane]);
    }
    return result;
  });
}

// ---- Shifts: amounts beyond the width shift everything out

template <typename T>
struct Shl {
  static T Of(T a, uint32_t b) {
    return b >= static_cast<uint32_t>(kBits<T>) ? T{0} : static_cast<T>(Unsigned<T>(a) << b);
  }
};
template <typename T>
struct Shr {
  static T Of(T a, uint32_t b) {
    const uint32_t limit = static_cast<uint32_t>(kBits<T>);
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(a >> std::min(b, limit - 1));
    } else {
      return b >= limit ? T{0} : static_cast<T>(a >> b);
    }
  }
};
// 32 bits of b:a, b above, shifted.
template <bool kLeft, bool kWrap>
struct Funnel {
  static uint32_t Of(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = kWrap ? c & 31 : std::min(c, 32u);
    const uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(kLeft ? both << n >> 32 : both >> n);
  }
};

// ---- Bit fields

template <typename T>
struct Bfe {
  static T Of(T a, uint32_t b, uint32_t c) {
    const uint32_t at = b & 255, length = c & 255;
    constexpr uint32_t kWidth = static_cast<uint32_t>(kBits<T>);
    using U = Unsigned<T>;
    if (length == 0) return 0;
    const uint32_t sign_at = std::min(at + length - 1, kWidth - 1);
    const bool sign = std::is_signed_v<T> && (U(a) >> sign_at & 1) != 0;
    U field = at >= kWidth ? U{0} : static_cast<U>(U(a) >> at);
    const uint32_t have = at >= kWidth ? 0 : std::min(length, kWidth - at);
    if (have >= kWidth) return static_cast<T>(field);
    const U low = static_cast<U>((U{1} << have) - 1);
    return static_cast<T>(sign ? field | static_cast<U>(~low) : field & low);
  }
};
template <typename T>
void Bfi(Warp& warp, const Code& code, Mask mask) {
  const T* a = warp.Row<T>(code.row[1]);
  const T* b = warp.Row<T>(code.row[2]);
  const uint32_t* c = warp.Row<uint32_t>(code.row[3]);
  const uint32_t* d = warp.Row<uint32_t>(code.row[4]);
  ForLanes(warp.Row<T>(code.row[0]), mask, [=](int lane) -> T {
    const uint32_t at = c[lane] & 255, length = d[lane] & 255;
    constexpr uint32_t kWidth = static_cast<uint32_t>(kBits<T>);
    if (at >= kWidth || length == 0) return b[lane];
    const T ones = length >= kWidth ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T field = static_cast<T>(ones << at);
    return static_cast<T>((b[lane] & ~field) | (a[lane] << at & field));
  });
}
// The position of the highest bit that is not the sign's; all ones where there is none.
template <typename T, bool kShift>
struct Bfind {
  static uint32_t Of(T a) {
    const auto bits = static_cast<Unsigned<T>>(std::is_signed_v<T> && a < 0 ? ~a : a);
    if (bits == 0) return 0xffffffffu;
    const int position = kBits<T> - 1 - std::countl_zero(bits);
    return static_cast<uint32_t>(kShift ? kBits<T> - 1 - position : position);
  }
};
template <typename T>
struct Brev {
  static T Of(T a) {
    T result = 0;
    for (int i = 0; i < kBits<T>; ++i) result |= static_cast<T>((a >> i & 1) << (kBits<T> - 1 - i));
    return result;
  }
};
template <typename T>
struct Clz {
  static uint32_t Of(T a) { return static_cast<uint32_t>(std::countl_zero(a)); }
};
template <typename T>
struct Popc {
  static uint32_t Of(T a) { return static_cast<uint32_t>(std::popcount(a)); }
};

// ---- The table: from instructions to handlers

template <typename T, template <typename> class F>
Handler Of2() {
  return Binary<T, T, T, F<T>>;
}
// By type, for operations on all integers.
template <template <typename> class F>
Handler ByInteger(Type type) {
  switch (type) {
    case Type::kU16:
      return Of2<uint16_t, F>();
    case Type::kS16:
      return Of2<int16_t, F>();
    case Type::kU32:
      return Of2<uint32_t, F>();
    case Type::kS32:
      return Of2<int32_t, F>();
    case Type::kU64:
      return Of2<uint64_t, F>();
    case Type::kS64:
      return Of2<int64_t, F>();
    default:
      return nullptr;
  }
}
template <template <typename> class F>
Handler ByBits(Type type) {
  switch (TypeBytes(type)) {
    case 2:
      return Of2<uint16_t, F>();
    case 4:
      return Of2<uint32_t, F>();
    case 8:
      return Of2<uint64_t, F>();
    default:
      return nullptr;
  }
}
template <template <typename> class F>
Handler UnaryBySigned(Type type) {
  switch (type) {
    case Type::kS16:
      return Unary<int16_t, int16_t, F<int16_t>>;
    case Type::kS32:
      return Unary<int32_t, int32_t, F<int32_t>>;
    case Type::kS64:
      return Unary<int64_t, int64_t, F<int64_t>>;
    default:
      return nullptr;
  }
}
template <template <typename> class F>
Handler CountBits(Type type) {
  return TypeBytes(type) == 8 ? Unary<uint32_t, uint64_t, F<uint64_t>>
                              : Unary<uint32_t, uint32_t, F<uint32_t>>;
}

template <typename T>
Handler FindCarryFor(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kAddc:
      return AddCarry<T>;
    case Op::kSub:
    case Op::kSubc:
      return SubCarry<T>;
    default:
      return MadCarry<T>;
  }
}
Handler FindCarry(const Instruction& in) {
  switch (in.type) {
    case Type::kU32:
      return FindCarryFor<uint32_t>(in.op);
    case Type::kS32:
      return FindCarryFor<int32_t>(in.op);
    case Type::kU64:
      return FindCarryFor<uint64_t>(in.op);
    case Type::kS64:
      return FindCarryFor<int64_t>(in.op);
    default:
      return nullptr;
  }
}

template <typename D, typename T>
Handler FindMulWide() {
  return Binary<D, T, T, MulWide<D, T>>;
}
Handler FindMul(const Instruction& in) {
  if (in.product == Product::kLo) return ByInteger<MulLo>(in.type);
  if (in.product == Product::kHi) return ByInteger<MulHi>(in.type);
  switch (in.type) {
    case Type::kU16:
      return FindMulWide<uint32_t, uint16_t>();
    case Type::kS16:
      return FindMulWide<int32_t, int16_t>();
    case Type::kU32:
      return FindMulWide<uint64_t, uint32_t>();
    case Type::kS32:
      return FindMulWide<int64_t, int32_t>();
    default:
      return nullptr;
  }
}

template <typename T>
Handler FindMadOf(Product product) {
  if (product == Product::kLo) return Ternary<T, T, T, T, MulAdd<T, T, MulLo<T>>>;
  return Ternary<T, T, T, T, MulAdd<T, T, MulHi<T>>>;
}
template <typename D, typename T>
Handler FindMadNarrow(Product product) {
  if (product == Product::kWide) return Ternary<D, T, T, D, MulAdd<D, T, MulWide<D, T>>>;
  return FindMadOf<T>(product);
}
Handler FindMad(const Instruction& in) {
  if (in.sat) {
    const bool is_known = in.product == Product::kHi && in.type == Type::kS32;
    return is_known ? Ternary<int32_t, int32_t, int32_t, int32_t, MadHiSaturated> : nullptr;
  }
  switch (in.type) {
    case Type::kU16:
      return FindMadNarrow<uint32_t, uint16_t>(in.product);
    case Type::kS16:
      return FindMadNarrow<int32_t, int16_t>(in.product);
    case Type::kU32:
      return FindMadNarrow<uint64_t, uint32_t>(in.product);
    case Type::kS32:
      return FindMadNarrow<int64_t, int32_t>(in.product);
    case Type::kU64:
      return FindMadOf<uint64_t>(in.product);
    case Type::kS64:
      return FindMadOf<int64_t>(in.product);
    default:
      return nullptr;
  }
}

Handler FindMul24(const Instruction& in) {
  const bool high = in.product == Product::kHi;
  if (in.type == Type::kU32) {
    return high ? Binary<uint32_t, uint32_t, uint32_t, Mul24<uint32_t, true>>
                : Binary<uint32_t, uint32_t, uint32_t, Mul24<uint32_t, false>>;
  }
  return high ? Binary<int32_t, int32_t, int32_t, Mul24<int32_t, true>>
              : Binary<int32_t, int32_t, int32_t, Mul24<int32_t, false>>;
}

template <typename T>
Handler SadOf() {
  return Ternary<T, T, T, T, Sad<T>>;
}
Handler FindSad(Type type) {
  switch (type) {
    case Type::kU16:
      return SadOf<uint16_t>();
    case Type::kS16:
      return SadOf<int16_t>();
    case Type::kU32:
      return SadOf<uint32_t>();
    case Type::kS32:
      return SadOf<int32_t>();
    case Type::kU64:
      return SadOf<uint64_t>();
    default:
      return SadOf<int64_t>();
  }
}

template <typename T, template <typename> class F>
Handler ShiftOf() {
  return Binary<T, T, uint32_t, F<T>>;
}
Handler FindShift(const Instruction& in) {
  if (in.op == Op::kShl) {
    switch (TypeBytes(in.type)) {
      case 2:
        return ShiftOf<uint16_t, Shl>();
      case 4:
        return ShiftOf<uint32_t, Shl>();
      default:
        return ShiftOf<uint64_t, Shl>();
    }
  }
  const bool is_signed = IsSigned(in.type);
  switch (TypeBytes(in.type)) {
    case 2:
      return is_signed ? ShiftOf<int16_t, Shr>() : ShiftOf<uint16_t, Shr>();
    case 4:
      return is_signed ? ShiftOf<int32_t, Shr>() : ShiftOf<uint32_t, Shr>();
    default:
      return is_signed ? ShiftOf<int64_t, Shr>() : ShiftOf<uint64_t, Shr>();
  }
}

template <bool kLeft, bool kWrap>
Handler FunnelOf() {
  return Ternary<uint32_t, uint32_t, uint32_t, uint32_t, Funnel<kLeft, kWrap>>;
}
Handler FindFunnel(const Instruction& in) {
  if (in.mode == Mode::kL) return in.wrap ? FunnelOf<true, true>() : FunnelOf<true, false>();
  return in.wrap ? FunnelOf<false, true>() : FunnelOf<false, false>();
}

template <typename T>
Handler BfeOf() {
  return Ternary<T, T, uint32_t, uint32_t, Bfe<T>>;
}
Handler FindBfe(Type type) {
  switch (type) {
    case Type::kU32:
      return BfeOf<uint32_t>();
    case Type::kS32:
      return BfeOf<int32_t>();
    case Type::kU64:
      return BfeOf<uint64_t>();
    default:
      return BfeOf<int64_t>();
  }
}

template <typename T>
Handler BfindOf(bool shift) {
  return shift ? Unary<uint32_t, T, Bfind<T, true>> : Unary<uint32_t, T, Bfind<T, false>>;
}
Handler FindBfind(const Instruction& in) {
  switch (in.type) {
    case Type::kU32:
      return BfindOf<uint32_t>(in.shiftamt);
    case Type::kS32:
      return BfindOf<int32_t>(in.shiftamt);
    case Type::kU64:
      return BfindOf<uint64_t>(in.shiftamt);
    default:
      return BfindOf<int64_t>(in.shiftamt);
  }
}

Handler FindSum(const Instruction& in) {
  const bool is_add = in.op == Op::kAdd;
  if (in.carry_out) return FindCarry(in);
  if (in.sat) {
    if (in.type != Type::kS32) return nullptr;
    return is_add ? Binary<int32_t, int32_t, int32_t, AddSaturated>
                  : Binary<int32_t, int32_t, int32_t, SubSaturated>;
  }
  return is_add ? ByInteger<Add>(in.type) : ByInteger<Sub>(in.type);
}

}  // namespace

Handler FindIntegerHandler(const Instruction& in, const HandlerOptions&) {
  if (IsFloat(in.type) || in.type == Type::kPred) return nullptr;
  switch (in.op) {
    case Op::kAdd:
    case Op::kSub:
      return FindSum(in);
    case Op::kAddc:
    case Op::kSubc:
    case Op::kMadc:
      return FindCarry(in);
    case Op::kMul:
      return FindMul(in);
    case Op::kMad:
      return in.carry_out ? FindCarry(in) : FindMad(in);
    case Op::kMul24:
      return FindMul24(in);
    case Op::kDiv:
      return ByInteger<Div>(in.type);
    case Op::kRem:
      return ByInteger<Rem>(in.type);
    case Op::kAbs:
      return UnaryBySigned<Abs>(in.type);
    case Op::kNeg:
      return UnaryBySigned<Neg>(in.type);
    case Op::kMin:
      return ByInteger<Min>(in.type);
    case Op::kMax:
      return ByInteger<Max>(in.type);
    case Op::kSad:
      return FindSad(in.type);
    case Op::kAnd:
      return ByBits<And>(in.type);
    case Op::kOr:
      return ByBits<Or>(in.type);
    case Op::kXor:
      return ByBits<Xor>(in.type);
    case Op::kNot:
      return UnaryByBytes<Not>(TypeBytes(in.type));
    case Op::kCnot:
      return UnaryByBytes<Cnot>(TypeBytes(in.type));
    case Op::kLop3:
      return Lop3;
    case Op::kShl:
    case Op::kShr:
      return FindShift(in);
    case Op::kShf:
      return FindFunnel(in);
    case Op::kBfe:
      return FindBfe(in.type);
    case Op::kBfi:
      return TypeBytes(in.type) == 8 ? Bfi<uint64_t> : Bfi<uint32_t>;
    case Op::kBfind:
      return FindBfind(in);
    case Op::kBrev:
      return TypeBytes(in.type) == 8 ? Unary<uint64_t, uint64_t, Brev<uint64_t>>
                                     : Unary<uint32_t, uint32_t, Brev<uint32_t>>;
    case Op::kClz:
      return CountBits<Clz>(in.type);
    case Op::kPopc:
      return CountBits<Popc>(in.type);
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator
