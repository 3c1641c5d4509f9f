// Whole training steps on the CUDA device, with the driver and the compiler of a GPU in host memory
// (tests/runtime/cuda/host_driver.h): the generated kernels, their launches and the CUDA graph
// against the CPU backend.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "duotone/backend.h"
#include "duotone/duotone.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/duotone/numbers.h"
#include "tests/runtime/cuda/host_driver.h"

namespace duotone {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Model Load(const std::string& name) {
  absl::StatusOr<Model> model =
      LoadModel(std::string(DUOTONE_SOURCE_DIR) + "/samples/models/" + name);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// The same session twice, on the CPU and on the GPU in host memory.
class CudaSessionTest : public testing::Test {
 public:
  static std::map<std::string, std::vector<float>> States(const TrainSession& session) {
    std::map<std::string, std::vector<float>> states;
    for (const StateInfo& info : session.States()) {
      if (info.kind == StateKind::kDerived) continue;
      absl::StatusOr<Tensor> value = session.GetState(info.name);
      EXPECT_TRUE(value.ok()) << value.status();
      states[info.name] = value->ToFloats();
    }
    return states;
  }

 protected:
  ~CudaSessionTest() override {
    cuda_.reset();
    EXPECT_THAT(gpu_.Problems(), IsEmpty());
  }

  void Start(const Model& model, Options options) {
    options.reproducer_directory = "";
    absl::StatusOr<TrainSession> cpu = Compile(model, options);
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    cpu_ = std::make_unique<TrainSession>(*std::move(cpu));
    options.device = Device("cuda:0");
    absl::StatusOr<TrainSession> cuda = internal::CompileWith(
        model, options,
        {.driver = gpu_.driver(), .compiler = std::make_shared<runtime::HostCompiler>()});
    ASSERT_TRUE(cuda.ok()) << cuda.status();
    cuda_ = std::make_unique<TrainSession>(*std::move(cuda));
    initial_ = States(*cpu_);
  }

  // One step of both; the loss may differ by `tolerance` relative to its size.
  void Step(const std::vector<Feed>& feeds, double tolerance) {
    absl::StatusOr<Metrics> cpu = cpu_->Step(feeds);
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    absl::StatusOr<Metrics> cuda = cuda_->Step(feeds);
    ASSERT_TRUE(cuda.ok()) << cuda.status();
    if (std::isfinite(cpu->loss())) {
      EXPECT_NEAR(cuda->loss(), cpu->loss(), tolerance * std::fabs(cpu->loss()))
          << "step " << cpu->step();
    }
    EXPECT_EQ(std::isfinite(cuda->loss()), std::isfinite(cpu->loss()));
    EXPECT_EQ(cuda->loss_scale(), cpu->loss_scale()) << "step " << cpu->step();
    EXPECT_EQ(cuda->skipped(), cpu->skipped()) << "step " << cpu->step();
    EXPECT_EQ(cuda->skipped_steps(), cpu->skipped_steps());
    EXPECT_EQ(cuda->lr(), cpu->lr());
    last_skipped_ = cpu->skipped();
  }

  // Every entry has moved from its first value as on the CPU: the difference is at most `tolerance`
  // of the move, both as Euclidean norms. (Single elements may differ more in 16 bits, where a relu
  // near 0 opens on one side only.)
  void ExpectSameStates(double tolerance) {
    const auto cpu = States(*cpu_), cuda = States(*cuda_);
    ASSERT_EQ(cpu.size(), cuda.size());
    for (const auto& [name, expected] : cpu) {
      const std::vector<float>& actual = cuda.at(name);
      const std::vector<float>& before = initial_.at(name);
      double move = 0, difference = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        move += std::pow(double{expected[i]} - before[i], 2);
        difference += std::pow(double{actual[i]} - expected[i], 2);
      }
      EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(move)) << "%" << name;
    }
  }

  runtime::HostGpu gpu_;
  std::unique_ptr<TrainSession> cpu_, cuda_;
  std::map<std::string, std::vector<float>> initial_;
  bool last_skipped_ = false;
};

Options WithSgd(std::optional<DType> dtype, bool exact = false) {
  return {.autocast = {.dtype = dtype},
          .optimizers = {Sgd{.lr = 0.05, .momentum = 0.9}},
          .seed = 3,
          .exact = exact};
}

struct Precision {
  const char* name;
  std::optional<DType> dtype;
  bool exact;
  double loss_tolerance;
  double state_tolerance;
};
constexpr Precision kPrecisions[] = {{"f32", std::nullopt, false, 1e-5, 1e-4},
                                     {"f16", DType::kF16, false, 2e-3, 2e-2},
                                     {"f16_exact", DType::kF16, true, 1e-4, 2e-3},
                                     {"bf16", DType::kBF16, false, 1e-2, 1e-1}};
void PrintTo(const Precision& precision, std::ostream* out) { *out << precision.name; }

class CudaTraining : public CudaSessionTest, public testing::WithParamInterface<Precision> {};

TEST_P(CudaTraining, FiveStepsOfTheMlpAreThoseOfTheCpuAlsoWithAnInf) {
  const Precision& precision = GetParam();
  ASSERT_NO_FATAL_FAILURE(Start(Load("mlp.duo"), WithSgd(precision.dtype, precision.exact)));
  for (int step = 0; step < 5; ++step) {
    Numbers numbers(static_cast<uint64_t>(step));
    std::vector<float> x = numbers.Floats(24 * 784);
    const std::vector<int32_t> y = numbers.Labels(24, 10);
    if (step == 2) x[100] = std::numeric_limits<float>::infinity();
    ASSERT_NO_FATAL_FAILURE(Step({{"x", x}, {"y", y}}, precision.loss_tolerance));
    EXPECT_EQ(last_skipped_, step == 2);
  }
  ExpectSameStates(precision.state_tolerance);
  EXPECT_EQ(gpu_.calls("GraphLaunch"), 5);
}

TEST_P(CudaTraining, StepsOfTheSmallGptAreThoseOfTheCpu) {
  const Precision& precision = GetParam();
  Options options = WithSgd(precision.dtype, precision.exact);
  if (precision.dtype == DType::kF16) {
    // The first steps overflow.
    options.loss_scale = DynamicLossScale({.init_scale = 0x1p24});
  }
  ASSERT_NO_FATAL_FAILURE(Start(Load("gpt_small.duo"), options));
  int skipped = 0;
  for (int step = 0; step < 5; ++step) {
    Numbers numbers(static_cast<uint64_t>(step));
    const std::vector<int32_t> x = numbers.Labels(2 * 64, 65), y = numbers.Labels(2 * 64, 65);
    ASSERT_NO_FATAL_FAILURE(Step({{"x", x}, {"y", y}}, precision.loss_tolerance));
    skipped += last_skipped_;
  }
  EXPECT_EQ(skipped > 0, precision.dtype == DType::kF16);
  EXPECT_LT(skipped, 4);
  ExpectSameStates(precision.state_tolerance);
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaTraining, testing::ValuesIn(kPrecisions),
                         [](const auto& info) { return std::string(info.param.name); });

// Adam divides gradients by their size, so small ones must be right too: where 16-bit values are
// rounded elsewhere than on the CPU, they are not.
class CudaAdam : public CudaTraining {};

TEST_P(CudaAdam, OnTheSmallGptIsThatOfTheCpu) {
  const Precision& precision = GetParam();
  Options options = WithSgd(precision.dtype, precision.exact);
  options.optimizers = {AdamW{.lr = 1e-3, .weight_decay = 0.1, .eps = 1e-4}};
  ASSERT_NO_FATAL_FAILURE(Start(Load("gpt_small.duo"), options));
  for (int step = 0; step < 3; ++step) {
    Numbers numbers(static_cast<uint64_t>(step));
    const std::vector<int32_t> x = numbers.Labels(2 * 64, 65), y = numbers.Labels(2 * 64, 65);
    ASSERT_NO_FATAL_FAILURE(Step({{"x", x}, {"y", y}}, precision.loss_tolerance));
  }
  ExpectSameStates(10 * precision.state_tolerance);
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaAdam, testing::Values(kPrecisions[0], kPrecisions[2]),
                         [](const auto& info) { return std::string(info.param.name); });

// A small model with dropout.
Model Network() {
  GraphBuilder b("net");
  Value x = b.Input("x", F32({"B", 12}));
  Value h = Dropout(Tanh(MatMul(x, b.Param("w1", F32({12, 40}), Normal(1)))), 0.25);
  Value y = MatMul(h, b.Param("w2", F32({40, 3}), Normal(1)));
  b.Output("loss", ReduceMean(y * y));
  absl::StatusOr<Model> model = std::move(b).Build();
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST_F(CudaSessionTest, DropoutDrawsTheNumbersOfTheCpu) {
  ASSERT_NO_FATAL_FAILURE(
      Start(Network(), {.optimizers = {AdamW{.lr = 0.01, .eps = 1e-3}}, .seed = 7}));
  for (int step = 0; step < 4; ++step) {
    const std::vector<float> x_values = Numbers(static_cast<uint64_t>(step)).Floats(6 * 12);
    ASSERT_NO_FATAL_FAILURE(Step({{"x", x_values}}, 1e-5));
  }
  ExpectSameStates(1e-3);
}

// Neither blocks nor threads have an order, and sums do not depend on it: the same bits come out
// when all run last to first.
TEST(CudaDevice, TheOrderOfThreadsDoesNotMatter) {
  const Model model = Load("gpt_small.duo");
  std::map<std::string, std::vector<float>> states[2];
  for (bool reverse : {false, true}) {
    runtime::HostGpu gpu({.reverse = reverse});
    Options options = WithSgd(DType::kF16);
    options.device = Device("cuda:0");
    absl::StatusOr<TrainSession> session = internal::CompileWith(
        model, options,
        {.driver = gpu.driver(), .compiler = std::make_shared<runtime::HostCompiler>()});
    ASSERT_TRUE(session.ok()) << session.status();
    for (int step = 0; step < 3; ++step) {
      Numbers numbers(static_cast<uint64_t>(step));
      const std::vector<int32_t> x = numbers.Labels(2 * 64, 65), y = numbers.Labels(2 * 64, 65);
      const absl::Status run = session->Step({{"x", x}, {"y", y}}).status();
      ASSERT_TRUE(run.ok()) << run;
    }
    states[reverse] = CudaSessionTest::States(*session);
  }
  for (const auto& [name, values] : states[0]) EXPECT_EQ(values, states[1].at(name)) << name;
}

// A batch of another size is a program of its own over the same state.
TEST_F(CudaSessionTest, BatchesOfSeveralSizesShareTheState) {
  ASSERT_NO_FATAL_FAILURE(Start(Load("mlp.duo"), WithSgd(std::nullopt)));
  for (size_t rows : {8, 3, 8}) {
    Numbers numbers(rows);
    const std::vector<float> x = numbers.Floats(rows * 784);
    const std::vector<int32_t> y = numbers.Labels(rows, 10);
    ASSERT_NO_FATAL_FAILURE(Step({{"x", x}, {"y", y}}, 1e-5));
  }
  ExpectSameStates(1e-4);
}

TEST_F(CudaSessionTest, EvaluationGivesTheOutputsOfTheCpu) {
  ASSERT_NO_FATAL_FAILURE(Start(Load("mlp.duo"), WithSgd(std::nullopt)));
  Numbers numbers(5);
  const std::vector<float> x = numbers.Floats(4 * 784);
  const std::vector<int32_t> y = numbers.Labels(4, 10);
  absl::StatusOr<Outputs> cpu = cpu_->Evaluate({{"x", x}, {"y", y}});
  absl::StatusOr<Outputs> cuda = cuda_->Evaluate({{"x", x}, {"y", y}});
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  const std::vector<float> expected = cpu->Find("logits")->ToFloats();
  const std::vector<float> actual = cuda->Find("logits")->ToFloats();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5) << i;
}

// The CPU says so at once, a GPU when the step is waited for; the sentence is the same.
TEST_F(CudaSessionTest, ALabelOutOfRangeIsNamedWithItsPlace) {
  ASSERT_NO_FATAL_FAILURE(Start(Load("mlp.duo"), WithSgd(std::nullopt)));
  Numbers numbers(5);
  const std::vector<float> x = numbers.Floats(4 * 784);
  std::vector<int32_t> y = numbers.Labels(4, 10);
  y[2] = 10;
  const absl::Status cpu = cpu_->Step({{"x", x}, {"y", y}}).status();
  absl::StatusOr<Metrics> cuda = cuda_->Step({{"x", x}, {"y", y}});
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  EXPECT_THAT(std::string(cuda->status().message()), HasSubstr("index 10 is outside [0, 10)"));
  EXPECT_EQ(cuda->status(), cpu);
  EXPECT_TRUE(std::isnan(cuda->loss()));
  y[2] = 9;
  absl::StatusOr<Metrics> next = cuda_->Step({{"x", x}, {"y", y}});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(next->status().ok()) << "the error has been returned";
}

TEST_F(CudaSessionTest, AnErrorThatNobodyAsksForIsReturnedByTheNextCall) {
  ASSERT_NO_FATAL_FAILURE(Start(Load("mlp.duo"), WithSgd(std::nullopt)));
  const std::vector<float> x = Numbers(5).Floats(4 * 784);
  const std::vector<int32_t> bad = {1, 2, 10, 3}, good = {1, 2, 9, 3};
  ASSERT_TRUE(cuda_->Step({{"x", x}, {"y", bad}}).ok());
  const absl::Status next = cuda_->Step({{"x", x}, {"y", good}}).status();
  EXPECT_THAT(std::string(next.message()), testing::StartsWith("step 1: "));
  ASSERT_TRUE(cuda_->Step({{"x", x}, {"y", bad}}).ok());
  EXPECT_THAT(std::string(cuda_->GetState("fc1.w").status().message()),
              HasSubstr("index 10 is outside [0, 10)"));
}

// Feeds may change as soon as Step has returned, and metrics may be read late.
TEST_F(CudaSessionTest, StepsDoNotWaitForTheirNumbersToBeRead) {
  ASSERT_NO_FATAL_FAILURE(Start(Load("mlp.duo"), WithSgd(std::nullopt)));
  Numbers numbers(6);
  std::vector<float> x;
  std::vector<int32_t> y;
  std::vector<Metrics> cpu, cuda;
  for (int step = 0; step < 12; ++step) {
    x = numbers.Floats(8 * 784);
    y = numbers.Labels(8, 10);
    absl::StatusOr<Metrics> expected = cpu_->Step({{"x", x}, {"y", y}});
    absl::StatusOr<Metrics> actual = cuda_->Step({{"x", x}, {"y", y}});
    ASSERT_TRUE(expected.ok() && actual.ok()) << actual.status();
    cpu.push_back(*expected);
    cuda.push_back(*actual);
  }
  cuda_.reset();
  for (size_t i = 0; i < cpu.size(); ++i) {
    EXPECT_NEAR(cuda[i].loss(), cpu[i].loss(), 1e-5) << i;
    EXPECT_EQ(cuda[i].step(), static_cast<int64_t>(i) + 1);
  }
  EXPECT_FALSE(cuda.back().Output("logits").ok()) << "the session is gone";
}

// A session and two steps, where the `count`-th call of a driver function fails.
absl::Status TrainWithAFailure(runtime::HostGpu& gpu, const std::string& function, int count) {
  Options options{.optimizers = {AdamW{}}, .device = Device("cuda:0")};
  options.reproducer_directory = "";
  gpu.Fail(function, runtime::kCuInvalidValue, count);
  absl::StatusOr<TrainSession> session = internal::CompileWith(
      Network(), options,
      {.driver = gpu.driver(), .compiler = std::make_shared<runtime::HostCompiler>()});
  if (!session.ok()) return session.status();
  const std::vector<float> x = Numbers(1).Floats(6 * 12);
  for (int step = 0; step < 2; ++step) {
    absl::StatusOr<Metrics> metrics = session->Step({{"x", x}});
    if (!metrics.ok()) return metrics.status();
  }
  return session->GetState("w1").status();
}

// Whatever call of the driver fails at whatever time, the error is a sentence that begins with the
// device or the step, and all memory is given back.
TEST(CudaDevice, AnyCallOfTheDriverMayFail) {
  int failures = 0;
  for (const char* function : {"DeviceGetCount",
                               "DeviceGet",
                               "DeviceGetAttribute",
                               "DevicePrimaryCtxRetain",
                               "CtxSetCurrent",
                               "MemAlloc",
                               "MemGetInfo",
                               "MemHostAlloc",
                               "MemcpyDtoH",
                               "MemcpyHtoDAsync",
                               "MemcpyDtoHAsync",
                               "MemcpyDtoDAsync",
                               "MemsetD8Async",
                               "StreamCreate",
                               "StreamSynchronize",
                               "StreamWaitEvent",
                               "StreamBeginCapture",
                               "StreamEndCapture",
                               "EventCreate",
                               "EventRecord",
                               "ModuleLoadDataEx",
                               "ModuleGetFunction",
                               "FuncGetAttribute",
                               "LaunchKernel",
                               "GraphInstantiateWithFlags",
                               "GraphLaunch"}) {
    for (int count : {1, 2, 7, 20}) {
      runtime::HostGpu gpu;
      const absl::Status status = TrainWithAFailure(gpu, function, count);
      EXPECT_TRUE(status.ok() || status.message().find("cuda:0: ") != std::string::npos)
          << function << " " << count << ": " << status;
      failures += !status.ok();
      EXPECT_THAT(gpu.Problems(), IsEmpty()) << function << " " << count << ": " << status;
    }
  }
  EXPECT_GT(failures, 50);
}

TEST(CudaDevice, ThereIsNoFallback) {
  runtime::HostGpu none({.devices = 0});
  const Model model = Load("mlp.duo");
  const absl::Status status =
      internal::CompileWith(model, {.optimizers = {AdamW{}}, .device = Device("cuda:0")},
                            {.driver = none.driver()})
          .status();
  EXPECT_EQ(status.message(), "cuda:0: the driver finds no CUDA device on this machine");
}

}  // namespace
}  // namespace duotone
