#include "runtime/cuda/compiler.h"

#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/gpu_target.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/cuda/compile_error.h"
#include "tests/runtime/cuda/nvrtc_testing.h"
#include "tests/runtime/cuda/scoped_environment.h"

namespace duotone::runtime {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kHeaderName[] = "duotone/test.cuh";

Kernel Scale() {
  return {.name = "scale", .source = R"(#include "duotone/test.cuh"
extern "C" __global__ void __launch_bounds__(128)
    scale(const float* __restrict__ in0, float* __restrict__ out0) {
  const int i = blockIdx.x * 128 + threadIdx.x;
#line 1 "kernel"
  const float a = in0[i];
#line 2 "kernel"
  out0[i] = Twice(a) + 1.0f;
}
)"};
}

std::vector<SourceHeader> Headers() {
  return {{kHeaderName, "#pragma once\ninline float Twice(float x) { return x * 2.0f; }\n"}};
}

Program ProgramOf(const Kernel& kernel) {
  Program program{.name = "step"};
  program.headers = Headers();
  program.kernels = {kernel};
  program.steps.push_back(
      {KernelLaunch{.kernel = 0,
                    .node = "h1",
                    .family = "pointwise",
                    .labels = {"load (mlp.cc:13, node %x)", "scale (mlp.cc:14, node %h1)"}}});
  return program;
}

class NvrtcCompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    compiler_ = NvrtcForTest();
    if (compiler_ == nullptr) GTEST_SKIP() << "no NVRTC";
  }
  std::unique_ptr<KernelCompiler> compiler_;
};

// The first bytes and the machine of an ELF file for CUDA.
bool IsCubin(const std::string& bytes) {
  return bytes.starts_with(
             "\x7f"
             "ELF") &&
         bytes.size() > 64 && static_cast<uint8_t>(bytes[18]) == 190;
}

TEST_F(NvrtcCompilerTest, MakesCubinAndPtxForEveryTarget) {
  const Kernel empty = {.name = "empty", .source = "extern \"C\" __global__ void empty() {}\n"};
  for (const GpuTarget& target : AllGpuTargets()) {
    for (const Kernel& kernel : {empty, Scale()}) {
      const auto compiled = compiler_->Compile(kernel, Headers(), target.name);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      EXPECT_TRUE(IsCubin(compiled->cubin)) << target.name;
      EXPECT_THAT(compiled->ptx, AllOf(HasSubstr(".target " + std::string(target.name)),
                                       HasSubstr(".entry " + kernel.name)));
    }
  }
}

TEST_F(NvrtcCompilerTest, TwoThreadsGetTheBytesThatOneGets) {
  const auto alone = compiler_->Compile(Scale(), Headers(), "sm_80");
  ASSERT_TRUE(alone.ok()) << alone.status();
  absl::StatusOr<CompiledKernel> results[2];
  {
    std::jthread first([&] { results[0] = compiler_->Compile(Scale(), Headers(), "sm_80"); });
    std::jthread second([&] { results[1] = compiler_->Compile(Scale(), Headers(), "sm_80"); });
  }
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->cubin, alone->cubin);
    EXPECT_EQ(result->ptx, alone->ptx);
  }
}

// Contraction decides whether a*2+1 is one rounding or two.
TEST_F(NvrtcCompilerTest, ContractsOnlyWhereTheKernelAllowsIt) {
  Kernel kernel = Scale();
  const auto contracted = compiler_->Compile(kernel, Headers(), "sm_80");
  kernel.contract = false;
  const auto exact = compiler_->Compile(kernel, Headers(), "sm_80");
  ASSERT_TRUE(contracted.ok() && exact.ok());
  EXPECT_THAT(contracted->ptx, HasSubstr("fma.rn.f32"));
  EXPECT_THAT(exact->ptx, Not(HasSubstr("fma")));
}

TEST_F(NvrtcCompilerTest, AnUnknownArchitectureIsAnsweredByTheKnownOnes) {
  for (const char* architecture : {"sm_70", "sm_999", "sm_8", "", "compute_80"}) {
    const auto compiled = compiler_->Compile(Scale(), Headers(), architecture);
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument) << architecture;
    EXPECT_THAT(std::string(compiled.status().message()), HasSubstr("it knows sm_75, sm_80"));
  }
}

TEST_F(NvrtcCompilerTest, AnUnknownArchitectureIsNoFaultOfAKernel) {
  Program program = ProgramOf(Scale());
  const auto statistics = CompileProgram(program, "sm_70", *compiler_, nullptr, 1);
  EXPECT_EQ(statistics.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(statistics.status().message()), Not(HasSubstr("kernel")));
  EXPECT_EQ(program.kernels[0].architecture, "");
}

TEST_F(NvrtcCompilerTest, NamesItsVersionAndBuild) {
  EXPECT_THAT(compiler_->identity(), ::testing::MatchesRegex("NVRTC [0-9.]+ build .+"));
}

TEST_F(NvrtcCompilerTest, AProgramIsFilledAndEqualSourcesCompileOnce) {
  Program program = ProgramOf(Scale());
  program.kernels.push_back(Scale());
  const auto statistics = CompileProgram(program, "sm_90", *compiler_, nullptr, 2);
  ASSERT_TRUE(statistics.ok()) << statistics.status();
  EXPECT_EQ(statistics->kernels, 2);
  EXPECT_EQ(statistics->compiled, 1);
  EXPECT_THAT(statistics->warnings, IsEmpty());
  for (const Kernel& kernel : program.kernels) {
    EXPECT_EQ(kernel.architecture, "sm_90");
    EXPECT_TRUE(IsCubin(kernel.cubin));
  }
  const auto again = CompileProgram(program, "sm_90", *compiler_, nullptr, 2);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->compiled, 0);
}

TEST_F(NvrtcCompilerTest, AnErrorNamesTheNodeTheLineAndTheText) {
  Kernel kernel = Scale();
  const size_t place = kernel.source.find("Twice(a)");
  kernel.source.replace(place, 8, "Thrice(a)");
  Program program = ProgramOf(kernel);
  const std::string directory = ::testing::TempDir() + "/kernel_reproducer";
  const auto statistics = CompileProgram(program, "sm_80", *compiler_, nullptr, 0, directory);
  EXPECT_EQ(statistics.status().code(), absl::StatusCode::kInternal);
  const std::string message(statistics.status().message());
  EXPECT_THAT(message, AllOf(HasSubstr("while compiling the kernel of h1"),
                             HasSubstr("kernel.cu(8): error: identifier \"Thrice\" is undefined"),
                             HasSubstr(">     8 |   out0[i] = Thrice(a) + 1.0f;"),
                             HasSubstr("line 8 computes scale (mlp.cc:14, node %h1)"),
                             HasSubstr("Its log:\n")));
  // What is left behind fails again from the files alone.
  std::string source;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.path().filename() == kKernelFile) source = *ReadFile(entry.path().string());
  }
  EXPECT_EQ(source, kernel.source);
  std::filesystem::remove_all(directory);
}

TEST_F(NvrtcCompilerTest, AnErrorInAHeaderShowsTheHeader) {
  Program program = ProgramOf(Scale());
  program.headers[0].text = "#pragma once\ninline float Twice(float x) { return y; }\n";
  const auto statistics = CompileProgram(program, "sm_80", *compiler_, nullptr, 1);
  EXPECT_THAT(std::string(statistics.status().message()),
              HasSubstr(">     2 | inline float Twice(float x) { return y; }"));
}

// ptxas speaks of no line: the log alone tells.
TEST_F(NvrtcCompilerTest, TooMuchSharedMemoryIsAnErrorOfTheKernel) {
  Program program = ProgramOf({.name = "big", .source = R"(
extern "C" __global__ void big(float* out) {
  __shared__ float values[100000];
  values[threadIdx.x] = out[0];
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
)"});
  const auto statistics = CompileProgram(program, "sm_80", *compiler_, nullptr, 1);
  EXPECT_THAT(std::string(statistics.status().message()),
              AllOf(HasSubstr("the kernel of h1"), HasSubstr("too much shared data")));
}

TEST(NvrtcTest, WithoutTheLibraryTheErrorSaysWhatToDo) {
  ScopedEnvironment place("DUOTONE_NVRTC", "/nonexistent/libnvrtc.so");
  const auto compiler = CreateNvrtcCompiler();
  EXPECT_EQ(compiler.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(compiler.status().message()),
              AllOf(HasSubstr("DUOTONE_NVRTC=/nonexistent/libnvrtc.so"),
                    HasSubstr("correct or unset the variable")));
}

TEST(NvrtcTest, AFileThatIsNoLibraryIsAnError) {
  const std::string folder = ::testing::TempDir() + "duotone_no_nvrtc";
  const std::string path = folder + "/libnvrtc.so.13";
  ASSERT_TRUE(WriteFileAtomically(path, "not a library").ok());
  ScopedEnvironment place("DUOTONE_NVRTC", folder.c_str());
  const auto compiler = CreateNvrtcCompiler();
  EXPECT_THAT(std::string(compiler.status().message()), HasSubstr(path));
  std::filesystem::remove_all(folder);
}

TEST(CompileErrorTest, LinesBelongToTheDirectiveAboveThem) {
  const char source[] = "a\n  #line 3 \"kernel\"\nb\nc\n# line 7 \"other\"\nd";
  EXPECT_EQ(LabelOfLine(source, 1), 0);
  EXPECT_EQ(LabelOfLine(source, 3), 3);
  EXPECT_EQ(LabelOfLine(source, 4), 3);
  EXPECT_EQ(LabelOfLine(source, 6), 0);
  EXPECT_EQ(LabelOfLine(source, 100), 0);
  EXPECT_EQ(LabelOfLine("", 1), 0);
  EXPECT_EQ(WithoutLineDirectives(source), "a\n\nb\nc\n\nd\n");
}

TEST(CompileErrorTest, PlacesAreReadFromMessagesOnly) {
  const auto places = PlacesIn(
      "kernel.cu(3): error: bad\n    x(4): not at the start\n(5): \nf(x): "
      "y\nkernel.cu(99999999999): z");
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].file, "kernel.cu");
  EXPECT_EQ(places[0].line, 3);
  EXPECT_EQ(places[0].message, "error: bad");
}

TEST(CompileErrorTest, AnExcerptStaysWithinTheText) {
  EXPECT_EQ(Excerpts("kernel.cu(1): error: bad", "one\ntwo", {}),
            "\nkernel.cu(1): error: bad\n>     1 | one\n      2 | two");
  EXPECT_EQ(Excerpts("kernel.cu(9): error: bad", "one", {}), "\nkernel.cu(9): error: bad");
  EXPECT_EQ(Excerpts("kernel.cu(1): warning: odd", "one", {}), "");
}

}  // namespace
}  // namespace duotone::runtime
