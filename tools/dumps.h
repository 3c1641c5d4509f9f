// The files that --dump=... asks for, made from the compiled module's text.
#ifndef DUOTONE_TOOLS_DUMPS_H_
#define DUOTONE_TOOLS_DUMPS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "duotone/session.h"

namespace duotone::tools {

struct DumpKind {
  std::string_view name;  // --dump=NAME
  std::string_view file;  // in the dump folder; empty: stderr
  std::string_view doc;
  // The text to write; `batch` binds the models' first sizes.
  absl::StatusOr<std::string> (*make)(const TrainSession& session, int64_t batch);
};

// In the order of --help.
absl::Span<const DumpKind> DumpKinds();

// Writes the dump into `dir` (made if missing) and says where, or prints it to stderr.
absl::Status WriteDump(const DumpKind& kind, const TrainSession& session, int64_t batch,
                       const std::string& dir);

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_DUMPS_H_
