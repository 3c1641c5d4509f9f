// The names and texts of the CUDA driver's results, as far as the emulated driver gives them.
#ifndef DUOTONE_RUNTIME_EMULATOR_DRIVER_RESULTS_H_
#define DUOTONE_RUNTIME_EMULATOR_DRIVER_RESULTS_H_

#include "runtime/cuda/driver.h"

namespace duotone::emulator {

// CUresult, beside those of runtime/cuda/driver.h.
inline constexpr runtime::CuResult kCuInvalidContext = 201;
inline constexpr runtime::CuResult kCuIllegalState = 401;
inline constexpr runtime::CuResult kCuLaunchTimeout = 702;
inline constexpr runtime::CuResult kCuMisalignedAddress = 716;
inline constexpr runtime::CuResult kCuLaunchFailed = 719;
inline constexpr runtime::CuResult kCuStreamCaptureUnsupported = 900;
inline constexpr runtime::CuResult kCuStreamCaptureInvalidated = 901;
inline constexpr runtime::CuResult kCuStreamCaptureUnmatched = 903;
inline constexpr runtime::CuResult kCuStreamCaptureIsolation = 905;
inline constexpr runtime::CuResult kCuCapturedEvent = 907;
inline constexpr runtime::CuResult kCuStreamCaptureWrongThread = 908;

struct ResultText {
  runtime::CuResult result;
  const char* name;  // "CUDA_ERROR_INVALID_VALUE"
  const char* text;  // "invalid argument"
};
// Null for numbers that are none of the driver's.
const ResultText* FindResultText(runtime::CuResult result);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_DRIVER_RESULTS_H_
