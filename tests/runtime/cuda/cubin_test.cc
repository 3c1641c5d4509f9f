// What the reader finds in machine code, against what small kernels are known to contain, on every
// architecture; and that broken bytes are errors.
#include "runtime/cuda/cubin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/gpu_target.h"
#include "runtime/cuda/sass.h"
#include "tests/runtime/cuda/nvrtc_testing.h"

namespace duotone::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kBits8 = 0, kBits16 = 1, kBits32 = 2, kBits64 = 3, kBits128 = 4;

AccessWidths Only(int index, int count) {
  AccessWidths widths = {};
  widths[index] = count;
  return widths;
}

struct Analysed {
  std::string bytes;
  CubinKernel kernel;
  SassSummary sass;
};

class CubinTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    compiler_ = NvrtcForTest();
    if (compiler_ == nullptr) GTEST_SKIP() << "no NVRTC";
  }

  // `body` is that of a kernel with the given parameters; `i` is the thread's number.
  Analysed Compile(const std::string& parameters, const std::string& body,
                   const std::string& bounds = "__launch_bounds__(128)") {
    const Kernel kernel = {.name = "kernel",
                           .source = "extern \"C\" __global__ void " + bounds + " kernel(" +
                                     parameters +
                                     ") {\n  const int i = blockIdx.x * blockDim.x + "
                                     "threadIdx.x;\n" +
                                     body + "\n}\n"};
    absl::StatusOr<CompiledKernel> compiled = compiler_->Compile(kernel, {}, GetParam());
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    if (!compiled.ok()) return {};
    Analysed analysed{.bytes = std::move(compiled->cubin)};
    absl::StatusOr<Cubin> cubin = ReadCubin(analysed.bytes);
    EXPECT_TRUE(cubin.ok()) << cubin.status();
    if (!cubin.ok()) return analysed;
    EXPECT_EQ("sm_" + std::to_string(cubin->compute), GetParam());
    EXPECT_EQ(cubin->kernels.size(), 1u);
    analysed.kernel = *cubin->Find("kernel");
    analysed.sass = AnalyseSass(analysed.kernel.code, cubin->compute);
    EXPECT_THAT(analysed.sass.all.unknown, IsEmpty());
    EXPECT_TRUE(analysed.sass.complete);
    return analysed;
  }

  int compute() const { return std::stoi(GetParam().substr(3)); }

  std::unique_ptr<KernelCompiler> compiler_;
};

TEST_P(CubinTest, GlobalAccessesAreCountedByWidth) {
  const std::pair<const char*, int> types[] = {{"unsigned char", kBits8},
                                               {"short", kBits16},
                                               {"float", kBits32},
                                               {"float2", kBits64},
                                               {"float4", kBits128}};
  for (const auto& [type, index] : types) {
    const std::string pointer = std::string(type) + "*";
    const OpcodeMix mix = Compile("const " + pointer + " in, " + pointer + " out",
                                  "out[i] = in[i]; out[i + 999] = in[i + 77];")
                              .sass.all;
    EXPECT_EQ(mix.global_loads, Only(index, 2)) << type;
    EXPECT_EQ(mix.global_stores, Only(index, 2)) << type;
    EXPECT_EQ(mix.Count(SassClass::kGlobalLoad), 2) << type;
    EXPECT_FALSE(mix.uses_local_memory()) << type;
  }
}

TEST_P(CubinTest, SharedMemoryAndBarriers) {
  const Analysed analysed = Compile("const float4* in, float4* out, float* narrow", R"(
    __shared__ float4 wide[128];
    __shared__ float thin[128];
    wide[threadIdx.x] = in[i];
    thin[threadIdx.x] = narrow[i];
    __syncthreads();
    out[i] = wide[threadIdx.x ^ 37];
    narrow[i] = thin[threadIdx.x ^ 37];
    __syncthreads();
    out[i + 4096] = wide[threadIdx.x ^ 41];)");
  EXPECT_EQ(analysed.kernel.shared_bytes, 128 * 16 + 128 * 4);
  EXPECT_EQ(analysed.kernel.barriers, 1);
  EXPECT_EQ(analysed.sass.all.Count(SassClass::kBarrier), 2);
  AccessWidths loads = Only(kBits128, 2);
  loads[kBits32] = 1;
  EXPECT_EQ(analysed.sass.all.shared_loads, loads);
  AccessWidths stores = Only(kBits128, 1);
  stores[kBits32] = 1;
  EXPECT_EQ(analysed.sass.all.shared_stores, stores);
}

// 64 ints with computed indices stay in local memory: the frame has exactly their bytes.
TEST_P(CubinTest, LocalArraysAreSeen) {
  const Analysed analysed = Compile("const int* in, int* out, int n", R"(
    int local[64];
    for (int k = 0; k < 64; ++k) local[k] = in[k * n];
    for (int k = 0; k < n; ++k) local[in[k] & 63] += k;
    for (int k = 0; k < 64; ++k) out[k] = local[(k * n) & 63];)");
  EXPECT_EQ(analysed.kernel.frame_bytes, 64 * 4);
  EXPECT_EQ(analysed.kernel.stack_bytes, 64 * 4);
  EXPECT_TRUE(analysed.sass.all.uses_local_memory());
  EXPECT_GT(analysed.sass.all.Count(SassClass::kLocalLoad), 0);
}

// 60 values that live across a barrier do not fit into the 40 registers that 1536 threads leave
// (on sm_75 90 values, and 64 registers for 1024 threads).
TEST_P(CubinTest, SpillsAreCountedInBytes) {
  const std::string count = compute() == 75 ? "90" : "60";
  const Analysed analysed =
      Compile("const float* in, float* out, int n", R"(
    float x[)" + count + R"(];
#pragma unroll
    for (int k = 0; k < )" + count + R"(; ++k) x[k] = in[k * n + i];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < )" + count + R"(; ++k)
#pragma unroll
      for (int j = 0; j < )" + count + R"(; j += 7) x[k] = x[k] * x[j] + 1;
#pragma unroll
    for (int k = 0; k < )" + count + R"(; ++k) out[k * n + i] = x[k];)",
              compute() == 75 ? "__launch_bounds__(512, 2)" : "__launch_bounds__(512, 3)");
  EXPECT_LE(analysed.kernel.registers, 64);
  EXPECT_GT(analysed.kernel.frame_bytes, 0);
  EXPECT_GE(analysed.sass.all.spill_store_bytes, analysed.kernel.frame_bytes / 2);
  EXPECT_GE(analysed.sass.all.spill_load_bytes, analysed.kernel.frame_bytes / 2);
  EXPECT_EQ(analysed.sass.all.spill_load_bytes % 4, 0);
}

TEST_P(CubinTest, TheMainLoopIsTheLargestInnermostOne) {
  const Analysed analysed = Compile("const float* in, float* out, int n, int m", R"(
    float sum = in[i];
    int k = 0;
#pragma unroll 1
    do {
      float x = in[k];
      int j = 0;
#pragma unroll 1
      do {
        x = x * sum + 3.0f;
        x = x * sum + 5.0f;
        x = x * x + sum;
      } while (++j < m);
      sum = x;
    } while (++k < n);
#pragma unroll 1
    do sum = sum * sum + 1.5f; while (++k < m);
    out[i] = sum;)");
  ASSERT_EQ(analysed.sass.loops.size(), 3u);
  const SassLoop* main = analysed.sass.main_loop();
  ASSERT_NE(main, nullptr);
  EXPECT_EQ(main->mix.CountOf("FFMA"), 3);
  EXPECT_EQ(main->depth, 1);
  EXPECT_EQ(main->mix.Count(SassClass::kGlobalLoad), 0);
  EXPECT_FALSE(analysed.sass.loops[0].innermost);
  EXPECT_EQ(analysed.sass.loops[0].mix.CountOf("FFMA"), 3);
  EXPECT_EQ(analysed.sass.loops[0].mix.Count(SassClass::kGlobalLoad), 1);
  EXPECT_EQ(analysed.sass.loops[2].mix.CountOf("FFMA"), 1);
  EXPECT_EQ(analysed.sass.all.CountOf("FFMA"), 4);
}

// Precise division has rare cases that are computed behind the end and jump back.
TEST_P(CubinTest, ColdCodeIsNoLoop) {
  const Analysed analysed =
      Compile("const float* in, float* out", "out[i] = in[i] / in[i + 1] + sqrtf(in[i + 2]);");
  EXPECT_THAT(analysed.sass.loops, IsEmpty());
  EXPECT_EQ(analysed.sass.main_loop(), nullptr);
  EXPECT_GE(analysed.sass.all.CountOf("CALL"), 1);
}

TEST_P(CubinTest, FunctionsOfTheSpecialUnit) {
  const OpcodeMix mix = Compile("const float* in, float* out", R"(
    float a, b, c;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(a) : "f"(in[i]));
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(in[i + 1]));
    asm("tanh.approx.f32 %0, %1;" : "=f"(c) : "f"(in[i + 2]));
    out[i] = a; out[i + 1] = b; out[i + 2] = c;
    out[i + 3] = (float)(int)in[i + 4];)")
                            .sass.all;
  EXPECT_EQ(mix.Count(SassClass::kMufu), 3);
  EXPECT_EQ(mix.Count(SassClass::kConversion), 2);
}

TEST_P(CubinTest, ShufflesVotesAndAtomics) {
  const OpcodeMix mix = Compile("const float* in, float* out, int* flag, float* sums", R"(
    float x = in[i];
#pragma unroll
    for (int k = 16; k > 0; k /= 2) x += __shfl_xor_sync(0xffffffffu, x, k);
    out[i] = x;
    atomicOr(&flag[i & 3], i);
    atomicAdd(&sums[i & 7], x);)")
                            .sass.all;
  EXPECT_EQ(mix.CountOf("SHFL"), 5);
  EXPECT_EQ(mix.Count(SassClass::kAtomic), 2);
}

constexpr char kTensorBody[] = R"(
    __shared__ uint4 tile[128];
    tile[threadIdx.x] = in[i];
    __syncthreads();
    const unsigned at = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x]);
    unsigned a0, a1, a2, a3, b0, b1;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(b0), "=r"(b1) : "r"(at));
    float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
#pragma unroll
    for (int k = 0; k < 3; ++k)
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, "
                   "{%6}, {%0, %1, %2, %3};"
                   : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(b0));
    out[i] = make_float4(c0 + __uint_as_float(a2), c1 + __uint_as_float(a3),
                         c2 + __uint_as_float(b1), c3);)";

TEST_P(CubinTest, TensorInstructionsAndMatrixLoads) {
  const OpcodeMix mix = Compile("const uint4* in, float4* out", kTensorBody).sass.all;
  EXPECT_EQ(mix.Count(SassClass::kTensor), 3);
  EXPECT_EQ(mix.CountOf("HMMA"), 3);
  EXPECT_EQ(mix.CountOf("LDSM"), 2);
  EXPECT_EQ(mix.matrices, 4 + 2);
}

TEST_P(CubinTest, AsynchronousCopiesAreCountedByWidth) {
  if (compute() < 80) GTEST_SKIP() << "sm_75 has none";
  const OpcodeMix mix = Compile("const uint4* in, uint4* out", R"(
    __shared__ uint4 tile[256];
    const unsigned at = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(in + i));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + 2048), "l"(in + i + 9));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(in + i + 99));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(in + i + 199));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    out[i] = tile[threadIdx.x ^ 3];)")
                            .sass.all;
  EXPECT_THAT(mix.async_copies, ElementsAre(0, 0, 1, 1, 2, 0));
}

TEST_P(CubinTest, TruncatedAndChangedBytesAreErrorsOrRead) {
  const std::string bytes = Compile("const uint4* in, float4* out", kTensorBody).bytes;
  int errors = 0;
  for (size_t length = 0; length < bytes.size(); length += 1 + length / 64) {
    const absl::StatusOr<Cubin> cubin = ReadCubin(std::string_view(bytes).substr(0, length));
    if (cubin.ok()) continue;
    ++errors;
    EXPECT_THAT(std::string(cubin.status().message()), HasSubstr("cubin: "));
  }
  EXPECT_GT(errors, 50);
  std::mt19937 random(compute());
  for (int i = 0; i < 3000; ++i) {
    std::string changed = bytes;
    for (int edits = 0; edits < 4; ++edits) {
      // Half of the edits hit the headers, where most of the structure is.
      const size_t at = random() % (edits % 2 == 0 ? bytes.size() : 64);
      changed[at] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
    }
    const absl::StatusOr<Cubin> cubin = ReadCubin(changed);
    if (!cubin.ok()) continue;
    for (const CubinKernel& kernel : cubin->kernels) AnalyseSass(kernel.code, cubin->compute);
  }
}

std::vector<std::string> Targets() {
  std::vector<std::string> names;
  for (const GpuTarget& target : AllGpuTargets()) names.emplace_back(target.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Targets, CubinTest, ::testing::ValuesIn(Targets()),
                         [](const auto& info) { return info.param; });

// An instruction from its low and its high half.
std::string Word(uint64_t low, uint64_t high = 0) {
  std::string bytes(kSassBytes, '\0');
  std::memcpy(bytes.data(), &low, 8);
  std::memcpy(bytes.data() + 8, &high, 8);
  return bytes;
}

TEST(SassTest, UnknownOpcodesAreCountedByTheirBits) {
  const SassSummary summary = AnalyseSass(Word(0x71ff) + Word(0x71ff) + Word(0x794d), 80);
  EXPECT_EQ(summary.all.instructions, 3);
  EXPECT_EQ(summary.all.Count(SassClass::kUnknown), 2);
  EXPECT_THAT(summary.all.unknown, ElementsAre(std::pair(0x1ff, 2)));
  EXPECT_EQ(summary.all.CountOf("EXIT"), 1);
}

TEST(SassTest, AnyBytesAreRead) {
  EXPECT_EQ(AnalyseSass("", 80).all.instructions, 0);
  EXPECT_EQ(AnalyseSass("short", 80).all.instructions, 0);
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string code;
    for (uint64_t n = random() % 64; n > 0; --n) {
      // Many branches, to near places.
      const uint64_t offset = (random() % 64 - 32) << 36;
      code += random() % 2 == 0 ? Word(random(), random())
                                : Word(0x0947 | (random() & 0xf000) | offset, random());
    }
    const SassSummary summary = AnalyseSass(code, random() % 2 == 0 ? 80 : 90);
    EXPECT_LE(summary.all.instructions * kSassBytes, static_cast<int>(code.size()));
  }
}

// The work on loops is bounded: a long kernel of nothing but branches back is only counted.
TEST(SassTest, AbsurdlyManyBranchesAreCutShort) {
  std::string code;
  for (int i = 0; i < 20000; ++i) code += Word(0xffffffe000000947, 0x3ffff);
  const SassSummary summary = AnalyseSass(code, 80);
  EXPECT_FALSE(summary.complete);
  EXPECT_EQ(summary.all.instructions, 20000);
}

TEST(CubinReaderTest, OtherFilesAreRefusedWithASentence) {
  EXPECT_THAT(std::string(ReadCubin("").status().message()), HasSubstr("no 64-bit ELF file"));
  EXPECT_THAT(std::string(ReadCubin(std::string(200, 'x')).status().message()),
              HasSubstr("no 64-bit ELF file"));
  std::string host(64, '\0');
  std::memcpy(host.data(),
              "\x7f"
              "ELF\x02\x01",
              6);
  host[18] = 62;
  EXPECT_EQ(std::string(ReadCubin(host).status().message()),
            "cubin: the ELF file is for machine 62, not for CUDA (190)");
}

}  // namespace
}  // namespace duotone::runtime
