// The report on compiled kernels as JSON, for scripts and for the tests that keep regressions out.
#ifndef DUOTONE_TOOLS_KERNEL_JSON_H_
#define DUOTONE_TOOLS_KERNEL_JSON_H_

#include "nlohmann/json.hpp"
#include "runtime/cuda/compiler.h"
#include "runtime/cuda/kernel_report.h"

namespace duotone::tools {

// {"schema": 1, "target": "sm_80", "kernels": [one object per launch], "step": {sums}, ...}.
nlohmann::ordered_json ToJson(const runtime::ProgramReport& report,
                              const runtime::CompileStatistics& statistics);

// What an emulated launch counted.
nlohmann::ordered_json ToJson(const runtime::CountedWork& counted);

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_KERNEL_JSON_H_
