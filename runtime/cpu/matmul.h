// Products of matrices on the CPU: oneDNN's f32 product on fixed blocks of the result, one thread
// per block. 16-bit operands are converted to f32 first, each element once; the f32 result is
// rounded once into a 16-bit result.
#ifndef DUOTONE_RUNTIME_CPU_MATMUL_H_
#define DUOTONE_RUNTIME_CPU_MATMUL_H_

#include "absl/status/status.h"
#include "base/dtype.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/program.h"

namespace duotone::runtime {

// The addresses of a product's matrices and their element types.
struct MatMulData {
  const void* a = nullptr;
  const void* b = nullptr;
  void* result = nullptr;
  float* wide_a = nullptr;  // null where the type is f32
  float* wide_b = nullptr;
  float* wide_result = nullptr;
  DType dtype_a = DType::kF32;
  DType dtype_b = DType::kF32;
  DType dtype_result = DType::kF32;
};

absl::Status RunMatMul(const MatMul& mm, const MatMulData& data, ThreadPool& pool);

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CPU_MATMUL_H_
