// The rule "constant" of fold-casts (passes/fold_casts.h): a cast of a constant becomes a constant.
#ifndef DUOTONE_PASSES_FOLD_CONSTANT_CASTS_H_
#define DUOTONE_PASSES_FOLD_CONSTANT_CASTS_H_

#include "passes/pass.h"

namespace duotone::passes {

// Folds `cast`, whose operand is a constant. Returns false if nothing changed; `cast` is erased if
// nothing reads it any more.
bool FoldConstantCast(ir::Graph& graph, ir::Node* cast, PassContext& ctx);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_FOLD_CONSTANT_CASTS_H_
