#include "parse_property.h"

#include "absl/strings/str_cat.h"
#include "ir/text.h"

namespace duotone::ir {

PropertyResult CheckParseProperty(std::string_view text) {
  const absl::StatusOr<std::unique_ptr<Module>> module = Parse(text, "input");
  if (!module.ok()) {
    const bool has_sentence = !module.status().message().empty();
    return {.parsed = false, .violation = has_sentence ? "" : "an error without a message"};
  }
  const std::string printed = Print(**module);
  const absl::StatusOr<std::unique_ptr<Module>> again = Parse(printed, "printed");
  if (!again.ok()) {
    return {true,
            absl::StrCat("the print does not parse: ", again.status().message(), "\n", printed)};
  }
  if (Print(**again) != printed) {
    return {true, absl::StrCat("two prints differ:\n", printed, "\n", Print(**again))};
  }
  if (Print(*(*module)->Clone()) != printed) {
    return {true, absl::StrCat("a clone prints differently:\n", printed)};
  }
  const absl::Status bare = Parse(Print(**module, {.attributes = false}), "bare").status();
  if (!bare.ok()) {
    return {true, absl::StrCat("the print without braces does not parse: ", bare.message())};
  }
  return {.parsed = true};
}

}  // namespace duotone::ir
