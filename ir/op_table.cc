// The op table: every row of the families' files, put in enum order at compile time. A missing,
// doubled or incomplete row does not compile.
//
// A row is a designated initialiser in ir/op_rows_<family>.h; the functions it names are in
// ir/ops_<family>.{h,cc}. `example` is a complete graph on one line, which tests/ir/ops_test.cc
// parses, verifies, prints and evaluates:
//
//   graph @example(%x: f32[4]) { %y = neg(%x) : f32[4] return %y }
#include <array>
#include <span>

#include "ir/op_def.h"
#include "ir/op_rows_fusion.h"
#include "ir/op_rows_gather.h"
#include "ir/op_rows_gradient.h"
#include "ir/op_rows_loss.h"
#include "ir/op_rows_matmul.h"
#include "ir/op_rows_nary.h"
#include "ir/op_rows_optimizer.h"
#include "ir/op_rows_reduce.h"
#include "ir/op_rows_row.h"
#include "ir/op_rows_source.h"
#include "ir/op_rows_unary.h"
#include "ir/op_rows_view.h"

namespace duotone::ir {
namespace {

// Alphabetical; the rows find their places by their enumerators.
constexpr std::array<std::span<const OpDef>, 12> kFamilies = {
    kFusionRows,    kGatherRows, kGradientRows, kLossRows,   kMatMulRows, kNaryRows,
    kOptimizerRows, kReduceRows, kRowRows,      kSourceRows, kUnaryRows,  kViewRows,
};

constexpr std::array<OpDef, kOpCount> kTable = [] {
  std::array<OpDef, kOpCount> table{};
  for (std::span<const OpDef> family : kFamilies) {
    for (const OpDef& row : family) table[static_cast<size_t>(row.op)] = row;
  }
  return table;
}();

constexpr int RowCount(Op op) {
  int count = 0;
  for (std::span<const OpDef> family : kFamilies) {
    for (const OpDef& row : family) count += row.op == op;
  }
  return count;
}

constexpr bool IsComplete(const Precision& precision) {
  return precision.f16 != Tone::kUnset && precision.bf16 != Tone::kUnset &&
         precision.torch_cuda != TorchCategory::kUnset &&
         precision.torch_cpu != TorchCategory::kUnset && !precision.reason.empty();
}

// Sources and expanded ops are not evaluated, fusions by their bodies; sources are not written as
// nodes.
constexpr bool IsComplete(Op op, std::string_view name) {
  const OpDef& row = kTable[static_cast<size_t>(op)];
  const bool runs =
      row.lower != Lower::kSource && row.lower != Lower::kExpanded && row.lower != Lower::kFused;
  return RowCount(op) == 1 && row.op == op && row.name == name && row.infer != nullptr &&
         row.grad != nullptr && row.cost != nullptr && IsComplete(row.precision) &&
         (row.eval.run != nullptr) == runs &&
         row.example.empty() == (row.lower == Lower::kSource) && !row.doc.empty();
}

#define DUOTONE_CHECK_ROW_(enumerator, name)          \
  static_assert(IsComplete(Op::k##enumerator, #name), \
                "the row of " #name " in ir/op_rows_*.h is missing, doubled or incomplete");
DUOTONE_OPS(DUOTONE_CHECK_ROW_)
#undef DUOTONE_CHECK_ROW_

}  // namespace

llvm::ArrayRef<OpDef> AllOps() { return kTable; }

}  // namespace duotone::ir
