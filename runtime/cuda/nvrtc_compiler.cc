// KernelCompiler over NVRTC.
#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "runtime/cuda/compile_error.h"
#include "runtime/cuda/compiler.h"
#include "runtime/cuda/nvrtc.h"

namespace duotone::runtime {
namespace {

// One nvrtcProgram, destroyed with its owner.
class ProgramHandle {
 public:
  explicit ProgramHandle(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {}
  ~ProgramHandle() {
    if (program_ != nullptr) nvrtc_.DestroyProgram(&program_);
  }
  ProgramHandle(const ProgramHandle&) = delete;
  ProgramHandle& operator=(const ProgramHandle&) = delete;
  NvrtcProgram* address() { return &program_; }

  // What a pair of "size, bytes" functions gives; empty where there is nothing.
  std::string Bytes(int (*get_size)(NvrtcProgram, size_t*), int (*get)(NvrtcProgram, char*)) const {
    size_t size = 0;
    if (get_size(program_, &size) != kNvrtcSuccess) return "";
    std::string bytes(size, '\0');
    if (size != 0 && get(program_, bytes.data()) != kNvrtcSuccess) return "";
    return bytes;
  }
  // The same for text, whose size counts the zero at its end.
  std::string Text(int (*get_size)(NvrtcProgram, size_t*), int (*get)(NvrtcProgram, char*)) const {
    std::string text = Bytes(get_size, get);
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }

 private:
  const Nvrtc& nvrtc_;
  NvrtcProgram program_ = nullptr;
};

struct Outcome {
  int result = kNvrtcSuccess;
  CompiledKernel compiled;
};

class NvrtcCompiler final : public KernelCompiler {
 public:
  NvrtcCompiler(Nvrtc nvrtc, const NvrtcOptions& options)
      : nvrtc_(std::move(nvrtc)), options_(options) {}

  absl::StatusOr<CompiledKernel> Compile(const Kernel& kernel,
                                         std::span<const SourceHeader> headers,
                                         std::string_view architecture) override {
    DUOTONE_RETURN_IF_ERROR(CheckArchitecture(architecture));
    const std::vector<std::string> flags = options(kernel, architecture);
    Outcome outcome = Run(kernel.source, headers, flags);
    const bool has_code = options_.only_ptx || !outcome.compiled.cubin.empty();
    if (outcome.result == kNvrtcSuccess && has_code && !outcome.compiled.ptx.empty()) {
      return std::move(outcome.compiled);
    }
    // Messages speak of lines as #line numbers them; for an error those of the text are wanted.
    if (outcome.result == kNvrtcCompilation) {
      Outcome again = Run(WithoutLineDirectives(kernel.source), headers, flags);
      if (again.result == kNvrtcCompilation) outcome = std::move(again);
    }
    return Failure(kernel, headers, architecture, outcome);
  }

  std::vector<std::string> options(const Kernel& kernel,
                                   std::string_view architecture) const override {
    std::vector<std::string> options = {
        // Without machine code the architecture is a virtual one.
        options_.only_ptx ? absl::StrFormat("-arch=compute_%s", architecture.substr(3))
                          : absl::StrFormat("-arch=%s", architecture),
        "-std=c++17",
        // Functions without __device__ are for the device too.
        "-default-device",
        // Else NVRTC calls setrlimit for the whole process, which threads must not.
        "--modify-stack-limit=false",
        kernel.contract ? "--fmad=true" : "--fmad=false",
    };
    // NVRTC's own cache, which asks for a driver, came with 12.9.
    if (std::pair(nvrtc_.major, nvrtc_.minor) >= std::pair(12, 9)) options.push_back("--no-cache");
    if (options_.line_info) options.push_back("-lineinfo");
    return options;
  }

  std::string identity() const override {
    return absl::StrFormat("%s build %s", Name(), nvrtc_.build);
  }

 private:
  std::string Name() const { return absl::StrFormat("NVRTC %d.%d", nvrtc_.major, nvrtc_.minor); }

  absl::Status CheckArchitecture(std::string_view architecture) const {
    const std::vector<int>& known = nvrtc_.architectures;
    const bool found = std::ranges::any_of(known, [&](int number) {
      const std::string name = absl::StrFormat("sm_%d", number);
      return architecture == name || architecture == name + "a" || architecture == name + "f";
    });
    if (found) return absl::OkStatus();
    return InvalidArgument(
        "%s (%s) does not know the architecture %s; it knows sm_%s%s", Name(), nvrtc_.path,
        architecture, absl::StrJoin(known, ", sm_"),
        nvrtc_.major < 13 ? ". A newer CUDA toolkit, named by DUOTONE_NVRTC, may know it" : "");
  }

  Outcome Run(const std::string& source, std::span<const SourceHeader> headers,
              const std::vector<std::string>& flags) const {
    std::vector<const char*> texts, names, options;
    for (const SourceHeader& header : headers) {
      texts.push_back(header.text.c_str());
      names.push_back(header.name.c_str());
    }
    for (const std::string& flag : flags) options.push_back(flag.c_str());
    ProgramHandle program(nvrtc_);
    Outcome outcome;
    outcome.result =
        nvrtc_.CreateProgram(program.address(), source.c_str(), kKernelFile,
                             static_cast<int>(headers.size()), texts.data(), names.data());
    if (outcome.result != kNvrtcSuccess) return outcome;
    outcome.result =
        nvrtc_.CompileProgram(*program.address(), static_cast<int>(options.size()), options.data());
    outcome.compiled.log = program.Text(nvrtc_.GetProgramLogSize, nvrtc_.GetProgramLog);
    if (outcome.result != kNvrtcSuccess) return outcome;
    if (!options_.only_ptx) {
      outcome.compiled.cubin = program.Bytes(nvrtc_.GetCUBINSize, nvrtc_.GetCUBIN);
    }
    outcome.compiled.ptx = program.Text(nvrtc_.GetPTXSize, nvrtc_.GetPTX);
    return outcome;
  }

  absl::Status Failure(const Kernel& kernel, std::span<const SourceHeader> headers,
                       std::string_view architecture, const Outcome& outcome) const {
    const std::string& log = outcome.compiled.log;
    if (outcome.result == kNvrtcOutOfMemory) {
      return ResourceExhausted("%s has not enough memory to compile the kernel %s for %s", Name(),
                               kernel.name, architecture);
    }
    if (outcome.result == kNvrtcSuccess) {
      return Internal("%s made no machine code of the kernel %s for %s", Name(), kernel.name,
                      architecture);
    }
    return Internal("%s cannot compile the kernel %s for %s (%s)%s\nIts log:\n%s", Name(),
                    kernel.name, architecture, nvrtc_.GetErrorString(outcome.result),
                    Excerpts(log, kernel.source, headers), log);
  }

  const Nvrtc nvrtc_;
  const NvrtcOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KernelCompiler>> CreateNvrtcCompiler(const NvrtcOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(Nvrtc nvrtc, OpenNvrtc());
  return std::make_unique<NvrtcCompiler>(std::move(nvrtc), options);
}

}  // namespace duotone::runtime
