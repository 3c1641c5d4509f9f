// Problems and counters of the emulator as JSON.
#include "tools/emulator_json.h"

#include <gtest/gtest.h>

namespace duotone::tools {
namespace {

using emulator::Problem;
using emulator::ProblemKind;

TEST(EmulatorJson, HasAllThatIsKnownOfAProblem) {
  Problem problem;
  problem.kind = ProblemKind::kUninitialised;
  problem.what = "it is wrong";
  problem.kernel = "k3";
  problem.node = "h1";
  problem.place = "relu (mlp.cc:3, node %h1)";
  problem.line = 12;
  problem.text = "ld.local.u32 %r1, [%rd1];";
  problem.block = {1, 2, 3};
  problem.warp = 4;
  problem.lanes = 0x80000001;
  problem.address = ~uint64_t{3};  // four bytes before
  problem.count = 5;
  emulator::ProblemLog log;
  log.Add(problem);
  const auto wanted = nlohmann::ordered_json::parse(R"json([{
    "kind": "uninitialised read",
    "severity": "error",
    "text": "uninitialised read in the kernel of %h1, relu (mlp.cc:3, node %h1), PTX line 12 'ld.local.u32 %r1, [%rd1];', block (1, 2, 3), warp 4, lanes 0, 31: it is wrong (5 times)",
    "what": "it is wrong",
    "kernel": "k3",
    "node": "h1",
    "place": "relu (mlp.cc:3, node %h1)",
    "line": 12,
    "instruction": "ld.local.u32 %r1, [%rd1];",
    "block": [1, 2, 3],
    "warp": 4,
    "lanes": 2147483649,
    "address": -4,
    "count": 5
}])json");
  EXPECT_EQ(ToJson(log), wanted);
}

TEST(EmulatorJson, SaysWhichProblemsAreWarnings) {
  Problem problem;
  problem.kind = ProblemKind::kFloatAtomic;
  emulator::ProblemLog log;
  log.Add(problem);
  EXPECT_EQ(ToJson(log)[0]["severity"], "warning");
}

}  // namespace
}  // namespace duotone::tools
