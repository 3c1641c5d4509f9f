// Post-dominators against their definition, on random graphs.
#include "runtime/emulator/control_flow.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

namespace duotone::emulator {
namespace {

// The nodes that every path from `from` to an end passes: those without which no end is reached.
std::set<int> PostDominators(const std::vector<Successors>& graph, int from) {
  const auto reaches_end = [&](int without) {
    std::vector<bool> seen(graph.size(), false);
    std::vector<int> open = {from};
    while (!open.empty()) {
      const int node = open.back();
      open.pop_back();
      if (node == without || seen[static_cast<size_t>(node)]) continue;
      seen[static_cast<size_t>(node)] = true;
      const Successors& next = graph[static_cast<size_t>(node)];
      if (next[0] < 0 && next[1] < 0) return true;
      for (int to : next) {
        if (to >= 0) open.push_back(to);
      }
    }
    return false;
  };
  std::set<int> result;
  if (!reaches_end(-1)) return result;
  for (int node = 0; node < static_cast<int>(graph.size()); ++node) {
    if (node != from && !reaches_end(node)) result.insert(node);
  }
  return result;
}

// The immediate one is the post-dominator that has all others behind it.
int Immediate(const std::vector<Successors>& graph, int from) {
  const std::set<int> all = PostDominators(graph, from);
  for (int node : all) {
    if (PostDominators(graph, node).size() == all.size() - 1) return node;
  }
  return -1;
}

TEST(ControlFlow, PostDominatorsAreThoseOfTheDefinition) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const int count = 1 + static_cast<int>(random() % 14);
    std::vector<Successors> graph;
    for (int node = 0; node < count; ++node) {
      const auto target = [&]() { return static_cast<int>(random() % (count + 2)); };
      Successors next = {node + 1 < count ? node + 1 : -1, -1};
      switch (random() % 4) {
        case 0:
          next[0] = -1;  // an end
          break;
        case 1:
          next[1] = std::min(target(), count - 1);
          break;
        case 2:
          next[0] = std::min(target(), count - 1);
          break;
        default:
          break;
      }
      graph.push_back(next);
    }
    const std::vector<int> found = ImmediatePostDominators(graph);
    for (int node = 0; node < count; ++node) {
      EXPECT_EQ(found[static_cast<size_t>(node)], Immediate(graph, node))
          << "round " << round << ", node " << node;
    }
  }
}

TEST(ControlFlow, AnEndlessLoopHasNone) {
  EXPECT_THAT(ImmediatePostDominators({{1, -1}, {0, -1}}), ::testing::ElementsAre(-1, -1));
  EXPECT_TRUE(ImmediatePostDominators({}).empty());
}

}  // namespace
}  // namespace duotone::emulator
