#include "codegen/cuda/kernel.h"
#include "codegen/cuda/kernel_texts.h"

namespace duotone::codegen::cuda {

std::vector<runtime::SourceHeader> KernelHeaders() {
  std::vector<runtime::SourceHeader> headers;
  for (int i = 0; i < kKernelTextCount; ++i) {
    headers.push_back({kKernelTexts[i].name, kKernelTexts[i].text});
  }
  return headers;
}

}  // namespace duotone::codegen::cuda
