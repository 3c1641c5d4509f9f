// Row, column and finish kernels compile for old and new devices and keep everything in registers.
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "runtime/cuda/cubin.h"
#include "tests/codegen/cuda/row_bodies.h"
#include "tests/codegen/cuda/run_kernel.h"
#include "tests/runtime/cuda/nvrtc_testing.h"

namespace duotone::codegen::cuda {
namespace {

// Compiles the kernel and expects no local memory and no more registers than its block may have.
void ExpectLean(runtime::KernelCompiler& compiler, const GeneratedKernel& kernel,
                const std::string& target) {
  const auto compiled =
      compiler.Compile({.name = "kernel", .source = kernel.source, .contract = kernel.contract},
                       KernelHeaders(), target);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->log, "") << kernel.source;
  const auto cubin = runtime::ReadCubin(compiled->cubin);
  ASSERT_TRUE(cubin.ok()) << cubin.status();
  const runtime::CubinKernel* code = cubin->Find("kernel");
  ASSERT_NE(code, nullptr);
  EXPECT_EQ(code->frame_bytes, 0) << kernel.schedule << "\n" << kernel.source;
  EXPECT_LE(code->registers * kernel.block[0], 65536);
  if (std::getenv("DUOTONE_PRINT_REGISTERS") != nullptr) {
    std::printf("%s %s: %d registers\n", target.c_str(), kernel.schedule.c_str(), code->registers);
  }
}

class RowCompile : public testing::TestWithParam<RowBody> {};

TEST_P(RowCompile, KeepsEverythingInRegisters) {
  const auto compiler = runtime::NvrtcForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  struct Shape {
    const char* dtype;
    RowSize size;
  };
  for (const auto& [dtype, size] :
       {Shape{"f16", {2048, 128}}, Shape{"bf16", {128, 10}}, Shape{"f32", {512, 4096}},
        Shape{"f16", {64, 20001}}, Shape{"f32", {40, 4}}}) {
    SCOPED_TRACE(TextOf(GetParam(), dtype, size));
    const FusionModule made = ParseFusion(TextOf(GetParam(), dtype, size), GetParam().family);
    for (const char* target : {"sm_75", "sm_90"}) {
      const auto kernel = GenerateKernel(*made.fusion, {}, {.target = *FindGpuTarget(target)});
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      ExpectLean(*compiler, *kernel, target);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RowCompile, testing::ValuesIn(kRowBodies),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FinishCompile, ManyJobs) {
  const auto compiler = runtime::NvrtcForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  std::vector<FinishJob> jobs;
  for (int i = 0; i < 200; ++i) {
    FinishJob job{.dtype = i % 3 == 0 ? DType::kF16 : DType::kF32};
    job.finish = {.chunks = 1 + i % 130, .elements = 1 + 7 * i, .finite_result = i % 2 - 1};
    jobs.push_back(job);
  }
  const CodegenOptions options{.target = *FindGpuTarget("sm_80")};
  const auto kernel = GenerateFinish(jobs, options);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  ExpectLean(*compiler, *kernel, "sm_80");
}

}  // namespace
}  // namespace duotone::codegen::cuda
