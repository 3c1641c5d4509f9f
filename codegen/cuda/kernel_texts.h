// The texts of codegen/cuda/kernels/*.cuh, put into the library by cmake/EmbedKernels.cmake.
#ifndef DUOTONE_CODEGEN_CUDA_KERNEL_TEXTS_H_
#define DUOTONE_CODEGEN_CUDA_KERNEL_TEXTS_H_

namespace duotone::codegen::cuda {

struct KernelText {
  const char* name;  // "duotone/prelude.cuh"
  const char* text;
};
extern const KernelText kKernelTexts[];
extern const int kKernelTextCount;

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_CODEGEN_CUDA_KERNEL_TEXTS_H_
