#include "runtime/cuda/nvrtc.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>

#include "absl/strings/str_join.h"
#include "base/status.h"

namespace duotone::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

constexpr const char* kAdvice =
    "install the CUDA toolkit 13, or run scripts/setup.sh and configure the build again, or set "
    "DUOTONE_NVRTC to the library or its folder";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Where the library may be, best first: file paths, and names for the system's search.
std::vector<std::string> Candidates() {
  std::vector<std::string> folders;
#ifdef DUOTONE_NVRTC_FOLDER
  folders.push_back(DUOTONE_NVRTC_FOLDER);
#endif
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path prefix = executable.parent_path().parent_path();
    folders.push_back((prefix / "lib" / "duotone").string());
    folders.push_back((prefix / "lib").string());
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = Environment(name);
    if (!root.empty()) folders.push_back(root + "/lib64");
  }
  folders.push_back("/usr/local/cuda/lib64");
  std::vector<std::string> candidates;
  for (const std::string& folder : folders) {
    for (const char* name : kNames) candidates.push_back(folder + "/" + name);
  }
  candidates.insert(candidates.end(), std::begin(kNames), std::end(kNames));
  return candidates;
}

// The files that DUOTONE_NVRTC stands for.
std::vector<std::string> CandidatesIn(const std::string& place) {
  std::error_code error;
  if (!fs::is_directory(place, error)) return {place};
  std::vector<std::string> candidates;
  for (const char* name : kNames) candidates.push_back((fs::path(place) / name).string());
  return candidates;
}

template <typename Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool FindAll(void* library, Nvrtc& nvrtc) {
  return Find(library, "nvrtcGetErrorString", nvrtc.GetErrorString) &&
         Find(library, "nvrtcVersion", nvrtc.Version) &&
         Find(library, "nvrtcGetNumSupportedArchs", nvrtc.GetNumSupportedArchs) &&
         Find(library, "nvrtcGetSupportedArchs", nvrtc.GetSupportedArchs) &&
         Find(library, "nvrtcCreateProgram", nvrtc.CreateProgram) &&
         Find(library, "nvrtcDestroyProgram", nvrtc.DestroyProgram) &&
         Find(library, "nvrtcCompileProgram", nvrtc.CompileProgram) &&
         Find(library, "nvrtcGetPTXSize", nvrtc.GetPTXSize) &&
         Find(library, "nvrtcGetPTX", nvrtc.GetPTX) &&
         Find(library, "nvrtcGetCUBINSize", nvrtc.GetCUBINSize) &&
         Find(library, "nvrtcGetCUBIN", nvrtc.GetCUBIN) &&
         Find(library, "nvrtcGetProgramLogSize", nvrtc.GetProgramLogSize) &&
         Find(library, "nvrtcGetProgramLog", nvrtc.GetProgramLog);
}

struct BuildIdQuery {
  ElfW(Addr) inside = 0;  // an address in the library
  std::string build;
};

// Reads the GNU build id among the notes of the loaded object that contains query->inside.
int ReadBuildId(dl_phdr_info* object, size_t, void* data) {
  auto* query = static_cast<BuildIdQuery*>(data);
  const auto segments = std::span(object->dlpi_phdr, object->dlpi_phnum);
  const bool here = std::ranges::any_of(segments, [&](const ElfW(Phdr) & segment) {
    const ElfW(Addr) begin = object->dlpi_addr + segment.p_vaddr;
    return segment.p_type == PT_LOAD && query->inside >= begin &&
           query->inside < begin + segment.p_memsz;
  });
  if (!here) return 0;
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    const char* const end = at + segment.p_memsz;
    const auto rounded = [](size_t bytes) { return (bytes + 3) & ~size_t{3}; };
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* name = at + sizeof(*note);
      const char* id = name + rounded(note->n_namesz);
      at = id + rounded(note->n_descsz);
      if (note->n_type != NT_GNU_BUILD_ID ||
          std::string_view(name, note->n_namesz) != std::string_view(ELF_NOTE_GNU, 4)) {
        continue;
      }
      for (const char* byte = id; byte < id + note->n_descsz; ++byte) {
        query->build += absl::StrFormat("%02x", static_cast<uint8_t>(*byte));
      }
    }
  }
  return 1;
}

// Which file the library came from, and which build it is.
void Identify(Nvrtc& nvrtc) {
  Dl_info info;
  auto* const inside = reinterpret_cast<void*>(nvrtc.CompileProgram);
  if (dladdr(inside, &info) != 0 && info.dli_fname != nullptr) nvrtc.path = info.dli_fname;
  BuildIdQuery query{.inside = reinterpret_cast<ElfW(Addr)>(inside), .build = {}};
  dl_iterate_phdr(ReadBuildId, &query);
  nvrtc.build = query.build;
  struct stat status;
  if (nvrtc.build.empty() && stat(nvrtc.path.c_str(), &status) == 0) {
    nvrtc.build = absl::StrFormat("%d bytes", static_cast<int64_t>(status.st_size));
  }
}

// Why `file` is of no use, or OK.
absl::Status Open(const std::string& file, Nvrtc& nvrtc) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotFound("%s", dlerror());
  if (!FindAll(library, nvrtc)) {
    dlclose(library);
    return NotFound("%s: lacks functions of NVRTC 11.2", file);
  }
  int count = 0;
  bool ok = nvrtc.Version(&nvrtc.major, &nvrtc.minor) == kNvrtcSuccess &&
            nvrtc.GetNumSupportedArchs(&count) == kNvrtcSuccess && count > 0;
  if (ok) {
    nvrtc.architectures.resize(static_cast<size_t>(count));
    ok = nvrtc.GetSupportedArchs(nvrtc.architectures.data()) == kNvrtcSuccess;
  }
  if (!ok) return NotFound("%s: does not tell its version and architectures", file);
  std::ranges::sort(nvrtc.architectures);
  Identify(nvrtc);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Nvrtc> OpenNvrtc() {
  const std::string place = Environment("DUOTONE_NVRTC");
  std::vector<std::string> reasons;
  for (const std::string& file : place.empty() ? Candidates() : CandidatesIn(place)) {
    Nvrtc nvrtc;
    const absl::Status status = Open(file, nvrtc);
    if (status.ok()) return nvrtc;
    reasons.emplace_back(status.message());
  }
  if (!place.empty()) {
    return NotFound(
        "no NVRTC, which compiles CUDA kernels, at DUOTONE_NVRTC=%s (%s); correct or "
        "unset the variable",
        place, absl::StrJoin(reasons, "; "));
  }
  return NotFound("no NVRTC, which compiles CUDA kernels, was found: %s. Tried: %s", kAdvice,
                  absl::StrJoin(reasons, "; "));
}

}  // namespace duotone::runtime
