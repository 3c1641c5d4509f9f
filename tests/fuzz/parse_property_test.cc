// The fuzz property without libFuzzer: on every corpus file, every op's example, and 20,000 random
// mutations of them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <vector>

#include "gtest/gtest.h"
#include "ir/op_def.h"
#include "parse_property.h"

namespace duotone::ir {
namespace {

constexpr int kMutants = 20000;

std::vector<std::string> Corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& file :
       std::filesystem::directory_iterator(DUOTONE_SOURCE_DIR "/tests/fuzz/corpus")) {
    paths.push_back(file.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = Corpus();
  for (const OpDef& def : AllOps()) {
    if (!def.example.empty()) seeds.emplace_back(def.example);
  }
  return seeds;
}

// Words that mean something at some place, so that mutants get past the lexer.
constexpr std::string_view kWords[] = {
    "%x",
    "%y",
    "%w",
    "f16",
    "bool",
    "[B]",
    "[]",
    "2*B",
    "0",
    "-1",
    "1e999",
    "nan",
    "inf",
    "true",
    "return",
    "update %w = %y",
    "graph ",
    "@g",
    " : f32[]",
    "{",
    "}",
    "(",
    ")",
    ", axis=-1",
    "guard=",
    "\"\\x",
    "\"",
    "//",
    "id=7",
    "\n",
    "72057594037927936",
    ", ",
    "=",
    ", out=f16",
    "region=off",
    "18446744073709551616",
    "*",
    "99999999999",
};

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string Next() {
    std::string text = seeds_[Below(seeds_.size())];
    for (size_t edits = 1 + Below(3); edits > 0; --edits) Edit(text);
    return text;
  }

 private:
  size_t Below(size_t limit) { return random_() % limit; }

  void Edit(std::string& text) {
    const size_t at = Below(text.size() + 1);
    const size_t length = std::min(Below(12), text.size() - at);
    switch (Below(6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, length));
        break;
      case 2:
        text.insert(at, kWords[Below(std::size(kWords))]);
        break;
      case 3:
        text.replace(at, length, kWords[Below(std::size(kWords))]);
        break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(Below(256));
        break;
      case 5: {  // a piece of another text
        const std::string& other = seeds_[Below(seeds_.size())];
        text.replace(at, length, other.substr(Below(other.size()), Below(40)));
        break;
      }
    }
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_{20260101};
};

// A corpus file may be a broken one, but the property holds.
TEST(ParseProperty, HoldsForTheCorpus) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GE(corpus.size(), 10u);
  int parsed = 0;
  for (const std::string& text : corpus) {
    const PropertyResult result = CheckParseProperty(text);
    EXPECT_EQ(result.violation, "") << text;
    parsed += result.parsed;
  }
  EXPECT_GE(parsed, 8);
}

// Half the mutants or so are still accepted, so that printing is tested as well as rejecting.
TEST(ParseProperty, HoldsForMutants) {
  Mutator mutator(Seeds());
  int parsed = 0;
  for (int i = 0; i < kMutants; ++i) {
    const std::string text = mutator.Next();
    const PropertyResult result = CheckParseProperty(text);
    ASSERT_EQ(result.violation, "") << "mutant " << i << ":\n" << text;
    parsed += result.parsed;
  }
  EXPECT_GT(parsed, kMutants / 50);
  EXPECT_LT(parsed, kMutants - kMutants / 50);
}

// Every prefix of a text is a broken file of the kind that an interrupted write leaves.
TEST(ParseProperty, HoldsForTruncatedTexts) {
  for (const std::string& text : Corpus()) {
    for (size_t length = 0; length < text.size(); ++length) {
      ASSERT_EQ(CheckParseProperty(std::string_view(text).substr(0, length)).violation, "");
    }
  }
}

}  // namespace
}  // namespace duotone::ir
