#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_join.h"

namespace duotone::runtime {
namespace {

// cuGetProcAddress_v2, of CUDA 12.
using GetProcAddress = CuResult(const char* symbol, void** function, int version, uint64_t flags,
                                int* status);

template <typename Signature>
struct FunctionType;
template <typename Result, typename... Args>
struct FunctionType<std::function<Result(Args...)>> {
  using Pointer = Result (*)(Args...);
};

// Finds functions in an opened library. A symbol is named with the suffix of the version whose
// declaration is ours ("cuMemAlloc_v2"): the plain name is another, older function.
class Symbols {
 public:
  explicit Symbols(void* library)
      : library_(library),
        get_proc_address_(
            reinterpret_cast<GetProcAddress*>(dlsym(library, "cuGetProcAddress_v2"))) {}

  // `version` is that of the CUDA which introduced the declaration.
  template <typename Function>
  void Optional(Function& function, const std::string& symbol, int version) {
    if (void* address = Find(symbol, version); address != nullptr) {
      function = reinterpret_cast<typename FunctionType<Function>::Pointer>(address);
    }
  }
  template <typename Function>
  void Required(Function& function, const std::string& symbol, int version) {
    Optional(function, symbol, version);
    if (!function) missing_.push_back(symbol);
  }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  void* Find(const std::string& symbol, int version) const {
    if (void* address = dlsym(library_, symbol.c_str()); address != nullptr) return address;
    if (get_proc_address_ == nullptr) return nullptr;
    const std::string base = symbol.substr(0, symbol.find("_v"));
    void* address = nullptr;
    int status = 0;
    if (get_proc_address_(base.c_str(), &address, version, 0, &status) != kCuSuccess)
      return nullptr;
    return status == 0 ? address : nullptr;
  }

  void* library_;
  GetProcAddress* get_proc_address_;
  std::vector<std::string> missing_;
};

void FindDevices(Symbols& symbols, Driver& driver) {
  symbols.Required(driver.Init, "cuInit", 2000);
  symbols.Required(driver.DriverGetVersion, "cuDriverGetVersion", 2020);
  symbols.Required(driver.GetErrorName, "cuGetErrorName", 6000);
  symbols.Required(driver.GetErrorString, "cuGetErrorString", 6000);
  symbols.Required(driver.DeviceGetCount, "cuDeviceGetCount", 2000);
  symbols.Required(driver.DeviceGet, "cuDeviceGet", 2000);
  symbols.Required(driver.DeviceGetName, "cuDeviceGetName", 2000);
  symbols.Required(driver.DeviceGetAttribute, "cuDeviceGetAttribute", 2000);
  symbols.Required(driver.DeviceTotalMem, "cuDeviceTotalMem_v2", 3020);
  symbols.Required(driver.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000);
  symbols.Required(driver.DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", 11000);
  symbols.Required(driver.CtxSetCurrent, "cuCtxSetCurrent", 4000);
  symbols.Required(driver.CtxGetCurrent, "cuCtxGetCurrent", 4000);
  symbols.Required(driver.CtxSynchronize, "cuCtxSynchronize", 2000);
}

void FindMemory(Symbols& symbols, Driver& driver) {
  symbols.Required(driver.MemAlloc, "cuMemAlloc_v2", 3020);
  symbols.Required(driver.MemFree, "cuMemFree_v2", 3020);
  symbols.Required(driver.MemGetInfo, "cuMemGetInfo_v2", 3020);
  symbols.Required(driver.MemHostAlloc, "cuMemHostAlloc", 2020);
  symbols.Required(driver.MemFreeHost, "cuMemFreeHost", 2000);
  symbols.Required(driver.MemcpyHtoD, "cuMemcpyHtoD_v2", 3020);
  symbols.Required(driver.MemcpyDtoH, "cuMemcpyDtoH_v2", 3020);
  symbols.Required(driver.MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", 3020);
  symbols.Required(driver.MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", 3020);
  symbols.Required(driver.MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", 3020);
  symbols.Required(driver.MemsetD8Async, "cuMemsetD8Async", 3020);
  symbols.Required(driver.MemsetD16Async, "cuMemsetD16Async", 3020);
  symbols.Required(driver.MemsetD32Async, "cuMemsetD32Async", 3020);
}

void FindStreams(Symbols& symbols, Driver& driver) {
  symbols.Required(driver.StreamCreate, "cuStreamCreate", 2000);
  symbols.Required(driver.StreamDestroy, "cuStreamDestroy_v2", 4000);
  symbols.Required(driver.StreamSynchronize, "cuStreamSynchronize", 2000);
  symbols.Required(driver.StreamQuery, "cuStreamQuery", 2000);
  symbols.Required(driver.StreamWaitEvent, "cuStreamWaitEvent", 3020);
  symbols.Required(driver.StreamBeginCapture, "cuStreamBeginCapture_v2", 10010);
  symbols.Required(driver.StreamEndCapture, "cuStreamEndCapture", 10000);
  symbols.Required(driver.EventCreate, "cuEventCreate", 2000);
  symbols.Required(driver.EventDestroy, "cuEventDestroy_v2", 4000);
  symbols.Required(driver.EventRecord, "cuEventRecord", 2000);
  symbols.Required(driver.EventSynchronize, "cuEventSynchronize", 2000);
  symbols.Required(driver.EventQuery, "cuEventQuery", 2000);
  symbols.Required(driver.EventElapsedTime, "cuEventElapsedTime", 2000);
}

void FindKernels(Symbols& symbols, Driver& driver) {
  symbols.Required(driver.ModuleLoadDataEx, "cuModuleLoadDataEx", 2010);
  symbols.Required(driver.ModuleUnload, "cuModuleUnload", 2000);
  symbols.Required(driver.ModuleGetFunction, "cuModuleGetFunction", 2000);
  symbols.Required(driver.FuncGetAttribute, "cuFuncGetAttribute", 2020);
  symbols.Required(driver.FuncSetAttribute, "cuFuncSetAttribute", 9000);
  symbols.Required(driver.LaunchKernel, "cuLaunchKernel", 4000);
  symbols.Required(driver.OccupancyMaxActiveBlocksPerMultiprocessor,
                   "cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050);
  symbols.Optional(driver.GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040);
  symbols.Optional(driver.GraphUpload, "cuGraphUpload", 11010);
  symbols.Required(driver.GraphLaunch, "cuGraphLaunch", 10000);
  symbols.Required(driver.GraphExecDestroy, "cuGraphExecDestroy", 10000);
  symbols.Required(driver.GraphDestroy, "cuGraphDestroy", 10000);
}

// What a user can do about a driver that does not start.
std::string_view InitAdvice(CuResult result) {
  switch (result) {
    case kCuNoDevice:
      return "; the driver sees no GPU: look at nvidia-smi and at CUDA_VISIBLE_DEVICES";
    case kCuStubLibrary:
      return "; this is the library for linking, not a driver: take it out of LD_LIBRARY_PATH";
    case kCuSystemDriverMismatch:
      return "; the kernel module and the library are of different drivers: restart the machine";
    default:
      return "";
  }
}

bool MayComeFromAnOldDriver(CuResult result) {
  return result == kCuInvalidImage || result == kCuNoBinaryForGpu || result == kCuInvalidPtx ||
         result == kCuUnsupportedPtxVersion;
}

// What made the image. Machine code of CUDA 13 is an ELF file whose notes we do not read: PTX
// tells.
constexpr int kCompilerVersion = 13000;
constexpr size_t kLogBytes = 16384;

}  // namespace

std::string CudaVersionText(int version) {
  return absl::StrFormat("CUDA %d.%d", version / 1000, version % 1000 / 10);
}

absl::Status Driver::Failure(CuResult result, std::string_view doing) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (!GetErrorName || GetErrorName(result, &name) != kCuSuccess) name = nullptr;
  if (!GetErrorString || GetErrorString(result, &text) != kCuSuccess) text = nullptr;
  const std::string message =
      name != nullptr
          ? absl::StrFormat("%s: %s (%s)", doing, name, text == nullptr ? "no description" : text)
          : absl::StrFormat("%s: CUDA error %d", doing, result);
  switch (result) {
    case kCuSuccess:
      return absl::OkStatus();
    case kCuOutOfMemory:
      return absl::ResourceExhaustedError(message);
    case kCuNoDevice:
    case kCuInvalidDevice:
      return absl::NotFoundError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::StatusOr<std::shared_ptr<const Driver>> LoadDriver() {
  const char* place = std::getenv("DUOTONE_LIBCUDA");
  const bool has_place = place != nullptr && *place != '\0';
  const std::string path = has_place ? place : "libcuda.so.1";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return NotFound("no CUDA driver on this machine (%s); %s", dlerror(),
                    has_place ? "correct or unset DUOTONE_LIBCUDA"
                              : "install NVIDIA's driver, or use the device cpu");
  }
  auto driver = std::make_shared<Driver>();
  driver->path = path;
  Symbols symbols(library);
  FindDevices(symbols, *driver);
  FindMemory(symbols, *driver);
  FindStreams(symbols, *driver);
  FindKernels(symbols, *driver);
  if (driver->DriverGetVersion) (void)driver->DriverGetVersion(&driver->version);
  if (!symbols.missing().empty()) {
    dlclose(library);
    return FailedPrecondition(
        "%s is no driver that Duotone can use: it offers %s and lacks %s; driver 470 (CUDA 11.4) "
        "or newer is needed",
        path, driver->version == 0 ? "no version" : CudaVersionText(driver->version),
        absl::StrJoin(symbols.missing(), ", "));
  }
  if (const CuResult result = driver->Init(0); result != kCuSuccess) {
    const absl::Status status =
        driver->Failure(result, absl::StrFormat("starting the CUDA driver %s (%s)", path,
                                                CudaVersionText(driver->version)));
    return absl::Status(status.code(),
                        absl::StrFormat("%s%s", std::string(status.message()), InitAdvice(result)));
  }
  return driver;
}

absl::StatusOr<CuModule> LoadModule(const Driver& driver, const std::string& image,
                                    std::string_view what) {
  std::string log(kLogBytes, '\0');
  std::array<int, 2> options = {kCuJitErrorLogBuffer, kCuJitErrorLogBufferSizeBytes};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};
  CuModule module = nullptr;
  const CuResult result = driver.ModuleLoadDataEx(&module, image.c_str(), options.size(),
                                                  options.data(), values.data());
  if (result == kCuSuccess) return module;
  log.resize(log.find('\0') == std::string::npos ? log.size() : log.find('\0'));
  const absl::Status status = driver.Failure(result, absl::StrFormat("loading %s", what));
  std::string message(status.message());
  if (MayComeFromAnOldDriver(result) && driver.version < kCompilerVersion) {
    message += absl::StrFormat(
        "; the driver offers %s, kernels compiled by NVRTC 13 may need driver 580 (CUDA 13.0): "
        "update the driver, or set DUOTONE_NVRTC to an NVRTC no newer than it",
        CudaVersionText(driver.version));
  }
  if (!log.empty()) message += absl::StrFormat("\nThe driver's log:\n%s", log);
  return absl::Status(status.code(), message);
}

}  // namespace duotone::runtime
