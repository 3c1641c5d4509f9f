// The progress line, the loss scale's history and the training log.
#include "tools/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "base/file.h"
#include "tools/training_log.h"

namespace duotone::tools {
namespace {

using ::testing::HasSubstr;

TEST(ProgressTest, ALineReadsLikeTheDesign) {
  const StepReport report{.epoch = 1,
                          .step_in_epoch = 100,
                          .steps_per_epoch = 469,
                          .steps_left = 1900,
                          .loss = 0.53214,
                          .loss_scale = 65536,
                          .skipped_total = 1};
  EXPECT_EQ(ProgressLine(report, true, 12345, 2.1),
            "epoch 1  step 100/469  loss 0.5321  scale 65536 (1 skipped)  12.3k samples/s  2.1 "
            "ms/step  eta 4.0s");
}

TEST(ProgressTest, WithoutScalingTheScaleIsNotShown) {
  const StepReport report{
      .epoch = 2, .step_in_epoch = 1, .steps_per_epoch = 3, .steps_left = 200000, .loss = 2};
  EXPECT_EQ(ProgressLine(report, false, 99, 1000),
            "epoch 2  step 1/3  loss 2.0000  99 samples/s  1000.0 ms/step  eta 55.6h");
}

TEST(ProgressTest, ALongEvaluationSaysHowFarItIs) {
  EXPECT_EQ(EvaluationLine(3, 79, 154.2, 830),
            "evaluation  batch 3/79  154 samples/s  830.0 ms/batch  eta 63.1s");
}

TEST(ScaleHistoryTest, NamesTheStepOfEachChange) {
  ScaleHistory history;
  history.Add(1, 65536);
  history.Add(2, 65536);
  history.Add(12, 32768);
  EXPECT_EQ(history.ToString(), "65536 from step 1, 32768 from step 12");
}

TEST(ScaleHistoryTest, LeavesOutTheMiddleOfALongOne) {
  ScaleHistory history;
  for (int i = 1; i <= 20; ++i) history.Add(i, i);
  EXPECT_EQ(history.ToString(),
            "1 from step 1, 2 from step 2, 3 from step 3, 4 from step 4, ... 12 changes ..., 17 "
            "from step 17, 18 from step 18, "
            "19 from step 19, 20 from step 20");
}

std::string LogPath(const std::string& name) {
  return ::testing::TempDir() + "duotone_log_test_" + name;
}

absl::Status WriteSteps(const std::string& path, int64_t resumed_at, int64_t first, int64_t last) {
  absl::StatusOr<TrainingLog> log = TrainingLog::Open(path, resumed_at);
  if (!log.ok()) return log.status();
  for (int64_t step = first; step <= last; ++step) {
    const absl::Status status = log->Write(
        {.step = step, .loss = 0.5, .loss_scale = 1024, .skipped = step == 2, .ms = 1.5});
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

TEST(TrainingLogTest, HasARowPerStep) {
  ASSERT_TRUE(WriteSteps(LogPath("a.csv"), 0, 1, 2).ok());
  EXPECT_EQ(*ReadFile(LogPath("a.csv")),
            "step,loss,loss_scale,skipped,ms\n1,0.5,1024,0,1.500\n2,0.5,1024,1,1.500\n");
  ASSERT_TRUE(WriteSteps(LogPath("a.jsonl"), 0, 2, 2).ok());
  EXPECT_EQ(*ReadFile(LogPath("a.jsonl")),
            "{\"step\":2,\"loss\":0.5,\"loss_scale\":1024,\"skipped\":true,\"ms\":1.500}\n");
}

TEST(TrainingLogTest, AResumedRunLeavesTheLogOfAnUninterruptedOne) {
  for (const std::string suffix : {"csv", "jsonl"}) {
    ASSERT_TRUE(WriteSteps(LogPath("whole." + suffix), 0, 1, 6).ok());
    ASSERT_TRUE(WriteSteps(LogPath("parts." + suffix), 0, 1, 5).ok());
    ASSERT_TRUE(WriteSteps(LogPath("parts." + suffix), 3, 4, 6).ok());
    EXPECT_EQ(*ReadFile(LogPath("parts." + suffix)), *ReadFile(LogPath("whole." + suffix)));
  }
}

TEST(TrainingLogTest, InfAndNaNAreValidJson) {
  absl::StatusOr<TrainingLog> log = TrainingLog::Open(LogPath("n.jsonl"), 0);
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE(log->Write({.step = 1, .loss = std::numeric_limits<double>::quiet_NaN()}).ok());
  EXPECT_THAT(*ReadFile(LogPath("n.jsonl")), HasSubstr("\"loss\":\"nan\""));
}

TEST(TrainingLogTest, OtherEndingsAreRefused) {
  EXPECT_THAT(std::string(TrainingLog::Open("x.txt", 0).status().message()),
              HasSubstr("must end in .csv or .jsonl"));
}

}  // namespace
}  // namespace duotone::tools
