#include "runtime/cuda/kernel_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace duotone::runtime {
namespace {

constexpr std::string_view kMagic = "DUOKERN1";
constexpr std::string_view kExtension = ".kernel";
constexpr size_t kKeyDigits = 64;
constexpr size_t kSizes = kMagic.size() + sizeof(Sha256Digest);
constexpr size_t kChecksum = kSizes + 3 * sizeof(uint64_t);
constexpr size_t kHeader = kChecksum + sizeof(Sha256Digest);
// Far above any kernel's; a larger file is not one of ours.
constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;
// How many entries of ours may come between two looks at the folder.
constexpr int kInsertsBetweenScans = 64;
// A temporary file this old was left by a process that died.
constexpr time_t kStaleSeconds = 3600;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() { Close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }
  // The last chance to hear of a full disk.
  bool Close() {
    const bool ok = fd_ < 0 || close(fd_) == 0;
    fd_ = -1;
    return ok;
  }

 private:
  int fd_;
};

std::string_view BytesOf(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string Encode(const Sha256Digest& key, const CompiledKernel& compiled) {
  std::string bytes(kMagic);
  bytes += BytesOf(key);
  for (const std::string* part : {&compiled.cubin, &compiled.ptx, &compiled.log}) {
    const uint64_t size = part->size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  }
  Sha256 hash;
  hash.Update(bytes);
  for (const std::string* part : {&compiled.cubin, &compiled.ptx, &compiled.log}) {
    hash.Update(*part);
  }
  bytes += BytesOf(hash.Finish());
  return bytes + compiled.cubin + compiled.ptx + compiled.log;
}

std::optional<CompiledKernel> Decode(std::string_view bytes, const Sha256Digest& key) {
  if (bytes.size() < kHeader || !bytes.starts_with(kMagic) ||
      bytes.substr(kMagic.size(), sizeof(key)) != BytesOf(key)) {
    return std::nullopt;
  }
  std::array<uint64_t, 3> sizes;
  std::memcpy(sizes.data(), bytes.data() + kSizes, sizeof(sizes));
  std::string_view rest = bytes.substr(kHeader);
  Sha256 hash;
  hash.Update(bytes.substr(0, kChecksum));
  hash.Update(rest);
  if (bytes.substr(kChecksum, sizeof(Sha256Digest)) != BytesOf(hash.Finish())) return std::nullopt;
  CompiledKernel compiled;
  std::string* const parts[] = {&compiled.cubin, &compiled.ptx, &compiled.log};
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > rest.size()) return std::nullopt;
    *parts[i] = rest.substr(0, sizes[i]);
    rest.remove_prefix(sizes[i]);
  }
  return rest.empty() ? std::optional(std::move(compiled)) : std::nullopt;
}

// The bytes of an entry; nothing where there is none. Code comes from this user's files and those
// of root alone, and links are not followed.
enum class ReadResult { kRead, kMissing, kUnusable };
ReadResult ReadEntry(const std::string& path, std::string& bytes) {
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR || errno == EACCES;
    return missing ? ReadResult::kMissing : ReadResult::kUnusable;
  }
  struct stat status;
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size > kMaxEntryBytes || (status.st_uid != geteuid() && status.st_uid != 0)) {
    return ReadResult::kUnusable;
  }
  bytes.resize(static_cast<size_t>(status.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ReadResult::kUnusable;
    done += static_cast<size_t>(got);
  }
  // The time of change is the time of last use.
  (void)futimens(file.get(), nullptr);
  return ReadResult::kRead;
}

absl::Status Failed(std::string_view what, const std::string& path) {
  return FailedPrecondition("cannot %s %s: %s", what, path, std::strerror(errno));
}

// Makes `directory` and what is missing above it, private to the user.
absl::Status MakeDirectory(const std::string& directory) {
  for (size_t end = 1; end <= directory.size(); ++end) {
    if (end < directory.size() && directory[end] != '/') continue;
    const std::string part = directory.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && errno != EISDIR) {
      struct stat status;
      const int error = errno;
      // A folder above may be there and forbid everything but passing through.
      if (stat(part.c_str(), &status) == 0) continue;
      errno = error;
      return Failed("make the folder", part);
    }
  }
  return absl::OkStatus();
}

absl::Status WriteEntry(const std::string& path, std::string_view bytes) {
  std::string temporary = path + ".tmp.XXXXXX";
  File file(mkostemp(temporary.data(), O_CLOEXEC));  // 0600
  if (file.get() < 0) return Failed("write", path);
  absl::Status status;
  while (!bytes.empty() && status.ok()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      status = Failed("write", path);
    } else {
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }
  if (status.ok() && fsync(file.get()) != 0) status = Failed("write", path);
  if (!file.Close() && status.ok()) status = Failed("write", path);
  // Another process may have been first with the same entry: either will do.
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = Failed("replace", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

struct Entry {
  std::string path;
  int64_t bytes = 0;
  timespec used = {};
};

bool IsKey(std::string_view text) {
  return text.size() == kKeyDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The entries of the folder itself: no folder below it, no link, no file of another name. Removes
// what dead processes left.
std::vector<Entry> ScanEntries(const std::string& directory) {
  std::vector<Entry> entries;
  DIR* const folder = opendir(directory.c_str());
  if (folder == nullptr) return entries;
  const time_t now = time(nullptr);
  while (const dirent* const file = readdir(folder)) {
    const std::string_view name = file->d_name;
    if (!IsKey(name.substr(0, kKeyDigits))) continue;
    const std::string_view rest = name.substr(kKeyDigits);
    const bool is_entry = rest == kExtension;
    const bool is_temporary = rest.starts_with(".kernel.tmp.");
    struct stat status;
    if ((!is_entry && !is_temporary) ||
        fstatat(dirfd(folder), file->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode)) {
      continue;
    }
    Entry entry = {absl::StrFormat("%s/%s", directory, name), status.st_size, status.st_mtim};
    if (is_entry) {
      entries.push_back(std::move(entry));
    } else if (now - status.st_mtim.tv_sec > kStaleSeconds) {
      unlink(entry.path.c_str());
    }
  }
  closedir(folder);
  return entries;
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

KernelCacheOptions KernelCacheOptionsFromEnvironment() {
  KernelCacheOptions options;
  const std::string own = Environment("DUOTONE_CACHE_DIR");
  const std::string xdg = Environment("XDG_CACHE_HOME");
  const std::string home = Environment("HOME");
  if (!own.empty()) {
    options.directory = own;
  } else if (xdg.starts_with('/')) {  // the XDG specification: relative paths are to be ignored
    options.directory = xdg + "/duotone";
  } else if (!home.empty()) {
    options.directory = home + "/.cache/duotone";
  } else {
    options.warning =
        "compiled kernels are not kept: set DUOTONE_CACHE_DIR, XDG_CACHE_HOME or HOME";
  }
  const std::string megabytes = Environment("DUOTONE_CACHE_MB");
  if (!megabytes.empty()) {
    int64_t value = -1;
    const auto [end, error] =
        std::from_chars(megabytes.data(), megabytes.data() + megabytes.size(), value);
    if (error != std::errc() || *end != '\0' || value < 0 || value > (int64_t{1} << 30)) {
      options.warning = absl::StrFormat(
          "DUOTONE_CACHE_MB=%s is no number of megabytes from 0 to 2^30; the kernel cache keeps %d",
          megabytes, kDefaultCacheBytes >> 20);
    } else {
      options.max_bytes = value << 20;
    }
  }
  return options;
}

Sha256Digest HashOfHeaders(std::span<const SourceHeader> headers) {
  Sha256 hash;
  for (const SourceHeader& header : headers) {
    hash.UpdateField(header.name);
    hash.UpdateField(header.text);
  }
  return hash.Finish();
}

Sha256Digest KernelCacheKey(const Kernel& kernel, const Sha256Digest& headers,
                            std::string_view architecture, const KernelCompiler& compiler) {
  Sha256 hash;
  hash.UpdateField(kMagic);
  hash.UpdateField(compiler.identity());
  hash.UpdateField(architecture);
  for (const std::string& option : compiler.options(kernel, architecture)) hash.UpdateField(option);
  hash.UpdateField(BytesOf(headers));
  hash.UpdateField(kernel.source);
  return hash.Finish();
}

std::string KernelCache::PathOf(const Sha256Digest& key) const {
  return absl::StrFormat("%s/%s%s", options_.directory, ToHex(key), kExtension);
}

std::optional<CompiledKernel> KernelCache::Find(const Sha256Digest& key) {
  if (!enabled()) return std::nullopt;
  std::string bytes;
  const ReadResult result = ReadEntry(PathOf(key), bytes);
  std::optional<CompiledKernel> compiled;
  if (result == ReadResult::kRead) compiled = Decode(bytes, key);
  const std::lock_guard lock(mutex_);
  ++(compiled.has_value() ? statistics_.hits : statistics_.misses);
  if (!compiled.has_value() && result != ReadResult::kMissing) ++statistics_.corrupt;
  return compiled;
}

void KernelCache::Insert(const Sha256Digest& key, const CompiledKernel& compiled) {
  if (!enabled()) return;
  {
    const std::lock_guard lock(mutex_);
    if (statistics_.write_failures > 0) return;
  }
  const std::string bytes = Encode(key, compiled);
  const auto size = static_cast<int64_t>(bytes.size());
  if (size > std::min(options_.max_bytes, kMaxEntryBytes)) return;
  absl::Status status = MakeDirectory(options_.directory);
  if (status.ok()) status = WriteEntry(PathOf(key), bytes);
  const std::lock_guard lock(mutex_);
  if (!status.ok()) {
    Fail(std::string(status.message()));
    return;
  }
  ++statistics_.writes;
  AccountAndEvict(size);
}

// Called with the mutex held.
void KernelCache::Fail(const std::string& what) {
  ++statistics_.write_failures;
  if (!warning_.empty()) return;
  warning_ = absl::StrFormat(
      "compiled kernels are not kept: %s; free or name another folder with DUOTONE_CACHE_DIR",
      what);
}

// Called with the mutex held, after an entry of `bytes` was added.
void KernelCache::AccountAndEvict(int64_t bytes) {
  const bool scan = known_bytes_ < 0 || ++inserts_since_scan_ >= kInsertsBetweenScans ||
                    known_bytes_ + bytes > options_.max_bytes;
  if (!scan) {
    known_bytes_ += bytes;
    return;
  }
  inserts_since_scan_ = 0;
  std::vector<Entry> entries = ScanEntries(options_.directory);
  known_bytes_ = 0;
  for (const Entry& entry : entries) known_bytes_ += entry.bytes;
  if (known_bytes_ <= options_.max_bytes) return;
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.path) <
           std::tie(b.used.tv_sec, b.used.tv_nsec, b.path);
  });
  // An eighth more than needed, so that the next entry does not start over.
  const int64_t wanted = options_.max_bytes - options_.max_bytes / 8;
  for (const Entry& entry : entries) {
    if (known_bytes_ <= wanted) break;
    // Another process may have removed it: it is gone either way.
    if (unlink(entry.path.c_str()) == 0) ++statistics_.evicted;
    known_bytes_ -= entry.bytes;
  }
}

KernelCacheStatistics KernelCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

std::string KernelCache::warning() const {
  const std::lock_guard lock(mutex_);
  return warning_;
}

std::string KernelCache::TakeWarning() {
  const std::lock_guard lock(mutex_);
  if (warning_.empty() || std::exchange(warning_taken_, true)) return "";
  return warning_;
}

}  // namespace duotone::runtime
