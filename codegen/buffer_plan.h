// Places buffers in one arena so that two share bytes only if they are never alive at the same
// time.
//
//   bytes 128 alive [0, 1] -> offset 0        bytes 64 alive [2, 3] -> offset 0, the smallest gap
//   bytes 256 alive [1, 3] -> offset 128      where it fits
//
// Buffers are placed in the order in which they become alive; the plan depends on nothing else and
// is the same everywhere.
#ifndef DUOTONE_CODEGEN_BUFFER_PLAN_H_
#define DUOTONE_CODEGEN_BUFFER_PLAN_H_

#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

namespace duotone::codegen {

// A buffer is alive from time `first` to time `last`, both included.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct BufferPlan {
  std::vector<int64_t> offsets;  // one per lifetime, multiples of the alignment
  int64_t arena_bytes = 0;
  int64_t unplanned_bytes = 0;  // if no two buffers shared bytes
};

BufferPlan PlanBuffers(llvm::ArrayRef<Lifetime> lifetimes, int64_t alignment);

}  // namespace duotone::codegen

#endif  // DUOTONE_CODEGEN_BUFFER_PLAN_H_
