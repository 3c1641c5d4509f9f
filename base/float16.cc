#include "base/float16.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace duotone {
namespace {

#if defined(__x86_64__)
// F16C quiets NaNs, keeps their payload, rounds to nearest even and keeps subnormals, as ToF32 and
// ToF16 do.
__attribute__((target("avx,f16c"))) size_t WidenF16C(const F16* from, float* to, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
  }
  return i;
}

__attribute__((target("avx,f16c"))) size_t NarrowF16C(const float* from, F16* to, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 wide = _mm256_loadu_ps(from + i);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}

bool HasF16C() {
  // __builtin_cpu_supports also asks the operating system about AVX; clang 14 does not know "f16c".
  static const bool has = [] {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0 &&
           __builtin_cpu_supports("avx") != 0;
  }();
  return has;
}
#endif

}  // namespace

void ConvertToF32(const F16* from, float* to, size_t count) {
  size_t i = 0;
#if defined(__x86_64__)
  if (HasF16C()) i = WidenF16C(from, to, count);
#endif
  for (; i < count; ++i) to[i] = ToF32(from[i]);
}

void ConvertToF32(const BF16* from, float* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = ToF32(from[i]);
}

void ConvertFromF32(const float* from, F16* to, size_t count) {
  size_t i = 0;
#if defined(__x86_64__)
  if (HasF16C()) i = NarrowF16C(from, to, count);
#endif
  for (; i < count; ++i) to[i] = ToF16(from[i]);
}

void ConvertFromF32(const float* from, BF16* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = ToBF16(from[i]);
}

}  // namespace duotone
