// Whole files: read with a bound, written so that nobody ever sees half of one.
#ifndef DUOTONE_BASE_FILE_H_
#define DUOTONE_BASE_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace duotone {

// The bytes of `path`, or of the standard input for "-". An error names the file and the reason;
// more than `max_bytes` is one.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes = size_t{1} << 30);

// Writes a temporary file beside `path`, syncs it and renames it: afterwards `path` holds either
// all of `bytes` or what it held before. Missing folders are made. A device or pipe is written to,
// and of a symbolic link the file behind it is replaced.
absl::Status WriteFileAtomically(const std::string& path, std::string_view bytes);

}  // namespace duotone

#endif  // DUOTONE_BASE_FILE_H_
