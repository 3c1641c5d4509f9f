#include "duotone/backend.h"

#include <charconv>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/gpu_target.h"
#include "base/status.h"
#include "codegen/cpu/lower.h"
#include "duotone/cuda_compile.h"
#include "duotone/translate_options.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/kernel_cache.h"
#include "runtime/emulator/emulated_driver.h"

namespace duotone::internal {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const Options& options)
      : use_library_(!options.exact && options.device.name() != "reference" &&
                     runtime::CpuDeviceHasLibrary()),
        device_(
            runtime::CreateCpuDevice({.name = options.device.name(), .threads = options.threads})) {
  }

  runtime::Device& device() override { return *device_; }

  absl::StatusOr<runtime::Program> MakeProgram(const ir::Module& module, std::string_view graph,
                                               const ir::SizeBinding& sizes) override {
    const std::unique_ptr<ir::Module> bound = module.Clone();
    ir::Graph* entry = bound->FindGraph(graph);
    DUOTONE_CHECK(entry != nullptr) << std::string(graph);
    DUOTONE_RETURN_IF_ERROR(ir::BindSizes(*entry, sizes)).With("graph @%s", graph);
    absl::StatusOr<runtime::Program> program =
        codegen::cpu::Lower(*entry, {.use_library = use_library_});
    DUOTONE_RETURN_IF_ERROR(program).With("graph @%s", graph);
    return program;
  }

 private:
  const bool use_library_;
  std::unique_ptr<runtime::Device> device_;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Options& options, std::unique_ptr<runtime::Device> device,
              std::shared_ptr<runtime::KernelCompiler> compiler, bool use_cache,
              std::shared_ptr<emulator::EmulatedGpu> emulated)
      : log_(options.log),
        emulated_(std::move(emulated)),
        device_(std::move(device)),
        compiler_(std::move(compiler)) {
    if (use_cache) cache_.emplace();
    compile_ = {.exact = options.exact,
                .passes = ToPassOptions(options),
                .compiler = compiler_.get(),
                .cache = use_cache ? &*cache_ : nullptr,
                .threads = options.threads,
                .reproducer_directory = options.reproducer_directory};
  }

  ~CudaBackend() override {
    if (log_ && emulated_ != nullptr) LogEmulation();
  }

  absl::Status FindTarget() {
    const std::string_view architecture = device_->architecture();
    int compute = 0;
    const auto digits = architecture.substr(std::min<size_t>(3, architecture.size()));
    std::from_chars(digits.data(), digits.data() + digits.size(), compute);
    compile_.target = GpuTargetFor(compute);
    if (compile_.target == nullptr) {
      return FailedPrecondition("%s: there are no kernels for %s", device_->name(), architecture);
    }
    return absl::OkStatus();
  }

  runtime::Device& device() override { return *device_; }

  absl::Status PrepareModule(ir::Module& module) override {
    return AddWeightCopies(module, compile_.passes).status();
  }

  absl::StatusOr<runtime::Program> MakeProgram(const ir::Module& module, std::string_view graph,
                                               const ir::SizeBinding& sizes) override {
    DUOTONE_ASSIGN_OR_RETURN(CudaEntry entry, LowerForCuda(module, graph, sizes, compile_));
    absl::StatusOr<runtime::CompileStatistics> statistics = CompileKernels(entry.program, compile_);
    DUOTONE_RETURN_IF_ERROR(statistics).With("graph @%s", graph);
    if (log_) {
      log_(absl::StrFormat("%s: graph @%s: %d kernels, %d compiled and %d from the cache in %.2f s",
                           device_->name(), graph, statistics->kernels, statistics->compiled,
                           statistics->cache_hits, statistics->seconds));
      for (const std::string& warning : entry.warnings) log_("warning: " + warning);
      for (const std::string& warning : statistics->warnings) log_("warning: " + warning);
    }
    return std::move(entry.program);
  }

 private:
  // What ran, and what the emulation warns of: errors have been those of a call.
  void LogEmulation() {
    int64_t launches = 0, instructions = 0;
    for (const auto& record : emulated_->machine().records()) {
      launches += record->launches;
      instructions += record->instructions;
    }
    log_(absl::StrFormat("%s: %d launches, %d instructions of warps", device_->name(), launches,
                         instructions));
    for (const emulator::Problem& problem : emulated_->machine().problems().problems()) {
      if (emulator::IsWarning(problem.kind)) log_("warning: " + problem.ToString());
    }
  }

  const std::function<void(const std::string&)> log_;
  std::shared_ptr<emulator::EmulatedGpu> emulated_;  // null for real GPUs
  std::unique_ptr<runtime::Device> device_;
  std::shared_ptr<runtime::KernelCompiler> compiler_;
  std::optional<runtime::KernelCache> cache_;
  CudaCompileOptions compile_;
};

// A session has no use for counters: `duotone kernels --emulate` shows them.
absl::StatusOr<std::shared_ptr<emulator::EmulatedGpu>> MakeEmulatedGpu(std::string_view text,
                                                                       const Options& options) {
  DUOTONE_ASSIGN_OR_RETURN(emulator::EmulatorOptions wanted, emulator::ParseEmulatorOptions(text));
  wanted.counters = false;
  wanted.threads = options.threads;
  return emulator::EmulatedGpu::Create(wanted);
}

// "emulated:sm_80" without the words behind it, for messages.
std::string ShortName(const Device& device) {
  return device.name().substr(0, device.name().find(','));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const Options& options,
                                                     const CudaParts& parts) {
  const std::optional<int> ordinal = options.device.cuda_ordinal();
  const std::optional<std::string_view> emulated = options.device.emulated();
  if (!ordinal.has_value() && !emulated.has_value()) return std::make_unique<CpuBackend>(options);
  std::shared_ptr<const runtime::Driver> driver = parts.driver;
  std::shared_ptr<emulator::EmulatedGpu> gpu;
  if (emulated.has_value() && driver == nullptr) {
    DUOTONE_ASSIGN_OR_RETURN(gpu, MakeEmulatedGpu(*emulated, options));
    driver = gpu->driver();
  }
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<runtime::Device> device,
                           runtime::CreateCudaDevice({.driver = driver,
                                                      .ordinal = ordinal.value_or(0),
                                                      .name = ShortName(options.device),
                                                      .log = options.log}));
  std::shared_ptr<runtime::KernelCompiler> compiler = parts.compiler;
  if (compiler == nullptr) {
    // The emulation runs the PTX, and names lines of the source in what it says.
    absl::StatusOr<std::unique_ptr<runtime::KernelCompiler>> opened = runtime::CreateNvrtcCompiler(
        {.line_info = emulated.has_value(), .only_ptx = emulated.has_value()});
    DUOTONE_RETURN_IF_ERROR(opened).With("%s", options.device.name());
    compiler = *std::move(opened);
  }
  auto backend = std::make_unique<CudaBackend>(options, std::move(device), std::move(compiler),
                                               parts.compiler == nullptr, std::move(gpu));
  DUOTONE_RETURN_IF_ERROR(backend->FindTarget());
  return backend;
}

}  // namespace duotone::internal
