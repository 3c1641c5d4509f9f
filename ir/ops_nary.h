// Elementwise ops of several operands: functors, type inference and gradients; their rows are in
// ir/op_rows_nary.h.
#ifndef DUOTONE_IR_OPS_NARY_H_
#define DUOTONE_IR_OPS_NARY_H_

#include <cmath>
#include <concepts>
#include <cstdint>

#include "ir/eval_blocks.h"
#include "ir/op_def.h"
#include "ir/ops_unary.h"

namespace duotone::ir {

// Integer arithmetic wraps: it is done on the unsigned type, which has no overflow.
inline int64_t Wrap(uint64_t value) { return static_cast<int64_t>(value); }

struct AddFn {
  template <std::floating_point T>
  T operator()(T a, T b) const {
    return a + b;
  }
  int64_t operator()(int64_t a, int64_t b) const {
    return Wrap(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};

struct SubFn {
  template <std::floating_point T>
  T operator()(T a, T b) const {
    return a - b;
  }
  int64_t operator()(int64_t a, int64_t b) const {
    return Wrap(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }
};

struct MulFn {
  template <std::floating_point T>
  T operator()(T a, T b) const {
    return a * b;
  }
  int64_t operator()(int64_t a, int64_t b) const {
    return Wrap(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};

struct DivFn {
  template <std::floating_point T>
  T operator()(T a, T b) const {
    return a / b;
  }
  int64_t operator()(int64_t a, int64_t b) const {
    if (b == 0) return 0;
    if (b == -1) return NegFn()(a);  // the smallest number has no negative
    return a / b;
  }
};

// A NaN in either operand is the result.
struct MaxFn {
  template <typename T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

struct MinFn {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

struct PowFn {
  template <std::floating_point T>
  T operator()(T a, T b) const {
    return std::pow(a, b);
  }
};

struct EqualFn {
  template <typename T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};

struct NotEqualFn {
  template <typename T>
  bool operator()(T a, T b) const {
    return a != b;
  }
};

struct LessFn {
  template <typename T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};

struct LessEqualFn {
  template <typename T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};

struct GreaterFn {
  template <typename T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};

struct GreaterEqualFn {
  template <typename T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};

struct AndFn {
  template <std::integral T>
  bool operator()(T a, T b) const {
    return (a & b) != 0;
  }
};

struct OrFn {
  template <std::integral T>
  bool operator()(T a, T b) const {
    return (a | b) != 0;
  }
};

struct NotFn {
  template <std::integral T>
  bool operator()(T a) const {
    return a == 0;
  }
};

struct GeluGradFn {
  explicit GeluGradFn(const Attrs& attrs) : tanh(std::get<GeluAttrs>(attrs).tanh) {}
  template <std::floating_point T>
  T operator()(T g, T x) const {
    if (tanh) {
      const T t = std::tanh(T(kSqrtTwoOverPi) * (x + T(kGeluCubic) * x * x * x));
      const T slope = T(kSqrtTwoOverPi) * (T{1} + T(3 * kGeluCubic) * x * x);
      // Where tanh is 1 its slope is 0, however large the inner slope.
      const T bend = t * t < 1 ? T(0.5) * x * (T{1} - t * t) * slope : T{0};
      return g * (T(0.5) * (T{1} + t) + bend);
    }
    const T distribution = T(0.5) * std::erfc(-x * T(kSqrtHalf));
    const T density = T(kInvSqrtTwoPi) * std::exp(T(-0.5) * x * x);
    return g * (distribution + x * density);
  }
  bool tanh;
};

struct SiluGradFn {
  template <std::floating_point T>
  T operator()(T g, T x) const {
    const T s = SigmoidFn()(x);
    return g * (s * (T{1} + x * (T{1} - s)));
  }
};

absl::StatusOr<Types> InferCompare(llvm::ArrayRef<Type> operands, Attrs& attrs);   // numbers
absl::StatusOr<Types> InferEquality(llvm::ArrayRef<Type> operands, Attrs& attrs);  // any dtype
absl::StatusOr<Types> InferSelect(llvm::ArrayRef<Type> operands, Attrs& attrs);

void RunSelect(const EvalCall& call, int64_t begin, int64_t end);

absl::Status GradAdd(GradContext& ctx);
absl::Status GradSub(GradContext& ctx);
absl::Status GradMul(GradContext& ctx);
absl::Status GradDiv(GradContext& ctx);
absl::Status GradMax(GradContext& ctx);
absl::Status GradMin(GradContext& ctx);
absl::Status GradPow(GradContext& ctx);
absl::Status GradSelect(GradContext& ctx);
absl::Status GradGeluGrad(GradContext& ctx);
absl::Status GradSiluGrad(GradContext& ctx);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OPS_NARY_H_
