#include "runtime/cuda/cuda_device.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/state_store.h"
#include "tests/runtime/cuda/host_driver.h"

namespace duotone::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Adds 1 to every element of an array of `n`, and where one is out of range says so.
constexpr char kAddOne[] = R"(
struct ErrorRecord { int claimed, step, label, reserved; long long value, limit; };
extern "C" __global__ void __launch_bounds__(64) kernel(const float* in, float* out,
    ErrorRecord* errors, int step, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  if (in[i] >= 1000.0f && atomicCAS(&errors->claimed, 0, 1) == 0) {
    errors->step = step;
    errors->label = 1;
    errors->value = (long long)in[i];
    errors->limit = 1000;
  }
  out[i] = in[i] + 1.0f;
})";

// The sum of the arrays in a table, and the random state beside it.
constexpr char kSumTable[] = R"(
struct RandomState { unsigned long long seed; long long step, micro_batch; };
extern "C" __global__ void kernel(const float* const* table, const RandomState* random,
                                  float* sum, long long* state) {
  sum[threadIdx.x] = table[0][threadIdx.x] + table[1][threadIdx.x];
  if (threadIdx.x == 0) {
    state[0] = random->seed;
    state[1] = random->step;
    state[2] = random->micro_batch;
  }
})";

using Kind = LaunchArgument::Kind;

LaunchArgument Pass(int buffer) { return {.address = {buffer}}; }
LaunchArgument PassInt(int64_t value) { return {.kind = Kind::kInt, .value = value}; }

int AddBuffer(Program& program, std::string name, DType dtype, std::vector<int64_t> shape,
              BufferKind kind) {
  int64_t elements = 1;
  for (int64_t size : shape) elements *= size;
  const int64_t bytes = elements * ByteSize(dtype);
  program.buffers.push_back({name, dtype, shape, bytes, kind, program.arena_bytes});
  const int buffer = static_cast<int>(program.buffers.size()) - 1;
  if (kind == BufferKind::kState) {
    program.buffers.back().offset = 0;
    program.state.push_back({name, buffer});
  } else {
    program.arena_bytes += (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
  if (kind == BufferKind::kInput) program.inputs.push_back({name, buffer});
  if (kind == BufferKind::kOutput) program.outputs.push_back({name, buffer});
  return buffer;
}

class CudaDeviceTest : public testing::Test {
 protected:
  ~CudaDeviceTest() override {
    loaded_.clear();
    state_.reset();
    device_.reset();
    if (gpu_ != nullptr) {
      EXPECT_THAT(gpu_->Problems(), IsEmpty());
    }
  }

  void Open(HostGpuOptions options = {}) {
    gpu_ = std::make_unique<HostGpu>(options);
    auto device =
        CreateCudaDevice({.driver = gpu_->driver(),
                          .log = [this](const std::string& line) { log_.push_back(line); }});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    state_ = std::make_unique<StateStore>(device_.get());
  }

  static void Compile(Program& program) {
    HostCompiler compiler;
    auto compiled = CompileProgram(program, "sm_80", compiler, nullptr, 1);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
  }
  absl::StatusOr<LoadedProgram*> Load(Program program) {
    auto loaded = device_->Load(std::make_shared<Program>(std::move(program)), *state_);
    if (!loaded.ok()) return loaded.status();
    loaded_.push_back(*std::move(loaded));
    return loaded_.back().get();
  }

  // x -> y = x + 1 over `n` elements.
  static Program AddOne(int64_t n) {
    Program program{.name = "step"};
    const int x = AddBuffer(program, "x", DType::kF32, {n}, BufferKind::kInput);
    const int y = AddBuffer(program, "y", DType::kF32, {n}, BufferKind::kOutput);
    program.kernels.push_back({.name = "kernel", .source = kAddOne});
    program.steps.push_back({KernelLaunch{
        .kernel = 0,
        .node = "y",
        .family = "pointwise",
        .grid = {(n + 63) / 64, 1, 1},
        .block = {64, 1, 1},
        .arguments = {Pass(x), Pass(y), {.kind = Kind::kErrors}, PassInt(0), PassInt(n)},
        .reads = {x},
        .writes = {y},
        .labels = {"gather (gpt.cc:75, node %tok)"}}});
    return program;
  }
  absl::Status Upload(LoadedProgram& program, std::string_view input,
                      const std::vector<float>& values) {
    return device_->Upload(program.memory(program.program().FindInput(input)), values.data(),
                           static_cast<int64_t>(values.size() * sizeof(float)));
  }
  template <typename T = float>
  absl::StatusOr<std::vector<T>> Read(LoadedProgram& program, std::string_view output) {
    const DeviceMemory memory = program.memory(program.program().FindOutput(output));
    std::vector<T> values(static_cast<size_t>(memory.bytes) / sizeof(T));
    absl::Status status = device_->Download(memory, values.data(), memory.bytes);
    if (!status.ok()) return status;
    return values;
  }

  std::unique_ptr<HostGpu> gpu_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<StateStore> state_;
  std::vector<std::unique_ptr<LoadedProgram>> loaded_;
  std::vector<std::string> log_;
};

TEST_F(CudaDeviceTest, TheFirstRunRecordsAGraphThatLaterRunsReplay) {
  Open();
  Program program = AddOne(200);
  Compile(program);
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (float value : {1.0f, 5.0f, 9.0f}) {
    ASSERT_TRUE(Upload(**loaded, "x", std::vector<float>(200, value)).ok());
    ASSERT_TRUE(device_->Run(**loaded, {}).ok());
    auto y = Read(**loaded, "y");
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(*y, std::vector<float>(200, value + 1));
  }
  EXPECT_EQ(gpu_->calls("LaunchKernel"), 1);
  EXPECT_EQ(gpu_->calls("GraphLaunch"), 3);
  EXPECT_EQ(gpu_->launches(), 3);
}

TEST_F(CudaDeviceTest, DriversWithoutGraphsLaunchEveryTime) {
  Open({.graphs = false});
  Program program = AddOne(8);
  Compile(program);
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (float value : {1.0f, 5.0f}) {
    ASSERT_TRUE(Upload(**loaded, "x", std::vector<float>(8, value)).ok());
    ASSERT_TRUE(device_->Run(**loaded, {}).ok());
    EXPECT_EQ(*Read(**loaded, "y"), std::vector<float>(8, value + 1));
  }
  EXPECT_EQ(gpu_->calls("LaunchKernel"), 2);
}

// Uploads and runs wait in the streams until the end; the source changes at once.
TEST_F(CudaDeviceTest, SourcesMayChangeAfterUpload) {
  Open();
  const int64_t n = 5 << 20;  // more than the pinned buffers hold
  Program program{.name = "step"};
  const int x = AddBuffer(program, "x", DType::kF32, {n}, BufferKind::kInput);
  const int y = AddBuffer(program, "y", DType::kF32, {n}, BufferKind::kOutput);
  program.steps.push_back({Copy{x, y}});
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 1000);
  ASSERT_TRUE(Upload(**loaded, "x", values).ok());
  ASSERT_TRUE(device_->Run(**loaded, {}).ok());
  std::fill(values.begin(), values.end(), -1.0f);
  ASSERT_TRUE(Upload(**loaded, "x", values).ok());
  auto read = Read(**loaded, "y");
  ASSERT_TRUE(read.ok()) << read.status();
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ((*read)[i], static_cast<float>(i % 1000)) << i;
}

TEST_F(CudaDeviceTest, FillsRepeatElementsOfEverySize) {
  Open();
  Program program{.name = "step"};
  const std::vector<std::vector<uint8_t>> elements = {
      {7}, {1, 2}, {1, 2, 3, 4}, {1, 2, 3, 4, 1, 2, 3, 4}, {1, 2, 3, 4, 5, 6, 7, 8}};
  for (size_t i = 0; i < elements.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    const int to = AddBuffer(program, name, DType::kU8, {80}, BufferKind::kOutput);
    program.steps.push_back({Fill{to, elements[i]}});
  }
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(device_->Run(**loaded, {}).ok());
  for (size_t i = 0; i < elements.size(); ++i) {
    auto bytes = Read<uint8_t>(**loaded, std::string(1, static_cast<char>('a' + i)));
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    for (size_t k = 0; k < 80; ++k) EXPECT_EQ((*bytes)[k], elements[i][k % elements[i].size()]);
  }
}

// w is a state entry and c a constant; the position of the random numbers is a state entry too.
TEST_F(CudaDeviceTest, TablesConstantsStateAndRandomPositionReachTheKernel) {
  Open();
  Program program{.name = "step"};
  const int w = AddBuffer(program, "w", DType::kF32, {4}, BufferKind::kState);
  const int position = AddBuffer(program, "rng_position", DType::kI64, {}, BufferKind::kState);
  const int c = AddBuffer(program, "c", DType::kF32, {4}, BufferKind::kConstant);
  const int sum = AddBuffer(program, "sum", DType::kF32, {4}, BufferKind::kOutput);
  const int random = AddBuffer(program, "random", DType::kI64, {3}, BufferKind::kOutput);
  program.rng_position = position;
  program.constants.push_back({c, {0, 0, 0x80, 0x3f}});
  program.kernels.push_back({.name = "kernel", .source = kSumTable});
  program.steps.push_back({KernelLaunch{.kernel = 0,
                                        .node = "sum",
                                        .family = "pointwise",
                                        .block = {4, 1, 1},
                                        .arguments = {{.kind = Kind::kTable, .table = {{w}, {c}}},
                                                      {.kind = Kind::kRandom},
                                                      Pass(sum),
                                                      Pass(random)}}});
  Compile(program);
  ASSERT_TRUE(state_->Add("w", DType::kF32, {4}).ok());
  ASSERT_TRUE(state_->Add("rng_position", DType::kI64, {}).ok());
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const float values[] = {1, 2, 3, 4};
  ASSERT_TRUE(state_->Write("w", values, sizeof(values)).ok());
  for (int64_t at : {70, 71}) {
    ASSERT_TRUE(state_->Write("rng_position", &at, sizeof(at)).ok());
    ASSERT_TRUE(device_->Run(**loaded, {.seed = 5, .step = 9, .micro_batch = at}).ok());
    EXPECT_THAT(*Read(**loaded, "sum"), ElementsAre(2, 3, 4, 5));
    EXPECT_THAT(*Read<int64_t>(**loaded, "random"), ElementsAre(5, at, at));
  }
}

TEST_F(CudaDeviceTest, WithoutAPositionTheStepIsThatOfTheRun) {
  Open();
  Program program{.name = "step"};
  const int w = AddBuffer(program, "w", DType::kF32, {1}, BufferKind::kInput);
  const int sum = AddBuffer(program, "sum", DType::kF32, {1}, BufferKind::kOutput);
  const int random = AddBuffer(program, "random", DType::kI64, {3}, BufferKind::kOutput);
  program.kernels.push_back({.name = "kernel", .source = kSumTable});
  program.steps.push_back({KernelLaunch{.kernel = 0,
                                        .node = "sum",
                                        .family = "pointwise",
                                        .arguments = {{.kind = Kind::kTable, .table = {{w}, {w}}},
                                                      {.kind = Kind::kRandom},
                                                      Pass(sum),
                                                      Pass(random)}}});
  Compile(program);
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (int64_t step : {3, 4, 4}) {
    ASSERT_TRUE(device_->Run(**loaded, {.seed = 5, .step = step}).ok());
    EXPECT_THAT(*Read<int64_t>(**loaded, "random"), ElementsAre(5, step, 0));
  }
}

TEST_F(CudaDeviceTest, SmallOutputsComeWithTheRun) {
  Open();
  Program program = AddOne(8);
  Compile(program);
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(device_->Run(**loaded, {}).ok());
  EXPECT_EQ(*Read(**loaded, "y"), std::vector<float>(8, 1));
  EXPECT_EQ(gpu_->calls("MemcpyDtoH"), 0);
}

TEST_F(CudaDeviceTest, AnIndexOutOfRangeIsReportedWithItsPlaceOnce) {
  Open();
  Program program = AddOne(100);
  Compile(program);
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::vector<float> values(100, 0.0f);
  values[70] = 1070;
  ASSERT_TRUE(Upload(**loaded, "x", values).ok());
  ASSERT_TRUE(device_->Run(**loaded, {}).ok());
  const absl::Status status = device_->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status), "gather: index 1070 is outside [0, 1000) (gpt.cc:75, node %tok)");
  EXPECT_TRUE(device_->Synchronize().ok());
  // The next error is seen too.
  ASSERT_TRUE(device_->Run(**loaded, {}).ok());
  EXPECT_FALSE(Read(**loaded, "y").ok());
  EXPECT_TRUE(Read(**loaded, "y").ok());
}

TEST_F(CudaDeviceTest, LoadingSaysWhatMemoryIsNeeded) {
  Open({.memory = 10'000'000});
  Program program = AddOne(1000);
  Compile(program);
  ASSERT_TRUE(Load(program).ok());
  EXPECT_THAT(log_, ElementsAre("cuda:0 (Host GPU): program @step needs 8.1 KB for buffers beside "
                                "0 B of state; 10.0 MB of 10.0 MB are free"));
}

TEST_F(CudaDeviceTest, OutOfMemorySaysWhatNeedsHowMuch) {
  Open({.memory = 10'000'000});
  ASSERT_TRUE(state_->Add("w", DType::kF32, {1'000'000}).ok());
  EXPECT_EQ(Message(state_->Add("v", DType::kF32, {2'000'000})),
            "cuda:0 (Host GPU): out of memory: state %v, f32[2000000] needs 8.0 MB; 6.0 MB of 10.0 "
            "MB are free, 4.0 MB are used by this session. A smaller batch, a 16-bit type or "
            "gradient accumulation needs less");
  Program program = AddOne(1'000'000);
  Compile(program);
  const absl::Status status = Load(program).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("the buffers of program @step needs 8.0 MB"));
}

TEST_F(CudaDeviceTest, ProgramsForTheCpuAndKernelsWithoutCodeAreRefused) {
  Open();
  EXPECT_EQ(Message(Load(AddOne(8)).status()),
            "cuda:0: the pointwise kernel of %y in program @step has not been compiled");
  Program program = AddOne(8);
  Compile(program);
  program.steps[0].guard = 0;
  EXPECT_EQ(Message(Load(program).status()), "cuda:0: program @step is made for the CPU");
}

TEST_F(CudaDeviceTest, CodeForAnotherArchitectureIsNoUse) {
  Open({.compute = 90});
  EXPECT_EQ(device_->architecture(), "sm_90");
  Program program = AddOne(8);
  Compile(program);
  EXPECT_EQ(Message(Load(program).status()),
            "cuda:0: loading the pointwise kernel of %y: it is compiled for sm_80, not for sm_90");
}

TEST_F(CudaDeviceTest, CodeForAnOlderDeviceOfTheSameGenerationRuns) {
  Open({.compute = 87});
  Program program = AddOne(8);
  Compile(program);
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(device_->Run(**loaded, {}).ok());
  EXPECT_EQ(*Read(**loaded, "y"), std::vector<float>(8, 1));
}

TEST_F(CudaDeviceTest, SharedMemoryIsAskedForUpToTheLimitOfTheDevice) {
  Open({.shared_bytes = 100'000});
  Program program = AddOne(8);
  Compile(program);
  std::get<KernelLaunch>(program.steps[0].action).shared_bytes = 60'000;
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(device_->Run(**loaded, {}).ok());
  EXPECT_TRUE(device_->Synchronize().ok());
  std::get<KernelLaunch>(program.steps[0].action).shared_bytes = 120'000;
  EXPECT_EQ(Message(Load(program).status()),
            "cuda:0: the pointwise kernel of %y needs 120000 bytes of shared memory; Host GPU "
            "(sm_80) gives a block 100000");
}

TEST_F(CudaDeviceTest, FailuresOfTheDriverSayWhatWasBeingDone) {
  Open();
  Program program = AddOne(8);
  Compile(program);
  auto loaded = Load(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  gpu_->Fail("LaunchKernel", kCuLaunchOutOfResources);
  EXPECT_THAT(Message(device_->Run(**loaded, {})),
              HasSubstr("cuda:0: step 0 of program @step: launching the pointwise kernel of %y: "));
}

// Whatever call fails while a program is loaded, everything is given back.
TEST_F(CudaDeviceTest, AFailureAtAnyPointOfLoadingLeavesNothingBehind) {
  Program program = AddOne(8);
  Compile(program);
  for (const char* function : {"ModuleLoadDataEx", "ModuleGetFunction", "FuncGetAttribute",
                               "MemGetInfo", "MemAlloc", "MemsetD8Async", "MemHostAlloc"}) {
    for (int count : {1, 2}) {
      HostGpu gpu;
      auto device = CreateCudaDevice({.driver = gpu.driver()});
      ASSERT_TRUE(device.ok()) << device.status();
      StateStore state(device->get());
      gpu.Fail(function, kCuInvalidValue, count);
      auto loaded = (*device)->Load(std::make_shared<Program>(program), state);
      if (count == 1) {
        EXPECT_FALSE(loaded.ok()) << function;
      }
      loaded = absl::CancelledError();
      device->reset();
      EXPECT_THAT(gpu.Problems(), IsEmpty()) << function;
    }
  }
}

TEST(CudaDevice, ASickDeviceStaysSickWithoutACrash) {
  HostGpu gpu;
  auto device = CreateCudaDevice({.driver = gpu.driver()});
  ASSERT_TRUE(device.ok()) << device.status();
  gpu.Fail("StreamSynchronize", kCuIllegalAddress);
  EXPECT_THAT(Message((*device)->Synchronize()),
              HasSubstr("cuda:0: waiting for the device: CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_FALSE((*device)->Allocate(64, "x").ok());
}

TEST(CudaDevice, MissingDevicesAreSentences) {
  HostGpu none({.devices = 0});
  EXPECT_EQ(Message(CreateCudaDevice({.driver = none.driver()}).status()),
            "cuda:0: the driver finds no CUDA device on this machine");
  HostGpu two({.devices = 2});
  EXPECT_EQ(Message(CreateCudaDevice({.driver = two.driver(), .ordinal = 3}).status()),
            "cuda:3: there is no such device; this machine has cuda:0 and cuda:1");
  HostGpu old({.compute = 70});
  EXPECT_EQ(Message(CreateCudaDevice({.driver = old.driver()}).status()),
            "cuda:0: Host GPU is sm_70; kernels are made for sm_75 and newer");
  EXPECT_THAT(old.Problems(), IsEmpty());
}

}  // namespace
}  // namespace duotone::runtime
