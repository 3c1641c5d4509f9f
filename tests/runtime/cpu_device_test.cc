#include "runtime/cpu/cpu_device.h"

#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/state_store.h"
#include "tests/runtime/host_kernels.h"

namespace duotone::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> Download(Device& device, const LoadedProgram& program, int buffer) {
  const DeviceMemory memory = program.memory(buffer);
  std::vector<T> values(static_cast<size_t>(memory.bytes) / sizeof(T));
  EXPECT_TRUE(device.Download(memory, values.data(), memory.bytes).ok());
  return values;
}

template <typename T>
void Upload(Device& device, const LoadedProgram& program, int buffer,
            const std::vector<T>& values) {
  const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(T));
  ASSERT_TRUE(device.Upload(program.memory(buffer), values.data(), bytes).ok());
}

std::unique_ptr<LoadedProgram> MustLoad(Device& device, Program program, StateStore& state) {
  auto loaded = device.Load(std::make_shared<Program>(std::move(program)), state);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *std::move(loaded);
}

TEST(CpuDevice, RunsCallsCopiesAndFillsInOrder) {
  Program program{.name = "p"};
  const int x = AddBuffer(program, "x", DType::kF32, {3}, BufferKind::kInput);
  const int y = AddBuffer(program, "y", DType::kF32, {3}, BufferKind::kOutput);
  const int z = AddBuffer(program, "z", DType::kF32, {3}, BufferKind::kOutput);
  program.steps.push_back({Copy{x, y}});
  program.steps.push_back(CallStep({x}, {y}, 3, [](const auto& buffers, const auto&, int64_t i) {
    static_cast<float*>(buffers[1])[i] += 10 * static_cast<float*>(buffers[0])[i];
  }));
  program.steps.push_back({Fill{z, {0, 0, 0x80, 0x3f}}});
  auto device = CreateCpuDevice({.threads = 2});
  StateStore state(device.get());
  auto loaded = MustLoad(*device, program, state);
  Upload<float>(*device, *loaded, x, {1, 2, 3});
  ASSERT_TRUE(device->Run(*loaded, {}).ok());
  EXPECT_THAT(Download<float>(*device, *loaded, y), ElementsAre(11, 22, 33));
  EXPECT_THAT(Download<float>(*device, *loaded, z), ElementsAre(1, 1, 1));
}

TEST(CpuDevice, FillsConstantsWhenItLoads) {
  Program program{.name = "p"};
  const int ones = AddBuffer(program, "ones", DType::kI32, {5}, BufferKind::kConstant);
  const int iota = AddBuffer(program, "iota", DType::kU8, {3}, BufferKind::kConstant);
  const int none = AddBuffer(program, "none", DType::kI32, {0}, BufferKind::kConstant);
  program.constants = {{ones, {1, 0, 0, 0}}, {iota, {0, 1, 2}}, {none, {}}};
  auto device = CreateCpuDevice();
  StateStore state(device.get());
  auto loaded = MustLoad(*device, program, state);
  EXPECT_THAT(Download<int32_t>(*device, *loaded, ones), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(Download<uint8_t>(*device, *loaded, iota), ElementsAre(0, 1, 2));
}

TEST(CpuDevice, SkipsStepsWhoseGuardIsFalse) {
  Program program{.name = "p"};
  const int ok = AddBuffer(program, "ok", DType::kBool, {}, BufferKind::kInput);
  const int x = AddBuffer(program, "x", DType::kI32, {}, BufferKind::kInput);
  const int w = AddBuffer(program, "w", DType::kI32, {}, BufferKind::kState);
  program.steps.push_back({Copy{x, w}, ok});
  auto device = CreateCpuDevice();
  StateStore state(device.get());
  ASSERT_TRUE(state.Add("w", DType::kI32, {}).ok());
  auto loaded = MustLoad(*device, program, state);
  int32_t value = 0;
  Upload<int32_t>(*device, *loaded, x, {7});
  Upload<uint8_t>(*device, *loaded, ok, {0});
  ASSERT_TRUE(device->Run(*loaded, {}).ok());
  ASSERT_TRUE(state.Read("w", &value, 4).ok());
  EXPECT_EQ(value, 0);
  Upload<uint8_t>(*device, *loaded, ok, {1});
  ASSERT_TRUE(device->Run(*loaded, {}).ok());
  ASSERT_TRUE(state.Read("w", &value, 4).ok());
  EXPECT_EQ(value, 7);
}

// Two programs of a session see each other's writes to the state.
TEST(CpuDevice, ProgramsShareTheStateOfASession) {
  auto program = [](int32_t amount) {
    Program p{.name = "add"};
    const int w = AddBuffer(p, "w", DType::kI32, {}, BufferKind::kState);
    p.steps.push_back(CallStep({}, {w}, 1, [amount](const auto& buffers, const auto&, int64_t) {
      *static_cast<int32_t*>(buffers[0]) += amount;
    }));
    return p;
  };
  auto device = CreateCpuDevice();
  StateStore state(device.get());
  ASSERT_TRUE(state.Add("w", DType::kI32, {}).ok());
  auto one = MustLoad(*device, program(1), state);
  auto hundred = MustLoad(*device, program(100), state);
  ASSERT_TRUE(device->Run(*one, {}).ok());
  ASSERT_TRUE(device->Run(*hundred, {}).ok());
  ASSERT_TRUE(device->Run(*one, {}).ok());
  int32_t value = 0;
  ASSERT_TRUE(state.Read("w", &value, 4).ok());
  EXPECT_EQ(value, 102);
}

// The random step is the state's value before the run, whatever the run writes into it.
TEST(CpuDevice, KeysRandomNumbersOnTheOldPosition) {
  Program program{.name = "p"};
  const int position = AddBuffer(program, "rng_position", DType::kI64, {}, BufferKind::kState);
  const int seen = AddBuffer(program, "seen", DType::kI64, {3}, BufferKind::kOutput);
  program.rng_position = position;
  program.steps.push_back(CallStep({}, {position}, 1, [](const auto& b, const auto&, int64_t) {
    ++*static_cast<int64_t*>(b[0]);
  }));
  program.steps.push_back(CallStep({}, {seen}, 1, [](const auto& b, const auto& random, int64_t) {
    auto* out = static_cast<int64_t*>(b[0]);
    out[0] = random.step;
    out[1] = static_cast<int64_t>(random.seed);
    out[2] = random.micro_batch;
  }));
  auto device = CreateCpuDevice();
  StateStore state(device.get());
  ASSERT_TRUE(state.Add("rng_position", DType::kI64, {}).ok());
  auto loaded = MustLoad(*device, program, state);
  ASSERT_TRUE(device->Run(*loaded, {.seed = 5, .step = 77, .micro_batch = 2}).ok());
  EXPECT_THAT(Download<int64_t>(*device, *loaded, seen), ElementsAre(0, 5, 2));
  ASSERT_TRUE(device->Run(*loaded, {.seed = 5}).ok());
  EXPECT_THAT(Download<int64_t>(*device, *loaded, seen), ElementsAre(1, 5, 0));
}

TEST(CpuDevice, SaysWhichStateIsMissingOrDiffers) {
  Program program{.name = "step"};
  AddBuffer(program, "w", DType::kF32, {2, 3}, BufferKind::kState);
  auto device = CreateCpuDevice();
  StateStore state(device.get());
  auto shared = std::make_shared<Program>(program);
  auto missing = device->Load(shared, state).status();
  EXPECT_EQ(missing.message(), "program @step: the session has no state %w");
  ASSERT_TRUE(state.Add("w", DType::kF16, {2, 3}).ok());
  auto differs = device->Load(shared, state).status();
  EXPECT_EQ(differs.message(),
            "program @step: state %w is f16[2, 3] in the session, not f32[2, 3]");
}

TEST(CpuDevice, RefusesMoreThanItsMemory) {
  auto device = CreateCpuDevice({.memory_limit = 1000});
  StateStore state(device.get());
  ASSERT_TRUE(state.Add("w", DType::kF32, {100}).ok());
  Program program{.name = "step"};
  AddBuffer(program, "x", DType::kF32, {256}, BufferKind::kInput);
  auto status = device->Load(std::make_shared<Program>(program), state).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "cpu: the buffers of program @step needs 1024 bytes; 400 of 1000 are in use");
}

TEST(CpuDevice, RefusesAnArenaThatNoMachineHas) {
  auto device = CreateCpuDevice();
  EXPECT_EQ(device->Allocate(int64_t{1} << 61, "x").status().code(),
            absl::StatusCode::kResourceExhausted);
  auto unlimited = CreateCpuDevice({.memory_limit = int64_t{1} << 62});
  EXPECT_EQ(unlimited->Allocate(int64_t{1} << 61, "x").status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CpuDevice, RefusesProgramsThatReachOutsideTheirBuffers) {
  Program program{.name = "p"};
  const int x = AddBuffer(program, "x", DType::kF32, {4}, BufferKind::kInput);
  const int y = AddBuffer(program, "y", DType::kF32, {3}, BufferKind::kOutput);
  auto device = CreateCpuDevice();
  StateStore state(device.get());
  auto load = [&](const Program& p) {
    return std::string(device->Load(std::make_shared<Program>(p), state).status().message());
  };
  Program bad_copy = program;
  bad_copy.steps.push_back({Copy{x, y}});
  EXPECT_THAT(load(bad_copy), HasSubstr("bad copy"));
  Program bad_index = program;
  bad_index.steps.push_back({Copy{x, 9}});
  EXPECT_THAT(load(bad_index), HasSubstr("buffer 9 of 2"));
  Program bad_offset = program;
  bad_offset.buffers[1].offset = 128;
  EXPECT_THAT(load(bad_offset), HasSubstr("bad buffer offset"));
}

TEST(Program, PrintsBuffersAndSteps) {
  Program program{.name = "step"};
  const int x = AddBuffer(program, "x", DType::kF16, {8, 4}, BufferKind::kInput);
  const int w = AddBuffer(program, "w", DType::kF32, {4, 4}, BufferKind::kState);
  const int y = AddBuffer(program, "y", DType::kF32, {8, 4}, BufferKind::kOutput);
  program.state_bytes = 64;
  program.unplanned_bytes = 1234;
  program.steps.push_back(
      {MatMul{.node = "y", .a = x, .b = w, .result = y, .m = 8, .n = 4, .k = 4, .wide_a = 3}});
  program.steps.push_back({Copy{y, w}, x});
  EXPECT_EQ(program.ToString(),
            "program @step: arena 192 B (unplanned 1.2 KB), state 64 B\n"
            "  b0   input     x  f16[8, 4]  @0\n"
            "  b1   state     w  f32[4, 4]\n"
            "  b2   output    y  f32[8, 4]  @64\n"
            "  s0   matmul  %y  b2 = b0 * b1  1x8x4x4 wide=b3\n"
            "  s1   copy    b1 = b2  guard=b0\n"
            "  return y=b2\n");
}

}  // namespace
}  // namespace duotone::runtime
