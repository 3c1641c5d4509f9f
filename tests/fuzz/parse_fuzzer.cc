// libFuzzer's entry: aborts where the property of parse_property.h does not hold.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "parse_property.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const duotone::ir::PropertyResult result = duotone::ir::CheckParseProperty(text);
  if (!result.violation.empty()) {
    std::fprintf(stderr, "%s\n", result.violation.c_str());
    std::abort();
  }
  return 0;
}
