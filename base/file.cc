#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/status.h"

namespace duotone {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  // The result of close(2): the last chance to hear of a full disk.
  int Close() {
    const int result = fd_ > 2 ? close(fd_) : 0;
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

absl::Status Failed(std::string_view what, const std::string& path) {
  return FailedPrecondition("cannot %s %s: %s", what, path, std::strerror(errno));
}

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// What is no file (a device, a pipe) is written as it stands: replacing /dev/null would take it
// from the whole machine. So are the process's own streams, which others hold open.
absl::Status WriteInPlace(const std::string& path, std::string_view bytes) {
  FileDescriptor file(path == "/dev/stdout"   ? STDOUT_FILENO
                      : path == "/dev/stderr" ? STDERR_FILENO
                                              : open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) return Failed("write", path);
  DUOTONE_RETURN_IF_ERROR(WriteAll(file.get(), bytes, path));
  return file.Close() == 0 ? absl::OkStatus() : Failed("write", path);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  FileDescriptor file(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return NotFound("cannot open %s: %s", path, std::strerror(errno));
  std::string bytes;
  constexpr size_t kChunk = 1 << 16;
  for (;;) {
    const size_t before = bytes.size();
    bytes.resize(before + kChunk);
    const ssize_t got = read(file.get(), bytes.data() + before, kChunk);
    bytes.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path);
    if (got == 0) return bytes;
    if (bytes.size() > max_bytes)
      return ResourceExhausted("%s is larger than %d bytes", path, max_bytes);
  }
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  std::filesystem::path target(path);
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(target, error);
  if (path == "/dev/stdout" || path == "/dev/stderr" ||
      (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))) {
    return WriteInPlace(path, bytes);
  }
  // A symbolic link to a file stays: that file is replaced.
  if (std::filesystem::is_symlink(target, error)) {
    target = std::filesystem::weakly_canonical(target, error);
    if (error) return FailedPrecondition("cannot write %s: %s", path, error.message());
  }
  error.clear();
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  if (error) return FailedPrecondition("cannot make the folder of %s: %s", path, error.message());
  std::string temporary = target.string() + ".tmp.XXXXXX";
  FileDescriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return Failed("write", path);
  // mkostemp makes private files; the result gets the rights a plain open would have given.
  const mode_t mask = umask(0);
  umask(mask);
  absl::Status status = WriteAll(file.get(), bytes, path);
  if (status.ok() && fchmod(file.get(), 0666 & ~mask) != 0) status = Failed("write", path);
  if (status.ok() && fsync(file.get()) != 0) status = Failed("write", path);
  if (file.Close() != 0 && status.ok()) status = Failed("write", path);
  if (status.ok() && rename(temporary.c_str(), target.c_str()) != 0)
    status = Failed("replace", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace duotone
