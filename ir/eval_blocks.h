// What evaluation functions are made of: reading and writing blocks of elements in the type an op
// computes in, and element-by-element runners for functors.
//
//   struct TanhFn {
//     template <std::floating_point T>
//     T operator()(T x) const { return std::tanh(x); }
//   };
//   .eval = kElementwise<TanhFn, 1>
//
// Compute types: float for f32, f16 and bf16; double for f64; int64_t for integers and bool. A
// tensor whose dtype is the compute type itself is read and written in place, others go through a
// buffer on the stack.
#ifndef DUOTONE_IR_EVAL_BLOCKS_H_
#define DUOTONE_IR_EVAL_BLOCKS_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/float16.h"
#include "ir/eval.h"

namespace duotone::ir {

// Elements per item of an elementwise evaluation.
inline constexpr int64_t kBlock = 512;

// The storage type of a dtype, e.g. StorageOf<DType::kF16> is F16; bool is stored as uint8_t.
template <DType kDType>
struct StorageType;
template <>
struct StorageType<DType::kF64> : std::type_identity<double> {};
template <>
struct StorageType<DType::kF32> : std::type_identity<float> {};
template <>
struct StorageType<DType::kF16> : std::type_identity<F16> {};
template <>
struct StorageType<DType::kBF16> : std::type_identity<BF16> {};
template <>
struct StorageType<DType::kI64> : std::type_identity<int64_t> {};
template <>
struct StorageType<DType::kI32> : std::type_identity<int32_t> {};
template <>
struct StorageType<DType::kU8> : std::type_identity<uint8_t> {};
template <>
struct StorageType<DType::kBool> : std::type_identity<uint8_t> {};
template <DType kDType>
using StorageOf = typename StorageType<kDType>::type;

// Calls fn(std::integral_constant<DType, dtype>()).
template <typename Fn>
decltype(auto) WithDType(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kF64:
      return fn(std::integral_constant<DType, DType::kF64>());
    case DType::kF32:
      return fn(std::integral_constant<DType, DType::kF32>());
    case DType::kF16:
      return fn(std::integral_constant<DType, DType::kF16>());
    case DType::kBF16:
      return fn(std::integral_constant<DType, DType::kBF16>());
    case DType::kI64:
      return fn(std::integral_constant<DType, DType::kI64>());
    case DType::kI32:
      return fn(std::integral_constant<DType, DType::kI32>());
    case DType::kU8:
      return fn(std::integral_constant<DType, DType::kU8>());
    case DType::kBool:
      break;
  }
  return fn(std::integral_constant<DType, DType::kBool>());
}

// Calls fn(T()) with the compute type of `dtype`: float, double or int64_t.
template <typename Fn>
decltype(auto) WithComputeType(DType dtype, Fn&& fn) {
  if (dtype == DType::kF64) return fn(double());
  if (IsFloat(dtype)) return fn(float());
  return fn(int64_t());
}

// Rounds to f32 so that a second rounding to f16 or bf16 gives what one rounding would: inexact
// values get an odd last bit (von Neumann rounding), which no tie of a 16-bit type has.
inline float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1u);
}
inline float RoundToOdd(int64_t value) {
  const uint64_t magnitude =
      value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int dropped = std::max(0, 64 - std::countl_zero(magnitude) - 24);
  const uint64_t kept = magnitude >> dropped;
  const bool inexact = (kept << dropped) != magnitude;
  const float rounded = std::ldexp(static_cast<float>(kept | (inexact ? 1 : 0)), dropped);
  return value < 0 ? -rounded : rounded;
}

// Towards zero, saturating; NaN gives 0.
template <typename Int, std::floating_point T>
Int FloatToInt(T value) {
  constexpr T kLow = static_cast<T>(std::numeric_limits<Int>::min());
  // 2^bits, which every floating-point type holds; max() itself may not be representable.
  constexpr T kPastHigh = static_cast<T>(std::numeric_limits<Int>::max() / 2 + 1) * 2;
  if (!(value > kLow)) return value != value ? Int{0} : std::numeric_limits<Int>::min();
  if (value >= kPastHigh) return std::numeric_limits<Int>::max();
  return static_cast<Int>(value);
}

// One element from compute type T to storage, with the semantics of `cast`: floating point rounds
// once to nearest even, floating point to integer truncates and saturates, integers wrap, bool is
// "not zero".
template <DType kTo, typename T>
StorageOf<kTo> ToStorage(T value) {
  if constexpr (kTo == DType::kBool) {
    return value != 0;
  } else if constexpr (kTo == DType::kF16 || kTo == DType::kBF16) {
    float f32;
    if constexpr (std::is_same_v<T, float>) {
      f32 = value;
    } else if constexpr (std::is_integral_v<T>) {
      f32 = RoundToOdd(static_cast<int64_t>(value));
    } else {
      f32 = RoundToOdd(value);
    }
    if constexpr (kTo == DType::kF16) return ToF16(f32);
    if constexpr (kTo == DType::kBF16) return ToBF16(f32);
  } else if constexpr (IsFloat(kTo) || std::is_integral_v<T>) {
    return static_cast<StorageOf<kTo>>(value);
  } else {
    return FloatToInt<StorageOf<kTo>>(value);
  }
}

// One element from storage to compute type T (of the same class, or a wider one).
template <DType kFrom, typename T>
T FromStorage(StorageOf<kFrom> value) {
  if constexpr (kFrom == DType::kF16 || kFrom == DType::kBF16) {
    return static_cast<T>(ToF32(value));
  } else {
    return static_cast<T>(value);
  }
}

// Elements [first, first + count) of `from` as T: a pointer into `from` if that is their type, else
// `buffer`, filled. T is float, double or int64_t.
template <typename T>
const T* LoadBlock(const TensorView& from, int64_t first, int64_t count, T* buffer);

// Where to compute elements [first, ...) of `to`: in place if T is their type, else in `buffer`.
// StoreBlock follows. T is float, double, int64_t or uint8_t (bool).
template <typename T>
T* OutputBlock(const TensorView& to, int64_t first, T* buffer);

// Writes `values` to elements [first, first + count) of `to`, each rounded or converted once (see
// ToStorage).
template <typename T>
void StoreBlock(const TensorView& to, int64_t first, int64_t count, const T* values);

// Items of an evaluation that works on blocks of the first result.
inline int64_t ElementBlocks(const EvalCall& call) {
  return (call.results[0].elements() + kBlock - 1) / kBlock;
}

// Calls fn(first, count) for each block of items [begin, end) of `result`.
template <typename Fn>
void ForEachBlock(const TensorView& result, int64_t begin, int64_t end, Fn&& fn) {
  const int64_t elements = result.elements();
  for (int64_t item = begin; item < end; ++item) {
    const int64_t first = item * kBlock;
    fn(first, std::min(kBlock, elements - first));
  }
}

// Block [first, first + count) of an elementwise op of `sizeof...(I)` operands with functor `fn`.
template <typename T, typename Fn, size_t... I>
void ElementwiseBlock(const EvalCall& call, const Fn& fn, int64_t first, int64_t count,
                      std::index_sequence<I...>) {
  using R = decltype(fn((static_cast<void>(I), T())...));
  using Out = std::conditional_t<std::is_same_v<R, bool>, uint8_t, R>;
  T operand_buffers[sizeof...(I)][kBlock];
  Out result_buffer[kBlock];
  const T* operands[] = {LoadBlock<T>(call.operands[I], first, count, operand_buffers[I])...};
  Out* result = OutputBlock<Out>(call.results[0], first, result_buffer);
  for (int64_t i = 0; i < count; ++i) result[i] = fn(operands[I][i]...);
  StoreBlock<Out>(call.results[0], first, count, result);
}

// Runs a functor over operands of equal shape and dtype. It is built from the op's attributes if it
// can be, and accepts the compute types for which it has an overload; a result of type bool is
// stored as such.
template <typename Fn, int kOperands>
void RunElementwise(const EvalCall& call, int64_t begin, int64_t end) {
  const Fn fn = [&] {
    if constexpr (std::is_constructible_v<Fn, const Attrs&>) {
      return Fn(*call.attrs);
    } else {
      return Fn();
    }
  }();
  WithComputeType(call.operands[0].dtype, [&](auto compute) {
    using T = decltype(compute);
    using Operands = std::make_index_sequence<kOperands>;
    constexpr bool kAccepts = []<size_t... I>(std::index_sequence<I...>) {
      return std::is_invocable_v<const Fn&, std::enable_if_t<(I < kOperands), T>...>;
    }
    (Operands());
    if constexpr (kAccepts) {
      ForEachBlock(call.results[0], begin, end, [&](int64_t first, int64_t count) {
        ElementwiseBlock<T>(call, fn, first, count, Operands());
      });
    } else {
      DUOTONE_CHECK(false) << "type inference let through " << DTypeName(call.operands[0].dtype);
    }
  });
}

template <typename Fn, int kOperands>
inline constexpr Evaluation kElementwise = {RunElementwise<Fn, kOperands>, ElementBlocks, nullptr};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_EVAL_BLOCKS_H_
