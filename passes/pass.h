// A pass is one const method that says whether it changed anything: true if and only if the text
// form differs, and running it twice says false the second time. It has no members but its options.
// Skipping, stopping, dumping, timing, statistics and verification are the pass manager's
// (passes/pass_manager.h), never a pass's.
#ifndef DUOTONE_PASSES_PASS_H_
#define DUOTONE_PASSES_PASS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace duotone::passes {

// What a pass may report beside its result.
class PassContext {
 public:
  // Counters by name: ctx.stats()["sunk"] += 1.
  std::map<std::string, int64_t>& stats() { return stats_; }
  const std::map<std::string, int64_t>& stats() const { return stats_; }
  // A sentence for the user that is no error: "w3 has no gradient and keeps its value".
  void Warn(std::string sentence) { warnings_.push_back(std::move(sentence)); }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // What is only said when asked for: a line about a decision, with its reason.
  void Note(std::string line) { notes_.push_back(std::move(line)); }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::map<std::string, int64_t> stats_;
  std::vector<std::string> warnings_;
  std::vector<std::string> notes_;
};

class Pass {
 public:
  virtual ~Pass() = default;
  virtual std::string_view name() const = 0;
  virtual absl::StatusOr<bool> Run(ir::Module& module, PassContext& ctx) const = 0;
};

// A pass that works on one graph at a time.
class GraphPass : public Pass {
 public:
  absl::StatusOr<bool> Run(ir::Module& module, PassContext& ctx) const final;
  virtual absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext& ctx) const = 0;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_PASS_H_
