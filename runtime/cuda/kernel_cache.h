// Compiled kernels on disk, so that the second process that needs one reads it. Any number of
// processes may share a folder; whatever happens to it, compiling goes on.
//
//   KernelCache cache;
//   std::optional<CompiledKernel> found = cache.Find(key);
//   if (!found.has_value()) cache.Insert(key, *compiled);
//
// An entry is one file named by its key, private to the user:
//
//   "DUOKERN1", key (32 bytes), sizes of cubin, ptx and log (8 bytes each, the machine's order),
//   SHA-256 of everything before and after it (32 bytes), cubin, ptx, log
#ifndef DUOTONE_RUNTIME_CUDA_KERNEL_CACHE_H_
#define DUOTONE_RUNTIME_CUDA_KERNEL_CACHE_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/sha256.h"
#include "runtime/cuda/compiler.h"

namespace duotone::runtime {

inline constexpr int64_t kDefaultCacheBytes = int64_t{256} << 20;

struct KernelCacheOptions {
  std::string directory;                   // empty: no cache
  int64_t max_bytes = kDefaultCacheBytes;  // of all entries; 0: no cache
  std::string warning;                     // why it is not as the user wanted
};

// The folder is DUOTONE_CACHE_DIR, else duotone in XDG_CACHE_HOME, else .cache/duotone in HOME; the
// bound is DUOTONE_CACHE_MB.
KernelCacheOptions KernelCacheOptionsFromEnvironment();

struct KernelCacheStatistics {
  int hits = 0;
  int misses = 0;   // corrupt entries among them
  int corrupt = 0;  // cut short, changed, of another format: replaced after compiling
  int writes = 0;
  int evicted = 0;
  int write_failures = 0;  // the first ends writing
};

// Names the result of a compilation by all that decides it.
Sha256Digest KernelCacheKey(const Kernel& kernel, const Sha256Digest& headers,
                            std::string_view architecture, const KernelCompiler& compiler);
// For KernelCacheKey, once for all kernels of a program.
Sha256Digest HashOfHeaders(std::span<const SourceHeader> headers);

// Threads may use it at the same time.
class KernelCache {
 public:
  explicit KernelCache(KernelCacheOptions options = KernelCacheOptionsFromEnvironment())
      : options_(std::move(options)), warning_(options_.warning) {}
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  // Nothing where there is no sound entry. Marks an entry as used.
  std::optional<CompiledKernel> Find(const Sha256Digest& key);
  // Makes the folder if need be, and removes the entries that were not used for the longest time
  // where the bound is passed.
  void Insert(const Sha256Digest& key, const CompiledKernel& compiled);

  KernelCacheStatistics statistics() const;
  // The first thing that went wrong, as a sentence for the user; empty if nothing did.
  std::string warning() const;
  // The same, but empty from the second call on: nobody needs to hear it twice.
  std::string TakeWarning();
  const std::string& directory() const { return options_.directory; }

 private:
  bool enabled() const { return !options_.directory.empty() && options_.max_bytes > 0; }
  std::string PathOf(const Sha256Digest& key) const;
  void Fail(const std::string& what);
  void AccountAndEvict(int64_t bytes);

  const KernelCacheOptions options_;
  mutable std::mutex mutex_;
  KernelCacheStatistics statistics_;
  std::string warning_;
  bool warning_taken_ = false;
  int64_t known_bytes_ = -1;    // of the folder, as last seen; -1: not looked yet
  int inserts_since_scan_ = 0;  // other processes insert too
};

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_KERNEL_CACHE_H_
