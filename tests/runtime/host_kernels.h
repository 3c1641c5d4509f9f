// Host kernels for tests of the runtime alone, made of lambdas.
#ifndef DUOTONE_TESTS_RUNTIME_HOST_KERNELS_H_
#define DUOTONE_TESTS_RUNTIME_HOST_KERNELS_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/program.h"

namespace duotone::runtime {

// Calls fn(buffers, random, item) for each item.
class LambdaKernel final : public HostKernel {
 public:
  using Fn = std::function<void(const std::vector<void*>&, const RandomState&, int64_t)>;
  explicit LambdaKernel(Fn fn) : fn_(std::move(fn)) {}

  std::unique_ptr<BoundKernel> Bind(std::span<void* const> buffers, void*) const override {
    return std::make_unique<Bound>(fn_, std::vector<void*>(buffers.begin(), buffers.end()));
  }

 private:
  class Bound final : public BoundKernel {
   public:
    Bound(const Fn& fn, std::vector<void*> buffers) : fn_(fn), buffers_(std::move(buffers)) {}
    void Run(const RandomState& random, int64_t begin, int64_t end) override {
      for (int64_t i = begin; i < end; ++i) fn_(buffers_, random, i);
    }
    bool failed() const override { return false; }
    absl::Status TakeError() override { return absl::OkStatus(); }

   private:
    const Fn& fn_;
    std::vector<void*> buffers_;
  };

  Fn fn_;
};

// A buffer of a test's program; offsets follow one another.
inline Buffer TestBuffer(Program& program, std::string name, DType dtype,
                         std::vector<int64_t> shape, BufferKind kind) {
  Buffer buffer{.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .kind = kind};
  buffer.bytes = ByteSize(dtype);
  for (int64_t size : buffer.shape) buffer.bytes *= size;
  if (kind != BufferKind::kState) {
    buffer.offset = program.arena_bytes;
    program.arena_bytes +=
        (buffer.bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
  return buffer;
}

// Adds a buffer and names it among inputs, outputs or state.
inline int AddBuffer(Program& program, std::string name, DType dtype, std::vector<int64_t> shape,
                     BufferKind kind) {
  program.buffers.push_back(TestBuffer(program, name, dtype, std::move(shape), kind));
  const int id = static_cast<int>(program.buffers.size()) - 1;
  if (kind == BufferKind::kInput) program.inputs.push_back({name, id});
  if (kind == BufferKind::kOutput) program.outputs.push_back({name, id});
  if (kind == BufferKind::kState) program.state.push_back({name, id});
  return id;
}

inline Step CallStep(std::vector<int> operands, std::vector<int> results, int64_t items,
                     LambdaKernel::Fn fn, int64_t grain = 1) {
  HostCall call{.op = "test", .node = "n"};
  call.operands = std::move(operands);
  call.results = std::move(results);
  call.items = items;
  call.grain = grain;
  call.kernel = std::make_shared<LambdaKernel>(std::move(fn));
  return {std::move(call)};
}

}  // namespace duotone::runtime

#endif  // DUOTONE_TESTS_RUNTIME_HOST_KERNELS_H_
