// Pieces of the evaluation of ops that reduce: sums, maxima and minima in a fixed order.
//
// Order of summation (docs/numerics.md), the same however the work is split:
//   along a row     blocks of 1024 consecutive elements; within a block element i goes to lane i %
//   16, each lane adds its
//                   elements in order, the lanes are folded pairwise (8, 4, 2, 1); block sums are
//                   added as in a binary tree
//   down a column   blocks of 64 consecutive rows, each added in order; block sums are added as in
//   a binary tree
// so the error of a sum of n numbers grows with 64 + log2(n), not with n.
#ifndef DUOTONE_IR_EVAL_REDUCE_H_
#define DUOTONE_IR_EVAL_REDUCE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ir/eval.h"
#include "ir/eval_blocks.h"
#include "ir/type.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::ir {

inline constexpr int kRowBlock = 1024;    // elements per block along a row
inline constexpr int kLanes = 16;         // partial results within a block
inline constexpr int kColumns = 64;       // columns that are reduced together
inline constexpr int kRowsPerBlock = 64;  // rows per block down a column
inline constexpr int kMaxPairLevels =
    57;  // of a binary tree over at most kMaxElements = 2^56 terms

template <typename C>
C LoadElement(const TensorView& view, int64_t i) {
  C value;
  return *LoadBlock(view, i, 1, &value);
}
template <typename C>
void StoreElement(const TensorView& view, int64_t i, C value) {
  StoreBlock(view, i, 1, &value);
}

// Calls fn(C()) with the type in which floating-point `dtype` is computed: double for f64, else
// float.
template <typename Fn>
void WithFloatType(DType dtype, Fn&& fn) {
  if (dtype == DType::kF64) {
    fn(double());
  } else {
    fn(float());
  }
}

// What a reduction does with two partial results. NaN wins over every number in kMax and kMin.
enum class Combine { kSum, kMax, kMin };

template <Combine how, typename C>
inline C CombineTwo(C a, C b) {
  if constexpr (how == Combine::kSum) {
    if constexpr (std::is_same_v<C, int64_t>) {  // wraps
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    }
    return a + b;
  } else if constexpr (how == Combine::kMax) {
    return ((b > a) | (b != b)) ? b : a;
  } else {
    return ((b < a) | (b != b)) ? b : a;
  }
}

// The result over no elements.
template <Combine how, typename C>
constexpr C Identity() {
  using Limits = std::numeric_limits<C>;
  if constexpr (how == Combine::kSum) return C{0};
  if constexpr (how == Combine::kMax)
    return Limits::has_infinity ? -Limits::infinity() : Limits::min();
  return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

// Reduces at most kRowBlock elements.
template <Combine how, typename C>
C ReduceBlock(const C* x, int64_t count) {
  C lanes[kLanes];
  for (C& lane : lanes) lane = Identity<how, C>();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] = CombineTwo<how>(lanes[j], x[i + j]);
  }
  for (int j = 0; i < count; ++i, ++j) lanes[j] = CombineTwo<how>(lanes[j], x[i]);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] = CombineTwo<how>(lanes[j], lanes[j + width]);
  }
  return lanes[0];
}

// Combines a sequence of partial results as a binary tree does.
template <Combine how, typename C>
class PairwiseTree {
 public:
  void Add(C value) {
    ++count_;
    for (int64_t n = count_; (n & 1) == 0; n >>= 1)
      value = CombineTwo<how>(stack_[--depth_], value);
    stack_[depth_++] = value;
  }
  C Total() const {
    if (depth_ == 0) return Identity<how, C>();
    C total = stack_[depth_ - 1];
    for (int i = depth_ - 2; i >= 0; --i) total = CombineTwo<how>(stack_[i], total);
    return total;
  }

 private:
  C stack_[kMaxPairLevels];
  int depth_ = 0;
  int64_t count_ = 0;
};

// Reduces rows of at most kColumns elements element by element.
template <Combine how, typename C>
class ColumnReducer {
 public:
  explicit ColumnReducer(int columns) : columns_(columns) { Clear(); }

  void Add(const C* row) {
    if (columns_ == kColumns) {  // the usual case, with a fixed number of steps
      for (int c = 0; c < kColumns; ++c) sums_[c] = CombineTwo<how>(sums_[c], row[c]);
    } else {
      for (int c = 0; c < columns_; ++c) sums_[c] = CombineTwo<how>(sums_[c], row[c]);
    }
    if (++rows_ == kRowsPerBlock) Push();
  }
  // Call once, at the end.
  const C* Total() {
    if (rows_ > 0 || depth_ == 0) Push();
    while (depth_ > 1) Merge();
    return stack_[0];
  }

 private:
  void Clear() {
    for (int c = 0; c < columns_; ++c) sums_[c] = Identity<how, C>();
    rows_ = 0;
  }
  void Merge() {
    C* left = stack_[depth_ - 2];
    const C* right = stack_[depth_ - 1];
    for (int c = 0; c < columns_; ++c) left[c] = CombineTwo<how>(left[c], right[c]);
    --depth_;
  }
  void Push() {
    std::copy(sums_, sums_ + columns_, stack_[depth_++]);
    ++blocks_;
    for (int64_t n = blocks_; (n & 1) == 0; n >>= 1) Merge();
    Clear();
  }

  int columns_;
  int rows_ = 0;
  int depth_ = 0;
  int64_t blocks_ = 0;
  C sums_[kColumns];
  C stack_[kMaxPairLevels][kColumns];
};

// Elements first, first + stride, ... of `from` as C.
template <typename C>
const C* LoadStrided(const TensorView& from, int64_t first, int64_t stride, int64_t count,
                     C* buffer) {
  if (stride == 1) return LoadBlock(from, first, count, buffer);
  return WithDType(from.dtype, [&](auto dtype) -> const C* {
    const auto* source = from.as<const StorageOf<dtype.value>>() + first;
    for (int64_t i = 0; i < count; ++i) buffer[i] = FromStorage<dtype.value, C>(source[i * stride]);
    return buffer;
  });
}
template <typename C>
void StoreStrided(const TensorView& to, int64_t first, int64_t stride, int64_t count,
                  const C* values) {
  if (stride == 1) return StoreBlock(to, first, count, values);
  WithDType(to.dtype, [&](auto dtype) {
    auto* target = to.as<StorageOf<dtype.value>>() + first;
    for (int64_t i = 0; i < count; ++i) target[i * stride] = ToStorage<dtype.value>(values[i]);
  });
}

// A line of elements that an op reads several times in C. Short lines are read once into a buffer;
// longer ones are read again by every pass, so that no line needs memory of its own.
template <typename C>
class Line {
 public:
  Line(const TensorView& view, int64_t first, int64_t stride, int64_t size)
      : view_(view), first_(first), stride_(stride), size_(size) {
    if (size <= kRowBlock) whole_ = LoadStrided(view, first, stride, size, buffer_);
  }
  int64_t size() const { return size_; }
  // Elements [begin, begin + count), count <= kRowBlock; valid until the next call.
  const C* Block(int64_t begin, int64_t count) {
    if (whole_ != nullptr) return whole_ + begin;
    return LoadStrided(view_, first_ + begin * stride_, stride_, count, buffer_);
  }

 private:
  const TensorView& view_;
  int64_t first_;
  int64_t stride_;
  int64_t size_;
  const C* whole_ = nullptr;
  C buffer_[kRowBlock];
};

// Calls fn(begin, count) for each block of a line of `size` elements.
template <typename Fn>
void ForEachRowBlock(int64_t size, Fn&& fn) {
  for (int64_t begin = 0; begin < size; begin += kRowBlock) {
    fn(begin, std::min<int64_t>(kRowBlock, size - begin));
  }
}

// Reduces a row of `count` elements whose block [begin, begin + size) is block_values(begin, size).
template <Combine how, typename C, typename Fn>
C ReduceRow(int64_t count, Fn&& block_values) {
  if (count <= kRowBlock) return ReduceBlock<how, C>(block_values(int64_t{0}, count), count);
  PairwiseTree<how, C> tree;
  for (int64_t begin = 0; begin < count; begin += kRowBlock) {
    const int64_t size = std::min<int64_t>(kRowBlock, count - begin);
    tree.Add(ReduceBlock<how, C>(block_values(begin, size), size));
  }
  return tree.Total();
}

// A reduction of `shape` over `axes`, with neighbouring axes of one kind merged and axes of size 1
// left out. The innermost merged axis is kept apart: it is either reduced (rows) or not (columns).
struct ReduceGeometry {
  struct Axis {
    int64_t size;
    int64_t stride;
  };
  llvm::SmallVector<Axis, kMaxRank> kept;     // outermost first, without the innermost axis
  llvm::SmallVector<Axis, kMaxRank> reduced;  // outermost first, without the innermost axis
  bool inner_reduced = false;
  int64_t inner = 1;          // size of the innermost merged axis
  int64_t kept_count = 1;     // product of `kept`
  int64_t reduced_count = 1;  // product of `reduced`

  ReduceGeometry(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> axes);

  // Elements reduced into one result.
  int64_t terms() const { return inner_reduced ? reduced_count * inner : reduced_count; }
  int64_t results() const { return inner_reduced ? kept_count : kept_count * inner; }
  // Independent pieces of work: results, or blocks of kColumns neighbouring results.
  int64_t items() const {
    return inner_reduced ? kept_count : kept_count * ((inner + kColumns - 1) / kColumns);
  }
  static int64_t OffsetOf(int64_t index, llvm::ArrayRef<Axis> axes) {
    int64_t offset = 0;
    for (size_t i = axes.size(); i-- > 0;) {
      offset += index % axes[i].size * axes[i].stride;
      index /= axes[i].size;
    }
    return offset;
  }
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_EVAL_REDUCE_H_
