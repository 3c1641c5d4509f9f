// How reductions accumulate, as text: in f32 (f64 for f64, i64 for integers), with the functions of
// kernels/reduce.cuh.
#ifndef DUOTONE_CODEGEN_CUDA_ACCUMULATOR_H_
#define DUOTONE_CODEGEN_CUDA_ACCUMULATOR_H_

#include <string>
#include <string_view>

#include "base/dtype.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/row_plan.h"

namespace duotone::codegen::cuda {

// How a combination is called in reduce.cuh, and as a statement on an accumulator.
struct CombineWay {
  Combine combine;
  std::string_view name;
  std::string_view expression;  // of accumulator $0 and element $1
  Finish::Kind finish;
};
const CombineWay& WayOf(Combine combine);

// The type in which a reduction of `dtype` accumulates: f32, f64 or i64.
DType AccumulatorOf(DType dtype);
// The combination of the accumulators `a` and `b`.
std::string Combined(Combine combine, DType accumulator, const std::string& a,
                     const std::string& b);
// The result over no elements, for operands of `dtype`.
std::string IdentityOf(Combine combine, DType dtype);
// An accumulated number in the compute type of `dtype`, wrapped or rounded as a store would.
std::string FromAccumulator(DType accumulator, DType dtype, const std::string& text);

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_CODEGEN_CUDA_ACCUMULATOR_H_
