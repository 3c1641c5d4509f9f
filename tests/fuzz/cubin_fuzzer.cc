// libFuzzer's entry for the reader of machine code: any bytes are read or refused with a sentence,
// and the code of what is read can be analysed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "runtime/cuda/cubin.h"
#include "runtime/cuda/sass.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<duotone::runtime::Cubin> cubin = duotone::runtime::ReadCubin(bytes);
  if (!cubin.ok()) {
    if (!cubin.status().message().empty()) return 0;
    std::fprintf(stderr, "an error without a message\n");
    std::abort();
  }
  for (const duotone::runtime::CubinKernel& kernel : cubin->kernels) {
    const duotone::runtime::SassSummary sass =
        duotone::runtime::AnalyseSass(kernel.code, cubin->compute);
    for (const duotone::runtime::SassLoop& loop : sass.loops) {
      if (loop.mix.instructions <= sass.all.instructions && loop.begin < loop.end) continue;
      std::fprintf(stderr, "a loop that is larger than its kernel\n");
      std::abort();
    }
  }
  return 0;
}
