// Compilers for tests that run PTX on emulated GPUs: NVRTC asked once for each kernel, and one that
// puts a mistake into what it makes.
#ifndef DUOTONE_TESTS_DUOTONE_TEST_COMPILERS_H_
#define DUOTONE_TESTS_DUOTONE_TEST_COMPILERS_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/cuda/compiler.h"
#include "tests/runtime/cuda/nvrtc_testing.h"

namespace duotone {

// NVRTC, asked once for each kernel of this process. Counts what it is asked for.
class SharedCompiler final : public runtime::KernelCompiler {
 public:
  explicit SharedCompiler(std::unique_ptr<runtime::KernelCompiler> nvrtc)
      : nvrtc_(std::move(nvrtc)) {}

  absl::StatusOr<runtime::CompiledKernel> Compile(const runtime::Kernel& kernel,
                                                  std::span<const runtime::SourceHeader> headers,
                                                  std::string_view architecture) override {
    const std::string key =
        absl::StrCat(absl::StrJoin(options(kernel, architecture), " "), "\n", kernel.source);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++asked_;
      if (auto it = compiled_.find(key); it != compiled_.end()) return it->second;
    }
    absl::StatusOr<runtime::CompiledKernel> compiled =
        nvrtc_->Compile(kernel, headers, architecture);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (compiled.ok()) compiled_[key] = *compiled;
    return compiled;
  }
  std::vector<std::string> options(const runtime::Kernel& kernel,
                                   std::string_view architecture) const override {
    return nvrtc_->options(kernel, architecture);
  }
  std::string identity() const override { return nvrtc_->identity(); }
  int asked() const { return asked_; }

 private:
  std::unique_ptr<runtime::KernelCompiler> nvrtc_;
  std::mutex mutex_;
  std::map<std::string, runtime::CompiledKernel> compiled_;
  int asked_ = 0;
};

// That of this process, with line information and PTX only; null where there is no NVRTC.
inline std::shared_ptr<SharedCompiler> CompilerForTest() {
  static const auto* const kCompiler = new std::shared_ptr<SharedCompiler>([] {
    auto nvrtc = runtime::NvrtcForTest({.line_info = true, .only_ptx = true});
    return nvrtc == nullptr ? nullptr : std::make_shared<SharedCompiler>(std::move(nvrtc));
  }());
  return *kCompiler;
}

using Mutate = std::function<std::string(const std::string& ptx)>;

// Changes the PTX of kernels whose source contains a text; counts how many did change.
class MutatingCompiler final : public runtime::KernelCompiler {
 public:
  MutatingCompiler(std::shared_ptr<runtime::KernelCompiler> compiler, std::string marker,
                   Mutate mutate)
      : compiler_(std::move(compiler)), marker_(std::move(marker)), mutate_(std::move(mutate)) {}

  absl::StatusOr<runtime::CompiledKernel> Compile(const runtime::Kernel& kernel,
                                                  std::span<const runtime::SourceHeader> headers,
                                                  std::string_view architecture) override {
    absl::StatusOr<runtime::CompiledKernel> compiled =
        compiler_->Compile(kernel, headers, architecture);
    if (!compiled.ok() || kernel.source.find(marker_) == std::string::npos) return compiled;
    std::string changed = mutate_(compiled->ptx);
    changed_ += changed != compiled->ptx;
    compiled->ptx = std::move(changed);
    return compiled;
  }
  std::vector<std::string> options(const runtime::Kernel& kernel,
                                   std::string_view architecture) const override {
    return compiler_->options(kernel, architecture);
  }
  std::string identity() const override { return compiler_->identity(); }
  int changed() const { return changed_; }

 private:
  std::shared_ptr<runtime::KernelCompiler> compiler_;
  const std::string marker_;
  const Mutate mutate_;
  std::atomic<int> changed_{0};
};

}  // namespace duotone

#endif  // DUOTONE_TESTS_DUOTONE_TEST_COMPILERS_H_
