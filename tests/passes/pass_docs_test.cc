// The examples of the registry do what they say, and docs/passes.md is fresh.
#include "passes/pass_docs.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ir/text.h"
#include "passes/options_text.h"
#include "passes/pass_manager.h"
#include "passes/registry.h"

namespace duotone::passes {
namespace {

TEST(Registry, EachExampleDoesWhatItSays) {
  for (const PassInfo& info : AllPasses()) {
    PassOptions options;
    ASSERT_TRUE(ParseOptions(info.options, options).ok()) << info.name;
    auto module = ir::Parse(info.before, "before");
    ASSERT_TRUE(module.ok()) << info.name << ": " << module.status();
    auto expected = ir::Parse(info.after, "after");
    ASSERT_TRUE(expected.ok()) << info.name << ": " << expected.status();
    PassList passes;
    passes.push_back(info.make(options));
    const auto report = PassManager().Run(passes, **module);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->changed()) << info.name;
    EXPECT_EQ(ir::Print(**module), ir::Print(**expected)) << info.name;
  }
}

TEST(PassDocs, PageIsFresh) {
  const std::string path = DUOTONE_SOURCE_DIR "/docs/passes.md";
  if (std::getenv("DUOTONE_BLESS") != nullptr) std::ofstream(path) << PassesMarkdown();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), PassesMarkdown())
      << "docs/passes.md is stale; refresh it with DUOTONE_BLESS=1 pass_unit_test";
}

}  // namespace
}  // namespace duotone::passes
