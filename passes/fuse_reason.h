// Why the nodes of a fusion stand together, as one clause with a figure:
//
//   add, relu in the epilogue of matmul; saves 256 KB
#ifndef DUOTONE_PASSES_FUSE_REASON_H_
#define DUOTONE_PASSES_FUSE_REASON_H_

#include <cstdint>
#include <string>

#include "ir/graph.h"
#include "passes/fuse_groups.h"

namespace duotone::passes {

std::string FusionReason(const ir::Graph& body, const FusionGroup& group);

// Bytes that a kernel of its own would move for `node` of a fusion's body, or of an unfused graph:
// each distinct operand and result once, and of a view what is looked at. Views move nothing.
double BytesAlone(const ir::Node& node);

// "1.5 MB": three digits at most.
std::string ByteText(double bytes);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_FUSE_REASON_H_
