#include "tests/codegen/cuda/host_kernel.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duotone::codegen::cuda {
namespace {

using testing::HasSubstr;

std::shared_ptr<const HostKernel> CompileOrDie(std::string_view source) {
  auto kernel = HostKernel::Compile("kernel", source, {});
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *kernel : nullptr;
}

// Runs a kernel with one parameter, int*, of 256 elements that hold 0, 1, ... before.
absl::Status RunOn(std::string_view source, HostLaunch launch, std::vector<int>* values) {
  const auto kernel = CompileOrDie(source);
  if (kernel == nullptr) return absl::InternalError("does not compile");
  values->resize(256);
  for (int i = 0; i < 256; ++i) (*values)[i] = i;
  int* address = values->data();
  void* arguments[] = {&address};
  return kernel->Launch(launch, arguments);
}

TEST(HostKernel, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> values;
  ASSERT_TRUE(RunOn(R"(extern "C" __global__ void kernel(int* out) {
                       out[(blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x] +=
                           1000 * gridDim.x;
                     })",
                    {.grid = {4, 1, 1}, .block = {16, 4, 1}}, &values)
                  .ok());
  for (int i = 0; i < 256; ++i) EXPECT_EQ(values[i], 4000 + i);
}

TEST(HostKernel, ABarrierWaitsForTheWholeBlock) {
  const char* source = R"(extern "C" __global__ void kernel(int* out) {
                            DUOTONE_SHARED(int, row, 256);
                            row[threadIdx.x] = out[threadIdx.x];
                            __syncthreads();
                            out[threadIdx.x] = row[255 - threadIdx.x];
                          })";
  for (bool reverse : {false, true}) {
    std::vector<int> values;
    ASSERT_TRUE(RunOn(source, {.block = {256, 1, 1}, .reverse = reverse}, &values).ok());
    for (int i = 0; i < 256; ++i) EXPECT_EQ(values[i], 255 - i);
  }
}

// Without the barrier a thread reads what others have not written yet: garbage.
TEST(HostKernel, AMissingBarrierShows) {
  std::vector<int> values;
  ASSERT_TRUE(RunOn(R"(extern "C" __global__ void kernel(int* out) {
                       DUOTONE_SHARED(int, row, 256);
                       row[threadIdx.x] = out[threadIdx.x];
                       out[threadIdx.x] = row[255 - threadIdx.x];
                     })",
                    {.block = {256, 1, 1}}, &values)
                  .ok());
  EXPECT_EQ(values[0], -1);
  EXPECT_EQ(values[255], 0);
}

TEST(HostKernel, ShufflesSumTheLanesOfAWarp) {
  std::vector<int> values;
  ASSERT_TRUE(RunOn(R"(extern "C" __global__ void kernel(int* out) {
                       int sum = out[threadIdx.x];
                       for (int lanes = 16; lanes > 0; lanes /= 2)
                         sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
                       out[threadIdx.x] = sum;
                     })",
                    {.block = {256, 1, 1}}, &values)
                  .ok());
  for (int i = 0; i < 256; ++i) EXPECT_EQ(values[i], (i / 32 * 32) * 32 + 31 * 16);
}

TEST(HostKernel, ThreadsThatNeverMeetAreAnError) {
  std::vector<int> values;
  const absl::Status status = RunOn(R"(extern "C" __global__ void kernel(int* out) {
                                       if (threadIdx.x >= 60) return;
                                       __syncthreads();
                                     })",
                                    {.block = {64, 1, 1}}, &values);
  EXPECT_EQ(status.message(),
            "block (0, 0, 0): 60 threads (thread 0) wait at a barrier, 4 threads (thread 60) have "
            "ended: they never meet");
}

TEST(HostKernel, AWriteBesideSharedMemoryIsAnError) {
  std::vector<int> values;
  const absl::Status status = RunOn(R"(extern "C" __global__ void kernel(int* out) {
                                       DUOTONE_SHARED(int, row, 32);
                                       row[threadIdx.x + 1] = 0;
                                     })",
                                    {.block = {32, 1, 1}}, &values);
  EXPECT_THAT(std::string(status.message()), HasSubstr("outside its shared memory"));
}

TEST(HostKernel, ACompileErrorHasItsLabel) {
  const auto kernel = HostKernel::Compile(
      "kernel", "extern \"C\" __global__ void kernel() {\n#line 7 \"kernel\"\n  oops();\n}", {});
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("kernel:7:"));
}

TEST(HostKernel, HeadersAreFoundByName) {
  const std::vector<runtime::SourceHeader> headers = {
      {"duotone/two.cuh", "__device__ int Two() { return 2; }\n"}};
  const auto kernel = HostKernel::Compile("kernel",
                                          "#include \"duotone/two.cuh\"\n"
                                          "extern \"C\" __global__ void kernel(int* out, int n,\n"
                                          "    long long m) { *out = Two() + n + (int)m; }",
                                          headers);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ((*kernel)->parameters(), 3);
  int out = 0, n = 10;
  int* address = &out;
  long long m = 100;
  void* arguments[] = {&address, &n, &m};
  ASSERT_TRUE((*kernel)->Launch({}, arguments).ok());
  EXPECT_EQ(out, 112);
}

}  // namespace
}  // namespace duotone::codegen::cuda
