// Machine code of pointwise and scatter kernels: nothing spills, accesses are whole.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/codegen/cuda/device_code.h"
#include "tests/codegen/cuda/run_kernel.h"
#include "tests/runtime/cuda/nvrtc_testing.h"

namespace duotone::codegen::cuda {
namespace {

GeneratedKernel Generate(std::string_view text, std::string_view family, std::string_view target,
                         const std::string& schedule = "") {
  const FusionModule made = ParseFusion(text, family);
  CodegenOptions options{.target = *FindGpuTarget(target)};
  if (!schedule.empty()) options.schedules = {absl::StrCat("*=", schedule)};
  absl::StatusOr<GeneratedKernel> kernel = GenerateKernel(*made.fusion, {}, options);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *std::move(kernel) : GeneratedKernel();
}

// Accesses of all widths but 16 bytes.
int NarrowAccesses(const runtime::AccessWidths& widths) {
  int count = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (runtime::kAccessBits[i] < 128) count += widths[i];
  }
  return count;
}

// A bias, an activation and a residual behind reshapes and transposes.
constexpr const char* kViews =
    R"(graph @f(%x: T[16, 128, 8, 64], %b: T[512], %r: f32[16, 8, 128, 64]) {
  %t = transpose(%x), perm=[0, 2, 1, 3] : T[16, 8, 128, 64]
  %bb = broadcast(%b), dims=[2] : T[16, 128, 512]
  %br = reshape(%bb) : T[16, 128, 8, 64]
  %bt = transpose(%br), perm=[0, 2, 1, 3] : T[16, 8, 128, 64]
  %s = add(%t, %bt) : T[16, 8, 128, 64] {origin="autocast:infer"}
  %g = gelu(%s) : T[16, 8, 128, 64] {origin="autocast:infer"}
  %w = cast(%g), to=f32 : f32[16, 8, 128, 64] {origin="autocast:cast"}
  %y = add(%w, %r) : f32[16, 8, 128, 64]
  return s=%s, y=%y
})";

TEST(PointwiseCode, WholeAccessesBehindViews) {
  const auto compiler = runtime::NvrtcForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  for (const GpuTarget& target : AllGpuTargets()) {
    for (const char* dtype : {"f16[", "bf16[", "f32["}) {
      const GeneratedKernel kernel =
          Generate(absl::StrReplaceAll(kViews, {{"T[", dtype}}), "pointwise", target.name);
      SCOPED_TRACE(absl::StrCat(std::string(target.name), " ", dtype, " ", kernel.schedule));
      const DeviceCode code = CompileForDevice(*compiler, kernel, target.name);
      EXPECT_FALSE(code.sass.all.uses_local_memory());
      EXPECT_EQ(code.stack_bytes, 0);
      EXPECT_EQ(NarrowAccesses(code.sass.all.global_loads), 0);
      EXPECT_EQ(NarrowAccesses(code.sass.all.global_stores), 0);
    }
  }
}

// Every kind of statement the emitter writes, on the oldest and on newer architectures; warnings of
// the compiler would fail the test.
constexpr std::string_view kKernels[] = {
    R"(graph @f(%x: f16[24, 16], %b: f16[24, 40]) {
  %p = pad(%x), low=[0, 1], high=[0, 2], interior=[0, 1], value=2.5 : f16[24, 34]
  %q = pad(%x), low=[0, 8], high=[0, 16] : f16[24, 40]
  %n = neg(%x) : f16[24, 16]
  %c = concat(%x, %b, %n), axis=1 : f16[24, 72]
  %l = slice(%b), starts=[0, 1], limits=[24, 40], strides=[3, 2] : f16[8, 20]
  %i = iota(), axis=1 : i64[24, 40]
  return p=%p, q=%q, c=%c, l=%l, i=%i
})",
    R"(graph @f(%x: bf16[70001], %h: f16[70001]) {
  %w = cast(%x), to=f32 : f32[70001]
  %sum = reduce_sum(%w), axes=[0] : f32[]
  %max = reduce_max(%x), axes=[0] : bf16[]
  %d = cast(%h), to=f64 : f64[70001]
  %mean = reduce_mean(%d), axes=[0] : f64[]
  %s = add(%h, %h) : f16[70001] {origin="autocast:infer"}
  %ok = all_finite(%s) : bool[]
  %ok2 = all_finite(%sum) : bool[]
  return sum=%sum, max=%max, mean=%mean, s=%s, ok=%ok, ok2=%ok2
})",
    R"(graph @f(%x: f16[64, 8], %t: f16[10, 8], %i: i32[64]) {
  %d, %m = dropout(%x), rate=0.3 : f16[64, 8], bool[64, 8]
  %n = random_normal() : f32[64, 8]
  %u = random_uniform() : f32[64, 7]
  %r = gather(%t, %i) : f16[64, 8]
  %s = add(%d, %r) : f16[64, 8]
  return s=%s, m=%m, n=%n, u=%u
})",
    R"(graph @f(%a: i32[100], %b: i64[100], %c: u8[100], %k: bool[100], %f: f64[100]) {
  %a2 = div(%a, %a) : i32[100]
  %b2 = mul(%b, %b) : i64[100]
  %c2 = add(%c, %c) : u8[100]
  %s = select(%k, %a2, %a) : i32[100]
  %k2 = lt(%a, %s) : bool[100]
  %h = cast(%f), to=f16 : f16[100]
  %l = cast(%b2), to=bf16 : bf16[100]
  %t = cast(%f), to=i32 : i32[100]
  return b2=%b2, c2=%c2, s=%s, k2=%k2, h=%h, l=%l, t=%t
})",
};

TEST(PointwiseCode, NoLocalMemoryAndNoWarnings) {
  const auto compiler = runtime::NvrtcForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  for (const char* target : {"sm_75", "sm_80", "sm_120"}) {
    for (std::string_view text : kKernels) {
      const GeneratedKernel kernel = Generate(text, "pointwise", target);
      SCOPED_TRACE(absl::StrCat(target, "\n", kernel.source));
      const DeviceCode code = CompileForDevice(*compiler, kernel, target);
      EXPECT_FALSE(code.sass.all.uses_local_memory());
    }
  }
}

TEST(PointwiseCode, NoCandidateSpills) {
  const auto compiler = runtime::NvrtcForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  const std::string text = absl::StrReplaceAll(kViews, {{"T[", "f16["}});
  for (const char* schedule : {"v8 u4 t512", "v8 u4 t128", "v8 u1 t512", "v8 u2 t256"}) {
    const DeviceCode code =
        CompileForDevice(*compiler, Generate(text, "pointwise", "sm_80", schedule), "sm_80");
    EXPECT_FALSE(code.sass.all.uses_local_memory()) << schedule;
  }
}

// An embedding's gradient.
TEST(ScatterCode, WholeAccessesAndNoLocalMemory) {
  const auto compiler = runtime::NvrtcForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  for (const GpuTarget& target : AllGpuTargets()) {
    const GeneratedKernel kernel = Generate(R"(graph @f(%i: i32[2048], %u: f16[2048, 768]) {
      %b = constant() : f32[50257, 768]
      %y = scatter_add(%b, %i, %u) : f32[50257, 768]
      %ok = all_finite(%y) : bool[]
      return y=%y, ok=%ok
    })",
                                            "scatter", target.name);
    SCOPED_TRACE(absl::StrCat(std::string(target.name), " ", kernel.schedule));
    const DeviceCode code = CompileForDevice(*compiler, kernel, target.name);
    EXPECT_FALSE(code.sass.all.uses_local_memory());
    EXPECT_GT(code.sass.all.global_stores[runtime::WidthIndex(128)], 0);
  }
}

TEST(PointwiseCode, LargeTensorsHave64BitIndices) {
  const auto compiler = runtime::NvrtcForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  const GeneratedKernel kernel = Generate(R"(graph @f(%x: f16[3, 1073741824]) {
    %t = transpose(%x), perm=[1, 0] : f16[1073741824, 3]
    %y = neg(%x) : f16[3, 1073741824]
    %n = neg(%t) : f16[1073741824, 3]
    return y=%y, n=%n
  })",
                                          "pointwise", "sm_80");
  EXPECT_THAT(kernel.source, testing::HasSubstr("const long long q"));
  EXPECT_FALSE(CompileForDevice(*compiler, kernel, "sm_80").sass.all.uses_local_memory());
}

}  // namespace
}  // namespace duotone::codegen::cuda
