// Every family of kernels on emulated GPUs, in f32, f16 and bf16, the user's or autocast's, with
// ragged and tiny shapes, within the bounds of docs/numerics.md, the reference evaluation included;
// once more with the other schedule, which must not change a bit, and with approximations that err
// within their bounds, which the same promises must bear. With --exact, the same bits as the
// reference where the document says so.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "codegen/cuda/kernel.h"
#include "duotone/cuda_compile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text.h"
#include "llvm/ADT/StringMap.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/emulator/emulated_driver.h"
#include "runtime/state_store.h"
#include "tests/duotone/error_bounds.h"
#include "tests/duotone/random_graph.h"
#include "tests/ir/sweep.h"
#include "tests/runtime/cuda/nvrtc_testing.h"

namespace duotone {
namespace {

using emulator::EmulatedGpu;
using emulator::EmulatorOptions;

struct Family {
  std::string name;
  // Capital letters that stand alone are the element type T and the sizes M, N, K. The graph is @g.
  std::string graph;
  std::string kind;  // of the launches
  // Outputs and state entries that have the reference's bits under --exact, by the list in
  // docs/numerics.md, "CUDA kernels".
  std::vector<std::string> same_bits_if_exact;
  // The graph in pieces, from which its bounds follow; "": the graph itself.
  std::string pieces = "";
  friend std::ostream& operator<<(std::ostream& out, const Family& family) {
    return out << family.name;
  }
};

// The sections named are those of docs/numerics.md that a family's bounds come from;
// error_bounds.cc computes them.
std::vector<Family> Families() {
  return {
      // "One node" and "Transcendental functions"; of autocast's types, "CUDA kernels".
      {"Pointwise",
       "graph @g(%x: T[M, N], %y: T[M, N], %b: T[N]) { %g = gelu(%x) : T[M, N] "
       "%bb = broadcast(%b), dims=[1] : T[M, N] %s = add(%g, %bb) : T[M, N] "
       "%p = mul(%s, %y) : T[M, N] %t = tanh(%p) : T[M, N] return t=%t, p=%p }",
       "pointwise",
       {}},
      // "One node".
      {"PointwiseArithmetic",
       "graph @g(%table: T[K, N], %i: i32[M], %y: T[M, N]) { %x = gather(%table, %i) : T[M, N] "
       "%a = add(%x, %y) : T[M, N] %m = mul(%a, %x) : T[M, N] %r = relu(%m) : T[M, N] "
       "%less = lt(%x, %y) : bool[M, N] %s = select(%less, %m, %a) : T[M, N] "
       "%c = clamp(%y), min=0.25, max=3.0 : T[M, N] %q = div(%s, %c) : T[M, N] "
       "%root = sqrt(%c) : T[M, N] %d = sub(%q, %root) : T[M, N] return r=%r, d=%d }",
       "pointwise",
       {"r", "d"}},
      // "Composites"; what is greatest is picked.
      {"Row",
       "graph @g(%x: T[M, N]) { %y = softmax(%x), axis=1 : T[M, N] %i = argmax(%x), axis=1 : "
       "i32[M] %greatest = reduce_max(%x), axes=[1] : T[M] return y=%y, i=%i, m=%greatest }",
       "row",
       {"i", "m"},
       "graph @g(%x: T[M, N]) { %xf = cast(%x), to=f32 : f32[M, N] "
       "%m = reduce_max(%xf), axes=[1] : f32[M] %mb = broadcast(%m), dims=[0] : f32[M, N] "
       "%d = sub(%xf, %mb) : f32[M, N] %e = exp(%d) : f32[M, N] "
       "%s = reduce_sum(%e), axes=[1] : f32[M] %one = constant(), value=1.0 : f32[M] "
       "%r = div(%one, %s) : f32[M] %rb = broadcast(%r), dims=[0] : f32[M, N] "
       "%p = mul(%e, %rb) : f32[M, N] %y = cast(%p), to=T : T[M, N] "
       "%i = argmax(%x), axis=1 : i32[M] %greatest = reduce_max(%x), axes=[1] : T[M] "
       "return y=%y, i=%i, m=%greatest }"},
      {"RowWithWeights",
       "graph @g(%x: T[M, N], %gamma: T[N], %beta: T[N]) { %y, %mean, %rstd = layer_norm(%x, "
       "%gamma, %beta) : T[M, N], f32[M], f32[M] return y=%y, mean=%mean, rstd=%rstd }",
       "row",
       {},
       "graph @g(%x: T[M, N], %gamma: T[N], %beta: T[N]) { %xf = cast(%x), to=f32 : f32[M, N] "
       "%n = constant(), value=N : f32[M] %sum = reduce_sum(%xf), axes=[1] : f32[M] "
       "%mean = div(%sum, %n) : f32[M] %mb = broadcast(%mean), dims=[0] : f32[M, N] "
       "%c = sub(%xf, %mb) : f32[M, N] %cc = mul(%c, %c) : f32[M, N] "
       "%squares = reduce_sum(%cc), axes=[1] : f32[M] %variance = div(%squares, %n) : f32[M] "
       "%eps = constant(), value=1e-5 : f32[M] %v = add(%variance, %eps) : f32[M] "
       "%rstd = rsqrt(%v) : f32[M] %rb = broadcast(%rstd), dims=[0] : f32[M, N] "
       "%normal = mul(%c, %rb) : f32[M, N] %gf = cast(%gamma), to=f32 : f32[N] "
       "%gb = broadcast(%gf), dims=[1] : f32[M, N] %scaled = mul(%normal, %gb) : f32[M, N] "
       "%bf = cast(%beta), to=f32 : f32[N] %bb = broadcast(%bf), dims=[1] : f32[M, N] "
       "%moved = add(%scaled, %bb) : f32[M, N] %y = cast(%moved), to=T : T[M, N] "
       "return y=%y, mean=%mean, rstd=%rstd }"},
      // "Sums"; what is least is picked.
      {"Column",
       "graph @g(%x: T[M, N]) { %a = mul(%x, %x) : T[M, N] %s = reduce_sum(%a), axes=[0] : T[N] "
       "%least = reduce_min(%a), axes=[0] : T[N] return s=%s, least=%least }",
       "column",
       {"least"}},
      // "Sums": products of length K.
      {"MatMul",
       "graph @g(%x: T[M, K], %w: T[K, N], %b: T[N]) { %h = matmul(%x, %w) : T[M, N] "
       "%bb = broadcast(%b), dims=[1] : T[M, N] %s = add(%h, %bb) : T[M, N] "
       "%r = relu(%s) : T[M, N] return r=%r }",
       "matmul",
       {}},
      {"MatMulTransposed",
       "graph @g(%x: T[K, M], %w: T[N, K]) { %h = matmul(%x, %w), transpose_a=true, "
       "transpose_b=true : T[M, N] return h=%h }",
       "matmul",
       {}},
      // "Composites": optimizers.
      {"OptimizerSgd",
       "graph @g(%w: f32[M, N], %g: T[M, N], %lr: f32[], %buf: f32[M, N]) { "
       "%gf = cast(%g), to=f32 : f32[M, N] %w1, %buf1 = sgd_update(%w, %gf, %lr, %buf), "
       "momentum=0.9 : f32[M, N], f32[M, N] return w=%w1, buf=%buf1 }",
       "optimizer",
       {"w", "buf"},
       "graph @g(%w: f32[M, N], %g: T[M, N], %lr: f32[], %buf: f32[M, N]) { "
       "%gf = cast(%g), to=f32 : f32[M, N] %momentum = constant(), value=0.9 : f32[M, N] "
       "%kept = mul(%buf, %momentum) : f32[M, N] %buf1 = add(%kept, %gf) : f32[M, N] "
       "%rate = broadcast(%lr), dims=[] : f32[M, N] %step = mul(%rate, %buf1) : f32[M, N] "
       "%w1 = sub(%w, %step) : f32[M, N] return w=%w1, buf=%buf1 }"},
      {"OptimizerAdamW",
       "graph @g(%w: f32[M, N], %g: T[M, N], %m: f32[M, N], %square: f32[M, N], %lr: f32[]) { "
       "%gf = cast(%g), to=f32 : f32[M, N] %step = constant(), value=1 : i64[] "
       "%w1, %m1, %v1 = adamw_update(%w, %gf, %m, %square, %step, %lr), weight_decay=0.5 : "
       "f32[M, N], f32[M, N], f32[M, N] return w=%w1, m=%m1, v=%v1 }",
       "optimizer",
       {"w", "m", "v"},
       // After one step the corrections are 1 - beta.
       "graph @g(%w: f32[M, N], %g: T[M, N], %m: f32[M, N], %square: f32[M, N], %lr: f32[]) { "
       "%gf = cast(%g), to=f32 : f32[M, N] %rest1 = constant(), value=0.1 : f32[M, N] "
       "%dm = sub(%gf, %m) : f32[M, N] %part = mul(%rest1, %dm) : f32[M, N] "
       "%m1 = add(%m, %part) : f32[M, N] %beta2 = constant(), value=0.999 : f32[M, N] "
       "%rest2 = constant(), value=0.001 : f32[M, N] %rg = mul(%rest2, %gf) : f32[M, N] "
       "%rgg = mul(%rg, %gf) : f32[M, N] %bv = mul(%square, %beta2) : f32[M, N] "
       "%v1 = add(%bv, %rgg) : f32[M, N] %root = sqrt(%v1) : f32[M, N] "
       "%c2 = constant(), value=0.031622776601683794 : f32[M, N] "
       "%scaled = div(%root, %c2) : f32[M, N] %eps = constant(), value=1e-8 : f32[M, N] "
       "%below = add(%scaled, %eps) : f32[M, N] %quotient = div(%m1, %below) : f32[M, N] "
       "%lr64 = cast(%lr), to=f64 : f64[] %c1 = constant(), value=0.1 : f64[] "
       "%rate64 = div(%lr64, %c1) : f64[] %rate = cast(%rate64), to=f32 : f32[] "
       "%rates = broadcast(%rate), dims=[] : f32[M, N] %move = mul(%rates, %quotient) : f32[M, N] "
       "%half = constant(), value=0.5 : f64[] %decay = mul(%lr64, %half) : f64[] "
       "%one = constant(), value=1.0 : f64[] %keep64 = sub(%one, %decay) : f64[] "
       "%keep32 = cast(%keep64), to=f32 : f32[] %keep = broadcast(%keep32), dims=[] : f32[M, N] "
       "%kept = mul(%w, %keep) : f32[M, N] %w1 = sub(%kept, %move) : f32[M, N] "
       "return w=%w1, m=%m1, v=%v1 }"},
      // "Sums": scatter_add.
      {"Scatter",
       "graph @g(%base: f32[M, N], %i: i32[K], %u: T[K, N]) { %y = scatter_add(%base, %i, %u) : "
       "f32[M, N] return y=%y }",
       "scatter",
       {"y"}},
      // "Sums" and "Transcendental functions".
      {"Finish",
       "graph @g(%x: T[M, N]) { %e = exp(%x) : T[M, N] %s = reduce_sum(%e), axes=[0, 1] : T[] "
       "%least = reduce_min(%x), axes=[0, 1] : T[] return s=%s, least=%least }",
       "finish",
       {"least"}},
      // Nothing is computed.
      {"Copy",
       "state %s: T[M, N] = zeros() state %kept: T[M, N] = zeros() "
       "graph @g(%x: T[M, N], %yes: bool[], %no: bool[]) { update %s = %x guard=%yes "
       "update %kept = %x guard=%no return }",
       "copy",
       {"s", "kept"}},
  };
}

struct Shape {
  int m, n, k;
};
// Ragged, tiny, rows for several warps, multiples of what kernels work in.
constexpr Shape kShapes[] = {{37, 50, 19}, {1, 1, 1}, {3, 1029, 65}, {64, 64, 32}};

// A type of elements, the user's or autocast's.
struct Element {
  std::string_view dtype;
  bool autocast = false;
};
constexpr Element kElements[] = {{"f32"}, {"f16"}, {"bf16"}, {"f16", true}, {"bf16", true}};

// A module with the sizes and the type in place of their letters.
std::string TextOf(const std::string& graph, std::string_view dtype, const Shape& shape) {
  const std::map<char, std::string> letters = {{'T', std::string(dtype)},
                                               {'M', absl::StrCat(shape.m)},
                                               {'N', absl::StrCat(shape.n)},
                                               {'K', absl::StrCat(shape.k)}};
  const auto is_word = [&](size_t at) {
    return at < graph.size() && (std::isalnum(static_cast<unsigned char>(graph[at])) != 0 ||
                                 graph[at] == '_' || graph[at] == '%');
  };
  std::string text = "module @m {\n";
  for (size_t at = 0; at < graph.size(); ++at) {
    const auto letter = letters.find(graph[at]);
    const bool alone = !is_word(at - 1) && !is_word(at + 1);
    if (letter != letters.end() && alone) {
      text += letter->second;
    } else {
      text += graph[at];
    }
  }
  return text + "\n}\n";
}

absl::StatusOr<std::unique_ptr<ir::Module>> ParseFor(const std::string& graph,
                                                     const Element& element, const Shape& shape) {
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module,
                           ir::Parse(TextOf(graph, element.dtype, shape)));
  for (const auto& node : module->FindGraph("g")->nodes()) {
    const bool chosen = element.autocast && node->result_count() > 0 &&
                        DTypeName(node->type().dtype) == element.dtype;
    if (chosen) node->info().dtype_origin = "autocast:test";
  }
  return module;
}

// A graph ready for one architecture.
absl::StatusOr<internal::CudaEntry> Prepare(const ir::Module& module, std::string_view target,
                                            bool exact, runtime::KernelCompiler& compiler) {
  internal::CudaCompileOptions options{.exact = exact, .compiler = &compiler, .threads = 1};
  DUOTONE_ASSIGN_OR_RETURN(options.target, FindGpuTarget(target));
  DUOTONE_ASSIGN_OR_RETURN(internal::CudaEntry entry,
                           internal::LowerForCuda(module, "g", {}, options));
  DUOTONE_RETURN_IF_ERROR(internal::CompileKernels(entry.program, options));
  return entry;
}

// In [-2, 2), but for what is named otherwise.
ir::ArrayMap Inputs(const ir::Graph& graph) {
  ir::ArrayMap inputs = RandomInputs(graph, 3, false);
  for (const ir::Node* input : graph.inputs()) {
    ir::Array& array = inputs[input->name()];
    for (int64_t i = 0; i < array.elements(); ++i) {
      if (input->name() == "i") {
        // Some rows come often, some never.
        array.Set(i, static_cast<double>(i * i % graph.inputs()[0]->type().shape[0].size()));
      } else if (input->name() == "square") {
        array.Set(i, array.Get(i) * array.Get(i));
      } else if (input->type().dtype == DType::kBool) {
        array.Set(i, input->name() == "yes");
      }
    }
  }
  return inputs;
}

// Outputs and, under their names, state entries.
absl::StatusOr<ir::ArrayMap> Reference(const ir::Module& module, const ir::ArrayMap& inputs) {
  DUOTONE_ASSIGN_OR_RETURN(ir::InterpreterResult result,
                           ir::Interpret(*module.FindGraph("g"), inputs, RandomState(module, 3)));
  for (auto& entry : result.state) {
    result.outputs[entry.first()] = std::move(entry.second);
  }
  return std::move(result.outputs);
}

// The same from an emulated GPU.
absl::StatusOr<ir::ArrayMap> RunOn(const internal::CudaEntry& lowered, const ir::Module& module,
                                   const ir::ArrayMap& inputs, const EmulatorOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(const std::shared_ptr<EmulatedGpu> gpu, EmulatedGpu::Create(options));
  DUOTONE_ASSIGN_OR_RETURN(const std::unique_ptr<runtime::Device> device,
                           runtime::CreateCudaDevice({.driver = gpu->driver()}));
  runtime::StateStore store(device.get());
  const ir::ArrayMap state = RandomState(module, 3);
  for (const auto& entry : module.state()) {
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : entry->type.shape) sizes.push_back(dim.size());
    DUOTONE_RETURN_IF_ERROR(store.Add(entry->name, entry->type.dtype, sizes));
    DUOTONE_RETURN_IF_ERROR(
        store.Write(entry->name, state.find(entry->name)->second.view().data, entry->type.bytes()));
  }
  const auto program = std::make_shared<const runtime::Program>(lowered.program);
  DUOTONE_ASSIGN_OR_RETURN(const auto loaded, device->Load(program, store));
  for (const auto& input : program->inputs) {
    const ir::Array& array = inputs.find(input.name)->second;
    DUOTONE_RETURN_IF_ERROR(
        device->Upload(loaded->memory(input.buffer), array.view().data, array.type().bytes()));
  }
  DUOTONE_RETURN_IF_ERROR(device->Run(*loaded, {}));
  DUOTONE_RETURN_IF_ERROR(device->Synchronize());
  ir::ArrayMap results;
  const ir::Graph& graph = *module.FindGraph("g");
  for (const auto& output : program->outputs) {
    ir::Array array(graph.FindOutput(output.name)->value.type());
    DUOTONE_RETURN_IF_ERROR(
        device->Download(loaded->memory(output.buffer), array.view().data, array.type().bytes()));
    results[output.name] = std::move(array);
  }
  for (const auto& entry : module.state()) {
    ir::Array array(entry->type);
    DUOTONE_RETURN_IF_ERROR(store.Read(entry->name, array.view().data, array.type().bytes()));
    results[entry->name] = std::move(array);
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
  return results;
}

void ExpectWithin(const ir::ArrayMap& actual, const llvm::StringMap<Bounded>& bounds,
                  const std::string& where) {
  for (const auto& entry : bounds) {
    EXPECT_EQ(BeyondBounds(actual.find(entry.first())->second, entry.second), "")
        << entry.first().str() << " in " << where;
  }
}

void ExpectSameBits(const ir::ArrayMap& actual, const ir::ArrayMap& expected,
                    const std::string& where) {
  for (const auto& entry : expected) {
    EXPECT_TRUE(actual.find(entry.first())->second.BitEqual(entry.second))
        << entry.first().str() << " in " << where;
  }
}

// A family with one type and shape: what it must give on every architecture.
class Case {
 public:
  Case(const Family& family, const Element& element, const Shape& shape,
       runtime::KernelCompiler& compiler)
      : family_(family), element_(element), compiler_(compiler) {
    where_ = absl::StrCat(element.autocast ? "autocast " : "",
                          TextOf(family.graph, element.dtype, shape));
    Make(shape);
  }

  // Without --exact: within the bounds whatever the schedule and the approximations do.
  void CheckFast(std::string_view target) {
    SCOPED_TRACE(target);
    const auto entry = Prepare(*module_, target, false, compiler_);
    ASSERT_TRUE(entry.ok()) << entry.status() << where_;
    const auto run = [&](emulator::Schedule schedule, bool perturb) {
      return RunOn(*entry, *module_, inputs_,
                   {.architecture = std::string(target),
                    .schedule = schedule,
                    .perturb_approximations = perturb});
    };
    const auto plain = run(emulator::Schedule::kRoundRobin, false);
    ASSERT_TRUE(plain.ok()) << plain.status() << where_;
    ExpectWithin(*plain, fast_bounds_, where_);
    const auto other = run(emulator::Schedule::kAdversarial, false);
    ASSERT_TRUE(other.ok()) << other.status() << where_;
    ExpectSameBits(*other, *plain, where_);
    const auto perturbed = run(emulator::Schedule::kAdversarial, true);
    ASSERT_TRUE(perturbed.ok()) << perturbed.status() << where_;
    ExpectWithin(*perturbed, fast_bounds_, where_);
  }

  // With --exact: the reference's bits where they are promised.
  void CheckExact(std::string_view target) {
    SCOPED_TRACE(target);
    const auto entry = Prepare(*module_, target, true, compiler_);
    ASSERT_TRUE(entry.ok()) << entry.status() << where_;
    const auto exact = RunOn(*entry, *module_, inputs_,
                             {.architecture = std::string(target),
                              .schedule = emulator::Schedule::kAdversarial,
                              .perturb_approximations = true});
    ASSERT_TRUE(exact.ok()) << exact.status() << where_;
    ExpectWithin(*exact, exact_bounds_, where_);
    for (const std::string& name : family_.same_bits_if_exact) {
      EXPECT_TRUE(exact->find(name)->second.BitEqual(expected_.find(name)->second))
          << name << " in " << where_;
    }
  }

 private:
  void Make(const Shape& shape) {
    auto module = ParseFor(family_.graph, element_, shape);
    ASSERT_TRUE(module.ok()) << module.status() << where_;
    module_ = *std::move(module);
    inputs_ = Inputs(*module_->FindGraph("g"));
    const absl::StatusOr<ir::ArrayMap> expected = Reference(*module_, inputs_);
    ASSERT_TRUE(expected.ok()) << expected.status() << where_;
    expected_ = *expected;
    const auto pieces =
        ParseFor(family_.pieces.empty() ? family_.graph : family_.pieces, element_, shape);
    ASSERT_TRUE(pieces.ok()) << pieces.status() << where_;
    for (const bool approximates : {false, true}) {
      auto bounds = BoundOutputs(*(*pieces)->FindGraph("g"), inputs_, approximates);
      ASSERT_TRUE(bounds.ok()) << bounds.status() << where_;
      (approximates ? fast_bounds_ : exact_bounds_) = *std::move(bounds);
    }
    // The reference keeps the promise too.
    ExpectWithin(expected_, exact_bounds_, where_);
  }

  const Family& family_;
  const Element& element_;
  runtime::KernelCompiler& compiler_;
  std::string where_;
  std::unique_ptr<ir::Module> module_;
  ir::ArrayMap inputs_;
  ir::ArrayMap expected_;
  llvm::StringMap<Bounded> fast_bounds_;
  llvm::StringMap<Bounded> exact_bounds_;
};

class EveryFamily : public ::testing::TestWithParam<Family> {};

TEST_P(EveryFamily, GivesWhatTheReferenceGives) {
  const auto compiler = runtime::NvrtcForTest({.only_ptx = true});
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  const bool all = std::getenv("DUOTONE_ALL_SIZES") != nullptr;
  for (const Element& element : kElements) {
    for (int shape = 0; shape < 4; ++shape) {
      Case test(GetParam(), element, kShapes[shape], *compiler);
      if (HasFatalFailure()) return;
      for (const std::string_view target : {"sm_75", "sm_80", "sm_90"}) {
        // NVRTC takes nearly all of the time. Unless DUOTONE_ALL_SIZES asks for everything, sm_80
        // has all shapes and, with --exact, one; the others, whose code differs in 16 bits, have
        // one without and one with --exact.
        const bool main = target == "sm_80";
        const bool fast = element.autocast ? main && shape == 0 : main || shape == 0;
        const bool exact = !element.autocast && shape == (main ? 0 : 2);
        if (fast || all) test.CheckFast(target);
        if (exact || all) test.CheckExact(target);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily, ::testing::ValuesIn(Families()),
                         [](const auto& info) { return info.param.name; });

// Each family launches a kernel of its kind, and every kind of kernel that there is has a family.
TEST(Families, AreAllThatKernelsCanBeOf) {
  std::set<std::string> launched;
  for (const Family& family : Families()) {
    const auto module = ParseFor(family.graph, kElements[0], kShapes[0]);
    ASSERT_TRUE(module.ok()) << module.status();
    const auto entry =
        internal::LowerForCuda(**module, "g", {}, {.target = *FindGpuTarget("sm_80")});
    ASSERT_TRUE(entry.ok()) << entry.status();
    std::set<std::string> kinds;
    for (const runtime::Step& step : entry->program.steps) {
      const auto* launch = std::get_if<runtime::KernelLaunch>(&step.action);
      if (launch != nullptr) kinds.insert(launch->family);
    }
    EXPECT_THAT(kinds, ::testing::Contains(family.kind)) << family.name;
    launched.insert(family.kind);
  }
  const std::vector<std::string_view> families = codegen::cuda::KernelFamilies();
  EXPECT_THAT(launched, ::testing::UnorderedElementsAreArray(families));
}

// ---- Bounds

// Numbers worked out by hand from docs/numerics.md.
TEST(Bounds, AreWhatTheDocumentSays) {
  struct Example {
    std::string graph;
    double value;
    double error;
  };
  const Example examples[] = {
      // Half a unit at 3; in f16 also half a unit of f16.
      {"(%x: f32[4], %w: f32[4]) { %y = add(%x, %w) : f32[4] return y=%y }", 3, 0x1p-23},
      {"(%x: f16[4], %w: f16[4]) { %y = add(%x, %w) : f16[4] return y=%y }", 3, 0x1p-23 + 0x1p-10},
      // (64 + log2 4) 2^-24 (1 + 1 + 1 + 1).
      {"(%x: f32[4]) { %y = reduce_sum(%x), axes=[0] : f32[] return y=%y }", 4, 66 * 4 * 0x1p-24},
      // 3 * 2^-24 * (2 + 2 + 2).
      {"(%x: f32[4, 3], %w: f32[3, 4]) { %y = matmul(%x, %w) : f32[4, 4] return y=%y }", 6,
       18 * 0x1p-24},
      // All four rows are added to row 1.
      {"(%x: f32[2], %i: i32[4], %w: f32[4]) { %s = scatter_add(%x, %i, %w) : f32[2] "
       "%y = reduce_max(%s), axes=[0] : f32[] return y=%y }",
       9, 4 * 9 * 0x1p-24},
      // An error of 2^-23 of the sum, three times as large in the product, which errs itself.
      {"(%x: f32[4], %w: f32[4]) { %s = add(%x, %w) : f32[4] %t = add(%s, %x) : f32[4] "
       "%y = mul(%s, %s) : f32[4] return y=%y }",
       9, 6 * 0x1p-23 + 0x1p-46 + 0x1p-21},
      // An approximation where autocast chose the type: 2^-17 of e, then half a unit of f16.
      {"(%x: f16[4]) { %y = exp(%x) : f16[4] {origin=\"autocast:test\"} return y=%y }", std::exp(1),
       0x1p-17 * std::exp(1) + 0x1p-10},
  };
  for (const Example& example : examples) {
    const auto module = ir::Parse(absl::StrCat("module @m { graph @g", example.graph, " }"));
    ASSERT_TRUE(module.ok()) << module.status();
    const ir::Graph& graph = *(*module)->FindGraph("g");
    ir::ArrayMap inputs;
    for (const ir::Node* input : graph.inputs()) {
      inputs[input->name()] = ir::Array::Of(input->type(), {input->name() == "w" ? 2.0 : 1.0});
    }
    const auto bounds = BoundOutputs(graph, inputs, /*approximates=*/true);
    ASSERT_TRUE(bounds.ok()) << bounds.status();
    const Bounded& y = bounds->find("y")->second;
    EXPECT_DOUBLE_EQ(y.value.Get(0), example.value) << example.graph;
    EXPECT_NEAR(y.error.Get(0), example.error, 1e-9 * example.error) << example.graph;
    // What is just outside is found.
    ir::Array moved = y.value;
    moved.Set(0, example.value + 1.001 * example.error);
    EXPECT_THAT(BeyondBounds(moved, y), ::testing::HasSubstr("element 0 is"));
    moved.Set(0, example.value - 0.999 * example.error);
    EXPECT_EQ(BeyondBounds(moved, y), "");
  }
}

// ---- Functions

// So many and one more operands for every function.
constexpr int kSteps = 49999, kSweep = kSteps + 1;

ir::Array SweepIn(DType dtype, double low, double high) {
  const std::vector<double> points = ir::Sweep(low, high, kSteps);
  return ir::Array::Of({dtype, {static_cast<int64_t>(points.size())}}, points);
}

struct Function {
  std::string expression;
  double low, high;  // the range of operands
};

// A kernel's results for all of a graph's inputs, with approximations that are rounded correctly,
// and with ones that err as far as the PTX ISA lets them.
void ForBothRoundings(const ir::Module& module, const ir::ArrayMap& inputs, bool exact,
                      const std::function<void(const ir::ArrayMap&)>& check) {
  const auto compiler = runtime::NvrtcForTest({.only_ptx = true});
  if (compiler == nullptr) GTEST_SKIP() << "no NVRTC";
  const auto entry = Prepare(module, "sm_80", exact, *compiler);
  ASSERT_TRUE(entry.ok()) << entry.status();
  for (const bool perturb : {false, true}) {
    SCOPED_TRACE(perturb ? "perturbed" : "correctly rounded");
    const auto result = RunOn(*entry, module, inputs, {.perturb_approximations = perturb});
    ASSERT_TRUE(result.ok()) << result.status();
    check(*result);
  }
}

// docs/numerics.md, "Transcendental functions": the table's column for CUDA.
TEST(Functions, KeepTheBoundsOfTheTable) {
  const Function functions[] = {{"exp(%x)", -87, 88.7},     {"log(%x)", 0x1p-126, 3e38},
                                {"pow(%x, %y)", 0.01, 100}, {"tanh(%x)", -20, 20},
                                {"erf(%x)", -6, 6},         {"sigmoid(%x)", -80, 80},
                                {"silu(%x)", -80, 80},      {"softplus(%x)", -80, 80},
                                {"gelu(%x)", -40, 80},      {"rsqrt(%x)", 0x1p-126, 3e38}};
  for (const Function& function : functions) {
    SCOPED_TRACE(function.expression);
    const auto module =
        ParseFor(absl::StrCat("graph @g(%x: T[N], %y: T[N]) { %f = ", function.expression,
                              " : T[N] return f=%f }"),
                 {"f32"}, {1, kSweep, 1});
    ASSERT_TRUE(module.ok()) << module.status();
    ir::ArrayMap inputs;
    inputs["x"] = SweepIn(DType::kF32, function.low, function.high);
    inputs["y"] = ir::Array({DType::kF32, {kSweep}});
    for (int i = 0; i < kSweep; ++i) inputs["y"].Set(i, i % 135 / 8.0 - 7.5);
    const auto bounds = BoundOutputs(*(*module)->FindGraph("g"), inputs, false);
    ASSERT_TRUE(bounds.ok()) << bounds.status();
    ForBothRoundings(**module, inputs, /*exact=*/true, [&](const ir::ArrayMap& results) {
      ExpectWithin(results, *bounds, function.expression);
    });
  }
}

// The same, "CUDA kernels": approximate functions of autocast's values, which nothing rounds here
// before they become f32.
TEST(Functions, KeepTheBoundsOfApproximations) {
  struct Approximation {
    std::string expression;
    double bound;
    bool relative;  // to the result, else to the larger of 1 and the result
  };
  const Approximation approximations[] = {
      {"exp(%x)", 0x1p-17, true},
      {"tanh(%x)", 0x1p-17, true},
      {"sigmoid(%x)", 0x1p-17, true},
      {"silu(%x)", 0x1p-18, false},
      {"gelu(%x)", 0x1p-18, false},
      {"gelu(%x), tanh=true", 0x1p-18, false},
      {"silu_grad(%one, %x)", 0x1p-17, false},
      {"gelu_grad(%one, %x)", 0x1p-17, false},
      {"gelu_grad(%one, %x), tanh=true", 0x1p-17, false},
  };
  for (const Approximation& made : approximations) {
    SCOPED_TRACE(made.expression);
    const std::string graph =
        absl::StrCat("graph @g(%x: T[N], %one: T[N]) { %f = ", made.expression,
                     " : T[N] %wide = cast(%f), to=f32 : f32[N] return f=%wide }");
    const Shape shape = {1, kSweep, 1};
    auto module = ParseFor(graph, {"f16", true}, shape);
    const auto in_f64 =
        ir::Parse(absl::StrReplaceAll(TextOf(graph, "f64", shape), {{"f32", "f64"}}));
    ASSERT_TRUE(module.ok()) << module.status();
    ASSERT_TRUE(in_f64.ok()) << in_f64.status();
    ir::ArrayMap inputs, inputs_in_f64;
    inputs["x"] = SweepIn(DType::kF16, -80, 80);
    inputs["one"] = ir::Array::Of({DType::kF16, {kSweep}}, {1.0});
    for (const char* name : {"x", "one"}) {
      ir::Array& wide = inputs_in_f64[name] = ir::Array({DType::kF64, {kSweep}});
      for (int i = 0; i < kSweep; ++i) wide.Set(i, inputs[name].Get(i));
    }
    const auto exact = Reference(**in_f64, inputs_in_f64);
    ASSERT_TRUE(exact.ok()) << exact.status();
    ForBothRoundings(**module, inputs, /*exact=*/false, [&](const ir::ArrayMap& results) {
      for (int i = 0; i < kSweep; ++i) {
        const double wanted = exact->find("f")->second.Get(i);
        const double size = made.relative ? std::fabs(wanted) : std::max(1.0, std::fabs(wanted));
        ASSERT_NEAR(results.find("f")->second.Get(i), wanted, made.bound * size)
            << inputs["x"].Get(i);
      }
    });
  }
}

}  // namespace
}  // namespace duotone
