// A library with the symbols of a CUDA driver that does nothing, to be found by LoadDriver.
// Compiled several times: FAKE_OLD leaves out what CUDA 11.4 brought, FAKE_ANCIENT a function that
// is needed, FAKE_INIT is what cuInit answers, FAKE_LOOKUP hides functions behind
// cuGetProcAddress_v2.
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifndef FAKE_INIT
#define FAKE_INIT 0
#endif
#ifndef FAKE_VERSION
#define FAKE_VERSION 13000
#endif

#define FAKE(name) \
  extern "C" int name() { return 0; }

extern "C" int cuInit(unsigned) { return FAKE_INIT; }
extern "C" int cuDriverGetVersion(int* version) {
  *version = FAKE_VERSION;
  return 0;
}
extern "C" int cuGetErrorName(int error, const char** text) {
  *text = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
  return error == 9999 ? 1 : 0;
}
extern "C" int cuGetErrorString(int error, const char** text) {
  *text = error == 2 ? "out of memory" : "other";
  return error == 9999 ? 1 : 0;
}

// The plain names are older functions with other parameters: whoever calls them gets -1.
extern "C" int cuMemAlloc(unsigned*, unsigned) { return -1; }
extern "C" int cuMemFree(unsigned) { return -1; }

static int MemAllocV2(unsigned long long* address, size_t bytes) {
  *address = bytes;
  return 0;
}
#ifndef FAKE_LOOKUP
extern "C" int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  return MemAllocV2(address, bytes);
}
#else
extern "C" int cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags,
                                   int* status) {
  const bool found = std::strcmp(symbol, "cuMemAlloc") == 0 && version >= 3020 && flags == 0;
  *function = found ? reinterpret_cast<void*>(MemAllocV2) : nullptr;
  *status = found ? 0 : 1;
  return found ? 0 : 500;
}
#endif

FAKE(cuDeviceGetCount)
FAKE(cuDeviceGet)
FAKE(cuDeviceGetName)
FAKE(cuDeviceGetAttribute)
FAKE(cuDeviceTotalMem_v2)
FAKE(cuDevicePrimaryCtxRetain)
FAKE(cuDevicePrimaryCtxRelease_v2)
FAKE(cuCtxSetCurrent)
FAKE(cuCtxGetCurrent)
FAKE(cuCtxSynchronize)
FAKE(cuMemFree_v2)
FAKE(cuMemGetInfo_v2)
FAKE(cuMemHostAlloc)
FAKE(cuMemFreeHost)
FAKE(cuMemcpyHtoD_v2)
FAKE(cuMemcpyDtoH_v2)
FAKE(cuMemcpyHtoDAsync_v2)
FAKE(cuMemcpyDtoHAsync_v2)
FAKE(cuMemcpyDtoDAsync_v2)
FAKE(cuMemsetD8Async)
FAKE(cuMemsetD16Async)
FAKE(cuMemsetD32Async)
FAKE(cuStreamCreate)
FAKE(cuStreamDestroy_v2)
FAKE(cuStreamSynchronize)
FAKE(cuStreamQuery)
FAKE(cuStreamWaitEvent)
#ifndef FAKE_ANCIENT
FAKE(cuStreamBeginCapture_v2)
#endif
FAKE(cuStreamEndCapture)
FAKE(cuEventCreate)
FAKE(cuEventDestroy_v2)
FAKE(cuEventRecord)
FAKE(cuEventSynchronize)
FAKE(cuEventQuery)
FAKE(cuEventElapsedTime)
FAKE(cuModuleLoadDataEx)
FAKE(cuModuleUnload)
FAKE(cuModuleGetFunction)
FAKE(cuFuncGetAttribute)
FAKE(cuFuncSetAttribute)
FAKE(cuLaunchKernel)
FAKE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
#ifndef FAKE_OLD
FAKE(cuGraphInstantiateWithFlags)
#endif
FAKE(cuGraphUpload)
FAKE(cuGraphLaunch)
FAKE(cuGraphExecDestroy)
FAKE(cuGraphDestroy)
