// What fusion asks of single nodes: what kind of work a node is, where the elements of its operands
// lie relative to its own, and which rows a reduction works on. Facts that the op table has are
// taken from there.
#ifndef DUOTONE_PASSES_FUSE_FACTS_H_
#define DUOTONE_PASSES_FUSE_FACTS_H_

#include <cstdint>
#include <string_view>

#include "ir/graph.h"

namespace duotone::passes {

enum class WorkKind : uint8_t {
  kSource,       // inputs and state
  kFree,         // views, constants, iota: index arithmetic in whatever reads them
  kElementwise,  // also random numbers and the few scalars of the host ops
  kRow,          // composites: softmax, norms, losses
  kReduce,       // reduce_*, argmax
  kAllFinite,
  kMatMul,
  kGather,
  kScatter,
  kOptimizer,
  kFusion,      // made by an earlier run
  kUnexpanded,  // gradient: a pass is missing
};
WorkKind WorkKindOf(const ir::Node& node);

// Floating-point operations per element of an elementwise node.
double FlopsPerElement(const ir::Node& node);
// An elementwise node that no kernel should compute a second time: transcendental functions,
// random numbers, host ops.
bool IsExpensive(const ir::Node& node);

// How element i of `node`, a view of one operand, lies in the operand: element i / divisor, or 0
// for any other order. Reshapes have 1, a broadcast along trailing axes has their size.
int64_t ViewDivisor(const ir::Node& node);

// What a value is to a kernel that works on rows.
enum class Role : uint8_t {
  kFull,    // an element per element
  kRow,     // a number per row
  kColumn,  // a number per column: norm parameters
  kScalar,
  kAcross,  // combined over the whole kernel: known only when it has ended
};

// The rows of a reduction or composite.
struct RowShape {
  enum class Form : uint8_t {
    kTrailing,  // reduces trailing axes: a row is contiguous
    kLeading,   // reduces leading axes
    kTotal,     // reduces everything to one number
    kOther,     // axes in between
  };
  Form form = Form::kTrailing;
  int64_t rows = 1;    // kLeading: how many are summed
  int64_t length = 1;  // of a row; kLeading: how many sums
};
// For kinds kRow and kReduce.
RowShape RowShapeOf(const ir::Node& node);
// The roles of operand i and of result i, for kinds kRow and kReduce.
Role OperandRole(const ir::Node& node, int i);
Role ResultRole(const ir::Node& node, int i);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_FUSE_FACTS_H_
