// What a kernel compiled for the host (host_cuda.h) and the scheduler of its threads
// (host_threads.cc) share.
#ifndef DUOTONE_TESTS_CODEGEN_CUDA_HOST_API_H_
#define DUOTONE_TESTS_CODEGEN_CUDA_HOST_API_H_

#include <cstddef>

struct DuotoneHostIndex {
  unsigned int x, y, z;
};

// The built-in variables of the thread that runs.
struct DuotoneHostVariables {
  DuotoneHostIndex thread, block, block_size, grid_size;
};

// How a kernel reaches the scheduler.
struct DuotoneHostApi {
  void (*barrier)();
  // Gives `value` to the other lanes of the warp and returns that of lane `source`; -1 only waits
  // for the lanes.
  unsigned long long (*shuffle)(unsigned long long value, int source);
  // The memory of a __shared__ variable in the current block; `site` is its own.
  void* (*shared)(const int* site, size_t bytes);
  void* (*dynamic_shared)();
  void (*fail)(const char* message);
};

#endif  // DUOTONE_TESTS_CODEGEN_CUDA_HOST_API_H_
