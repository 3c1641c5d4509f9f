// f16, bf16, f16x2 and bf16x2 arithmetic: PTX ISA 8.5, 9.7.4.
//
// Every result is rounded once, from the exact value: products of two such numbers fit into an f64,
// and a sum of an f64 and such a number is rounded to odd before it is rounded to 16 bits.
#include <cmath>
#include <cstdint>

#include "runtime/emulator/approximate.h"
#include "runtime/emulator/lane_loops.h"
#include "runtime/emulator/rounding.h"

namespace duotone::emulator {
namespace {

bool IsHalf(Type type) {
  return type >= Type::kF16 && type <= Type::kBf16x2 && type != Type::kTf32 && type != Type::kF32 &&
         type != Type::kF64;
}

double Smaller(double a, double b) {
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
double Larger(double a, double b) {
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

double Compute(const Instruction& in, double a, double b, double c) {
  switch (in.op) {
    case Op::kAdd:
      return OddSum(a, b);
    case Op::kSub:
      return OddSum(a, -b);
    case Op::kMul:
      return a * b;
    case Op::kFma:
      return OddSum(a * b, c);
    case Op::kAbs:
      return std::fabs(a);
    case Op::kNeg:
      return -a;
    case Op::kMin:
    case Op::kMax: {
      if (std::isnan(a) || std::isnan(b)) {
        if (in.nan || (std::isnan(a) && std::isnan(b))) return std::isnan(a) ? a : b;
        return std::isnan(a) ? b : a;
      }
      return in.op == Op::kMin ? Smaller(a, b) : Larger(a, b);
    }
    default:
      return 0;
  }
}

uint16_t Result(const Instruction& in, const FloatFormat& format, const uint16_t* operands) {
  double values[3];
  for (int i = 0; i < 3; ++i) {
    const Exact value = Decode(operands[i], format);
    values[i] = static_cast<double>(in.ftz ? Flush(value, format) : value);
  }
  Exact result = RoundTo(Compute(in, values[0], values[1], values[2]), format, Rounding::kRn);
  if (in.ftz) result = Flush(result, format);
  if (in.sat) result = result > 0 ? (result < 1 ? result : 1.0L) : 0.0L;
  if (in.relu && !std::isnan(result) && !(result > 0)) result = 0;
  return static_cast<uint16_t>(Encode(result, format));
}

// The 16-bit values of operand rows, lane by lane; of pairs the lower half first.
void HalfLanes(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const FloatFormat& format = FormatOf(in.type);
  const int parts = IsPair(in.type) ? 2 : 1;
  const size_t count = in.operands.size() - 1;
  uint16_t* d = warp.Row<uint16_t>(code.row[0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    for (int part = 0; part < parts; ++part) {
      const int at = lane * parts + part;
      uint16_t operands[3] = {};
      for (size_t i = 0; i < count; ++i) operands[i] = warp.Row<uint16_t>(code.row[i + 1])[at];
      d[at] = Result(in, format, operands);
    }
  }
}

// ex2 and tanh.
template <bool kPerturb>
void HalfApproximate(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const FloatFormat& format = FormatOf(in.type);
  const int parts = IsPair(in.type) ? 2 : 1;
  const uint64_t seed = warp.block->launch->options->seed;
  const uint16_t* a = warp.Row<uint16_t>(code.row[1]);
  uint16_t* d = warp.Row<uint16_t>(code.row[0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    for (int at = lane * parts; at < (lane + 1) * parts; ++at) {
      Exact operand = Decode(a[at], format);
      if (in.ftz) operand = Flush(operand, format);
      const auto x = static_cast<float>(operand);
      Exact result = kPerturb ? Perturbed(in, x, 0, seed) : Approximate(in, x, 0);
      if (in.ftz) result = Flush(result, format);
      d[at] = static_cast<uint16_t>(Encode(result, format));
    }
  }
}

}  // namespace

Handler FindHalfHandler(const Instruction& in, const HandlerOptions& options) {
  if (!IsHalf(in.type)) return nullptr;
  switch (in.op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kFma:
      return in.rounding == Rounding::kNone || in.rounding == Rounding::kRn ? HalfLanes : nullptr;
    case Op::kAbs:
    case Op::kNeg:
    case Op::kMin:
    case Op::kMax:
      return HalfLanes;
    case Op::kEx2:
    case Op::kTanh:
      return options.perturb ? HalfApproximate<true> : HalfApproximate<false>;
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator
