// Whole training steps on emulated GPUs: the PTX that NVRTC makes of the generated kernels,
// launched by the runtime that drives real GPUs, against the CPU backend, with every check on.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "duotone/backend.h"
#include "duotone/duotone.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/emulator/emulated_driver.h"
#include "samples/models.h"
#include "tests/duotone/numbers.h"
#include "tests/duotone/test_compilers.h"
#include "tests/runtime/cuda/scoped_environment.h"

namespace duotone {
namespace {

using emulator::EmulatedGpu;
using emulator::EmulatorOptions;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Sizes that leave ragged ends: of vectors, warps and tiles.
constexpr int kRows = 21;
constexpr int kPixels = 50;
Model SmallMlp() {
  absl::StatusOr<Model> model = samples::Mlp({kPixels, 72, 10});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}
constexpr int kWords = 19;
constexpr int kContext = 24;
Model OneLayerGpt() {
  absl::StatusOr<Model> model = samples::Gpt(
      {.vocabulary = kWords, .width = 32, .heads = 2, .layers = 1, .context = kContext});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// What one step is fed with.
struct Batch {
  std::vector<float> pixels;
  std::vector<int32_t> x, y;
  std::vector<Feed> feeds() const {
    if (pixels.empty()) return {{"x", x}, {"y", y}};
    return {{"x", pixels}, {"y", y}};
  }
};
Batch MlpBatch(int step) {
  Numbers numbers(static_cast<uint64_t>(step));
  Batch batch;
  batch.pixels = numbers.Floats(kRows * kPixels);
  batch.y = numbers.Labels(kRows, 10);
  return batch;
}
Batch GptBatch(int step) {
  Numbers numbers(static_cast<uint64_t>(step));
  Batch batch;
  batch.x = numbers.Labels(2 * kContext, kWords);
  batch.y = numbers.Labels(2 * kContext, kWords);
  return batch;
}

using StateValues = std::map<std::string, std::vector<float>>;
StateValues States(const TrainSession& session) {
  StateValues states;
  for (const StateInfo& info : session.States()) {
    if (info.kind == StateKind::kDerived) continue;
    absl::StatusOr<Tensor> value = session.GetState(info.name);
    EXPECT_TRUE(value.ok()) << value.status();
    if (value.ok()) states[info.name] = value->ToFloats();
  }
  return states;
}

// A training session on an emulated GPU of its own.
struct Emulated {
  std::shared_ptr<EmulatedGpu> gpu;
  std::unique_ptr<TrainSession> session;
};
absl::StatusOr<Emulated> Emulate(const Model& model, Options options, EmulatorOptions emulation,
                                 std::shared_ptr<runtime::KernelCompiler> compiler) {
  emulation.counters = false;
  options.device = Device::Emulated(emulation.architecture);
  options.reproducer_directory = "";
  Emulated result;
  absl::StatusOr<std::shared_ptr<EmulatedGpu>> gpu = EmulatedGpu::Create(emulation);
  if (!gpu.ok()) return gpu.status();
  result.gpu = *gpu;
  absl::StatusOr<TrainSession> session = internal::CompileWith(
      model, options, {.driver = result.gpu->driver(), .compiler = std::move(compiler)});
  if (!session.ok()) return session.status();
  result.session = std::make_unique<TrainSession>(*std::move(session));
  return result;
}

Options WithMomentum(std::optional<DType> dtype) {
  return {
      .autocast = {.dtype = dtype}, .optimizers = {Sgd{.lr = 0.05, .momentum = 0.9}}, .seed = 3};
}

// Every kernel that was compiled has executed instructions.
void ExpectEveryKernelRan(EmulatedGpu& gpu, int compiled) {
  std::set<const emulator::Executable*> ran;
  for (const auto& record : gpu.machine().records()) {
    if (record->instructions > 0) ran.insert(record->kernel);
  }
  EXPECT_EQ(static_cast<int>(ran.size()), compiled);
  EXPECT_EQ(gpu.machine().problems().ToString(), "");
}

struct Precision {
  const char* name;
  std::optional<DType> dtype;
  double loss_tolerance;
  double state_tolerance;
};
constexpr Precision kPrecisions[] = {{"f32", std::nullopt, 1e-5, 1e-4},
                                     {"f16", DType::kF16, 2e-3, 2e-2},
                                     {"bf16", DType::kBF16, 1e-2, 1e-1}};
struct Case {
  const char* architecture;
  Precision precision;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.architecture << " " << c.precision.name;
}
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const char* architecture : {"sm_75", "sm_80", "sm_90"}) {
    for (const Precision& precision : kPrecisions) cases.push_back({architecture, precision});
  }
  return cases;
}

// The same session twice, on the CPU and on the emulated GPU.
class EmulatedTraining : public testing::TestWithParam<Case> {
 protected:
  void Start(const Model& model, const Options& options) {
    compiler_ = CompilerForTest();
    if (compiler_ == nullptr) GTEST_SKIP() << "no NVRTC";
    Options on_cpu = options;
    on_cpu.reproducer_directory = "";
    absl::StatusOr<TrainSession> cpu = Compile(model, on_cpu);
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    cpu_ = std::make_unique<TrainSession>(*std::move(cpu));
    asked_before_ = compiler_->asked();
    absl::StatusOr<Emulated> emulated =
        Emulate(model, options, {.architecture = GetParam().architecture}, compiler_);
    ASSERT_TRUE(emulated.ok()) << emulated.status();
    emulated_ = *std::move(emulated);
    initial_ = States(*cpu_);
  }

  void Step(const Batch& batch, bool is_skipped) {
    absl::StatusOr<Metrics> cpu = cpu_->Step(batch.feeds());
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    absl::StatusOr<Metrics> gpu = emulated_.session->Step(batch.feeds());
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    ASSERT_TRUE(gpu->status().ok()) << gpu->status();
    curve_ += absl::StrFormat(" %.6f/%.6f", cpu->loss(), gpu->loss());
    EXPECT_EQ(cpu->skipped(), is_skipped) << "step " << cpu->step();
    EXPECT_EQ(gpu->skipped(), is_skipped) << "step " << cpu->step();
    EXPECT_EQ(gpu->loss_scale(), cpu->loss_scale()) << "step " << cpu->step();
    EXPECT_EQ(gpu->skipped_steps(), cpu->skipped_steps());
    EXPECT_EQ(std::isfinite(gpu->loss()), std::isfinite(cpu->loss()));
    if (!std::isfinite(cpu->loss())) return;
    EXPECT_NEAR(gpu->loss(), cpu->loss(),
                GetParam().precision.loss_tolerance * std::fabs(cpu->loss()))
        << "step " << cpu->step();
  }

  // Every entry has moved from its first value as on the CPU: the difference is at most the
  // tolerance times the move, both as Euclidean norms. After one step the entries of momentum are
  // the gradients.
  void ExpectSameStates() {
    const StateValues cpu = States(*cpu_), gpu = States(*emulated_.session);
    ASSERT_EQ(cpu.size(), gpu.size());
    for (const auto& [name, expected] : cpu) {
      const std::vector<float>& actual = gpu.at(name);
      const std::vector<float>& before = initial_.at(name);
      double move = 0, difference = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        move += std::pow(double{expected[i]} - before[i], 2);
        difference += std::pow(double{actual[i]} - expected[i], 2);
      }
      EXPECT_LE(std::sqrt(difference), GetParam().precision.state_tolerance * std::sqrt(move))
          << "%" << name;
    }
  }

  // Writes a number of a parameter, of both.
  void SetWord(const std::string& name, float value) {
    for (TrainSession* session : {cpu_.get(), emulated_.session.get()}) {
      absl::StatusOr<Tensor> state = session->GetState(name);
      ASSERT_TRUE(state.ok()) << state.status();
      std::vector<float> values = state->ToFloats();
      values[5] = value;
      ASSERT_TRUE(session->SetState(name, values).ok());
    }
  }

  void Finish() {
    std::printf("losses of %s %s, cpu/emulated:%s\n", GetParam().architecture,
                GetParam().precision.name, curve_.c_str());
    ExpectEveryKernelRan(*emulated_.gpu, compiler_->asked() - asked_before_);
  }

  std::shared_ptr<SharedCompiler> compiler_;
  std::unique_ptr<TrainSession> cpu_;
  Emulated emulated_;
  StateValues initial_;
  std::string curve_;
  int asked_before_ = 0;
};

TEST_P(EmulatedTraining, OfTheMlpIsThatOfTheCpuAlsoWithAnInf) {
  ASSERT_NO_FATAL_FAILURE(Start(SmallMlp(), WithMomentum(GetParam().precision.dtype)));
  if (IsSkipped()) return;
  for (int step = 0; step < 5; ++step) {
    Batch batch = MlpBatch(step);
    if (step == 2) batch.pixels[100] = std::numeric_limits<float>::infinity();
    ASSERT_NO_FATAL_FAILURE(Step(batch, step == 2));
    if (step == 0) ExpectSameStates();
  }
  ExpectSameStates();
  Finish();
}

TEST_P(EmulatedTraining, OfAGptOfOneLayerIsThatOfTheCpuAlsoWithAnInf) {
  ASSERT_NO_FATAL_FAILURE(Start(OneLayerGpt(), WithMomentum(GetParam().precision.dtype)));
  if (IsSkipped()) return;
  for (int step = 0; step < 5; ++step) {
    if (step == 2) SetWord("pos", std::numeric_limits<float>::infinity());
    ASSERT_NO_FATAL_FAILURE(Step(GptBatch(step), step == 2));
    if (step == 2) SetWord("pos", initial_.at("pos")[5]);
    if (step == 0) ExpectSameStates();
  }
  ExpectSameStates();
  Finish();
}

INSTANTIATE_TEST_SUITE_P(Cases, EmulatedTraining, testing::ValuesIn(AllCases()),
                         [](const auto& info) {
                           return absl::StrCat(info.param.architecture, "_",
                                               info.param.precision.name);
                         });

// States after some steps of the GPT in f16.
StateValues Train(TrainSession& session, int first, int steps) {
  for (int step = first; step < first + steps; ++step) {
    absl::StatusOr<Metrics> metrics = session.Step(GptBatch(step).feeds());
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    if (!metrics.ok()) return {};
  }
  return States(session);
}

// Neither warps nor blocks have an order, and sums do not depend on it.
TEST(EmulatedSession, SchedulesGiveTheSameBits) {
  const std::shared_ptr<SharedCompiler> compiler = CompilerForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  std::vector<StateValues> states;
  for (const EmulatorOptions& emulation :
       {EmulatorOptions{.threads = 2},
        EmulatorOptions{.schedule = emulator::Schedule::kAdversarial, .seed = 1, .threads = 1},
        EmulatorOptions{.schedule = emulator::Schedule::kAdversarial, .seed = 99, .threads = 2}}) {
    absl::StatusOr<Emulated> emulated =
        Emulate(OneLayerGpt(), WithMomentum(DType::kF16), emulation, compiler);
    ASSERT_TRUE(emulated.ok()) << emulated.status();
    states.push_back(Train(*emulated->session, 0, 2));
    EXPECT_EQ(emulated->gpu->machine().problems().ToString(), "");
  }
  ASSERT_FALSE(states[0].empty());
  for (size_t i = 1; i < states.size(); ++i) {
    for (const auto& [name, values] : states[0]) EXPECT_EQ(values, states[i].at(name)) << name;
  }
}

TEST(EmulatedSession, ACheckpointResumesToTheBit) {
  const std::shared_ptr<SharedCompiler> compiler = CompilerForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  const std::string path = testing::TempDir() + "/emulated_session.duock";
  Options options = WithMomentum(DType::kF16);
  options.optimizers = {AdamW{.lr = 1e-3}};
  absl::StatusOr<Emulated> whole = Emulate(OneLayerGpt(), options, {}, compiler);
  ASSERT_TRUE(whole.ok()) << whole.status();
  Train(*whole->session, 0, 2);
  const absl::Status saved = whole->session->SaveCheckpoint(path).status();
  ASSERT_TRUE(saved.ok()) << saved;
  const StateValues expected = Train(*whole->session, 2, 2);
  ASSERT_FALSE(expected.empty());

  options.seed = 1234;
  absl::StatusOr<Emulated> resumed = Emulate(OneLayerGpt(), options, {}, compiler);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  const absl::Status loaded = resumed->session->LoadCheckpoint(path).status();
  ASSERT_TRUE(loaded.ok()) << loaded;
  const StateValues actual = Train(*resumed->session, 2, 2);
  for (const auto& [name, values] : expected) EXPECT_EQ(values, actual.at(name)) << name;
  std::filesystem::remove(path);
}

TEST(EmulatedSession, DropoutDrawsTheNumbersOfTheCpu) {
  const std::shared_ptr<SharedCompiler> compiler = CompilerForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  GraphBuilder b("net");
  Value x = b.Input("x", F32({"B", 12}));
  Value h = Dropout(Tanh(MatMul(x, b.Param("w1", F32({12, 40}), Normal(1)))), 0.25);
  b.Output("loss", ReduceMean(MatMul(h, b.Param("w2", F32({40, 3}), Normal(1)))));
  absl::StatusOr<Model> model = std::move(b).Build();
  ASSERT_TRUE(model.ok()) << model.status();
  const Options options{.optimizers = {Sgd{.lr = 0.1}}, .seed = 7};
  absl::StatusOr<TrainSession> cpu = Compile(*model, options);
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  absl::StatusOr<Emulated> emulated = Emulate(*model, options, {}, compiler);
  ASSERT_TRUE(emulated.ok()) << emulated.status();
  for (int step = 0; step < 3; ++step) {
    const std::vector<float> values = Numbers(static_cast<uint64_t>(step)).Floats(6 * 12);
    absl::StatusOr<Metrics> expected = cpu->Step({{"x", values}});
    absl::StatusOr<Metrics> actual = emulated->session->Step({{"x", values}});
    ASSERT_TRUE(expected.ok() && actual.ok()) << actual.status();
    EXPECT_NEAR(actual->loss(), expected->loss(), 1e-5) << step;
  }
}

// The CPU says so at once, a GPU when the step is waited for; the sentence is the same, and it is
// no problem of the kernel.
TEST(EmulatedSession, ALabelOutOfRangeIsNamedWithItsPlace) {
  const std::shared_ptr<SharedCompiler> compiler = CompilerForTest();
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  const Options options = WithMomentum(std::nullopt);
  absl::StatusOr<TrainSession> cpu = Compile(SmallMlp(), options);
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  absl::StatusOr<Emulated> emulated = Emulate(SmallMlp(), options, {}, compiler);
  ASSERT_TRUE(emulated.ok()) << emulated.status();
  Batch batch = MlpBatch(0);
  batch.y[2] = 10;
  const absl::Status expected = cpu->Step(batch.feeds()).status();
  absl::StatusOr<Metrics> metrics = emulated->session->Step(batch.feeds());
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_THAT(std::string(expected.message()), HasSubstr("index 10 is outside [0, 10)"));
  EXPECT_EQ(metrics->status(), expected);
  EXPECT_EQ(emulated->gpu->machine().problems().ToString(), "");
}

absl::Status StepWithSpoiledKernels(const std::string& from, const std::string& to) {
  absl::StatusOr<Emulated> emulated = Emulate(
      SmallMlp(), WithMomentum(std::nullopt), {},
      std::make_shared<MutatingCompiler>(CompilerForTest(), "", [&](const std::string& ptx) {
        return absl::StrReplaceAll(ptx, {{from, to}});
      }));
  if (!emulated.ok()) return emulated.status();
  absl::StatusOr<Metrics> metrics = emulated->session->Step(MlpBatch(0).feeds());
  return metrics.ok() ? metrics->status() : metrics.status();
}

// A kernel without its barriers: the sentence has the node, its place in the model and the
// instruction.
TEST(EmulatedSession, WhatAKernelDoesWrongIsWhatTheStepReturns) {
  if (CompilerForTest() == nullptr) GTEST_SKIP() << "no NVRTC";
  const std::string message(StepWithSpoiledKernels("bar.sync \t0;", "").message());
  EXPECT_THAT(message, StartsWith("step 1: emulated:sm_80: waiting for the device: "
                                  "CUDA_ERROR_LAUNCH_FAILED ("));
  EXPECT_THAT(message,
              HasSubstr("race in shared memory in the kernel of %relu, matmul (models.cc:"));
  EXPECT_THAT(message, HasSubstr("'ld.shared.v4.f32 {"));
}

TEST(EmulatedSession, PtxThatIsNotKnownIsNamed) {
  if (CompilerForTest() == nullptr) GTEST_SKIP() << "no NVRTC";
  const std::string message(
      StepWithSpoiledKernels("bar.sync \t0;", "griddepcontrol.wait;").message());
  EXPECT_THAT(message, HasSubstr("emulated:sm_80: loading the "));
  EXPECT_THAT(message, HasSubstr("griddepcontrol.wait"));
}

// By its name alone, as users do: with NVRTC and the cache of compiled kernels.
TEST(EmulatedSession, IsADeviceByName) {
  if (CompilerForTest() == nullptr) GTEST_SKIP() << "no NVRTC";
  const std::string folder = absl::StrCat(testing::TempDir(), "/emulated_session_cache-", getpid());
  std::filesystem::remove_all(folder);
  const runtime::ScopedEnvironment cache("DUOTONE_CACHE_DIR", folder.c_str());
  std::string log[2];
  double losses[2] = {};
  for (int i = 0; i < 2; ++i) {
    Options options = WithMomentum(std::nullopt);
    options.device = Device("emulated:sm_86,adversarial,seed=5");
    options.reproducer_directory = "";
    options.log = [&, i](const std::string& line) { log[i] += line + "\n"; };
    absl::StatusOr<TrainSession> session = Compile(SmallMlp(), options);
    ASSERT_TRUE(session.ok()) << session.status();
    absl::StatusOr<Metrics> metrics = session->Step(MlpBatch(0).feeds());
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    losses[i] = metrics->loss();
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_THAT(log[0], HasSubstr("emulated:sm_86: graph @step: "));
  EXPECT_THAT(log[0], HasSubstr(" 0 from the cache"));
  EXPECT_THAT(log[1], HasSubstr(" 0 compiled and "));
  EXPECT_THAT(log[1], HasSubstr(" instructions of warps"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace duotone
