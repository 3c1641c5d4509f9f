#include "tests/duotone/random_testing.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "gtest/gtest.h"
#include "passes/dce.h"
#include "runtime/state_store.h"
#include "tests/duotone/random_graph.h"

namespace duotone {
namespace {

constexpr const char* kTargets[] = {"sm_75", "sm_80", "sm_90", "sm_120"};

// The greatest finite magnitude of all values of the graph, from which errors come.
absl::StatusOr<double> Magnitude(const ir::Module& module, const ir::ArrayMap& inputs,
                                 const ir::ArrayMap& state, const ir::RandomKey& random) {
  const std::unique_ptr<ir::Module> open = module.Clone();
  ir::Graph& graph = *open->FindGraph("g");
  int count = 0;
  for (const auto& node : graph.nodes()) {
    for (int i = 0; i < node->result_count(); ++i) {
      if (!node->type(i).is_float()) continue;
      graph.outputs().push_back({absl::StrCat("value", count++), node->result(i)});
    }
  }
  DUOTONE_ASSIGN_OR_RETURN(const ir::InterpreterResult result,
                           ir::Interpret(graph, inputs, state, random));
  double magnitude = 1;
  for (const auto& output : result.outputs) {
    for (int64_t i = 0; i < output.second.elements(); ++i) {
      const double value = std::fabs(output.second.Get(i));
      if (std::isfinite(value)) magnitude = std::max(magnitude, value);
    }
  }
  return magnitude;
}

// The first difference in words. Values that are not loose are equal, but for the bits of a NaN.
std::string Difference(const std::string& name, const ir::Array& actual, const ir::Array& expected,
                       double tolerance) {
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double a = actual.Get(i), b = expected.Get(i);
    const bool same = (std::isnan(a) && std::isnan(b)) ||
                      (a == b && (tolerance > 0 || std::signbit(a) == std::signbit(b))) ||
                      std::fabs(a - b) <= tolerance;
    if (!same) return absl::StrFormat("%s[%d]: %.9g instead of %.9g", name, i, a, b);
  }
  return "";
}

double Tolerance(DType dtype, double magnitude, bool exact) {
  // Types of values in between are autocast's.
  if (!exact) dtype = DType::kBF16;
  const double relative = dtype == DType::kBF16 ? 0.05 : dtype == DType::kF16 ? 0.01 : 1e-3;
  return relative * magnitude;
}

int Number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  int number = otherwise;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : otherwise;
}

// Graphs that were wrong once, cut down from random ones.
constexpr const char* kSmallGraphs[] = {
    // A view that keeps the order of its operand, where nothing is computed.
    R"(state %s: f16[5] = zeros()
  graph @g(%x: f16[5]) {
    %y = broadcast(%x), dims=[0] : f16[5]
    update %s = %y
    return y=%y
  })",
    // A kernel without operands.
    R"(graph @g() {
    %u = random_uniform(), low=-1.0 : f32[6]
    return u=%u
  })",
    // One test of several tensors, and of one twice.
    R"(state %s: f32[] = zeros()
  graph @g(%x: f32[4], %y: f16[4], %z: f32[9, 3], %n: f32[]) {
    %ok = all_finite(%x, %y, %z, %x) : bool[]
    update %s = %n guard=%ok
    return ok=%ok
  })",
    // A sum that is tested by two tests.
    R"(graph @g(%x: f32[3, 31], %y: f32[8]) {
    %sum = reduce_sum(%x), axes=[0] : f32[31]
    %a = all_finite(%sum, %sum) : bool[]
    %b = all_finite(%sum, %y) : bool[]
    return a=%a, b=%b, sum=%sum
  })",
    // The gradient of a loss alone; more rows than one wave of blocks takes.
    R"(graph @g(%x: f16[33, 64], %index: i32[33], %lse: f32[33], %d: f32[]) {
    %y = cross_entropy_grad(%x, %index, %lse, %d), label_smoothing=0.1 : f16[33, 64]
    return y=%y
  })",
    // The same, only tested.
    R"(graph @g(%x: bf16[7, 16], %index: i64[7], %lse: f32[7], %d: f32[]) {
    %y = cross_entropy_grad(%x, %index, %lse, %d) : bf16[7, 16]
    %ok = all_finite(%y) : bool[]
    return ok=%ok
  })",
    // The same, under another shape.
    R"(graph @g(%x: f32[33, 2, 32], %index: i64[33, 2], %lse: f32[33, 2], %d: f32[]) {
    %y = cross_entropy_grad(%x, %index, %lse, %d) : f32[33, 2, 32]
    %r = reshape(%y) : f32[3, 704]
    %g = gelu(%r), tanh=true : f32[3, 704]
    return g=%g
  })",
    // A mean of everything whose first axis has size 1.
    R"(graph @g(%x: f32[1, 8], %w: f64[33, 1]) {
    %m = reduce_mean(%x), axes=[1], keep_dims=true, out=f64 : f64[1, 1]
    %y = matmul(%m, %w), transpose_b=true : f64[1, 33]
    return y=%y
  })",
    // An optimizer whose gradient is an iota.
    R"(graph @g(%m: f32[8], %v: f32[8], %lr: f32[]) {
    %w = iota() : f32[8]
    %square = mul(%v, %v) : f32[8]
    %step = constant(), value=3 : i64[]
    %w1, %m1, %v1 = adamw_update(%w, %w, %m, %square, %step, %lr) : f32[8], f32[8], f32[8]
    return w1=%w1, v1=%v1
  })",
    // An optimizer without elements.
    R"(graph @g(%w: f32[0], %g: f16[0], %lr: f32[]) {
    %w1 = sgd_update(%w, %g, %lr), weight_decay=0.1 : f32[0]
    return w1=%w1
  })",
    // Random numbers behind an optimizer.
    R"(graph @g(%w: f32[17], %g: f32[17], %lr: f32[]) {
    %w1 = sgd_update(%w, %g, %lr) : f32[17]
    %y, %mask = dropout(%w1), rate=0.5 : f32[17], bool[17]
    return y=%y, mask=%mask
  })",
    // What an optimizer computes, under another shape, and read at once by an expensive function.
    R"(graph @g(%w: f32[33, 2, 1], %g: f32[33, 2, 1], %lr: f32[], %scale: f32[]) {
    %t = transpose(%w), perm=[0, 1, 2] : f32[33, 2, 1]
    %w1 = sgd_update(%t, %g, %lr), weight_decay=0.1 : f32[33, 2, 1]
    %r = reshape(%w1) : f32[6, 11]
    %s = broadcast(%scale) : f32[6, 11]
    %p = mul(%r, %s) : f32[6, 11]
    %y = tanh(%p) : f32[6, 11]
    return y=%y
  })",
    // A rate that is a view of a tensor as large as the parameter.
    R"(graph @g(%w: f32[1], %g: f32[1]) {
    %lr = reshape(%g) : f32[]
    %w1 = sgd_update(%w, %g, %lr) : f32[1]
    return w1=%w1
  })",
    // A view of a test of many tensors, stored.
    R"(graph @g(%x: f64[], %y: f32[7]) {
    %e = softplus(%x) : f64[]
    %ok = all_finite(%e, %y) : bool[]
    %p = pad(%ok) : bool[]
    return p=%p, e=%e
  })",
    // A guard that is a view of a later test, and an update of a scalar.
    R"(state %s: bool[] = zeros()
  graph @g(%x: bool[], %y: f32[7]) {
    %n = or(%s, %x) : bool[]
    %u = random_uniform() : bf16[]
    %ok = all_finite(%u, %y) : bool[]
    %guard = reshape(%ok) : bool[]
    update %s = %n guard=%guard
    return guard=%guard
  })",
    // Flags that are kept: the old one is read while the new one is gathered, and a guard may hold.
    R"(state %f: bool[] = zeros()
  state %kept: bool[] = zeros()
  graph @g(%x: f32[8, 8], %w: f32[8, 8], %hold: bool[]) {
    %a = matmul(%x, %w) : f32[8, 8]
    %old = broadcast(%f) : bool[8, 8]
    %b = select(%old, %a, %x) : f32[8, 8]
    %c = softmax(%b), axis=1 : f32[8, 8]
    %ok = all_finite(%a, %c) : bool[]
    %root = sqrt(%x) : f32[8, 8]
    %real = all_finite(%root) : bool[]
    update %f = %ok
    update %kept = %real guard=%hold
    return c=%c
  })",
    // A guard that is replaced under itself.
    R"(state %s: bool[] = ones()
  graph @g(%x: bool[]) {
    update %s = %x guard=%s
    return
  })",
    // Results without elements, of a kernel that would write rows of no table.
    R"(graph @g(%x: f32[6, 0, 6], %index: i32[5], %y: f32[5, 0, 6]) {
    %s = scatter_add(%x, %index, %y) : f32[6, 0, 6]
    return s=%s
  })",
    // A batch of no products.
    R"(graph @g(%x: f16[0, 4, 6], %y: f16[0, 17, 6]) {
    %m = matmul(%x, %y), transpose_b=true, out=f32 : f32[0, 4, 17]
    return m=%m
  })",
    // A row of bytes that some threads do not have.
    R"(graph @g(%x: u8[1, 1], %y: i64[3, 5]) {
    %c = cast(%x), to=f32 : f32[1, 1]
    %s = softmax(%c), axis=1 : f32[1, 1]
    %d = cast(%y), to=f32 : f32[3, 5]
    %t = softmax(%d), axis=1 : f32[3, 5]
    return s=%s, t=%t
  })",
    // A row kernel in place, for one short row: most groups of threads have none.
    R"(state %s: f16[1, 5] = zeros()
  graph @g(%x: f32[1, 5]) {
    %y = softmax(%x), axis=1 : f32[1, 5]
    %c = cast(%y), to=f16 : f16[1, 5]
    %n = add(%s, %c) : f16[1, 5]
    update %s = %n
    return
  })",
    // Views that keep the order, behind a product and in a reduction.
    R"(graph @g(%x: f32[8, 16, 1], %w: f32[16, 8], %v: f64[64, 6]) {
    %y = matmul(%x, %w), transpose_a=true : f32[8, 1, 8]
    %s = stop_gradient(%y) : f32[8, 1, 8]
    %z = silu(%s) : f32[8, 1, 8]
    %ok = all_finite(%z, %w) : bool[]
    %m = reduce_mean(%v), axes=[1] : f64[64]
    %t = stop_gradient(%m) : f64[64]
    %least = reduce_min(%t), axes=[0], out=bf16 : bf16[]
    return ok=%ok, least=%least
  })",
};

}  // namespace

std::vector<Case> RandomCases(int first, int count) {
  first = Number("DUOTONE_RANDOM_FIRST", first);
  count = Number("DUOTONE_RANDOM_COUNT", count);
  std::vector<Case> cases;
  for (int i = first; i < first + count; ++i) {
    const auto seed = static_cast<uint32_t>(i);
    RandomGraph random(seed);
    cases.push_back({.seed = seed,
                     .module = random.module().Clone(),
                     .loose = random.loose(),
                     .special = random.special(),
                     .exact = random.exact()});
  }
  return cases;
}

std::vector<Case> SmallCases() {
  std::vector<Case> cases;
  for (const char* text : kSmallGraphs) {
    auto module = ir::Parse(absl::StrCat("module @small {", text, "}"));
    EXPECT_TRUE(module.ok()) << module.status() << text;
    if (!module.ok()) continue;
    Case test{.seed = static_cast<uint32_t>(cases.size()), .module = *std::move(module)};
    for (const ir::Output& output : test.module->FindGraph("g")->outputs()) {
      if (output.value.type().is_float()) test.loose.insert(output.name);
    }
    for (const auto& entry : test.module->state()) {
      if (entry->type.is_float()) test.loose.insert(entry->name);
    }
    cases.push_back(std::move(test));
  }
  return cases;
}

absl::Status LowerCase(Case& test) {
  passes::PassContext ctx;
  DUOTONE_RETURN_IF_ERROR(passes::Dce().Run(*test.module, ctx).status());
  DUOTONE_RETURN_IF_ERROR(ir::Verify(*test.module));
  internal::CudaCompileOptions options{.exact = test.exact};
  DUOTONE_ASSIGN_OR_RETURN(test.target, FindGpuTarget(kTargets[test.seed % std::size(kTargets)]));
  options.target = test.target;
  DUOTONE_ASSIGN_OR_RETURN(test.entry, internal::LowerForCuda(*test.module, "g", {}, options));
  return ir::Verify(*test.entry.module);
}

absl::Status RunCase(const Case& test, std::shared_ptr<const runtime::Program> program,
                     runtime::Device& device) {
  runtime::StateStore store(&device);
  ir::ArrayMap state = RandomState(*test.module, test.seed);
  for (const auto& entry : test.module->state()) {
    std::vector<int64_t> shape;
    for (const ir::Dim& dim : entry->type.shape) shape.push_back(dim.size());
    DUOTONE_RETURN_IF_ERROR(store.Add(entry->name, entry->type.dtype, shape));
    DUOTONE_RETURN_IF_ERROR(
        store.Write(entry->name, state[entry->name].view().data, entry->type.bytes()));
  }
  const ir::Graph& graph = *test.module->FindGraph("g");
  DUOTONE_ASSIGN_OR_RETURN(auto loaded, device.Load(program, store));
  for (int run = 0; run < 3; ++run) {
    const ir::ArrayMap inputs =
        RandomInputs(graph, test.seed + static_cast<uint32_t>(run), test.special && run != 1);
    const ir::RandomKey key{.seed = test.seed, .step = run, .micro_batch = 0};
    DUOTONE_ASSIGN_OR_RETURN(const ir::InterpreterResult expected,
                             ir::Interpret(graph, inputs, state, key));
    DUOTONE_ASSIGN_OR_RETURN(const double magnitude, Magnitude(*test.module, inputs, state, key));
    for (const auto& input : program->inputs) {
      const ir::Array& array = inputs.find(input.name)->second;
      DUOTONE_RETURN_IF_ERROR(
          device.Upload(loaded->memory(input.buffer), array.view().data, array.type().bytes()));
    }
    DUOTONE_RETURN_IF_ERROR(device.Run(*loaded, {.seed = test.seed, .step = run}));
    DUOTONE_RETURN_IF_ERROR(device.Synchronize());
    const auto compare = [&](const std::string& name, const ir::Array& actual,
                             const ir::Array& wanted) -> absl::Status {
      const bool is_loose = test.loose.contains(name);
      const std::string difference =
          Difference(name, actual, wanted,
                     is_loose ? Tolerance(wanted.type().dtype, magnitude, test.exact) : 0);
      if (difference.empty() || (is_loose && magnitude > 1e6)) return absl::OkStatus();
      return Internal("run %d, magnitude %g: %s", run, magnitude, difference);
    };
    for (const auto& output : program->outputs) {
      const ir::Array& wanted = expected.outputs.find(output.name)->second;
      ir::Array actual(wanted.type());
      DUOTONE_RETURN_IF_ERROR(device.Download(loaded->memory(output.buffer), actual.view().data,
                                              actual.type().bytes()));
      DUOTONE_RETURN_IF_ERROR(compare(output.name, actual, wanted));
    }
    for (const auto& entry : test.module->state()) {
      ir::Array actual(entry->type);
      DUOTONE_RETURN_IF_ERROR(store.Read(entry->name, actual.view().data, actual.type().bytes()));
      DUOTONE_RETURN_IF_ERROR(
          compare(entry->name, actual, expected.state.find(entry->name)->second));
      state[entry->name] = std::move(actual);
    }
  }
  return absl::OkStatus();
}

}  // namespace duotone
