// Graphs on the CUDA device, with a GPU in host memory.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/codegen/cuda/host_kernel.h"
#include "tests/duotone/random_testing.h"
#include "tests/runtime/cuda/host_driver.h"

namespace duotone {
namespace {

// All kernels of all cases in one run of the host's compiler.
absl::Status CompileTogether(std::vector<Case>& cases) {
  std::vector<codegen::cuda::HostSource> sources;
  for (const Case& test : cases) {
    for (const runtime::Kernel& kernel : test.entry.program.kernels) {
      sources.push_back({kernel.name, kernel.source});
    }
  }
  if (sources.empty()) return absl::OkStatus();
  DUOTONE_ASSIGN_OR_RETURN(
      std::vector<std::string> paths,
      codegen::cuda::HostKernel::CompileToFile(sources, cases.front().entry.program.headers));
  size_t next = 0;
  for (Case& test : cases) {
    for (runtime::Kernel& kernel : test.entry.program.kernels) {
      kernel.cubin = runtime::HostImage(paths[next++]);
      kernel.architecture = "sm_80";
    }
  }
  return absl::OkStatus();
}

absl::Status RunOnHostGpu(const Case& test) {
  // Threads and blocks of every second case run last to first.
  runtime::HostGpu gpu({.reverse = test.seed % 2 == 1});
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<runtime::Device> device,
                           runtime::CreateCudaDevice({.driver = gpu.driver()}));
  auto program = std::make_shared<runtime::Program>(test.entry.program);
  for (runtime::Kernel& kernel : program->kernels) kernel.architecture = device->architecture();
  const absl::Status run = RunCase(test, std::move(program), *device);
  device.reset();
  for (const std::string& problem : gpu.Problems()) ADD_FAILURE() << problem;
  return run;
}

// Expects every case to give the reference's results.
void ExpectAllMatch(std::vector<Case> cases) {
  std::erase_if(cases, [](Case& test) {
    const absl::Status lowered = LowerCase(test);
    EXPECT_TRUE(lowered.ok()) << lowered << "\n" << test.Text();
    return !lowered.ok();
  });
  const absl::Status compiled = CompileTogether(cases);
  ASSERT_TRUE(compiled.ok()) << compiled;
  for (const Case& test : cases) {
    const absl::Status run = RunOnHostGpu(test);
    EXPECT_TRUE(run.ok()) << run << "\n" << test.Text();
  }
}

TEST(RandomGraphs, GiveOnCudaWhatTheReferenceGives) { ExpectAllMatch(RandomCases(0, 48)); }

TEST(SmallGraphs, GiveOnCudaWhatTheReferenceGives) { ExpectAllMatch(SmallCases()); }

}  // namespace
}  // namespace duotone
