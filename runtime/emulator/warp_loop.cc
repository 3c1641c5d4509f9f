#include "runtime/emulator/warp_loop.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace duotone::emulator {
namespace {

constexpr int64_t kFragmentTurn = 4096;  // then another fragment of the warp has its turn
// So many instructions of parted lanes apart it is seen whether they wait for lanes at joins. Those
// that would come there anyway mostly have by then; where they have not, opening costs time only.
constexpr int64_t kPatience = 4096;
constexpr size_t kNobody = ~size_t{0};  // no fragment's index

Mask GuardOf(Warp& warp, const Code& code) {
  if (code.guard < 0) return kAllLanes;
  const Mask guard = warp.Predicate(static_cast<uint32_t>(code.guard));
  return code.guard_negated ? ~guard : guard;
}

// ---- Joins

int32_t NewJoin(Warp& warp, const Join& join) {
  for (size_t i = 0; i < warp.joins.size(); ++i) {
    if (warp.joins[i].expected == 0) {
      warp.joins[i] = join;
      return static_cast<int32_t>(i);
    }
  }
  warp.joins.push_back(join);
  return static_cast<int32_t>(warp.joins.size()) - 1;
}

void EnterJoin(const Warp& warp, Fragment& fragment, int32_t join) {
  fragment.join = join;
  fragment.join_pc = join < 0 ? -1 : warp.joins[join].pc;
}

// The lanes of a join that is complete go on as one fragment.
void Release(Warp& warp, int32_t index, const std::vector<int32_t>& returns) {
  Join& join = warp.joins[index];
  Fragment merged;
  merged.lanes = join.arrived;
  merged.pc = join.pc;
  merged.returns.assign(returns.begin(), returns.begin() + static_cast<int64_t>(join.depth));
  EnterJoin(warp, merged, join.outer);
  join.expected = join.arrived = 0;
  warp.fragments.push_back(std::move(merged));
}

// True if the fragment stands where it meets others: it is taken from the list, and goes on with
// them once all are there. The outermost of several joins at one place is reached in one go.
bool Arrive(Warp& warp, size_t index) {
  Fragment& fragment = warp.fragments[index];
  if (fragment.pc != fragment.join_pc) return false;
  const int32_t join_index = fragment.join;
  Join& join = warp.joins[join_index];
  if (join.depth != fragment.returns.size()) return false;
  join.arrived |= fragment.lanes;
  const std::vector<int32_t> returns = std::move(fragment.returns);
  warp.fragments.erase(warp.fragments.begin() + static_cast<int64_t>(index));
  if (join.arrived == join.expected) {
    Release(warp, join_index, returns);
    Arrive(warp, warp.fragments.size() - 1);
  }
  return true;
}

// Lanes that exit are expected nowhere any more; who waited for nobody else goes on.
void Exit(Warp& warp, size_t index, Mask lanes) {
  warp.exited |= lanes;
  Fragment& fragment = warp.fragments[index];
  fragment.lanes &= ~lanes;
  const std::vector<int32_t> returns = fragment.returns;
  const int32_t first = fragment.join;
  if (fragment.lanes == 0) {
    warp.fragments.erase(warp.fragments.begin() + static_cast<int64_t>(index));
  }
  for (int32_t i = first; i >= 0; i = warp.joins[i].outer) warp.joins[i].expected &= ~lanes;
  for (int32_t i = first; i >= 0; i = warp.joins[i].outer) {
    const Join& join = warp.joins[i];
    if (join.expected == 0) continue;  // nobody is left who could come here
    if (join.arrived == join.expected) {
      Release(warp, i, returns);
      Arrive(warp, warp.fragments.size() - 1);
    }
    return;
  }
}

// True if the fragment's lanes are on their way to the join, which may lie behind others.
bool LeadsTo(const Warp& warp, const Fragment& fragment, int32_t join) {
  int32_t i = fragment.join;
  while (i >= 0 && i != join) i = warp.joins[i].outer;
  return i == join;
}

// Lanes that wait at joins go on without the others, to the next join out. False if there are none.
bool OpenJoins(Warp& warp) {
  bool opened = false;
  for (size_t i = 0; i < warp.joins.size(); ++i) {
    Join& join = warp.joins[i];
    if (join.expected == 0 || join.arrived == 0) continue;
    const auto index = static_cast<int32_t>(i);
    // Whoever is still on the way is in the same calls.
    const auto other =
        std::find_if(warp.fragments.begin(), warp.fragments.end(),
                     [&](const Fragment& fragment) { return LeadsTo(warp, fragment, index); });
    if (other == warp.fragments.end()) continue;
    const std::vector<int32_t> returns = other->returns;
    const Mask others = join.expected & ~join.arrived;
    Release(warp, index, returns);
    join.expected = others;
    opened = true;
  }
  warp.joins_opened |= opened;
  return opened;
}

// Makes one of fragments that only differ in their lanes, as there are where lanes have left a join
// without the others.
void Merge(Warp& warp) {
  std::vector<Fragment>& fragments = warp.fragments;
  for (size_t i = 0; i < fragments.size(); ++i) {
    for (size_t k = fragments.size(); k-- > i + 1;) {
      const Fragment& other = fragments[k];
      if (other.pc != fragments[i].pc || other.state != fragments[i].state ||
          other.join != fragments[i].join || other.returns != fragments[i].returns) {
        continue;
      }
      fragments[i].lanes |= other.lanes;
      fragments.erase(fragments.begin() + static_cast<int64_t>(k));
    }
  }
}

// ---- Branches and calls

// The lanes of `taken` go to the branch's target, the others on.
void Diverge(Warp& warp, size_t index, const Code& code, Mask taken) {
  Fragment& fragment = warp.fragments[index];
  Join join{.pc = code.join,
            .outer = fragment.join,
            .expected = fragment.lanes,
            .arrived = 0,
            .depth = fragment.returns.size()};
  if (code.join < 0 && !fragment.returns.empty()) {
    // Both ways end with the function.
    join.pc = fragment.returns.back();
    --join.depth;
  }
  const bool has_join = join.pc >= 0;
  const bool same = has_join && fragment.join >= 0 && fragment.join_pc == join.pc &&
                    warp.joins[fragment.join].depth == join.depth;
  // In a loop each round's leavers go to the same place.
  if (has_join && !same) EnterJoin(warp, fragment, NewJoin(warp, join));
  Fragment other = fragment;
  fragment.lanes &= ~taken;
  ++fragment.pc;
  other.lanes = taken;
  other.pc = code.target;
  warp.fragments.push_back(std::move(other));
}

// ---- Instructions that lanes execute together

// The lanes of all fragments that stand at `pc`, waiting or (`self`) just come, and for which the
// instruction's guard is true.
Mask GatheredAt(Warp& warp, const Code& code, int32_t pc, size_t self) {
  Mask lanes = 0;
  for (size_t i = 0; i < warp.fragments.size(); ++i) {
    const Fragment& fragment = warp.fragments[i];
    const bool waits = fragment.state == Fragment::State::kMembers && fragment.pc == pc;
    if (waits || i == self) lanes |= fragment.lanes;
  }
  return lanes & GuardOf(warp, code);
}

// Those of `gathered` whose member lanes have all come, as far as they live. A lane that has to
// wait lets those wait that name it, and the rest of its fragment.
Mask ReadyLanes(Warp& warp, const Code& code, Mask gathered) {
  const Mask live = warp.live();
  if (gathered == live) return gathered;
  const uint32_t* members = warp.Row<uint32_t>(code.members);
  Mask ready = gathered;
  for (Mask before = 0; before != ready;) {
    before = ready;
    for (Mask rest = ready; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      if ((members[lane] & live & ~ready) != 0) ready &= ~(Mask{1} << lane);
    }
    for (const Fragment& fragment : warp.fragments) {
      if ((fragment.lanes & gathered & ~ready) != 0) ready &= ~fragment.lanes;
    }
  }
  return ready;
}

// Every lane must be in its member mask, and lanes that name each other must have the same one (PTX
// ISA 8.5, 9.7.9.6 and 9.7.13: "behavior is undefined" otherwise). Groups with a mask each may meet
// at one instruction.
void CheckMembers(Warp& warp, const Code& code, Mask mask) {
  const uint32_t* members = warp.Row<uint32_t>(code.members);
  const uint32_t first = members[std::countr_zero(mask)];
  Mask outside = 0, others = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    outside |= ~members[lane] & (Mask{1} << lane);
    others |= static_cast<Mask>(members[lane] != first) << lane;
  }
  outside &= mask;
  if (outside != 0) {
    warp.Report(code, ProblemKind::kDivergent, outside, 0,
                absl::StrFormat("lanes execute it that are not in their member mask 0x%08x",
                                members[std::countr_zero(outside)]));
  }
  if ((others & mask) == 0) return;
  for (Mask left = mask; left != 0;) {
    const uint32_t named = members[std::countr_zero(left)];
    Mask group = 0;  // the lanes with this mask
    for (int lane = 0; lane < kLanes; ++lane) {
      group |= static_cast<Mask>(members[lane] == named) << lane;
    }
    group &= mask;
    left &= ~group;
    const Mask strangers = named & mask & ~group;
    if (strangers == 0) continue;
    const int stranger = std::countr_zero(strangers);
    warp.Report(code, ProblemKind::kDivergent, group | strangers, 0,
                absl::StrFormat("lanes %s have the member mask 0x%08x, but lane %d, which it "
                                "names, has 0x%08x",
                                LanesText(group), named, stranger, members[stranger]));
    return;
  }
}

// Executes a kMembers instruction for the lanes at `pc` that are ready, and lets their fragments
// go on. `self` is the fragment that has come last, or kNobody: lanes that wait are looked at anew.
// False if `self` has to wait.
bool RunMembers(Warp& warp, const Code& code, int32_t pc, size_t self) {
  const Mask gathered = GatheredAt(warp, code, pc, self);
  const Mask ready = ReadyLanes(warp, code, gathered);
  if (ready != 0) {
    CheckMembers(warp, code, ready);
    if (code.run != nullptr) code.run(warp, code, ready);
    if (code.instruction->op == Op::kBarWarpSync) warp.block->shared.OnWarpSync(warp.index, ready);
  }
  bool goes_on = true;
  for (size_t i = 0; i < warp.fragments.size(); ++i) {
    Fragment& fragment = warp.fragments[i];
    const bool waits = fragment.state == Fragment::State::kMembers && fragment.pc == pc;
    if (!waits && i != self) continue;
    if ((fragment.lanes & gathered & ~ready) == 0) {
      fragment.state = Fragment::State::kRunning;
      ++fragment.pc;
    } else {
      fragment.state = Fragment::State::kMembers;
      if (i == self) goes_on = false;
    }
  }
  return goes_on;
}

// After lanes have exited: nobody waits for them any more.
void ResumeMembers(Warp& warp) {
  const Code* const codes = warp.block->launch->executable->codes.data();
  for (size_t i = 0; i < warp.fragments.size(); ++i) {
    Fragment& fragment = warp.fragments[i];
    if (fragment.state != Fragment::State::kMembers) continue;
    if (codes[fragment.pc].flow == Flow::kAligned) {
      if (fragment.lanes == warp.live()) fragment.state = Fragment::State::kRunning;
      continue;
    }
    RunMembers(warp, codes[fragment.pc], fragment.pc, kNobody);
  }
}

// "; lanes 16-31 have exited", or nothing.
std::string MissingText(Mask lanes, std::string_view why) {
  return lanes == 0 ? "" : absl::StrFormat("; lanes %s %s", LanesText(lanes), why);
}

void ReportUnaligned(Warp& warp, const Code& code, Mask mask) {
  warp.Report(code, ProblemKind::kDivergent, mask, 0,
              absl::StrCat("it needs all 32 lanes of the warp; ", WhereLanesAre(warp),
                           MissingText(warp.lanes & warp.exited, "have exited"),
                           MissingText(~warp.lanes, "are not in the block")));
}

// False if the fragment has to wait, or has become one with those that did.
bool RunAligned(Warp& warp, size_t index, const Code& code) {
  Fragment& fragment = warp.fragments[index];
  const Mask mask = fragment.lanes & GuardOf(warp, code);
  if (mask != 0 && warp.joins_opened && fragment.lanes != warp.live()) {
    // The others may have been left behind at a join, and yet come here.
    const int32_t pc = fragment.pc;
    fragment.state = Fragment::State::kMembers;
    Merge(warp);
    for (Fragment& merged : warp.fragments) {
      if (merged.pc == pc && merged.lanes == warp.live()) merged.state = Fragment::State::kRunning;
    }
    return false;
  }
  if (mask != 0 && mask != kAllLanes) ReportUnaligned(warp, code, mask);
  if (mask != 0) code.run(warp, code, mask);
  ++fragment.pc;
  return true;
}

// ---- The loop

void Count(Warp& warp, const Code& code, Mask mask) {
  InstructionCounters& counters = (*warp.block->counters)[static_cast<size_t>(code.index)];
  if (mask == 0) {
    ++counters.skipped;
    return;
  }
  ++counters.executions;
  counters.lanes += mask == kAllLanes ? kLanes : std::popcount(mask);
}

// Executes instructions of a fragment until it waits, ends, parts, or `limit` is used up.
template <bool kCounted>
void RunFragment(Warp& warp, size_t index, int64_t limit) {
  const Code* const codes = warp.block->launch->executable->codes.data();
  const int64_t end = warp.executed + limit;
  Mask lanes = warp.fragments[index].lanes;
  int32_t pc = warp.fragments[index].pc;
  int32_t join_pc = warp.fragments[index].join_pc;
  while (warp.executed < end) {
    const Code& code = codes[pc];
    Mask mask = lanes;
    if (code.guard >= 0) {
      const Mask guard = warp.Predicate(static_cast<uint32_t>(code.guard));
      mask &= code.guard_negated ? ~guard : guard;
    }
    ++warp.executed;
    if constexpr (kCounted) Count(warp, code, mask);
    if (code.flow == Flow::kNext) {
      if (mask != 0) code.run(warp, code, mask);
      ++pc;
      if (pc == join_pc) {
        warp.fragments[index].pc = pc;
        if (Arrive(warp, index)) return;
      }
      continue;
    }
    Fragment& fragment = warp.fragments[index];
    fragment.pc = pc;
    switch (code.flow) {
      case Flow::kBranch:
        if (mask == 0) {
          ++fragment.pc;
        } else if (mask == lanes) {
          fragment.pc = code.target;
        } else {
          Diverge(warp, index, code, mask);
          // Either way may begin at the join.
          Arrive(warp, warp.fragments.size() - 1);
          Arrive(warp, index);
          return;
        }
        break;
      case Flow::kCall:
        if (mask != 0 && mask != lanes) {
          Code branch = code;
          branch.join = pc + 1;
          Diverge(warp, index, branch, mask);
          warp.fragments.back().returns.push_back(pc + 1);
          Arrive(warp, index);
          return;
        }
        ++fragment.pc;
        if (mask != 0) {
          fragment.returns.push_back(fragment.pc);
          fragment.pc = code.target;
        }
        break;
      case Flow::kReturn:
        if (!fragment.returns.empty()) {
          if (mask != lanes && mask != 0) {
            Code branch = code;
            branch.join = -1;
            branch.target = fragment.returns.back();
            Diverge(warp, index, branch, mask);
            warp.fragments.back().returns.pop_back();
            Arrive(warp, warp.fragments.size() - 1);
            return;
          }
          ++fragment.pc;
          if (mask != 0) {
            fragment.pc = fragment.returns.back();
            fragment.returns.pop_back();
          }
          break;
        }
        [[fallthrough]];
      case Flow::kExit:
        ++fragment.pc;
        if (mask != 0) {
          Exit(warp, index, mask);
          return;
        }
        break;
      case Flow::kTrap:
        ++fragment.pc;
        if (mask != 0) {
          warp.Report(code, ProblemKind::kTrap, mask, 0, "the kernel traps");
          Exit(warp, index, mask);
          return;
        }
        break;
      case Flow::kBarrier:
        if (mask == 0) {
          ++fragment.pc;
          break;
        }
        if (mask != lanes && !code.instruction->aligned) {
          Code branch = code;
          branch.join = pc + 1;
          branch.target = pc;
          Diverge(warp, index, branch, mask);
          Arrive(warp, index);
          return;
        }
        if (mask != lanes) {
          warp.Report(code, ProblemKind::kDivergent, mask, 0,
                      "its guard is true for a part of the lanes; all of them wait");
        }
        fragment.state = Fragment::State::kBarrier;
        return;
      case Flow::kMembers:
        if (!RunMembers(warp, code, pc, index)) return;
        break;
      case Flow::kAligned:
        if (!RunAligned(warp, index, code)) return;
        break;
      case Flow::kPoll:
        ++fragment.pc;
        if (mask != 0) {
          code.run(warp, code, mask);
          warp.has_polled = true;
        }
        break;
      case Flow::kNext:
        break;
    }
    if (Arrive(warp, index)) return;
    pc = warp.fragments[index].pc;
    lanes = warp.fragments[index].lanes;
    join_pc = warp.fragments[index].join_pc;
  }
  warp.fragments[index].pc = pc;
}

// The last fragment that can run, so that what parted last comes together first; -1: none.
int FindRunnable(const Warp& warp) {
  for (size_t i = warp.fragments.size(); i-- > 0;) {
    if (warp.fragments[i].state == Fragment::State::kRunning) return static_cast<int>(i);
  }
  return -1;
}

// The lanes of a fragment wait for others that cannot come.
void ReportWaiting(Warp& warp, const Code& code, const Fragment& fragment) {
  if (code.flow == Flow::kAligned) return ReportUnaligned(warp, code, fragment.lanes);
  const Mask waiting = fragment.lanes & GuardOf(warp, code);
  const Mask members = warp.Row<uint32_t>(code.members)[std::countr_zero(waiting)];
  warp.Report(code, ProblemKind::kDivergent, waiting, 0,
              absl::StrCat(absl::StrFormat("they wait for ever for lanes %s of the member mask; ",
                                           LanesText(members & warp.live() & ~waiting)),
                           WhereLanesAre(warp),
                           MissingText(fragment.lanes & ~waiting, "have a false guard")));
}

// No fragment can run. Lanes at a member instruction wait in vain; at a barrier all must be: at the
// same one where it is .aligned.
WarpState StateWhenStuck(Warp& warp) {
  if (warp.live() == 0) return WarpState::kExited;
  if (warp.joins_opened) Merge(warp);
  Mask at_barrier = 0;
  bool aligned = false;
  for (const Fragment& fragment : warp.fragments) {
    const Code& code = CodeOf(warp, fragment);
    if (fragment.state == Fragment::State::kMembers) {
      ReportWaiting(warp, code, fragment);
      return WarpState::kFailed;
    }
    at_barrier |= fragment.lanes;
    aligned |= code.instruction->aligned;
  }
  const bool all = at_barrier == warp.live();
  if (all && (!aligned || warp.fragments.size() == 1)) return WarpState::kBarrier;
  // The lanes at joins may be on their way to the barrier.
  if (!aligned && OpenJoins(warp)) return WarpState::kRunning;
  const Fragment& first = warp.fragments.front();
  warp.Report(CodeOf(warp, first), ProblemKind::kDivergent, first.lanes, 0,
              absl::StrFormat("lanes of a warp wait at a barrier that the others do not reach; %s",
                              WhereLanesAre(warp)));
  return WarpState::kFailed;
}

}  // namespace

void StartWarp(Warp& warp) {
  warp.exited = 0;
  warp.executed = 0;
  warp.has_polled = warp.joins_opened = false;
  warp.next_look = kPatience;
  warp.carry = 0;
  warp.joins.clear();
  warp.fragments.resize(1);
  Fragment& all = warp.fragments.front();
  all.lanes = warp.lanes;
  all.pc = 0;
  all.join = all.join_pc = -1;
  all.state = Fragment::State::kRunning;
  all.returns.clear();
}

WarpState RunWarp(Warp& warp, int64_t limit) {
  const bool is_counted = warp.block->counters != nullptr;
  const int64_t end =
      limit > std::numeric_limits<int64_t>::max() - warp.executed ? limit : warp.executed + limit;
  int64_t turn_end = warp.executed + kFragmentTurn;
  while (warp.executed < end) {
    const int next = FindRunnable(warp);
    if (next < 0) {
      const WarpState state = StateWhenStuck(warp);
      if (state != WarpState::kRunning) return state;
      continue;
    }
    const auto index = static_cast<size_t>(next);
    // Another fragment's shuffle may have taken it to its join.
    if (Arrive(warp, index)) continue;
    const bool is_alone = warp.fragments[index].lanes == warp.live();
    const int64_t turn = (is_alone ? end : std::min(turn_end, end)) - warp.executed;
    const Mask exited = warp.exited;
    if (is_counted) {
      RunFragment<true>(warp, index, turn);
    } else {
      RunFragment<false>(warp, index, turn);
    }
    if (warp.exited != exited) ResumeMembers(warp);
    if (is_alone || warp.executed >= warp.next_look) {
      if (!is_alone && warp.has_polled) OpenJoins(warp);
      warp.has_polled = false;
      warp.next_look = warp.executed + kPatience;
    }
    // What runs for long may wait for what another fragment does, also where it parts and comes
    // together all the while: the others come first.
    if (warp.executed >= std::min(turn_end, end)) {
      turn_end = warp.executed + kFragmentTurn;
      const int last = FindRunnable(warp);
      if (last > 0) {
        std::rotate(warp.fragments.begin(), warp.fragments.begin() + last,
                    warp.fragments.begin() + last + 1);
      }
    }
  }
  return warp.live() == 0 ? WarpState::kExited : WarpState::kRunning;
}

const Code& CodeOf(const Warp& warp, const Fragment& fragment) {
  return warp.block->launch->executable->codes[static_cast<size_t>(fragment.pc)];
}

void PassBarrier(Warp& warp) {
  for (Fragment& fragment : warp.fragments) {
    fragment.state = Fragment::State::kRunning;
    ++fragment.pc;
  }
  // What stands at its join leaves the list, which changes the order.
  for (size_t i = warp.fragments.size(); i-- > 0;) Arrive(warp, i);
}

std::string WhereLanesAre(const Warp& warp) {
  const Launch& launch = *warp.block->launch;
  std::vector<std::string> places;
  const auto add = [&](Mask lanes, int32_t pc, std::string_view how) {
    const auto index = static_cast<size_t>(pc);
    if (index >= launch.executable->codes.size()) return;
    const Instruction& instruction = *launch.executable->codes[index].instruction;
    places.push_back(absl::StrFormat("lanes %s %s PTX line %d '%s'", LanesText(lanes), how,
                                     instruction.line, launch.module->TextOf(instruction)));
  };
  for (const Fragment& fragment : warp.fragments) add(fragment.lanes, fragment.pc, "are at");
  for (const Join& join : warp.joins) {
    if (join.arrived != 0) add(join.arrived, join.pc, "have come together before");
  }
  return absl::StrJoin(places, ", ");
}

}  // namespace duotone::emulator
