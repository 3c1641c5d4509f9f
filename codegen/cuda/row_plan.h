// What a kernel that works row by row has to do, before any text: which elements a row has, in
// which order its reductions and results come, and what is computed once per row or once at all.
//
// The elements of the iteration are (row, column); a value's place says at which of its elements it
// is needed there. Places start at the operand of one reduction and spread over elementwise ops and
// views in both directions.
//
//   %m = reduce_max(%x), axes=[1]              phase 0: the maximum of the row
//   %e = exp(sub(%x, broadcast(%m)))
//   %s = reduce_sum(%e), axes=[1]              phase 1: the sum
//   %r = div(1, %s)                            phase 2: one number per row,
//   %y = mul(%e, broadcast(%r))                         then the row's results
//
// Column kernels (sums over rows only) are the same with one phase; their rows are what is reduced.
#ifndef DUOTONE_CODEGEN_CUDA_ROW_PLAN_H_
#define DUOTONE_CODEGEN_CUDA_ROW_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "codegen/index.h"
#include "codegen/storage.h"
#include "ir/graph.h"
#include "llvm/ADT/DenseMap.h"

namespace duotone::codegen::cuda {

enum class Combine : uint8_t { kSum, kMax, kMin, kArgMax };

struct RowReduction {
  enum class Kind : uint8_t {
    kRow,       // within a row; its result may be read in later phases
    kColumn,    // over all rows, for each column: a partial result per block
    kScalar,    // over all elements, or over one number per row: a partial result per block
    kPrologue,  // over at most `rows` elements, read inside: every block computes it first
  };
  ir::Node* node = nullptr;
  Kind kind = Kind::kRow;
  Combine combine = Combine::kSum;
  int output = -1;         // kColumn, kScalar: the output that its finish writes; -1: none reads it
  int finite_output = -1;  // the all_finite output that tests the finished result

  ir::Value operand() const { return node->operand(0); }
  ir::Value result() const { return node->result(); }
};

// An output of the body that the kernel stores, or a value that an all_finite output tests.
struct RowResult {
  int output = -1;
  ir::Value value;
  bool test = false;
};

// One pass over the elements of a row.
struct RowPhase {
  std::vector<ir::Value> hoisted;  // computed once per row, before the pass, in this order
  std::vector<RowResult> per_row;
  std::vector<RowResult> per_element;
  std::vector<RowReduction> reductions;      // kRow, kColumn and kScalar over elements
  std::vector<RowReduction> row_reductions;  // kScalar over one number per row
  bool has_elements() const { return !per_element.empty() || !reductions.empty(); }
};

struct RowPlan {
  int64_t rows = 1;
  int64_t columns = 1;
  Index row = 0;     // the variables "row" and "column" of places
  Index column = 0;  // AtVector replaces it

  // Computed once, before the rows, in this order: results of kPrologue reductions and numbers that
  // rows share.
  std::vector<ir::Value> once;
  std::vector<RowReduction> prologue;
  std::vector<RowPhase> phases;
  std::vector<RowResult> others;  // over their own elements, away from the rows
  // Values computed element by element that cost much and are needed in several phases; inputs
  // whose elements are read in several phases where the former are kept, and where they are not.
  std::vector<ir::Value> expensive;
  std::vector<ir::Value> reread;
  std::vector<ir::Value> reread_without;

  // Where the value's element for (row, column) lies; null if nothing says.
  const Coordinates* PlaceOf(ir::Value value) const {
    auto it = places.find(KeyOf(value));
    return it == places.end() ? nullptr : &it->second;
  }
  // The place of a value with width*q + v for the column.
  Coordinates AtVector(ir::Value value, const Index& q, const Index& v, int width) const;
  int PhaseOf(ir::Value value) const { return phase.lookup(value.node); }
  // Whether results combine all rows: then blocks walk over many rows each, in an order that the
  // shape alone decides.
  bool has_partials() const;
  bool has_scalars() const;  // among them
  bool has_row_reductions() const { return phases.size() > 1; }

  llvm::DenseMap<ValueKey, Coordinates> places;
  llvm::DenseMap<ValueKey, int> first_use;     // of expensive values: the phase that computes them
  llvm::DenseMap<const ir::Node*, int> phase;  // the first in which the node can be computed
};

enum class RowAxis : uint8_t {
  kReduced,  // rows are lines that are reduced: the row family
  kKept,     // rows are summed, columns kept: the column family
};
// Unimplemented where the body is not of this kind, with the node that is not.
absl::StatusOr<RowPlan> PlanRows(const ir::Graph& body, RowAxis axis);

}  // namespace duotone::codegen::cuda

#endif  // DUOTONE_CODEGEN_CUDA_ROW_PLAN_H_
