// f32 and f64 arithmetic with the rounding modes of PTX, and approximations: PTX ISA 8.5, 9.7.3.
//
// Results with .rn are those of the host's SSE. The other modes of f32 go through f64: the exact
// result is rounded to odd there (runtime/emulator/rounding.h), which keeps on which side of every
// f32 it lies. NaN results are 0x7fffffff; of f64 they keep what the host makes of them.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/emulator/approximate.h"
#include "runtime/emulator/lane_loops.h"
#include "runtime/emulator/rounding.h"

namespace duotone::emulator {
namespace {

// ---- Details of results

float Canonical(float value) { return value == value ? value : std::bit_cast<float>(0x7fffffffu); }
double Canonical(double value) { return value; }

// Instructions of f64 have no .ftz but for approximations.
double Flushed(double value) { return value; }
using ::duotone::emulator::Flushed;

template <typename T>
T Saturated(T value) {
  // Not true for NaN, which becomes 0.
  return value > T{0} ? (value < T{1} ? value : T{1}) : T{0};
}

// Operands flushed, the result flushed, saturated and canonical, as the flags say.
template <typename T, bool kFtz, bool kSat>
struct Finish {
  static T In(T value) { return kFtz ? Flushed(value) : value; }
  static T Out(T value) {
    if constexpr (kFtz) value = Flushed(value);
    if constexpr (kSat) value = Saturated(value);
    return Canonical(value);
  }
};

// ---- Rounding to nearest

struct AddOp {
  template <typename T>
  static T Of(T a, T b) {
    return a + b;
  }
};
struct SubOp {
  template <typename T>
  static T Of(T a, T b) {
    return a - b;
  }
};
struct MulOp {
  template <typename T>
  static T Of(T a, T b) {
    return a * b;
  }
};
struct DivOp {
  template <typename T>
  static T Of(T a, T b) {
    return a / b;
  }
};
// Of two numbers the smaller, -0 before +0; of a number and NaN the number.
struct MinOp {
  template <typename T>
  static T Of(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
};
struct MaxOp {
  template <typename T>
  static T Of(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
  }
};
template <typename F>
struct OrNan {
  template <typename T>
  static T Of(T a, T b) {
    if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
    return F::Of(a, b);
  }
};

template <typename T, typename F, bool kFtz, bool kSat>
void BinaryFloat(Warp& warp, const Code& code, Mask mask) {
  using E = Finish<T, kFtz, kSat>;
  const T* a = warp.Row<T>(code.row[1]);
  const T* b = warp.Row<T>(code.row[2]);
  ForLanes(warp.Row<T>(code.row[0]), mask,
           [=](int lane) { return E::Out(F::template Of<T>(E::In(a[lane]), E::In(b[lane]))); });
}

// ---- fma: the hottest of all

using FmaLanes = void (*)(float* d, const float* a, const float* b, const float* c);

void FmaLanesBaseline(float* d, const float* a, const float* b, const float* c) {
  DUOTONE_LANE_LOOP
  for (int lane = 0; lane < kLanes; ++lane) d[lane] = FusedMultiplyAdd(a[lane], b[lane], c[lane]);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void FmaLanesAvx2(float* d, const float* a, const float* b,
                                                      const float* c) {
  DUOTONE_LANE_LOOP
  for (int lane = 0; lane < kLanes; ++lane) {
    d[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
  }
}
FmaLanes ChooseFma() {
  __builtin_cpu_init();
  const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has ? FmaLanesAvx2 : FmaLanesBaseline;
}
#else
FmaLanes ChooseFma() { return FmaLanesBaseline; }
#endif
const FmaLanes kFmaLanes = ChooseFma();

template <bool kFtz, bool kSat>
void FmaSingle(Warp& warp, const Code& code, Mask mask) {
  using E = Finish<float, kFtz, kSat>;
  const float* a = warp.Row<float>(code.row[1]);
  const float* b = warp.Row<float>(code.row[2]);
  const float* c = warp.Row<float>(code.row[3]);
  float results[kLanes];
  if constexpr (kFtz) {
    float x[kLanes], y[kLanes], z[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      x[lane] = Flushed(a[lane]);
      y[lane] = Flushed(b[lane]);
      z[lane] = Flushed(c[lane]);
    }
    kFmaLanes(results, x, y, z);
  } else {
    kFmaLanes(results, a, b, c);
  }
  ForLanes(warp.Row<float>(code.row[0]), mask, [&](int lane) { return E::Out(results[lane]); });
}

void FmaDouble(Warp& warp, const Code& code, Mask mask) {
  const double* a = warp.Row<double>(code.row[1]);
  const double* b = warp.Row<double>(code.row[2]);
  const double* c = warp.Row<double>(code.row[3]);
  ForLanes(warp.Row<double>(code.row[0]), mask,
           [=](int lane) { return std::fma(a[lane], b[lane], c[lane]); });
}

// ---- Directed rounding

// A value that was rounded to odd, to f32. The nearest f32 is one too far where it lies beyond; a
// step of its bits leads away from zero. Without branches, which would be mispredicted.
float RoundOdd(double value, Rounding rounding) {
  const auto nearest = static_cast<float>(value);
  const double got = nearest;
  const bool to_zero = rounding == Rounding::kRz;
  const bool down = (rounding == Rounding::kRm) | (to_zero & (value > 0));
  const bool up = (rounding == Rounding::kRp) | (to_zero & (value < 0));
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const uint32_t upwards = 1 - 2 * (bits >> 31);
  return std::bit_cast<float>(bits + upwards * (static_cast<uint32_t>(up & (got < value)) -
                                                static_cast<uint32_t>(down & (got > value))));
}

// a / b and sqrt(a) rounded to odd: the remainder says on which side the f64 result is.
double OddQuotient(double a, double b) {
  const double quotient = a / b;
  if (!std::isfinite(quotient) || quotient == 0) return quotient;
  const double rest = std::fma(-quotient, b, a);
  const uint64_t bits = std::bit_cast<uint64_t>(quotient);
  if (rest == 0 || (bits & 1) != 0) return quotient;
  const bool is_larger = (rest > 0) == (b > 0);  // the exact one than the rounded one
  const bool away = is_larger == (quotient > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}
double OddRoot(double a) {
  const double root = std::sqrt(a);
  if (!std::isfinite(root) || root == 0) return root;
  const double rest = std::fma(-root, root, a);
  const uint64_t bits = std::bit_cast<uint64_t>(root);
  if (rest == 0 || (bits & 1) != 0) return root;
  return std::bit_cast<double>(rest > 0 ? bits + 1 : bits - 1);
}

// The exact result in f64, rounded to odd. An exact sum of zero is -0 when rounding down, unless
// both terms are +0.
template <Op kOp>
double OddResult(float a, float b, float c, Rounding rounding) {
  if constexpr (kOp == Op::kDiv) return OddQuotient(a, b);
  if constexpr (kOp == Op::kRcp) return OddQuotient(1.0, a);
  if constexpr (kOp == Op::kSqrt) return OddRoot(a);
  if constexpr (kOp == Op::kMul) return double{a} * double{b};
  const double first = kOp == Op::kFma ? double{a} * double{b} : double{a};
  const double second = kOp == Op::kFma ? double{c} : kOp == Op::kSub ? -double{b} : double{b};
  const double sum = OddSum(first, second);
  const bool cancels = sum == 0 && std::signbit(first) != std::signbit(second);
  return cancels && rounding == Rounding::kRm ? -0.0 : sum;
}

template <Op kOp>
void DirectedSingle(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  // Operands that there are not repeat the last.
  const size_t last = in.operands.size() - 1;
  const float* a = warp.Row<float>(code.row[1]);
  const float* b = warp.Row<float>(code.row[std::min<size_t>(2, last)]);
  const float* c = warp.Row<float>(code.row[std::min<size_t>(3, last)]);
  const bool ftz = in.ftz, sat = in.sat;
  const Rounding rounding = in.rounding;
  const auto flushed = [=](float value) { return ftz ? Flushed(value) : value; };
  ForLanes(warp.Row<float>(code.row[0]), mask, [=](int lane) {
    const double odd =
        OddResult<kOp>(flushed(a[lane]), flushed(b[lane]), flushed(c[lane]), rounding);
    const float result = flushed(RoundOdd(odd, rounding));
    return Canonical(sat ? Saturated(result) : result);
  });
}

int HostRounding(Rounding rounding) {
  switch (rounding) {
    case Rounding::kRz:
      return FE_TOWARDZERO;
    case Rounding::kRm:
      return FE_DOWNWARD;
    case Rounding::kRp:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

// Through volatile variables, so that nothing is computed outside the mode.
double DirectedDoubleOf(Op op, double x, double y, double z) {
  volatile double a = x, b = y, c = z, result = 0;
  switch (op) {
    case Op::kAdd:
      result = a + b;
      break;
    case Op::kSub:
      result = a - b;
      break;
    case Op::kMul:
      result = a * b;
      break;
    case Op::kFma:
    case Op::kMad:
      result = std::fma(a, b, c);
      break;
    case Op::kDiv:
      result = a / b;
      break;
    case Op::kRcp:
      result = 1.0 / a;
      break;
    default:
      result = std::sqrt(a);
  }
  return result;
}

void DirectedDouble(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const auto operands = static_cast<int>(in.operands.size());
  const auto at = [&](int operand, int lane) {
    return operand < operands ? warp.Row<double>(code.row[static_cast<size_t>(operand)])[lane]
                              : 0.0;
  };
  double results[kLanes];
  const int before = std::fegetround();
  std::fesetround(HostRounding(in.rounding));
  for (int lane = 0; lane < kLanes; ++lane) {
    results[lane] = DirectedDoubleOf(in.op, at(1, lane), at(2, lane), at(3, lane));
  }
  std::fesetround(before);
  ForLanes(warp.Row<double>(code.row[0]), mask, [&](int lane) { return results[lane]; });
}

// ---- One operand

struct AbsOp {
  template <typename T>
  static T Of(T a) {
    return std::fabs(a);
  }
};
struct NegOp {
  template <typename T>
  static T Of(T a) {
    return -a;
  }
};
struct RcpOp {
  template <typename T>
  static T Of(T a) {
    return T{1} / a;
  }
};
struct SqrtOp {
  template <typename T>
  static T Of(T a) {
    return std::sqrt(a);
  }
};
template <typename T, typename F, bool kFtz>
void UnaryFloat(Warp& warp, const Code& code, Mask mask) {
  using E = Finish<T, kFtz, false>;
  const T* a = warp.Row<T>(code.row[1]);
  ForLanes(warp.Row<T>(code.row[0]), mask,
           [=](int lane) { return E::Out(F::template Of<T>(E::In(a[lane]))); });
}

// copysign d, a, b: the sign of a, the value of b.
template <typename T>
struct CopySign {
  static T Of(T a, T b) { return std::copysign(b, a); }
};

// ---- Approximations

template <bool kPerturb>
void ApproximateLanes(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const bool has_b = in.op == Op::kDiv;
  const float* a = warp.Row<float>(code.row[1]);
  const float* b = has_b ? warp.Row<float>(code.row[2]) : a;
  const uint64_t seed = warp.block->launch->options->seed;
  float* d = warp.Row<float>(code.row[0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const float x = in.ftz ? Flushed(a[lane]) : a[lane];
    const float y = !has_b ? 0.0f : in.ftz ? Flushed(b[lane]) : b[lane];
    const float value = kPerturb ? Perturbed(in, x, y, seed) : Approximate(in, x, y);
    d[lane] = in.ftz ? Flushed(value) : value;
  }
}

// rcp and rsqrt of f64 with .approx.ftz are computed from the upper half of the bits and give no
// more (PTX ISA 8.5, 9.7.3.14 and 9.7.3.17). Subnormals are flushed.
double FlushedUpperHalf(double value) {
  const double upper = std::bit_cast<double>(std::bit_cast<uint64_t>(value) & 0xffffffff00000000u);
  const bool is_small = std::fabs(upper) < std::numeric_limits<double>::min();
  return is_small ? std::copysign(0.0, upper) : upper;
}
template <bool kRoot>
void ApproximateUpperHalf(Warp& warp, const Code& code, Mask mask) {
  const double* a = warp.Row<double>(code.row[1]);
  ForLanes(warp.Row<double>(code.row[0]), mask, [=](int lane) {
    // The upper half of a NaN may be an infinity.
    if (std::isnan(a[lane])) return std::numeric_limits<double>::quiet_NaN();
    const double x = FlushedUpperHalf(a[lane]);
    return FlushedUpperHalf(kRoot ? 1.0 / std::sqrt(x) : 1.0 / x);
  });
}
// rsqrt.approx.f64 has all bits (9.7.3.16).
void InverseRootDouble(Warp& warp, const Code& code, Mask mask) {
  const double* a = warp.Row<double>(code.row[1]);
  ForLanes(warp.Row<double>(code.row[0]), mask, [=](int lane) {
    return static_cast<double>(1 / std::sqrt(static_cast<Exact>(a[lane])));
  });
}

// ---- The table

template <typename T, typename F>
Handler FindBinary(const Instruction& in) {
  if (in.ftz) return in.sat ? BinaryFloat<T, F, true, true> : BinaryFloat<T, F, true, false>;
  return in.sat ? BinaryFloat<T, F, false, true> : BinaryFloat<T, F, false, false>;
}
template <typename F>
Handler BinaryByType(const Instruction& in) {
  if (in.type == Type::kF64) return BinaryFloat<double, F, false, false>;
  return FindBinary<float, F>(in);
}
template <typename F>
Handler UnaryByType(const Instruction& in) {
  if (in.type == Type::kF64) return UnaryFloat<double, F, false>;
  return in.ftz ? UnaryFloat<float, F, true> : UnaryFloat<float, F, false>;
}
bool IsDirected(const Instruction& in) {
  return in.rounding != Rounding::kNone && in.rounding != Rounding::kRn;
}
template <Op kOp>
Handler FindDirected(const Instruction& in) {
  return in.type == Type::kF64 ? DirectedDouble : DirectedSingle<kOp>;
}
Handler FindFma(const Instruction& in) {
  if (in.type == Type::kF64) return FmaDouble;
  if (in.ftz) return in.sat ? FmaSingle<true, true> : FmaSingle<true, false>;
  return in.sat ? FmaSingle<false, true> : FmaSingle<false, false>;
}
Handler FindApproximate(const Instruction& in, bool perturb) {
  if (in.type == Type::kF64) {
    if (in.op == Op::kRcp) return ApproximateUpperHalf<false>;
    if (in.op != Op::kRsqrt) return nullptr;
    return in.ftz ? ApproximateUpperHalf<true> : InverseRootDouble;
  }
  return perturb ? ApproximateLanes<true> : ApproximateLanes<false>;
}

}  // namespace

Handler FindFloatHandler(const Instruction& in, const HandlerOptions& options) {
  if (in.type != Type::kF32 && in.type != Type::kF64) return nullptr;
  if (in.relu || (in.type == Type::kF64 && (in.sat || (in.ftz && !in.approx)))) return nullptr;
  // div.full is an approximation too, with the same bound.
  if (in.approx || in.full) return FindApproximate(in, options.perturb);
  switch (in.op) {
    case Op::kAdd:
      return IsDirected(in) ? FindDirected<Op::kAdd>(in) : BinaryByType<AddOp>(in);
    case Op::kSub:
      return IsDirected(in) ? FindDirected<Op::kSub>(in) : BinaryByType<SubOp>(in);
    case Op::kMul:
      return IsDirected(in) ? FindDirected<Op::kMul>(in) : BinaryByType<MulOp>(in);
    case Op::kDiv:
      return IsDirected(in) ? FindDirected<Op::kDiv>(in) : BinaryByType<DivOp>(in);
    case Op::kFma:
    case Op::kMad:
      return IsDirected(in) ? FindDirected<Op::kFma>(in) : FindFma(in);
    case Op::kRcp:
      return IsDirected(in) ? FindDirected<Op::kRcp>(in) : UnaryByType<RcpOp>(in);
    case Op::kSqrt:
      return IsDirected(in) ? FindDirected<Op::kSqrt>(in) : UnaryByType<SqrtOp>(in);
    case Op::kMin:
      return in.nan ? BinaryByType<OrNan<MinOp>>(in) : BinaryByType<MinOp>(in);
    case Op::kMax:
      return in.nan ? BinaryByType<OrNan<MaxOp>>(in) : BinaryByType<MaxOp>(in);
    case Op::kAbs:
      return UnaryByType<AbsOp>(in);
    case Op::kNeg:
      return UnaryByType<NegOp>(in);
    case Op::kCopysign:
      return in.type == Type::kF64 ? Binary<double, double, double, CopySign<double>>
                                   : Binary<float, float, float, CopySign<float>>;
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator
