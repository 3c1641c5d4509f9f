// Second stages on the CPU: sums, extremes and means of partial results for many results at once.
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "codegen/cuda/kernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/codegen/cuda/host_kernel.h"

namespace duotone::codegen::cuda {
namespace {

using Kind = duotone::codegen::cuda::Finish::Kind;

// Runs a finish launch over such partial results, results and flags, one of each per job.
void RunJobs(const std::vector<FinishJob>& jobs, std::vector<void*> partials,
             std::vector<void*> results, std::vector<void*> flags) {
  const CodegenOptions options{.target = *FindGpuTarget("sm_80")};
  const auto kernel = GenerateFinish(jobs, options);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto compiled = HostKernel::Compile("kernel", kernel->source, KernelHeaders());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  void* tables[] = {partials.data(), results.data(), flags.data()};
  std::vector<void*> arguments;
  for (size_t i = 0; i < kernel->arguments.size(); ++i) {
    ASSERT_EQ(kernel->arguments[i].kind, Argument::Kind::kTable);
    arguments.push_back(&tables[i]);
  }
  ASSERT_EQ(kernel->arguments.size(), flags.empty() ? 2u : 3u);
  const absl::Status run =
      (*compiled)->Launch({.grid = kernel->grid, .block = kernel->block}, arguments.data());
  ASSERT_TRUE(run.ok()) << run;
}

// partial[c][i] = c + 1000 * i for job j, times j.
TEST(FinishKernel, TwoHundredSums) {
  constexpr int kJobs = 200;
  std::vector<FinishJob> jobs(kJobs);
  std::vector<std::vector<float>> partials(kJobs), results(kJobs);
  std::vector<void*> partial_table, result_table;
  for (int j = 0; j < kJobs; ++j) {
    const int64_t chunks = 1 + j, elements = 1 + j % 70;
    jobs[j].finish = {.chunks = chunks, .elements = elements};
    for (int64_t c = 0; c < chunks; ++c) {
      for (int64_t i = 0; i < elements; ++i) {
        partials[j].push_back(static_cast<float>(j * (c + 1000 * i)));
      }
    }
    results[j].assign(elements, -1);
    partial_table.push_back(partials[j].data());
    result_table.push_back(results[j].data());
  }
  RunJobs(jobs, partial_table, result_table, {});
  for (int j = 0; j < kJobs; ++j) {
    const int64_t chunks = 1 + j;
    for (size_t i = 0; i < results[j].size(); ++i) {
      const double sum = static_cast<double>(chunks * (chunks - 1)) / 2.0 +
                         1000.0 * static_cast<double>(i) * static_cast<double>(chunks);
      EXPECT_NEAR(results[j][i], j * sum, j * sum * 1e-6) << "job " << j << ", element " << i;
    }
  }
}

TEST(FinishKernel, KindsAndTypes) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> maxima = {1, -5, 3, nan, 2, -7};  // 3 chunks of 2
  std::vector<float> minima = {1, infinity, 3, 4, 2, 5};
  std::vector<float> means = {1, 2, 3, 6};  // 4 chunks of 1
  std::vector<long long> integers = {(1LL << 40), 5, -7, 1};
  std::vector<double> doubles = {1e300, 1, -1e300, 0.5};
  std::vector<float> greatest(2), least(2), mean(1);
  std::vector<int> integer(2);
  std::vector<double> wide(2);
  std::vector<float> empty = {3};
  const auto job = [](Kind kind, int64_t chunks, int64_t elements, DType partial, DType dtype,
                      double count = 1) {
    FinishJob made{.dtype = dtype};
    made.finish = {
        .kind = kind, .chunks = chunks, .elements = elements, .count = count, .partial = partial};
    return made;
  };
  RunJobs({job(Kind::kMax, 3, 2, DType::kF32, DType::kF32),
           job(Kind::kMin, 3, 2, DType::kF32, DType::kF32),
           job(Kind::kMean, 4, 1, DType::kF32, DType::kF32, 8),
           job(Kind::kSum, 2, 2, DType::kI64, DType::kI32),
           job(Kind::kSum, 2, 2, DType::kF64, DType::kF64),
           job(Kind::kMax, 0, 1, DType::kF32, DType::kF32)},
          {maxima.data(), minima.data(), means.data(), integers.data(), doubles.data(), nullptr},
          {greatest.data(), least.data(), mean.data(), integer.data(), wide.data(), empty.data()},
          {});
  EXPECT_EQ(greatest[0], 3);
  EXPECT_TRUE(std::isnan(greatest[1]));
  EXPECT_THAT(least, testing::ElementsAre(1, 4));
  EXPECT_EQ(mean[0], 1.5f);
  EXPECT_THAT(integer, testing::ElementsAre(-7, 6));  // 2^40 - 7 in 32 bits
  EXPECT_THAT(wide, testing::ElementsAre(0, 1.5));
  EXPECT_EQ(empty[0], -infinity);
}

// 40000 + 40000 is an infinity in f16: the flag of that job is cleared, the other stays.
TEST(FinishKernel, FlagsSeeTheStoredResults) {
  std::vector<float> partials = {40000, 40000};
  std::vector<uint16_t> narrow(1);
  std::vector<float> wide(1);
  int narrow_flag = 1, wide_flag = 1;
  std::vector<FinishJob> jobs(3);
  for (FinishJob& job : jobs) job.finish = {.chunks = 2, .elements = 1};
  jobs[0].dtype = DType::kF16;
  jobs[0].finish.finite_result = 1;
  jobs[2].finish.finite_result = 1;
  std::vector<float> unwatched(1);
  RunJobs(jobs, {partials.data(), partials.data(), partials.data()},
          {narrow.data(), unwatched.data(), wide.data()}, {&narrow_flag, &wide_flag});
  EXPECT_EQ(narrow[0], 0x7c00);
  EXPECT_EQ(wide[0], 80000);
  EXPECT_EQ(narrow_flag, 0);
  EXPECT_EQ(wide_flag, 1);
}

// A sum of many equal numbers: a chain of 20000 roundings would miss it by far more.
TEST(FinishKernel, LongSumsStayWithinTheirBound) {
  constexpr int64_t kChunks = 20000;
  std::vector<float> partials(kChunks, 0.1f);
  std::vector<float> sum(1);
  std::vector<FinishJob> jobs(1);
  jobs[0].finish = {.chunks = kChunks, .elements = 1};
  RunJobs(jobs, {partials.data()}, {sum.data()}, {});
  const double exact = static_cast<double>(0.1f) * kChunks;
  EXPECT_NEAR(sum[0], exact, exact * (64 + std::log2(kChunks)) * 0x1p-24);
}

TEST(FinishKernel, EqualListsOfJobsAreOneKernel) {
  const CodegenOptions options{.target = *FindGpuTarget("sm_80")};
  std::vector<FinishJob> jobs(2);
  for (FinishJob& job : jobs) job.finish = {.chunks = 4, .elements = 8};
  const auto first = GenerateFinish(jobs, options);
  const auto second = GenerateFinish(jobs, options);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->source, second->source);
  jobs[1].finish.chunks = 5;
  const auto third = GenerateFinish(jobs, options);
  ASSERT_TRUE(third.ok());
  EXPECT_NE(first->source, third->source);
}

}  // namespace
}  // namespace duotone::codegen::cuda
