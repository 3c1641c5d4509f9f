// Products on the CPU against sums in f64, and the bits against the number of threads.
#include "runtime/cpu/matmul.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/float16.h"
#include "gtest/gtest.h"

// OpenMP's run time library, which oneDNN divides its work with.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int count);
}

namespace duotone::runtime {
namespace {

// A matrix in some dtype with its values as f64.
struct Matrix {
  DType dtype = DType::kF32;
  std::vector<uint8_t> bytes;
  std::vector<double> values;
  std::vector<float> wide;  // as the device would plan it

  Matrix(DType dtype, int64_t elements)
      : dtype(dtype), bytes(elements * ByteSize(dtype)), values(elements) {
    if (dtype != DType::kF32) wide.resize(elements);
  }
  void Set(int64_t i, double value) {
    const float f = static_cast<float>(value);
    if (dtype == DType::kF32) Put(i, f);
    if (dtype == DType::kF16) Put(i, ToF16(f));
    if (dtype == DType::kBF16) Put(i, ToBF16(f));
    values[i] = Get(i);
  }
  double Get(int64_t i) const {
    if (dtype == DType::kF32) return Take<float>(i);
    return dtype == DType::kF16 ? ToF32(Take<F16>(i)) : ToF32(Take<BF16>(i));
  }
  float* Wide() { return wide.empty() ? nullptr : wide.data(); }

 private:
  template <typename T>
  void Put(int64_t i, T value) {
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
  }
  template <typename T>
  T Take(int64_t i) const {
    T value;
    std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
    return value;
  }
};

Matrix RandomMatrix(DType dtype, int64_t elements, int seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Matrix matrix(dtype, elements);
  for (int64_t i = 0; i < elements; ++i) matrix.Set(i, uniform(random));
  return matrix;
}

struct Problem {
  MatMul mm;
  DType operands = DType::kF32;
  DType result = DType::kF32;
};

Matrix Multiply(const Problem& problem, Matrix& a, Matrix& b, int threads) {
  const MatMul& mm = problem.mm;
  Matrix c(problem.result, mm.batch * mm.m * mm.n);
  ThreadPool pool(threads);
  const MatMulData data{a.bytes.data(), b.bytes.data(), c.bytes.data(), a.Wide(), b.Wide(),
                        c.Wide(),       a.dtype,        b.dtype,        c.dtype};
  absl::Status status = RunMatMul(mm, data, pool);
  EXPECT_TRUE(status.ok()) << status;
  return c;
}

// Each element within the bound of a sum of k products in f32 (in any order, with fused
// multiply-adds) and one rounding into the result's type.
void ExpectProduct(const Problem& problem, const Matrix& a, const Matrix& b, const Matrix& c) {
  const MatMul& mm = problem.mm;
  const double round = problem.result == DType::kF32   ? 0
                       : problem.result == DType::kF16 ? std::ldexp(1, -11)
                                                       : std::ldexp(1, -8);
  for (int64_t i = 0; i < mm.batch; ++i) {
    for (int64_t r = 0; r < mm.m; ++r) {
      for (int64_t s = 0; s < mm.n; ++s) {
        double sum = 0;
        double size = 0;
        for (int64_t t = 0; t < mm.k; ++t) {
          const double x =
              a.values[i * mm.stride_a + (mm.transpose_a ? t * mm.m + r : r * mm.k + t)];
          const double y =
              b.values[i * mm.stride_b + (mm.transpose_b ? s * mm.k + t : t * mm.n + s)];
          sum += x * y;
          size += std::abs(x * y);
        }
        const double bound = static_cast<double>(mm.k) * std::ldexp(1, -24) * size +
                             round * std::abs(sum) * 1.01 + 1e-7;
        ASSERT_NEAR(c.Get(i * mm.stride_result + r * mm.n + s), sum, bound)
            << "matrix " << i << " row " << r << " column " << s;
      }
    }
  }
}

Problem MakeProblem(int64_t batch, int64_t m, int64_t n, int64_t k, DType operands = DType::kF32,
                    DType result = DType::kF32) {
  MatMul mm{.node = "y", .batch = batch, .m = m, .n = n, .k = k};
  mm.stride_a = m * k;
  mm.stride_b = k * n;
  mm.stride_result = m * n;
  return {mm, operands, result};
}

void Check(const Problem& problem) {
  const MatMul& mm = problem.mm;
  const int64_t count_a = mm.stride_a == 0 ? 1 : mm.batch;
  const int64_t count_b = mm.stride_b == 0 ? 1 : mm.batch;
  Matrix a = RandomMatrix(problem.operands, count_a * mm.m * mm.k, 1);
  Matrix b = RandomMatrix(problem.operands, count_b * mm.k * mm.n, 2);
  const Matrix c = Multiply(problem, a, b, 1);
  ExpectProduct(problem, a, b, c);
  for (int threads : {2, 3, 8}) {
    EXPECT_EQ(Multiply(problem, a, b, threads).bytes, c.bytes) << threads << " threads";
  }
}

TEST(MatMul, AllTransposes) {
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      Problem problem = MakeProblem(1, 70, 33, 45);
      problem.mm.transpose_a = transpose_a;
      problem.mm.transpose_b = transpose_b;
      Check(problem);
      problem.operands = DType::kF16;
      Check(problem);
    }
  }
}

TEST(MatMul, SixteenBitOperandsAndResults) {
  for (DType operands : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (DType result : {DType::kF32, DType::kF16, DType::kBF16}) {
      Check(MakeProblem(1, 130, 65, 17, operands, result));
    }
  }
}

TEST(MatMul, BatchesAndRepeatedMatrices) {
  Check(MakeProblem(5, 9, 11, 13));
  Problem repeated_b = MakeProblem(4, 9, 11, 13, DType::kF16, DType::kF16);
  repeated_b.mm.stride_b = 0;
  Check(repeated_b);
  Problem repeated_a = MakeProblem(4, 9, 11, 13, DType::kBF16);
  repeated_a.mm.stride_a = 0;
  Check(repeated_a);
}

TEST(MatMul, FewRowsAreCutAlongColumns) { Check(MakeProblem(1, 3, 1000, 50)); }

TEST(MatMul, EmptySizes) {
  Check(MakeProblem(0, 3, 4, 5));
  Check(MakeProblem(1, 0, 4, 5));
  Check(MakeProblem(1, 3, 0, 5));
  Check(MakeProblem(2, 3, 4, 0, DType::kF16, DType::kF16));  // sums of nothing: zeros
}

// 65536 products of 1: a sum in f16 would stop at 2048, one in bf16 at 256.
TEST(MatMul, AccumulatesInF32) {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    Problem problem = MakeProblem(1, 2, 2, 65536 / 2, dtype);
    Matrix a(dtype, 65536);
    Matrix b(dtype, 65536);
    for (int64_t i = 0; i < 65536; ++i) {
      a.Set(i, 1);
      b.Set(i, 1);
    }
    const Matrix c = Multiply(problem, a, b, 2);
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(c.Get(i), 32768);
  }
}

TEST(MatMul, F16OverflowsToInfinity) {
  Problem problem = MakeProblem(1, 1, 1, 2, DType::kF16, DType::kF16);
  Matrix a(DType::kF16, 2);
  Matrix b(DType::kF16, 2);
  a.Set(0, 256);
  a.Set(1, 0);
  b.Set(0, 256);
  b.Set(1, 0);
  EXPECT_EQ(Multiply(problem, a, b, 1).Get(0), INFINITY);
}

// The number of threads of this process.
int Threads() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    if (word == "Threads:") {
      int threads = 0;
      file >> threads;
      return threads;
    }
  }
  return -1;
}

// However many threads OpenMP may use, a product large enough for them starts none.
TEST(MatMul, TheLibraryStartsNoThreads) {
  omp_set_num_threads(4);
  const int before = Threads();
  Problem problem = MakeProblem(1, 512, 512, 512);
  Matrix a = RandomMatrix(DType::kF32, 512 * 512, 1);
  Matrix b = RandomMatrix(DType::kF32, 512 * 512, 2);
  Multiply(problem, a, b, 1);
  EXPECT_EQ(Threads(), before);
}

// The library call leaves the caller's own OpenMP setting alone.
TEST(MatMul, KeepsTheCallersOpenMPThreads) {
  omp_set_num_threads(3);
  Check(MakeProblem(1, 40, 40, 40));
  EXPECT_EQ(omp_get_max_threads(), 3);
}

}  // namespace
}  // namespace duotone::runtime
