// Rules about the tree itself: who may include whom (design.md section 2), how long a file may be,
// and that no file names a machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace duotone {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

// What a folder's files may include of ours: folders, or single headers.
const std::map<std::string, std::set<std::string>>& AllowedIncludes() {
  static const auto* const kAllowed = new std::map<std::string, std::set<std::string>>{
      {"base", {"base"}},
      {"ir", {"base", "ir"}},
      {"passes", {"base", "ir", "passes"}},
      {"codegen", {"base", "ir", "codegen", "runtime/kernel.h", "runtime/program.h"}},
      {"runtime", {"base", "runtime"}},
      {"duotone", {"base", "ir", "passes", "codegen", "runtime", "duotone"}},
      {"tools", {"base", "ir", "passes", "codegen", "runtime", "duotone", "tools"}},
      {"samples", {"base", "duotone", "samples"}},
  };
  return *kAllowed;
}

struct Line {
  std::string path;  // relative to the root
  int number;
  std::string text;
  std::string Place() const { return path + ":" + std::to_string(number) + ": " + text; }
};

std::vector<fs::path> SourceFiles(const std::set<std::string>& folders) {
  const fs::path root = DUOTONE_SOURCE_DIR;
  std::vector<fs::path> files;
  for (const std::string& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".h" || extension == ".cc" || extension == ".cuh")
        files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Line> ReadLines(const fs::path& path) {
  std::vector<Line> lines;
  std::ifstream file(path);
  const std::string relative = fs::relative(path, DUOTONE_SOURCE_DIR).string();
  for (std::string text; std::getline(file, text);) {
    lines.push_back({relative, static_cast<int>(lines.size()) + 1, text});
  }
  return lines;
}

// The path in an #include "..." or <...> line, with its first character telling which; else "".
std::string IncludeOf(const std::string& text) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
  std::smatch match;
  return std::regex_search(text, match, kInclude) ? match[1].str() + match[2].str() : "";
}

bool IsOurs(const std::string& include) {
  return AllowedIncludes().contains(include.substr(0, include.find('/')));
}

TEST(LayeringTest, IncludesPointDown) {
  std::vector<std::string> wrong;
  int seen = 0;
  for (const auto& [folder, allowed] : AllowedIncludes()) {
    for (const fs::path& path : SourceFiles({folder})) {
      for (const Line& line : ReadLines(path)) {
        const std::string include = IncludeOf(line.text);
        if (include.empty() || include[0] != '"') continue;
        const std::string target = include.substr(1);
        if (!IsOurs(target)) continue;
        // Texts of kernels include each other by the names that NVRTC knows.
        if (path.extension() == ".cuh" && target.starts_with("duotone/")) continue;
        ++seen;
        const std::string target_folder = target.substr(0, target.find('/'));
        if (!allowed.contains(target_folder) && !allowed.contains(target))
          wrong.push_back(line.Place());
      }
    }
  }
  EXPECT_GT(seen, 100);
  EXPECT_THAT(wrong, IsEmpty());
}

// The public headers are those that duotone/duotone.h reaches.
TEST(LayeringTest, PublicHeadersIncludeOnlyStdAndAbseil) {
  std::vector<std::string> wrong;
  std::set<std::string> seen;
  std::vector<std::string> open = {"duotone/duotone.h"};
  while (!open.empty()) {
    const std::string header = open.back();
    open.pop_back();
    if (!seen.insert(header).second) continue;
    for (const Line& line : ReadLines(fs::path(DUOTONE_SOURCE_DIR) / header)) {
      const std::string include = IncludeOf(line.text);
      if (include.empty()) continue;
      const std::string target = include.substr(1);
      if (target.rfind("duotone/", 0) == 0) {
        open.push_back(target);
        continue;
      }
      const bool is_std = include[0] == '<' && target.find('/') == std::string::npos;
      if (!is_std && target.rfind("absl/", 0) != 0 && target != "base/dtype.h") {
        wrong.push_back(line.Place());
      }
    }
  }
  EXPECT_GT(seen.size(), 5u);
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(LayeringTest, TheRulesCanFail) {
  EXPECT_EQ(IncludeOf("#include \"ir/graph.h\""), "\"ir/graph.h");
  EXPECT_EQ(IncludeOf("  #  include <vector>  // why"), "<vector");
  EXPECT_EQ(IncludeOf("// #include \"ir/graph.h\""), "");
  EXPECT_TRUE(IsOurs("passes/pass.h"));
  EXPECT_FALSE(IsOurs("llvm/ADT/SmallVector.h"));
  EXPECT_FALSE(AllowedIncludes().at("runtime").contains("ir"));
}

TEST(TreeTest, FilesStayBelow800Lines) {
  std::vector<std::string> longer;
  for (const fs::path& path : SourceFiles({"base", "ir", "passes", "codegen", "runtime", "duotone",
                                           "tools", "samples", "tests", "benchmarks"})) {
    const size_t lines = ReadLines(path).size();
    if (lines > 800) longer.push_back(path.string() + " has " + std::to_string(lines) + " lines");
  }
  EXPECT_THAT(longer, IsEmpty());
}

}  // namespace
}  // namespace duotone
