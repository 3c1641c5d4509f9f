#include "ir/suggest.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "ir/lexer.h"
#include "llvm/ADT/StringRef.h"

namespace duotone::ir {

std::string DidYouMean(std::string_view name, llvm::ArrayRef<std::string_view> candidates) {
  constexpr size_t kLongest = 64;  // longer names are not compared: the cost is their product
  if (name.size() > kLongest) return "";
  const unsigned allowed = static_cast<unsigned>(std::max<size_t>(1, name.size() / 3));
  unsigned best = allowed + 1;
  std::string_view nearest;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    if (name.size() >= 3 && candidate.substr(0, name.size()) == name) {
      nearest = candidate;
      break;
    }
    const unsigned distance = llvm::StringRef(name).edit_distance(
        candidate, /*AllowReplacements=*/true, /*MaxEditDistance=*/allowed);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? "" : absl::StrFormat("; did you mean '%s'?", Shown(nearest));
}

}  // namespace duotone::ir
