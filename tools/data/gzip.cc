// Reading files that may be gzip-compressed, with zlib.
#include <sys/stat.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/status.h"
#include "tools/data/dataset.h"

namespace duotone::tools {

absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path, size_t max_bytes) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0)
    return NotFound("cannot open %s: %s", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return InvalidArgument("%s is not a regular file", path);
  // gzopen passes data that is not gzip through unchanged.
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) return NotFound("cannot open %s: %s", path, std::strerror(errno));
  std::string bytes;
  constexpr size_t kChunk = 1 << 20;
  for (;;) {
    const size_t before = bytes.size();
    bytes.resize(before + kChunk);
    const int got = gzread(file.get(), bytes.data() + before, kChunk);
    int code = Z_OK;
    const char* message = gzerror(file.get(), &code);
    if (got < 0 || code == Z_BUF_ERROR) {
      return InvalidArgument("%s is damaged or cut short after %d bytes: %s", path, before,
                             code == Z_ERRNO ? std::strerror(errno) : message);
    }
    bytes.resize(before + static_cast<size_t>(got));
    if (bytes.size() > max_bytes)
      return ResourceExhausted("%s unpacks to more than %d bytes", path, max_bytes);
    if (got == 0) break;
  }
  return bytes;
}

}  // namespace duotone::tools
