#include "tests/codegen/cuda/host_kernel.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"

namespace duotone::codegen::cuda {
namespace {

namespace fs = std::filesystem;

constexpr char kFlags[] =
    "-std=c++17 -O1 -shared -fPIC -ffp-contract=off -fno-math-errno -w -DDUOTONE_HOST";

// Between the name of a shared object and the number of a kernel in it.
constexpr char kIndexMark[] = "#";

fs::path CacheFolder() {
  return fs::temp_directory_path() / absl::StrFormat("duotone-host-kernels-%d", getuid());
}

// The kernels' texts, each in a namespace of its own, and a function that calls one by its number
// with an array of arguments. What they include comes first, outside the namespaces.
std::string WithCaller(std::span<const HostSource> sources) {
  std::string includes, kernels, cases;
  for (size_t i = 0; i < sources.size(); ++i) {
    absl::StrAppend(&kernels, "namespace kernel_", i, " {\n");
    for (absl::string_view line : absl::StrSplit(
             absl::string_view(sources[i].source.data(), sources[i].source.size()), '\n')) {
      // Functions in C would all be one.
      absl::ConsumePrefix(&line, "extern \"C\" ");
      absl::StrAppend(absl::StartsWith(line, "#include") ? &includes : &kernels, line, "\n");
    }
    absl::StrAppend(&kernels, "}\n");
    absl::StrAppendFormat(&cases, "    case %d: return host::Call(&kernel_%d::%s, arguments);\n", i,
                          i, sources[i].entry);
  }
  return absl::StrCat(includes, kernels,
                      "#line 1 \"caller\"\n"
                      "extern \"C\" int duotone_host_call(int kernel, void* const* arguments) {\n"
                      "  switch (kernel) {\n",
                      cases, "  }\n  return -1;\n}\n");
}

}  // namespace

absl::StatusOr<std::string> HostKernel::CompileToFile(
    std::string_view entry, std::string_view source,
    std::span<const runtime::SourceHeader> headers) {
  const HostSource one = {entry, source};
  DUOTONE_ASSIGN_OR_RETURN(std::vector<std::string> paths, CompileToFile({&one, 1}, headers));
  return paths.front();
}

absl::StatusOr<std::vector<std::string>> HostKernel::CompileToFile(
    std::span<const HostSource> sources, std::span<const runtime::SourceHeader> headers) {
  const fs::path root = DUOTONE_SOURCE_DIR;
  const std::string text = WithCaller(sources);
  std::string all = absl::StrCat(DUOTONE_HOST_COMPILER, kFlags, text);
  for (const runtime::SourceHeader& header : headers) {
    absl::StrAppend(&all, "\n", header.name, "\n", header.text);
  }
  for (const char* own : {"host_cuda.h", "host_api.h"}) {
    DUOTONE_ASSIGN_OR_RETURN(std::string content,
                             ReadFile((root / "tests/codegen/cuda" / own).string()));
    absl::StrAppend(&all, "\n", content);
  }
  const std::string key =
      absl::StrFormat("%016x%016x", Fnv1a(all), Fnv1a(absl::StrCat(all.size(), "\n", all)));
  const fs::path library = CacheFolder() / absl::StrCat(key, ".so");
  std::vector<std::string> paths;
  for (size_t i = 0; i < sources.size(); ++i) {
    paths.push_back(absl::StrCat(library.string(), kIndexMark, i));
  }
  if (fs::exists(library)) return paths;

  // Other processes may compile the same: everything is written beside and renamed at the end.
  const fs::path work = CacheFolder() / absl::StrFormat("%s.%d", key, getpid());
  DUOTONE_RETURN_IF_ERROR(WriteFileAtomically((work / "kernel.cc").string(), text));
  for (const runtime::SourceHeader& header : headers) {
    DUOTONE_RETURN_IF_ERROR(WriteFileAtomically((work / header.name).string(), header.text));
  }
  const std::string command = absl::StrFormat(
      "%s %s -I'%s' -I'%s' -include tests/codegen/cuda/host_cuda.h '%s' -o '%s' 2> '%s'",
      DUOTONE_HOST_COMPILER, kFlags, work.string(), root.string(), (work / "kernel.cc").string(),
      (work / "kernel.so").string(), (work / "log").string());
  if (std::system(command.c_str()) != 0) {
    DUOTONE_ASSIGN_OR_RETURN(std::string log, ReadFile((work / "log").string()));
    return Internal("a kernel does not compile for the host:\n%s\n%s", log, text);
  }
  fs::rename(work / "kernel.so", library);
  fs::remove_all(work);
  return paths;
}

absl::StatusOr<std::shared_ptr<const HostKernel>> HostKernel::Load(const std::string& path) {
  std::shared_ptr<HostKernel> kernel(new HostKernel());
  const size_t mark = path.rfind(kIndexMark);
  if (mark == std::string::npos || !absl::SimpleAtoi(path.substr(mark + 1), &kernel->index_)) {
    return Internal("%s names no kernel", path);
  }
  kernel->library_ = dlopen(path.substr(0, mark).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (kernel->library_ == nullptr) return Internal("%s", dlerror());
  const auto find = [&](const char* name) { return dlsym(kernel->library_, name); };
  kernel->call_ = reinterpret_cast<int (*)(int, void* const*)>(find("duotone_host_call"));
  kernel->variables_ = static_cast<DuotoneHostVariables*>(find("duotone_host_variables"));
  auto* api = static_cast<const DuotoneHostApi**>(find("duotone_host_api"));
  if (kernel->call_ == nullptr || kernel->variables_ == nullptr || api == nullptr) {
    return Internal("%s is no kernel for the host", path);
  }
  *api = HostApi();
  return std::shared_ptr<const HostKernel>(std::move(kernel));
}

absl::StatusOr<std::shared_ptr<const HostKernel>> HostKernel::Compile(
    std::string_view entry, std::string_view source,
    std::span<const runtime::SourceHeader> headers) {
  DUOTONE_ASSIGN_OR_RETURN(std::string path, CompileToFile(entry, source, headers));
  return Load(path);
}

HostKernel::~HostKernel() {
  if (library_ != nullptr) dlclose(library_);
}

absl::Status HostKernel::Launch(const HostLaunch& launch, void* const* arguments) const {
  return RunHostThreads(launch, variables_, [&] { call_(index_, arguments); });
}

}  // namespace duotone::codegen::cuda
