// What several passes need to replace nodes: names, ids and the promise that a user's dtype rounds
// survive.
#ifndef DUOTONE_PASSES_REWRITE_H_
#define DUOTONE_PASSES_REWRITE_H_

#include <optional>

#include "ir/graph.h"

namespace duotone::passes {

// Makes every reader of `node`'s result read `value`, which computes the same, and erases `node`
// and what only it kept alive. A dtype of the user's always rounds: if `node` was the user's,
// `value` is from now on. If `value` was made for this, it takes the name and id of `node`
// (`take_name`).
void ReplaceNode(ir::Graph& graph, ir::Node* node, ir::Value value, bool take_name = false);

// Erases `node` and then its operands, as far as nothing reads them.
void EraseDead(ir::Graph& graph, ir::Node* node);

// Gives `value` the name and id of a node that has been erased.
void TakeName(ir::Graph& graph, ir::Value value, const std::string& name, uint64_t id);

// The constant behind `value`, or null.
const ir::ConstantAttrs* ConstantOf(ir::Value value);

// The number that every element of a constant holds, after its conversion to the constant's dtype.
std::optional<double> SplatOf(ir::Value value);

// True if `value` is the result of a cast.
inline bool IsCast(ir::Value value) { return value.node->op() == ir::Op::kCast; }
// True if the node's dtype was introduced or changed by autocast.
inline bool IsOfAutocast(const ir::Node& node) { return !node.info().dtype_origin.empty(); }

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_REWRITE_H_
