#include "runtime/emulator/counter_report.h"

#include <algorithm>
#include <map>
#include <utility>

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

// "-" for what an instruction has not to do with.
std::string Number(int64_t number) { return number == 0 ? "-" : absl::StrCat(number); }

std::string PerRequest(int64_t count, int64_t ideal, int64_t requests) {
  if (requests == 0) return "-";
  const auto all = static_cast<double>(requests);
  return absl::StrFormat("%.2f (ideal %.2f)", static_cast<double>(count) / all,
                         static_cast<double>(ideal) / all);
}

// Rows that no warp has come to are left out.
std::string Table(const std::vector<CounterRow>& rows) {
  std::string text =
      "instructions    skipped  lanes     sectors/request        ways/request       bytes"
      "      mufu  barriers  tensor FLOPs  PTX line\n";
  for (const CounterRow& row : rows) {
    const InstructionCounters& c = row.counters;
    if (c.issued() == 0) continue;
    const std::string lanes = c.executions == 0
                                  ? "-"
                                  : absl::StrFormat("%.1f", static_cast<double>(c.lanes) /
                                                                static_cast<double>(c.executions));
    absl::StrAppendFormat(
        &text, "%12d %10s %6s %19s %19s %11s %9s %9s %13s  %5d: %s\n", c.issued(),
        Number(c.skipped), lanes, PerRequest(c.sectors, c.ideal_sectors, c.requests),
        PerRequest(c.shared_ways, c.ideal_shared_ways, c.shared_requests), Number(c.bytes),
        Number(row.of(Unit::kMufu)), Number(row.of(Unit::kBarrier)), Number(c.flops), row.line,
        row.instruction.empty() ? row.place : row.instruction);
  }
  return text;
}

// Where an instruction comes from, or what the rows of those are called that come from nowhere:
// foreign PTX has no model.
std::string PlaceInReport(const LaunchRecord& record, const Instruction& instruction) {
  std::string place = PlaceOf(record.module->ptx, record.note.get(), instruction);
  if (!place.empty()) return place;
  const bool has_model = record.note != nullptr && record.note->launch != nullptr;
  return has_model ? "(no place in the model)" : "(no line of the source)";
}

// True for the return that stands behind each function: most PTX has one of its own there.
bool IsMadeReturn(const Executable& kernel, const Instruction& instruction) {
  return instruction.op == Op::kRet &&
         std::any_of(kernel.made.begin(), kernel.made.end(),
                     [&](const auto& made) { return made.get() == &instruction; });
}

// "1 launch", "3 launches".
std::string LaunchesText(int64_t launches) {
  return absl::StrFormat("%d launch%s", launches, launches == 1 ? "" : "es");
}

}  // namespace

std::string_view UnitName(Unit unit) {
  constexpr std::string_view kNames[kUnits] = {"fp32",   "fp64",   "half",   "integer", "mufu",
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

std::vector<CounterRow> CountersByInstruction(const LaunchRecord& record) {
  std::vector<CounterRow> rows;
  for (size_t i = 0; i < record.counters.size(); ++i) {
    const Instruction& instruction = *record.kernel->codes[i].instruction;
    if (record.counters[i].issued() == 0 && IsMadeReturn(*record.kernel, instruction)) continue;
    CounterRow row{.place = PlaceInReport(record, instruction),
                   .instruction = record.module->ptx.TextOf(instruction),
                   .line = instruction.line,
                   .counters = record.counters[i]};
    row.units[static_cast<size_t>(UnitOf(instruction))] = row.counters.executions;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<CounterRow> CountersByPlace(const LaunchRecord& record) {
  std::map<std::string, size_t> index;
  std::vector<CounterRow> rows;
  for (const CounterRow& instruction : CountersByInstruction(record)) {
    const auto [found, is_new] = index.try_emplace(instruction.place, rows.size());
    if (is_new) rows.push_back({.place = instruction.place, .line = instruction.line});
    CounterRow& row = rows[found->second];
    row.counters.Add(instruction.counters);
    for (size_t unit = 0; unit < kUnits; ++unit) row.units[unit] += instruction.units[unit];
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
  for (const CounterRow& row : CountersByPlace(record)) {
    const InstructionCounters& c = row.counters;
    add(work.instructions, c.issued());
    add(work.skipped, c.skipped);
    add(work.lanes, c.lanes);
    add(work.requests, c.requests);
    add(work.sectors, c.sectors);
    add(work.ideal_sectors, c.ideal_sectors);
    add(work.shared_requests, c.shared_requests);
    add(work.shared_ways, c.shared_ways);
    add(work.ideal_shared_ways, c.ideal_shared_ways);
    add(work.tensor_flops, c.flops);
    add(work.bytes_moved, c.bytes);
    add(work.fp32, row.of(Unit::kFp32) + row.of(Unit::kHalf));
    add(work.integer, row.of(Unit::kInteger));
    add(work.mufu, row.of(Unit::kMufu));
    add(work.barriers, row.of(Unit::kBarrier));
  }
  return work;
}

std::string ToText(const LaunchRecord& record, bool by_instruction) {
  const bool has_node = record.note != nullptr && record.note->launch != nullptr;
  std::string text =
      absl::StrFormat("%s: %s of %dx%dx%d blocks of %dx%dx%d threads, %d warp instructions\n",
                      KernelText(record.kernel->name, has_node ? record.note->launch->node : ""),
                      LaunchesText(record.launches), record.grid[0], record.grid[1], record.grid[2],
                      record.block[0], record.block[1], record.block[2], record.instructions);
  if (record.counters.empty()) return text;
  const std::vector<CounterRow> rows = CountersByPlace(record);
  CounterRow all;
  for (const CounterRow& row : rows) {
    all.counters.Add(row.counters);
    for (size_t unit = 0; unit < kUnits; ++unit) all.units[unit] += row.units[unit];
  }
  text += " ";
  for (size_t unit = 0; unit < kUnits; ++unit) {
    if (all.units[unit] == 0) continue;
    absl::StrAppendFormat(&text, " %s %d", UnitName(static_cast<Unit>(unit)), all.units[unit]);
  }
  if (all.counters.skipped > 0) {
    absl::StrAppendFormat(&text, "; %d skipped by their guards", all.counters.skipped);
  }
  absl::StrAppend(&text, "\n", Table(rows));
  if (by_instruction) absl::StrAppend(&text, "\n", Table(CountersByInstruction(record)));
  return text;
}

}  // namespace duotone::emulator
