// Loads, stores and atomics of shared memory; what its other instructions (matrix_ops.cc,
// async_ops.cc) share with them: bounds, reports, bank conflicts.
#include "runtime/emulator/shared_ops.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "runtime/emulator/atomic.h"

namespace duotone::emulator {
namespace {

using Offsets = std::array<uint64_t, kLanes>;

// ---- Reports

int Thread(int warp, int lane) { return warp * kLanes + lane; }

// "(PTX line 40)", or nothing where the line is not known.
std::string LineOf(const Warp& warp, int32_t code) {
  const std::vector<Code>& codes = warp.block->launch->executable->codes;
  if (code < 0 || static_cast<size_t>(code) >= codes.size()) return "";
  const Instruction* instruction = codes[static_cast<size_t>(code)].instruction;
  return instruction == nullptr ? "" : absl::StrFormat(" (PTX line %d)", instruction->line);
}

std::string RaceText(const Warp& warp, std::string_view verb, const SharedFinding& race) {
  const int self = Thread(warp.index, race.lane), other = Thread(race.other_warp, race.other_lane);
  if (race.same_instruction) {
    return absl::StrFormat(
        "threads %d and %d write different values to shared offset 0x%x in one instruction", other,
        self, race.offset);
  }
  const char* did = race.other == SharedAccess::kRead    ? "read"
                    : race.other == SharedAccess::kWrite ? "written"
                                                         : "updated atomically";
  const bool same_warp = race.other_warp == warp.index;
  return absl::StrFormat("thread %d %s shared offset 0x%x, which thread %d of %s warp has %s%s%s",
                         self, verb, race.offset, other, same_warp ? "the same" : "another", did,
                         LineOf(warp, race.other_code),
                         same_warp ? " without a barrier or bar.warp.sync since"
                                   : " without a barrier between the two since");
}

// ---- Rows

template <typename T>
T LoadAs(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// The lanes' values at bytes + offset, extended to the width of the register.
template <typename Memory, typename Register>
void Gather(Register* row, const uint8_t* bytes, const Offsets& offsets, uint64_t skip, Mask mask) {
  for (Mask left = mask; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    row[i] = static_cast<Register>(LoadAs<Memory>(bytes + offsets[i] + skip));
  }
}

template <typename Memory>
void GatherTo(Warp& warp, uint32_t row, int register_bytes, const Offsets& offsets, uint64_t skip,
              Mask mask) {
  const uint8_t* bytes = warp.block->shared.bytes();
  // Signed types of the memory sign-extend, whatever the register's own type.
  using Wide = std::conditional_t<std::is_signed_v<Memory>, int64_t, uint64_t>;
  using Word = std::conditional_t<std::is_signed_v<Memory>, int32_t, uint32_t>;
  using Half = std::conditional_t<std::is_signed_v<Memory>, int16_t, uint16_t>;
  using Byte = std::conditional_t<std::is_signed_v<Memory>, int8_t, uint8_t>;
  switch (register_bytes) {
    case 1:
      return Gather<Memory>(warp.Row<Byte>(row), bytes, offsets, skip, mask);
    case 2:
      return Gather<Memory>(warp.Row<Half>(row), bytes, offsets, skip, mask);
    case 4:
      return Gather<Memory>(warp.Row<Word>(row), bytes, offsets, skip, mask);
    default:
      return Gather<Memory>(warp.Row<Wide>(row), bytes, offsets, skip, mask);
  }
}

void LoadRow(Warp& warp, Type type, uint32_t row, int register_bytes, const Offsets& offsets,
             uint64_t skip, Mask mask) {
  const bool is_signed = IsSigned(type);
  switch (TypeBytes(type)) {
    case 1:
      return is_signed ? GatherTo<int8_t>(warp, row, register_bytes, offsets, skip, mask)
                       : GatherTo<uint8_t>(warp, row, register_bytes, offsets, skip, mask);
    case 2:
      return is_signed ? GatherTo<int16_t>(warp, row, register_bytes, offsets, skip, mask)
                       : GatherTo<uint16_t>(warp, row, register_bytes, offsets, skip, mask);
    case 4:
      return is_signed ? GatherTo<int32_t>(warp, row, register_bytes, offsets, skip, mask)
                       : GatherTo<uint32_t>(warp, row, register_bytes, offsets, skip, mask);
    case 8:
      return GatherTo<uint64_t>(warp, row, register_bytes, offsets, skip, mask);
    default: {  // .b128
      const uint8_t* bytes = warp.block->shared.bytes();
      for (Mask left = mask; left != 0; left &= left - 1) {
        const int i = std::countr_zero(left);
        std::memcpy(warp.Row<uint8_t>(row) + 16 * i, bytes + offsets[i] + skip, 16);
      }
    }
  }
}

void ZeroRow(Warp& warp, uint32_t row, int register_bytes, Mask mask) {
  for (Mask left = mask; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    std::memset(warp.Row<uint8_t>(row) + i * register_bytes, 0,
                static_cast<size_t>(register_bytes));
  }
}

// Copies the low bytes of a row's lanes to to + lane * stride.
template <int kBytes>
void SpreadLanes(const uint8_t* row, int register_bytes, uint8_t* to, int stride, Mask mask) {
  if (mask == kAllLanes) {
    for (int i = 0; i < kLanes; ++i) std::memcpy(to + i * stride, row + i * register_bytes, kBytes);
    return;
  }
  for (Mask left = mask; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    std::memcpy(to + i * stride, row + i * register_bytes, kBytes);
  }
}

void SpreadRow(Warp& warp, uint32_t row, int bytes, int register_bytes, uint8_t* to, int stride,
               Mask mask) {
  const uint8_t* from = warp.Row<uint8_t>(row);
  switch (bytes) {
    case 1:
      return SpreadLanes<1>(from, register_bytes, to, stride, mask);
    case 2:
      return SpreadLanes<2>(from, register_bytes, to, stride, mask);
    case 4:
      return SpreadLanes<4>(from, register_bytes, to, stride, mask);
    case 8:
      return SpreadLanes<8>(from, register_bytes, to, stride, mask);
    default:
      return SpreadLanes<16>(from, register_bytes, to, stride, mask);
  }
}

uint64_t ValueOf(Warp& warp, uint32_t row, int bytes, int lane) {
  uint64_t value = 0;
  std::memcpy(&value, warp.Row<uint8_t>(row) + lane * bytes, static_cast<size_t>(bytes));
  return value;
}

// ---- Banks

constexpr int kBanks = 32;

// The most distinct words that one bank holds of the phase's.
int PhaseWays(const uint64_t* offsets, Mask lanes, int words) {
  std::array<uint64_t, kLanes> first;
  std::array<uint64_t, kLanes> asked;  // the distinct words that are not the first of their bank
  size_t others = 0;
  uint32_t used = 0;
  for (Mask left = lanes; left != 0; left &= left - 1) {
    for (int i = 0; i < words; ++i) {
      const uint64_t word = offsets[std::countr_zero(left)] / 4 + static_cast<uint64_t>(i);
      const auto bank = word % kBanks;
      if ((used >> bank & 1) == 0) {
        used |= 1u << bank;
        first[bank] = word;
      } else if (first[bank] != word &&
                 std::find(asked.begin(), asked.begin() + others, word) == asked.begin() + others) {
        asked[others++] = word;
      }
    }
  }
  std::array<int, kBanks> ways = {};
  int most = 1;
  for (size_t i = 0; i < others; ++i) most = std::max(most, ++ways[asked[i] % kBanks] + 1);
  return most;
}

// ---- Loads and stores

void RunLoad(Warp& warp, const Code& code, Mask mask) {
  SharedLoad(warp, code, mask, SharedOffsets(warp, code, code.instruction->vector));
}

void RunStore(Warp& warp, const Code& code, Mask mask) {
  SharedStore(warp, code, mask, SharedOffsets(warp, code, 0));
}

void RunAtomic(Warp& warp, const Code& code, Mask mask) {
  SharedAtomic(warp, code, mask, SharedOffsets(warp, code, code.instruction->results));
}

SharedRequest RequestOf(const Warp& warp, const Code& code, Mask mask, int bytes,
                        const Offsets& offsets, bool is_strong) {
  return {.warp = warp.index,
          .code = code.index,
          .lanes = mask,
          .bytes = bytes,
          .offsets = offsets.data(),
          .is_strong = is_strong};
}

}  // namespace

Offsets SharedOffsets(Warp& warp, const Code& code, int operand_row) {
  Offsets offsets = warp.Addresses(code, operand_row);
  if (code.address_bytes == 4) {
    for (uint64_t& offset : offsets) offset &= 0xffffffffu;
  }
  return offsets;
}

Mask AccessibleLanes(Warp& warp, const Code& code, Mask mask, const Offsets& offsets, int bytes,
                     std::string_view verb) {
  const auto step = static_cast<uint64_t>(bytes);
  const auto size = static_cast<uint64_t>(warp.block->shared.size());
  const uint64_t end = size < step ? 0 : size - step + 1;  // offsets below are within bounds
  uint64_t unaligned = 0;
  bool outside = false;
  for (int i = 0; i < kLanes; ++i) {
    unaligned |= offsets[i] & (step - 1);
    outside |= offsets[i] >= end;
  }
  if (!outside && unaligned == 0) return mask;
  Mask beyond = 0, misaligned = 0;
  for (Mask left = mask; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    if (offsets[i] >= end) {
      beyond |= Mask{1} << i;
    } else if ((offsets[i] & (step - 1)) != 0) {
      misaligned |= Mask{1} << i;
    }
  }
  if (beyond != 0) {
    const int lane = std::countr_zero(beyond);
    warp.Report(code, ProblemKind::kOutOfBounds, beyond, offsets[lane],
                absl::StrFormat("thread %d %s %d bytes at shared offset 0x%x; the block has %d "
                                "bytes of shared memory",
                                Thread(warp.index, lane), verb, bytes, offsets[lane], size));
  }
  if (misaligned != 0) {
    const int lane = std::countr_zero(misaligned);
    warp.Report(code, ProblemKind::kMisaligned, misaligned, offsets[lane],
                absl::StrFormat("thread %d %s %d bytes at shared offset 0x%x, which is no multiple "
                                "of %d",
                                Thread(warp.index, lane), verb, bytes, offsets[lane], bytes));
  }
  return mask & ~(beyond | misaligned);
}

void ReportFindings(Warp& warp, const Code& code, std::string_view verb,
                    const SharedFindings& findings) {
  if (const SharedFinding& found = findings.uninitialised; found.lanes != 0) {
    warp.Report(code, ProblemKind::kUninitialised, found.lanes, found.offset,
                absl::StrFormat("thread %d %s shared offset 0x%x, which the block has not written",
                                Thread(warp.index, found.lane), verb, found.offset));
  }
  if (const SharedFinding& found = findings.pending; found.lanes != 0) {
    warp.Report(code, ProblemKind::kMissingWait, found.lanes, found.offset,
                absl::StrFormat("thread %d %s shared offset 0x%x, to which a cp.async of thread "
                                "%d%s still copies: it has not been waited for",
                                Thread(warp.index, found.lane), verb, found.offset,
                                Thread(found.other_warp, found.other_lane),
                                LineOf(warp, found.other_code)));
  }
  if (findings.race.lanes != 0) {
    warp.Report(code, ProblemKind::kSharedRace, findings.race.lanes, findings.race.offset,
                RaceText(warp, verb, findings.race));
  }
}

void ReportFinding(Warp& warp, const Code& code, const CopyFinding& finding) {
  if (finding.lanes == 0) return;
  warp.Report(code, ProblemKind::kMissingWait, finding.lanes, 0,
              absl::StrFormat("thread %d waits for a cp.async%s whose source has been overwritten "
                              "since it began",
                              Thread(warp.index, std::countr_zero(finding.lanes)),
                              LineOf(warp, finding.code)));
}

BankWays CountWays(Mask mask, const uint64_t* offsets, int bytes) {
  const int words = std::max(1, bytes / 4);
  const int phase_lanes = kLanes / words;
  const Mask phase_mask = phase_lanes == kLanes ? kAllLanes : (Mask{1} << phase_lanes) - 1;
  BankWays result;
  for (int first = 0; first < kLanes; first += phase_lanes) {
    const Mask lanes = mask & phase_mask << first;
    if (lanes == 0) continue;
    ++result.ideal;
    // Words that are all within a stretch of 32 lie in banks of their own.
    uint64_t least = ~uint64_t{0}, most = 0;
    for (int i = first; i < first + phase_lanes; ++i) {
      const bool is_asked = (lanes >> i & 1) != 0;
      least = is_asked && offsets[i] < least ? offsets[i] : least;
      most = is_asked && offsets[i] > most ? offsets[i] : most;
    }
    const bool is_narrow = most / 4 + static_cast<uint64_t>(words) - least / 4 <= kBanks;
    result.ways += is_narrow ? 1 : PhaseWays(offsets, lanes, words);
  }
  return result;
}

void CountSharedAccess(Warp& warp, const Code& code, Mask mask, const uint64_t* offsets,
                       int bytes) {
  InstructionCounters* counters = warp.CountersOf(code);
  if (counters == nullptr || mask == 0) return;
  const BankWays ways = CountWays(mask, offsets, bytes);
  ++counters->shared_requests;
  counters->shared_ways += ways.ways;
  counters->ideal_shared_ways += ways.ideal;
  counters->bytes += int64_t{bytes} * (mask == kAllLanes ? kLanes : std::popcount(mask));
}

void SharedLoad(Warp& warp, const Code& code, Mask mask, const Offsets& offsets) {
  const Instruction& instruction = *code.instruction;
  const int element_bytes = TypeBytes(instruction.type);
  const int bytes = element_bytes * instruction.vector;
  const Mask lanes = AccessibleLanes(warp, code, mask, offsets, bytes, "reads");
  SharedMemory& shared = warp.block->shared;
  if (shared.checked() && lanes != 0) {
    SharedFindings findings;
    shared.Read(RequestOf(warp, code, lanes, bytes, offsets, instruction.is_volatile), findings);
    if (findings.any()) ReportFindings(warp, code, "reads", findings);
  }
  CountSharedAccess(warp, code, lanes, offsets.data(), bytes);
  const OperandGroup& results = instruction.operands[0];
  for (int i = 0; i < instruction.vector; ++i) {
    const uint32_t row = code.row[static_cast<size_t>(i)];
    if (row == kNoRow) continue;
    const int register_bytes = RowBytes(results[static_cast<size_t>(i)]);
    const uint64_t skip = static_cast<uint64_t>(i) * static_cast<uint64_t>(element_bytes);
    if (lanes == kAllLanes && element_bytes == 4 && register_bytes == 4) {
      uint32_t* to = warp.Row<uint32_t>(row);
      const uint8_t* from = shared.bytes() + skip;
      for (int lane = 0; lane < kLanes; ++lane) to[lane] = LoadAs<uint32_t>(from + offsets[lane]);
      continue;
    }
    LoadRow(warp, instruction.type, row, register_bytes, offsets, skip, lanes);
    if (lanes != mask) ZeroRow(warp, row, register_bytes, mask & ~lanes);
  }
}

void SharedStore(Warp& warp, const Code& code, Mask mask, const Offsets& offsets) {
  const Instruction& instruction = *code.instruction;
  const int element_bytes = TypeBytes(instruction.type);
  const int bytes = element_bytes * instruction.vector;
  const Mask lanes = AccessibleLanes(warp, code, mask, offsets, bytes, "writes");
  if (lanes == 0) return;
  CountSharedAccess(warp, code, lanes, offsets.data(), bytes);
  // A scalar of the register's width lies in its row as the memory wants it.
  const int register_bytes = RowBytes(instruction.operands[1][0]);
  const bool in_place = instruction.vector == 1 && register_bytes == element_bytes;
  alignas(64) std::array<uint8_t, 16 * kLanes> spread;
  if (!in_place) {
    for (int i = 0; i < instruction.vector; ++i) {
      SpreadRow(warp, code.row[1 + static_cast<size_t>(i)], element_bytes,
                RowBytes(instruction.operands[1][static_cast<size_t>(i)]),
                spread.data() + i * element_bytes, bytes, lanes);
    }
  }
  const uint8_t* values = in_place ? warp.Row<uint8_t>(code.row[1]) : spread.data();
  SharedMemory& shared = warp.block->shared;
  if (shared.checked()) {
    SharedFindings findings;
    shared.Write(RequestOf(warp, code, lanes, bytes, offsets, instruction.is_volatile), values,
                 bytes, findings);
    if (findings.any()) ReportFindings(warp, code, "writes", findings);
    return;
  }
  uint8_t* to = shared.bytes();
  if (bytes == 4) {
    for (Mask left = lanes; left != 0; left &= left - 1) {
      const int i = std::countr_zero(left);
      std::memcpy(to + offsets[i], values + 4 * i, 4);
    }
    return;
  }
  for (Mask left = lanes; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    std::memcpy(to + offsets[i], values + bytes * i, static_cast<size_t>(bytes));
  }
}

void SharedAtomic(Warp& warp, const Code& code, Mask mask, const Offsets& offsets) {
  const Instruction& instruction = *code.instruction;
  const int bytes = TypeBytes(instruction.type);
  const Mask lanes = AccessibleLanes(warp, code, mask, offsets, bytes, "updates");
  SharedMemory& shared = warp.block->shared;
  const auto has_result = static_cast<size_t>(instruction.results);
  const bool uses_result = has_result != 0 && code.row[0] != kNoRow;
  if (shared.checked() && lanes != 0) {
    SharedFindings findings;
    shared.Atomic(RequestOf(warp, code, lanes, bytes, offsets, /*is_strong=*/uses_result),
                  /*uses_old_value=*/instruction.mode != Mode::kExch, findings);
    if (findings.any()) ReportFindings(warp, code, "updates", findings);
  }
  if (lanes != 0) ReportFloatAtomic(warp, code, lanes, offsets[std::countr_zero(lanes)]);
  CountSharedAccess(warp, code, lanes, offsets.data(), bytes);
  const AtomicFunction update = FindAtomic(instruction.mode, instruction.type, /*flush=*/false);
  const uint32_t operand = code.row[has_result + 1];
  const uint32_t third = instruction.mode == Mode::kCas ? code.row[has_result + 2] : kNoRow;
  // A result may overwrite an operand of its own lane only, after that was read.
  const bool reversed = warp.block->launch->options->schedule == Schedule::kAdversarial;
  for (int i = 0; i < kLanes; ++i) {
    const int lane = reversed ? kLanes - 1 - i : i;
    if ((lanes >> lane & 1) == 0) continue;
    uint8_t* at = shared.bytes() + offsets[lane];
    uint64_t old = 0;
    std::memcpy(&old, at, static_cast<size_t>(bytes));
    const uint64_t b = ValueOf(warp, operand, bytes, lane);
    const uint64_t c = third == kNoRow ? 0 : ValueOf(warp, third, bytes, lane);
    const uint64_t updated = update(old, b, c);
    std::memcpy(at, &updated, static_cast<size_t>(bytes));
    if (uses_result) {
      std::memcpy(warp.Row<uint8_t>(code.row[0]) + lane * bytes, &old, static_cast<size_t>(bytes));
    }
  }
  if (uses_result && lanes != mask) ZeroRow(warp, code.row[0], bytes, mask & ~lanes);
}

Handler FindSharedHandler(const Instruction& instruction, const HandlerOptions&) {
  if (Handler handler = FindMatrixHandler(instruction)) return handler;
  if (Handler handler = FindAsyncHandler(instruction)) return handler;
  if (instruction.space != Space::kShared) return nullptr;
  switch (instruction.op) {
    case Op::kLd:
      return RunLoad;
    case Op::kSt:
      return RunStore;
    case Op::kAtom:
    case Op::kRed:
      return FindAtomic(instruction.mode, instruction.type, false) ? RunAtomic : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator
