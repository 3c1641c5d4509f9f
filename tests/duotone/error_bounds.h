// How far docs/numerics.md lets the outputs of a graph be from what exact arithmetic gives.
//
//   reduce_sum(mul(%x, %y)), n elements in f32   ->   2^-24 |x y| for each product, then
//                                                     (64 + log2 n) 2^-24 times the sum of |x y|
//
// Errors are carried from node to node: a result errs by what the errors of its operands can make
// of it, by what the document promises of its op, and by half a unit of its 16-bit type. The rules
// are written beside the paragraphs that they come from, in error_bounds.cc. Composites are not
// known; write them in the pieces that the document says they are made of.
#ifndef DUOTONE_TESTS_DUOTONE_ERROR_BOUNDS_H_
#define DUOTONE_TESTS_DUOTONE_ERROR_BOUNDS_H_

#include "absl/status/statusor.h"
#include "ir/interpreter.h"
#include "llvm/ADT/StringMap.h"

namespace duotone {

struct Bounded {
  ir::Array value;  // floating point: the reference evaluation in f64
  ir::Array error;  // f64: how far a backend's element may be from it
};

// By output name. `inputs` are exact. With `approximates`, 16-bit values whose type autocast chose
// may come from approximate functions: kernels without --exact.
absl::StatusOr<llvm::StringMap<Bounded>> BoundOutputs(const ir::Graph& graph,
                                                      const ir::ArrayMap& inputs,
                                                      bool approximates);

// "" if all elements of `actual` are within the bounds, else the first that is not.
std::string BeyondBounds(const ir::Array& actual, const Bounded& bounded);

}  // namespace duotone

#endif  // DUOTONE_TESTS_DUOTONE_ERROR_BOUNDS_H_
