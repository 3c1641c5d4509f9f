// Gates on the kernels of the sample models' training steps, for every architecture and without a
// GPU: they compile, keep nothing in local memory, move full-size arrays in 16-byte units, and
// their number does not grow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <regex>
#include <sstream>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "duotone/cuda_compile.h"
#include "ir/op_def.h"
#include "ir/text.h"
#include "passes/options_text.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "runtime/cuda/kernel_cache.h"
#include "runtime/cuda/kernel_report.h"
#include "tests/runtime/cuda/nvrtc_testing.h"

namespace duotone::internal {
namespace {

using runtime::LaunchArgument;
using runtime::Program;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Kernels per training step. The numbers may only shrink: who needs fewer commits the smaller one.
struct SampleModel {
  const char* name;
  int64_t batch;
  int kernels;  // committed
  int limit;    // never to be passed
};
constexpr SampleModel kModels[] = {{"mlp", 128, 12, 14}, {"gpt", 16, 107, 110}};
static_assert(kModels[0].kernels <= kModels[0].limit && kModels[1].kernels <= kModels[1].limit);

constexpr std::string_view kPrecisions[] = {"off", "f16", "bf16"};

absl::StatusOr<CudaEntry> LowerSample(const SampleModel& model, std::string_view precision,
                                      const CudaCompileOptions& cuda) {
  DUOTONE_ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(std::string(DUOTONE_SOURCE_DIR "/samples/models/") + model.name + ".duo"));
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module, ir::Parse(text, model.name));
  passes::PassOptions options;
  const std::string scale = precision == "f16" ? " loss_scale=dynamic" : "";
  DUOTONE_RETURN_IF_ERROR(passes::ParseOptions(
      "dtype=" + std::string(precision) + scale + " optimizer=adamw", options));
  DUOTONE_ASSIGN_OR_RETURN(const passes::PassList list, passes::MakePipeline("train", options));
  DUOTONE_RETURN_IF_ERROR(passes::PassManager().Run(list, *module));
  DUOTONE_RETURN_IF_ERROR(AddWeightCopies(*module, options));
  ir::SizeBinding sizes;
  for (const std::string& name : ir::NamedSizes(*module->FindGraph("step"))) {
    sizes[name] = model.batch;
  }
  return LowerForCuda(*module, "step", sizes, cuda);
}

int64_t Elements(const runtime::Buffer& buffer) {
  int64_t elements = 1;
  for (const int64_t size : buffer.shape) elements *= size;
  return elements;
}

int Wide(const runtime::AccessWidths& widths) { return widths[4] + widths[5]; }
int Narrow(const runtime::AccessWidths& widths) {
  return std::accumulate(widths.begin(), widths.end(), 0) - Wide(widths);
}

// A parameter of a kernel that stands for a full-size array: one with as many elements as the
// largest of the launch.
struct FullArray {
  std::string parameter;  // "in0"
  int element_bytes = 0;
  bool is_read = false;
  bool is_written = false;
};

// The names of a kernel's parameters, in their order.
std::vector<std::string> ParametersOf(const std::string& source) {
  const size_t open = source.find("kernel(", source.find("extern \"C\""));
  const std::string list = source.substr(open + 7, source.find(')', open) - open - 7);
  std::vector<std::string> names;
  for (const std::string& parameter : std::vector<std::string>(absl::StrSplit(list, ','))) {
    names.push_back(parameter.substr(parameter.find_last_of(" *") + 1));
  }
  return names;
}

// Empty if the arrays are tiny, or if one has rows (the last axis) that are no multiple of 16
// bytes: then alignment does not allow wide accesses.
std::vector<FullArray> FullArraysOf(const Program& program, const runtime::KernelLaunch& launch) {
  const std::vector<std::string> names = ParametersOf(program.kernels[launch.kernel].source);
  EXPECT_EQ(names.size(), launch.arguments.size());
  int64_t largest = 16;
  const auto buffer_of = [&](size_t i) -> const runtime::Buffer* {
    const LaunchArgument& argument = launch.arguments[i];
    return argument.kind == LaunchArgument::Kind::kBuffer
               ? &program.buffers[argument.address.buffer]
               : nullptr;
  };
  const auto has = [&](const std::vector<int>& list, size_t i) {
    const int root = program.RootOf(launch.arguments[i].address.buffer);
    return std::find(list.begin(), list.end(), root) != list.end();
  };
  for (size_t i = 0; i < names.size(); ++i) {
    if (buffer_of(i) != nullptr) largest = std::max(largest, Elements(*buffer_of(i)));
  }
  std::vector<FullArray> arrays;
  for (size_t i = 0; i < names.size(); ++i) {
    const runtime::Buffer* buffer = buffer_of(i);
    if (buffer == nullptr || Elements(*buffer) != largest) continue;
    const int element_bytes = static_cast<int>(buffer->bytes / largest);
    if (buffer->shape.empty() || buffer->shape.back() * element_bytes % 16 != 0) return {};
    arrays.push_back({names[i], element_bytes, has(launch.reads, i), has(launch.writes, i)});
  }
  return arrays;
}

// "" if the source touches the array by Load<W>(in0 ...) and Store(out0 ..., value) of at least 16
// bytes alone.
std::string CheckSource(const std::string& source, const FullArray& array) {
  const std::regex use("(\\w+)?(<(\\d+)>)?(\\(?)\\b" + array.parameter + "\\b([^;]*, (\\w+)\\);)?");
  const size_t body = source.find(") {", source.find("kernel("));
  for (std::sregex_iterator it(source.begin() + body, source.end(), use), end; it != end; ++it) {
    const std::smatch& match = *it;
    int width = 0;
    if (match[1] == "Load" && match[4] == "(") {
      width = std::stoi(match[3]);
    } else if (match[1] == "Store" && match[4] == "(") {
      const std::regex declared("Vec<\\w+, (\\d+)> " + match[6].str() + "\\b");
      std::smatch declaration;
      if (std::regex_search(source, declaration, declared)) width = std::stoi(declaration[1]);
    }
    if (width * array.element_bytes < 16) return "is accessed narrowly: " + match[0].str();
  }
  return "";
}

// "" if a kernel's accesses are as wide as its arrays allow: full-size ones move in instructions
// of 16 bytes. Labels, numbers per row, scalars and flags are small and may be read as they come.
// Arrays behind tables (optimizers) are flat and padded: what they update is written in 16-byte
// stores alone, and read with as many loads. `checked` is set if the launch has full-size arrays.
std::string CheckWidths(const Program& program, const runtime::KernelLaunch& launch,
                        const runtime::KernelCode& kernel, bool& checked) {
  const runtime::OpcodeMix& mix = kernel.sass.all;
  checked = true;
  const bool has_table = std::any_of(
      launch.arguments.begin(), launch.arguments.end(),
      [](const auto& argument) { return argument.kind == LaunchArgument::Kind::kTable; });
  if (has_table) {
    if (Narrow(mix.global_stores) == 0 && Wide(mix.global_loads) >= Wide(mix.global_stores)) {
      return "";
    }
    return absl::StrFormat("%d narrow and %d wide stores, %d wide loads", Narrow(mix.global_stores),
                           Wide(mix.global_stores), Wide(mix.global_loads));
  }
  const std::vector<FullArray> arrays = FullArraysOf(program, launch);
  checked = !arrays.empty();
  int reads = 0, writes = 0;
  for (const FullArray& array : arrays) {
    const std::string wrong = CheckSource(program.kernels[launch.kernel].source, array);
    if (!wrong.empty()) return array.parameter + " " + wrong;
    reads += array.is_read;
    writes += array.is_written;
  }
  if (Wide(mix.global_loads) >= reads && Wide(mix.global_stores) >= writes) return "";
  return absl::StrFormat("%d wide loads and %d wide stores for %d and %d arrays",
                         Wide(mix.global_loads), Wide(mix.global_stores), reads, writes);
}

// Nodes that are a cast and nothing else: kernels that a better fusion would not have.
std::vector<std::string> LoneCasts(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) {
    if (node->op() == ir::Op::kCast) names.push_back(node->name());
    if (node->body() == nullptr) continue;
    bool only_casts = true;
    for (const auto& inner : node->body()->nodes()) {
      only_casts =
          only_casts && (inner->op() == ir::Op::kCast || inner->def().lower == ir::Lower::kView);
    }
    if (only_casts) names.push_back(node->name());
  }
  return names;
}

class KernelGates : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    compiler_ = runtime::NvrtcForTest();
    if (compiler_ == nullptr) GTEST_SKIP() << "no NVRTC";
    folder_ = std::filesystem::path(::testing::TempDir()) / ("kernel_gates_" + GetParam());
    std::filesystem::remove_all(folder_);
    // The precisions share kernels.
    cache_ = std::make_unique<runtime::KernelCache>(
        runtime::KernelCacheOptions{.directory = folder_.string()});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Check(const SampleModel& model, std::string_view precision) {
    SCOPED_TRACE(absl::StrFormat("%s, %s, %s", model.name, precision, GetParam()));
    const GpuTarget& target = **FindGpuTarget(GetParam());
    const CudaCompileOptions options{
        .target = &target, .compiler = compiler_.get(), .cache = cache_.get()};
    absl::StatusOr<CudaEntry> entry = LowerSample(model, precision, options);
    ASSERT_TRUE(entry.ok()) << entry.status();
    const auto compiled = CompileKernels(entry->program, options);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_THAT(compiled->warnings, IsEmpty());
    if (target.compute == 75 && precision == "bf16") {
      EXPECT_THAT(entry->warnings, ElementsAre("bf16 on sm_75 computes through f32"));
    } else {
      EXPECT_THAT(entry->warnings, IsEmpty());
    }
    EXPECT_THAT(LoneCasts(*entry->graph), IsEmpty());
    const auto report = runtime::MakeProgramReport(entry->program, target);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_LE(report->total.launches, model.kernels);
    CheckCode(*report);
    CheckLaunches(entry->program, *report);
  }

  static void CheckCode(const runtime::ProgramReport& report) {
    for (const runtime::KernelCode& kernel : report.kernels) {
      EXPECT_EQ(kernel.spill_bytes(), 0) << kernel.name;
      EXPECT_EQ(kernel.local_bytes, 0) << kernel.name;
      EXPECT_FALSE(kernel.sass.all.uses_local_memory()) << kernel.name;
      // A compiler may come with an opcode that the table lacks; the counts above must mean
      // something all the same.
      EXPECT_LE(100 * kernel.sass.all.Count(runtime::SassClass::kUnknown),
                kernel.sass.all.instructions)
          << kernel.name;
    }
  }

  void CheckLaunches(const Program& program, const runtime::ProgramReport& report) {
    for (const runtime::LaunchReport& launch : report.launches) {
      const std::string what =
          absl::StrFormat("s%d %s %%%s", launch.step, launch.family, launch.node);
      EXPECT_GT(launch.occupancy.blocks, 0) << what;
      EXPECT_GT(launch.bytes_written, 0) << what;
      if (launch.family != "pointwise" && launch.family != "row" && launch.family != "optimizer") {
        continue;
      }
      bool checked = false;
      EXPECT_EQ(
          CheckWidths(program, std::get<runtime::KernelLaunch>(program.steps[launch.step].action),
                      report.kernels[launch.kernel], checked),
          "")
          << what;
      wide_launches_ += checked;
    }
  }

  std::unique_ptr<runtime::KernelCompiler> compiler_;
  std::unique_ptr<runtime::KernelCache> cache_;
  std::filesystem::path folder_;
  int wide_launches_ = 0;
};

TEST_P(KernelGates, HoldForTheTrainingSteps) {
  for (const SampleModel& model : kModels) {
    for (const std::string_view precision : kPrecisions) Check(model, precision);
  }
  // The rule about widths was not vacuous: rows of the GPT and optimizers.
  EXPECT_GE(wide_launches_, 3 * 25);
}

std::vector<std::string> Targets() {
  std::vector<std::string> names;
  for (const GpuTarget& target : AllGpuTargets()) names.emplace_back(target.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Targets, KernelGates, ::testing::ValuesIn(Targets()),
                         [](const auto& info) { return info.param; });

TEST(KernelGatesRules, NarrowAccessesAreFound) {
  const auto check = [](const std::string& body) {
    return CheckSource("extern \"C\" __global__ void kernel(half* in0) {\n" + body + "\n}\n",
                       {.parameter = "in0", .element_bytes = 2});
  };
  EXPECT_EQ(check("kept = Load<8>(in0 + 128 * row + 8 * q);"), "");
  EXPECT_EQ(check("Vec<half, 8> y; Store(in0 + 8 * q, y);"), "");
  EXPECT_NE(check("kept = Load<4>(in0 + 4 * q);"), "");
  EXPECT_NE(check("Vec<half, 4> y; Store(in0 + 4 * q, y);"), "");
  EXPECT_NE(check("x = in0[i];"), "");
  EXPECT_NE(check("a = Load<8>(in0 + 8 * q); in0[i] = x;"), "");
  EXPECT_EQ(check("x = in01[i];"), "");
}

// Sources that people read, kept as files: a change of the generators shows what it does to them.
struct Golden {
  const char* file;
  const SampleModel& model;
  const char* precision;
  const char* family;
  const char* op;  // of the fusion; "" for any; the last launch that fits is taken
};
constexpr Golden kGolden[] = {
    {"layer_norm", kModels[1], "f16", "row", "layer_norm"},
    {"softmax", kModels[1], "f16", "row", "softmax"},
    {"layer_norm_grad", kModels[1], "bf16", "row", "layer_norm_grad"},
    {"cross_entropy", kModels[0], "off", "row", "cross_entropy"},
    {"relu_after_matmul", kModels[0], "f16", "matmul", "relu"},
    {"adamw", kModels[0], "f16", "optimizer", "adamw_update"},
    {"loss_scale", kModels[0], "f16", "pointwise", ""},
    {"token_gradient", kModels[1], "off", "scatter", ""},
    {"finish", kModels[0], "off", "finish", ""},
};

bool Computes(const ir::Graph& graph, const std::string& fusion, std::string_view op) {
  if (op.empty()) return true;
  for (const auto& node : graph.nodes()) {
    if (node->name() != fusion || node->body() == nullptr) continue;
    const auto& inner = node->body()->nodes();
    return std::any_of(inner.begin(), inner.end(),
                       [&](const auto& n) { return n->def().name == op; });
  }
  return false;
}

TEST(GoldenKernels, AreAsCommitted) {
  const CudaCompileOptions options{.target = *FindGpuTarget("sm_80")};
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(golden.file);
    const absl::StatusOr<CudaEntry> entry = LowerSample(golden.model, golden.precision, options);
    ASSERT_TRUE(entry.ok()) << entry.status();
    const runtime::KernelLaunch* found = nullptr;
    for (const runtime::Step& step : entry->program.steps) {
      const auto* launch = std::get_if<runtime::KernelLaunch>(&step.action);
      if (launch == nullptr || launch->family != golden.family) continue;
      if (Computes(*entry->graph, launch->node, golden.op)) found = launch;
    }
    ASSERT_NE(found, nullptr);
    const std::string source = entry->program.kernels[found->kernel].source;
    const std::string path =
        std::string(DUOTONE_SOURCE_DIR "/tests/codegen/cuda/golden/") + golden.file + ".cu";
    if (std::getenv("DUOTONE_BLESS") != nullptr) std::ofstream(path) << source;
    std::ostringstream committed;
    committed << std::ifstream(path).rdbuf();
    EXPECT_TRUE(committed.str() == source)
        << path << " is stale; refresh it with DUOTONE_BLESS=1 kernel_gates_test "
        << "--gtest_filter=Golden*";
  }
}

}  // namespace
}  // namespace duotone::internal
