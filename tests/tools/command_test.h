// Runs the `duotone` binary as a user would, for tests of its output, messages and exit codes.
#ifndef DUOTONE_TESTS_TOOLS_COMMAND_TEST_H_
#define DUOTONE_TESTS_TOOLS_COMMAND_TEST_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace duotone::tools {

struct CommandResult {
  int exit_code = -1;  // -signal if a signal ended it
  std::string out;
  std::string err;
};

// A test with a folder of its own, which is the working directory of the commands it runs.
class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  CommandResult Run(const std::vector<std::string>& args, const std::string& input = "");
  // Starts a command, sends SIGINT when `ready` appears in its stderr, and waits.
  CommandResult RunAndInterrupt(const std::vector<std::string>& args, const std::string& ready);
  // Writes a file into the folder and returns its name.
  std::string Write(const std::string& name, const std::string& text);
  std::string Read(const std::string& name);

  std::filesystem::path dir_;
};

// The root of the source tree followed by `path`.
std::string SourcePath(const std::string& path);

}  // namespace duotone::tools

#endif  // DUOTONE_TESTS_TOOLS_COMMAND_TEST_H_
