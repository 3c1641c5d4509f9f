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

#include "base/status.h"
#include "codegen/cuda/row_kernel.h"

namespace duotone::codegen::cuda {
namespace {

constexpr double kKeptRegisters = 64;        // per thread, in the registers form
constexpr double kLargeBlockRegisters = 24;  // of blocks of 1024 threads, which have 64 each
constexpr int64_t kStagedLimit = 40
                                 << 10;  // bytes of a block, below the 48 KB that need no consent
constexpr int kElementsPerThread = 32;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
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
  const int most = std::min(1024, PowerOfTwo(task.vectors()));
  return std::clamp(PowerOfTwo(CeilDiv(task.plan.columns, elements)), std::min(32, most), most);
}

bool FitsRegisters(const RowTask& task, const RowLayout& layout) {
  const double limit = layout.block_threads() > 512 ? kLargeBlockRegisters : kKeptRegisters;
  const int elements = layout.copies * layout.vector;
  return layout.copies <= 16 && RegistersOf(task, elements, layout.hold) <= limit;
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
    // Sums over rows in global memory belong to one row of threads.
    if (task.partial_words > 0 && !FitsRegisters(task, wanted)) fixed = fewest;
    groups = {fixed};
  } else {
    for (int threads : {128, 256, 64, 512, 32, 1024}) {
      const bool fits = threads >= layout.threads * fewest;
      if (fits && (threads < 1024 || groups.empty())) groups.push_back(threads / layout.threads);
    }
  }
  // Loops over one vector are the same however often they are unrolled.
  std::vector<int> unrolls = {1, 2, 4, 8};
  if (layout.copies == 1 && groups.size() > 2) unrolls = {1};
  std::vector<RowLayout> layouts;
  for (int n : groups) {
    layout.groups = n;
    layout.blocks =
        partials ? BlocksWithPartials(task, n) : std::max<int64_t>(1, CeilDiv(task.plan.rows, n));
    layout.form = RowForm::kRegisters;
    layout.unroll = layout.copies;
    layout.hold = true;
    bool fits = FitsRegisters(task, layout);
    if (!fits) {
      layout.hold = false;
      fits = FitsRegisters(task, layout);
    }
    if (fits) layouts.push_back(layout);
    layout.hold = false;
    if (partials && task.partial_words > 0 && n > 1) continue;
    for (RowForm form : {RowForm::kShared, RowForm::kGlobal}) {
      for (int unroll : unrolls) {
        layout.form = form;
        layout.unroll = unroll;
        const bool staged = form == RowForm::kShared;
        if (staged && (task.kept_bytes == 0 || StagedBytes(task, layout) > kStagedLimit)) continue;
        layouts.push_back(layout);
      }
    }
  }
  if (layouts.empty()) {  // more sums over rows than registers should hold, over short rows
    layout.form = RowForm::kRegisters;
    layout.unroll = layout.copies;
    layouts.push_back(layout);
  }
  return layouts;
}

absl::StatusOr<GeneratedKernel> GenerateRow(const ir::Node& fusion, GuardOption guard,
                                            const CodegenOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(const RowTask task, MakeRowTask(fusion, RowAxis::kReduced));
  return GenerateRows(task, RowLayouts(task), guard, options);
}

}  // namespace duotone::codegen::cuda
