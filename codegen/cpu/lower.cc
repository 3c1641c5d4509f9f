#include "codegen/cpu/lower.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "codegen/cpu/eval_kernel.h"
#include "codegen/program_builder.h"
#include "runtime/program.h"

namespace duotone::codegen::cpu {
namespace {

using runtime::Buffer;

// The work of one block of a call, in elements moved plus operations: tens of microseconds.
constexpr double kBlockWork = 32768;
// Blocks of many items hold multiples of this many: whole cache lines of the smallest types.
constexpr int64_t kGrainMultiple = 64;
class Lowering final : public ProgramBuilder {
 public:
  Lowering(const ir::Graph& graph, const LowerOptions& options)
      : ProgramBuilder(graph, options.rng_position), options_(options) {}

 private:
  absl::Status CheckNode(const ir::Node& node) const override;
  absl::Status AddNode(ir::Node* node) override;
  absl::Status EmitGuardedCopy(runtime::Copy copy, int guard) override {
    Emit(copy, guard);
    return absl::OkStatus();
  }

  runtime::HostCall CallOf(ir::Node* node);
  std::optional<runtime::MatMul> MatMulOf(ir::Node* node);
  // The temporary that holds a 16-bit matrix in f32, or -1 where none is needed.
  int WideOf(const std::string& name, int buffer);

  const LowerOptions& options_;
};

absl::Status Lowering::CheckNode(const ir::Node& node) const {
  if (node.def().lower == ir::Lower::kFused) {
    return InvalidArgument(
        "fusion: made for CUDA devices; the CPU compiles the graph before passes/fuse %s",
        node.Place());
  }
  return absl::OkStatus();
}

absl::Status Lowering::AddNode(ir::Node* node) {
  const ir::Value guard = storage().GuardOf(node);
  const int guard_buffer = guard ? Read(guard) : -1;
  if (node->op() == ir::Op::kMatMul && options_.use_library) {
    if (std::optional<runtime::MatMul> mm = MatMulOf(node)) {
      if (mm->k == 0) {
        const size_t size = static_cast<size_t>(ByteSize(node->type().dtype));
        Emit(runtime::Fill{mm->result, std::vector<uint8_t>(size)}, guard_buffer);
      } else {
        Emit(*std::move(mm), guard_buffer);
      }
      return absl::OkStatus();
    }
  }
  Emit(CallOf(node), guard_buffer);
  return absl::OkStatus();
}

runtime::HostCall Lowering::CallOf(ir::Node* node) {
  auto kernel = std::make_shared<EvalKernel>(*node);
  runtime::HostCall call;
  call.op = std::string(node->def().name);
  call.node = node->name();
  for (ir::Value operand : node->operands()) call.operands.push_back(Read(operand));
  for (int i = 0; i < node->result_count(); ++i) call.results.push_back(Write(node->result(i)));
  if (const int64_t bytes = kernel->scratch_bytes(); bytes > 0) {
    call.scratch = NewTemporary(absl::StrCat(node->name(), ".scratch"), DType::kU8, {bytes});
  }
  call.items = kernel->items();
  // The work of one item decides how many make a block; the number of threads has no say.
  double work = 0;
  llvm::SmallVector<ir::Type, 4> operands;
  for (ir::Value operand : node->operands()) operands.push_back(operand.type());
  for (const ir::Type& type : operands) work += static_cast<double>(type.elements());
  for (const ir::Type& type : node->types()) work += static_cast<double>(type.elements());
  work += node->def().cost(operands, node->types(), node->attrs()).flops;
  const double items = static_cast<double>(std::max<int64_t>(1, call.items));
  call.grain = std::max<int64_t>(
      1, static_cast<int64_t>(std::min(items, kBlockWork * items / std::max(1.0, work))));
  if (call.grain > kGrainMultiple) call.grain = call.grain / kGrainMultiple * kGrainMultiple;
  call.kernel = std::move(kernel);
  return call;
}

int Lowering::WideOf(const std::string& name, int buffer) {
  const Buffer& narrow = program().buffers[buffer];
  if (narrow.dtype == DType::kF32) return -1;
  return NewTemporary(name, DType::kF32, narrow.shape);
}

// The product as a library call, if the library has the types and batches repeat as a whole or not
// at all.
std::optional<runtime::MatMul> Lowering::MatMulOf(ir::Node* node) {
  const auto& attrs = node->attrs_as<ir::MatMulAttrs>();
  const std::vector<int64_t> a = SizesOf(node->operand(0).type());
  const std::vector<int64_t> b = SizesOf(node->operand(1).type());
  const std::vector<int64_t> result = SizesOf(node->type());
  if (a.size() < 2 || b.size() < 2 || result.size() < 2) return std::nullopt;
  for (const ir::Type& type : {node->operand(0).type(), node->operand(1).type(), node->type()}) {
    if (type.dtype != DType::kF32 && !IsLow(type.dtype)) return std::nullopt;
  }
  runtime::MatMul mm;
  mm.node = node->name();
  mm.transpose_a = attrs.transpose_a;
  mm.transpose_b = attrs.transpose_b;
  mm.m = result[result.size() - 2];
  mm.n = result[result.size() - 1];
  mm.k = a[a.size() - (attrs.transpose_a ? 2 : 1)];
  mm.batch = Product(llvm::ArrayRef(result).drop_back(2));
  mm.stride_result = mm.m * mm.n;
  auto stride_of = [&](llvm::ArrayRef<int64_t> sizes) -> std::optional<int64_t> {
    const int64_t matrix = Product(sizes.take_back(2));
    const int64_t count = Product(sizes.drop_back(2));
    if (count == mm.batch) return matrix;
    if (count == 1) return 0;
    return std::nullopt;
  };
  const std::optional<int64_t> stride_a = stride_of(a);
  const std::optional<int64_t> stride_b = stride_of(b);
  if (!stride_a || !stride_b) return std::nullopt;
  mm.stride_a = *stride_a;
  mm.stride_b = *stride_b;
  // Many matrices times one matrix: their rows are those of one tall matrix.
  if (mm.batch > 1 && mm.stride_b == 0 && mm.stride_a > 0 && !mm.transpose_a) {
    mm.m *= mm.batch;
    mm.stride_a = 0;
    mm.stride_result = 0;
    mm.batch = 1;
  }
  mm.a = Read(node->operand(0));
  mm.b = Read(node->operand(1));
  mm.result = Write(node->result());
  mm.wide_a = WideOf(absl::StrCat(mm.node, ".a"), mm.a);
  mm.wide_b = WideOf(absl::StrCat(mm.node, ".b"), mm.b);
  mm.wide_result = WideOf(absl::StrCat(mm.node, ".result"), mm.result);
  return mm;
}

}  // namespace

absl::StatusOr<runtime::Program> Lower(const ir::Graph& graph, const LowerOptions& options) {
  return Lowering(graph, options).Run();
}

}  // namespace duotone::codegen::cpu
