#include <algorithm>
#include <atomic>

#include "base/float16.h"
#include "base/integer.h"
#include "base/status.h"
#include "oneapi/dnnl/dnnl.h"
#include "runtime/cpu/matmul.h"

// oneDNN divides its work with OpenMP. These two functions of its run time library set, for the
// calling thread only, how many threads that may be.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int count);
}

namespace duotone::runtime {
namespace {

// Elements that are converted in one block.
constexpr int64_t kConvertBlock = 16384;
// Blocks of the result have kMinRows to kMaxRows rows; products with fewer than kWantedBlocks of
// them are cut along columns too, into kMinColumns or more.
constexpr int64_t kMaxRows = 128;
constexpr int64_t kMinRows = 64;
constexpr int64_t kWantedBlocks = 8;
constexpr int64_t kMinColumns = 64;

// Library calls made while this lives run on the calling thread alone.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

void Widen(DType dtype, const void* from, float* to, int64_t begin, int64_t end) {
  const size_t count = static_cast<size_t>(end - begin);
  if (dtype == DType::kF16) {
    ConvertToF32(static_cast<const F16*>(from) + begin, to + begin, count);
  } else {
    ConvertToF32(static_cast<const BF16*>(from) + begin, to + begin, count);
  }
}

void Narrow(DType dtype, const float* from, void* to, int64_t begin, int64_t end) {
  const size_t count = static_cast<size_t>(end - begin);
  if (dtype == DType::kF16) {
    ConvertFromF32(from + begin, static_cast<F16*>(to) + begin, count);
  } else {
    ConvertFromF32(from + begin, static_cast<BF16*>(to) + begin, count);
  }
}

// How the result is cut: by its shape alone, so that the bits do not depend on the number of
// threads.
struct Blocks {
  int64_t rows = 0;  // of one block
  int64_t columns = 0;
  int64_t down = 0;  // blocks per matrix
  int64_t across = 0;

  explicit Blocks(const MatMul& mm) {
    rows = std::clamp(CeilDiv(CeilDiv(mm.m, kWantedBlocks), 16) * 16, kMinRows, kMaxRows);
    down = CeilDiv(mm.m, rows);
    const int64_t wanted = CeilDiv(kWantedBlocks, std::max<int64_t>(1, down * mm.batch));
    columns = std::max(kMinColumns, CeilDiv(CeilDiv(mm.n, wanted), 16) * 16);
    across = CeilDiv(mm.n, columns);
  }
};

}  // namespace

absl::Status RunMatMul(const MatMul& mm, const MatMulData& data, ThreadPool& pool) {
  if (mm.batch == 0 || mm.m == 0 || mm.n == 0) return absl::OkStatus();
  // Operands in f32: elements of all matrices, each converted once.
  const int64_t size_a = data.wide_a ? (mm.batch - 1) * mm.stride_a + mm.m * mm.k : 0;
  const int64_t size_b = data.wide_b ? (mm.batch - 1) * mm.stride_b + mm.k * mm.n : 0;
  const int64_t blocks_a = CeilDiv(size_a, kConvertBlock);
  pool.ParallelFor(blocks_a + CeilDiv(size_b, kConvertBlock), [&](int64_t i) {
    const bool is_a = i < blocks_a;
    const int64_t begin = (is_a ? i : i - blocks_a) * kConvertBlock;
    const int64_t end = std::min(begin + kConvertBlock, is_a ? size_a : size_b);
    Widen(is_a ? data.dtype_a : data.dtype_b, is_a ? data.a : data.b,
          is_a ? data.wide_a : data.wide_b, begin, end);
  });

  const float* a = data.wide_a ? data.wide_a : static_cast<const float*>(data.a);
  const float* b = data.wide_b ? data.wide_b : static_cast<const float*>(data.b);
  float* c = data.wide_result ? data.wide_result : static_cast<float*>(data.result);
  const int64_t lda = mm.transpose_a ? mm.m : mm.k;
  const int64_t ldb = mm.transpose_b ? mm.k : mm.n;
  const Blocks blocks(mm);
  std::atomic<int> failure{dnnl_success};
  pool.ParallelFor(mm.batch * blocks.down * blocks.across, [&](int64_t i) {
    const int64_t column = i % blocks.across * blocks.columns;
    const int64_t row = i / blocks.across % blocks.down * blocks.rows;
    const int64_t matrix = i / blocks.across / blocks.down;
    const int64_t rows = std::min(blocks.rows, mm.m - row);
    const int64_t columns = std::min(blocks.columns, mm.n - column);
    const float* block_a = a + matrix * mm.stride_a + (mm.transpose_a ? row : row * lda);
    const float* block_b = b + matrix * mm.stride_b + (mm.transpose_b ? column * ldb : column);
    const int64_t offset = matrix * mm.stride_result + row * mm.n + column;
    if (mm.k > 0) {
      OneThread one_thread;
      const dnnl_status_t status =
          dnnl_sgemm(mm.transpose_a ? 'T' : 'N', mm.transpose_b ? 'T' : 'N', rows, columns, mm.k,
                     1.0f, block_a, lda, block_b, ldb, 0.0f, c + offset, mm.n);
      if (status != dnnl_success) failure.store(status);
    } else {
      for (int64_t r = 0; r < rows; ++r) std::fill_n(c + offset + r * mm.n, columns, 0.0f);
    }
    if (data.wide_result == nullptr) return;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t begin = offset + r * mm.n;
      Narrow(data.dtype_result, c, data.result, begin, begin + columns);
    }
  });
  if (failure != dnnl_success) {
    return Internal("matmul: oneDNN's product of %dx%d and %dx%d failed with status %d (node %%%s)",
                    mm.m, mm.k, mm.k, mm.n, failure.load(), mm.node);
  }
  return absl::OkStatus();
}

}  // namespace duotone::runtime
