#include "runtime/emulator/control_flow.h"

#include <cstddef>
#include <utility>

namespace duotone::emulator {
namespace {

// The nodes from which an end is reached, each after all but loops' successors: the reverse of the
// order wanted, over the reversed graph, whose root is a node behind all ends.
std::vector<int> PostOrder(const std::vector<std::vector<int>>& predecessors, int root) {
  std::vector<int> order;
  std::vector<bool> seen(predecessors.size(), false);
  std::vector<std::pair<int, size_t>> stack = {{root, 0}};
  seen[static_cast<size_t>(root)] = true;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    const std::vector<int>& from = predecessors[static_cast<size_t>(node)];
    if (next == from.size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    const int child = from[next++];
    if (seen[static_cast<size_t>(child)]) continue;
    seen[static_cast<size_t>(child)] = true;
    stack.emplace_back(child, 0);
  }
  return order;
}

}  // namespace

std::vector<int> ImmediatePostDominators(const std::vector<Successors>& successors) {
  const auto count = static_cast<int>(successors.size());
  const int end = count;
  std::vector<std::vector<int>> targets(static_cast<size_t>(count) + 1);
  std::vector<std::vector<int>> predecessors(static_cast<size_t>(count) + 1);
  for (int node = 0; node < count; ++node) {
    std::vector<int>& to = targets[static_cast<size_t>(node)];
    for (int next : successors[static_cast<size_t>(node)]) {
      if (next >= 0) to.push_back(next);
    }
    if (to.empty()) to.push_back(end);
    for (int next : to) predecessors[static_cast<size_t>(next)].push_back(node);
  }
  const std::vector<int> order = PostOrder(predecessors, end);
  std::vector<int> number(static_cast<size_t>(count) + 1, -1);
  for (size_t i = 0; i < order.size(); ++i)
    number[static_cast<size_t>(order[i])] = static_cast<int>(i);

  std::vector<int> dominator(static_cast<size_t>(count) + 1, -1);
  dominator[static_cast<size_t>(end)] = end;
  const auto meet = [&](int a, int b) {
    while (a != b) {
      while (number[static_cast<size_t>(a)] < number[static_cast<size_t>(b)])
        a = dominator[static_cast<size_t>(a)];
      while (number[static_cast<size_t>(b)] < number[static_cast<size_t>(a)])
        b = dominator[static_cast<size_t>(b)];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order.size() - 1; i-- > 0;) {
      const auto node = static_cast<size_t>(order[i]);
      int common = -1;
      for (int next : targets[node]) {
        if (dominator[static_cast<size_t>(next)] < 0) continue;
        common = common < 0 ? next : meet(common, next);
      }
      if (common < 0 || dominator[node] == common) continue;
      dominator[node] = common;
      changed = true;
    }
  }
  std::vector<int> result(static_cast<size_t>(count), -1);
  for (size_t node = 0; node < result.size(); ++node) {
    if (dominator[node] != end) result[node] = dominator[node];
  }
  return result;
}

}  // namespace duotone::emulator
