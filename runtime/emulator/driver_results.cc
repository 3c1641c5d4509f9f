#include "runtime/emulator/driver_results.h"

namespace duotone::emulator {
namespace {

using namespace runtime;  // NOLINT: a table of its constants

constexpr ResultText kResults[] = {
    {kCuSuccess, "CUDA_SUCCESS", "no error"},
    {kCuInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kCuOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kCuNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kCuInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kCuInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kCuInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kCuNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {kCuInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {kCuInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kCuIllegalState, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {kCuNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kCuNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kCuIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kCuLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {kCuLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {kCuMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kCuLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kCuStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kCuStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCuStreamCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not initiated in this stream"},
    {kCuStreamCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {kCuCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kCuStreamCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

}  // namespace

const ResultText* FindResultText(CuResult result) {
  for (const ResultText& row : kResults) {
    if (row.result == result) return &row;
  }
  return nullptr;
}

}  // namespace duotone::emulator
