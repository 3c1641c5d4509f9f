#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

namespace duotone {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string TempPath(const std::string& name) {
  return ::testing::TempDir() + "duotone_file_test/" + name;
}

TEST(FileTest, WhatIsWrittenIsRead) {
  const std::string path = TempPath("deep/er/a.bin");
  const std::string bytes("a\0b\n\xff", 5);
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  absl::StatusOr<std::string> read = ReadFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, bytes);
  fs::remove_all(TempPath(""));
}

TEST(FileTest, ErrorsNameFileAndReason) {
  EXPECT_THAT(std::string(ReadFile("/nowhere/x").status().message()),
              HasSubstr("cannot open /nowhere/x: No such file"));
  EXPECT_THAT(std::string(ReadFile("/").status().message()),
              HasSubstr("cannot read /: Is a directory"));
  EXPECT_THAT(std::string(WriteFileAtomically("/proc/x/y", "z").message()), HasSubstr("/proc/x/y"));
  ASSERT_TRUE(WriteFileAtomically(TempPath("b"), "12345").ok());
  EXPECT_THAT(std::string(ReadFile(TempPath("b"), 4).status().message()),
              HasSubstr("is larger than 4 bytes"));
  fs::remove_all(TempPath(""));
}

// A write that fails half-way (here: by the limit on file sizes, as by a full disk) leaves the old
// file and no other.
TEST(FileTest, AFailedWriteKeepsTheOldFile) {
  const std::string path = TempPath("c");
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = old_limit;
  limit.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = WriteFileAtomically(path, std::string(100000, 'x'));
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write"));
  EXPECT_EQ(*ReadFile(path), "old");
  EXPECT_EQ(
      std::distance(fs::directory_iterator(fs::path(path).parent_path()), fs::directory_iterator()),
      1);
  fs::remove_all(TempPath(""));
}

TEST(FileTest, APipeIsWrittenToAndNotReplaced) {
  const std::string path = TempPath("pipe");
  fs::create_directories(fs::path(path).parent_path());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(WriteFileAtomically(path, "through").ok());
  char bytes[16] = {};
  EXPECT_EQ(read(reader, bytes, sizeof(bytes)), 7);
  EXPECT_STREQ(bytes, "through");
  EXPECT_TRUE(fs::is_fifo(path));
  close(reader);
  fs::remove_all(TempPath(""));
}

TEST(FileTest, ASymbolicLinkStaysAndItsFileIsReplaced) {
  const std::string file = TempPath("file"), link = TempPath("link");
  ASSERT_TRUE(WriteFileAtomically(file, "old").ok());
  fs::create_symlink("file", link);
  ASSERT_TRUE(WriteFileAtomically(link, "new").ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(*ReadFile(file), "new");
  fs::remove_all(TempPath(""));
}

}  // namespace
}  // namespace duotone
