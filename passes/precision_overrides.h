// The user's precision overrides, checked and ready to be asked for a node's.
#ifndef DUOTONE_PASSES_PRECISION_OVERRIDES_H_
#define DUOTONE_PASSES_PRECISION_OVERRIDES_H_

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "llvm/Support/Regex.h"
#include "passes/options.h"

namespace duotone::passes {

class PrecisionOverrides {
 public:
  // Errors: a pattern that does not compile, an op with two tones, an op that autocast never
  // touches, a tone that is none of allow, infer, clear and deny.
  static absl::StatusOr<PrecisionOverrides> Make(const AutocastOptions& options);

  // The override that decides the node's tone, as an index into AutocastOptions::overrides, or -1.
  // A pattern beats an op; of several patterns the last one that matches wins.
  int IndexFor(const ir::Node& node) const;

  // "op exp" or "pattern 'fc1/.*'".
  static std::string Describe(const PrecisionOverride& override_);

 private:
  PrecisionOverrides() { by_op_.fill(-1); }
  std::array<int, ir::kOpCount> by_op_;
  std::vector<std::pair<int, llvm::Regex>> patterns_;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_PRECISION_OVERRIDES_H_
