#include "runtime/emulator/approximate.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/philox.h"

namespace duotone::emulator {
namespace {

constexpr ApproximationBound kBounds[] = {
    {.op = Op::kCos, .absolute = 0x1p-20},  // on [-2 pi, 2 pi]: 2^-20.5; outside it is larger
    {.op = Op::kDiv, .ulps = 2},
    {.op = Op::kEx2, .ulps = 2},
    {.op = Op::kLg2, .absolute = 0x1p-22},  // relative outside (0.5, 2), which is wider
    {.op = Op::kRcp, .ulps = 1},
    {.op = Op::kRsqrt, .relative = 0x1p-23},  // 2^-22.9
    {.op = Op::kSin, .absolute = 0x1p-20},
    {.op = Op::kSqrt, .relative = 0x1p-23},
    {.op = Op::kTanh, .relative = 0x1p-11},
};

// PTX ISA 8.5, 9.7.3.8: a / b for b above 2^126 is 0, or NaN for an infinite a.
double Quotient(double a, double b) {
  if (std::fabs(b) <= 0x1p126 || std::isinf(b) || std::isnan(b)) return a / b;
  if (std::isinf(a)) return std::numeric_limits<double>::quiet_NaN();
  return std::isnan(a) ? a : std::copysign(0.0, std::copysign(1.0, a) * std::copysign(1.0, b));
}

double ExactValue(Op op, double a, double b) {
  switch (op) {
    case Op::kCos:
      return std::cos(a);
    case Op::kDiv:
      return Quotient(a, b);
    case Op::kEx2:
      return std::exp2(a);
    case Op::kLg2:
      return std::log2(a);
    case Op::kRcp:
      return 1.0 / a;
    case Op::kRsqrt:
      return 1.0 / std::sqrt(a);
    case Op::kSin:
      return std::sin(a);
    case Op::kSqrt:
      return std::sqrt(a);
    default:
      return std::tanh(a);
  }
}

float Canonical(float value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7fffffffu) : value;
}

}  // namespace

std::span<const ApproximationBound> ApproximationBounds() { return kBounds; }

const ApproximationBound* BoundOf(Op op) {
  for (const ApproximationBound& bound : kBounds) {
    if (bound.op == op) return &bound;
  }
  return nullptr;
}

float Approximate(Op op, float a, float b) {
  return Canonical(static_cast<float>(ExactValue(op, a, b)));
}

float Perturbed(Op op, float a, float b, uint64_t seed) {
  const double exact = ExactValue(op, a, b);
  const float nearest = Canonical(static_cast<float>(exact));
  const ApproximationBound* bound = BoundOf(op);
  const bool is_special = std::isnan(nearest) || std::isinf(nearest) || nearest == 0 ||
                          (op == Op::kEx2 && a == 0) || (op == Op::kCos && a == 0);
  if (bound == nullptr || is_special) return nearest;
  const uint64_t bits = uint64_t{std::bit_cast<uint32_t>(a)} << 32 | std::bit_cast<uint32_t>(b);
  const uint64_t hash = Mix64(Mix64(bits + seed) + static_cast<uint64_t>(op));
  // In [-1, 1], with both ends.
  const double share = static_cast<double>(static_cast<int64_t>(hash % 2001) - 1000) / 1000.0;
  if (bound->ulps > 0) {
    const auto steps = static_cast<int32_t>(std::lround(share * bound->ulps));
    const auto moved = std::bit_cast<uint32_t>(nearest) + static_cast<uint32_t>(steps);
    const float result = std::bit_cast<float>(moved);
    // One step of the bits is one place, as long as the sign and finiteness stay.
    return std::signbit(result) == std::signbit(nearest) && std::isfinite(result) ? result
                                                                                  : nearest;
  }
  // Rounding takes up to half a place of it.
  const double room = bound->absolute > 0 ? bound->absolute : std::fabs(exact) * bound->relative;
  const double half_place = std::fabs(exact) * 0x1p-24;
  const double moved = exact + share * std::max(0.0, room - half_place);
  return Canonical(static_cast<float>(moved));
}

}  // namespace duotone::emulator
