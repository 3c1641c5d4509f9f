// The words behind an emulated architecture.
#include "runtime/emulator/options.h"

#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duotone::emulator {
namespace {

using ::testing::HasSubstr;

TEST(EmulatorOptions, AnArchitectureAloneHasAllChecks) {
  const absl::StatusOr<EmulatorOptions> options = ParseEmulatorOptions("sm_90");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->architecture, "sm_90");
  EXPECT_TRUE(options->checks);
  EXPECT_EQ(options->schedule, Schedule::kRoundRobin);
}

TEST(EmulatorOptions, WordsChangeWhatTheyName) {
  const absl::StatusOr<EmulatorOptions> options = ParseEmulatorOptions(
      "sm_75,adversarial,seed=7,unchecked,perturb,budget=1000,memory=16,turing4");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->schedule, Schedule::kAdversarial);
  EXPECT_EQ(options->seed, 7u);
  EXPECT_FALSE(options->checks);
  EXPECT_TRUE(options->perturb_approximations);
  EXPECT_EQ(options->instruction_budget, 1000);
  EXPECT_EQ(options->memory_bytes, int64_t{16} << 20);
  EXPECT_EQ(options->turing_group, 4);
}

TEST(EmulatorOptions, WhatIsWrongIsNamed) {
  const auto message = [](std::string_view text) {
    return std::string(ParseEmulatorOptions(text).status().message());
  };
  EXPECT_THAT(message("sm_70"), HasSubstr("sm_75, sm_80"));
  EXPECT_THAT(message(""), HasSubstr("sm_75, sm_80"));
  EXPECT_THAT(message("sm_80,fast"), HasSubstr("'fast' is none of unchecked, adversarial"));
  EXPECT_THAT(message("sm_80,"), HasSubstr("'' is none of"));
  EXPECT_THAT(message("sm_80,seed"), HasSubstr("'seed': seed needs a number"));
  EXPECT_THAT(message("sm_80,perturb=1"), HasSubstr("perturb takes no value"));
  EXPECT_THAT(message("sm_80,budget=0"), HasSubstr("must be in [1, "));
  EXPECT_THAT(message("sm_80,seed=-1"), HasSubstr("must be in [0, "));
  EXPECT_THAT(message("sm_80,seed=99999999999999999999"), HasSubstr("must be in [0, "));
}

TEST(EmulatorOptions, TheDocsListTheWords) {
  std::ifstream file(std::string(DUOTONE_SOURCE_DIR) + "/docs/emulator.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr(EmulatorOptionsMarkdown()));
}

}  // namespace
}  // namespace duotone::emulator
