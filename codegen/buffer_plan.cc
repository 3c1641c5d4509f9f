#include "codegen/buffer_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/integer.h"

namespace duotone::codegen {
namespace {

// Bytes in use, [begin, end), until time `last`.
struct Block {
  int64_t begin;
  int64_t end;
  int last;
};

// The begin of the smallest gap between `active` (sorted by begin) that holds `bytes`, else the end
// of the last one.
int64_t BestFit(const std::vector<Block>& active, int64_t bytes) {
  int64_t best = -1;
  int64_t best_size = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  for (const Block& block : active) {
    const int64_t size = block.begin - end;
    if (size >= bytes && size < best_size) {
      best = end;
      best_size = size;
    }
    end = block.end;
  }
  return best >= 0 ? best : end;
}

}  // namespace

BufferPlan PlanBuffers(llvm::ArrayRef<Lifetime> lifetimes, int64_t alignment) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Of those that become alive together, the long-lived and then the large come first: they leave
  // fewer holes.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Lifetime& x = lifetimes[a];
    const Lifetime& y = lifetimes[b];
    if (x.first != y.first) return x.first < y.first;
    if (x.last != y.last) return x.last > y.last;
    return x.bytes != y.bytes ? x.bytes > y.bytes : a < b;
  });
  BufferPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<Block> active;
  for (size_t index : order) {
    const Lifetime& life = lifetimes[index];
    DUOTONE_CHECK(life.bytes >= 0 && life.first <= life.last) << "buffer " << index;
    const int64_t bytes = RoundUp(life.bytes, alignment);
    if (bytes == 0) continue;
    std::erase_if(active, [&](const Block& block) { return block.last < life.first; });
    const int64_t begin = BestFit(active, bytes);
    const Block block{begin, begin + bytes, life.last};
    active.insert(
        std::upper_bound(active.begin(), active.end(), block,
                         [](const Block& a, const Block& b) { return a.begin < b.begin; }),
        block);
    plan.offsets[index] = begin;
    plan.arena_bytes = std::max(plan.arena_bytes, block.end);
    plan.unplanned_bytes += bytes;
  }
  return plan;
}

}  // namespace duotone::codegen
