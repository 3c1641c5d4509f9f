// Elementwise ops of one operand: functors, type inference and gradients; their rows are in
// ir/op_rows_unary.h.
#ifndef DUOTONE_IR_OPS_UNARY_H_
#define DUOTONE_IR_OPS_UNARY_H_

#include <cmath>
#include <concepts>
#include <cstdint>

#include "ir/eval_blocks.h"
#include "ir/op_def.h"

namespace duotone::ir {

struct NegFn {
  template <std::floating_point T>
  T operator()(T x) const {
    return -x;
  }
  int64_t operator()(int64_t x) const { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }
};

struct AbsFn {
  template <std::floating_point T>
  T operator()(T x) const {
    return std::fabs(x);
  }
  int64_t operator()(int64_t x) const { return x < 0 ? NegFn()(x) : x; }
};

struct ExpFn {
  template <std::floating_point T>
  T operator()(T x) const {
    return std::exp(x);
  }
};

struct LogFn {
  template <std::floating_point T>
  T operator()(T x) const {
    return std::log(x);
  }
};

struct SqrtFn {
  template <std::floating_point T>
  T operator()(T x) const {
    return std::sqrt(x);
  }
};

// Two roundings, so that every backend has the same bits.
struct RsqrtFn {
  template <std::floating_point T>
  T operator()(T x) const {
    return T{1} / std::sqrt(x);
  }
};

struct TanhFn {
  template <std::floating_point T>
  T operator()(T x) const {
    return std::tanh(x);
  }
};

// exp never sees a positive number, so nothing overflows.
struct SigmoidFn {
  template <std::floating_point T>
  T operator()(T x) const {
    const T e = std::exp(-std::fabs(x));
    return (x < 0 ? e : T{1}) / (T{1} + e);
  }
};

// max(x, 0) + log(1 + e^-|x|): the exponential never overflows.
struct SoftplusFn {
  template <std::floating_point T>
  T operator()(T x) const {
    return (x > 0 ? x : T{0}) + std::log1p(std::exp(-std::fabs(x)));
  }
};

struct ErfFn {
  template <std::floating_point T>
  T operator()(T x) const {
    return std::erf(x);
  }
};

// NaN passes through; -0 becomes 0.
struct ReluFn {
  template <typename T>
  T operator()(T x) const {
    return x <= 0 ? T{0} : x;
  }
};

inline constexpr double kSqrtHalf = 0.70710678118654752440;
inline constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
inline constexpr double kInvSqrtTwoPi = 0.39894228040143267794;
inline constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
inline constexpr double kGeluCubic = 0.044715;

struct GeluFn {
  explicit GeluFn(const Attrs& attrs) : tanh(std::get<GeluAttrs>(attrs).tanh) {}
  template <std::floating_point T>
  T operator()(T x) const {
    if (tanh) {
      const T inner = T(kSqrtTwoOverPi) * (x + T(kGeluCubic) * x * x * x);
      return T(0.5) * x * (T{1} + std::tanh(inner));
    }
    // erfc rather than 1 + erf: no cancellation for negative x.
    return T(0.5) * x * std::erfc(-x * T(kSqrtHalf));
  }
  bool tanh;
};

struct SiluFn {
  template <std::floating_point T>
  T operator()(T x) const {
    return x * SigmoidFn()(x);
  }
};

// NaN passes through. For integers the bounds are rounded inwards.
struct ClampFn {
  explicit ClampFn(const Attrs& attrs)
      : min(std::get<ClampAttrs>(attrs).min), max(std::get<ClampAttrs>(attrs).max) {}
  template <std::floating_point T>
  T operator()(T x) const {
    const T low = static_cast<T>(min);
    const T high = static_cast<T>(max);
    return x < low ? low : x > high ? high : x;
  }
  int64_t operator()(int64_t x) const {
    const int64_t low = FloatToInt<int64_t>(std::ceil(min));
    const int64_t high = FloatToInt<int64_t>(std::floor(max));
    return x < low ? low : x > high ? high : x;
  }
  double min;
  double max;
};

struct IsFiniteFn {
  template <std::floating_point T>
  bool operator()(T x) const {
    return x - x == 0;
  }
};

absl::StatusOr<Types> InferClamp(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferCast(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferIsFinite(llvm::ArrayRef<Type> operands, Attrs& attrs);

void RunCast(const EvalCall& call, int64_t begin, int64_t end);

absl::Status GradNeg(GradContext& ctx);
absl::Status GradAbs(GradContext& ctx);
absl::Status GradExp(GradContext& ctx);
absl::Status GradLog(GradContext& ctx);
absl::Status GradSqrt(GradContext& ctx);
absl::Status GradRsqrt(GradContext& ctx);
absl::Status GradTanh(GradContext& ctx);
absl::Status GradSigmoid(GradContext& ctx);
absl::Status GradSoftplus(GradContext& ctx);
absl::Status GradErf(GradContext& ctx);
absl::Status GradRelu(GradContext& ctx);
absl::Status GradGelu(GradContext& ctx);
absl::Status GradSilu(GradContext& ctx);
absl::Status GradClamp(GradContext& ctx);
absl::Status GradCast(GradContext& ctx);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_UNARY_H_
