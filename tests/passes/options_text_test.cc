#include "passes/options_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duotone::passes {
namespace {

using testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  PassOptions options;
  return ParseOptions(text, options).ToString();
}

TEST(OptionsText, SetsFieldsOfAllPasses) {
  PassOptions options;
  const absl::Status status = ParseOptions(
      "dtype=bf16 policy=pytorch device=cpu losses=a,b loss_scale=static init_scale=1024", options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(options.autocast.dtype, DType::kBF16);
  EXPECT_EQ(options.autocast.policy, CastPolicy::kPyTorch);
  EXPECT_EQ(options.autocast.torch_device, TorchDevice::kCpu);
  EXPECT_THAT(options.losses, testing::ElementsAre("a", "b"));
  EXPECT_EQ(options.loss_scale.kind, LossScaleOptions::Kind::kStatic);
  EXPECT_EQ(options.loss_scale.init_scale, 1024.0);
}

TEST(OptionsText, KeysOfAnOptimizerBelongToTheLastOneBegun) {
  PassOptions options;
  const absl::Status status = ParseOptions(
      "optimizer=sgd lr=0.1 params=b.* optimizer=adamw lr=0.01 schedule=cosine", options);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(options.optimizers.size(), 2u);
  EXPECT_EQ(options.optimizers[0].kind, OptimizerOptions::Kind::kSgd);
  EXPECT_EQ(options.optimizers[0].lr, 0.1);
  EXPECT_EQ(options.optimizers[0].params, "b.*");
  EXPECT_EQ(options.optimizers[1].lr, 0.01);
  EXPECT_EQ(options.optimizers[1].schedule.kind, "cosine");
}

TEST(OptionsText, OverridesNameAnOpOrAPattern) {
  PassOptions options;
  const absl::Status status = ParseOptions("op:exp=allow name:fc[0-9]=deny", options);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(options.autocast.overrides.size(), 2u);
  EXPECT_EQ(options.autocast.overrides[0].op, ir::Op::kExp);
  EXPECT_EQ(options.autocast.overrides[0].tone, ir::Tone::kAllow);
  EXPECT_EQ(options.autocast.overrides[1].pattern, "fc[0-9]");
}

TEST(OptionsText, ErrorsNameTheOptionAndItsValues) {
  EXPECT_THAT(ErrorOf("dtyp=f16"), HasSubstr("option dtyp: there is no such option"));
  EXPECT_THAT(ErrorOf("dtype=f8"),
              HasSubstr("option dtype: 'f8' is unknown; known: off, f16, bf16"));
  EXPECT_THAT(ErrorOf("optimizer=sgd lr=fast"), HasSubstr("option lr: 'fast' is no number"));
  EXPECT_THAT(ErrorOf("lr=0.1"), HasSubstr("write optimizer="));
  EXPECT_THAT(ErrorOf("optimizer=adamw momentum=0.9"), HasSubstr("only sgd has it"));
  EXPECT_THAT(ErrorOf("optimizer=sgd beta2=0.9"), HasSubstr("sgd has no such option"));
  EXPECT_THAT(ErrorOf("op:expp=deny"), HasSubstr("there is no op 'expp'"));
  EXPECT_THAT(ErrorOf("dtype"), HasSubstr("expected key=value"));
}

TEST(OptionsText, PassListsAndPipelines) {
  const auto list = ParsePasses("autocast{dtype=f16},dce");
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[0]->name(), "autocast");
  const auto pipeline = ParsePasses("--pipeline=infer dtype=f16");
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ(pipeline->front()->name(), "simplify");
}

TEST(OptionsText, BrokenPassListsAreErrors) {
  for (const char* text : {"", "dce,", "dce dce", "autocast{dtype=f16", "autocast{dtype=f16}dce",
                           "--pipeline=", "--pipeline=train{}"}) {
    EXPECT_FALSE(ParsePasses(text).ok()) << text;
  }
}

}  // namespace
}  // namespace duotone::passes
