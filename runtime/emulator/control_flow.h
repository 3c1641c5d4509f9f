// Where paths through a function come together: immediate post-dominators.
#ifndef DUOTONE_RUNTIME_EMULATOR_CONTROL_FLOW_H_
#define DUOTONE_RUNTIME_EMULATOR_CONTROL_FLOW_H_

#include <array>
#include <vector>

namespace duotone::emulator {

// Where control may go from a node; -1: nowhere, and twice -1: the function ends there.
using Successors = std::array<int, 2>;

// For each node of a flow graph the node that every path from it to an end passes next; -1: there
// is none before the end. A node from which no end is reached (an endless loop) has -1.
//
// Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001, on the reversed graph.
std::vector<int> ImmediatePostDominators(const std::vector<Successors>& successors);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_CONTROL_FLOW_H_
