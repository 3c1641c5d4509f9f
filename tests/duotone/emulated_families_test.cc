// Every family of kernels on emulated GPUs, in f32, f16 and bf16, with ragged and tiny shapes,
// against the reference evaluation; once more with the other schedule, which must not change a bit,
// and with approximations that err within their bounds, which the same tolerance must bear.
#include <cmath>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "duotone/cuda_compile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/emulator/emulated_driver.h"
#include "runtime/state_store.h"
#include "tests/duotone/random_graph.h"
#include "tests/runtime/cuda/nvrtc_testing.h"

namespace duotone {
namespace {

using emulator::EmulatedGpu;
using emulator::EmulatorOptions;

struct Family {
  std::string name;
  // T, M, N, K stand for a type and sizes. The graph is @g.
  std::string graph;
  double f32_tolerance;  // relative to max(1, |value|)
  bool same_bits_if_exact;
  std::string kind;  // of the launches
  friend std::ostream& operator<<(std::ostream& out, const Family& family) {
    return out << family.name;
  }
};

std::vector<Family> Families() {
  return {
      {"Pointwise",
       "graph @g(%x: T[M, N], %y: T[M, N], %b: T[N]) { %g = gelu(%x) : T[M, N] "
       "%bb = broadcast(%b), dims=[1] : T[M, N] %s = add(%g, %bb) : T[M, N] "
       "%p = mul(%s, %y) : T[M, N] %t = tanh(%p) : T[M, N] return t=%t, p=%p }",
       2e-6, false, "pointwise"},
      {"PointwiseArithmetic",
       "graph @g(%x: T[M, N], %y: T[M, N]) { %a = add(%x, %y) : T[M, N] "
       "%m = mul(%a, %x) : T[M, N] %r = relu(%m) : T[M, N] return r=%r }",
       0, true, "pointwise"},
      {"Row", "graph @g(%x: T[M, N]) { %y = softmax(%x), axis=1 : T[M, N] return y=%y }", 2e-6,
       false, "row"},
      {"RowWithWeights",
       "graph @g(%x: T[M, N], %gamma: T[N], %beta: T[N]) { %y, %mean, %rstd = layer_norm(%x, "
       "%gamma, %beta) : T[M, N], f32[M], f32[M] return y=%y, mean=%mean, rstd=%rstd }",
       2e-4, false, "row"},
      {"Column",
       "graph @g(%x: T[M, N]) { %a = mul(%x, %x) : T[M, N] %s = reduce_sum(%a), axes=[0] : T[N] "
       "return s=%s }",
       1e-5, false, "column"},
      {"MatMul",
       "graph @g(%x: T[M, K], %w: T[K, N], %b: T[N]) { %h = matmul(%x, %w) : T[M, N] "
       "%bb = broadcast(%b), dims=[1] : T[M, N] %s = add(%h, %bb) : T[M, N] "
       "%r = relu(%s) : T[M, N] return r=%r }",
       1e-5, false, "matmul"},
      {"MatMulTransposed",
       "graph @g(%x: T[K, M], %w: T[N, K]) { %h = matmul(%x, %w), transpose_a=true, "
       "transpose_b=true : T[M, N] return h=%h }",
       1e-5, false, "matmul"},
      {"Optimizer",
       "graph @g(%w: f32[M, N], %g: T[M, N], %lr: f32[], %buf: f32[M, N]) { "
       "%gf = cast(%g), to=f32 : f32[M, N] %w1, %buf1 = sgd_update(%w, %gf, %lr, %buf), "
       "momentum=0.9 : f32[M, N], f32[M, N] return w=%w1, buf=%buf1 }",
       1e-6, false, "optimizer"},
      {"Scatter",
       "graph @g(%base: f32[M, N], %i: i32[K], %u: T[K, N]) { %y = scatter_add(%base, %i, %u) : "
       "f32[M, N] return y=%y }",
       1e-5, false, "scatter"},
      {"Finish",
       "graph @g(%x: T[M, N]) { %e = exp(%x) : T[M, N] %s = reduce_sum(%e), axes=[0, 1] : T[] "
       "return s=%s }",
       1e-5, false, "finish"},
  };
}

struct Shape {
  int m, n, k;
};
constexpr Shape kShapes[] = {{37, 50, 19}, {1, 1, 1}, {3, 129, 65}, {64, 64, 32}};

std::string TextOf(const Family& family, std::string_view type, const Shape& shape) {
  std::string text = family.graph;
  for (const auto& [letter, size] :
       {std::pair("M", shape.m), std::pair("N", shape.n), std::pair("K", shape.k)}) {
    for (const char* before : {"[", " "}) {
      for (const char* after : {",", "]"}) {
        text = absl::StrReplaceAll(
            text, {{absl::StrCat(before, letter, after), absl::StrCat(before, size, after)}});
      }
    }
  }
  return absl::StrCat(
      "module @m {\n",
      absl::StrReplaceAll(text, {{" T[", absl::StrCat(" ", std::string(type), "[")}}), "\n}\n");
}

// A graph ready for one architecture.
struct Prepared {
  std::unique_ptr<ir::Module> module;
  internal::CudaEntry entry;
};

absl::StatusOr<Prepared> Prepare(const std::string& text, std::string_view target, bool exact,
                                 runtime::KernelCompiler& compiler) {
  Prepared prepared;
  DUOTONE_ASSIGN_OR_RETURN(prepared.module, ir::Parse(text));
  internal::CudaCompileOptions options{.exact = exact, .compiler = &compiler, .threads = 1};
  DUOTONE_ASSIGN_OR_RETURN(options.target, FindGpuTarget(target));
  DUOTONE_ASSIGN_OR_RETURN(prepared.entry,
                           internal::LowerForCuda(*prepared.module, "g", {}, options));
  DUOTONE_RETURN_IF_ERROR(internal::CompileKernels(prepared.entry.program, options));
  return prepared;
}

ir::ArrayMap Inputs(const ir::Graph& graph) {
  ir::ArrayMap inputs = RandomInputs(graph, 3, false);
  for (const ir::Node* input : graph.inputs()) {
    if (input->name(0) != "i") continue;
    // Some rows come often, some never.
    const int64_t rows = graph.inputs()[0]->type(0).shape[0].size();
    ir::Array& indices = inputs["i"];
    for (int64_t i = 0; i < indices.elements(); ++i) {
      indices.Set(i, static_cast<double>(i * i % rows));
    }
  }
  return inputs;
}

absl::StatusOr<ir::ArrayMap> RunOn(const Prepared& prepared, const ir::ArrayMap& inputs,
                                   const EmulatorOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(const std::shared_ptr<EmulatedGpu> gpu, EmulatedGpu::Create(options));
  DUOTONE_ASSIGN_OR_RETURN(const std::unique_ptr<runtime::Device> device,
                           runtime::CreateCudaDevice({.driver = gpu->driver()}));
  runtime::StateStore store(device.get());
  const auto program = std::make_shared<const runtime::Program>(prepared.entry.program);
  DUOTONE_ASSIGN_OR_RETURN(const auto loaded, device->Load(program, store));
  for (const auto& input : program->inputs) {
    const ir::Array& array = inputs.find(input.name)->second;
    DUOTONE_RETURN_IF_ERROR(
        device->Upload(loaded->memory(input.buffer), array.view().data, array.type().bytes()));
  }
  DUOTONE_RETURN_IF_ERROR(device->Run(*loaded, {}));
  DUOTONE_RETURN_IF_ERROR(device->Synchronize());
  ir::ArrayMap outputs;
  const ir::Graph& graph = *prepared.module->FindGraph("g");
  for (const auto& output : program->outputs) {
    ir::Array array(graph.FindOutput(output.name)->value.type());
    DUOTONE_RETURN_IF_ERROR(
        device->Download(loaded->memory(output.buffer), array.view().data, array.type().bytes()));
    outputs[output.name] = std::move(array);
  }
  if (!gpu->machine().problems().problems().empty()) {
    return Internal("%s", gpu->machine().problems().ToString());
  }
  // Every kernel has run.
  size_t launches = 0;
  for (const runtime::Step& step : program->steps) {
    launches += std::holds_alternative<runtime::KernelLaunch>(step.action);
  }
  if (gpu->machine().records().size() != launches) {
    return Internal("%d of %d launches", gpu->machine().records().size(), launches);
  }
  return outputs;
}

double ToleranceOf(const Family& family, std::string_view type) {
  return type == "f16" ? 0x1p-9 : type == "bf16" ? 0x1p-6 : family.f32_tolerance;
}

void ExpectNear(const ir::ArrayMap& actual, const ir::ArrayMap& expected, double tolerance,
                const std::string& where) {
  for (const auto& entry : expected) {
    const ir::Array& got = actual.find(entry.first())->second;
    for (int64_t i = 0; i < entry.second.elements(); ++i) {
      const double wanted = entry.second.Get(i);
      ASSERT_LE(std::fabs(got.Get(i) - wanted), tolerance * std::max(1.0, std::fabs(wanted)))
          << entry.first().str() << "[" << i << "] is " << got.Get(i) << ", not " << wanted
          << ", in " << where;
    }
  }
}

void ExpectSameBits(const ir::ArrayMap& actual, const ir::ArrayMap& expected,
                    const std::string& where) {
  for (const auto& entry : expected) {
    EXPECT_TRUE(actual.find(entry.first())->second.BitEqual(entry.second))
        << entry.first().str() << " in " << where;
  }
}

class EveryFamily : public ::testing::TestWithParam<Family> {
 protected:
  void Check(std::string_view target, std::string_view type, const Shape& shape,
             runtime::KernelCompiler& compiler) {
    const Family& family = GetParam();
    const std::string text = TextOf(family, type, shape);
    const std::string where = absl::StrCat(std::string(target), " ", text);
    const absl::StatusOr<Prepared> prepared = Prepare(text, target, false, compiler);
    ASSERT_TRUE(prepared.ok()) << prepared.status() << where;
    const ir::Graph& graph = *prepared->module->FindGraph("g");
    const ir::ArrayMap inputs = Inputs(graph);
    const absl::StatusOr<ir::InterpreterResult> expected = ir::Interpret(graph, inputs, {});
    ASSERT_TRUE(expected.ok()) << expected.status();
    EmulatorOptions options;
    options.architecture = std::string(target);
    const absl::StatusOr<ir::ArrayMap> plain = RunOn(*prepared, inputs, options);
    ASSERT_TRUE(plain.ok()) << plain.status() << where;
    ExpectNear(*plain, expected->outputs, ToleranceOf(family, type), where);

    options.schedule = emulator::Schedule::kAdversarial;
    const absl::StatusOr<ir::ArrayMap> other = RunOn(*prepared, inputs, options);
    ASSERT_TRUE(other.ok()) << other.status() << where;
    ExpectSameBits(*other, *plain, where);

    options.perturb_approximations = true;
    const absl::StatusOr<ir::ArrayMap> perturbed = RunOn(*prepared, inputs, options);
    ASSERT_TRUE(perturbed.ok()) << perturbed.status() << where;
    ExpectNear(*perturbed, expected->outputs, ToleranceOf(family, type), where);

    if (!family.same_bits_if_exact) return;
    const absl::StatusOr<Prepared> exact = Prepare(text, target, true, compiler);
    ASSERT_TRUE(exact.ok()) << exact.status();
    const absl::StatusOr<ir::ArrayMap> bits = RunOn(*exact, inputs, options);
    ASSERT_TRUE(bits.ok()) << bits.status();
    ExpectSameBits(*bits, expected->outputs, where);
  }
};

TEST_P(EveryFamily, GivesWhatTheReferenceGives) {
  const auto compiler = runtime::NvrtcForTest({.only_ptx = true});
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  for (const std::string_view type : {"f32", "f16", "bf16"}) {
    for (const Shape& shape : kShapes) Check("sm_80", type, shape, *compiler);
  }
  // Other architectures have other code for 16 bits, and other schedules.
  for (const std::string_view target : {"sm_75", "sm_90"}) {
    for (const std::string_view type : {"f16", "bf16"}) Check(target, type, kShapes[0], *compiler);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily, ::testing::ValuesIn(Families()),
                         [](const auto& info) { return info.param.name; });

// The families' names are those of the launches.
TEST(Families, AreWhatTheyAreCalled) {
  const auto compiler = runtime::NvrtcForTest({.only_ptx = true});
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  for (const Family& family : Families()) {
    const absl::StatusOr<Prepared> prepared =
        Prepare(TextOf(family, "f32", kShapes[0]), "sm_80", false, *compiler);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    std::vector<std::string> kinds;
    for (const runtime::Step& step : prepared->entry.program.steps) {
      const auto* launch = std::get_if<runtime::KernelLaunch>(&step.action);
      if (launch != nullptr) kinds.push_back(launch->family);
    }
    EXPECT_THAT(kinds, ::testing::Contains(family.kind)) << family.name;
  }
}

}  // namespace
}  // namespace duotone
