// A session whose module went through weight-copies trains to the same bits as one without, over
// skipped steps and checkpoints.
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/float16.h"
#include "duotone/backend.h"
#include "duotone/duotone.h"
#include "duotone/internal.h"
#include "duotone/session_impl.h"
#include "duotone/translate_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"

namespace duotone {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Model Network() {
  GraphBuilder b("net");
  Value x = b.Input("x", F32({"B", 2}));
  Value h = Dropout(Tanh(MatMul(x, b.Param("w1", F32({2, 3}), Normal(1)))), 0.25);
  b.Output("loss", ReduceMean(MatMul(h, b.Param("w2", F32({3, 1}), Normal(1)))));
  return *std::move(b).Build();
}

// Compile(), and weight-copies after the training pipeline if `copies`.
TrainSession Start(bool copies, uint64_t seed = 5) {
  const Model model = Network();
  const Options options{
      .autocast = {.dtype = DType::kF16}, .optimizers = {AdamW{.lr = 0.1}}, .seed = seed};
  std::unique_ptr<ir::Module> module = internal::Access::ModuleOf(model)->Clone();
  absl::StatusOr<passes::PassList> passes = passes::MakePipeline("train", ToPassOptions(options));
  EXPECT_TRUE(passes.ok()) << passes.status();
  if (copies) passes->push_back(std::move((*passes::MakePasses({"weight-copies"}, {}))[0]));
  const auto run = passes::PassManager().Run(*passes, *module);
  EXPECT_TRUE(run.ok()) << run.status();
  auto impl = internal::SessionImpl::Create(std::move(module), options,
                                            internal::HashModel(*internal::Access::ModuleOf(model)),
                                            {}, *internal::MakeBackend(options));
  EXPECT_TRUE(impl.ok()) << impl.status();
  return internal::SessionImpl::Wrap(*std::move(impl));
}

void Steps(TrainSession& session, std::vector<float> first_feeds) {
  for (float first : first_feeds) {
    const std::vector<float> x = {first, 2, 3, 4};
    absl::StatusOr<Metrics> metrics = session.Step({{"x", x}});
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    EXPECT_EQ(metrics->skipped(), std::isnan(first));
  }
}

// Every entry that `plain` has, and the copies are the weights rounded to f16.
void ExpectSameState(const TrainSession& plain, const TrainSession& with_copies) {
  for (const StateInfo& info : plain.States()) {
    EXPECT_TRUE(*plain.GetState(info.name) == *with_copies.GetState(info.name)) << info.name;
  }
  for (const std::string name : {"w1", "w2"}) {
    const std::vector<float> weight = plain.GetState(name)->ToFloats();
    std::vector<float> rounded;
    for (float value : weight) rounded.push_back(ToF32(ToF16(value)));
    absl::StatusOr<Tensor> copy = with_copies.GetState(name + ".f16");
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(copy->ToFloats(), rounded) << name;
    EXPECT_NE(weight, rounded) << "the weights say nothing";
  }
}

TEST(WeightCopies, TrainToTheSameBits) {
  TrainSession plain = Start(false), copies = Start(true);
  ExpectSameState(plain, copies);
  for (TrainSession* session : {&plain, &copies}) Steps(*session, {1, -3, kNaN, 2, 1});
  ExpectSameState(plain, copies);
  const std::vector<float> x = {1, 2, 3, 4};
  EXPECT_EQ(*plain.Evaluate({{"x", x}})->Get("loss"), *copies.Evaluate({{"x", x}})->Get("loss"));
}

// Copies are not saved, so a checkpoint fits a session with or without them.
TEST(WeightCopies, AreMadeAnewFromACheckpoint) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "copies.duock";
  std::filesystem::remove_all(path);
  TrainSession saved = Start(true);
  Steps(saved, {1, kNaN, 2});
  ASSERT_TRUE(saved.SaveCheckpoint(path.string()).ok());
  TrainSession plain = Start(false, /*seed=*/99), copies = Start(true, /*seed=*/99);
  for (TrainSession* session : {&plain, &copies}) {
    const absl::Status loaded = session->LoadCheckpoint(path.string()).status();
    ASSERT_TRUE(loaded.ok()) << loaded;
  }
  ExpectSameState(plain, copies);
  for (TrainSession* session : {&plain, &copies, &saved}) Steps(*session, {3, 1});
  ExpectSameState(plain, copies);
  ExpectSameState(plain, saved);
}

// A weight that is set by hand changes its copy too.
TEST(WeightCopies, FollowSetState) {
  TrainSession copies = Start(true);
  const std::vector<float> w2 = {0.1f, 2049, -3};
  ASSERT_TRUE(copies.SetState("w2", w2).ok());
  EXPECT_THAT(copies.GetState("w2.f16")->ToFloats(),
              ::testing::ElementsAre(0.0999755859375f, 2048, -3));
}

}  // namespace
}  // namespace duotone
