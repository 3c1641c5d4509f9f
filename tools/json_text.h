// JSON as the tools write it.
#ifndef DUOTONE_TOOLS_JSON_TEXT_H_
#define DUOTONE_TOOLS_JSON_TEXT_H_

#include <string>

#include "nlohmann/json.hpp"

namespace duotone::tools {

// Indented by two, with a line break at the end. Bytes that are not UTF-8 (names in files of others
// may have them) become U+FFFD.
inline std::string JsonText(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_JSON_TEXT_H_
