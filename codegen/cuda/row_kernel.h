// Writes kernels that work row by row (codegen/cuda/row_plan.h): the row family and the column
// family. A layout says how threads share the rows; where rows stay between phases is its form.
//
//   threads t of a row:      q = t + threads * k, k < copies: vectors of the row
//   groups of a block:       rows that it works on at a time
//   blocks, column_tiles:    of the grid; with partial results each block walks over many rows
#ifndef DUOTONE_CODEGEN_CUDA_ROW_KERNEL_H_
#define DUOTONE_CODEGEN_CUDA_ROW_KERNEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/row_plan.h"
#include "codegen/cuda/schedule.h"
#include "codegen/expand.h"

namespace duotone::codegen::cuda {

// Where what several phases need of a row stays between them.
enum class RowForm : uint8_t {
  kRegisters,  // `copies` vectors per thread
  kShared,     // each thread keeps its vectors of inputs in shared memory
  kGlobal,     // it is read and computed again
};

struct RowLayout {
  RowForm form = RowForm::kRegisters;
  int vector = 1;          // elements
  int threads = 1;         // of a row: a power of two
  int groups = 1;          // rows of a block: a power of two
  int copies = 1;          // vectors per thread and row
  int unroll = 1;          // of the loop over vectors; in column kernels, of that over rows
  int rows_in_flight = 1;  // the unrolling of the loop over rows otherwise
  bool hold = false;       // expensive values are held in registers, in their first phase
  int64_t blocks = 1;
  int64_t column_tiles = 1;  // more than one only without reductions along rows

  int block_threads() const { return threads * groups; }
  // The loop over the thread's vectors is gone: what belongs to one of them can be in a register.
  bool is_unrolled() const {
    return form == RowForm::kRegisters || copies == 1 || (unroll >= copies && copies <= 16);
  }
  Schedule schedule() const;

  // A grid has at most 65535 blocks along y; more tiles of columns are counted along x.
  bool is_grid_flat() const { return column_tiles > 65535; }
  std::array<int64_t, 3> grid() const {
    if (is_grid_flat()) return {blocks * column_tiles, 1, 1};
    return {blocks, column_tiles, 1};
  }
  // The numbers of the block along rows and along columns, as text.
  std::string row_block() const {
    return is_grid_flat() ? absl::StrFormat("(blockIdx.x %% %d)", blocks) : "blockIdx.x";
  }
  std::string column_block() const {
    return is_grid_flat() ? absl::StrFormat("(blockIdx.x / %d)", blocks) : "blockIdx.y";
  }
  // And among all.
  std::string block() const {
    return grid()[1] == 1 ? "blockIdx.x" : absl::StrFormat("blockIdx.y * %d + blockIdx.x", blocks);
  }
};

// A fusion, and what layouts are chosen by.
struct RowTask {
  const ir::Node* fusion = nullptr;
  ExpandedBody body;
  RowPlan plan;
  int vector = 1;            // the widest that results and inputs allow
  double kept_words = 0;     // registers per element of inputs that several phases read
  double held_words = 0;     // the same where expensive values are held, with these
  double kept_bytes = 0;     // shared memory per element
  double partial_words = 0;  // registers per element of sums over rows
  Work work;                 // bytes, flops and mufu

  int64_t vectors() const { return plan.columns / vector; }
};
absl::StatusOr<RowTask> MakeRowTask(const ir::Node& fusion, RowAxis axis);

// Candidates for tasks whose rows are reduced, in which a row is never split over blocks
// (row.cc), and for others (column.cc).
std::vector<RowLayout> RowLayouts(const RowTask& task);
std::vector<RowLayout> ColumnLayouts(const RowTask& task);
std::vector<RowLayout> LayoutsOf(const RowTask& task);
// Bytes of shared memory of a block, but for the exchange of sums.
int64_t StagedBytes(const RowTask& task, const RowLayout& layout);

// What the cost model sees of a layout.
Work WorkOf(const RowTask& task, const RowLayout& layout);
// Ranks the layouts and writes the kernel of the best.
absl::StatusOr<GeneratedKernel> GenerateRows(const RowTask& task,
                                             const std::vector<RowLayout>& layouts,
                                             const GuardOption& guard,
                                             const CodegenOptions& options);

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_CODEGEN_CUDA_ROW_KERNEL_H_
