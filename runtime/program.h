// A compiled entry graph as plain, printable data: buffers, and steps in the order in which they
// run. Code generators make it, devices (runtime/device.h) execute it; neither needs to know the
// IR.
//
//   program @step: arena 1.6 KB (unplanned 3.1 KB), state 2.0 KB
//     b0 input     x         f32[8, 4]  @0
//     b1 state     w         f32[4, 4]
//     b2 output    y         f32[8, 4]  @128
//   s0 matmul    %y  b2 = b0 * b1  1x8x4x4
#ifndef DUOTONE_RUNTIME_PROGRAM_H_
#define DUOTONE_RUNTIME_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "runtime/kernel.h"

namespace duotone::runtime {

// Offsets in an arena, and the arena itself, are multiples of this.
inline constexpr int64_t kBufferAlignment = 64;

enum class BufferKind : uint8_t {
  kInput,      // a slot that the caller fills before a run; nothing else uses its bytes
  kState,      // lives in a StateStore, shared by the programs of a session
  kConstant,   // filled once when the program is loaded
  kTemporary,  // shares its bytes with others that are not alive at the same time
  kOutput,     // keeps its value until the next run
};
std::string_view BufferKindName(BufferKind kind);

struct Buffer {
  std::string name;  // of the value, input or state entry
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  BufferKind kind = BufferKind::kTemporary;
  int64_t offset = 0;  // in the arena; unused for state
  int alias_of =
      -1;  // the buffer whose bytes these are under another shape; kind and offset agree with it
};

// What the random numbers of a run are keyed by, beside node and element.
struct RandomState {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t micro_batch = 0;
};

// A host kernel tied to the addresses of its buffers.
class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  // Computes items [begin, end). Threads may run disjoint ranges at the same time; any split gives
  // the same bits. Allocates nothing.
  virtual void Run(const RandomState& random, int64_t begin, int64_t end) = 0;
  // True once a run has met data it cannot work on (an index out of range), until TakeError.
  virtual bool failed() const = 0;
  // The error as a sentence with values and place; clears it.
  virtual absl::Status TakeError() = 0;
};

// Code for one node that runs on the host. Immutable: several loaded programs may share it.
class HostKernel {
 public:
  virtual ~HostKernel() = default;
  // `buffers` are the addresses of the call's operands followed by its results.
  virtual std::unique_ptr<BoundKernel> Bind(std::span<void* const> buffers,
                                            void* scratch) const = 0;
};

// Runs a host kernel over its items.
struct HostCall {
  std::string op;    // "gather"
  std::string node;  // "tok"
  std::vector<int> operands;
  std::vector<int> results;
  int scratch = -1;  // a temporary, or none
  int64_t items = 1;
  int64_t grain = 1;  // items per block of work: a fixed partition, whatever the number of threads
  std::shared_ptr<const HostKernel> kernel;
};

// A library call: result[i] = a[i] * b[i] for i < batch, where a[i] is m x k, b[i] k x n and
// result[i] m x n, each dense and row-major (a[i] is stored k x m with transpose_a, b[i] n x k with
// transpose_b). Strides are in elements from one i to the next; 0 repeats a matrix. Operands are
// f32, f16 or bf16; products accumulate in f32 and are rounded once into the result.
struct MatMul {
  std::string node;
  int a = -1;
  int b = -1;
  int result = -1;
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t stride_a = 0;
  int64_t stride_b = 0;
  int64_t stride_result = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  // Temporaries that hold an operand or the result in f32 where its own type is narrower; -1 where
  // it is f32 already.
  int wide_a = -1;
  int wide_b = -1;
  int wide_result = -1;
};

// Copies a whole buffer onto another of the same size.
struct Copy {
  int from = -1;
  int to = -1;
};

// Writes one element's bytes over a whole buffer.
struct Fill {
  int to = -1;
  std::vector<uint8_t> element;
};

struct Step {
  std::variant<HostCall, MatMul, Copy, Fill, KernelLaunch> action;
  // A bool[] buffer: the step does nothing where it is false. Programs for CUDA devices have none:
  // their kernels read their guards themselves.
  int guard = -1;
};

// The value of a constant buffer: all its bytes, or the bytes of one element that fills it.
struct Constant {
  int buffer = -1;
  std::vector<uint8_t> bytes;
};

// An input, output or state entry by name.
struct NamedBuffer {
  std::string name;
  int buffer = -1;
};

struct Program {
  std::string name;  // of the graph
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Kernel> kernels;        // for CUDA devices
  std::vector<SourceHeader> headers;  // what the kernels include
  std::vector<Constant> constants;
  std::vector<NamedBuffer> inputs;   // in the graph's order
  std::vector<NamedBuffer> outputs;  // in the graph's order; two may share a buffer
  std::vector<NamedBuffer> state;    // the entries that the program reads or writes
  int rng_position =
      -1;  // the i64[] state buffer whose value before the run is RandomState::step, or none
  int64_t arena_bytes = 0;      // of everything but state: what Load allocates
  int64_t unplanned_bytes = 0;  // what the arena would take if no two buffers shared bytes
  int64_t state_bytes = 0;

  // The buffer called `name` among inputs, outputs or state entries; -1 if there is none.
  int FindInput(std::string_view name) const;
  int FindOutput(std::string_view name) const;
  int FindState(std::string_view name) const;
  // The buffer that owns the bytes of `buffer`.
  int RootOf(int buffer) const;

  std::string ToString() const;
};

// "f32[8, 4]".
std::string TypeToString(DType dtype, std::span<const int64_t> shape);

// Checks that every index, size and offset is within its bounds, so that a program from elsewhere
// cannot reach outside its buffers; devices call it when they load. The first violation is an
// Internal error.
absl::Status CheckProgram(const Program& program);

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_PROGRAM_H_
