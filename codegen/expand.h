// Rewrites the composites of a fusion's body into primitive nodes, for backends that generate code:
// afterwards there are only sources, views, elementwise ops, reductions, matmul, gather, scatter,
// random ops and optimizer updates. Intermediate values are f32 (f64 for f64), as the composites
// compute.
//
//   %y = softmax(%x), axis=1 : f16[8, 4]
//
//   ->   %x32 = cast(%x), to=f32 ; %m = reduce_max(%x32), axes=[1] ; %k = eq(%m, -inf)
//        %e = exp(%x32 - broadcast(select(%k, 0, %m))) ; %s = reduce_sum(%e), axes=[1]
//        %y = cast(%e * broadcast(1 / select(%k, 1, %s))), to=f16
//
// Means over rows (over axis 0, among others) divide each element by the count before the sum over
// rows, which is then a plain reduce_sum; cross_entropy's count of rows that are not ignored is a
// reduce_sum over the labels. Reductions of the composites keep no axes of size 1.
#ifndef DUOTONE_CODEGEN_EXPAND_H_
#define DUOTONE_CODEGEN_EXPAND_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace duotone::codegen {

// An index that the kernel must test against [0, limit) and report otherwise: a label of
// cross_entropy, a row number of gather or scatter_add.
struct IndexCheck {
  ir::Value indices;  // i32 or i64
  int64_t limit = 0;
  std::optional<int64_t> ignored;  // a value outside that is no error
  std::string op;                  // "cross_entropy"
  std::string place;               // Node::Place() of the composite
};

struct ExpandedBody {
  std::unique_ptr<ir::Graph> graph;  // same inputs and outputs as the body
  std::vector<IndexCheck> checks;    // values of `graph`
};

absl::StatusOr<ExpandedBody> ExpandBody(const ir::Graph& body);

}  // namespace duotone::codegen

#endif  // DUOTONE_CODEGEN_EXPAND_H_
