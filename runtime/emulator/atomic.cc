#include "runtime/emulator/atomic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "base/float16.h"

namespace duotone::emulator {
namespace {

template <typename T>
T As(uint64_t bits) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(bits);
  } else {
    return std::bit_cast<T>(static_cast<uint32_t>(bits));
  }
}

template <typename T>
uint64_t Bits(T value) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<uint64_t>(value);
  } else {
    return std::bit_cast<uint32_t>(value);
  }
}

template <typename T>
uint64_t AddIntegers(uint64_t old, uint64_t b, uint64_t) {
  return static_cast<T>(old + b);
}

template <typename T>
uint64_t Min(uint64_t old, uint64_t b, uint64_t) {
  return Bits(std::min(As<T>(old), As<T>(b)));
}

template <typename T>
uint64_t Max(uint64_t old, uint64_t b, uint64_t) {
  return Bits(std::max(As<T>(old), As<T>(b)));
}

uint64_t And(uint64_t old, uint64_t b, uint64_t) { return old & b; }
uint64_t Or(uint64_t old, uint64_t b, uint64_t) { return old | b; }
uint64_t Xor(uint64_t old, uint64_t b, uint64_t) { return old ^ b; }
uint64_t Exchange(uint64_t, uint64_t b, uint64_t) { return b; }
uint64_t CompareAndSwap(uint64_t old, uint64_t b, uint64_t c) { return old == b ? c : old; }
uint64_t Increment(uint64_t old, uint64_t b, uint64_t) { return old >= b ? 0 : old + 1; }
uint64_t Decrement(uint64_t old, uint64_t b, uint64_t) { return old == 0 || old > b ? b : old - 1; }

float Flush(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

template <bool kFlush>
uint64_t AddF32(uint64_t old, uint64_t b, uint64_t) {
  float sum;
  if constexpr (kFlush) {
    sum = Flush(Flush(As<float>(old)) + Flush(As<float>(b)));
  } else {
    sum = As<float>(old) + As<float>(b);
  }
  return std::isnan(sum) ? 0x7fffffffu : Bits(sum);
}

uint64_t AddF64(uint64_t old, uint64_t b, uint64_t) {
  const double sum = As<double>(old) + As<double>(b);
  return std::isnan(sum) ? 0x7fffffffffffffffu : Bits(sum);
}

// The sum of two halves in f32 and then rounded is the sum rounded once: 24 bits are more than
// twice 11 and two.
template <typename Half>
uint64_t AddHalves(uint64_t old, uint64_t b, uint64_t) {
  const float sum = ToF32(Half{static_cast<uint16_t>(old)}) + ToF32(Half{static_cast<uint16_t>(b)});
  if (std::isnan(sum)) return 0x7fffu;
  if constexpr (std::is_same_v<Half, F16>) return ToF16(sum).bits;
  return ToBF16(sum).bits;
}

template <typename Half>
uint64_t AddPairs(uint64_t old, uint64_t b, uint64_t) {
  return AddHalves<Half>(old, b, 0) | AddHalves<Half>(old >> 16, b >> 16, 0) << 16;
}

AtomicFunction FindAdd(Type type, bool flush) {
  switch (type) {
    case Type::kU32:
    case Type::kS32:
      return AddIntegers<uint32_t>;
    case Type::kU64:
    case Type::kS64:
      return AddIntegers<uint64_t>;
    case Type::kF32:
      return flush ? AddF32<true> : AddF32<false>;
    case Type::kF64:
      return AddF64;
    case Type::kF16:
      return AddHalves<F16>;
    case Type::kBf16:
      return AddHalves<BF16>;
    case Type::kF16x2:
      return AddPairs<F16>;
    case Type::kBf16x2:
      return AddPairs<BF16>;
    default:
      return nullptr;
  }
}

AtomicFunction FindMin(Type type) {
  switch (type) {
    case Type::kU32:
      return Min<uint32_t>;
    case Type::kS32:
      return Min<int32_t>;
    case Type::kU64:
      return Min<uint64_t>;
    case Type::kS64:
      return Min<int64_t>;
    default:
      return nullptr;
  }
}

AtomicFunction FindMax(Type type) {
  switch (type) {
    case Type::kU32:
      return Max<uint32_t>;
    case Type::kS32:
      return Max<int32_t>;
    case Type::kU64:
      return Max<uint64_t>;
    case Type::kS64:
      return Max<int64_t>;
    default:
      return nullptr;
  }
}

AtomicFunction OfBits(Type type, AtomicFunction function) {
  return type == Type::kB32 || type == Type::kB64 ? function : nullptr;
}

}  // namespace

AtomicFunction FindAtomic(Mode mode, Type type, bool flush) {
  switch (mode) {
    case Mode::kAdd:
      return FindAdd(type, flush);
    case Mode::kMin:
      return FindMin(type);
    case Mode::kMax:
      return FindMax(type);
    case Mode::kAnd:
      return OfBits(type, And);
    case Mode::kOr:
      return OfBits(type, Or);
    case Mode::kXor:
      return OfBits(type, Xor);
    case Mode::kExch:
      return OfBits(type, Exchange);
    case Mode::kCas:
      return type == Type::kB16 ? CompareAndSwap : OfBits(type, CompareAndSwap);
    case Mode::kInc:
      return type == Type::kU32 ? Increment : nullptr;
    case Mode::kDec:
      return type == Type::kU32 ? Decrement : nullptr;
    default:
      return nullptr;
  }
}

void ReportFloatAtomic(Warp& warp, const Code& code, Mask mask, uint64_t address) {
  const Instruction& instruction = *code.instruction;
  if (instruction.mode != Mode::kAdd || !IsFloat(instruction.type)) return;
  if (!warp.block->launch->options->checks) return;
  warp.Report(code, ProblemKind::kFloatAtomic, mask, address,
              "the order of these additions is not fixed, so sums differ from run to run");
}

}  // namespace duotone::emulator
