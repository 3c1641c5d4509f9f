#include "runtime/emulator/approximate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/float16.h"
#include "base/philox.h"
#include "runtime/emulator/rounding.h"

namespace duotone::emulator {
namespace {

// How far a result may lie from the exact one: so many units in the last place of the correctly
// rounded result; or relative to the exact one or absolutely, whichever is wider.
struct Bound {
  Op op;
  Type type;
  double ulps = 0;
  double relative = 0;
  double absolute = 0;
};

// PTX ISA 8.5, 9.7.3 and 9.7.4. That of sin and cos holds on [-2 pi, 2 pi], beyond which it is
// wider; that of lg2 is absolute on (0.5, 2), where the result is below 1, and relative elsewhere.
constexpr Bound kBounds[] = {
    {.op = Op::kCos, .type = Type::kF32, .absolute = 6.743495e-7},  // 2^-20.5
    {.op = Op::kDiv, .type = Type::kF32, .ulps = 2},
    {.op = Op::kEx2, .type = Type::kF32, .ulps = 2},
    {.op = Op::kEx2, .type = Type::kF16, .relative = 1.0466e-3},  // 2^-9.9
    {.op = Op::kEx2, .type = Type::kBf16, .relative = 0x1p-7},
    {.op = Op::kLg2, .type = Type::kF32, .relative = 0x1p-22, .absolute = 0x1p-22},
    {.op = Op::kRcp, .type = Type::kF32, .ulps = 1},
    {.op = Op::kRsqrt, .type = Type::kF32, .relative = 1.2776e-7},  // 2^-22.9
    {.op = Op::kSin, .type = Type::kF32, .absolute = 6.743495e-7},
    {.op = Op::kSqrt, .type = Type::kF32, .relative = 0x1p-23},
    {.op = Op::kTanh, .type = Type::kF32, .relative = 0x1p-11},
    {.op = Op::kTanh, .type = Type::kF16, .absolute = 4.9270e-4},  // 2^-10.987
    {.op = Op::kTanh, .type = Type::kBf16, .absolute = 0x1p-8},
};

Type ElementType(Type type) {
  return type == Type::kF16x2 ? Type::kF16 : type == Type::kBf16x2 ? Type::kBf16 : type;
}

const Bound* BoundOf(const Instruction& in) {
  const auto* found = std::find_if(std::begin(kBounds), std::end(kBounds), [&](const Bound& bound) {
    return bound.op == in.op && bound.type == ElementType(in.type);
  });
  return found == std::end(kBounds) ? nullptr : found;
}

// div.approx gives 0 for b above 2^126, or NaN for an infinite a; div.full covers the whole range
// (9.7.3.8).
template <typename T>
T Quotient(T a, T b, bool full) {
  if (full || std::fabs(b) <= 0x1p126 || std::isinf(b) || std::isnan(b)) return a / b;
  if (std::isinf(a)) return std::numeric_limits<T>::quiet_NaN();
  return std::isnan(a) ? a : std::copysign(T{0}, std::copysign(T{1}, a) * std::copysign(T{1}, b));
}

// In the precision of T, with an error of a few of its places.
template <typename T>
T ExactValue(const Instruction& in, T a, T b) {
  switch (in.op) {
    case Op::kCos:
      return std::cos(a);
    case Op::kDiv:
      return Quotient(a, b, in.full);
    case Op::kEx2:
      return std::exp2(a);
    case Op::kLg2:
      return std::log2(a);
    case Op::kRcp:
      return T{1} / a;
    case Op::kRsqrt:
      return T{1} / std::sqrt(a);
    case Op::kSin:
      return std::sin(a);
    case Op::kSqrt:
      return std::sqrt(a);
    default:
      return std::tanh(a);
  }
}

float Rounded(const Instruction& in, double value) {
  if (std::isnan(value)) return std::bit_cast<float>(0x7fffffffu);
  switch (ElementType(in.type)) {
    case Type::kF16:
      return ToF32(ToF16(OddSingle(value)));
    case Type::kBf16:
      return ToF32(ToBF16(OddSingle(value)));
    default:
      return static_cast<float>(value);
  }
}

// Whether an error of the value, which is an f64, may move it over the middle of two f32. The
// middles of 16-bit numbers are further away from any value for a 16-bit operand.
bool IsUndecided(const Instruction& in, double value) {
  return in.type == Type::kF32 && std::isfinite(value) &&
         static_cast<float>(value * (1 - 0x1p-49)) != static_cast<float>(value * (1 + 0x1p-49));
}

bool IsDefinedExactly(Op op, float a) {
  if (op == Op::kTanh) return std::fabs(a) < std::numeric_limits<float>::min();
  return (op == Op::kEx2 || op == Op::kCos) && a == 0;
}

// In [-1, 1], with both ends; the same for the same operands.
double ShareOf(const Instruction& in, float a, float b, uint64_t seed) {
  const uint64_t bits = uint64_t{std::bit_cast<uint32_t>(a)} << 32 | std::bit_cast<uint32_t>(b);
  const uint64_t hash = Mix64(Mix64(bits + seed) + static_cast<uint64_t>(in.op));
  return static_cast<double>(static_cast<int64_t>(hash % 2001) - 1000) / 1000.0;
}

// So many places of f32 on, each as wide as at `value`, as long as sign and finiteness stay. A
// result in the next binade, whose places are wider, is cut off.
float Stepped(float value, double steps) {
  const float magnitude = std::fabs(value);
  const float next = std::nextafterf(magnitude, std::numeric_limits<float>::infinity());
  if (!std::isfinite(next)) return value;
  const double place = double{next} - double{magnitude};
  const double moved = double{magnitude} + steps * place;
  const auto result = static_cast<float>(moved);
  if (moved < 0 || !std::isfinite(result)) return value;
  return std::copysign(double{result} > moved && steps > 0 ? std::nextafterf(result, 0) : result,
                       value);
}

}  // namespace

float Approximate(const Instruction& in, float a, float b) {
  const double value = ExactValue<double>(in, a, b);
  return IsUndecided(in, value) ? static_cast<float>(ExactValue<Exact>(in, a, b))
                                : Rounded(in, value);
}

float Perturbed(const Instruction& in, float a, float b, uint64_t seed) {
  const double exact = ExactValue<double>(in, a, b);
  const float nearest = Approximate(in, a, b);
  const Bound* bound = BoundOf(in);
  if (bound == nullptr || !std::isfinite(nearest) || nearest == 0 || IsDefinedExactly(in.op, a)) {
    return nearest;
  }
  const double share = ShareOf(in, a, b, seed);
  if (bound->ulps > 0) {
    return Stepped(nearest, std::round(share * bound->ulps));
  }
  const double room = std::max(bound->absolute, std::fabs(exact) * bound->relative);
  // Rounding what is moved takes up to half a place of the room.
  const FloatFormat& format = FormatOf(in.type);
  const double half_place = std::max(std::ldexp(std::fabs(exact) + room, -format.mantissa),
                                     std::ldexp(1.0, format.min_exponent - format.mantissa));
  return Rounded(in, exact + share * std::max(0.0, room - half_place));
}

}  // namespace duotone::emulator
