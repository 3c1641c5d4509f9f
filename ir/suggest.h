// "; did you mean 'matmul'?": the nearest known name, for messages about misspelt ones.
#ifndef DUOTONE_IR_SUGGEST_H_
#define DUOTONE_IR_SUGGEST_H_

#include <string>
#include <string_view>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

namespace duotone::ir {

// The end of a sentence, or "" if no candidate begins with the name or is within a third of its
// length in edits.
std::string DidYouMean(std::string_view name, llvm::ArrayRef<std::string_view> candidates);

// The same over `range`, of whose elements `name_of` gives the name.
template <typename Range, typename NameOf>
std::string DidYouMean(std::string_view name, const Range& range, NameOf name_of) {
  std::vector<std::string_view> candidates;
  for (const auto& element : range) candidates.push_back(name_of(element));
  return DidYouMean(name, llvm::ArrayRef<std::string_view>(candidates));
}

}  // namespace duotone::ir

#endif  // DUOTONE_IR_SUGGEST_H_
