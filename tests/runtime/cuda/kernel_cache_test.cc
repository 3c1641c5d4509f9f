#include "runtime/cuda/kernel_cache.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/cuda/nvrtc_testing.h"
#include "tests/runtime/cuda/scoped_environment.h"

namespace duotone::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "Compiles" a source into bytes that tell it, and counts.
class FakeCompiler final : public KernelCompiler {
 public:
  absl::StatusOr<CompiledKernel> Compile(const Kernel& kernel, std::span<const SourceHeader>,
                                         std::string_view architecture) override {
    ++count;
    std::string cubin = "cubin of " + kernel.source + " for " + std::string(architecture);
    cubin += '\0';
    cubin.append(padding, 'x');
    return CompiledKernel{.cubin = cubin, .ptx = "ptx of " + kernel.source, .log = log};
  }
  std::vector<std::string> options(const Kernel& kernel, std::string_view) const override {
    return {kernel.contract ? "contract" : "exact", option};
  }
  std::string identity() const override { return name; }

  std::atomic<int> count = 0;
  size_t padding = 0;
  std::string option = "-O3";
  std::string name = "fake 1.0";
  std::string log;
};

// An empty folder, gone afterwards.
class KernelCacheTest : public ::testing::Test {
 protected:
  KernelCacheTest() {
    std::string path = ::testing::TempDir() + "duotone_cache_XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~KernelCacheTest() override { fs::remove_all(folder_); }

  KernelCacheOptions Options() const { return {.directory = (folder_ / "kernels").string()}; }

  static Program ProgramOf(int kernels) {
    Program program;
    for (int i = 0; i < kernels; ++i) {
      program.kernels.push_back({.name = "k", .source = "source " + std::to_string(i)});
    }
    return program;
  }

  CompileStatistics Compile(KernelCache& cache, int kernels, Program* result = nullptr) {
    Program program = ProgramOf(kernels);
    const auto statistics = CompileProgram(program, "sm_80", compiler_, &cache, 2);
    EXPECT_TRUE(statistics.ok()) << statistics.status();
    for (const Kernel& kernel : program.kernels) {
      EXPECT_THAT(kernel.cubin, HasSubstr("cubin of " + kernel.source + " for sm_80"));
      EXPECT_EQ(kernel.ptx, "ptx of " + kernel.source);
    }
    if (result != nullptr) *result = program;
    return *statistics;
  }

  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_ / "kernels")) files.push_back(entry);
    std::ranges::sort(files);
    return files;
  }

  Sha256Digest KeyOf(const Kernel& kernel) const {
    return KernelCacheKey(kernel, HashOfHeaders({}), "sm_80", compiler_);
  }

  fs::path folder_;
  FakeCompiler compiler_;
};

// Runs `body` in a child process; its result is the exit status.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

TEST_F(KernelCacheTest, TheSecondProcessReadsWhatTheFirstCompiled) {
  Program first, second;
  compiler_.log = "a warning";
  {
    KernelCache cache(Options());
    const CompileStatistics statistics = Compile(cache, 5, &first);
    EXPECT_EQ(statistics.compiled, 5);
    EXPECT_EQ(statistics.cache_hits, 0);
    EXPECT_EQ(cache.statistics().writes, 5);
    EXPECT_EQ(cache.warning(), "");
  }
  KernelCache cache(Options());
  const CompileStatistics statistics = Compile(cache, 5, &second);
  EXPECT_EQ(statistics.compiled, 0);
  EXPECT_EQ(statistics.cache_hits, 5);
  EXPECT_EQ(compiler_.count, 5);
  EXPECT_EQ(cache.statistics().hits, 5);
  EXPECT_EQ(cache.statistics().corrupt, 0);
  EXPECT_EQ(statistics.warnings.size(), 5u);  // the compiler's log was kept
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(first.kernels[i].cubin, second.kernels[i].cubin);
}

TEST_F(KernelCacheTest, EverythingThatDecidesTheResultIsInTheKey) {
  const Kernel kernel = {.name = "k", .source = "source"};
  const SourceHeader header = {"a.cuh", "text"};
  std::vector<Sha256Digest> keys;
  const auto add = [&](const Kernel& k, const std::vector<SourceHeader>& headers,
                       std::string_view architecture, const FakeCompiler& compiler) {
    keys.push_back(KernelCacheKey(k, HashOfHeaders(headers), architecture, compiler));
  };
  FakeCompiler other_option, other_name;
  other_option.option = "-O0";
  other_name.name = "fake 1.1";
  add(kernel, {header}, "sm_80", compiler_);
  add({.name = "k", .source = "source2"}, {header}, "sm_80", compiler_);
  add({.name = "k", .source = "source", .contract = false}, {header}, "sm_80", compiler_);
  add(kernel, {}, "sm_80", compiler_);
  add(kernel, {{"b.cuh", "text"}}, "sm_80", compiler_);
  add(kernel, {{"a.cuh", "text2"}}, "sm_80", compiler_);
  add(kernel, {header}, "sm_90", compiler_);
  add(kernel, {header}, "sm_80", other_option);
  add(kernel, {header}, "sm_80", other_name);
  std::ranges::sort(keys);
  EXPECT_EQ(std::ranges::adjacent_find(keys), keys.end());
}

// Whatever is cut off, the entry is compiled again and replaced.
TEST_F(KernelCacheTest, ACutEntryIsReplaced) {
  KernelCache writer(Options());
  Compile(writer, 1);
  const fs::path file = Files().at(0);
  const std::string whole = *ReadFile(file.string());
  ASSERT_LT(whole.size(), 300u);
  for (size_t size = 0; size < whole.size(); ++size) {
    fs::resize_file(file, size);
    KernelCache cache(Options());
    EXPECT_EQ(Compile(cache, 1).compiled, 1) << size;
    EXPECT_EQ(cache.statistics().corrupt, 1) << size;
    ASSERT_EQ(*ReadFile(file.string()), whole);
  }
}

TEST_F(KernelCacheTest, AnEntryWithAnyChangedBitIsReplaced) {
  KernelCache writer(Options());
  Compile(writer, 1);
  const fs::path file = Files().at(0);
  const std::string whole = *ReadFile(file.string());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    std::ofstream(file, std::ios::binary) << changed;
    KernelCache cache(Options());
    EXPECT_EQ(Compile(cache, 1).compiled, 1) << i;
    EXPECT_EQ(cache.statistics().corrupt, 1) << i;
  }
  std::ofstream(file, std::ios::binary) << whole + "x";
  KernelCache cache(Options());
  EXPECT_EQ(Compile(cache, 1).compiled, 1);
  EXPECT_EQ(Compile(cache, 1).compiled, 0);
}

// A sound entry under another's name is no entry.
TEST_F(KernelCacheTest, AnEntryBelongsToItsKey) {
  KernelCache cache(Options());
  Compile(cache, 2);
  fs::copy_file(Files().at(0), Files().at(1), fs::copy_options::overwrite_existing);
  EXPECT_EQ(Compile(cache, 2).compiled, 1);
}

TEST_F(KernelCacheTest, FilesAreTheUsersAlone) {
  const mode_t before = umask(0);
  KernelCache cache(Options());
  Compile(cache, 1);
  umask(before);
  struct stat status;
  ASSERT_EQ(stat((folder_ / "kernels").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(Files().at(0).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

// A link in the place of an entry is neither read nor written through.
TEST_F(KernelCacheTest, LinksAreNotFollowed) {
  KernelCache cache(Options());
  Compile(cache, 1);
  const fs::path file = Files().at(0);
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  const std::string whole = *ReadFile(elsewhere.string());
  fs::resize_file(elsewhere, 10);
  EXPECT_EQ(Compile(cache, 1).compiled, 1);
  EXPECT_FALSE(fs::is_symlink(file));
  EXPECT_EQ(*ReadFile(elsewhere.string()), whole.substr(0, 10));
}

TEST_F(KernelCacheTest, TheFolderStaysBelowItsBound) {
  compiler_.padding = 10000;
  KernelCacheOptions options = Options();
  options.max_bytes = 45000;
  KernelCache cache(options);
  Compile(cache, 20);
  EXPECT_GT(cache.statistics().evicted, 0);
  uintmax_t bytes = 0;
  for (const fs::path& file : Files()) bytes += fs::file_size(file);
  EXPECT_LE(bytes, 45000u);
  EXPECT_GT(bytes, 20000u);
}

// Entry 1 was not used for the longest time once entry 0 is read.
TEST_F(KernelCacheTest, UseKeepsAnEntryAlive) {
  compiler_.padding = 10000;
  KernelCacheOptions options = Options();
  options.max_bytes = 35000;
  KernelCache cache(options);
  const std::vector<Kernel> kernels = ProgramOf(5).kernels;
  const auto insert = [&](size_t i) {
    cache.Insert(KeyOf(kernels[i]), *compiler_.Compile(kernels[i], {}, "sm_80"));
  };
  const auto set_age = [&](size_t i, int hours) {
    const timespec time = {1000000000 - 3600 * hours, 0};
    const timespec times[2] = {time, time};
    const fs::path file = folder_ / "kernels" / (ToHex(KeyOf(kernels[i])) + ".kernel");
    ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  };
  for (size_t i = 0; i < 3; ++i) insert(i);
  set_age(0, 3);
  set_age(1, 2);
  set_age(2, 1);
  EXPECT_TRUE(cache.Find(KeyOf(kernels[0])).has_value());
  insert(3);
  EXPECT_TRUE(cache.Find(KeyOf(kernels[0])).has_value());
  EXPECT_FALSE(cache.Find(KeyOf(kernels[1])).has_value());
  EXPECT_TRUE(cache.Find(KeyOf(kernels[3])).has_value());
}

TEST_F(KernelCacheTest, EvictionTouchesNothingElse) {
  compiler_.padding = 10000;
  KernelCacheOptions options = Options();
  options.max_bytes = 15000;
  fs::create_directories(folder_ / "kernels" / (std::string(64, 'a') + ".kernel"));
  std::ofstream(folder_ / "kernels" / "notes.txt") << std::string(50000, 'n');
  std::ofstream(folder_ / "target") << "t";
  fs::create_symlink(folder_ / "target", folder_ / "kernels" / (std::string(64, 'b') + ".kernel"));
  KernelCache cache(options);
  Compile(cache, 6);
  EXPECT_GT(cache.statistics().evicted, 0);
  EXPECT_TRUE(fs::exists(folder_ / "kernels" / (std::string(64, 'a') + ".kernel")));
  EXPECT_TRUE(fs::exists(folder_ / "kernels" / "notes.txt"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "kernels" / (std::string(64, 'b') + ".kernel")));
}

TEST_F(KernelCacheTest, WhatDeadProcessesLeftIsRemoved) {
  fs::create_directories(folder_ / "kernels");
  const fs::path stale = folder_ / "kernels" / (std::string(64, 'c') + ".kernel.tmp.abcdef");
  const fs::path fresh = folder_ / "kernels" / (std::string(64, 'd') + ".kernel.tmp.abcdef");
  std::ofstream(stale) << "half";
  std::ofstream(fresh) << "half";
  fs::last_write_time(stale, fs::file_time_type::clock::now() - std::chrono::hours(2));
  KernelCache cache(Options());
  Compile(cache, 1);
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(KernelCacheTest, WithoutAFolderKernelsAreCompiledAndOneSentenceSaysSo) {
  std::ofstream(folder_ / "file") << "x";
  KernelCache cache({.directory = (folder_ / "file" / "kernels").string()});
  const CompileStatistics statistics = Compile(cache, 5);
  EXPECT_EQ(statistics.compiled, 5);
  ASSERT_EQ(statistics.warnings.size(), 1u);
  EXPECT_THAT(statistics.warnings[0],
              AllOf(HasSubstr("compiled kernels are not kept: cannot make the folder"),
                    HasSubstr("Not a directory"), HasSubstr("DUOTONE_CACHE_DIR")));
  EXPECT_THAT(Compile(cache, 5).warnings, IsEmpty());  // once is enough
  EXPECT_EQ(cache.statistics().corrupt, 0);
}

// Root may write everywhere, so an ordinary user tries.
TEST_F(KernelCacheTest, AFolderThatCannotBeWrittenIsReadOnly) {
  KernelCache writer(Options());
  Compile(writer, 1);
  fs::permissions(folder_, fs::perms(0755));
  fs::permissions(folder_ / "kernels", fs::perms(0555));
  const int result = InChild([&] {
    if (geteuid() == 0 && setuid(65534) != 0) return 2;
    KernelCache cache(Options());
    const CompileStatistics statistics = Compile(cache, 2);
    return statistics.compiled >= 1 && statistics.warnings.size() == 1 &&
                   statistics.warnings[0].find("Permission denied") != std::string::npos
               ? 0
               : 1;
  });
  fs::permissions(folder_ / "kernels", fs::perms(0700));
  EXPECT_EQ(result, 0);
}

// A file-size limit stands for a full disk: writing fails midway.
TEST_F(KernelCacheTest, AFullDiskLeavesNothingBehind) {
  compiler_.padding = 100000;
  const int result = InChild([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    KernelCache cache(Options());
    const CompileStatistics statistics = Compile(cache, 5);
    return statistics.compiled == 5 && statistics.warnings.size() == 1 &&
                   statistics.warnings[0].find("File too large") != std::string::npos
               ? 0
               : 1;
  });
  EXPECT_EQ(result, 0);
  EXPECT_THAT(Files(), IsEmpty());
}

// Two processes fill and read one folder, while it overflows.
TEST_F(KernelCacheTest, ProcessesShareAFolder) {
  compiler_.padding = 5000;
  KernelCacheOptions options = Options();
  options.max_bytes = 60000;
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      int corrupt = 0;
      for (int round = 0; round < 10; ++round) {
        KernelCache cache(options);
        Compile(cache, 20);
        corrupt += cache.statistics().corrupt + cache.statistics().write_failures;
      }
      _exit(corrupt == 0 && !HasFailure() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const fs::path& file : Files()) EXPECT_EQ(file.extension(), ".kernel") << file;
}

TEST_F(KernelCacheTest, TheEnvironmentNamesFolderAndBound) {
  ScopedEnvironment home("HOME", "/home/someone");
  ScopedEnvironment megabytes("DUOTONE_CACHE_MB", nullptr);
  {
    ScopedEnvironment xdg("XDG_CACHE_HOME", "/caches");
    ScopedEnvironment own("DUOTONE_CACHE_DIR", "here");
    EXPECT_EQ(KernelCacheOptionsFromEnvironment().directory, "here");
  }
  ScopedEnvironment own("DUOTONE_CACHE_DIR", nullptr);
  {
    ScopedEnvironment xdg("XDG_CACHE_HOME", "/caches");
    EXPECT_EQ(KernelCacheOptionsFromEnvironment().directory, "/caches/duotone");
  }
  {
    ScopedEnvironment xdg("XDG_CACHE_HOME", "relative");
    EXPECT_EQ(KernelCacheOptionsFromEnvironment().directory, "/home/someone/.cache/duotone");
  }
  ScopedEnvironment xdg("XDG_CACHE_HOME", nullptr);
  {
    ScopedEnvironment none("HOME", nullptr);
    EXPECT_EQ(KernelCacheOptionsFromEnvironment().directory, "");
    EXPECT_THAT(KernelCacheOptionsFromEnvironment().warning, HasSubstr("HOME"));
  }
  EXPECT_EQ(KernelCacheOptionsFromEnvironment().max_bytes, int64_t{256} << 20);
  EXPECT_EQ(KernelCacheOptionsFromEnvironment().warning, "");
  for (const char* value : {"x", "-1", "1.5", "1 ", "99999999999999999999"}) {
    ScopedEnvironment bad("DUOTONE_CACHE_MB", value);
    EXPECT_EQ(KernelCacheOptionsFromEnvironment().max_bytes, kDefaultCacheBytes) << value;
    EXPECT_THAT(KernelCacheOptionsFromEnvironment().warning, HasSubstr(value));
  }
  ScopedEnvironment one("DUOTONE_CACHE_MB", "1");
  EXPECT_EQ(KernelCacheOptionsFromEnvironment().max_bytes, 1 << 20);
}

TEST_F(KernelCacheTest, ABoundOfZeroTurnsItOff) {
  KernelCacheOptions options = Options();
  options.max_bytes = 0;
  KernelCache cache(options);
  Compile(cache, 2);
  EXPECT_FALSE(fs::exists(folder_ / "kernels"));
  EXPECT_EQ(cache.statistics().misses, 0);
}

// What NVRTC made comes back byte for byte.
TEST_F(KernelCacheTest, MachineCodeComesBackWhole) {
  const std::unique_ptr<KernelCompiler> nvrtc = NvrtcForTest();
  if (nvrtc == nullptr) GTEST_SKIP() << "no NVRTC";
  const Kernel kernel = {
      .name = "add",
      .source = "extern \"C\" __global__ void add(float* x) { x[threadIdx.x] += 1.0f; }\n"};
  Program cold, warm;
  cold.kernels = warm.kernels = {kernel};
  KernelCache cache(Options());
  ASSERT_TRUE(CompileProgram(cold, "sm_90", *nvrtc, &cache, 1).ok());
  const auto statistics = CompileProgram(warm, "sm_90", *nvrtc, &cache, 1);
  ASSERT_TRUE(statistics.ok()) << statistics.status();
  EXPECT_EQ(statistics->cache_hits, 1);
  EXPECT_EQ(cold.kernels[0].cubin, warm.kernels[0].cubin);
  EXPECT_EQ(cold.kernels[0].ptx, warm.kernels[0].ptx);
  EXPECT_GT(warm.kernels[0].cubin.size(), 1000u);
}

}  // namespace
}  // namespace duotone::runtime
