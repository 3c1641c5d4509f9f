#include "duotone/options.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "duotone/reproducer.h"
#include "duotone/translate_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "passes/options_text.h"

namespace duotone {
namespace {

using ::testing::HasSubstr;

Options Good() { return {.optimizers = {AdamW{}}}; }

TEST(Options, DefaultsWithAnOptimizerAreGood) {
  EXPECT_TRUE(CheckOptions(Good()).ok()) << CheckOptions(Good());
}

struct BadCase {
  const char* sentence;
  std::function<void(Options&)> spoil;
};

TEST(Options, EachBadValueIsASentence) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const BadCase cases[] = {
      {"autocast.dtype must be f16 or bf16, not f32",
       [](Options& o) { o.autocast.dtype = DType::kF32; }},
      {"there is no op 'expp'", [](Options& o) { o.autocast.overrides = {{.op = "expp"}}; }},
      {"an override names an op or a pattern", [](Options& o) { o.autocast.overrides = {{}}; }},
      {"loss_scale.init_scale must be above 0, and is 0",
       [](Options& o) { o.loss_scale = StaticLossScale(0); }},
      {"loss_scale.init_scale must be a finite number, not inf",
       [=](Options& o) { o.loss_scale = DynamicLossScale({.init_scale = inf}); }},
      {"loss_scale.init_scale 1e-40 or its inverse does not fit f32",
       [](Options& o) { o.loss_scale = StaticLossScale(1e-40); }},
      {"loss_scale.growth_factor must be above 1, and is 1",
       [](Options& o) { o.loss_scale = DynamicLossScale({.growth_factor = 1}); }},
      {"loss_scale.backoff_factor must be below 1, and is 1",
       [](Options& o) { o.loss_scale = DynamicLossScale({.backoff_factor = 1}); }},
      {"loss_scale.growth_interval must be at least 1, and is 0",
       [](Options& o) { o.loss_scale = DynamicLossScale({.growth_interval = 0}); }},
      {"loss_scale.max_scale must be above 0",
       [=](Options& o) { o.loss_scale = DynamicLossScale({.max_scale = nan}); }},
      {"loss_scale.init_scale 65536 is outside [min_scale 0, max_scale 1024]",
       [](Options& o) { o.loss_scale = DynamicLossScale({.max_scale = 1024}); }},
      {"max_consecutive_skips must not be negative, and is -1",
       [](Options& o) { o.max_consecutive_skips = -1; }},
      {"optimizers is empty", [](Options& o) { o.optimizers.clear(); }},
      {"optimizers[0]: lr must be a finite number, not nan",
       [=](Options& o) { o.optimizers = {AdamW{.lr = nan}}; }},
      {"optimizers[1]: momentum must be in [0, 1), and is 1",
       [](Options& o) {
         o.optimizers = {AdamW{}, Sgd{.momentum = 1}};
       }},
      {"optimizers[0]: nesterov needs a momentum",
       [](Options& o) { o.optimizers = {Sgd{.nesterov = true}}; }},
      {"optimizers[0]: beta2 must be in [0, 1), and is 1",
       [](Options& o) { o.optimizers = {Adam{.beta2 = 1}}; }},
      {"optimizers[0]: eps must be above 0", [](Options& o) { o.optimizers = {Adam{.eps = 0}}; }},
      {"optimizers[0]: eps 1e-60 becomes 0 in f32",
       [](Options& o) { o.optimizers = {Adam{.eps = 1e-60}}; }},
      {"schedule.total_steps must be above warmup_steps 10, and is 10",
       [](Options& o) { o.optimizers = {Sgd{.schedule = CosineSchedule(10, 10)}}; }},
      {"losses is empty", [](Options& o) { o.losses.clear(); }},
      {"there is no device 'cuda:x'", [](Options& o) { o.device = Device("cuda:x"); }},
      {"there is no device 'cuda:-1'", [](Options& o) { o.device = Device("cuda:-1"); }},
      {"there is no device 'emulated:sm_70': ",
       [](Options& o) { o.device = Device::Emulated("sm_70"); }},
      {"there is no device 'emulated:sm_80,quick': 'quick' is none of unchecked, ",
       [](Options& o) { o.device = Device("emulated:sm_80,quick"); }},
      {"dump.print_after: there is no pass 'fuse-all'",
       [](Options& o) {
         o.dump.print_after = {"*", "fuse-all"};
       }},
      {"threads must be in [0, 4096], and is -2", [](Options& o) { o.threads = -2; }},
  };
  for (const BadCase& bad : cases) {
    Options options = Good();
    bad.spoil(options);
    EXPECT_THAT(std::string(CheckOptions(options).message()), HasSubstr(bad.sentence));
  }
}

TEST(Options, LossScalingIsAutomaticForF16Only) {
  using Kind = passes::LossScaleOptions::Kind;
  Options options = Good();
  EXPECT_EQ(ToPassOptions(options).loss_scale.kind, Kind::kOff);
  options.autocast.dtype = DType::kBF16;
  EXPECT_EQ(ToPassOptions(options).loss_scale.kind, Kind::kOff);
  options.autocast.dtype = DType::kF16;
  EXPECT_EQ(ToPassOptions(options).loss_scale.kind, Kind::kDynamic);
  options.loss_scale = NoLossScale();
  EXPECT_EQ(ToPassOptions(options).loss_scale.kind, Kind::kOff);
}

TEST(Options, SeveralOptimizersGetNumberedNames) {
  const Options options{.optimizers = {Sgd{.params = "tok"}, AdamW{.name = "rest"}, Adam{}}};
  const passes::PassOptions translated = ToPassOptions(options);
  EXPECT_EQ(translated.optimizers[0].name, "optimizer0");
  EXPECT_EQ(translated.optimizers[1].name, "rest");
  EXPECT_EQ(translated.optimizers[2].name, "optimizer2");
  EXPECT_EQ(translated.optimizers[0].params, "tok");
}

TEST(Options, TheTextNamesWhatDiffersFromTheDefaults) {
  Options options{.autocast = {.dtype = DType::kF16, .policy = CastPolicy::kPyTorch},
                  .loss_scale = DynamicLossScale({.growth_interval = 7}),
                  .skip_nonfinite = false,
                  .optimizers = {Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}},
                  .losses = {"a", "b"}};
  options.autocast.overrides = {{.op = "exp", .tone = Tone::kAllow}, {.pattern = "fc1/.*"}};
  EXPECT_EQ(internal::OptionsText(ToPassOptions(options)),
            "losses=a,b dtype=f16 policy=pytorch op:exp=allow name:fc1/.*=deny loss_scale=dynamic "
            "growth_interval=7 skip_nonfinite=false optimizer=sgd lr=0.1 momentum=0.9 "
            "nesterov=true");
}

// Reading the text gives the options back, also where the defaults of an optimizer's kind are not
// those of the struct: AdamW decays unless told otherwise.
TEST(Options, TheTextReadsBackAsTheSameOptions) {
  const Options options{.optimizers = {AdamW{.weight_decay = 0}, AdamW{}, Sgd{}, Adam{.lr = 0.3}}};
  const passes::PassOptions translated = ToPassOptions(options);
  passes::PassOptions read;
  const absl::Status status = passes::ParseOptions(internal::OptionsText(translated), read);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(read.optimizers.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read.optimizers[i].kind, translated.optimizers[i].kind) << i;
    EXPECT_EQ(read.optimizers[i].name, translated.optimizers[i].name) << i;
    EXPECT_EQ(read.optimizers[i].lr, translated.optimizers[i].lr) << i;
    EXPECT_EQ(read.optimizers[i].weight_decay, translated.optimizers[i].weight_decay) << i;
  }
}

// The defaults that --help and docs/passes.md show are those that hold: setting them changes
// nothing.
TEST(Options, TheDocumentedDefaultsHold) {
  for (const passes::OptionKey& key : passes::OptionKeys()) {
    if (key.initial.empty()) continue;
    const bool of_sgd = key.name == "momentum" || key.name == "nesterov";
    passes::PassOptions options;
    ASSERT_TRUE(passes::ParseOptions(of_sgd ? "optimizer=sgd" : "optimizer=adam", options).ok());
    const std::string before = internal::OptionsText(options);
    const absl::Status status = passes::SetOption(options, key.name, key.initial);
    ASSERT_TRUE(status.ok()) << key.name << ": " << status;
    EXPECT_EQ(internal::OptionsText(options), before) << key.name;
  }
}

}  // namespace
}  // namespace duotone
