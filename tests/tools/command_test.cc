#include "tests/tools/command_test.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

namespace duotone::tools {
namespace {

std::string Slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The process id of the binary, its streams tied to files of `dir`.
pid_t Start(const std::filesystem::path& dir, const std::vector<std::string>& args) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (chdir(dir.c_str()) != 0) _exit(126);
  auto redirect = [](const char* name, int flags, int to) { dup2(open(name, flags, 0644), to); };
  redirect(".stdin", O_RDONLY, STDIN_FILENO);
  redirect(".stdout", O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
  redirect(".stderr", O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
  std::vector<char*> argv = {const_cast<char*>("duotone")};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  execv(DUOTONE_BINARY, argv.data());
  _exit(127);
}

CommandResult Finish(const std::filesystem::path& dir, pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  CommandResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  result.out = Slurp(dir / ".stdout");
  result.err = Slurp(dir / ".stderr");
  return result;
}

}  // namespace

std::string SourcePath(const std::string& path) {
  return std::string(DUOTONE_SOURCE_DIR) + "/" + path;
}

void CommandTest::SetUp() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  dir_ = std::filesystem::path(::testing::TempDir()) /
         (std::string("duotone_command_") + info->test_suite_name() + "_" + info->name());
  std::filesystem::remove_all(dir_);
  std::filesystem::create_directories(dir_);
}

void CommandTest::TearDown() { std::filesystem::remove_all(dir_); }

CommandResult CommandTest::Run(const std::vector<std::string>& args, const std::string& input) {
  Write(".stdin", input);
  return Finish(dir_, Start(dir_, args));
}

CommandResult CommandTest::RunAndInterrupt(const std::vector<std::string>& args,
                                           const std::string& ready) {
  Write(".stdin", "");
  const pid_t child = Start(dir_, args);
  for (int i = 0; i < 6000; ++i) {
    if (Slurp(dir_ / ".stderr").find(ready) != std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGINT);
  return Finish(dir_, child);
}

std::string CommandTest::Write(const std::string& name, const std::string& text) {
  std::ofstream(dir_ / name, std::ios::binary) << text;
  return name;
}

std::string CommandTest::Read(const std::string& name) { return Slurp(dir_ / name); }

}  // namespace duotone::tools
