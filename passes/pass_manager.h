// Runs a list of passes over a module, and alone does what all of them need: skipping, stopping,
// bisecting, dumping, timing, statistics, and verification before the first and after every pass.
// Passes contain none of it.
//
// After a pass that says true nothing else is run behind the user's back: no hidden dce. What a
// pass leaves without readers stays visible in its dump, and the pipeline (passes/pipeline.h) says
// where dce stands and why.
#ifndef DUOTONE_PASSES_PASS_MANAGER_H_
#define DUOTONE_PASSES_PASS_MANAGER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/pass.h"
#include "passes/pipeline.h"

namespace duotone::passes {

// One dump: the module's text around execution `index` (from 0) of a pass.
struct Dump {
  enum class When { kBefore, kAfter };
  int index = 0;
  std::string_view pass;
  When when = When::kAfter;
  bool changed = false;  // kAfter: what the pass said
  std::string_view text;
};
// Where dumps go; the views live as long as the call.
using DumpSink = std::function<void(const Dump&)>;

struct PassManagerOptions {
  // Passes that are left out, by name. A name that is not in the list of passes is an error.
  std::vector<std::string> skip;
  // The last pass that is run, by name; empty: all are.
  std::string stop_after;
  // Only the first so many executions are run, the later ones are left out: halving this number
  // finds the pass that breaks a program. Skipped passes are not counted.
  int64_t bisect_limit = std::numeric_limits<int64_t>::max();

  // What is dumped. "*" stands for every pass; on_change means after a pass that said true.
  DumpSink sink;
  std::vector<std::string> dump_before;
  std::vector<std::string> dump_after;
  bool dump_on_change = false;

  bool verify = true;
};

struct PassRun {
  enum class Outcome { kRun, kSkipped, kBeyondBisectLimit, kStopped };
  std::string pass;
  Outcome outcome = Outcome::kRun;
  bool changed = false;
  double ms = 0;  // the pass alone, without verification and dumps
  std::map<std::string, int64_t> stats;
  std::vector<std::string> notes;  // PassContext::Note
  int64_t nodes_before = 0;        // computing nodes of all graphs
  int64_t nodes_after = 0;
};

struct PassReport {
  std::vector<PassRun> runs;          // one per pass of the list, in its order
  std::vector<std::string> warnings;  // "pass optimizer: w3 has no gradient and keeps its value"

  bool changed() const;
  // A table for people: pass, changed, ms, nodes, statistics.
  std::string ToString() const;
};

class PassManager {
 public:
  explicit PassManager(PassManagerOptions options = {}) : options_(std::move(options)) {}

  // Runs the passes in order. An error is prefixed "pass autodiff: ..."; the module then holds what
  // that pass left.
  absl::StatusOr<PassReport> Run(const PassList& passes, ir::Module& module) const;

 private:
  absl::Status CheckOptions(const PassList& passes) const;

  PassManagerOptions options_;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_PASS_MANAGER_H_
