// Kernels of a Program for CUDA devices, as plain data: source text, machine code, launches.
#ifndef DUOTONE_RUNTIME_KERNEL_H_
#define DUOTONE_RUNTIME_KERNEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace duotone::runtime {

// A text that kernels include by its name: #include "duotone/prelude.cuh".
struct SourceHeader {
  std::string name;
  std::string text;
};

// The files in which `#line` directives put the lines of a kernel's source: N of the first stands
// for KernelLaunch::labels[N - 1], and lines of the second belong to no node.
inline constexpr std::string_view kLabelFile = "kernel";
inline constexpr std::string_view kNoLabelFile = "generated";

// One kernel. Its source names nothing of the graph, so that equal kernels of different nodes are
// one; what belongs to a node stands in the launch.
struct Kernel {
  std::string name;       // the entry point, extern "C"
  std::string source;     // CUDA C++; `#line` directives lead to labels, see above
  bool contract = true;   // a*b + c may be one fused multiply-add
  std::string schedules;  // the candidates of the cost model, ranked, as text for dumps
  // Filled by compilation (runtime/cuda/compiler.h).
  std::string architecture;  // "sm_80"; empty before
  std::string cubin;
  std::string ptx;
};

// A place in a buffer.
struct BufferAddress {
  int buffer = -1;
  int64_t offset = 0;  // bytes
};

// One parameter of a kernel.
struct LaunchArgument {
  enum class Kind : uint8_t {
    kBuffer,  // T*: `address`
    kTable,   // void* const*: an array in device memory of the addresses `table`
    kRandom,  // const RandomState*: {seed, step, micro_batch}, in device memory
    kErrors,  // ErrorRecord*: where the first error in the data is reported
    kInt,     // int: `value`
  };
  Kind kind = Kind::kBuffer;
  BufferAddress address;
  std::vector<BufferAddress> table;
  int64_t value = 0;
};

// What a kernel writes where it meets an index out of range; zero before. The thread that changes
// `claimed` from 0 to 1 fills the rest.
struct ErrorRecord {
  int32_t claimed = 0;
  int32_t step = 0;   // of the Program
  int32_t label = 0;  // of the launch, counted from 1
  int32_t reserved = 0;
  int64_t value = 0;  // the index
  int64_t limit = 0;  // what it must stay below
};

struct KernelLaunch {
  int kernel = -1;     // in Program::kernels
  std::string node;    // "fc1/relu": the first result of the fusion
  std::string family;  // "pointwise", "row", "matmul", ...; "finish" for second stages
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t shared_bytes = 0;  // dynamic
  std::vector<LaunchArgument> arguments;
  std::vector<int> reads;           // buffers
  std::vector<int> writes;          // buffers; one may be in both
  std::vector<std::string> labels;  // "gelu (gpt.cc:40, node %gelu.1)" by line label
  // Work as the cost model sees it: each distinct byte once.
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
};

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_KERNEL_H_
