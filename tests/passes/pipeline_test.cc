#include "passes/pipeline.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <algorithm>

#include "passes/registry.h"

namespace duotone::passes {
namespace {

using testing::HasSubstr;

TEST(Pipeline, EachStepIsARegisteredPassWithAReason) {
  for (const Pipeline& pipeline : AllPipelines()) {
    for (const PipelineStep& step : pipeline.steps) {
      EXPECT_NE(FindPass(step.pass), nullptr) << pipeline.name << ": " << step.pass;
      EXPECT_FALSE(step.reason.empty()) << step.pass;
    }
  }
}

TEST(Pipeline, AutocastStandsBeforeAutodiffAndDceLast) {
  const auto passes = MakePipeline("train", {});
  ASSERT_TRUE(passes.ok()) << passes.status();
  auto position = [&](std::string_view name) {
    return std::find_if(passes->begin(), passes->end(),
                        [&](const auto& pass) { return pass->name() == name; });
  };
  ASSERT_NE(position("autocast"), passes->end());
  EXPECT_LT(position("autocast"), position("autodiff"));
  EXPECT_EQ(passes->back()->name(), "dce");
}

TEST(Pipeline, AnUnknownNameIsAnErrorThatListsTheKnown) {
  EXPECT_THAT(MakePipeline("trian", {}).status().ToString(),
              HasSubstr("known: train, infer, cuda"));
  EXPECT_THAT(MakePasses({"dce", "dze"}, {}).status().ToString(),
              HasSubstr("there is no pass 'dze'"));
}

TEST(Registry, IsSortedAndEachPassKnowsItsName) {
  EXPECT_TRUE(std::is_sorted(AllPasses().begin(), AllPasses().end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const PassInfo& info : AllPasses()) EXPECT_EQ(info.make({})->name(), info.name);
}

}  // namespace
}  // namespace duotone::passes
