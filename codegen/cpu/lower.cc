#include "codegen/cpu/lower.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "codegen/buffer_plan.h"
#include "codegen/cpu/eval_kernel.h"
#include "codegen/storage.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "runtime/program.h"

namespace duotone::codegen::cpu {
namespace {

using runtime::Buffer;
using runtime::BufferKind;

// Constants above this are computed in each run instead of being kept.
constexpr int64_t kMaxConstantBytes = int64_t{64} << 20;
// The work of one block of a call, in elements moved plus operations: tens of microseconds.
constexpr double kBlockWork = 32768;
// Blocks of many items hold multiples of this many: whole cache lines of the smallest types.
constexpr int64_t kGrainMultiple = 64;
// Arenas stay below this, so that sums of sizes cannot overflow.
constexpr double kMaxArenaBytes = 4e18;

std::vector<int64_t> SizesOf(const ir::Type& type) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : type.shape) sizes.push_back(dim.size());
  return sizes;
}

int64_t Product(llvm::ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}

// Everything that the lowering of one graph builds up. Time 0 is before the first node, time i + 1
// is node i, and the last time is after all nodes.
class Lowering {
 public:
  Lowering(const ir::Graph& graph, const LowerOptions& options)
      : graph_(graph),
        options_(options),
        storage_(graph),
        end_(static_cast<int>(graph.node_count()) + 1) {
    program_.name = graph.name();
  }

  absl::StatusOr<runtime::Program> Run();

 private:
  absl::Status CheckGraph() const;
  void AddInputs();
  void FindRngPosition();
  void CopyOldOutputs();
  void AddOutputs();
  void AddNode(ir::Node* node);
  void AddUpdates();
  absl::Status PlaceBuffers();

  // Buffers.
  int NewBuffer(std::string name, const ir::Type& type, BufferKind kind);
  int NewTemporary(std::string name, DType dtype, std::vector<int64_t> shape);
  int StateBuffer(const ir::StateEntry& entry);
  // The buffer of a value that exists already, alive at least until time_.
  int Read(ir::Value value);
  // The buffer that the node computing this root writes, alive from time_.
  int Write(ir::Value root);
  // A buffer for `value` with the bytes of `root`.
  int Alias(ir::Value value, int root);
  void Touch(int buffer, int time);

  // Steps.
  void Emit(decltype(runtime::Step::action) action, int guard = -1) {
    program_.steps.push_back({std::move(action), guard});
  }
  bool FoldConstant(ir::Node* node);
  runtime::HostCall CallOf(ir::Node* node);
  std::optional<runtime::MatMul> MatMulOf(ir::Node* node);
  int WideOf(const std::string& name, int buffer);

  const ir::Graph& graph_;
  const LowerOptions& options_;
  const StoragePlan storage_;
  const int end_;
  int time_ = 0;
  runtime::Program program_;
  std::vector<Lifetime> lifetimes_;  // by buffer
  llvm::DenseMap<ValueKey, int> buffers_;
  llvm::DenseMap<const ir::StateEntry*, int> state_;
  llvm::StringMap<int> copied_outputs_;  // buffers of outputs that name an input or state entry
};

absl::StatusOr<runtime::Program> Lowering::Run() {
  DUOTONE_RETURN_IF_ERROR(CheckGraph());
  AddInputs();
  FindRngPosition();
  CopyOldOutputs();
  for (const auto& node : graph_.nodes()) {
    ++time_;
    AddNode(node.get());
  }
  time_ = end_;
  AddUpdates();
  AddOutputs();
  DUOTONE_RETURN_IF_ERROR(PlaceBuffers());
  return std::move(program_);
}

absl::Status Lowering::CheckGraph() const {
  for (const ir::Node* input : graph_.inputs()) {
    if (!input->type().is_static()) {
      return InvalidArgument("input %%%s: the type %s has a named size that is not bound",
                             input->name(), input->type().ToString());
    }
  }
  for (const auto& node : graph_.nodes()) {
    if (node->def().lower == ir::Lower::kExpanded) {
      return InvalidArgument("%s: must be expanded before code generation %s", node->def().name,
                             node->Place());
    }
    for (const ir::Type& type : node->types()) {
      if (type.is_static()) continue;
      return InvalidArgument("%s: the type %s has a named size that is not bound %s",
                             node->def().name, type.ToString(), node->Place());
    }
  }
  return absl::OkStatus();
}

void Lowering::AddInputs() {
  for (ir::Node* input : graph_.inputs()) {
    const int buffer = NewBuffer(input->name(), input->type(), BufferKind::kInput);
    Touch(buffer, 0);
    Touch(buffer, end_);
    buffers_[KeyOf(input->result())] = buffer;
    program_.inputs.push_back({input->name(), buffer});
  }
}

void Lowering::FindRngPosition() {
  const ir::StateEntry* entry = graph_.module()->FindState(options_.rng_position);
  if (entry == nullptr || entry->type.dtype != DType::kI64 || !entry->type.is_scalar()) return;
  const bool is_used =
      std::any_of(graph_.nodes().begin(), graph_.nodes().end(),
                  [](const auto& node) { return node->def().lower == ir::Lower::kRandom; });
  if (is_used) program_.rng_position = StateBuffer(*entry);
}

// Outputs that name an input or a state entry get its value before the step.
void Lowering::CopyOldOutputs() {
  for (const ir::Output& output : graph_.outputs()) {
    const ir::Op op = RootOf(output.value).node->op();
    if (op != ir::Op::kInput && op != ir::Op::kState) continue;
    const int copy = NewBuffer(output.name, output.value.type(), BufferKind::kOutput);
    Touch(copy, 0);
    Touch(copy, end_);
    Emit(runtime::Copy{Read(output.value), copy});
    copied_outputs_[output.name] = copy;
  }
}

void Lowering::AddOutputs() {
  for (const ir::Output& output : graph_.outputs()) {
    auto copied = copied_outputs_.find(output.name);
    const int buffer = copied == copied_outputs_.end() ? Read(output.value) : copied->second;
    program_.outputs.push_back({output.name, buffer});
  }
}

void Lowering::AddNode(ir::Node* node) {
  // Nodes that keep their operand's bytes need no step; their buffers are made when something reads
  // them.
  if (RootOf(node->result()).node != node || FoldConstant(node)) return;
  const ir::Value guard = storage_.GuardOf(node);
  const int guard_buffer = guard ? Read(guard) : -1;
  if (node->op() == ir::Op::kMatMul && options_.use_library) {
    if (std::optional<runtime::MatMul> mm = MatMulOf(node)) {
      if (mm->k == 0) {
        const size_t size = static_cast<size_t>(ByteSize(node->type().dtype));
        Emit(runtime::Fill{mm->result, std::vector<uint8_t>(size)}, guard_buffer);
      } else {
        Emit(*std::move(mm), guard_buffer);
      }
      return;
    }
  }
  Emit(CallOf(node), guard_buffer);
}

// Copies for the updates that are not done in place. A copy whose target another one still reads
// waits for it; on a cycle, the target's old value moves to a temporary.
void Lowering::AddUpdates() {
  struct Pending {
    int from;
    int to;
    int guard;
  };
  std::vector<Pending> pending;
  for (const ir::Update& update : storage_.copies()) {
    const int from = program_.RootOf(Read(update.next));
    const int to = StateBuffer(*update.entry);
    const int guard = update.guard ? program_.RootOf(Read(update.guard)) : -1;
    if (from != to) pending.push_back({from, to, guard});
  }
  while (!pending.empty()) {
    auto is_free = [&](const Pending& copy) {
      return std::none_of(pending.begin(), pending.end(), [&](const Pending& other) {
        return &other != &copy && (other.from == copy.to || other.guard == copy.to);
      });
    };
    auto next = std::find_if(pending.begin(), pending.end(), is_free);
    if (next == pending.end()) {
      next = pending.begin();
      const Buffer& target = program_.buffers[next->to];
      const int old = NewTemporary(absl::StrCat(target.name, ".old"), target.dtype, target.shape);
      Emit(runtime::Copy{next->to, old});
      for (Pending& other : pending) {
        if (other.from == next->to) other.from = old;
        if (&other != &*next && other.guard == next->to) other.guard = old;
      }
    }
    Emit(runtime::Copy{next->from, next->to}, next->guard);
    pending.erase(next);
  }
}

absl::Status Lowering::PlaceBuffers() {
  double total = 0;
  for (const Buffer& buffer : program_.buffers) total += static_cast<double>(buffer.bytes);
  if (total > kMaxArenaBytes) {
    return ResourceExhausted("graph @%s: its values take %.3g bytes", graph_.name(), total);
  }
  std::vector<int> placed;
  std::vector<Lifetime> lifetimes;
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const Buffer& buffer = program_.buffers[i];
    if (buffer.alias_of >= 0) continue;
    if (buffer.kind == BufferKind::kState) {
      program_.state_bytes += buffer.bytes;
      continue;
    }
    placed.push_back(static_cast<int>(i));
    lifetimes.push_back(lifetimes_[i]);
  }
  const BufferPlan plan = PlanBuffers(lifetimes, runtime::kBufferAlignment);
  for (size_t i = 0; i < placed.size(); ++i) program_.buffers[placed[i]].offset = plan.offsets[i];
  program_.arena_bytes = plan.arena_bytes;
  program_.unplanned_bytes = plan.unplanned_bytes;
  for (Buffer& buffer : program_.buffers) {
    if (buffer.alias_of < 0) continue;
    buffer.kind = program_.buffers[buffer.alias_of].kind;
    buffer.offset = program_.buffers[buffer.alias_of].offset;
  }
  return absl::OkStatus();
}

int Lowering::NewBuffer(std::string name, const ir::Type& type, BufferKind kind) {
  program_.buffers.push_back(Buffer{.name = std::move(name),
                                    .dtype = type.dtype,
                                    .shape = SizesOf(type),
                                    .bytes = type.bytes(),
                                    .kind = kind});
  lifetimes_.push_back({type.bytes(), time_, time_});
  return static_cast<int>(program_.buffers.size()) - 1;
}

int Lowering::NewTemporary(std::string name, DType dtype, std::vector<int64_t> shape) {
  ir::Type type{dtype, {}};
  for (int64_t size : shape) type.shape.push_back(size);
  return NewBuffer(std::move(name), type, BufferKind::kTemporary);
}

int Lowering::StateBuffer(const ir::StateEntry& entry) {
  auto [it, inserted] = state_.try_emplace(&entry, -1);
  if (inserted) {
    it->second = NewBuffer(entry.name, entry.type, BufferKind::kState);
    program_.state.push_back({entry.name, it->second});
  }
  return it->second;
}

int Lowering::Read(ir::Value value) {
  auto it = buffers_.find(KeyOf(value));
  int buffer = it == buffers_.end() ? -1 : it->second;
  if (buffer < 0) {
    const ir::Value root = RootOf(value);
    if (root != value) {
      buffer = Alias(value, program_.RootOf(Read(root)));
    } else {
      const ir::StateEntry* entry = graph_.EntryOf(value.node);
      DUOTONE_CHECK(entry != nullptr) << value.name() << " is read before it is written";
      buffer = StateBuffer(*entry);
    }
    buffers_[KeyOf(value)] = buffer;
  }
  Touch(program_.RootOf(buffer), time_);
  return buffer;
}

int Lowering::Write(ir::Value root) {
  int buffer = -1;
  if (const ir::StateEntry* entry = storage_.EntryWrittenBy(root)) {
    buffer = StateBuffer(*entry);
  } else {
    const bool is_output =
        std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                    [&](const ir::Output& output) { return RootOf(output.value) == root; });
    buffer = NewBuffer(root.name(), root.type(),
                       is_output ? BufferKind::kOutput : BufferKind::kTemporary);
    if (is_output) Touch(buffer, end_);
  }
  buffers_[KeyOf(root)] = buffer;
  return buffer;
}

int Lowering::Alias(ir::Value value, int root) {
  if (SizesOf(value.type()) == program_.buffers[root].shape) return root;
  const int buffer = NewBuffer(value.name(), value.type(), program_.buffers[root].kind);
  program_.buffers[buffer].alias_of = root;
  return buffer;
}

void Lowering::Touch(int buffer, int time) {
  lifetimes_[buffer].first = std::min(lifetimes_[buffer].first, time);
  lifetimes_[buffer].last = std::max(lifetimes_[buffer].last, time);
}

bool Lowering::FoldConstant(ir::Node* node) {
  if (!IsConstant(*node) || node->result_count() != 1) return false;
  const int64_t bytes = node->type().bytes();
  const EvalKernel kernel(*node);
  if (bytes > kMaxConstantBytes || kernel.scratch_bytes() > 0) return false;
  const int buffer = NewBuffer(node->name(), node->type(), BufferKind::kConstant);
  Touch(buffer, 0);
  Touch(buffer, end_);
  buffers_[KeyOf(node->result())] = buffer;

  std::vector<uint64_t> values(static_cast<size_t>(bytes + 7) / 8);
  void* const address = values.data();
  kernel.Bind({&address, 1}, nullptr)->Run({}, 0, kernel.items());

  const auto* data = reinterpret_cast<const uint8_t*>(values.data());
  const size_t size = static_cast<size_t>(bytes);
  const size_t element = static_cast<size_t>(ByteSize(node->type().dtype));
  // All elements are equal if the array equals itself one element further on.
  const bool is_splat = size > 0 && std::memcmp(data, data + element, size - element) == 0;
  program_.constants.push_back({buffer, {data, data + (is_splat ? element : size)}});
  return true;
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

// The temporary that holds a 16-bit matrix in f32, or -1 where none is needed.
int Lowering::WideOf(const std::string& name, int buffer) {
  const Buffer& narrow = program_.buffers[buffer];
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
