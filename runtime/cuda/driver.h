// The CUDA driver without its header: our own declarations of the documented C interface, as a
// table of functions. LoadDriver fills it from the driver's library; an emulated device or a test
// fills it with its own. Nothing else in Duotone calls the driver.
//
//   DUOTONE_ASSIGN_OR_RETURN(std::shared_ptr<const Driver> driver, LoadDriver());
//   DUOTONE_RETURN_IF_ERROR(driver->Check(driver->MemAlloc(&address, bytes), "allocating %s", x));
#ifndef DUOTONE_RUNTIME_CUDA_DRIVER_H_
#define DUOTONE_RUNTIME_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace duotone::runtime {

// Types of the interface under our names. Handles are opaque.
using CuResult = int;
using CuDevice = int;
using CuDeviceAddress = unsigned long long;
using CuContext = struct CuContextImpl*;
using CuModule = struct CuModuleImpl*;
using CuFunction = struct CuFunctionImpl*;
using CuStream = struct CuStreamImpl*;
using CuEvent = struct CuEventImpl*;
using CuGraph = struct CuGraphImpl*;
using CuGraphExec = struct CuGraphExecImpl*;

// Results, as far as we tell them apart.
inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuInvalidValue = 1;
inline constexpr CuResult kCuOutOfMemory = 2;
inline constexpr CuResult kCuStubLibrary = 34;
inline constexpr CuResult kCuNoDevice = 100;
inline constexpr CuResult kCuInvalidDevice = 101;
inline constexpr CuResult kCuInvalidImage = 200;
inline constexpr CuResult kCuNoBinaryForGpu = 209;
inline constexpr CuResult kCuInvalidPtx = 218;
inline constexpr CuResult kCuJitCompilerNotFound = 221;
inline constexpr CuResult kCuUnsupportedPtxVersion = 222;
inline constexpr CuResult kCuJitCompilationDisabled = 223;
inline constexpr CuResult kCuInvalidHandle = 400;
inline constexpr CuResult kCuNotFound = 500;
inline constexpr CuResult kCuNotReady = 600;
inline constexpr CuResult kCuIllegalAddress = 700;
inline constexpr CuResult kCuLaunchOutOfResources = 701;
inline constexpr CuResult kCuSystemDriverMismatch = 803;

// CUdevice_attribute.
inline constexpr int kCuMaxThreadsPerBlock = 1;
inline constexpr int kCuClockRate = 13;  // kHz
inline constexpr int kCuMultiprocessorCount = 16;
inline constexpr int kCuMemoryClockRate = 36;       // kHz
inline constexpr int kCuGlobalMemoryBusWidth = 37;  // bits
inline constexpr int kCuL2CacheSize = 38;
inline constexpr int kCuComputeCapabilityMajor = 75;
inline constexpr int kCuComputeCapabilityMinor = 76;
inline constexpr int kCuMaxSharedMemoryPerMultiprocessor = 81;
inline constexpr int kCuMaxSharedMemoryPerBlockOptin = 97;

// CUfunction_attribute.
inline constexpr int kCuFunctionMaxThreadsPerBlock = 0;
inline constexpr int kCuFunctionSharedSizeBytes = 1;
inline constexpr int kCuFunctionLocalSizeBytes = 3;
inline constexpr int kCuFunctionNumRegs = 4;
inline constexpr int kCuFunctionMaxDynamicSharedSizeBytes = 8;

// CUjit_option.
inline constexpr int kCuJitInfoLogBuffer = 3;
inline constexpr int kCuJitInfoLogBufferSizeBytes = 4;
inline constexpr int kCuJitErrorLogBuffer = 5;
inline constexpr int kCuJitErrorLogBufferSizeBytes = 6;

// Static and dynamic shared memory that a block gets without asking for more by
// kCuFunctionMaxDynamicSharedSizeBytes.
inline constexpr int64_t kPlainSharedBytes = 48 << 10;

// Flags.
inline constexpr unsigned kCuStreamNonBlocking = 1;
inline constexpr unsigned kCuEventDisableTiming = 2;
inline constexpr unsigned kCuMemHostAllocPortable = 1;
inline constexpr int kCuStreamCaptureModeThreadLocal = 1;

struct KernelLaunch;  // runtime/kernel.h

// What the next launch is about, for devices that check what kernels do.
struct LaunchNote {
  // A buffer that the kernel may access: its bytes, and with accesses of several elements at once
  // its padding to kBufferAlignment behind them.
  struct Range {
    CuDeviceAddress address = 0;
    int64_t bytes = 0;
    std::string name;           // "%h1.norm", "the table of addresses"
    bool is_written = false;    // else only read
    bool is_undefined = false;  // until the launch writes it
    int element_bytes = 4;      // wider accesses are those of several elements
  };
  std::string program;
  int step = 0;                          // of the program
  const KernelLaunch* launch = nullptr;  // null for others than programs; lives as long as the note
  std::vector<Range> ranges;
};

// The functions, named as in the CUDA driver API without "cu". Those of LoadDriver are all there
// but for the optional ones, which may be empty: ask before calling.
struct Driver {
  std::function<CuResult(unsigned flags)> Init;
  std::function<CuResult(int* version)> DriverGetVersion;  // 1000 * major + 10 * minor
  std::function<CuResult(CuResult error, const char** text)> GetErrorName;
  std::function<CuResult(CuResult error, const char** text)> GetErrorString;

  std::function<CuResult(int* count)> DeviceGetCount;
  std::function<CuResult(CuDevice* device, int ordinal)> DeviceGet;
  std::function<CuResult(char* name, int length, CuDevice device)> DeviceGetName;
  std::function<CuResult(int* value, int attribute, CuDevice device)> DeviceGetAttribute;
  std::function<CuResult(size_t* bytes, CuDevice device)> DeviceTotalMem;

  std::function<CuResult(CuContext* context, CuDevice device)> DevicePrimaryCtxRetain;
  std::function<CuResult(CuDevice device)> DevicePrimaryCtxRelease;
  std::function<CuResult(CuContext context)> CtxSetCurrent;
  std::function<CuResult(CuContext* context)> CtxGetCurrent;
  std::function<CuResult()> CtxSynchronize;

  std::function<CuResult(CuDeviceAddress* address, size_t bytes)> MemAlloc;
  std::function<CuResult(CuDeviceAddress address)> MemFree;
  std::function<CuResult(size_t* free, size_t* total)> MemGetInfo;
  std::function<CuResult(void** address, size_t bytes, unsigned flags)> MemHostAlloc;
  std::function<CuResult(void* address)> MemFreeHost;

  std::function<CuResult(CuDeviceAddress to, const void* from, size_t bytes)> MemcpyHtoD;
  std::function<CuResult(void* to, CuDeviceAddress from, size_t bytes)> MemcpyDtoH;
  std::function<CuResult(CuDeviceAddress to, const void* from, size_t bytes, CuStream stream)>
      MemcpyHtoDAsync;
  std::function<CuResult(void* to, CuDeviceAddress from, size_t bytes, CuStream stream)>
      MemcpyDtoHAsync;
  std::function<CuResult(CuDeviceAddress to, CuDeviceAddress from, size_t bytes, CuStream stream)>
      MemcpyDtoDAsync;
  // `count` elements of 1, 2 and 4 bytes.
  std::function<CuResult(CuDeviceAddress to, unsigned char value, size_t count, CuStream stream)>
      MemsetD8Async;
  std::function<CuResult(CuDeviceAddress to, unsigned short value, size_t count, CuStream stream)>
      MemsetD16Async;
  std::function<CuResult(CuDeviceAddress to, unsigned value, size_t count, CuStream stream)>
      MemsetD32Async;

  std::function<CuResult(CuStream* stream, unsigned flags)> StreamCreate;
  std::function<CuResult(CuStream stream)> StreamDestroy;
  std::function<CuResult(CuStream stream)> StreamSynchronize;
  std::function<CuResult(CuStream stream)> StreamQuery;
  std::function<CuResult(CuStream stream, CuEvent event, unsigned flags)> StreamWaitEvent;
  std::function<CuResult(CuStream stream, int mode)> StreamBeginCapture;
  std::function<CuResult(CuStream stream, CuGraph* graph)> StreamEndCapture;

  std::function<CuResult(CuEvent* event, unsigned flags)> EventCreate;
  std::function<CuResult(CuEvent event)> EventDestroy;
  std::function<CuResult(CuEvent event, CuStream stream)> EventRecord;
  std::function<CuResult(CuEvent event)> EventSynchronize;
  std::function<CuResult(CuEvent event)> EventQuery;
  std::function<CuResult(float* milliseconds, CuEvent begin, CuEvent end)> EventElapsedTime;

  std::function<CuResult(CuModule* module, const void* image, unsigned option_count, int* options,
                         void** values)>
      ModuleLoadDataEx;
  std::function<CuResult(CuModule module)> ModuleUnload;
  std::function<CuResult(CuFunction* function, CuModule module, const char* name)>
      ModuleGetFunction;
  std::function<CuResult(int* value, int attribute, CuFunction function)> FuncGetAttribute;
  std::function<CuResult(CuFunction function, int attribute, int value)> FuncSetAttribute;
  std::function<CuResult(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z,
                         unsigned shared_bytes, CuStream stream, void** parameters, void** extra)>
      LaunchKernel;
  std::function<CuResult(int* blocks, CuFunction function, int block_threads, size_t shared_bytes)>
      OccupancyMaxActiveBlocksPerMultiprocessor;

  std::function<CuResult(CuGraphExec* exec, CuGraph graph, unsigned long long flags)>
      GraphInstantiateWithFlags;                                           // optional: CUDA 11.4
  std::function<CuResult(CuGraphExec exec, CuStream stream)> GraphUpload;  // optional: CUDA 11.1
  std::function<CuResult(CuGraphExec exec, CuStream stream)> GraphLaunch;
  std::function<CuResult(CuGraphExec exec)> GraphExecDestroy;
  std::function<CuResult(CuGraph graph)> GraphDestroy;

  // Only emulated devices have this one: tells what the next LaunchKernel of the calling thread is
  // about. In a graph the note belongs to the launch.
  std::function<CuResult(std::shared_ptr<const LaunchNote> note)> NoteNextLaunch;

  std::string path;  // of the library; "" for others
  int version = 0;   // of DriverGetVersion: 13000

  // Whether work can be recorded as a graph.
  bool has_graphs() const { return static_cast<bool>(GraphInstantiateWithFlags); }

  // The result of a call as a status that says what was being done:
  // "allocating 2.0 GB for state: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  template <typename... Args>
  absl::Status Check(CuResult result, const absl::FormatSpec<Args...>& doing,
                     const Args&... args) const {
    if (result == kCuSuccess) return absl::OkStatus();
    return Failure(result, absl::StrFormat(doing, args...));
  }
  absl::Status Failure(CuResult result, std::string_view doing) const;
};

// The driver of this machine: libcuda.so.1, or the file that DUOTONE_LIBCUDA names. Initialised; an
// error says what is missing and what to do. The library stays open until the process ends.
absl::StatusOr<std::shared_ptr<const Driver>> LoadDriver();

// "CUDA 12.4" for 12040.
std::string CudaVersionText(int version);

// Loads machine code or PTX (which ends with a zero) into the current context. An error carries the
// driver's log, and where the driver is older than what made the image, both versions and what to
// do. `what` names the image: "kernel relu of fc1/relu".
absl::StatusOr<CuModule> LoadModule(const Driver& driver, const std::string& image,
                                    std::string_view what);

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_DRIVER_H_
