#include "runtime/emulator/counter_report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/kernel.h"

namespace duotone::emulator {
namespace {

bool IsMufu(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kCos:
    case Op::kEx2:
    case Op::kLg2:
    case Op::kRcp:
    case Op::kRsqrt:
    case Op::kSin:
    case Op::kSqrt:
    case Op::kTanh:
      return true;
    case Op::kDiv:
      return IsFloat(instruction.type);
    case Op::kCvt:
      // f32 to f32 rounds to an integer, which is a conversion too.
      return IsFloat(instruction.type) || IsFloat(instruction.source_type);
    default:
      return false;
  }
}

Unit MemoryUnit(Space space) {
  switch (space) {
    case Space::kShared:
      return Unit::kShared;
    case Space::kParam:
      return Unit::kControl;
    default:
      return Unit::kGlobal;
  }
}

Unit ArithmeticUnit(Type type) {
  switch (type) {
    case Type::kF32:
      return Unit::kFp32;
    case Type::kF64:
      return Unit::kFp64;
    case Type::kF16:
    case Type::kF16x2:
    case Type::kBf16:
    case Type::kBf16x2:
      return Unit::kHalf;
    default:
      return Unit::kInteger;
  }
}

std::string Table(const std::vector<CounterRow>& rows) {
  std::string text =
      "    executed  lanes     sectors/request         ways/request       bytes  PTX line\n";
  for (const CounterRow& row : rows) {
    const InstructionCounters& c = row.counters;
    if (c.executions == 0) continue;
    std::string sectors = "-", ways = "-";
    if (c.requests > 0) {
      const double requests = static_cast<double>(c.requests);
      sectors = absl::StrFormat("%.2f (ideal %.2f)", static_cast<double>(c.sectors) / requests,
                                static_cast<double>(c.ideal_sectors) / requests);
    }
    if (c.shared_requests > 0) {
      const double requests = static_cast<double>(c.shared_requests);
      ways = absl::StrFormat("%.2f (ideal %.2f)", static_cast<double>(c.shared_ways) / requests,
                             static_cast<double>(c.ideal_shared_ways) / requests);
    }
    absl::StrAppendFormat(&text, "%12d %6.1f %19s %20s %11d  %5d: %s\n", c.executions,
                          static_cast<double>(c.lanes) / static_cast<double>(c.executions), sectors,
                          ways, c.bytes, row.line, row.place);
  }
  return text;
}

}  // namespace

std::string_view UnitName(Unit unit) {
  constexpr std::string_view kNames[] = {"fp32",   "fp64",   "half",   "integer", "mufu",
                                         "tensor", "global", "shared", "barrier", "control"};
  return kNames[static_cast<int>(unit)];
}

Unit UnitOf(const Instruction& instruction) {
  if (IsMufu(instruction)) return Unit::kMufu;
  switch (instruction.op) {
    case Op::kMma:
      return Unit::kTensor;
    case Op::kLdmatrix:
    case Op::kStmatrix:
      return Unit::kShared;
    case Op::kLd:
    case Op::kSt:
    case Op::kAtom:
    case Op::kRed:
      return MemoryUnit(instruction.space);
    case Op::kCpAsync:
    case Op::kPrefetch:
      return Unit::kGlobal;
    case Op::kBar:
      return Unit::kBarrier;
    case Op::kBra:
    case Op::kCall:
    case Op::kRet:
    case Op::kExit:
    case Op::kTrap:
    case Op::kMov:
    case Op::kShfl:
    case Op::kVote:
    case Op::kMatch:
    case Op::kActivemask:
    case Op::kNanosleep:
    case Op::kFence:
    case Op::kMembar:
    case Op::kCvta:
    case Op::kCpAsyncCommitGroup:
    case Op::kCpAsyncWaitAll:
    case Op::kCpAsyncWaitGroup:
      return Unit::kControl;
    case Op::kSelp:
    case Op::kSetp:
    case Op::kSet:
      return Unit::kInteger;
    default:
      return ArithmeticUnit(instruction.type);
  }
}

std::string PlaceOf(const PtxModule& module, const runtime::LaunchNote* note,
                    const Instruction& instruction) {
  const auto file = static_cast<size_t>(instruction.source_file);
  if (file == 0 || file >= module.files.size()) return "";
  const std::string& name = module.files[file];
  const std::string_view base = std::string_view(name).substr(name.find_last_of('/') + 1);
  if (base == runtime::kNoLabelFile) return "";
  if (base == runtime::kLabelFile && note != nullptr && note->launch != nullptr) {
    const std::vector<std::string>& labels = note->launch->labels;
    const auto label = static_cast<size_t>(instruction.source_line) - 1;
    if (label < labels.size()) return labels[label];
  }
  return absl::StrFormat("%s:%d", base, instruction.source_line);
}

std::vector<CounterRow> CountersByPlace(const LaunchRecord& record) {
  std::map<std::string, size_t> index;
  std::vector<CounterRow> rows;
  for (size_t i = 0; i < record.counters.size(); ++i) {
    const Instruction& instruction = *record.kernel->codes[i].instruction;
    std::string place = PlaceOf(record.module->ptx, record.note.get(), instruction);
    if (place.empty()) place = "(no place in the model)";
    const auto [found, is_new] = index.try_emplace(place, rows.size());
    if (is_new) rows.push_back({.place = place, .line = instruction.line});
    rows[found->second].counters.Add(record.counters[i]);
  }
  return rows;
}

std::vector<CounterRow> CountersByInstruction(const LaunchRecord& record) {
  std::vector<CounterRow> rows;
  for (size_t i = 0; i < record.counters.size(); ++i) {
    const Instruction& instruction = *record.kernel->codes[i].instruction;
    rows.push_back({.place = record.module->ptx.TextOf(instruction),
                    .line = instruction.line,
                    .counters = record.counters[i]});
  }
  return rows;
}

runtime::CountedWork WorkOf(const LaunchRecord& record) {
  runtime::CountedWork work;
  const double share = 1.0 / static_cast<double>(std::max<int64_t>(1, record.launches));
  const auto add = [&](double& to, int64_t count) { to += share * static_cast<double>(count); };
  if (record.bytes_read >= 0 && record.bytes_written >= 0) {
    work.bytes_read = share * static_cast<double>(record.bytes_read);
    work.bytes_written = share * static_cast<double>(record.bytes_written);
  }
  for (size_t i = 0; i < record.counters.size(); ++i) {
    const InstructionCounters& c = record.counters[i];
    add(work.instructions, c.executions);
    add(work.lanes, c.lanes);
    add(work.requests, c.requests);
    add(work.sectors, c.sectors);
    add(work.ideal_sectors, c.ideal_sectors);
    add(work.shared_requests, c.shared_requests);
    add(work.shared_ways, c.shared_ways);
    add(work.ideal_shared_ways, c.ideal_shared_ways);
    add(work.tensor_flops, c.flops);
    switch (UnitOf(*record.kernel->codes[i].instruction)) {
      case Unit::kFp32:
      case Unit::kHalf:
        add(work.fp32, c.executions);
        break;
      case Unit::kInteger:
        add(work.integer, c.executions);
        break;
      case Unit::kMufu:
        add(work.mufu, c.executions);
        break;
      case Unit::kBarrier:
        add(work.barriers, c.executions);
        break;
      default:
        break;
    }
  }
  return work;
}

std::string ToText(const LaunchRecord& record, bool by_instruction) {
  std::map<Unit, int64_t> units;
  for (size_t i = 0; i < record.counters.size(); ++i) {
    units[UnitOf(*record.kernel->codes[i].instruction)] += record.counters[i].executions;
  }
  const bool has_node = record.note != nullptr && record.note->launch != nullptr;
  std::string text = absl::StrFormat(
      "%s: %d launches of %dx%dx%d blocks of %dx%dx%d threads, %d warp instructions\n",
      KernelText(record.kernel->name, has_node ? record.note->launch->node : ""), record.launches,
      record.grid[0], record.grid[1], record.grid[2], record.block[0], record.block[1],
      record.block[2], record.instructions);
  if (record.counters.empty()) return text;
  text += " ";
  for (const auto& [unit, count] : units) {
    if (count > 0) absl::StrAppendFormat(&text, " %s %d", UnitName(unit), count);
  }
  absl::StrAppend(&text, "\n", Table(CountersByPlace(record)));
  if (by_instruction) absl::StrAppend(&text, "\n", Table(CountersByInstruction(record)));
  return text;
}

}  // namespace duotone::emulator
