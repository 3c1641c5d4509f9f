// The report on programs whose numbers can be worked out by hand.
#include "runtime/cuda/kernel_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/cuda/nvrtc_testing.h"

namespace duotone::runtime {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kElements = int64_t{1} << 24;

class KernelReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    compiler_ = NvrtcForTest();
    if (compiler_ == nullptr) GTEST_SKIP() << "no NVRTC";
  }

  void AddLaunch(const std::string& name, const std::string& family, int64_t blocks,
                 const std::string& source) {
    program_.name = "step";
    program_.kernels.push_back({.name = name, .source = source});
    KernelLaunch launch{.kernel = static_cast<int>(program_.kernels.size()) - 1,
                        .node = "%" + name,
                        .family = family,
                        .grid = {blocks, 1, 1},
                        .block = {256, 1, 1}};
    launch.bytes_read = launch.bytes_written = 4.0 * kElements;
    launch.flops = kElements;
    program_.steps.push_back({std::move(launch)});
  }

  // One float4 per thread.
  void AddCopy() {
    AddLaunch("copy", "pointwise", kElements / 4 / 256,
              "extern \"C\" __global__ void __launch_bounds__(256) copy(\n"
              "    const float4* __restrict__ in, float4* __restrict__ out) {\n"
              "  out[blockIdx.x * 256 + threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];\n"
              "}\n");
  }

  // 64 float4 per thread, one by one.
  void AddLoop() {
    AddLaunch("loop", "row", kElements / 4 / 256 / 64,
              "extern \"C\" __global__ void __launch_bounds__(256) loop(\n"
              "    const float4* __restrict__ in, float4* __restrict__ out, int n) {\n"
              "  const int first = blockIdx.x * 256 + threadIdx.x;\n"
              "  int i = first;\n"
              "#pragma unroll 1\n"
              "  do {\n"
              "    out[i] = in[i];\n"
              "    i += gridDim.x * 256;\n"
              "  } while (i < n);\n"
              "}\n");
  }

  void AddSpills() {
    AddLaunch("spill", "matmul", 1,
              "extern \"C\" __global__ void __launch_bounds__(512, 3)\n"
              "    spill(const float* in, float* out, int n) {\n"
              "  float x[60];\n"
              "  for (int k = 0; k < 60; ++k) x[k] = in[k * n + threadIdx.x];\n"
              "  __syncthreads();\n"
              "  for (int k = 0; k < 60; ++k)\n"
              "    for (int j = 0; j < 60; j += 7) x[k] = x[k] * x[j] + 1;\n"
              "  for (int k = 0; k < 60; ++k) out[k * n + threadIdx.x] = x[k];\n"
              "}\n");
  }

  ProgramReport Report(const char* name) {
    const GpuTarget& target = **FindGpuTarget(name);
    const auto compiled = CompileProgram(program_, target.name, *compiler_, nullptr, 1);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    absl::StatusOr<ProgramReport> report = MakeProgramReport(program_, target);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : ProgramReport{};
  }

  Program program_;
  std::unique_ptr<KernelCompiler> compiler_;
};

TEST_F(KernelReportTest, ACopyIsLimitedByDram) {
  AddCopy();
  const ProgramReport report = Report("sm_80");
  ASSERT_EQ(report.launches.size(), 1u);
  const LaunchReport& copy = report.launches[0];
  EXPECT_EQ(copy.limiter, "dram");
  // 128 MiB at 90% of 1555 GB/s, and an A100 runs 8 blocks of 256 threads on each of 108 SMs.
  const double waves = 16384 / (8.0 * 108);
  EXPECT_EQ(copy.occupancy.blocks, 8);
  EXPECT_THAT(copy.waves, DoubleNear(waves, 1e-9));
  // The last of 19 waves is not full.
  EXPECT_THAT(copy.us.dram, DoubleNear(134217728 / (1555e3 * 0.9) * 19 / waves, 1e-6));
  EXPECT_EQ(copy.trips, 1);
  EXPECT_EQ(report.kernels[0].spill_bytes(), 0);
  EXPECT_EQ(report.kernels[0].sass.all.global_loads[WidthIndex(128)], 1);
  EXPECT_THAT(copy.intensity(), DoubleNear(1.0 / 8, 1e-9));
  // Each SM passes 1/108 of 2 * 64 MiB through a path of 32 bytes per clock, but for the last wave.
  const double l2 = 134217728.0 / 108 / 32 / 1410;
  EXPECT_THAT(copy.us.l2, DoubleNear(l2, 0.01 * l2));
}

TEST_F(KernelReportTest, TripsOfALoopFollowFromTheBytes) {
  AddLoop();
  const ProgramReport report = Report("sm_90");
  EXPECT_THAT(report.launches[0].trips, DoubleNear(64, 1e-9));
  ASSERT_NE(report.kernels[0].sass.main_loop(), nullptr);
  const int in_loop = report.kernels[0].sass.main_loop()->mix.instructions;
  const int all = report.kernels[0].sass.all.instructions;
  // 256 blocks on 132 SMs: the busiest has two of them.
  const double issue = (all + 63.0 * in_loop) * 2 * 256 / 128 / 1830;
  EXPECT_THAT(report.launches[0].us.issue, DoubleNear(issue, 1e-6 * issue));
}

TEST_F(KernelReportTest, SumsByFamilyAndRemarks) {
  AddCopy();
  AddLoop();
  AddSpills();
  program_.buffers.push_back({.name = "flags", .bytes = 64});
  program_.steps.push_back({Fill{.to = 0, .element = {1}}});
  const ProgramReport report = Report("sm_86");
  EXPECT_EQ(report.total.launches, 3);
  EXPECT_EQ(report.total.bytes, 3 * 8.0 * kElements);
  EXPECT_EQ(report.total.flops, 3.0 * kElements);
  EXPECT_EQ(report.families.size(), 3u);
  EXPECT_EQ(report.fills, 1);
  EXPECT_EQ(report.fill_and_copy_bytes, 64);
  double us = 0;
  for (const FamilyTotals& family : report.families) us += family.us;
  EXPECT_THAT(us, DoubleNear(report.total.us, 1e-9));
  const std::string text = ToText(report);
  EXPECT_THAT(text, AllOf(HasSubstr("@step for sm_86 (as on one RTX 3090): 3 kernels launched"),
                          HasSubstr("k2 spills: "), Not(HasSubstr("k0 spills")),
                          HasSubstr("pointwise"), HasSubstr("1x128")));
}

TEST_F(KernelReportTest, TheKernelsMustBeCompiledForTheTarget) {
  AddCopy();
  EXPECT_EQ(MakeProgramReport(program_, **FindGpuTarget("sm_80")).status().message(),
            "kernel k0 has no machine code for sm_80");
  Report("sm_80");
  EXPECT_EQ(MakeProgramReport(program_, **FindGpuTarget("sm_90")).status().message(),
            "kernel k0 has no machine code for sm_90");
}

TEST_F(KernelReportTest, WhatDoesNotFitIsSaid) {
  AddCopy();
  std::get<KernelLaunch>(program_.steps[0].action).shared_bytes = int64_t{100} << 10;
  const ProgramReport report = Report("sm_75");
  EXPECT_THAT(ToText(report),
              HasSubstr("s0 %copy does not fit on sm_75: too much of its shared memory"));
}

}  // namespace
}  // namespace duotone::runtime
