// Graphs on emulated GPUs: the PTX that NVRTC makes of their kernels, with every check on.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"
#include "runtime/cuda/compiler.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/emulator/emulated_driver.h"
#include "tests/duotone/random_testing.h"
#include "tests/runtime/cuda/nvrtc_testing.h"

namespace duotone {
namespace {

absl::Status RunOnEmulatedGpu(Case& test, runtime::KernelCompiler& compiler) {
  DUOTONE_RETURN_IF_ERROR(LowerCase(test));
  auto program = std::make_shared<runtime::Program>(test.entry.program);
  DUOTONE_RETURN_IF_ERROR(
      runtime::CompileProgram(*program, test.target->name, compiler, nullptr, 1).status());
  // Every second case runs in an order by chance, and approximates by chance.
  const bool odd = test.seed % 2 == 1;
  emulator::EmulatorOptions options;
  options.architecture = std::string(test.target->name);
  options.counters = false;
  options.schedule = odd ? emulator::Schedule::kAdversarial : emulator::Schedule::kRoundRobin;
  options.perturb_approximations = odd;
  options.seed = test.seed;
  DUOTONE_ASSIGN_OR_RETURN(std::shared_ptr<emulator::EmulatedGpu> gpu,
                           emulator::EmulatedGpu::Create(options));
  DUOTONE_ASSIGN_OR_RETURN(
      std::unique_ptr<runtime::Device> device,
      runtime::CreateCudaDevice({.driver = gpu->driver(), .name = "emulated"}));
  DUOTONE_RETURN_IF_ERROR(RunCase(test, std::move(program), *device));
  EXPECT_EQ(gpu->machine().problems().ToString(), "");
  return absl::OkStatus();
}

void ExpectAllMatch(std::vector<Case> cases) {
  const std::unique_ptr<runtime::KernelCompiler> compiler =
      runtime::NvrtcForTest({.line_info = true, .only_ptx = true});
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  for (Case& test : cases) {
    const absl::Status run = RunOnEmulatedGpu(test, *compiler);
    EXPECT_TRUE(run.ok()) << run << "\n" << test.Text();
  }
}

TEST(RandomGraphs, GiveOnEmulatedGpusWhatTheReferenceGives) {
  ExpectAllMatch(RandomCases(1000, 24));
}

TEST(SmallGraphs, GiveOnEmulatedGpusWhatTheReferenceGives) { ExpectAllMatch(SmallCases()); }

}  // namespace
}  // namespace duotone
