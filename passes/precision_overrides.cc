#include "passes/precision_overrides.h"

#include "absl/strings/str_format.h"
#include "base/status.h"

namespace duotone::passes {
namespace {

using ir::Tone;

// llvm::Regex, not std::regex: that one recurses with the depth of the pattern and the length of
// the text, and takes exponential time on some.
absl::StatusOr<llvm::Regex> CompilePattern(const std::string& pattern) {
  llvm::Regex regex(pattern);
  std::string error;
  if (!regex.isValid(error)) {
    return InvalidArgument("the pattern '%s' is no regular expression: %s", pattern, error);
  }
  return regex;
}

}  // namespace

absl::StatusOr<PrecisionOverrides> PrecisionOverrides::Make(const AutocastOptions& options) {
  PrecisionOverrides made;
  for (int i = 0; i < static_cast<int>(options.overrides.size()); ++i) {
    const PrecisionOverride& entry = options.overrides[i];
    if (entry.op.has_value() == !entry.pattern.empty()) {
      return InvalidArgument("autocast override %d: give either an op or a pattern", i);
    }
    const std::string what = Describe(entry);
    if (entry.tone == Tone::kUnset || entry.tone == Tone::kFixed) {
      return InvalidArgument(
          "autocast override of %s: the tone must be allow, infer, clear or deny, not %s", what,
          ir::ToneName(entry.tone));
    }
    if (!entry.op) {
      absl::StatusOr<llvm::Regex> pattern = CompilePattern(entry.pattern);
      DUOTONE_RETURN_IF_ERROR(pattern).With("autocast override %d", i);
      made.patterns_.emplace_back(i, *std::move(pattern));
      continue;
    }
    const ir::Precision& precision = ir::DefOf(*entry.op).precision;
    if (precision.f16 == Tone::kFixed && precision.bf16 == Tone::kFixed) {
      return InvalidArgument("autocast override of %s: autocast never touches this op (%s)", what,
                             precision.reason);
    }
    int& index = made.by_op_[static_cast<size_t>(*entry.op)];
    if (index >= 0 && options.overrides[index].tone != entry.tone) {
      return InvalidArgument("autocast: %s is in two lists, %s and %s", what,
                             ir::ToneName(options.overrides[index].tone), ir::ToneName(entry.tone));
    }
    index = i;
  }
  return made;
}

int PrecisionOverrides::IndexFor(const ir::Node& node) const {
  if (!patterns_.empty()) {
    const std::string& scope = node.info().scope;
    const std::string path =
        scope.empty() ? node.name() : absl::StrFormat("%s/%s", scope, node.name());
    for (auto it = patterns_.rbegin(); it != patterns_.rend(); ++it) {
      if (it->second.match(path)) return it->first;
    }
  }
  return by_op_[static_cast<size_t>(node.op())];
}

std::string PrecisionOverrides::Describe(const PrecisionOverride& override_) {
  if (override_.op) return absl::StrFormat("op %s", ir::OpName(*override_.op));
  return absl::StrFormat("pattern '%s'", override_.pattern);
}

}  // namespace duotone::passes
