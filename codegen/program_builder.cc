#include "codegen/program_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "codegen/cpu/eval_kernel.h"

namespace duotone::codegen {
namespace {

using runtime::Buffer;
using runtime::BufferKind;

// Constants above this are computed in each run instead of being kept.
constexpr int64_t kMaxConstantBytes = int64_t{64} << 20;
// Arenas stay below this, so that sums of sizes cannot overflow.
constexpr double kMaxArenaBytes = 4e18;

bool DrawsRandomNumbers(const ir::Node& node) {
  if (node.body() == nullptr) return node.def().lower == ir::Lower::kRandom;
  return std::any_of(node.body()->nodes().begin(), node.body()->nodes().end(),
                     [](const auto& inner) { return DrawsRandomNumbers(*inner); });
}

}  // namespace

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

absl::StatusOr<runtime::Program> ProgramBuilder::Run() {
  DUOTONE_RETURN_IF_ERROR(CheckGraph());
  AddInputs();
  FindRngPosition();
  CopyOldOutputs();
  for (const auto& node : graph_.nodes()) {
    ++time_;
    // Nodes that keep their operand's bytes need no step; their buffers are made when something
    // reads them.
    if (RootOf(node->result()).node != node.get() || FoldConstant(node.get())) continue;
    DUOTONE_RETURN_IF_ERROR(AddNode(node.get()));
  }
  time_ = end_;
  DUOTONE_RETURN_IF_ERROR(AfterNodes());
  DUOTONE_RETURN_IF_ERROR(AddUpdates());
  AddOutputs();
  DUOTONE_RETURN_IF_ERROR(PlaceBuffers());
  return std::move(program_);
}

absl::Status ProgramBuilder::CheckGraph() const {
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
    DUOTONE_RETURN_IF_ERROR(CheckNode(*node));
    for (const ir::Type& type : node->types()) {
      if (type.is_static()) continue;
      return InvalidArgument("%s: the type %s has a named size that is not bound %s",
                             node->def().name, type.ToString(), node->Place());
    }
  }
  return absl::OkStatus();
}

void ProgramBuilder::AddInputs() {
  for (ir::Node* input : graph_.inputs()) {
    const int buffer = NewBuffer(input->name(), input->type(), BufferKind::kInput);
    Touch(buffer, 0);
    Touch(buffer, end_);
    buffers_[KeyOf(input->result())] = buffer;
    program_.inputs.push_back({input->name(), buffer});
  }
}

void ProgramBuilder::FindRngPosition() {
  const ir::StateEntry* entry = graph_.module()->FindState(rng_position_);
  if (entry == nullptr || entry->type.dtype != DType::kI64 || !entry->type.is_scalar()) return;
  const bool is_used = std::any_of(graph_.nodes().begin(), graph_.nodes().end(),
                                   [](const auto& node) { return DrawsRandomNumbers(*node); });
  if (is_used) program_.rng_position = StateBuffer(*entry);
}

// Outputs that name an input or a state entry get its value before the step.
void ProgramBuilder::CopyOldOutputs() {
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

void ProgramBuilder::AddOutputs() {
  for (const ir::Output& output : graph_.outputs()) {
    auto copied = copied_outputs_.find(output.name);
    const int buffer = copied == copied_outputs_.end() ? Read(output.value) : copied->second;
    program_.outputs.push_back({output.name, buffer});
  }
}

// Copies for the updates that are not done in place. A copy whose target another one still reads
// waits for it; on a cycle, the target's old value moves to a temporary.
absl::Status ProgramBuilder::AddUpdates() {
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
    const runtime::Copy copy{next->from, next->to};
    if (next->guard < 0) {
      Emit(copy);
    } else {
      DUOTONE_RETURN_IF_ERROR(EmitGuardedCopy(copy, next->guard));
    }
    pending.erase(next);
  }
  return absl::OkStatus();
}

absl::Status ProgramBuilder::PlaceBuffers() {
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

int ProgramBuilder::NewBuffer(std::string name, const ir::Type& type, BufferKind kind) {
  program_.buffers.push_back(Buffer{.name = std::move(name),
                                    .dtype = type.dtype,
                                    .shape = SizesOf(type),
                                    .bytes = type.bytes(),
                                    .kind = kind});
  lifetimes_.push_back({type.bytes(), time_, time_});
  return static_cast<int>(program_.buffers.size()) - 1;
}

int ProgramBuilder::NewTemporary(std::string name, DType dtype, std::vector<int64_t> shape) {
  ir::Type type{dtype, {}};
  for (int64_t size : shape) type.shape.push_back(size);
  return NewBuffer(std::move(name), type, BufferKind::kTemporary);
}

int ProgramBuilder::StateBuffer(const ir::StateEntry& entry) {
  auto [it, inserted] = state_.try_emplace(&entry, -1);
  if (inserted) {
    it->second = NewBuffer(entry.name, entry.type, BufferKind::kState);
    program_.state.push_back({entry.name, it->second});
  }
  return it->second;
}

int ProgramBuilder::Read(ir::Value value) {
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

int ProgramBuilder::Write(ir::Value root) {
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

int ProgramBuilder::Alias(ir::Value value, int root) {
  if (SizesOf(value.type()) == program_.buffers[root].shape) return root;
  const int buffer = NewBuffer(value.name(), value.type(), program_.buffers[root].kind);
  program_.buffers[buffer].alias_of = root;
  return buffer;
}

void ProgramBuilder::Touch(int buffer, int time) {
  lifetimes_[buffer].first = std::min(lifetimes_[buffer].first, time);
  lifetimes_[buffer].last = std::max(lifetimes_[buffer].last, time);
}

bool ProgramBuilder::FoldConstant(ir::Node* node) {
  if (!IsConstant(*node) || node->result_count() != 1) return false;
  const int64_t bytes = node->type().bytes();
  const cpu::EvalKernel kernel(*node);
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

}  // namespace duotone::codegen
