// What holds for every text whatever: Parse returns, and what it accepts prints to a text that
// parses and prints the same.
#ifndef DUOTONE_TESTS_FUZZ_PARSE_PROPERTY_H_
#define DUOTONE_TESTS_FUZZ_PARSE_PROPERTY_H_

#include <string>
#include <string_view>

namespace duotone::ir {

struct PropertyResult {
  bool parsed = false;
  std::string violation;  // "" if the property holds
};

PropertyResult CheckParseProperty(std::string_view text);

}  // namespace duotone::ir

#endif  // DUOTONE_TESTS_FUZZ_PARSE_PROPERTY_H_
