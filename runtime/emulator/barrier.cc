#include "runtime/emulator/barrier.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/emulator/lane_loops.h"

namespace duotone::emulator {
namespace {

// Where the operands of a barrier instruction stand among its rows: bar.sync a{, b}; bar.arrive a,
// b; bar.red.popc d, a{, b}, p; bar.red.and p, a{, b}, q.
struct BarrierRows {
  int number = 0;
  int threads = -1;
  int predicate = -1;
};
BarrierRows RowsOf(const Instruction& instruction) {
  const auto count = static_cast<int>(instruction.operands.size());
  BarrierRows rows;
  rows.number = instruction.results;
  const bool reduces = instruction.results > 0;
  if (reduces) rows.predicate = count - 1;
  if (count - rows.number - (reduces ? 1 : 0) > 1) rows.threads = rows.number + 1;
  return rows;
}

uint32_t FirstValue(Warp& warp, const Code& code, int row) {
  return warp.Row<uint32_t>(code.row[static_cast<size_t>(row)])[std::countr_zero(warp.live())];
}

// The result of bar.red in all lanes of a warp.
void WriteResult(Warp& warp, const Code& code, bool all, bool any, uint32_t count) {
  const Mask lanes = warp.live();
  if (code.instruction->mode == Mode::kPopc) {
    ForLanes(warp.Row<uint32_t>(code.row[0]), lanes, [=](int) { return count; });
    return;
  }
  const bool value = code.instruction->mode == Mode::kAnd ? all : any;
  warp.SetPredicate(code.row[0], lanes, value ? kAllLanes : 0);
}

}  // namespace

void BarrierSet::Reset() {
  for (Barrier& barrier : barriers_) barrier = Barrier();
}

bool BarrierSet::IsComplete(const Barrier& barrier, const Block& block) {
  const auto arrived = static_cast<int64_t>(barrier.arrived.size());
  if (arrived == 0) return false;
  if (barrier.expected > 0) return arrived * kLanes >= barrier.expected;
  return arrived >= std::count_if(block.warps.begin(), block.warps.end(),
                                  [](const Warp& warp) { return warp.live() != 0; });
}

void BarrierSet::Complete(Barrier& barrier, Block& block, std::vector<WarpState>& states) {
  const auto number = static_cast<int>(&barrier - barriers_.data());
  // A warp that has exited has arrived for good, where the barrier is all warps'.
  std::vector<int> arrived = barrier.arrived;
  for (size_t i = 0; barrier.expected == 0 && i < states.size(); ++i) {
    if (states[i] == WarpState::kExited) arrived.push_back(static_cast<int>(i));
  }
  block.shared.OnBarrier(arrived, barrier.waiting, number);
  for (const int index : barrier.waiting) {
    Warp& warp = block.warps[static_cast<size_t>(index)];
    const Code& code = BarrierOf(warp);
    if (code.instruction->results > 0) {
      WriteResult(warp, code, barrier.all, barrier.any, barrier.count);
    }
    PassBarrier(warp);
    states[static_cast<size_t>(index)] = WarpState::kRunning;
  }
  barrier = Barrier();
}

bool BarrierSet::Arrive(Warp& warp, Block& block, std::vector<WarpState>& states) {
  const Code& code = BarrierOf(warp);
  const BarrierRows rows = RowsOf(*code.instruction);
  const uint32_t number = FirstValue(warp, code, rows.number);
  if (number >= barriers_.size()) {
    warp.Report(code, ProblemKind::kDeadlock, warp.live(), 0,
                absl::StrFormat("there is no barrier %d; a block has 16", number));
    return false;
  }
  Barrier& barrier = barriers_[number];
  const int64_t expected = rows.threads < 0 ? 0 : FirstValue(warp, code, rows.threads);
  if (expected % kLanes != 0) {
    warp.Report(code, ProblemKind::kDeadlock, warp.live(), 0,
                absl::StrFormat("barrier %d for %d threads; it must be a multiple of %d", number,
                                expected, kLanes));
    return false;
  }
  if (!barrier.arrived.empty() && barrier.expected != expected) {
    warp.Report(code, ProblemKind::kDeadlock, warp.live(), 0,
                absl::StrFormat("barrier %d is used with %d threads and with %d at the same time",
                                number, barrier.expected, expected));
    return false;
  }
  barrier.expected = expected;
  barrier.arrived.push_back(warp.index);
  if (rows.predicate >= 0) {
    const auto last = static_cast<size_t>(rows.predicate);
    const Mask value = warp.PredicateOperand(code, last, last) & warp.live();
    barrier.all = barrier.all && value == warp.live();
    barrier.any = barrier.any || value != 0;
    barrier.count += static_cast<uint32_t>(std::popcount(value));
  }
  if (code.instruction->mode == Mode::kArrive) {
    block.shared.OnArrive(warp.index, static_cast<int>(number));
    PassBarrier(warp);
    states[static_cast<size_t>(warp.index)] = WarpState::kRunning;
  } else {
    barrier.waiting.push_back(warp.index);
  }
  if (IsComplete(barrier, block)) Complete(barrier, block, states);
  return true;
}

void BarrierSet::Exit(Block& block, std::vector<WarpState>& states) {
  for (Barrier& barrier : barriers_) {
    if (IsComplete(barrier, block)) Complete(barrier, block, states);
  }
}

bool BarrierSet::CheckAllLeft(Block& block, const std::vector<WarpState>& states) const {
  for (size_t number = 0; number < barriers_.size(); ++number) {
    const Barrier& barrier = barriers_[number];
    if (barrier.waiting.empty()) continue;
    Warp& first = block.warps[static_cast<size_t>(barrier.waiting.front())];
    std::vector<int> others;
    for (size_t i = 0; i < states.size(); ++i) {
      const bool waits_here =
          std::count(barrier.waiting.begin(), barrier.waiting.end(), static_cast<int>(i)) > 0;
      if (states[i] == WarpState::kBarrier && !waits_here) others.push_back(static_cast<int>(i));
    }
    first.Report(BarrierOf(first), ProblemKind::kDeadlock, first.live(), 0,
                 absl::StrFormat("warps %s wait at barrier %d for ever%s",
                                 absl::StrJoin(barrier.waiting, ", "), number,
                                 others.empty() ? "; the others have exited"
                                                : absl::StrFormat("; warps %s wait at other ones",
                                                                  absl::StrJoin(others, ", "))));
    return false;
  }
  return true;
}

}  // namespace duotone::emulator
