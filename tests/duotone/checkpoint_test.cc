#include "duotone/checkpoint.h"

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/file.h"
#include "duotone/duotone.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duotone {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string TempPath(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(path);
  return path.string();
}

Model Network(int width = 3) {
  GraphBuilder b("net");
  Value x = b.Input("x", F32({"B", 2}));
  Value h = Dropout(Tanh(MatMul(x, b.Param("w1", F32({2, width}), Normal(1)))), 0.25);
  b.Output("loss", ReduceMean(MatMul(h, b.Param("w2", F32({width, 1}), Normal(1)))));
  return *std::move(b).Build();
}

TrainSession Start(const Model& model, uint64_t seed = 5, double lr = 0.1) {
  Options options{
      .autocast = {.dtype = DType::kF16}, .optimizers = {AdamW{.lr = lr}}, .seed = seed};
  options.reproducer_directory = "";
  absl::StatusOr<TrainSession> session = Compile(model, options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

void Steps(TrainSession& session, int count, float first = 1) {
  const std::vector<float> x = {first, 2, 3, 4};
  for (int i = 0; i < count; ++i) ASSERT_TRUE(session.Step({{"x", x}}).ok());
}

void ExpectEqualStates(const TrainSession& a, const TrainSession& b) {
  ASSERT_EQ(a.States().size(), b.States().size());
  for (const StateInfo& info : a.States()) {
    EXPECT_TRUE(*a.GetState(info.name) == *b.GetState(info.name)) << info.name;
  }
}

// Saves after `before` steps, resumes in a new session with another seed, and runs both on.
void ExpectExactResume(int before, float last_feed) {
  const std::string path = TempPath("resume.duock");
  TrainSession session = Start(Network());
  Steps(session, before);
  if (before > 0) Steps(session, 1, last_feed);
  absl::StatusOr<CheckpointInfo> saved = session.SaveCheckpoint(path, {{{"epoch", 7}}});
  ASSERT_TRUE(saved.ok()) << saved.status();
  TrainSession resumed = Start(Network(), /*seed=*/99);
  absl::StatusOr<CheckpointInfo> loaded = resumed.LoadCheckpoint(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->step, session.step());
  EXPECT_EQ(loaded->extras.counters.at("epoch"), 7);
  EXPECT_EQ(resumed.seed(), 5u);
  ExpectEqualStates(session, resumed);
  Steps(session, 3);
  Steps(resumed, 3);
  ExpectEqualStates(session, resumed);  // dropout draws the same numbers too
}

TEST(Checkpoint, ResumesExactly) { ExpectExactResume(4, 1); }
TEST(Checkpoint, ResumesExactlyBeforeTheFirstStep) { ExpectExactResume(0, 1); }
TEST(Checkpoint, ResumesExactlyAfterASkippedStep) {
  ExpectExactResume(2, std::numeric_limits<float>::quiet_NaN());
}

TEST(Checkpoint, ADirectoryKeepsFilesAndTheLatest) {
  const std::string directory = TempPath("run") + "/";
  TrainSession session = Start(Network());
  Steps(session, 1);
  ASSERT_TRUE(session.SaveCheckpoint(directory).ok());
  Steps(session, 1);
  absl::StatusOr<CheckpointInfo> saved = session.SaveCheckpoint(directory);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_THAT(saved->path, HasSubstr("step-00000002.duock"));
  TrainSession resumed = Start(Network());
  absl::StatusOr<CheckpointInfo> loaded = resumed.LoadCheckpoint(directory);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->step, 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 3);
}

TEST(Checkpoint, AnEmptyDirectoryIsASentence) {
  const std::string directory = TempPath("empty");
  std::filesystem::create_directories(directory);
  EXPECT_THAT(std::string(Start(Network()).LoadCheckpoint(directory).status().message()),
              HasSubstr("holds no checkpoint"));
}

TEST(Checkpoint, EveryTruncationAndFlippedByteIsFound) {
  const std::string path = TempPath("whole.duock"), broken = TempPath("broken.duock");
  Checkpoint checkpoint{.model = "m", .seed = 1, .step = 2};
  checkpoint.entries.push_back({"w", StateKind::kParam, Tensor(DType::kF16, {2, 2})});
  checkpoint.extras.counters["epoch"] = 3;
  ASSERT_TRUE(WriteCheckpointFile(path, checkpoint).ok());
  const std::string bytes = *ReadFile(path);
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_TRUE(WriteFileAtomically(broken, bytes.substr(0, size)).ok());
    EXPECT_FALSE(ReadCheckpointFile(broken).ok()) << size;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] ^= 0x10;
    ASSERT_TRUE(WriteFileAtomically(broken, flipped).ok());
    EXPECT_FALSE(ReadCheckpointFile(broken).ok()) << i;
  }
}

TEST(Checkpoint, WhatIsWrongWithAFileIsSaid) {
  const std::string path = TempPath("file.duock");
  TrainSession session = Start(Network());
  auto error = [&] { return std::string(session.LoadCheckpoint(path).status().message()); };
  EXPECT_THAT(error(), HasSubstr("cannot open"));
  ASSERT_TRUE(WriteFileAtomically(path, "PK\x03\x04 something else").ok());
  EXPECT_EQ(error(), "'" + path + "' is no Duotone checkpoint");
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  const std::string bytes = *ReadFile(path);
  ASSERT_TRUE(WriteFileAtomically(path, bytes.substr(0, bytes.size() - 5)).ok());
  EXPECT_THAT(error(), MatchesRegex(".*is truncated: it has [0-9]+ of [0-9]+ bytes"));
  ASSERT_TRUE(WriteFileAtomically(path, bytes + "more").ok());
  EXPECT_THAT(error(), HasSubstr("is damaged"));
  std::string newer = bytes;
  newer[8] = 2;
  ASSERT_TRUE(WriteFileAtomically(path, newer).ok());
  EXPECT_THAT(error(), HasSubstr("is a checkpoint of version 2; this build reads version 1"));
}

TEST(Checkpoint, AnotherModelIsRefusedAndNothingChanges) {
  const std::string path = TempPath("other.duock");
  ASSERT_TRUE(Start(Network(4)).SaveCheckpoint(path).ok());
  TrainSession session = Start(Network(3)), untouched = Start(Network(3));
  EXPECT_THAT(std::string(session.LoadCheckpoint(path).status().message()),
              HasSubstr("was saved from another model"));
  EXPECT_THAT(std::string(session.LoadCheckpoint(path, {.params_only = true}).status().message()),
              HasSubstr("its w1 is f32[2, 4]; this session's is f32[2, 3]"));
  ExpectEqualStates(session, untouched);
}

TEST(Checkpoint, OtherOptionsAreRefusedButParametersCanBeTaken) {
  const std::string path = TempPath("options.duock");
  TrainSession adam = Start(Network());
  Steps(adam, 2);
  ASSERT_TRUE(adam.SaveCheckpoint(path).ok());
  Options options{.optimizers = {Sgd{}}};
  absl::StatusOr<TrainSession> sgd = Compile(Network(), options);
  ASSERT_TRUE(sgd.ok()) << sgd.status();
  EXPECT_THAT(std::string(sgd->LoadCheckpoint(path).status().message()),
              HasSubstr("means nothing to this session"));
  ASSERT_TRUE(sgd->LoadCheckpoint(path, {.params_only = true}).ok());
  EXPECT_TRUE(*sgd->GetState("w1") == *adam.GetState("w1"));
  EXPECT_EQ(sgd->step(), 0);
}

TEST(Checkpoint, AFailedSaveKeepsTheOldFile) {
  const std::string path = TempPath("kept.duock");
  TrainSession session = Start(Network());
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  EXPECT_FALSE(session.SaveCheckpoint(path + "/below_a_file").ok());
  EXPECT_TRUE(session.LoadCheckpoint(path).ok());
}

}  // namespace
}  // namespace duotone
