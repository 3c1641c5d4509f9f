// What the emulator counted and what it found wrong as JSON, for `duotone kernels --json` and
// `duotone run-ptx --json`. docs/emulator.md has the names.
#ifndef DUOTONE_TOOLS_EMULATOR_JSON_H_
#define DUOTONE_TOOLS_EMULATOR_JSON_H_

#include <string>

#include "nlohmann/json.hpp"
#include "runtime/emulator/counter_report.h"
#include "runtime/emulator/machine.h"
#include "runtime/emulator/problem.h"

namespace duotone::tools {

// All that is known of each problem.
nlohmann::ordered_json ToJson(const emulator::ProblemLog& problems);

// Adds to what a launch counted in all (ToJson of CountedWork) the rows it is the sum of: by_place,
// and with `counters` = "instruction" by_instruction.
void AddRows(const emulator::LaunchRecord& record, const std::string& counters,
             nlohmann::ordered_json& counted);

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_EMULATOR_JSON_H_
