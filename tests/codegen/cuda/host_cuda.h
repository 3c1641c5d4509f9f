// What CUDA C++ has and the host's C++ has not, so that the text of a generated kernel compiles
// with g++ and runs on the CPU: included before the kernel, with DUOTONE_HOST defined. Threads are
// fibers of tests/codegen/cuda/host_threads.cc, which fills `duotone_host_api` and sets the
// built-in variables whenever it switches.
//
// Defined here are (1) keywords and built-in variables, (2) functions and intrinsics that
// kernels/*.cuh may use, with CUDA's meaning, (3) namespace `host`: what the .cuh files call
// instead of PTX.
#ifndef DUOTONE_TESTS_CODEGEN_CUDA_HOST_CUDA_H_
#define DUOTONE_TESTS_CODEGEN_CUDA_HOST_CUDA_H_

// No header of the C++ library: they would take most of the time of a compilation.
#include <stddef.h>

#include "tests/codegen/cuda/host_api.h"

// ---- 1. The language.

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

extern "C" {
// Set by host_kernel.cc.
DuotoneHostVariables duotone_host_variables;
const DuotoneHostApi* duotone_host_api;
}

#define threadIdx duotone_host_variables.thread
#define blockIdx duotone_host_variables.block
#define blockDim duotone_host_variables.block_size
#define gridDim duotone_host_variables.grid_size
constexpr int warpSize = 32;

// Both are pointers here and arrays on a device.
#define DUOTONE_SHARED(type, name, count) \
  static int name##_site = 0;             \
  type* const name =                      \
      static_cast<type*>(duotone_host_api->shared(&name##_site, sizeof(type) * (count)))
#define DUOTONE_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(duotone_host_api->dynamic_shared())

// ---- 2. Functions that CUDA C++ knows without a header.

extern "C" {
float expf(float) noexcept, exp2f(float) noexcept, expm1f(float) noexcept;
float logf(float) noexcept, log2f(float) noexcept, log1pf(float) noexcept;
float sinf(float) noexcept, cosf(float) noexcept, tanf(float) noexcept, tanhf(float) noexcept;
float sqrtf(float) noexcept, powf(float, float) noexcept;
float erff(float) noexcept, erfcf(float) noexcept;
float fabsf(float) noexcept, floorf(float) noexcept, ceilf(float) noexcept, truncf(float) noexcept;
float rintf(float) noexcept, roundf(float) noexcept, fmodf(float, float) noexcept;
float fmaf(float, float, float) noexcept, copysignf(float, float) noexcept;
float fmaxf(float, float) noexcept, fminf(float, float) noexcept, ldexpf(float, int) noexcept;
float nextafterf(float, float) noexcept, nearbyintf(float) noexcept;
void sincosf(float, float*, float*) noexcept;
double exp(double) noexcept, expm1(double) noexcept, log(double) noexcept, log1p(double) noexcept;
double sin(double) noexcept, cos(double) noexcept, tanh(double) noexcept, sqrt(double) noexcept;
double pow(double, double) noexcept, fabs(double) noexcept;
double erf(double) noexcept, erfc(double) noexcept;
double floor(double) noexcept, ceil(double) noexcept, trunc(double) noexcept, rint(double) noexcept;
double round(double) noexcept, fmod(double, double) noexcept, fma(double, double, double) noexcept;
double fmax(double, double) noexcept, fmin(double, double) noexcept;
double copysign(double, double) noexcept, nextafter(double, double) noexcept;
void* memcpy(void*, const void*, size_t) noexcept;
void* memset(void*, int, size_t) noexcept;
}
inline bool isnan(float a) { return __builtin_isnan(a); }
inline bool isnan(double a) { return __builtin_isnan(a); }
inline bool isinf(float a) { return __builtin_isinf(a); }
inline bool isinf(double a) { return __builtin_isinf(a); }
inline bool isfinite(float a) { return __builtin_isfinite(a); }
inline bool isfinite(double a) { return __builtin_isfinite(a); }
inline int abs(int a) { return a < 0 ? -a : a; }
inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }

inline void __syncthreads() { duotone_host_api->barrier(); }
// Lanes of a warp run one after the other up to their next barrier or shuffle.
inline void __syncwarp(unsigned int = 0xffffffffu) { duotone_host_api->shuffle(0, -1); }
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace host {

inline int Lane() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) %
                          32u);
}

template <typename To, typename From>
To BitCast(From value) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

// Any value of up to 8 bytes.
template <typename T>
T Shuffle(T value, int source) {
  static_assert(sizeof(T) <= 8, "a shuffle moves up to 8 bytes");
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = duotone_host_api->shuffle(bits, source);
  memcpy(&value, &bits, sizeof(T));
  return value;
}

inline void FullMask(unsigned int mask) {
  if (mask != 0xffffffffu) duotone_host_api->fail("a warp function with a mask of some lanes");
}

// The lane that `lane` reads in a segment of `width` lanes; itself where that would be outside.
inline int SegmentLane(int target, int width) {
  const int first = Lane() / width * width;
  return target < first || target >= first + width ? Lane() : target;
}

}  // namespace host

template <typename T>
T __shfl_xor_sync(unsigned int mask, T value, int lanes, int width = 32) {
  host::FullMask(mask);
  return host::Shuffle(value, host::SegmentLane(host::Lane() ^ lanes, width));
}
template <typename T>
T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
  host::FullMask(mask);
  return host::Shuffle(value, host::SegmentLane(host::Lane() + static_cast<int>(delta), width));
}
template <typename T>
T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
  host::FullMask(mask);
  return host::Shuffle(value, host::SegmentLane(host::Lane() - static_cast<int>(delta), width));
}
template <typename T>
T __shfl_sync(unsigned int mask, T value, int lane, int width = 32) {
  host::FullMask(mask);
  return host::Shuffle(value, host::Lane() / width * width + (lane & (width - 1)));
}
inline unsigned int __ballot_sync(unsigned int mask, int predicate) {
  host::FullMask(mask);
  unsigned int votes = predicate != 0 ? 1u << host::Lane() : 0u;
  for (int lanes = 1; lanes < 32; lanes *= 2) votes |= __shfl_xor_sync(mask, votes, lanes);
  return votes;
}
inline int __any_sync(unsigned int mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned int mask, int predicate) {
  return __ballot_sync(mask, predicate == 0) == 0;
}

// Threads switch only at barriers and shuffles, so plain code is atomic.
template <typename T>
T atomicAnd(T* address, T value) {
  const T old = *address;
  *address = old & value;
  return old;
}
template <typename T>
T atomicOr(T* address, T value) {
  const T old = *address;
  *address = old | value;
  return old;
}
template <typename T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address = old + value;
  return old;
}
template <typename T>
T atomicExch(T* address, T value) {
  const T old = *address;
  *address = value;
  return old;
}
template <typename T>
T atomicCAS(T* address, T expected, T value) {
  const T old = *address;
  if (old == expected) *address = value;
  return old;
}

inline float __int_as_float(int value) { return host::BitCast<float>(value); }
inline int __float_as_int(float value) { return host::BitCast<int>(value); }
inline float __uint_as_float(unsigned int value) { return host::BitCast<float>(value); }
inline unsigned int __float_as_uint(float value) { return host::BitCast<unsigned int>(value); }
inline double __longlong_as_double(long long value) { return host::BitCast<double>(value); }
inline long long __double_as_longlong(double value) { return host::BitCast<long long>(value); }
inline unsigned int __umulhi(unsigned int a, unsigned int b) {
  return static_cast<unsigned int>(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __popc(unsigned int value) { return __builtin_popcount(value); }
inline int __clz(int value) {
  return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value));
}

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float a) { return expf(a); }
inline float __logf(float a) { return logf(a); }
inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
inline double rsqrt(double a) { return 1.0 / sqrt(a); }
template <typename T>
T __ldg(const T* address) {
  return *address;
}

// ---- 3. Instead of PTX.

namespace host {

// Bits of f16 and bf16, rounded to nearest even; f16 overflows to infinity, NaN stays NaN.
inline unsigned short F16FromFloat(float value) {
  const unsigned int bits = BitCast<unsigned int>(value);
  const unsigned int sign = bits >> 16 & 0x8000u;
  const unsigned int magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fffu;  // the NaN of the device's conversion
  if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // a subnormal result is a count of 2^-24, rounded by the sum
    const float count = BitCast<float>(magnitude) * 16777216.0f;
    return static_cast<unsigned short>(sign | static_cast<unsigned int>(nearbyintf(count)));
  }
  const unsigned int rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<unsigned short>(sign | (rounded - 0x38000000u) >> 13);
}
inline float F16ToFloat(unsigned short bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 0x3ff;
  float magnitude = 0;
  if (exponent == 31) {
    magnitude = mantissa != 0 ? __builtin_nanf("") : __builtin_inff();
  } else if (exponent == 0) {
    magnitude = ldexpf(static_cast<float>(mantissa), -24);
  } else {
    magnitude = ldexpf(static_cast<float>(mantissa | 0x400), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}
inline unsigned short BF16FromFloat(float value) {
  const unsigned int bits = BitCast<unsigned int>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline float BF16ToFloat(unsigned short bits) {
  return BitCast<float>(static_cast<unsigned int>(bits) << 16);
}

// Calls a kernel with the arguments that `arguments` point to, as cuLaunchKernel does, and returns
// how many it has; null only asks for the number.
template <size_t... I>
struct Indices {};
template <typename... Args, size_t... I>
void CallWith(void (*kernel)(Args...), void* const* arguments, Indices<I...>) {
  kernel(*static_cast<Args*>(arguments[I])...);
}
template <size_t count, size_t... I>
auto MakeIndices(Indices<I...> indices) {
  if constexpr (count == 0) {
    return indices;
  } else {
    return MakeIndices<count - 1>(Indices<count - 1, I...>());
  }
}
template <typename... Args>
int Call(void (*kernel)(Args...), void* const* arguments) {
  if (arguments != nullptr) CallWith(kernel, arguments, MakeIndices<sizeof...(Args)>(Indices<>()));
  return static_cast<int>(sizeof...(Args));
}

}  // namespace host

#endif  // DUOTONE_TESTS_CODEGEN_CUDA_HOST_CUDA_H_
