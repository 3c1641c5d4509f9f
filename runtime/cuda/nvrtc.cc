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
constexpr const char* kUsualFolder = "/usr/local/cuda/lib64";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The folders where the library may be, best first.
std::vector<std::string> Folders() {
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
  if (std::ranges::find(folders, kUsualFolder) == folders.end()) folders.push_back(kUsualFolder);
  return folders;
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

// The owner of the build id among an ELF file's notes, with the zero at its end.
constexpr std::string_view kGnu("GNU\0", 4);

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
      if (note->n_type != NT_GNU_BUILD_ID || std::string_view(name, note->n_namesz) != kGnu)
        continue;
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

// NVRTC opens a second library by its bare name when it compiles. It lies beside the first, where
// the system need not look: opened here, it is found under that name.
void OpenBuiltins(const Nvrtc& nvrtc) {
  const std::string name = absl::StrFormat("libnvrtc-builtins.so.%d.%d", nvrtc.major, nvrtc.minor);
  const fs::path beside = fs::path(nvrtc.path).parent_path() / name;
  // Without it, compiling fails with a message that names it.
  (void)dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
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
  OpenBuiltins(nvrtc);
  return absl::OkStatus();
}

// What was tried in vain.
struct Attempts {
  std::vector<std::string> folders;  // that have no such file
  std::vector<std::string> reasons;  // of files that are there
};

// Opens the library in `folder`, newest first.
bool OpenIn(const std::string& folder, Nvrtc& nvrtc, Attempts& attempts) {
  bool seen = false;
  for (const char* name : kNames) {
    const fs::path file = fs::path(folder) / name;
    std::error_code error;
    if (!fs::exists(file, error)) continue;
    seen = true;
    nvrtc = Nvrtc();
    const absl::Status status = Open(file.string(), nvrtc);
    if (status.ok()) return true;
    attempts.reasons.emplace_back(status.message());
  }
  if (!seen) attempts.folders.push_back(folder);
  return false;
}

// The file or folder that the user named.
absl::StatusOr<Nvrtc> OpenAt(const std::string& place) {
  Nvrtc nvrtc;
  Attempts attempts;
  std::error_code error;
  if (fs::is_directory(place, error)) {
    if (OpenIn(place, nvrtc, attempts)) return nvrtc;
    if (attempts.reasons.empty()) {
      attempts.reasons = {
          absl::StrFormat("the folder has no %s", absl::StrJoin(kNames, " and no "))};
    }
  } else {
    const absl::Status status = Open(place, nvrtc);
    if (status.ok()) return nvrtc;
    attempts.reasons.emplace_back(status.message());
  }
  return NotFound(
      "no NVRTC, which compiles CUDA kernels, at DUOTONE_NVRTC=%s (%s); correct or unset the "
      "variable",
      place, absl::StrJoin(attempts.reasons, "; "));
}

}  // namespace

absl::StatusOr<Nvrtc> OpenNvrtc() {
  const std::string place = Environment("DUOTONE_NVRTC");
  if (!place.empty()) return OpenAt(place);
  Nvrtc nvrtc;
  Attempts attempts;
  for (const std::string& folder : Folders()) {
    if (OpenIn(folder, nvrtc, attempts)) return nvrtc;
  }
  for (const char* name : kNames) {
    nvrtc = Nvrtc();
    if (Open(name, nvrtc).ok()) return nvrtc;
  }
  std::string reasons;
  for (const std::string& reason : attempts.reasons) reasons += "; " + reason;
  return NotFound(
      "no NVRTC, which compiles CUDA kernels, in %s or the system's search path%s: run "
      "scripts/setup.sh, or install the CUDA toolkit 13, or set DUOTONE_NVRTC to the library or "
      "its folder",
      absl::StrJoin(attempts.folders, ", "), reasons);
}

}  // namespace duotone::runtime
