// The column family: sums over leading (or any) axes of an elementwise expression, with elementwise
// results on the way. Threads own columns, blocks share the rows, and a finish adds up the partial
// results of the blocks:
//
//   sum over axis 0 of f16[2048, 512]   ->   blocks of 32 x 8 threads: 256 columns, 8 rows at a
//                                            time; 2 x 64 blocks; then 64 partial results per
//                                            column
#include <algorithm>
#include <bit>

#include "base/integer.h"
#include "base/status.h"
#include "codegen/cuda/row_kernel.h"

namespace duotone::codegen::cuda {
namespace {}  // namespace

// Rows per block and the number of blocks along rows decide the order of sums: the shape alone
// counts, and no thread adds up more than 32 rows in a row. Threads of a row and unrolling are
// free.
std::vector<RowLayout> ColumnLayouts(const RowTask& task) {
  const int64_t vectors = std::max<int64_t>(task.vectors(), 1);
  const int widest =
      static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(vectors, 128))));
  const int usual = std::min(widest, 32);
  const int groups = 256 / usual;
  const int64_t tiles = CeilDiv(task.plan.rows, groups);
  const int64_t wanted = std::clamp<int64_t>(1024 / CeilDiv(vectors, usual), 1, 128);
  // A sum over everything goes over the threads of a block, too.
  const int most = task.plan.has_scalars() ? usual : widest;
  std::vector<RowLayout> layouts;
  for (int threads = usual; threads <= most; threads *= 2) {
    if (threads * groups > 1024) break;
    for (int unroll : {4, 2, 8, 1, 3, 6, 5, 7}) {
      RowLayout layout{.vector = task.vector,
                       .threads = threads,
                       .groups = groups,
                       .unroll = unroll,
                       .blocks = std::max<int64_t>(
                           1, std::max(std::min(CeilDiv(tiles, 4), wanted), CeilDiv(tiles, 32))),
                       .column_tiles = CeilDiv(vectors, threads)};
      layouts.push_back(layout);
    }
  }
  return layouts;
}

absl::StatusOr<GeneratedKernel> GenerateColumn(const ir::Node& fusion, GuardOption guard,
                                               const CodegenOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(const RowTask task, MakeRowTask(fusion, RowAxis::kKept));
  return GenerateRows(task, LayoutsOf(task), guard, options);
}

}  // namespace duotone::codegen::cuda
