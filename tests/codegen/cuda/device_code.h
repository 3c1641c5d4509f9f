// What NVRTC makes of a generated kernel, for tests of its machine code.
//
//   const DeviceCode code = CompileForDevice(*compiler, generated, "sm_80");
//   EXPECT_FALSE(code.sass.all.uses_local_memory());
#ifndef DUOTONE_TESTS_CODEGEN_CUDA_DEVICE_CODE_H_
#define DUOTONE_TESTS_CODEGEN_CUDA_DEVICE_CODE_H_

#include <string>
#include <string_view>

#include "codegen/cuda/kernel.h"
#include "gtest/gtest.h"
#include "runtime/cuda/compiler.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/sass.h"

namespace duotone::codegen::cuda {

struct DeviceCode {
  int registers = 0;
  int64_t stack_bytes = 0;
  int64_t shared_bytes = 0;
  runtime::SassSummary sass;
};

// Failures are the test's. Warnings of the compiler are failures too: users would see them.
inline DeviceCode CompileForDevice(runtime::KernelCompiler& compiler,
                                   const GeneratedKernel& generated, std::string_view target) {
  const runtime::Kernel kernel{
      .name = "kernel", .source = generated.source, .contract = generated.contract};
  DeviceCode code;
  const auto compiled = compiler.Compile(kernel, KernelHeaders(), target);
  if (!compiled.ok()) {
    ADD_FAILURE() << compiled.status() << "\n" << generated.source;
    return code;
  }
  EXPECT_EQ(compiled->log, "") << generated.source;
  const auto cubin = runtime::ReadCubin(compiled->cubin);
  if (!cubin.ok() || cubin->Find("kernel") == nullptr) {
    ADD_FAILURE() << cubin.status();
    return code;
  }
  const runtime::CubinKernel& found = *cubin->Find("kernel");
  code.registers = found.registers;
  code.stack_bytes = found.stack_bytes;
  code.shared_bytes = found.shared_bytes;
  code.sass = runtime::AnalyseSass(found.code, cubin->compute);
  return code;
}

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_TESTS_CODEGEN_CUDA_DEVICE_CODE_H_
