// What emulated launches did, rolled up: by kernel, by line of the source or IR node, by
// instruction.
//
//   for (const auto& record : machine.records()) std::fputs(ToText(*record).c_str(), stdout);
#ifndef DUOTONE_RUNTIME_EMULATOR_COUNTER_REPORT_H_
#define DUOTONE_RUNTIME_EMULATOR_COUNTER_REPORT_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/kernel_report.h"
#include "runtime/emulator/counters.h"
#include "runtime/emulator/machine.h"

namespace duotone::emulator {

// Which unit of an SM an instruction occupies, as far as PTX tells: ptxas may make several machine
// instructions of one (an f32 division, a 64-bit multiplication).
enum class Unit : uint8_t {
  kFp32,
  kFp64,
  kHalf,     // f16 and bf16 arithmetic
  kInteger,  // also comparisons, selections and logic
  kMufu,     // approximations and conversions between types
  kTensor,
  kGlobal,  // also local and constant memory
  kShared,  // also ldmatrix
  kBarrier,
  kControl,  // branches, moves, shuffles, parameters
};
inline constexpr int kUnits = 10;
std::string_view UnitName(Unit unit);
Unit UnitOf(const Instruction& instruction);

// The counters of all launches of a record that stand at one place.
struct CounterRow {
  std::string place;        // a label or "file:line"; what it is called where there is none
  std::string instruction;  // its text; empty for a row of several
  int line = 0;             // of the PTX; of the first instruction where there are several
  InstructionCounters counters;
  std::array<int64_t, kUnits> units = {};  // executions by Unit

  int64_t of(Unit unit) const { return units[static_cast<size_t>(unit)]; }
};
// By source line or IR node, in the order in which they first stand in the PTX. Without line
// information one row.
std::vector<CounterRow> CountersByPlace(const LaunchRecord& record);
// Every instruction of the PTX.
std::vector<CounterRow> CountersByInstruction(const LaunchRecord& record);

// The average of the record's launches, for predictions of time.
runtime::CountedWork WorkOf(const LaunchRecord& record);

// A summary, and tables by place and, if wanted, by instruction.
std::string ToText(const LaunchRecord& record, bool by_instruction = false);

// Where an instruction comes from: the label of its line where the launch has labels, or
// "kernel.cu:12"; "" without line information.
std::string PlaceOf(const PtxModule& module, const runtime::LaunchNote* note,
                    const Instruction& instruction);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_COUNTER_REPORT_H_
