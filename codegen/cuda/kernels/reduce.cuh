// Reductions over the threads of a warp, of a part of one, or of several warps, in a fixed order:
// the same threads with the same values give the same bits. All threads of the block take part.
//
//   combining    Sum, Greatest, Least, First
//   along a row  Best, ReduceThreads
//   down columns Filled, ReduceGroups
//   finishing    Finish
#ifndef DUOTONE_REDUCE_CUH_
#define DUOTONE_REDUCE_CUH_

#include "duotone/prelude.cuh"

// ---- How two partial results are combined. A NaN in either is the result of Greatest and Least.

struct Sum {
  DUOTONE_DEVICE float Of(float a, float b) { return a + b; }
  DUOTONE_DEVICE double Of(double a, double b) { return a + b; }
  DUOTONE_DEVICE long long Of(long long a, long long b) { return Add(a, b); }
};
struct Greatest {
  template <typename T>
  DUOTONE_DEVICE T Of(T a, T b) {
    return Max(a, b);
  }
};
struct Least {
  template <typename T>
  DUOTONE_DEVICE T Of(T a, T b) {
    return Min(a, b);
  }
};

// A greatest element and where it is; NaN counts as the greatest, the first of equals wins. The
// index 2147483647 stands for no element.
template <typename T>
struct Best {
  T value;
  int index;
};
struct First {
  template <typename T>
  DUOTONE_DEVICE Best<T> Of(const Best<T>& a, const Best<T>& b) {
    const bool equal = a.value == b.value || (a.value != a.value && b.value != b.value);
    const bool greater = b.value > a.value || (b.value != b.value && a.value == a.value);
    return greater || (equal && b.index < a.index) ? b : a;
  }
};
template <typename T>
DUOTONE_DEVICE Best<T> BestOf(T value, int index) {
  return Best<T>{value, index};
}
template <typename T>
DUOTONE_DEVICE Best<T> ShuffleXor(const Best<T>& best, int lanes) {
  return Best<T>{ShuffleXor(best.value, lanes), ShuffleXor(best.index, lanes)};
}

// ---- Threads

// Combines `value` over each group of kThreads neighbouring threads, a power of two; every thread
// of the group gets the result. Groups of several warps exchange through `exchange`, one element
// per warp of the block, which nothing may write again before the block's next barrier but one.
template <typename How, int kThreads, typename T>
DUOTONE_DEVICE T ReduceThreads(T value, T* exchange) {
  constexpr int kLanes = kThreads < 32 ? kThreads : 32;
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    value = How::Of(value, ShuffleXor(value, lanes));
  }
  constexpr int kWarps = kThreads / 32;
  if constexpr (kWarps > 1) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x % 32 == 0) exchange[warp] = value;
    Barrier();
    const int first = warp / kWarps * kWarps;
    value = exchange[first];
#pragma unroll
    for (int i = 1; i < kWarps; ++i) value = How::Of(value, exchange[first + i]);
  }
  return value;
}
template <typename How, int kThreads, typename T>
DUOTONE_DEVICE T ReduceThreads(T value) {
  return ReduceThreads<How, kThreads, T>(value, nullptr);
}

// ---- Columns

template <int N, typename T>
DUOTONE_DEVICE Vec<T, N> Filled(T value) {
  Vec<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result[i] = value;
  return result;
}

// Combines the vectors of the kGroups threads with equal place in their groups of kThreads, in the
// order of the groups; the threads of the first group get the result. `exchange` has room for a
// vector of every thread.
template <typename How, int kThreads, int kGroups, typename T, int N>
DUOTONE_DEVICE Vec<T, N> ReduceGroups(Vec<T, N> value, T* exchange) {
  if constexpr (kGroups > 1) {
    Barrier();
    // Element i of all threads together, so that neighbours use neighbouring banks.
#pragma unroll
    for (int i = 0; i < N; ++i) exchange[i * kThreads * kGroups + threadIdx.x] = value[i];
    Barrier();
    if (threadIdx.x < kThreads) {
      for (int group = 1; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          value[i] = How::Of(
              value[i], exchange[i * kThreads * kGroups + group * kThreads + threadIdx.x]);
        }
      }
    }
  }
  return value;
}

// ---- Second stages

// One result array of a finish launch: result[i] = the combination of partial[c * elements + i] for
// c < chunks. Its blocks of 256 threads are those from first_block on; each has 32 elements, for
// each of which 8 threads combine an eighth of the chunks each.
struct FinishJob {
  int first_block;
  int partial;  // in the table of partial results
  int result;   // in the table of results
  int flag;     // in the table of flags; -1: none is cleared where a result is not finite
  int variant;
  double count;  // what sums are divided by
  long long elements;
  long long chunks;
};

template <typename To>
struct Finished {
  DUOTONE_DEVICE To Of(long long value) { return static_cast<To>(value); }
  DUOTONE_DEVICE To Of(float value) { return static_cast<To>(value); }
  DUOTONE_DEVICE To Of(double value) { return static_cast<To>(value); }
};
template <>
struct Finished<half> {
  DUOTONE_DEVICE half Of(float value) { return FromFloat<half>(value); }
  DUOTONE_DEVICE half Of(double value) { return FromFloat<half>(OddFloat(value)); }
};
template <>
struct Finished<bf16> {
  DUOTONE_DEVICE bf16 Of(float value) { return FromFloat<bf16>(value); }
  DUOTONE_DEVICE bf16 Of(double value) { return FromFloat<bf16>(OddFloat(value)); }
};
DUOTONE_DEVICE bool IsFiniteStored(half value) { return IsFinite(ToFloat(value)); }
DUOTONE_DEVICE bool IsFiniteStored(bf16 value) { return IsFinite(ToFloat(value)); }
DUOTONE_DEVICE bool IsFiniteStored(float value) { return IsFinite(value); }
DUOTONE_DEVICE bool IsFiniteStored(double value) { return IsFinite(value); }
template <typename T>
DUOTONE_DEVICE bool IsFiniteStored(T) {
  return true;
}

// Combines chunks [begin, end) in blocks of 32, so that no long chain of roundings arises.
template <typename How, typename T>
DUOTONE_DEVICE T CombineChunks(const T* partial, long long elements, long long begin, long long end,
                               T identity) {
  T total = identity;
  for (long long first = begin; first < end; first += 32) {
    const int count = static_cast<int>(end - first < 32 ? end - first : 32);
    T sum = identity;
#pragma unroll 8
    for (int i = 0; i < count; ++i) sum = How::Of(sum, partial[(first + i) * elements]);
    total = How::Of(total, sum);
  }
  return total;
}

template <typename How, typename T, typename Stored>
DUOTONE_DEVICE void Finish(const FinishJob& job, const void* partials, void* result, int* flag,
                           T identity, T* exchange) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int part = static_cast<int>(threadIdx.x) / 32;
  const long long element =
      static_cast<long long>(static_cast<int>(blockIdx.x) - job.first_block) * 32 + lane;
  const long long per_part = (job.chunks + 7) / 8;
  const long long begin = per_part * part;
  const long long end = begin + per_part < job.chunks ? begin + per_part : job.chunks;
  T value = identity;
  if (element < job.elements) {
    value = CombineChunks<How>(static_cast<const T*>(partials) + element, job.elements, begin, end,
                               identity);
  }
  exchange[threadIdx.x] = value;
  Barrier();
  if (part != 0 || element >= job.elements) return;
  for (int i = 1; i < 8; ++i) value = How::Of(value, exchange[32 * i + lane]);
  if (job.count != 1.0) value = static_cast<T>(value / static_cast<T>(job.count));
  const Stored stored = Finished<Stored>::Of(value);
  static_cast<Stored*>(result)[element] = stored;
  if (flag != nullptr && !IsFiniteStored(stored)) AtomicAnd(flag, 0);
}

#endif  // DUOTONE_REDUCE_CUH_
