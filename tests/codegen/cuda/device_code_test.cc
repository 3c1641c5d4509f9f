// Machine code of matmul and optimizer kernels: nothing spills, accesses are whole.
#include <string>

#include "absl/strings/str_format.h"
#include "codegen/cuda/schedule.h"
#include "gtest/gtest.h"
#include "tests/codegen/cuda/device_code.h"
#include "tests/codegen/cuda/run_kernel.h"
#include "tests/runtime/cuda/nvrtc_testing.h"

namespace duotone::codegen::cuda {
namespace {

GeneratedKernel Generate(std::string_view text, std::string_view family, const GpuTarget& target,
                         const std::vector<std::string>& schedules = {}) {
  const FusionModule made = ParseFusion(text, family);
  const CodegenOptions options{.target = &target, .schedules = schedules};
  auto kernel = family == "matmul" ? GenerateMatMul(*made.fusion, {}, options)
                                   : GenerateOptimizer(*made.fusion, {true}, options);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *kernel : GeneratedKernel{};
}

constexpr std::string_view kLinear =
    R"(graph @f(%x: f16[128, 784], %w: f16[784, 512], %b: f16[512]) {
  %c = matmul(%x, %w) : f16[128, 512] {origin="autocast:allow"}
  %bb = broadcast(%b), dims=[1] : f16[128, 512]
  %s = add(%c, %bb) : f16[128, 512] {origin="autocast:between"}
  %y = gelu(%s) : f16[128, 512] {origin="autocast:between"}
  return s=%s, y=%y
})";

constexpr std::string_view kWeightGradient = R"(graph @f(%x: f16[128, 784], %dy: f16[128, 512]) {
  %w = matmul(%x, %dy), transpose_a=true, out=f32 : f32[784, 512]
  %b = reduce_sum(%dy), axes=[0], out=f32 : f32[512]
  %w_ok = all_finite(%w) : bool[]
  %b_ok = all_finite(%b) : bool[]
  return w=%w, b=%b, w_ok=%w_ok, b_ok=%b_ok
})";

TEST(MatMulCode, ChosenTilesFitEveryArchitecture) {
  const auto compiler = runtime::NvrtcForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  for (const GpuTarget& target : AllGpuTargets()) {
    for (std::string_view text : {kLinear, kWeightGradient}) {
      const GeneratedKernel kernel = Generate(text, "matmul", target);
      const DeviceCode code = CompileForDevice(*compiler, kernel, target.name);
      SCOPED_TRACE(absl::StrFormat("%s %s", target.name, kernel.schedule));
      EXPECT_FALSE(code.sass.all.uses_local_memory());
      EXPECT_EQ(code.stack_bytes, 0);
      EXPECT_LE(code.registers, 128);
      const int wide = runtime::WidthIndex(128);
      for (int i = 0; i < static_cast<int>(runtime::kAccessBits.size()); ++i) {
        if (i == wide) continue;
        EXPECT_EQ(code.sass.all.global_loads[i], 0) << runtime::kAccessBits[i];
      }
      EXPECT_GT(code.sass.all.global_loads[wide], 0);
      EXPECT_GT(code.sass.all.global_stores[wide], 0);
    }
  }
}

TEST(MatMulCode, NoCandidateSpills) {
  const auto compiler = runtime::NvrtcForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  for (const char* name : {"sm_75", "sm_90"}) {
    const GpuTarget& target = **FindGpuTarget(name);
    const std::string ranked = Generate(kLinear, "matmul", target).schedules;
    size_t candidates = 0;
    for (size_t at = ranked.find(" v"); at != std::string::npos; at = ranked.find(" v", at + 1)) {
      const std::string schedule = ranked.substr(at + 1, ranked.find("  ", at + 1) - at - 1);
      if (!Schedule::FromString(schedule).ok()) continue;
      ++candidates;
      const GeneratedKernel kernel = Generate(kLinear, "matmul", target, {"*=" + schedule});
      EXPECT_EQ(kernel.schedule, schedule);
      const DeviceCode code = CompileForDevice(*compiler, kernel, name);
      EXPECT_FALSE(code.sass.all.uses_local_memory()) << name << " " << schedule;
      EXPECT_LE(code.registers, schedule.find("m128 n128") == std::string::npos ? 128 : 168)
          << name << " " << schedule;
    }
    EXPECT_GE(candidates, 8u);
  }
}

// AdamW with unscale and a 16-bit copy: f32 in pairs of 16 bytes, the copy in one.
constexpr std::string_view kAdamW = R"(graph @f(%scale: f32[], %step: i64[], %lr: f32[],
    %w: f32[784, 512], %g: f32[784, 512], %m: f32[784, 512], %v: f32[784, 512]) {
  %one = constant(), value=1.0 : f32[]
  %inverse = div(%one, %scale) : f32[]
  %s = broadcast(%inverse) : f32[784, 512]
  %u = mul(%g, %s) : f32[784, 512]
  %wn, %mn, %vn = adamw_update(%w, %u, %m, %v, %step, %lr), weight_decay=0.01 : f32[784, 512], f32[784, 512], f32[784, 512]
  %h = cast(%wn), to=f16 : f16[784, 512]
  return w=%wn, m=%mn, v=%vn, h=%h
})";

TEST(OptimizerCode, WholeAccessesAndNoLocalMemory) {
  const auto compiler = runtime::NvrtcForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  for (const GpuTarget& target : AllGpuTargets()) {
    const GeneratedKernel kernel = Generate(kAdamW, "optimizer", target);
    const DeviceCode code = CompileForDevice(*compiler, kernel, target.name);
    SCOPED_TRACE(absl::StrFormat("%s %s", target.name, kernel.schedule));
    EXPECT_FALSE(code.sass.all.uses_local_memory());
    EXPECT_EQ(code.stack_bytes, 0);
    EXPECT_LE(code.registers, 128);
    const int wide = runtime::WidthIndex(128);
    EXPECT_EQ(code.sass.all.global_loads[wide], 8);   // w, g, m, v
    EXPECT_EQ(code.sass.all.global_stores[wide], 7);  // w, m, v, the copy
    for (int bits : {8, 16, 32, 64}) {
      EXPECT_EQ(code.sass.all.global_stores[runtime::WidthIndex(bits)], 0) << bits;
    }
  }
}

}  // namespace
}  // namespace duotone::codegen::cuda
