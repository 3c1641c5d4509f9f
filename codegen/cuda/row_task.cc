// What layouts of rows are chosen by: the widest vectors, what has to be kept, the work.
#include <algorithm>

#include "base/status.h"
#include "codegen/cuda/emitter.h"
#include "codegen/cuda/row_kernel.h"

namespace duotone::codegen::cuda {
namespace {

using ir::Value;

// True if `value` has whole aligned vectors along a row, or one element for all lanes.
bool IsWhole(const RowPlan& plan, Value value, int width) {
  const Index q = Index::Variable("q", plan.columns / width);
  const Index v = Index::Variable("v", width);
  const Index position = Linearise(plan.AtVector(value, q, v, width), SizesOf(value.type()));
  const auto split = position.SplitBy(v);
  if (!split) return false;
  return split->stride == 0 || (split->stride == 1 && split->base.divisor() % width == 0);
}

// The widest vector in which all results and at least half of the inputs' bytes are whole: 16 bytes
// of the narrowest type.
int WidestOf(const ir::Graph& body, const RowPlan& plan) {
  std::vector<Value> results;
  for (const RowPhase& phase : plan.phases) {
    for (const RowResult& result : phase.per_element) {
      if (!result.test) results.push_back(result.value);
    }
  }
  std::vector<Value> inputs;
  for (ir::Node* input : body.inputs()) {
    const Coordinates* at = plan.PlaceOf(input->result());
    const bool along = at != nullptr && std::any_of(at->begin(), at->end(), [&](const Index& i) {
                         return i.Contains(plan.column);
                       });
    if (along) inputs.push_back(input->result());
  }
  int narrowest = 8;
  for (Value value : inputs) narrowest = std::min(narrowest, ByteSize(value.type().dtype));
  for (Value value : results) narrowest = std::min(narrowest, ByteSize(value.type().dtype));
  for (int width = std::min(8, 16 / narrowest); width > 1; width /= 2) {
    if (plan.columns % width != 0) continue;
    if (!std::all_of(results.begin(), results.end(),
                     [&](Value value) { return IsWhole(plan, value, width); })) {
      continue;
    }
    int64_t whole = 0;
    int64_t others = 0;
    for (Value value : inputs) {
      (IsWhole(plan, value, width) ? whole : others) += value.type().bytes();
    }
    if (whole >= others) return width;
  }
  return 1;
}

double WordsOf(const std::vector<Value>& values) {
  double words = 0;
  for (Value value : values) words += ByteSize(value.type().dtype) / 4.0;
  return words;
}

double ElementsOf(const ir::Type& type) { return static_cast<double>(type.elements()); }

}  // namespace

absl::StatusOr<RowTask> MakeRowTask(const ir::Node& fusion, RowAxis axis) {
  RowTask task;
  task.fusion = &fusion;
  DUOTONE_ASSIGN_OR_RETURN(task.body, ExpandBody(*fusion.body()));
  absl::StatusOr<RowPlan> plan = PlanRows(*task.body.graph, axis);
  DUOTONE_RETURN_IF_ERROR(plan).With("%s %s", fusion.attrs_as<ir::FusionAttrs>().family,
                                     fusion.Place());
  task.plan = *std::move(plan);
  task.vector = WidestOf(*task.body.graph, task.plan);
  task.kept_words = WordsOf(task.plan.reread_without);
  task.kept_bytes = 4 * task.kept_words;
  task.held_words = WordsOf(task.plan.reread) + static_cast<double>(task.plan.expensive.size());
  for (const RowPhase& phase : task.plan.phases) {
    for (const RowReduction& reduction : phase.reductions) {
      if (reduction.kind != RowReduction::Kind::kColumn) continue;
      task.partial_words += reduction.operand().type().dtype == DType::kF64 ? 2 : 1;
    }
  }
  for (Value operand : fusion.operands()) {
    task.work.bytes_read += static_cast<double>(operand.type().bytes());
  }
  for (const ir::Type& type : fusion.types()) {
    task.work.bytes_written += static_cast<double>(type.bytes());
  }
  for (const auto& node : task.body.graph->nodes()) {
    llvm::SmallVector<ir::Type, 4> operands;
    for (Value operand : node->operands()) operands.push_back(operand.type());
    task.work.flops += node->def().cost(operands, node->types(), node->attrs()).flops;
    task.work.mufu += MufuOf(*node) * ElementsOf(node->type());
  }
  return task;
}

Schedule RowLayout::schedule() const {
  return {.vector = vector,
          .unroll = unroll,
          .threads = block_threads(),
          .rows_per_block = groups,
          .tile_m = rows_in_flight > 1 ? rows_in_flight : 0,
          .form = static_cast<int>(form)};
}

// What the cost model sees of a layout.
Work WorkOf(const RowTask& task, const RowLayout& layout) {
  Work work = task.work;
  work.blocks = layout.blocks * layout.column_tiles;
  const double elements = static_cast<double>(layout.copies) * layout.vector;
  const bool registers = layout.form == RowForm::kRegisters;
  const double in_flight = registers ? layout.copies : std::min(layout.copies, layout.unroll);
  const double inputs = std::max<double>(1, task.kept_words);
  work.bytes_in_flight_per_thread =
      std::min(4 * inputs * layout.vector * in_flight *
                   (registers && layout.copies == 1 ? layout.unroll : 1) * layout.rows_in_flight,
               256.0);
  const double words = layout.hold ? task.held_words : task.kept_words;
  work.registers = static_cast<int>(
      32 + (registers ? elements * words * layout.rows_in_flight : 2.0 * layout.vector) +
      (layout.is_unrolled() ? elements * task.partial_words : 0.0));
  work.registers = std::min(work.registers, std::min(255, 65536 / layout.block_threads()));
  work.shared_bytes = StagedBytes(task, layout);
  const double size = static_cast<double>(task.plan.rows) * static_cast<double>(task.plan.columns);
  const double phases = static_cast<double>(task.plan.phases.size());
  if (layout.form == RowForm::kShared) work.shared_traffic = size * task.kept_bytes * phases;
  if (layout.form == RowForm::kGlobal) {
    work.l2_bytes = work.bytes_read * phases + work.bytes_written;
    if (!layout.is_unrolled()) work.l2_bytes += 8 * size * task.partial_words;
  }
  if (!layout.hold && task.held_words > 0) work.mufu *= 1.5;
  work.instructions = size * 4 / layout.vector * phases;
  return work;
}

}  // namespace duotone::codegen::cuda
