// Matches what a caller feeds with the inputs of a graph: names, dtypes and shapes, and from them
// the named sizes.
//
//   %x: f32[B, 784] fed f32[128, 784], %y: i32[B] fed 128 values of i32   ->   B = 128
#ifndef DUOTONE_DUOTONE_FEEDS_H_
#define DUOTONE_DUOTONE_FEEDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "duotone/session.h"
#include "ir/graph.h"

namespace duotone::internal {

struct BoundFeeds {
  ir::SizeBinding sizes;
  std::vector<int64_t> key;       // the sizes in the order of their names
  std::vector<const void*> data;  // in the order of the graph's inputs
};

// Every error is a sentence with what was expected and given.
absl::StatusOr<BoundFeeds> BindFeeds(const ir::Graph& graph, absl::Span<const Feed> feeds);

}  // namespace duotone::internal

#endif  // DUOTONE_DUOTONE_FEEDS_H_
