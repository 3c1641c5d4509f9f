// What every generated kernel is written in: element types, vectors of elements, elementwise
// functions as docs/numerics.md defines them, random numbers, reports of errors. C++17 and no CUDA
// header, so that NVRTC compiles it anywhere; tests compile it with the host's compiler too, with
// DUOTONE_HOST defined and CUDA's own functions supplied (tests/codegen/cuda/host_cuda.h).
//
//   types        half, bf16 (two bytes each), Vec<T, N>
//   memory       Load<N>, LoadIf<N>, Store, DUOTONE_SHARED, DUOTONE_DYNAMIC_SHARED
//   conversions  ToFloat, FromFloat<T>, Round<T>, OddFloat, Truncate<T>
//   arithmetic   Max, Min, Relu, Clamp, IsFinite, ...; names that end in Fast are approximations
//                whose errors vanish in the rounding to 16 bits
//   threads      Barrier, ShuffleXor, Shuffle, Ballot, LowestBit, AtomicAnd, AtomicOr
//   data         RandomState and its streams, ErrorRecord
#ifndef DUOTONE_PRELUDE_CUH_
#define DUOTONE_PRELUDE_CUH_

#define DUOTONE_DEVICE static __device__ __forceinline__

#ifndef DUOTONE_HOST
#define DUOTONE_SHARED(type, name, count) __shared__ type name[count]
#define DUOTONE_DYNAMIC_SHARED(type, name)                             \
  extern __shared__ __align__(128) unsigned char duotone_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(duotone_dynamic_shared)
#endif

// ---- Types

struct half {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};

__device__ constexpr int VectorAlignment(int bytes) { return bytes < 16 ? bytes : 16; }

// N consecutive elements; N is a power of two.
template <typename T, int N>
struct alignas(VectorAlignment(N * static_cast<int>(sizeof(T)))) Vec {
  T data[N];
  __device__ __forceinline__ T& operator[](int i) { return data[i]; }
  __device__ __forceinline__ const T& operator[](int i) const { return data[i]; }
};

// N elements from `from`, which is aligned to `A` elements; in accesses of up to 16 bytes.
template <int N, int A = N, typename T>
DUOTONE_DEVICE Vec<T, N> Load(const T* from) {
  constexpr int kAccess = A * sizeof(T) > 16 ? 16 / sizeof(T) : A;
  Vec<T, N> result;
#pragma unroll
  for (int i = 0; i < N; i += kAccess) {
    const Vec<T, kAccess> part = *reinterpret_cast<const Vec<T, kAccess>*>(from + i);
#pragma unroll
    for (int k = 0; k < kAccess; ++k) result[i + k] = part[k];
  }
  return result;
}

// Zeros, without an access, where the condition is false.
template <int N, int A = N, typename T>
DUOTONE_DEVICE Vec<T, N> LoadIf(bool condition, const T* from) {
  if (condition) return Load<N, A>(from);
  return Vec<T, N>{};
}

template <int A = 0, typename T, int N>
DUOTONE_DEVICE void Store(T* to, const Vec<T, N>& value) {
  constexpr int kAligned = A == 0 ? N : A;
  constexpr int kAccess = kAligned * sizeof(T) > 16 ? 16 / sizeof(T) : kAligned;
#pragma unroll
  for (int i = 0; i < N; i += kAccess) {
    Vec<T, kAccess> part;
#pragma unroll
    for (int k = 0; k < kAccess; ++k) part[k] = value[i + k];
    *reinterpret_cast<Vec<T, kAccess>*>(to + i) = part;
  }
}

template <typename T>
DUOTONE_DEVICE T LoadIf(bool condition, const T* from) {
  if (condition) return *from;
  return T{};
}

// ---- Bits

DUOTONE_DEVICE float FloatOfBits(unsigned int bits) { return __uint_as_float(bits); }
DUOTONE_DEVICE unsigned int BitsOfFloat(float value) { return __float_as_uint(value); }
DUOTONE_DEVICE float Infinity() { return FloatOfBits(0x7f800000u); }
DUOTONE_DEVICE float NaN() { return FloatOfBits(0x7fffffffu); }

// ---- Conversions: to nearest even, overflow to infinity, NaN stays NaN

DUOTONE_DEVICE float ToFloat(half value) {
#ifdef DUOTONE_HOST
  return host::F16ToFloat(value.bits);
#else
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#endif
}
DUOTONE_DEVICE float ToFloat(bf16 value) {
  return FloatOfBits(static_cast<unsigned int>(value.bits) << 16);
}
DUOTONE_DEVICE float ToFloat(float value) { return value; }

template <typename T>
struct FloatConversion;
template <>
struct FloatConversion<float> {
  DUOTONE_DEVICE float From(float value) { return value; }
};
template <>
struct FloatConversion<half> {
  DUOTONE_DEVICE half From(float value) {
    half result;
#ifdef DUOTONE_HOST
    result.bits = host::F16FromFloat(value);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
#endif
    return result;
  }
};
template <>
struct FloatConversion<bf16> {
  DUOTONE_DEVICE bf16 From(float value) {
    bf16 result;
#if !defined(DUOTONE_HOST) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
#else
    const unsigned int bits = BitsOfFloat(value);
    const unsigned int rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    result.bits = static_cast<unsigned short>(value != value ? 0x7fffu : rounded);
#endif
    return result;
  }
};
template <typename T>
DUOTONE_DEVICE T FromFloat(float value) {
  return FloatConversion<T>::From(value);
}

// The value as it would be read back after a store.
template <typename T>
DUOTONE_DEVICE float Round(float value) {
  return ToFloat(FromFloat<T>(value));
}

// Rounded to odd, so that a second rounding to 16 bits gives what one rounding would.
DUOTONE_DEVICE float OddFloat(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || value != value) return nearest;
  unsigned int bits = BitsOfFloat(nearest);
  if (fabs(back) > fabs(value)) --bits;
  return FloatOfBits(bits | 1u);
}
DUOTONE_DEVICE float OddFloat(long long value) {
  // 40 bits are exact in f64 together with one sticky bit below them.
  const unsigned long long magnitude =
      value < 0 ? 0ull - static_cast<unsigned long long>(value)
                : static_cast<unsigned long long>(value);
  const unsigned long long low = magnitude & 0xffffffull;
  const unsigned long long kept = magnitude >> 48 != 0
                                      ? (magnitude & ~0xffffffull) | (low != 0 ? 0x800000ull : 0ull)
                                      : magnitude;
  const double wide = static_cast<double>(kept);
  return OddFloat(value < 0 ? -wide : wide);
}
DUOTONE_DEVICE float OddFloat(int value) { return OddFloat(static_cast<double>(value)); }

// Towards zero, saturating; NaN gives 0.
template <typename T, typename From>
DUOTONE_DEVICE T TruncateBetween(From value, From low, From past_high, T lowest, T highest) {
  if (value != value) return 0;
  if (!(value > low)) return lowest;
  if (value >= past_high) return highest;
  return static_cast<T>(value);
}
template <typename From>
DUOTONE_DEVICE int TruncateToInt(From value) {
  return TruncateBetween<int, From>(value, -2147483648.0f, 2147483648.0f, -2147483647 - 1,
                                    2147483647);
}
template <typename From>
DUOTONE_DEVICE long long TruncateToLong(From value) {
  return TruncateBetween<long long, From>(value, -9223372036854775808.0f, 9223372036854775808.0f,
                                          -9223372036854775807ll - 1, 9223372036854775807ll);
}
template <typename From>
DUOTONE_DEVICE int TruncateToByte(From value) {
  return TruncateBetween<int, From>(value, 0.0f, 256.0f, 0, 255);
}

// ---- Integer arithmetic: wraps

DUOTONE_DEVICE int Add(int a, int b) {
  return static_cast<int>(static_cast<unsigned int>(a) + static_cast<unsigned int>(b));
}
DUOTONE_DEVICE int Subtract(int a, int b) {
  return static_cast<int>(static_cast<unsigned int>(a) - static_cast<unsigned int>(b));
}
DUOTONE_DEVICE int Multiply(int a, int b) {
  return static_cast<int>(static_cast<unsigned int>(a) * static_cast<unsigned int>(b));
}
DUOTONE_DEVICE long long Add(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) +
                                static_cast<unsigned long long>(b));
}
DUOTONE_DEVICE long long Subtract(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) -
                                static_cast<unsigned long long>(b));
}
DUOTONE_DEVICE long long Multiply(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) *
                                static_cast<unsigned long long>(b));
}
template <typename T>
DUOTONE_DEVICE T Negate(T a) {
  return Subtract(T{0}, a);
}
// Truncates; 0 for a division by 0; the smallest number divided by -1 is itself.
template <typename T>
DUOTONE_DEVICE T Divide(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return Negate(a);
  return a / b;
}
template <typename T>
DUOTONE_DEVICE T AbsInt(T a) {
  return a < 0 ? Negate(a) : a;
}

// ---- Elementwise functions of any compute type

// A NaN in either operand is the result.
template <typename T>
DUOTONE_DEVICE T Max(T a, T b) {
  return a > b || a != a ? a : b;
}
template <typename T>
DUOTONE_DEVICE T Min(T a, T b) {
  return a < b || a != a ? a : b;
}
// NaN passes through; -0 becomes 0.
template <typename T>
DUOTONE_DEVICE T Relu(T x) {
  return x <= T{0} ? T{0} : x;
}
template <typename T>
DUOTONE_DEVICE T Clamp(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}
template <typename T>
DUOTONE_DEVICE bool IsFinite(T x) {
  return x - x == T{0};
}

// ---- Elementwise functions of float and double

DUOTONE_DEVICE float Exp(float x) { return expf(x); }
DUOTONE_DEVICE double Exp(double x) { return exp(x); }
DUOTONE_DEVICE float Log(float x) { return logf(x); }
DUOTONE_DEVICE double Log(double x) { return log(x); }
DUOTONE_DEVICE float Log1p(float x) { return log1pf(x); }
DUOTONE_DEVICE double Log1p(double x) { return log1p(x); }
DUOTONE_DEVICE float Sqrt(float x) { return sqrtf(x); }
DUOTONE_DEVICE double Sqrt(double x) { return sqrt(x); }
DUOTONE_DEVICE float Tanh(float x) { return tanhf(x); }
DUOTONE_DEVICE double Tanh(double x) { return tanh(x); }
DUOTONE_DEVICE float Erf(float x) { return erff(x); }
DUOTONE_DEVICE double Erf(double x) { return erf(x); }
DUOTONE_DEVICE float Erfc(float x) { return erfcf(x); }
DUOTONE_DEVICE double Erfc(double x) { return erfc(x); }
DUOTONE_DEVICE float Pow(float a, float b) { return powf(a, b); }
DUOTONE_DEVICE double Pow(double a, double b) { return pow(a, b); }
DUOTONE_DEVICE float Abs(float x) { return fabsf(x); }
DUOTONE_DEVICE double Abs(double x) { return fabs(x); }

// Two roundings, as in the reference evaluator.
template <typename T>
DUOTONE_DEVICE T Rsqrt(T x) {
  return T{1} / Sqrt(x);
}
// exp never sees a positive number, so nothing overflows.
template <typename T>
DUOTONE_DEVICE T Sigmoid(T x) {
  const T e = Exp(-Abs(x));
  return (x < T{0} ? e : T{1}) / (T{1} + e);
}
template <typename T>
DUOTONE_DEVICE T Softplus(T x) {
  return (x > T{0} ? x : T{0}) + Log1p(Exp(-Abs(x)));
}
template <typename T>
DUOTONE_DEVICE T Silu(T x) {
  return x * Sigmoid(x);
}
template <typename T>
DUOTONE_DEVICE T SiluGrad(T g, T x) {
  const T s = Sigmoid(x);
  return g * (s * (T{1} + x * (T{1} - s)));
}

template <typename T>
struct GeluNumbers {
  static constexpr T kSqrtHalf = static_cast<T>(0.70710678118654752440);
  static constexpr T kSqrtTwoOverPi = static_cast<T>(0.79788456080286535588);
  static constexpr T kInvSqrtTwoPi = static_cast<T>(0.39894228040143267794);
  static constexpr T kCubic = static_cast<T>(0.044715);
  static constexpr T kThreeCubic = static_cast<T>(3 * 0.044715);
};
template <typename T>
DUOTONE_DEVICE T Gelu(T x) {
  return T(0.5) * x * Erfc(-x * GeluNumbers<T>::kSqrtHalf);
}
template <typename T>
DUOTONE_DEVICE T GeluTanh(T x) {
  using N = GeluNumbers<T>;
  return T(0.5) * x * (T{1} + Tanh(N::kSqrtTwoOverPi * (x + N::kCubic * x * x * x)));
}
template <typename T>
DUOTONE_DEVICE T GeluGrad(T g, T x) {
  using N = GeluNumbers<T>;
  const T distribution = T(0.5) * Erfc(-x * N::kSqrtHalf);
  const T density = N::kInvSqrtTwoPi * Exp(T(-0.5) * x * x);
  return g * (distribution + x * density);
}
template <typename T>
DUOTONE_DEVICE T GeluTanhGrad(T g, T x) {
  using N = GeluNumbers<T>;
  const T t = Tanh(N::kSqrtTwoOverPi * (x + N::kCubic * x * x * x));
  const T slope = N::kSqrtTwoOverPi * (T{1} + N::kThreeCubic * x * x);
  // Where tanh is 1 its slope is 0, however large the inner slope.
  const T bend = t * t < T{1} ? T(0.5) * x * (T{1} - t * t) * slope : T{0};
  return g * (T(0.5) * (T{1} + t) + bend);
}

// ---- Approximations, for results that are rounded to 16 bits; bounds stand in docs/numerics.md

DUOTONE_DEVICE float ExpFast(float x) { return __expf(x); }
// a / b for b below 2^126; 0 for b above, where a is finite.
DUOTONE_DEVICE float DivideFast(float a, float b) { return __fdividef(a, b); }
DUOTONE_DEVICE float SigmoidFast(float x) { return DivideFast(1.0f, 1.0f + ExpFast(-x)); }
DUOTONE_DEVICE float SiluFast(float x) { return x * SigmoidFast(x); }
DUOTONE_DEVICE float SiluGradFast(float g, float x) {
  const float s = SigmoidFast(x);
  return g * (s * (1.0f + x * (1.0f - s)));
}
DUOTONE_DEVICE float TanhFast(float x) {
  const float square = x * x;
  const float series =
      x + x * square * (-0.333333333f + square * (0.133333333f - square * 0.0539682540f));
  const float magnitude = 1.0f - DivideFast(2.0f, 1.0f + ExpFast(2.0f * fabsf(x)));
  return square < 0.0625f ? series : copysignf(magnitude, x);
}
// The normal distribution function by formula 26.2.17 of Abramowitz and Stegun, Handbook of
// Mathematical Functions, 1964; `bell` is exp(-x*x/2).
DUOTONE_DEVICE float NormalFast(float x, float bell) {
  const float t = DivideFast(1.0f, 1.0f + 0.2316419f * fabsf(x));
  const float series =
      t * (0.319381530f +
           t * (-0.356563782f + t * (1.781477937f + t * (-1.821255978f + t * 1.330274429f))));
  const float tail = 0.39894228f * bell * series;
  return x < 0.0f ? tail : 1.0f - tail;
}
DUOTONE_DEVICE float GeluFast(float x) { return x * NormalFast(x, ExpFast(-0.5f * x * x)); }
DUOTONE_DEVICE float GeluGradFast(float g, float x) {
  const float bell = ExpFast(-0.5f * x * x);
  return g * (NormalFast(x, bell) + x * (0.39894228f * bell));
}
// (1 + tanh(u)) / 2 is sigmoid(2*u), which loses nothing for negative x.
DUOTONE_DEVICE float GeluTanhFast(float x) {
  return x * SigmoidFast(1.5957691216f * (x + 0.044715f * x * x * x));
}
DUOTONE_DEVICE float GeluTanhGradFast(float g, float x) {
  const float s = SigmoidFast(1.5957691216f * (x + 0.044715f * x * x * x));
  const float slope = 1.5957691216f * (1.0f + 0.134145f * x * x);
  const float bend = s * (1.0f - s);
  return g * (s + (bend > 0.0f ? x * bend * slope : bend));
}

// ---- Threads

DUOTONE_DEVICE void Barrier() { __syncthreads(); }
template <typename T>
DUOTONE_DEVICE T ShuffleXor(T value, int lanes) {
  return __shfl_xor_sync(0xffffffffu, value, lanes);
}
template <typename T>
DUOTONE_DEVICE T Shuffle(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
// Bit i is the condition of lane i.
DUOTONE_DEVICE unsigned int Ballot(bool condition) { return __ballot_sync(0xffffffffu, condition); }
// The number of the lowest bit that is set; -1 where none is.
DUOTONE_DEVICE int LowestBit(unsigned int bits) {
  return 31 - __clz(static_cast<int>(bits & (0u - bits)));
}
DUOTONE_DEVICE void AtomicAnd(int* word, int value) { atomicAnd(word, value); }
DUOTONE_DEVICE void AtomicOr(int* word, int value) { atomicOr(word, value); }

// ---- Errors in the data: the first that is reported stays

struct ErrorRecord {
  int claimed;
  int step;
  int label;
  int reserved;
  long long value;
  long long limit;
};
static __device__ __noinline__ void ReportError(ErrorRecord* errors, int step, int label,
                                                long long value, long long limit) {
  if (atomicCAS(&errors->claimed, 0, 1) != 0) return;
  errors->step = step;
  errors->label = label;
  errors->value = value;
  errors->limit = limit;
}
// True for an index in [0, limit); reports others, unless nobody asked for them.
template <typename T>
DUOTONE_DEVICE bool CheckIndex(T index, long long limit, bool wanted, ErrorRecord* errors, int step,
                               int label) {
  const bool fits = index >= 0 && index < limit;
  if (!fits && wanted) ReportError(errors, step, label, index, limit);
  return fits;
}

// ---- Random numbers: Philox4x32-10, keyed as base/philox.h says

struct RandomState {
  unsigned long long seed;
  long long step;
  long long micro_batch;
};
// What is the same for all elements of one node.
struct RandomStream {
  unsigned int key0;
  unsigned int key1;
  unsigned int step;
  unsigned long long stream;
};
DUOTONE_DEVICE unsigned long long Mix64(unsigned long long value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}
DUOTONE_DEVICE RandomStream MakeRandomStream(const RandomState* state, int id_low, int id_high) {
  const unsigned long long id = static_cast<unsigned int>(id_low) |
                                static_cast<unsigned long long>(static_cast<unsigned int>(id_high))
                                    << 32;
  const unsigned long long step = static_cast<unsigned long long>(state->step);
  const unsigned long long node =
      Mix64(id + 0x9e3779b97f4a7c15ull *
                     (static_cast<unsigned long long>(state->micro_batch) + 1));
  RandomStream stream;
  stream.key0 = static_cast<unsigned int>(state->seed);
  stream.key1 = static_cast<unsigned int>(state->seed >> 32);
  stream.step = static_cast<unsigned int>(step);
  stream.stream = Mix64(node ^ (step >> 32));
  return stream;
}
// The words of elements 4*block to 4*block + 3.
DUOTONE_DEVICE Vec<unsigned int, 4> RandomBlock(const RandomStream& stream,
                                                unsigned long long block) {
  const unsigned long long high = stream.stream + (block >> 32);
  unsigned int c0 = static_cast<unsigned int>(block);
  unsigned int c1 = stream.step;
  unsigned int c2 = static_cast<unsigned int>(high);
  unsigned int c3 = static_cast<unsigned int>(high >> 32);
  unsigned int key0 = stream.key0;
  unsigned int key1 = stream.key1;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned int high0 = __umulhi(0xD2511F53u, c0);
    const unsigned int high1 = __umulhi(0xCD9E8D57u, c2);
    const unsigned int low0 = 0xD2511F53u * c0;
    const unsigned int low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ key0;
    c1 = low1;
    c2 = high0 ^ c3 ^ key1;
    c3 = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return Vec<unsigned int, 4>{{c0, c1, c2, c3}};
}
// The words of N elements from `element` on, a multiple of 4 like N.
template <int N>
DUOTONE_DEVICE Vec<unsigned int, N> RandomWords(const RandomStream& stream,
                                                unsigned long long element) {
  Vec<unsigned int, N> words;
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const Vec<unsigned int, 4> block = RandomBlock(stream, (element + i) / 4);
#pragma unroll
    for (int k = 0; k < 4; ++k) words[i + k] = block[k];
  }
  return words;
}
DUOTONE_DEVICE unsigned int RandomWord(const RandomStream& stream, unsigned long long element) {
  const Vec<unsigned int, 4> block = RandomBlock(stream, element / 4);
  const unsigned int low = (element & 1) != 0 ? block[1] : block[0];
  const unsigned int high = (element & 1) != 0 ? block[3] : block[2];
  return (element & 2) != 0 ? high : low;
}
DUOTONE_DEVICE float UniformOfWord(unsigned int word) {
  return static_cast<float>(word >> 8) * 5.9604644775390625e-8f;
}
// On [low, high), below high where low + u * (high - low) rounds up to it; each operation rounds.
DUOTONE_DEVICE float UniformBetween(unsigned int word, float low, float high) {
  const float value = __fadd_rn(low, __fmul_rn(UniformOfWord(word), __fsub_rn(high, low)));
  return value < high ? value : nextafterf(high, low);
}
// sin or cos of an angle in [0, 2*pi], by the quadrant and polynomials on [-pi/4, pi/4]: errors below
// 2^-22. (The built-in functions reduce any angle, for which they need local memory.)
DUOTONE_DEVICE float SinOrCos(float angle, bool sine) {
  const int quadrant = static_cast<int>(angle * 0.636619772f + 0.5f);
  float r = __fmaf_rn(static_cast<float>(-quadrant), 1.5707963705062866f, angle);
  r = __fmaf_rn(static_cast<float>(quadrant), 4.371139000186241e-8f, r);
  const float square = r * r;
  const float s =
      r + r * square *
              (-1.6666654611e-1f + square * (8.3321608736e-3f - square * 1.9515295891e-4f));
  const float c = 1.0f - 0.5f * square +
                  square * square *
                      (4.1666645683e-2f + square * (-1.3887316255e-3f + square * 2.4433157118e-5f));
  const bool swap = ((quadrant & 1) != 0) == sine;
  const float value = swap ? c : s;
  const int turned = sine ? quadrant : quadrant + 1;
  return (turned & 2) != 0 ? -value : value;
}
// The even or odd one of two normal numbers by Box and Muller from the words of an element pair.
DUOTONE_DEVICE float NormalOfWords(unsigned int word0, unsigned int word1, bool odd) {
  const float u1 = static_cast<float>((word0 >> 8) + 1) * 5.9604644775390625e-8f;
  const float radius = sqrtf(__fmul_rn(-2.0f, logf(u1)));
  const float angle = __fmul_rn(6.283185307179586f, UniformOfWord(word1));
  return __fmul_rn(radius, SinOrCos(angle, odd));
}
DUOTONE_DEVICE float RandomNormal(const RandomStream& stream, unsigned long long element,
                                  float mean, float stddev) {
  const Vec<unsigned int, 4> block = RandomBlock(stream, element / 4);
  const bool second = (element & 2) != 0;
  return __fadd_rn(mean, __fmul_rn(stddev, NormalOfWords(second ? block[2] : block[0],
                                                         second ? block[3] : block[1],
                                                         (element & 1) != 0)));
}

// ---- Scalars of a training step, in f64, rounded once

struct LossScale {
  float scale;
  int tracker;
};
// PyTorch's GradScaler arithmetic; see ir/ops_optimizer.cc.
DUOTONE_DEVICE LossScale UpdateLossScale(float scale, int tracker, bool ok, double growth,
                                         double backoff, long long interval, double min_scale,
                                         double max_scale) {
  if (!ok) {
    scale = static_cast<float>(static_cast<double>(scale) * backoff);
    tracker = 0;
  } else if (static_cast<long long>(tracker) + 1 == interval) {
    const float grown = static_cast<float>(static_cast<double>(scale) * growth);
    if (IsFinite(grown)) scale = grown;
    tracker = 0;
  } else if (tracker < 2147483647) {
    ++tracker;
  }
  if (min_scale > 0.0 && static_cast<double>(scale) < min_scale) {
    scale = static_cast<float>(min_scale);
  }
  if (static_cast<double>(scale) > max_scale) scale = static_cast<float>(max_scale);
  return LossScale{scale, tracker};
}

DUOTONE_DEVICE double WarmUp(long long step, double base, long long warmup) {
  return base * (static_cast<double>(step) + 1.0) / static_cast<double>(warmup);
}
DUOTONE_DEVICE double ScheduleTime(long long step, long long warmup, long long total) {
  return static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
}
DUOTONE_DEVICE float ConstantRate(long long step, double base, long long warmup) {
  if (step < 0) step = 0;
  return static_cast<float>(step < warmup ? WarmUp(step, base, warmup) : base);
}
DUOTONE_DEVICE float LinearRate(long long step, double base, double last, long long warmup,
                                long long total) {
  if (step < 0) step = 0;
  if (step < warmup) return static_cast<float>(WarmUp(step, base, warmup));
  const double t = ScheduleTime(step, warmup, total);
  return static_cast<float>(t >= 1.0 ? last : base + (last - base) * t);
}
DUOTONE_DEVICE float CosineRate(long long step, double base, double last, long long warmup,
                                long long total) {
  if (step < 0) step = 0;
  if (step < warmup) return static_cast<float>(WarmUp(step, base, warmup));
  const double t = ScheduleTime(step, warmup, total);
  if (t >= 1.0) return static_cast<float>(last);
  return static_cast<float>(last + (base - last) * 0.5 * (1.0 + cos(3.14159265358979323846 * t)));
}

#endif  // DUOTONE_PRELUDE_CUH_
