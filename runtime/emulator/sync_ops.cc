// What lanes of a warp do together: shfl, vote, match, redux, activemask; and reading clocks.
//
// PTX ISA 8.5, 9.7.9.6 (shfl.sync), 9.7.13.8 (vote.sync), 9.7.13.9 (match.sync), 9.7.13.10
// (activemask), 9.7.13.11 (redux.sync). The executor has brought the lanes together.
#include <bit>
#include <chrono>

#include "absl/strings/str_format.h"
#include "runtime/emulator/atomic.h"
#include "runtime/emulator/lane_loops.h"

namespace duotone::emulator {
namespace {

// Results that have been computed from rows which d may be one of.
void WriteLanes(Warp& warp, uint32_t row, Mask mask, const uint32_t* values) {
  if (row == kNoRow) return;
  ForLanes(warp.Row<uint32_t>(row), mask, [=](int lane) { return values[lane]; });
}

// ---- shfl d|p, a, b, c, members

struct Source {
  int lane = 0;
  bool valid = false;
};

// From which lane a lane takes its value; c packs a clamp (bits 0 to 4) and a segment mask (8 to
// 12).
template <Mode kMode>
Source SourceOf(int lane, uint32_t b, uint32_t c) {
  const int bval = static_cast<int>(b & 31), cval = static_cast<int>(c & 31);
  const int mask = static_cast<int>(c >> 8 & 31);
  const int max_lane = (lane & mask) | (cval & ~mask & 31);
  const int min_lane = lane & mask;
  switch (kMode) {
    case Mode::kUp:
      return {lane - bval, lane - bval >= max_lane};
    case Mode::kDown:
      return {lane + bval, lane + bval <= max_lane};
    case Mode::kBfly:
      return {lane ^ bval, (lane ^ bval) <= max_lane};
    default: {
      const int from = min_lane | (bval & ~mask & 31);
      return {from, from <= max_lane};
    }
  }
}

// PTX ISA 8.5, 9.7.9.6: where the source lane is not active or not in the member mask, "the value
// read is undefined".
void ReportAbsent(Warp& warp, const Code& code, Mask absent, int from) {
  if (!warp.block->launch->options->checks) return;
  const int lane = std::countr_zero(absent);
  const uint32_t members = warp.Row<uint32_t>(code.row[5])[lane];
  warp.Report(
      code, ProblemKind::kAbsentLane, absent, 0,
      absl::StrFormat("lane %d takes its value from lane %d, which %s; the value is undefined",
                      lane, from,
                      (members >> from & 1) == 0 ? absl::StrFormat("its member mask 0x%08x does "
                                                                   "not name",
                                                                   members)
                                                 : "does not execute the instruction"));
}

template <Mode kMode>
void Shuffle(Warp& warp, const Code& code, Mask mask) {
  uint32_t values[kLanes];
  const uint32_t* a = warp.Row<uint32_t>(code.row[2]);
  const uint32_t* b = warp.Row<uint32_t>(code.row[3]);
  const uint32_t* c = warp.Row<uint32_t>(code.row[4]);
  const uint32_t* members = warp.Row<uint32_t>(code.row[5]);
  Mask valid = 0, absent = 0;
  int absent_source = 0;  // of the first such lane
  for (int lane = 0; lane < kLanes; ++lane) {
    const Source source = SourceOf<kMode>(lane, b[lane], c[lane]);
    const int from = source.valid ? source.lane : lane;
    values[lane] = a[from];
    valid |= static_cast<Mask>(source.valid) << lane;
    if (from == lane || ((members[lane] & mask) >> from & 1) != 0) continue;
    values[lane] = 0;
    if ((mask >> lane & 1) == 0) continue;
    if (absent == 0) absent_source = from;
    absent |= Mask{1} << lane;
  }
  if (absent != 0) ReportAbsent(warp, code, absent, absent_source);
  WriteLanes(warp, code.row[0], mask, values);
  warp.SetPredicate(code.row[1], mask, valid);
}

// ---- vote d, p, members

void Vote(Warp& warp, const Code& code, Mask mask) {
  const Mask value = warp.PredicateOperand(code, 1, 1);
  const uint32_t* members = warp.Row<uint32_t>(code.row[2]);
  Mask result = 0;
  uint32_t ballots[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const Mask group = members[lane] & mask;
    ballots[lane] = value & group;
    bool holds = false;
    switch (code.instruction->mode) {
      case Mode::kAll:
        holds = (value & group) == group;
        break;
      case Mode::kAny:
        holds = (value & group) != 0;
        break;
      case Mode::kUni:
        holds = (value & group) == group || (value & group) == 0;
        break;
      default:
        break;
    }
    result |= static_cast<Mask>(holds) << lane;
  }
  if (code.instruction->mode == Mode::kBallot) {
    WriteLanes(warp, code.row[0], mask, ballots);
  } else {
    warp.SetPredicate(code.row[0], mask, result);
  }
}

// ---- match d|p, a, members

template <typename T>
void Match(Warp& warp, const Code& code, Mask mask) {
  const T* a = warp.Row<T>(code.row[2]);
  const uint32_t* members = warp.Row<uint32_t>(code.row[3]);
  uint32_t equal[kLanes] = {};
  Mask all = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const Mask group = members[lane] & mask;
    for (int other = 0; other < kLanes; ++other) {
      if ((group >> other & 1) != 0 && a[other] == a[lane]) equal[lane] |= Mask{1} << other;
    }
    if (equal[lane] == group) all |= Mask{1} << lane;
    if (code.instruction->mode == Mode::kAll && equal[lane] != group) equal[lane] = 0;
  }
  WriteLanes(warp, code.row[0], mask, equal);
  warp.SetPredicate(code.row[1], mask, all);
}

// ---- redux d, a, members

void Reduce(Warp& warp, const Code& code, Mask mask) {
  const uint32_t* a = warp.Row<uint32_t>(code.row[1]);
  const uint32_t* members = warp.Row<uint32_t>(code.row[2]);
  // What atom would make of the values, one after the other.
  const AtomicFunction combine = FindAtomic(code.instruction->mode, code.instruction->type, false);
  uint32_t results[kLanes] = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    Mask group = members[lane] & mask;
    if ((mask >> lane & 1) == 0 || group == 0) continue;
    uint64_t value = a[std::countr_zero(group)];
    for (group &= group - 1; group != 0; group &= group - 1) {
      value = combine(value, a[std::countr_zero(group)], 0);
    }
    results[lane] = static_cast<uint32_t>(value);
  }
  WriteLanes(warp, code.row[0], mask, results);
}

// ---- activemask d; mov d, %clock

void ActiveMask(Warp& warp, const Code& code, Mask mask) {
  ForLanes(warp.Row<uint32_t>(code.row[0]), mask, [=](int) { return mask; });
}

// Clocks count the warp's instructions, so that runs are repeatable; the timer is the host's.
void ReadClock(Warp& warp, const Code& code, Mask mask) {
  uint64_t value = static_cast<uint64_t>(warp.executed);
  switch (code.instruction->operands[1].front().special) {
    case Special::kClockHi:
      value >>= 32;
      break;
    case Special::kGlobaltimer:
      value = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
      break;
    default:
      break;
  }
  if (TypeBytes(code.instruction->type) == 8) {
    ForLanes(warp.Row<uint64_t>(code.row[0]), mask, [=](int) { return value; });
  } else {
    ForLanes(warp.Row<uint32_t>(code.row[0]), mask,
             [=](int) { return static_cast<uint32_t>(value); });
  }
}

Handler FindShuffle(Mode mode) {
  switch (mode) {
    case Mode::kUp:
      return Shuffle<Mode::kUp>;
    case Mode::kDown:
      return Shuffle<Mode::kDown>;
    case Mode::kBfly:
      return Shuffle<Mode::kBfly>;
    default:
      return Shuffle<Mode::kIdx>;
  }
}

bool ReadsClock(const Instruction& instruction) {
  if (instruction.op != Op::kMov || instruction.operands.size() != 2) return false;
  const Operand& from = instruction.operands[1].front();
  if (from.kind != Operand::Kind::kSpecial) return false;
  return from.special == Special::kClock || from.special == Special::kClockHi ||
         from.special == Special::kClock64 || from.special == Special::kGlobaltimer;
}

}  // namespace

Handler FindSyncHandler(const Instruction& instruction, const HandlerOptions&) {
  switch (instruction.op) {
    case Op::kShfl:
      return FindShuffle(instruction.mode);
    case Op::kVote:
      return Vote;
    case Op::kMatch:
      return TypeBytes(instruction.type) == 8 ? Match<uint64_t> : Match<uint32_t>;
    case Op::kRedux:
      return FindAtomic(instruction.mode, instruction.type, false) == nullptr ? nullptr : Reduce;
    case Op::kActivemask:
      return ActiveMask;
    case Op::kMov:
      return ReadsClock(instruction) ? ReadClock : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator
