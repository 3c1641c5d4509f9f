// Reads machine code as NVRTC makes it: an ELF file for one architecture, of which this finds the
// kernels with what they need of the machine. Any bytes may be given: what is truncated or points
// outside is an error with a sentence, never a crash.
//
//   DUOTONE_ASSIGN_OR_RETURN(const Cubin cubin, ReadCubin(kernel.cubin));
//   cubin.compute                      // 80
//   cubin.Find("kernel")->registers    // 40
//   AnalyseSass(cubin.Find("kernel")->code, cubin.compute)   // runtime/cuda/sass.h
#ifndef DUOTONE_RUNTIME_CUDA_CUBIN_H_
#define DUOTONE_RUNTIME_CUDA_CUBIN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace duotone::runtime {

struct CubinKernel {
  std::string name;
  int registers = 0;           // per thread
  int barriers = 0;            // named barriers of a block
  int64_t frame_bytes = 0;     // per thread, in local memory
  int64_t stack_bytes = 0;     // the same with what the kernel calls
  int64_t shared_bytes = 0;    // static, without what the system reserves
  int64_t constant_bytes = 0;  // bank 0: the launch's state and parameters
  std::string_view code;       // a part of the bytes that were read
};

struct Cubin {
  int compute = 0;  // 80 for sm_80
  std::vector<CubinKernel> kernels;

  const CubinKernel* Find(std::string_view name) const;
};

// The result refers to `bytes`.
absl::StatusOr<Cubin> ReadCubin(std::string_view bytes);

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_CUBIN_H_
