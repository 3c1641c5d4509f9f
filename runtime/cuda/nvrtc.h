// NVRTC, NVIDIA's library that compiles CUDA C++ at run time, without its headers: our own
// declarations of its documented C interface, and the search for the library. A program that links
// Duotone starts on machines without CUDA.
#ifndef DUOTONE_RUNTIME_CUDA_NVRTC_H_
#define DUOTONE_RUNTIME_CUDA_NVRTC_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace duotone::runtime {

using NvrtcProgram = struct NvrtcProgramImpl*;

// nvrtcResult, as far as we tell values apart.
inline constexpr int kNvrtcSuccess = 0;
inline constexpr int kNvrtcOutOfMemory = 1;
inline constexpr int kNvrtcInvalidOption = 5;
inline constexpr int kNvrtcCompilation = 6;

// The functions of one opened library. It stays open until the process ends: its threads' storage
// outlives any owner we could give it.
struct Nvrtc {
  const char* (*GetErrorString)(int result) = nullptr;
  int (*Version)(int* major, int* minor) = nullptr;
  int (*GetNumSupportedArchs)(int* count) = nullptr;
  int (*GetSupportedArchs)(int* archs) = nullptr;
  int (*CreateProgram)(NvrtcProgram* program, const char* source, const char* name,
                       int header_count, const char* const* headers,
                       const char* const* include_names) = nullptr;
  int (*DestroyProgram)(NvrtcProgram* program) = nullptr;
  int (*CompileProgram)(NvrtcProgram program, int option_count,
                        const char* const* options) = nullptr;
  int (*GetPTXSize)(NvrtcProgram program, size_t* size) = nullptr;
  int (*GetPTX)(NvrtcProgram program, char* ptx) = nullptr;
  int (*GetCUBINSize)(NvrtcProgram program, size_t* size) = nullptr;
  int (*GetCUBIN)(NvrtcProgram program, char* cubin) = nullptr;
  int (*GetProgramLogSize)(NvrtcProgram program, size_t* size) = nullptr;
  int (*GetProgramLog)(NvrtcProgram program, char* log) = nullptr;

  int major = 0;
  int minor = 0;
  std::vector<int> architectures;  // 75, 80, ..., ascending
  std::string path;                // of the file that was opened
  // What tells two builds of one version apart: the linker's build id, else the file's size.
  std::string build;
};

// Opens the first NVRTC found: the file or folder that the environment names in DUOTONE_NVRTC (then
// nothing else is tried), the folder this build was configured with, folders beside the executable,
// those of CUDA_HOME and CUDA_PATH, the usual place of the toolkit, the system's search path. An
// error says what was tried and what to do.
absl::StatusOr<Nvrtc> OpenNvrtc();

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_NVRTC_H_
