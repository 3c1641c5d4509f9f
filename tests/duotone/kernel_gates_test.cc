// Gates on the kernels of the sample models' training steps, for every architecture and without a
// GPU: they compile, keep nothing in local memory, move full-size arrays in 16-byte units, and
// their number does not grow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_format.h"
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

int Narrow(const runtime::AccessWidths& widths) {
  return widths[0] + widths[1] + widths[2] + widths[3];
}

int Wide(const runtime::AccessWidths& widths) { return widths[4] + widths[5]; }

// What the rule about wide accesses knows of a launch. Its full-size arrays are those with as many
// elements as its largest. They are aligned if each of their rows (the last axis) is a multiple of
// 16 bytes; flat arrays behind tables are padded and always aligned.
struct Arrays {
  bool has_table = false;
  bool has_errors = false;
  bool aligned = true;
  int64_t largest = 0;  // elements
  int small_reads = 0;  // of the other arrays: labels, numbers per row, scalars, flags
  int small_writes = 0;
};

Arrays ArraysOf(const Program& program, const runtime::KernelLaunch& launch) {
  Arrays arrays;
  for (const LaunchArgument& argument : launch.arguments) {
    if (argument.kind == LaunchArgument::Kind::kTable) arrays.has_table = true;
    if (argument.kind == LaunchArgument::Kind::kErrors) arrays.has_errors = true;
    if (argument.kind != LaunchArgument::Kind::kBuffer) continue;
    arrays.largest = std::max(arrays.largest, Elements(program.buffers[argument.address.buffer]));
  }
  const auto has = [&](const std::vector<int>& list, int buffer) {
    return std::find(list.begin(), list.end(), program.RootOf(buffer)) != list.end();
  };
  for (const LaunchArgument& argument : launch.arguments) {
    if (argument.kind != LaunchArgument::Kind::kBuffer) continue;
    const int index = argument.address.buffer;
    const runtime::Buffer& buffer = program.buffers[index];
    if (Elements(buffer) == arrays.largest) {
      const int64_t row = buffer.shape.empty() ? 1 : buffer.shape.back();
      const int64_t element_bytes = buffer.bytes / std::max<int64_t>(1, Elements(buffer));
      if (row * element_bytes % 16 != 0) arrays.aligned = false;
    } else {
      arrays.small_reads += has(launch.reads, index);
      arrays.small_writes += has(launch.writes, index);
    }
  }
  return arrays;
}

// "" if the kernel's accesses are as wide as its arrays allow: an instruction narrower than 16
// bytes must belong to a small array, to the record of an error, or to a table's addresses.
// `checked` is set if the launch has full-size arrays that are aligned.
std::string CheckWidths(const Program& program, const runtime::KernelLaunch& launch,
                        const runtime::KernelCode& kernel, bool& checked) {
  constexpr int kErrorStores = 4;  // the fields of an ErrorRecord but `claimed`
  const Arrays arrays = ArraysOf(program, launch);
  const runtime::OpcodeMix& mix = kernel.sass.all;
  checked = arrays.has_table || (arrays.aligned && arrays.largest >= 16);
  if (!checked) return "";
  const int narrow_stores = Narrow(mix.global_stores);
  const int allowed_stores = arrays.small_writes + (arrays.has_errors ? kErrorStores : 0);
  if (narrow_stores > allowed_stores) {
    return absl::StrFormat("%d stores are narrower than 16 bytes, %d may be", narrow_stores,
                           allowed_stores);
  }
  if (arrays.has_table) {
    // Every updated element was read first, with the same width; the rest are addresses.
    if (Wide(mix.global_loads) >= Wide(mix.global_stores)) return "";
    return absl::StrFormat("%d wide loads for %d wide stores", Wide(mix.global_loads),
                           Wide(mix.global_stores));
  }
  if (Narrow(mix.global_loads) <= arrays.small_reads) return "";
  return absl::StrFormat("%d loads are narrower than 16 bytes, %d may be", Narrow(mix.global_loads),
                         arrays.small_reads);
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
      EXPECT_THAT(kernel.sass.all.unknown, IsEmpty()) << kernel.name;
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
