#include "tools/emulator_json.h"

#include <cstdint>
#include <vector>

namespace duotone::tools {
namespace {

using Json = nlohmann::ordered_json;
using emulator::CounterRow;
using emulator::Problem;
using emulator::Unit;

Json ToJson(const Problem& problem) {
  return {{"kind", std::string(emulator::KindName(problem.kind))},
          {"severity", emulator::IsWarning(problem.kind) ? "warning" : "error"},
          {"text", problem.ToString()},
          {"what", problem.what},
          {"kernel", problem.kernel},
          {"node", problem.node},
          {"place", problem.place},
          {"line", problem.line},
          {"instruction", problem.text},
          {"block", problem.block},
          {"warp", problem.warp},
          {"lanes", problem.lanes},
          // Offsets in shared, local and parameter memory may be negative, and no address of device
          // memory has the highest bit.
          {"address", static_cast<int64_t>(problem.address)},
          {"count", problem.count}};
}

// The names are those of the sums (ToJson of CountedWork).
Json ToJson(const CounterRow& row) {
  Json json = {{"place", row.place}, {"line", row.line}};
  if (!row.instruction.empty()) json["instruction"] = row.instruction;
  const emulator::InstructionCounters& c = row.counters;
  json.update({{"instructions", c.issued()},
               {"skipped", c.skipped},
               {"lanes", c.lanes},
               {"fp32", row.of(Unit::kFp32) + row.of(Unit::kHalf)},
               {"integer", row.of(Unit::kInteger)},
               {"mufu", row.of(Unit::kMufu)},
               {"barriers", row.of(Unit::kBarrier)},
               {"requests", c.requests},
               {"sectors", c.sectors},
               {"ideal_sectors", c.ideal_sectors},
               {"shared_requests", c.shared_requests},
               {"shared_ways", c.shared_ways},
               {"ideal_shared_ways", c.ideal_shared_ways},
               {"tensor_flops", c.flops},
               {"bytes_moved", c.bytes}});
  return json;
}

Json ToJson(const std::vector<CounterRow>& rows) {
  Json json = Json::array();
  for (const CounterRow& row : rows) json.push_back(ToJson(row));
  return json;
}

}  // namespace

Json ToJson(const emulator::ProblemLog& problems) {
  Json json = Json::array();
  for (const Problem& problem : problems.problems()) json.push_back(ToJson(problem));
  return json;
}

void AddRows(const emulator::LaunchRecord& record, const std::string& counters, Json& counted) {
  counted["by_place"] = ToJson(emulator::CountersByPlace(record));
  if (counters == "instruction") {
    counted["by_instruction"] = ToJson(emulator::CountersByInstruction(record));
  }
}

}  // namespace duotone::tools
