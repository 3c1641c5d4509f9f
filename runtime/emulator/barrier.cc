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

bool HasConstants(const Instruction& instruction, const BarrierRows& rows) {
  const auto is_constant = [&](int row) {
    return row < 0 ||
           instruction.operands[static_cast<size_t>(row)].front().kind == Operand::Kind::kImmediate;
  };
  return is_constant(rows.number) && is_constant(rows.threads);
}

// What a lane asks for.
struct Wish {
  uint32_t number = 0;
  int64_t threads = 0;  // 0: all of the block
  bool arrives = false, reduces = false;

  bool operator==(const Wish&) const = default;
};

Wish WishOf(Warp& warp, const Code& code, const BarrierRows& rows, int lane) {
  const auto value = [&](int row) {
    return warp.Row<uint32_t>(code.row[static_cast<size_t>(row)])[lane];
  };
  return {.number = value(rows.number),
          .threads = rows.threads < 0 ? 0 : value(rows.threads),
          .arrives = code.instruction->mode == Mode::kArrive,
          .reduces = rows.predicate >= 0};
}

// "barrier 1 (barrier.arrive, 64 threads)".
std::string WishText(const Wish& wish) {
  return absl::StrFormat(
      "barrier %d (barrier.%s, %s)", wish.number,
      wish.arrives   ? "arrive"
      : wish.reduces ? "red"
                     : "sync",
      wish.threads == 0 ? "all threads" : absl::StrFormat("%d threads", wish.threads));
}

// What all lanes of a warp in kBarrier ask for. False, reported, if they disagree: each would wait
// for the others at another barrier.
bool FindWish(Warp& warp, Wish& wish) {
  const Fragment& front = warp.fragments.front();
  const int first = std::countr_zero(front.lanes);
  const Code& first_code = CodeOf(warp, front);
  wish = WishOf(warp, first_code, RowsOf(*first_code.instruction), first);
  for (const Fragment& fragment : warp.fragments) {
    const Code& code = CodeOf(warp, fragment);
    const BarrierRows rows = RowsOf(*code.instruction);
    // Constants, as there mostly are, are the same in all lanes.
    const Mask lanes = HasConstants(*code.instruction, rows) ? fragment.lanes & (0 - fragment.lanes)
                                                             : fragment.lanes;
    for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      const Wish other = WishOf(warp, code, rows, lane);
      if (other == wish) continue;
      warp.Report(first_code, ProblemKind::kDivergent, warp.live(), 0,
                  absl::StrFormat("all lanes of a warp must come to one barrier in one way; lane "
                                  "%d is at %s, lane %d at %s",
                                  first, WishText(wish), lane, WishText(other)));
      return false;
    }
  }
  return true;
}

// The result of bar.red in lanes of a warp.
void WriteResult(Warp& warp, const Code& code, Mask lanes, bool all, bool any, uint32_t count) {
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
    for (const Fragment& fragment : warp.fragments) {
      if (!barrier.reduces) break;
      WriteResult(warp, CodeOf(warp, fragment), fragment.lanes, barrier.all, barrier.any,
                  barrier.count);
    }
    PassBarrier(warp);
    states[static_cast<size_t>(index)] = WarpState::kRunning;
  }
  barrier = Barrier();
}

bool BarrierSet::Arrive(Warp& warp, Block& block, std::vector<WarpState>& states) {
  Wish wish;
  if (!FindWish(warp, wish)) return false;
  const auto refuse = [&warp](const std::string& why) {
    warp.Report(CodeOf(warp, warp.fragments.front()), ProblemKind::kDeadlock, warp.live(), 0, why);
    return false;
  };
  if (wish.number >= barriers_.size()) {
    return refuse(absl::StrFormat("there is no barrier %d; a block has 16", wish.number));
  }
  if (wish.threads % kLanes != 0) {
    return refuse(absl::StrFormat("barrier %d for %d threads; it must be a multiple of %d",
                                  wish.number, wish.threads, kLanes));
  }
  if (wish.arrives && wish.threads == 0) {
    return refuse(absl::StrFormat(
        "arriving at barrier %d for 0 threads; their number must be given", wish.number));
  }
  Barrier& barrier = barriers_[wish.number];
  if (!barrier.arrived.empty() && barrier.expected != wish.threads) {
    return refuse(absl::StrFormat("barrier %d is used with %d threads and with %d at the same time",
                                  wish.number, barrier.expected, wish.threads));
  }
  if (!barrier.arrived.empty() && barrier.reduces != wish.reduces) {
    return refuse(absl::StrFormat(
        "barrier %d is used by barrier.red and by barrier.sync or .arrive at the same time",
        wish.number));
  }
  barrier.expected = wish.threads;
  barrier.reduces = wish.reduces;
  barrier.arrived.push_back(warp.index);
  for (const Fragment& fragment : warp.fragments) {
    if (!wish.reduces) break;
    const Code& code = CodeOf(warp, fragment);
    const auto last = static_cast<size_t>(RowsOf(*code.instruction).predicate);
    const Mask value = warp.PredicateOperand(code, last, last) & fragment.lanes;
    barrier.all = barrier.all && value == fragment.lanes;
    barrier.any = barrier.any || value != 0;
    barrier.count += static_cast<uint32_t>(std::popcount(value));
  }
  if (wish.arrives) {
    block.shared.OnArrive(warp.index, static_cast<int>(wish.number));
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
    bool has_exited = false;
    for (size_t i = 0; i < states.size(); ++i) {
      has_exited |= states[i] == WarpState::kExited;
      const bool waits_here =
          std::count(barrier.waiting.begin(), barrier.waiting.end(), static_cast<int>(i)) > 0;
      if (states[i] == WarpState::kBarrier && !waits_here) others.push_back(static_cast<int>(i));
    }
    const std::string why =
        !others.empty()
            ? absl::StrFormat("warps %s wait at other ones", absl::StrJoin(others, ", "))
        : has_exited ? "the others have exited"
                     : absl::StrFormat("it is for %d threads, and the block has no other warps",
                                       barrier.expected);
    first.Report(CodeOf(first, first.fragments.front()), ProblemKind::kDeadlock, first.live(), 0,
                 absl::StrFormat("warps %s wait at barrier %d for ever; %s",
                                 absl::StrJoin(barrier.waiting, ", "), number, why));
    return false;
  }
  return true;
}

}  // namespace duotone::emulator
