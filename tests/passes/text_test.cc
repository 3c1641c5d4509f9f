// Registers one GoogleTest case for each section of each tests/passes/*.duo, and runs it.
#include "gtest/gtest.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/passes/text_test_lib.h"

namespace duotone::passes {
namespace {

class SectionTest : public testing::Test {
 public:
  explicit SectionTest(TextTest test) : test_(std::move(test)) {}
  void TestBody() override {
    const absl::Status status = RunTextTest(test_);
    EXPECT_TRUE(status.ok()) << test_.file << ":" << test_.line << ": " << status.message();
  }

 private:
  TextTest test_;
};

std::vector<std::filesystem::path> TestFiles() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(DUOTONE_SOURCE_DIR "/tests/passes")) {
    if (entry.path().extension() == ".duo") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Returns false, with a message, if a file is no list of tests.
bool RegisterFile(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string file = "tests/passes/" + path.filename().string();
  const auto tests = ParseTextTests(text.str(), file);
  if (!tests.ok()) {
    std::cerr << tests.status().message() << "\n";
    return false;
  }
  for (const TextTest& test : *tests) {
    testing::RegisterTest(path.stem().c_str(), test.name.c_str(), nullptr, nullptr, file.c_str(),
                          test.line, [test] { return new SectionTest(test); });
  }
  return true;
}

}  // namespace
}  // namespace duotone::passes

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto files = duotone::passes::TestFiles();
  bool ok = !files.empty();
  if (!ok) std::cerr << "no tests/passes/*.duo found\n";
  for (const auto& file : files) ok &= duotone::passes::RegisterFile(file);
  return RUN_ALL_TESTS() == 0 && ok ? 0 : 1;
}
