// The second half of colouring: from each node's rule to the dtypes of its operands and results.
#ifndef DUOTONE_PASSES_COLOUR_TYPES_H_
#define DUOTONE_PASSES_COLOUR_TYPES_H_

#include "absl/status/status.h"
#include "passes/colour.h"

namespace duotone::passes {

// Fills in reads, writes and out of every node of a graph that autocast has not been through. Nodes
// whose op does not take the operands its rule asks for get rule kNoLowForm and keep their types.
absl::Status AssignTypes(const ir::Graph& graph, Colouring& colouring);

// True for the rules under which a node reads 16-bit operands, and for those under which it reads
// f32 ones, of policy `optimal`.
bool ReadsLow(Rule rule);
bool ReadsF32(Rule rule);

// The op's `out` attribute, or null. It names the result's dtype where the op can write another
// than its operands', at no cost: the accumulator is f32 anyway.
std::optional<DType>* OutField(ir::Attrs& attrs);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_COLOUR_TYPES_H_
