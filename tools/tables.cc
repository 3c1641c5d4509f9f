// duotone devices | ops | passes | docs: what this build can do, and the tables behind the
// generated pages of docs/.
#include <cstdio>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/gpu_target.h"
#include "base/status.h"
#include "ir/op_docs.h"
#include "passes/pass_docs.h"
#include "runtime/cuda/cuda_context.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/kernel_cache.h"
#include "runtime/cuda/nvrtc.h"
#include "tools/command.h"
#include "tools/model_flags.h"

namespace duotone::tools {
namespace {

struct Page {
  const char* file;
  std::string (*text)();
};
// The generated pages, which a test compares with the tables.
constexpr Page kPages[] = {{"ops.md", ir::OpsMarkdown}, {"passes.md", passes::PassesMarkdown}};

absl::Status WritePages(const std::string& dir) {
  for (const Page& page : kPages) {
    const std::string path = dir + "/" + page.file;
    DUOTONE_RETURN_IF_ERROR(WriteFileAtomically(path, page.text()));
    std::printf("%s\n", path.c_str());
  }
  return absl::OkStatus();
}

// A line per GPU, or why there is none.
void PrintCudaDevices() {
  const auto driver = runtime::LoadDriver();
  if (!driver.ok()) {
    std::printf("cuda       none: %s\n", std::string(driver.status().message()).c_str());
    return;
  }
  int count = 0;
  if ((*driver)->DeviceGetCount(&count) != runtime::kCuSuccess) count = 0;
  for (int i = 0; i < count; ++i) {
    const auto context = runtime::CudaContext::Create(*driver, i, absl::StrFormat("cuda:%d", i));
    if (!context.ok()) {
      std::printf("cuda:%d     %s\n", i, std::string(context.status().message()).c_str());
      continue;
    }
    const auto memory = (*context)->QueryMemory();
    std::printf("cuda:%d     %s, %s, %s; %s\n", i, (*context)->model().c_str(),
                (*context)->architecture().c_str(),
                memory.ok() ? runtime::MemoryText(memory->total).c_str() : "memory unknown",
                runtime::CudaVersionText((*driver)->version).c_str());
  }
  if (count == 0) std::printf("cuda       none: the driver finds no GPU\n");
}

// What CUDA devices, and `duotone kernels` without one, compile with.
void PrintKernelCompiler() {
  const absl::StatusOr<runtime::Nvrtc> nvrtc = runtime::OpenNvrtc();
  if (nvrtc.ok()) {
    std::printf("nvrtc      %d.%d, %s; for %s\n", nvrtc->major, nvrtc->minor, nvrtc->path.c_str(),
                absl::StrJoin(nvrtc->architectures, ", ", [](std::string* out, int architecture) {
                  absl::StrAppend(out, "sm_", architecture);
                }).c_str());
  } else {
    std::printf("nvrtc      none: %s\n", std::string(nvrtc.status().message()).c_str());
  }
  const runtime::KernelCacheOptions cache = runtime::KernelCacheOptionsFromEnvironment();
  if (cache.directory.empty() || cache.max_bytes == 0) {
    std::printf("cache      none%s%s\n", cache.warning.empty() ? "" : ": ", cache.warning.c_str());
  } else {
    std::printf("cache      %s, up to %d MiB of kernels%s%s\n", cache.directory.c_str(),
                static_cast<int>(cache.max_bytes >> 20), cache.warning.empty() ? "" : "; ",
                cache.warning.c_str());
  }
}

}  // namespace

std::function<absl::Status()> DeclareDevices(CLI::App&) {
  return [] {
    std::printf(
        "cpu        %u hardware threads; matrix products by oneDNN, the rest by reference "
        "evaluation\n",
        std::thread::hardware_concurrency());
    std::printf("reference  one thread, every node by the reference evaluator\n");
    PrintCudaDevices();
    std::printf("emulated   %s: runs and checks CUDA kernels without a GPU; docs/emulator.md\n",
                absl::StrJoin(AllGpuTargets(), ", ", [](std::string* out, const GpuTarget& target) {
                  absl::StrAppend(out, "emulated:", std::string(target.name));
                }).c_str());
    PrintKernelCompiler();
    return absl::OkStatus();
  };
}

std::function<absl::Status()> DeclareOps(CLI::App&) {
  return [] { return WriteResult("", ir::OpsMarkdown()); };
}

std::function<absl::Status()> DeclarePasses(CLI::App&) {
  return [] { return WriteResult("", passes::PassesMarkdown()); };
}

std::function<absl::Status()> DeclareDocs(CLI::App& app) {
  auto dir = std::make_shared<std::string>("docs");
  app.add_option("DIR", *dir, "The folder to write to")->capture_default_str();
  return [dir] { return WritePages(*dir); };
}

}  // namespace duotone::tools
