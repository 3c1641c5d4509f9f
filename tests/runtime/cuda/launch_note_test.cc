// What a device that checks kernels is told about each launch.
#include "runtime/cuda/launch_note.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duotone::runtime {
namespace {

using ::testing::IsNull;
using ::testing::NotNull;
using ::testing::SizeIs;

constexpr CuDeviceAddress kBase = 0x7000;

// Buffers of 64 bytes at the offsets given, all temporaries.
class LaunchNoteTest : public testing::Test {
 protected:
  int AddBuffer(const char* name, int64_t offset, BufferKind kind = BufferKind::kTemporary) {
    program_->buffers.push_back({.name = name, .bytes = 64, .kind = kind, .offset = offset});
    addresses_.push_back(kBase + static_cast<CuDeviceAddress>(offset));
    return static_cast<int>(program_->buffers.size()) - 1;
  }
  void AddLaunch(std::vector<int> reads, std::vector<int> writes,
                 std::vector<LaunchArgument> arguments = {}) {
    program_->steps.push_back({KernelLaunch{
        .node = "n", .arguments = std::move(arguments), .reads = reads, .writes = writes}});
  }
  std::vector<std::shared_ptr<const LaunchNote>> Notes() {
    values_.resize(program_->steps.size(), {0x9000, 0x9000, 0x9000});
    return MakeLaunchNotes(program_, {addresses_, 0xa000, 0xb000, values_});
  }
  static const LaunchNote::Range& RangeOf(const LaunchNote& note, std::string_view name) {
    for (const LaunchNote::Range& range : note.ranges) {
      if (range.name == name) return range;
    }
    ADD_FAILURE() << "no range " << name;
    return note.ranges.front();
  }

  std::shared_ptr<Program> program_ = std::make_shared<Program>();
  std::vector<CuDeviceAddress> addresses_;
  std::vector<std::vector<uint64_t>> values_;
};

TEST_F(LaunchNoteTest, BuffersAreReadOrWritten) {
  const int x = AddBuffer("x", 0, BufferKind::kInput), y = AddBuffer("y", 64);
  AddLaunch({x}, {y});
  const auto notes = Notes();
  ASSERT_THAT(notes, SizeIs(1));
  ASSERT_THAT(notes[0]->ranges, SizeIs(2));
  EXPECT_FALSE(RangeOf(*notes[0], "%x").is_written);
  EXPECT_FALSE(RangeOf(*notes[0], "%x").is_undefined);
  EXPECT_TRUE(RangeOf(*notes[0], "%y").is_written);
  EXPECT_EQ(RangeOf(*notes[0], "%y").address, kBase + 64);
  EXPECT_EQ(RangeOf(*notes[0], "%y").bytes, 64);
  EXPECT_EQ(RangeOf(*notes[0], "%y").element_bytes, 4) << "of f32";
  EXPECT_EQ(notes[0]->launch->node, "n");
}

// What lies there before is another buffer's: only the first launch may not rely on it.
TEST_F(LaunchNoteTest, ATemporaryIsUndefinedBeforeItsFirstLaunchOnly) {
  const int t = AddBuffer("t", 0);
  AddLaunch({}, {t});
  AddLaunch({}, {t});
  const auto notes = Notes();
  EXPECT_TRUE(RangeOf(*notes[0], "%t").is_undefined);
  EXPECT_FALSE(RangeOf(*notes[1], "%t").is_undefined);
}

TEST_F(LaunchNoteTest, WhatIsReadOrFilledOrStateIsDefined) {
  const int in_place = AddBuffer("in_place", 0), filled = AddBuffer("filled", 64);
  const int state = AddBuffer("state", 128, BufferKind::kState);
  program_->steps.push_back({Fill{filled, {0}}});
  AddLaunch({in_place}, {in_place, filled, state});
  const auto notes = Notes();
  EXPECT_THAT(notes[0], IsNull());
  ASSERT_THAT(notes[1], NotNull());
  ASSERT_THAT(notes[1]->ranges, SizeIs(3));
  for (const LaunchNote::Range& range : notes[1]->ranges) {
    EXPECT_FALSE(range.is_undefined) << range.name;
    EXPECT_TRUE(range.is_written) << range.name;
  }
}

TEST_F(LaunchNoteTest, BytesThatTheLaunchReadsAsAnotherBufferAreDefined) {
  const int read = AddBuffer("read", 0), written = AddBuffer("written", 0);
  AddLaunch({read}, {written});
  EXPECT_FALSE(RangeOf(*Notes()[0], "%written").is_undefined);
}

// A view is its root: writing the one defines the other.
TEST_F(LaunchNoteTest, AViewIsItsRoot) {
  const int root = AddBuffer("root", 0), view = AddBuffer("view", 0);
  program_->buffers[view].alias_of = root;
  AddLaunch({}, {view});
  AddLaunch({}, {root});
  const auto notes = Notes();
  EXPECT_TRUE(RangeOf(*notes[0], "%view").is_undefined);
  EXPECT_FALSE(RangeOf(*notes[1], "%root").is_undefined);
}

TEST_F(LaunchNoteTest, WhatBelongsToNoBufferIsNamed) {
  const int x = AddBuffer("x", 0, BufferKind::kInput);
  AddLaunch({x}, {},
            {{.kind = LaunchArgument::Kind::kTable, .table = {{x, 0}, {x, 16}}},
             {.kind = LaunchArgument::Kind::kRandom},
             {.kind = LaunchArgument::Kind::kErrors}});
  const auto notes = Notes();
  EXPECT_EQ(RangeOf(*notes[0], "the table of addresses").address, 0x9000u);
  EXPECT_EQ(RangeOf(*notes[0], "the table of addresses").bytes, 16);
  EXPECT_EQ(RangeOf(*notes[0], "the random state").address, 0xa000u);
  EXPECT_FALSE(RangeOf(*notes[0], "the random state").is_written);
  EXPECT_EQ(RangeOf(*notes[0], "the error record").address, 0xb000u);
  EXPECT_TRUE(RangeOf(*notes[0], "the error record").is_written);
}

// Reports speak of launches whose program is gone.
TEST_F(LaunchNoteTest, ANoteKeepsTheProgram) {
  AddLaunch({}, {AddBuffer("y", 0)});
  const std::shared_ptr<const LaunchNote> note = Notes()[0];
  std::weak_ptr<Program> program = program_;
  program_.reset();
  EXPECT_FALSE(program.expired());
  EXPECT_EQ(note->launch->node, "n");
}

}  // namespace
}  // namespace duotone::runtime
