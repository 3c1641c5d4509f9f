#include "runtime/state_store.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/host_kernels.h"

namespace duotone::runtime {
namespace {

using ::testing::ElementsAre;

TEST(StateStore, ChecksNamesAndSizes) {
  auto device = CreateCpuDevice();
  StateStore state(device.get());
  ASSERT_TRUE(state.Add("w", DType::kF32, {2}).ok());
  EXPECT_EQ(state.Add("w", DType::kF32, {2}).message(), "state %w: is there already");
  float values[3] = {};
  EXPECT_EQ(state.Write("w", values, 12).message(), "state %w: f32[2] has 8 bytes, not 12");
  EXPECT_EQ(state.Read("v", values, 8).message(), "state %v: there is no such entry");
  const int64_t big = int64_t{1} << 40;
  EXPECT_EQ(state.Add("b", DType::kF32, {big, big}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(StateStore, AsksTheDeviceAndGivesItsMemoryBack) {
  FakeDevice device;
  {
    StateStore state(&device);
    ASSERT_TRUE(state.Add("w", DType::kF16, {2, 3}).ok());
    const uint16_t values[6] = {1, 2, 3, 4, 5, 6};
    uint16_t back[6] = {};
    ASSERT_TRUE(state.Write("w", values, 12).ok());
    ASSERT_TRUE(state.Read("w", back, 12).ok());
    EXPECT_THAT(back, ElementsAre(1, 2, 3, 4, 5, 6));
  }
  EXPECT_THAT(device.log(), ElementsAre("allocate 12 state %w, f16[2, 3]", "upload 12",
                                        "download 12", "free 12"));
  EXPECT_EQ(device.used(), 0);
}

TEST(StateStore, PassesTheDevicesErrorOn) {
  FakeDevice device;
  StateStore state(&device);
  device.FailNext(absl::ResourceExhaustedError("fake: full"));
  EXPECT_EQ(state.Add("w", DType::kF32, {2}).message(), "fake: full");
  EXPECT_EQ(state.Find("w"), nullptr);
}

TEST(FakeDevice, RecordsLoadsAndRunsAndFreesArenas) {
  FakeDevice device;
  Program program{.name = "step"};
  const int x = AddBuffer(program, "x", DType::kF32, {4}, BufferKind::kInput);
  {
    StateStore state(&device);
    auto loaded = device.Load(std::make_shared<Program>(program), state);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const float values[4] = {};
    ASSERT_TRUE(device.Upload((*loaded)->memory(x), values, sizeof(values)).ok());
    ASSERT_TRUE(device.Run(**loaded, {.seed = 3}).ok());
    ASSERT_TRUE(device.Synchronize().ok());
  }
  EXPECT_THAT(device.log(), ElementsAre("load @step", "allocate 64 arena", "upload 16",
                                        "run @step seed=3", "synchronize", "free 64"));
}

}  // namespace
}  // namespace duotone::runtime
