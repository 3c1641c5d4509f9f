// f16, bf16, f16x2 and bf16x2 arithmetic: PTX ISA 8.5, 9.7.4.
//
// Every result is rounded once, from the exact value: products of two such numbers fit into an f64,
// and a sum of an f64 and such a number is rounded to odd before it is rounded to 16 bits.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/float16.h"
#include "runtime/emulator/approximate.h"
#include "runtime/emulator/lane_loops.h"
#include "runtime/emulator/rounding.h"

namespace duotone::emulator {
namespace {

// The two formats: their bits as an f32 and, of an f32, the nearest with a canonical NaN.
struct Half {
  static constexpr uint16_t kInfinity = 0x7c00, kOne = 0x3c00;
  static float Widen(uint16_t bits) { return ToF32(F16{bits}); }
  static uint16_t Narrow(float value) { return Canonical(ToF16(value).bits); }
  static uint16_t Canonical(uint16_t bits) { return (bits & 0x7fff) > kInfinity ? 0x7fff : bits; }
};
struct Brain {
  static constexpr uint16_t kInfinity = 0x7f80, kOne = 0x3f80;
  static float Widen(uint16_t bits) { return ToF32(BF16{bits}); }
  static uint16_t Narrow(float value) { return Canonical(ToBF16(value).bits); }
  static uint16_t Canonical(uint16_t bits) { return (bits & 0x7fff) > kInfinity ? 0x7fff : bits; }
};

// What .ftz does to operands and results.
template <typename H>
uint16_t Flushed(uint16_t bits, bool ftz) {
  const auto sign = static_cast<uint16_t>(bits & 0x8000);
  return ftz && (bits & H::kInfinity) == 0 ? sign : bits;
}
// What the flags make of a result. NaN saturates to 0, and .relu keeps it.
template <typename H>
uint16_t Finished(uint16_t bits, bool ftz, bool sat, bool relu) {
  bits = Flushed<H>(bits, ftz);
  const bool negative = bits >= 0x8000, is_nan = bits == 0x7fff;
  if (sat) bits = negative || is_nan ? 0 : std::min(bits, H::kOne);
  return relu && negative ? 0 : bits;
}

// ---- Operations, exact or rounded to odd

struct AddOp {
  static double Of(double a, double b, double) { return OddSum(a, b); }
};
struct SubOp {
  static double Of(double a, double b, double) { return OddSum(a, -b); }
};
struct MulOp {
  static double Of(double a, double b, double) { return a * b; }
};
struct FmaOp {
  static double Of(double a, double b, double c) { return OddSum(a * b, c); }
};
struct AbsOp {
  static double Of(double a, double, double) { return std::fabs(a); }
};
struct NegOp {
  static double Of(double a, double, double) { return -a; }
};
// Of two numbers the smaller, -0 before +0; of a number and NaN the number, or NaN with .NaN.
template <bool kNan>
struct MinOp {
  static double Of(double a, double b, double) {
    if (a != a) return kNan ? a : b;
    if (b != b) return kNan ? b : a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
};
template <bool kNan>
struct MaxOp {
  static double Of(double a, double b, double) { return -MinOp<kNan>::Of(-a, -b, 0); }
};

// ---- Lanes

void Store(uint16_t* d, const uint16_t* results, int parts, Mask mask) {
  const auto bytes = static_cast<size_t>(parts) * sizeof(uint16_t);
  if (mask == kAllLanes) {
    std::memcpy(d, results, kLanes * bytes);
    return;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0) std::memcpy(d + lane * parts, results + lane * parts, bytes);
  }
}

// The numbers of operand rows in their order; pairs are twice as many.
template <typename H, typename F>
void HalfLanes(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const int parts = IsPair(in.type) ? 2 : 1;
  // Operands that there are not repeat the last.
  const size_t last = in.operands.size() - 1;
  const uint16_t* a = warp.Row<uint16_t>(code.row[1]);
  const uint16_t* b = warp.Row<uint16_t>(code.row[std::min<size_t>(2, last)]);
  const uint16_t* c = warp.Row<uint16_t>(code.row[std::min<size_t>(3, last)]);
  const bool ftz = in.ftz, sat = in.sat, relu = in.relu;
  uint16_t results[2 * kLanes];
  DUOTONE_LANE_LOOP
  for (int i = 0; i < parts * kLanes; ++i) {
    const float x = H::Widen(Flushed<H>(a[i], ftz)), y = H::Widen(Flushed<H>(b[i], ftz)),
                z = H::Widen(Flushed<H>(c[i], ftz));
    const uint16_t bits = H::Narrow(OddSingle(F::Of(double{x}, double{y}, double{z})));
    results[i] = Finished<H>(bits, ftz, sat, relu);
  }
  Store(warp.Row<uint16_t>(code.row[0]), results, parts, mask);
}

// ex2 and tanh.
template <typename H, bool kPerturb>
void HalfApproximate(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const int parts = IsPair(in.type) ? 2 : 1;
  const uint64_t seed = warp.block->launch->options->seed;
  const uint16_t* a = warp.Row<uint16_t>(code.row[1]);
  uint16_t results[2 * kLanes];
  for (int i = 0; i < parts * kLanes; ++i) {
    const float x = H::Widen(Flushed<H>(a[i], in.ftz));
    const float result = kPerturb ? Perturbed(in, x, 0, seed) : Approximate(in, x, 0);
    results[i] = Flushed<H>(H::Narrow(result), in.ftz);
  }
  Store(warp.Row<uint16_t>(code.row[0]), results, parts, mask);
}

template <typename H>
Handler FindOf(const Instruction& in, bool perturb) {
  switch (in.op) {
    case Op::kAdd:
      return HalfLanes<H, AddOp>;
    case Op::kSub:
      return HalfLanes<H, SubOp>;
    case Op::kMul:
      return HalfLanes<H, MulOp>;
    case Op::kFma:
      return HalfLanes<H, FmaOp>;
    case Op::kAbs:
      return HalfLanes<H, AbsOp>;
    case Op::kNeg:
      return HalfLanes<H, NegOp>;
    case Op::kMin:
      return in.nan ? HalfLanes<H, MinOp<true>> : HalfLanes<H, MinOp<false>>;
    case Op::kMax:
      return in.nan ? HalfLanes<H, MaxOp<true>> : HalfLanes<H, MaxOp<false>>;
    case Op::kEx2:
    case Op::kTanh:
      return perturb ? HalfApproximate<H, true> : HalfApproximate<H, false>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler FindHalfHandler(const Instruction& in, const HandlerOptions& options) {
  if (in.rounding != Rounding::kNone && in.rounding != Rounding::kRn) return nullptr;
  switch (in.type) {
    case Type::kF16:
    case Type::kF16x2:
      return FindOf<Half>(in, options.perturb);
    case Type::kBf16:
    case Type::kBf16x2:
      return FindOf<Brain>(in, options.perturb);
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator
