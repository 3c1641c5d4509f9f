// The row family: reductions along rows with elementwise work before and after, in one kernel.
//
//   softmax of f16[2048, 512]     32 threads per row, 2 vectors of 8 elements each, 4 rows per
//                                 block; the row is read once and stays in registers
//
// The number of threads of a row decides the order of its sums, so it depends on the shape and on
// what has to be kept, and never on the architecture; rows per block and the form do not change a
// result.
#include <algorithm>
#include <bit>
#include <numeric>

#include "base/integer.h"
#include "base/status.h"
#include "codegen/cuda/row_kernel.h"

namespace duotone::codegen::cuda {
namespace {

constexpr double kKeptRegisters = 64;  // per thread, in the registers form
constexpr int64_t kStagedLimit = 40
                                 << 10;  // bytes of a block, below the 48 KB that need no consent
constexpr int kElementsPerThread = 32;
constexpr int kMostThreads = 512;  // of a row: each of them may have 128 registers

int PowerOfTwo(int64_t at_least) {
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(at_least, 1))));
}

double RegistersOf(const RowTask& task, int elements, bool hold) {
  return elements * ((hold ? task.held_words : task.kept_words) + task.partial_words);
}

// Threads of a row: as few as the registers of what is kept allow, and a warp if there is enough.
int ThreadsOf(const RowTask& task) {
  int elements = std::max(kElementsPerThread, task.vector);
  while (elements > task.vector && elements > 8 &&
         RegistersOf(task, elements, true) > kKeptRegisters) {
    elements /= 2;
  }
  const int most = std::min(kMostThreads, PowerOfTwo(task.vectors()));
  return std::clamp(PowerOfTwo(CeilDiv(task.plan.columns, elements)), std::min(32, most), most);
}

bool FitsRegisters(const RowTask& task, const RowLayout& layout) {
  const int elements = layout.copies * layout.vector;
  return layout.copies <= 16 && RegistersOf(task, elements, layout.hold) <= kKeptRegisters;
}

// Blocks where partial results have to be combined: an order of sums, so the shape alone counts. No
// thread adds up more than 32 rows in a row.
int64_t BlocksWithPartials(const RowTask& task, int groups) {
  const int64_t tiles = CeilDiv(task.plan.rows, groups);
  return std::max<int64_t>(1, std::max(std::min<int64_t>(tiles, 128), CeilDiv(tiles, 32)));
}

}  // namespace

int64_t StagedBytes(const RowTask& task, const RowLayout& layout) {
  if (layout.form != RowForm::kShared) return 0;
  return static_cast<int64_t>(task.kept_bytes) * layout.groups * task.plan.columns;
}

namespace {

// All forms of a layout that fit.
void AddForms(const RowTask& task, const std::vector<int>& unrolls, RowLayout layout,
              std::vector<RowLayout>& layouts) {
  layout.form = RowForm::kRegisters;
  layout.unroll = layout.copies;
  for (bool hold : {true, false}) {
    layout.hold = hold;
    if (!FitsRegisters(task, layout)) continue;
    layouts.push_back(layout);
    break;
  }
  layout.hold = false;
  for (RowForm form : {RowForm::kShared, RowForm::kGlobal}) {
    layout.form = form;
    const bool staged = form == RowForm::kShared;
    if (staged && (task.kept_bytes == 0 || StagedBytes(task, layout) > kStagedLimit)) continue;
    std::vector<int> all = unrolls;
    if (layout.copies <= 16 && std::count(all.begin(), all.end(), layout.copies) == 0) {
      all.push_back(layout.copies);
    }
    for (int unroll : all) {
      layout.unroll = unroll;
      // Sums over rows in memory belong to one row of threads.
      const bool in_memory = task.partial_words > 0 && !layout.is_unrolled();
      if (!in_memory || layout.groups == 1) layouts.push_back(layout);
    }
  }
}

}  // namespace

std::vector<RowLayout> RowLayouts(const RowTask& task) {
  RowLayout layout{.vector = task.vector, .threads = ThreadsOf(task)};
  layout.copies = static_cast<int>(
      std::min<int64_t>(CeilDiv(std::max<int64_t>(task.vectors(), 1), layout.threads), 1 << 30));
  const bool partials = task.plan.has_partials();
  std::vector<int> groups;
  const int fewest = std::max(1, 32 / layout.threads);
  if (partials) {
    int fixed = std::max(fewest, 256 / layout.threads);
    RowLayout wanted = layout;
    wanted.groups = fixed;
    if (task.partial_words > 0 && !FitsRegisters(task, wanted)) fixed = fewest;
    groups = {fixed};
  } else {
    for (int threads : {128, 256, 64, 512, 32}) {
      if (threads >= layout.threads * fewest) groups.push_back(threads / layout.threads);
    }
  }
  // Unrolling, of the loops over vectors and over rows, makes up for few choices of blocks.
  std::vector<int> unrolls = {1, 2, 4};
  if (groups.size() == 1) unrolls = {1, 2, 3, 4, 5, 6, 7, 8};
  if (layout.copies == 1) unrolls = {1};
  const std::vector<int> rows_in_flight =
      partials ? std::vector<int>{1, 2, 4} : std::vector<int>{1};
  std::vector<RowLayout> layouts;
  for (int n : groups) {
    layout.groups = n;
    layout.blocks =
        partials ? BlocksWithPartials(task, n) : std::max<int64_t>(1, CeilDiv(task.plan.rows, n));
    for (int rows : rows_in_flight) {
      layout.rows_in_flight = rows;
      AddForms(task, unrolls, layout, layouts);
    }
  }
  if (layouts.empty()) {  // more sums over rows than registers should hold, over short rows
    layout.form = RowForm::kRegisters;
    layout.unroll = layout.copies;
    layouts.push_back(layout);
  }
  return layouts;
}

// Blocks of column layouts walk over many rows, for partial results' sake.
std::vector<RowLayout> LayoutsOf(const RowTask& task) {
  const bool walks = !task.plan.has_row_reductions() && task.plan.has_partials();
  return walks ? ColumnLayouts(task) : RowLayouts(task);
}

absl::StatusOr<GeneratedKernel> GenerateRow(const ir::Node& fusion, GuardOption guard,
                                            const CodegenOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(const RowTask task, MakeRowTask(fusion, RowAxis::kReduced));
  return GenerateRows(task, LayoutsOf(task), guard, options);
}

}  // namespace duotone::codegen::cuda
