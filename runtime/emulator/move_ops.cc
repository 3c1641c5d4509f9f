// mov, selp, setp, set, slct, prmt, testp, logic of predicates, and nanosleep: PTX ISA 8.5, 9.7.6,
// 9.7.7, 9.7.9.
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

// ---- mov

template <typename T>
struct Same {
  static T Of(T a) { return a; }
};

void MovePredicate(Warp& warp, const Code& code, Mask mask) {
  warp.SetPredicate(code.row[0], mask, warp.Predicate(code.row[1]));
}

// mov.b64 {%r1, %r2}, %rd1 and back: the first part is the lowest.
void Unpack(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const size_t parts = in.operands[0].size();
  const size_t whole_bytes = static_cast<size_t>(TypeBytes(in.type));
  const size_t bytes = whole_bytes / parts;
  uint8_t values[kLanes * 8];
  std::memcpy(values, warp.Row<uint8_t>(code.row[parts]), kLanes * whole_bytes);
  for (size_t i = 0; i < parts; ++i) {
    if (code.row[i] == kNoRow) continue;
    uint8_t* d = warp.Row<uint8_t>(code.row[i]);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if ((mask >> lane & 1) != 0) {
        std::memcpy(d + lane * bytes, values + lane * whole_bytes + i * bytes, bytes);
      }
    }
  }
}

void Pack(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const size_t parts = in.operands[1].size();
  const size_t whole_bytes = static_cast<size_t>(TypeBytes(in.type));
  const size_t bytes = whole_bytes / parts;
  uint8_t values[kLanes * 8];
  for (size_t i = 0; i < parts; ++i) {
    const uint8_t* a = warp.Row<uint8_t>(code.row[i + 1]);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      std::memcpy(values + lane * whole_bytes + i * bytes, a + lane * bytes, bytes);
    }
  }
  uint8_t* d = warp.Row<uint8_t>(code.row[0]);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0) {
      std::memcpy(d + lane * whole_bytes, values + lane * whole_bytes, whole_bytes);
    }
  }
}

Handler FindMove(const Instruction& in) {
  if (in.type == Type::kPred) return MovePredicate;
  if (in.operands[0].size() > 1) return in.operands[1].size() > 1 ? nullptr : Unpack;
  if (in.operands[1].size() > 1) return Pack;
  return UnaryByBytes<Same>(TypeBytes(in.type));
}

// ---- Selections

template <typename T>
void Select(Warp& warp, const Code& code, Mask mask) {
  const T* a = warp.Row<T>(code.row[1]);
  const T* b = warp.Row<T>(code.row[2]);
  const Mask p = warp.PredicateOperand(code, 3, 3);
  ForLanes(warp.Row<T>(code.row[0]), mask,
           [=](int lane) { return (p >> lane & 1) != 0 ? a[lane] : b[lane]; });
}

// slct: a where c >= 0, also for -0; b for NaN.
template <typename T, typename S>
void SelectBySign(Warp& warp, const Code& code, Mask mask) {
  const T* a = warp.Row<T>(code.row[1]);
  const T* b = warp.Row<T>(code.row[2]);
  const S* c = warp.Row<S>(code.row[3]);
  // With .ftz a subnormal c is a zero of its sign, which is chosen likewise.
  const bool flush = code.instruction->ftz;
  ForLanes(warp.Row<T>(code.row[0]), mask, [=](int lane) {
    bool chosen = c[lane] >= S{0};
    if constexpr (std::is_floating_point_v<S>) {
      if (flush && std::fabs(c[lane]) < 0x1p-126f) chosen = true;
    }
    return chosen ? a[lane] : b[lane];
  });
}

// ---- Comparisons

enum class Order : uint8_t { kLess, kEqual, kGreater, kUnordered };

bool Holds(Compare compare, Order order) {
  const bool less = order == Order::kLess, equal = order == Order::kEqual,
             greater = order == Order::kGreater, unordered = order == Order::kUnordered;
  switch (compare) {
    case Compare::kEq:
      return equal;
    case Compare::kNe:
      return less || greater;
    case Compare::kLt:
    case Compare::kLo:
      return less;
    case Compare::kLe:
    case Compare::kLs:
      return less || equal;
    case Compare::kGt:
    case Compare::kHi:
      return greater;
    case Compare::kGe:
    case Compare::kHs:
      return greater || equal;
    case Compare::kEqu:
      return equal || unordered;
    case Compare::kNeu:
      return !equal;
    case Compare::kLtu:
      return less || unordered;
    case Compare::kLeu:
      return !greater;
    case Compare::kGtu:
      return greater || unordered;
    case Compare::kGeu:
      return !less;
    case Compare::kNum:
      return !unordered;
    case Compare::kNan:
      return unordered;
    case Compare::kNone:
      break;
  }
  return false;
}

// Which lanes compare true.
template <typename T>
Mask CompareLanes(const T* a, const T* b, Compare compare) {
  Mask less = 0, equal = 0, greater = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    less |= static_cast<Mask>(a[lane] < b[lane]) << lane;
    equal |= static_cast<Mask>(a[lane] == b[lane]) << lane;
    greater |= static_cast<Mask>(a[lane] > b[lane]) << lane;
  }
  Mask result = 0;
  if (Holds(compare, Order::kLess)) result |= less;
  if (Holds(compare, Order::kEqual)) result |= equal;
  if (Holds(compare, Order::kGreater)) result |= greater;
  if (Holds(compare, Order::kUnordered)) result |= ~(less | equal | greater);
  return result;
}

float HalfAt(const uint16_t* row, int index, bool is_bf16) {
  return is_bf16 ? ToF32(BF16{row[index]}) : ToF32(F16{row[index]});
}

// The values of an operand as f32: f16 and bf16, of which pairs have two.
void WidenHalves(const Warp& warp, uint32_t row, Type type, bool flush, int part, float* to) {
  const auto* halves = reinterpret_cast<const uint16_t*>(warp.registers + row);
  const bool is_pair = IsPair(type);
  const bool is_bf16 = type == Type::kBf16 || type == Type::kBf16x2;
  for (int lane = 0; lane < kLanes; ++lane) {
    float value = HalfAt(halves, is_pair ? 2 * lane + part : lane, is_bf16);
    if (flush && !is_bf16 && std::fabs(value) < 0x1p-14f) value = std::copysign(0.0f, value);
    to[lane] = value;
  }
}

// The lanes in which the comparison of operands `first` and the next holds; of pairs the part 0 or
// 1.
Mask Compared(Warp& warp, const Code& code, size_t first, Type type, int part) {
  const uint32_t a = code.row[first], b = code.row[first + 1];
  const Compare compare = code.instruction->compare;
  const bool unsigned_order = compare == Compare::kLo || compare == Compare::kLs ||
                              compare == Compare::kHi || compare == Compare::kHs;
  if (IsFloat(type)) {
    if (type == Type::kF64) {
      return CompareLanes(warp.Row<double>(a), warp.Row<double>(b), compare);
    }
    if (type == Type::kF32 && !code.instruction->ftz) {
      return CompareLanes(warp.Row<float>(a), warp.Row<float>(b), compare);
    }
    float x[kLanes], y[kLanes];
    if (type == Type::kF32) {
      for (int lane = 0; lane < kLanes; ++lane) {
        x[lane] = Flushed(warp.Row<float>(a)[lane]);
        y[lane] = Flushed(warp.Row<float>(b)[lane]);
      }
    } else {
      WidenHalves(warp, a, type, code.instruction->ftz, part, x);
      WidenHalves(warp, b, type, code.instruction->ftz, part, y);
    }
    return CompareLanes(x, y, compare);
  }
  const bool is_signed = IsSigned(type) && !unsigned_order;
  switch (TypeBytes(type)) {
    case 2:
      return is_signed ? CompareLanes(warp.Row<int16_t>(a), warp.Row<int16_t>(b), compare)
                       : CompareLanes(warp.Row<uint16_t>(a), warp.Row<uint16_t>(b), compare);
    case 4:
      return is_signed ? CompareLanes(warp.Row<int32_t>(a), warp.Row<int32_t>(b), compare)
                       : CompareLanes(warp.Row<uint32_t>(a), warp.Row<uint32_t>(b), compare);
    default:
      return is_signed ? CompareLanes(warp.Row<int64_t>(a), warp.Row<int64_t>(b), compare)
                       : CompareLanes(warp.Row<uint64_t>(a), warp.Row<uint64_t>(b), compare);
  }
}

Mask Combined(BoolOp op, Mask a, Mask b) {
  switch (op) {
    case BoolOp::kAnd:
      return a & b;
    case BoolOp::kOr:
      return a | b;
    case BoolOp::kXor:
      return a ^ b;
    case BoolOp::kNone:
      break;
  }
  return a;
}

// setp p|q, a, b{, c}: p is the comparison combined with c, q its opposite likewise. Of pairs p and
// q belong to the two halves.
void SetPredicates(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const bool is_pair = IsPair(in.type);
  const Mask first = Compared(warp, code, 2, in.type, 0);
  const Mask second = is_pair ? Compared(warp, code, 2, in.type, 1) : ~first;
  const Mask c = in.combine == BoolOp::kNone ? 0 : warp.PredicateOperand(code, 4, 4);
  warp.SetPredicate(code.row[0], mask, Combined(in.combine, first, c));
  warp.SetPredicate(code.row[1], mask, Combined(in.combine, second, c));
}

void SetPair(Warp& warp, const Code& code, Mask mask, Mask first, Mask second, uint32_t one) {
  ForLanes(warp.Row<uint32_t>(code.row[0]), mask, [=](int lane) {
    return ((first >> lane & 1) != 0 ? one : 0) | ((second >> lane & 1) != 0 ? one << 16 : 0);
  });
}

// set: all ones or 1.0 where it holds, else 0. Of pairs each half has its own, also in an integer
// (PTX ISA 8.5, 9.7.7.1).
void SetValue(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const Mask c = in.combine == BoolOp::kNone ? 0 : warp.PredicateOperand(code, 3, 3);
  const bool is_pair = in.source_type == Type::kF16x2 || in.source_type == Type::kBf16x2;
  const Mask first = Combined(in.combine, Compared(warp, code, 1, in.source_type, 0), c);
  const Mask second =
      is_pair ? Combined(in.combine, Compared(warp, code, 1, in.source_type, 1), c) : 0;
  constexpr uint16_t kHalfOne = 0x3c00, kBf16One = 0x3f80;
  switch (in.type) {
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
    case Type::kBf16: {
      const uint16_t one = in.type == Type::kF16    ? kHalfOne
                           : in.type == Type::kBf16 ? kBf16One
                                                    : 0xffff;
      ForLanes(warp.Row<uint16_t>(code.row[0]), mask,
               [=](int lane) { return static_cast<uint16_t>((first >> lane & 1) != 0 ? one : 0); });
      break;
    }
    case Type::kF16x2:
      SetPair(warp, code, mask, first, second, kHalfOne);
      break;
    case Type::kBf16x2:
      SetPair(warp, code, mask, first, second, kBf16One);
      break;
    default: {
      if (is_pair) {
        SetPair(warp, code, mask, first, second, 0xffff);
        break;
      }
      const uint32_t yes = in.type == Type::kF32 ? std::bit_cast<uint32_t>(1.0f) : 0xffffffffu;
      ForLanes(warp.Row<uint32_t>(code.row[0]), mask,
               [=](int lane) { return (first >> lane & 1) != 0 ? yes : 0; });
    }
  }
}

// ---- prmt: bytes of b:a, each chosen by four bits of c

uint32_t Permuted(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t chosen = selector >> (4 * i) & 15;
    uint32_t byte = static_cast<uint32_t>(both >> (8 * (chosen & 7))) & 255;
    if ((chosen & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}

// The selector that a mode stands for, by the low two bits of c (PTX ISA 8.5, 9.7.9.7).
uint32_t SelectorOf(Mode mode, uint32_t c) {
  constexpr uint16_t kForward[4] = {0x3210, 0x4321, 0x5432, 0x6543};
  constexpr uint16_t kBackward[4] = {0x5670, 0x6701, 0x7012, 0x0123};
  constexpr uint16_t kReplicate8[4] = {0x0000, 0x1111, 0x2222, 0x3333};
  constexpr uint16_t kClampLeft[4] = {0x3210, 0x3211, 0x3222, 0x3333};
  constexpr uint16_t kClampRight[4] = {0x0000, 0x1110, 0x2210, 0x3210};
  constexpr uint16_t kReplicate16[4] = {0x1010, 0x3232, 0x1010, 0x3232};
  switch (mode) {
    case Mode::kF4e:
      return kForward[c & 3];
    case Mode::kB4e:
      return kBackward[c & 3];
    case Mode::kRc8:
      return kReplicate8[c & 3];
    case Mode::kEcl:
      return kClampLeft[c & 3];
    case Mode::kEcr:
      return kClampRight[c & 3];
    case Mode::kRc16:
      return kReplicate16[c & 3];
    default:
      return c;
  }
}

void Permute(Warp& warp, const Code& code, Mask mask) {
  const Mode mode = code.instruction->mode;
  const uint32_t* a = warp.Row<uint32_t>(code.row[1]);
  const uint32_t* b = warp.Row<uint32_t>(code.row[2]);
  const uint32_t* c = warp.Row<uint32_t>(code.row[3]);
  ForLanes(warp.Row<uint32_t>(code.row[0]), mask,
           [=](int lane) { return Permuted(a[lane], b[lane], SelectorOf(mode, c[lane])); });
}

// ---- testp, predicates

template <typename T>
void TestProperty(Warp& warp, const Code& code, Mask mask) {
  const T* a = warp.Row<T>(code.row[1]);
  const Mode mode = code.instruction->mode;
  const Mask result = LanesWhere([=](int lane) {
    const int kind = std::fpclassify(a[lane]);
    switch (mode) {
      case Mode::kFinite:
        return kind != FP_INFINITE && kind != FP_NAN;
      case Mode::kInfinite:
        return kind == FP_INFINITE;
      case Mode::kNumber:
        return kind != FP_NAN;
      case Mode::kNotANumber:
        return kind == FP_NAN;
      case Mode::kNormal:
        return kind == FP_NORMAL || kind == FP_ZERO;
      default:
        return kind == FP_SUBNORMAL;
    }
  });
  warp.SetPredicate(code.row[0], mask, result);
}

template <BoolOp kOp>
void PredicateLogic(Warp& warp, const Code& code, Mask mask) {
  warp.SetPredicate(
      code.row[0], mask,
      Combined(kOp, warp.PredicateOperand(code, 1, 1), warp.PredicateOperand(code, 2, 2)));
}
void PredicateNot(Warp& warp, const Code& code, Mask mask) {
  warp.SetPredicate(code.row[0], mask, ~warp.PredicateOperand(code, 1, 1));
}

Handler FindSelect(const Instruction& in) {
  switch (TypeBytes(in.type)) {
    case 2:
      return Select<uint16_t>;
    case 4:
      return Select<uint32_t>;
    default:
      return Select<uint64_t>;
  }
}

Handler FindSelectBySign(const Instruction& in) {
  const bool by_float = in.source_type == Type::kF32;
  switch (TypeBytes(in.type)) {
    case 2:
      return by_float ? SelectBySign<uint16_t, float> : SelectBySign<uint16_t, int32_t>;
    case 4:
      return by_float ? SelectBySign<uint32_t, float> : SelectBySign<uint32_t, int32_t>;
    default:
      return by_float ? SelectBySign<uint64_t, float> : SelectBySign<uint64_t, int32_t>;
  }
}

}  // namespace

Handler FindMoveHandler(const Instruction& in, const HandlerOptions&) {
  switch (in.op) {
    case Op::kMov:
      return FindMove(in);
    case Op::kSelp:
      return FindSelect(in);
    case Op::kSlct:
      return FindSelectBySign(in);
    case Op::kSetp:
      return SetPredicates;
    case Op::kSet:
      return SetValue;
    case Op::kPrmt:
      return Permute;
    case Op::kTestp:
      return in.type == Type::kF64 ? TestProperty<double> : TestProperty<float>;
    case Op::kNanosleep:
      return DoNothing;
    case Op::kAnd:
      return in.type == Type::kPred ? PredicateLogic<BoolOp::kAnd> : nullptr;
    case Op::kOr:
      return in.type == Type::kPred ? PredicateLogic<BoolOp::kOr> : nullptr;
    case Op::kXor:
      return in.type == Type::kPred ? PredicateLogic<BoolOp::kXor> : nullptr;
    case Op::kNot:
      return in.type == Type::kPred ? PredicateNot : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator
