#include "samples/models.h"

#include <string>

#include "base/file.h"
#include "duotone/duotone.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duotone::samples {
namespace {

std::string FileText(const std::string& name) {
  absl::StatusOr<std::string> text =
      ReadFile(std::string(DUOTONE_SOURCE_DIR) + "/samples/models/" + name);
  return text.ok() ? *text : std::string(text.status().message());
}

int64_t ParameterCount(const Model& model) {
  int64_t total = 0;
  for (const Model::Entry& param : model.params()) {
    int64_t count = 1;
    for (const Size& size : param.type.shape) count *= std::stoll(size.ToString());
    total += count;
  }
  return total;
}

TEST(Models, TheFilesAreWhatTheBuildersPrint) {
  for (const NamedModel& known : AllModels()) {
    const std::string name(known.name);
    absl::StatusOr<Model> model = known.build();
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->Text(), FileText(name + ".duo"))
        << "refresh with: print_models " << name << " > samples/models/" << name << ".duo";
  }
}

TEST(Models, TheyHaveAsManyParametersAsTheirPeers) {
  // 784*512+512 + 512*512+512 + 512*10+10.
  EXPECT_EQ(ParameterCount(*Mlp()), 669706);
  // Per block 2*2*128 + 128*384+384 + 128*128+128 + 128*512+512 + 512*128+128 = 198272; besides
  // them the embeddings (65+128)*128, the last norm 2*128 and the head 128*65+65.
  EXPECT_EQ(ParameterCount(*Gpt()), 4 * 198272 + 193 * 128 + 256 + 128 * 65 + 65);
}

TEST(Models, TheGptLooksBackwardsOnly) {
  const GptOptions small{.vocabulary = 7, .width = 8, .heads = 2, .layers = 2, .context = 6};
  Options options{.optimizers = {Sgd{}}};
  absl::StatusOr<TrainSession> session = Compile(*Gpt(small), options);
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<int32_t> x = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> y(6);
  absl::StatusOr<Outputs> before = session->Evaluate({{"x", x}, {"y", y}});
  x[4] = 0;  // the fifth character
  absl::StatusOr<Outputs> after = session->Evaluate({{"x", x}, {"y", y}});
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  for (int position = 0; position < 6; ++position) {
    bool same = true;
    for (int i = 0; i < 7; ++i) {
      const int64_t at = position * 7 + i;
      same = same && before->Find("logits")->Get(at) == after->Find("logits")->Get(at);
    }
    EXPECT_EQ(same, position < 4) << position;
  }
}

TEST(Models, AnUntrainedGptIsNearTheEntropyOfItsVocabulary) {
  const GptOptions small{.vocabulary = 7, .width = 16, .heads = 2, .layers = 1, .context = 4};
  absl::StatusOr<TrainSession> session =
      Compile(*Gpt(small), {.autocast = {.dtype = DType::kBF16}, .optimizers = {AdamW{}}});
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<int32_t> x = {1, 2, 3, 4, 6, 5, 4, 3}, y = {2, 3, 4, 5, 5, 4, 3, 2};
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    absl::StatusOr<Metrics> metrics = session->Step({{"x", x}, {"y", y}});
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    if (step == 0) first = metrics->loss();
    last = metrics->loss();
  }
  EXPECT_NEAR(first, 1.95, 0.6);  // log 7
  EXPECT_LT(last, 0.5 * first);   // two sentences are soon known by heart
}

}  // namespace
}  // namespace duotone::samples
