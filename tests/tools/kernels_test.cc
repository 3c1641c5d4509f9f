// duotone kernels: what it writes, what it reports, and how it fails.
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>

#include "nlohmann/json.hpp"
#include "tests/runtime/cuda/nvrtc_testing.h"
#include "tests/tools/command_test.h"

namespace duotone::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kSmall[] = R"(module @small {
  param %w: f32[64, 32] = kaiming_uniform(fan_in=64)

  graph @loss(%x: f32[B, 64], %y: i32[B]) {
    %h = matmul(%x, %w) : f32[B, 32]
    %logits = tanh(%h) : f32[B, 32]
    %loss, %lse = cross_entropy(%logits, %y) : f32[], f32[B]
    return loss=%loss, logits=%logits
  }
}
)";

class KernelsTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    setenv("DUOTONE_CACHE_DIR", (dir_ / "cache").c_str(), 1);
    model_ = Write("m.duo", kSmall);
  }
  void TearDown() override {
    unsetenv("DUOTONE_CACHE_DIR");
    unsetenv("DUOTONE_NVRTC");
    CommandTest::TearDown();
  }

  static bool HasNvrtc() { return runtime::NvrtcForTest() != nullptr; }

  std::vector<std::string> FilesIn(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(dir_ / folder)) {
      names.push_back(file.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string model_;
};

TEST_F(KernelsTest, SourcesNeedNoPartOfCuda) {
  setenv("DUOTONE_NVRTC", "/nowhere", 1);
  const CommandResult result =
      Run({"kernels", model_, "--batch=128", "--emit=cuda,graph,program", "-o", "out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(Read("out/graph.duo"), HasSubstr("= fusion("));
  EXPECT_THAT(Read("out/program.txt"), StartsWith("program @step"));
  std::vector<std::string> sources;
  for (const std::string& name : FilesIn("out")) {
    if (name.ends_with(".cu")) sources.push_back(name);
  }
  ASSERT_FALSE(sources.empty());
  EXPECT_THAT(sources[0], StartsWith("k00-matmul-"));
  EXPECT_THAT(Read("out/" + sources[0]), HasSubstr("extern \"C\" __global__ void"));
  EXPECT_THAT(Read("out/duotone/prelude.cuh"), HasSubstr("FromFloat"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "cache"));
}

TEST_F(KernelsTest, ReportsAsTextAndJson) {
  if (!HasNvrtc()) GTEST_SKIP() << "no NVRTC";
  const CommandResult text =
      Run({"kernels", model_, "--bind=B=128", "--target=sm_90", "--amp=f16", "--json=r.json"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(StartsWith("@step for sm_90 (as on one H100): "),
                              HasSubstr("occupancy"), HasSubstr("predicted ")));
  EXPECT_THAT(text.err, HasSubstr(" 0 from the cache;"));
  const auto json = nlohmann::json::parse(Read("r.json"));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["target"], "sm_90");
  ASSERT_EQ(json["kernels"].size(), json["step"]["kernels"]);
  double bytes = 0;
  for (const auto& kernel : json["kernels"]) {
    EXPECT_GT(kernel["registers"], 0) << kernel;
    EXPECT_EQ(kernel["spill_bytes"], 0) << kernel;
    EXPECT_EQ(kernel["local_bytes"], 0) << kernel;
    EXPECT_TRUE(kernel["code"]["unknown"].empty()) << kernel["code"]["unknown"];
    bytes += kernel["bytes_read"].get<double>() + kernel["bytes_written"].get<double>();
  }
  EXPECT_EQ(json["step"]["bytes"], bytes);
  EXPECT_EQ(json["kernels"][0]["family"], "matmul");

  const CommandResult again =
      Run({"kernels", model_, "--bind=B=128", "--target=sm_90", "--amp=f16", "--json=-"});
  EXPECT_THAT(again.err, HasSubstr(" 0 compiled, "));
  auto second = nlohmann::json::parse(again.out);
  EXPECT_EQ(second["kernels"], json["kernels"]);
}

// Sums over the rows of a launch are what it counted in all.
void ExpectSumsOfRows(const nlohmann::json& counted, const char* rows) {
  for (const auto& [name, value] : counted.items()) {
    if (value.is_array() || name == "bytes_read" || name == "bytes_written") continue;
    int64_t sum = 0;
    for (const auto& row : counted[rows]) sum += row[name].get<int64_t>();
    EXPECT_EQ(sum, value) << rows << " of " << name;
  }
}

// Nothing but the JSON is printed, which has what the tables would have.
TEST_F(KernelsTest, EmulationIsJson) {
  if (!HasNvrtc()) GTEST_SKIP() << "no NVRTC";
  const std::vector<std::string> args = {"kernels", model_, "--bind=B=24", "--emulate", "--json=-"};
  const auto json_with = [&](const char* counters) {
    std::vector<std::string> words = args;
    words.push_back(counters);
    const CommandResult result = Run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    long long instructions = 0;
    const size_t at = result.err.find("emulated: ");
    EXPECT_EQ(std::sscanf(result.err.c_str() + at, "emulated: %lld", &instructions), 1);
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json["problems"], nlohmann::json::array());
    double counted = 0;
    for (const auto& kernel : json["kernels"])
      counted += kernel["counted"]["instructions"].get<double>();
    EXPECT_EQ(counted, instructions);
    return json;
  };
  const nlohmann::json json = json_with("--counters=instruction");
  std::vector<std::string> places;
  int64_t tanh = 0;
  for (const auto& kernel : json["kernels"]) {
    ExpectSumsOfRows(kernel["counted"], "by_place");
    ExpectSumsOfRows(kernel["counted"], "by_instruction");
    for (const auto& row : kernel["counted"]["by_place"]) places.push_back(row["place"]);
    for (const auto& row : kernel["counted"]["by_instruction"]) {
      EXPECT_GT(row["line"], 0);
      const std::string text = row["instruction"];
      if (text.starts_with("tanh.approx") || text.starts_with("ex2.approx")) ++tanh;
    }
  }
  EXPECT_THAT(places, testing::Contains(HasSubstr("node %logits")));
  EXPECT_GT(tanh, 0);
  const nlohmann::json by_place = json_with("--counters=place");
  EXPECT_EQ(by_place["kernels"][0]["counted"]["by_place"],
            json["kernels"][0]["counted"]["by_place"]);
  EXPECT_FALSE(by_place["kernels"][0]["counted"].contains("by_instruction"));
  EXPECT_FALSE(nlohmann::json::parse(Run({"kernels", model_, "--bind=B=24", "--json=-"}).out)
                   .contains("problems"));
}

// Every launch has counts, and the bytes that were touched are those of the cost model.
TEST_F(KernelsTest, EmulationCountsWhatKernelsDo) {
  if (!HasNvrtc()) GTEST_SKIP() << "no NVRTC";
  const CommandResult result = Run({"kernels", model_, "--bind=B=24", "--amp=f16", "--emulate",
                                    "--counters=place", "--json=r.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("emulated: "));
  EXPECT_THAT(result.out, AllOf(HasSubstr("counted by the emulator"), HasSubstr("tanh ("),
                                Not(HasSubstr("the cost model predicts"))));
  const auto json = nlohmann::json::parse(Read("r.json"));
  for (const auto& kernel : json["kernels"]) {
    ASSERT_TRUE(kernel.contains("counted")) << kernel["node"];
    const auto& counted = kernel["counted"];
    EXPECT_GT(counted["instructions"], 0);
    EXPECT_LE(counted["lanes"], 32 * counted["instructions"].get<double>());
    EXPECT_GE(counted["sectors"], counted["ideal_sectors"]);
    EXPECT_GE(counted["shared_ways"], counted["ideal_shared_ways"]);
  }
}

TEST_F(KernelsTest, CountersNeedTheEmulator) {
  const CommandResult without = Run({"kernels", model_, "--batch=8", "--counters=place"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("--counters: what is counted needs --emulate"));
  const CommandResult wrong =
      Run({"kernels", model_, "--batch=8", "--emulate", "--counters=everything"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("'everything' is neither place nor instruction"));
}

// The operands of forward and backward matmuls lie in every order that there is.
TEST_F(KernelsTest, TheMlpHasNoBankConflicts) {
  if (!HasNvrtc()) GTEST_SKIP() << "no NVRTC";
  const CommandResult result = Run({"kernels", SourcePath("samples/models/mlp.duo"), "--batch=32",
                                    "--emulate", "--emit=report"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("counted by the emulator"));
  EXPECT_THAT(result.out, Not(HasSubstr("bank conflicts")));
}

TEST_F(KernelsTest, MachineCodeAndPtxAreFiles) {
  if (!HasNvrtc()) GTEST_SKIP() << "no NVRTC";
  const CommandResult result = Run({"kernels", model_, "--batch=64", "--emit=ptx,cubin",
                                    "--target=sm_75", "--no-cache", "--entry=eval", "-o", "out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  int cubins = 0, ptx = 0;
  for (const std::string& name : FilesIn("out")) {
    const std::string bytes = Read("out/" + name);
    const bool is_ptx = name.ends_with(".ptx");
    EXPECT_THAT(bytes, is_ptx ? HasSubstr(".target sm_75") : HasSubstr("ELF"));
    ++(is_ptx ? ptx : cubins);
  }
  EXPECT_GT(cubins, 0);
  EXPECT_EQ(cubins, ptx);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "cache"));
}

// What `opt --pipeline=train` wrote is compiled as it stands.
TEST_F(KernelsTest, ATrainedModuleGivesTheSameKernels) {
  const CommandResult trained =
      Run({"opt", "--pipeline=train", "--amp=f16", model_, "-o", "step.duo"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const CommandResult direct =
      Run({"kernels", model_, "--batch=128", "--amp=f16", "--emit=program"});
  const CommandResult twice = Run({"kernels", "step.duo", "--batch=128", "--emit=program"});
  ASSERT_EQ(direct.exit_code, 0) << direct.err;
  EXPECT_EQ(twice.out, direct.out);
}

TEST_F(KernelsTest, Bf16OnTuringIsWarnedOf) {
  const std::vector<std::string> args = {"kernels", model_, "--batch=128", "--emit=program"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), args.begin(), args.end());
    return Run(more).err;
  };
  constexpr char kWarning[] = "warning: bf16 on sm_75 computes through f32\n";
  EXPECT_THAT(with({"--amp=bf16", "--target=sm_75"}), HasSubstr(kWarning));
  EXPECT_THAT(with({"--amp=f16", "--target=sm_75"}), Not(HasSubstr("warning: bf16")));
  EXPECT_THAT(with({"--amp=bf16", "--target=sm_80"}), Not(HasSubstr("warning: bf16")));
}

TEST_F(KernelsTest, WrongCallsAreSentences) {
  const auto error = [&](std::vector<std::string> args, int exit_code) {
    args.insert(args.begin(), {"kernels", model_});
    const CommandResult result = Run(args);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"--batch=8", "--target=sm_70"}, 2),
              HasSubstr("--target: there is no GPU architecture 'sm_70'; known: sm_75, sm_80"));
  EXPECT_THAT(error({"--batch=8", "--emit=sass"}, 2),
              HasSubstr("--emit: there is no 'sass'; known: report, graph, program"));
  EXPECT_THAT(error({"--batch=8", "--emit=cuda"}, 2), HasSubstr("name a folder with -o"));
  EXPECT_THAT(error({}, 2), HasSubstr("@step has the size B: give --bind B=128 or so"));
  EXPECT_THAT(error({"--batch=8", "--entry=nonsense"}, 1),
              HasSubstr("--entry: module @small has no graph @nonsense; it has: @loss"));
  Write("file", "");
  EXPECT_THAT(error({"--batch=8", "--emit=cuda", "-o", "file"}, 1), HasSubstr("file/"));
}

TEST_F(KernelsTest, WithoutNvrtcMachineCodeIsAnError) {
  setenv("DUOTONE_NVRTC", "/nowhere", 1);
  const CommandResult result = Run({"kernels", model_, "--batch=8", "--no-cache"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("/nowhere"), HasSubstr("NVRTC")));
  EXPECT_THAT(Run({"devices"}).out, HasSubstr("nvrtc      none: "));
}

}  // namespace
}  // namespace duotone::tools
