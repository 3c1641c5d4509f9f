// Fused graphs as Programs: what is launched, in which order, over which memory.
#include "codegen/cuda/lower.h"

#include <string>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text.h"

namespace duotone::codegen::cuda {
namespace {

using runtime::KernelLaunch;
using testing::HasSubstr;

absl::StatusOr<runtime::Program> LowerText(const std::string& text,
                                           std::vector<std::string> schedules = {}) {
  absl::StatusOr<std::unique_ptr<ir::Module>> module = ir::Parse(text);
  if (!module.ok()) return module.status();
  return Lower(*(*module)->graphs().front(),
               {.codegen = {.target = *FindGpuTarget("sm_80"), .schedules = std::move(schedules)}});
}

std::vector<const KernelLaunch*> LaunchesOf(const runtime::Program& program) {
  std::vector<const KernelLaunch*> launches;
  for (const runtime::Step& step : program.steps) {
    if (const auto* launch = std::get_if<KernelLaunch>(&step.action)) launches.push_back(launch);
  }
  return launches;
}

template <typename Action>
int Count(const runtime::Program& program) {
  int count = 0;
  for (const runtime::Step& step : program.steps) {
    count += std::holds_alternative<Action>(step.action);
  }
  return count;
}

TEST(CudaLower, EqualFusionsOfDifferentNodesAreOneKernel) {
  auto program = LowerText(R"(
    graph @g(%x: f32[1000]) {
      %a = fusion(%x) : f32[1000] {loc="a.cc:1"} body(%x: f32[1000]) { %n = neg(%x) : f32[1000] return %n }
      %b = fusion(%a) : f32[1000] {loc="a.cc:2"} body(%y: f32[1000]) { %m = neg(%y) : f32[1000] return %m }
      return %b
    })");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->kernels.size(), 1u);
  EXPECT_EQ(Count<KernelLaunch>(*program), 2);
  EXPECT_TRUE(runtime::CheckProgram(*program).ok());
}

// Two slices of 100 rows and a gather of 5, where the operands have 1000.
TEST(CudaLower, BytesReadAreThoseOfSlicesAndGathers) {
  auto program = LowerText(R"(
    graph @g(%x: f32[1000, 4], %t: f32[1000, 4], %i: i32[5], %y: f32[100, 4]) {
      %a, %b = fusion(%x, %y, %t, %i) : f32[100, 4], f32[5, 4] body(%x: f32[1000, 4], %y: f32[100, 4], %t: f32[1000, 4], %i: i32[5]) {
        %s = slice(%x), starts=[0, 0], limits=[100, 4] : f32[100, 4]
        %r = slice(%x), starts=[900, 0], limits=[1000, 4] : f32[100, 4]
        %m = mul(%s, %r) : f32[100, 4] %p = add(%m, %y) : f32[100, 4]
        %l = gather(%t, %i) : f32[5, 4] %n = neg(%l) : f32[5, 4]
        return %p, %n }
      return a=%a, b=%b
    })");
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(LaunchesOf(*program).size(), 1u);
  EXPECT_EQ(LaunchesOf(*program)[0]->bytes_read, 16 * (200 + 100 + 5) + 4 * 5);
  EXPECT_EQ(LaunchesOf(*program)[0]->bytes_written, 16 * (100 + 5));
}

TEST(CudaLower, AFusionThatReadsNothingIsAKernel) {
  auto program = LowerText(R"(
    graph @g() {
      %a = fusion() : f32[1000] body() {
        %r = random_uniform() : f32[1000] %n = neg(%r) : f32[1000] return %n }
      return %a
    })");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(LaunchesOf(*program).size(), 1u);
  EXPECT_THAT(program->constants, testing::IsEmpty());
}

TEST(CudaLower, AScheduleForAKernelThatIsNotThereIsAnError) {
  const std::string text = R"(
    graph @g(%x: f32[1000]) {
      %a = fusion(%x) : f32[1000] body(%x: f32[1000]) { %n = neg(%x) : f32[1000] return %n }
      return %a
    })";
  EXPECT_THAT(
      LowerText(text, {"b=v4 u1 t128"}).status().message(),
      HasSubstr("schedule override 'b=v4 u1 t128': no kernel is of a node 'b'; there are a"));
  EXPECT_TRUE(LowerText(text, {"a=v4 u1 t128"}).ok());
}

TEST(CudaLower, ABodyTooDeepForGeneratorsIsAnError) {
  std::string body = "%v0 = neg(%x) : f32[8]";
  for (int i = 0; i < 20000; ++i) {
    absl::StrAppendFormat(&body, " %%v%d = neg(%%v%d) : f32[8]", i + 1, i);
  }
  const auto program = LowerText(
      absl::StrFormat("graph @g(%%x: f32[8]) { %%a = fusion(%%x) : f32[8] body(%%x: f32[8]) { %s "
                      "return %%v20000 } return %%a }",
                      body));
  EXPECT_THAT(program.status().message(), HasSubstr("20001 nodes one after another"));
}

TEST(CudaLower, TestsOfOneAllFiniteShareAWordThatIsSetOnce) {
  auto program = LowerText(R"(
    graph @g(%x: f32[1000], %y: f32[1000]) {
      %a, %fa = fusion(%x) : f32[1000], bool[] body(%x: f32[1000]) {
        %n = neg(%x) : f32[1000] %f = all_finite(%n) : bool[] return %n, %f }
      %b, %fb = fusion(%y) : f32[1000], bool[] body(%y: f32[1000]) {
        %n = abs(%y) : f32[1000] %f = all_finite(%n) : bool[] return %n, %f }
      %ok = all_finite(%fa, %fb) : bool[]
      return a=%a, b=%b, ok=%ok
    })");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(Count<runtime::Fill>(*program), 1);
  EXPECT_EQ(Count<KernelLaunch>(*program), 2);
  const int word = program->FindOutput("ok");
  for (const KernelLaunch* launch : LaunchesOf(*program)) {
    EXPECT_THAT(launch->writes, testing::Contains(word));
  }
}

TEST(CudaLower, SecondStagesWaitUntilOneOfThemIsRead) {
  auto program = LowerText(R"(
    graph @g(%x: f32[4096, 64]) {
      %a = fusion(%x), family="column" : f32[64] body(%x: f32[4096, 64]) {
        %s = reduce_sum(%x), axes=[0] : f32[64] return %s }
      %b = fusion(%x), family="column" : f32[64] body(%x: f32[4096, 64]) {
        %s = reduce_max(%x), axes=[0] : f32[64] return %s }
      %c = fusion(%a, %b) : f32[64] body(%a: f32[64], %b: f32[64]) {
        %s = add(%a, %b) : f32[64] return %s }
      return %c
    })");
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<std::string> families;
  for (const KernelLaunch* launch : LaunchesOf(*program)) families.push_back(launch->family);
  EXPECT_THAT(families, testing::ElementsAre("column", "column", "finish", "pointwise"));
}

TEST(CudaLower, AnUpdateIsDoneInPlaceUnderItsGuard) {
  auto program = LowerText(R"(
    module @m {
      param %w: f32[1000] = zeros()
      graph @step(%g: f32[1000], %ok: bool[]) {
        %n = fusion(%w, %g) : f32[1000] body(%w: f32[1000], %g: f32[1000]) {
          %d = sub(%w, %g) : f32[1000] return %d }
        update %w = %n guard=%ok
        return ok=%ok
      }
    })");
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<const KernelLaunch*> launches = LaunchesOf(*program);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_THAT(launches[0]->writes, testing::ElementsAre(program->FindState("w")));
  EXPECT_THAT(launches[0]->reads, testing::Contains(program->FindInput("ok")));
  EXPECT_THAT(program->kernels[0].source, HasSubstr("guard"));
}

// Blocks of the kernel may update %u before others read it.
TEST(CudaLower, AnEntryThatTwoUpdatesReadIsNotOverwritten) {
  auto program = LowerText(R"(
    module @m {
      param %w: f32[1000] = zeros()
      param %u: f32[1000] = zeros()
      graph @step(%lr: f32[]) {
        %w2, %u2 = fusion(%w, %u, %lr), family="optimizer" : f32[1000], f32[1000]
            body(%w: f32[1000], %u: f32[1000], %lr: f32[]) {
          %a = sgd_update(%w, %u, %lr) : f32[1000]
          %b = sgd_update(%u, %u, %lr) : f32[1000]
          return %a, %b }
        update %w = %w2
        update %u = %u2
        return lr=%lr
      }
    })");
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<const KernelLaunch*> launches = LaunchesOf(*program);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_THAT(launches[0]->writes, testing::Contains(program->FindState("w")));
  EXPECT_THAT(launches[0]->writes, testing::Not(testing::Contains(program->FindState("u"))));
}

TEST(CudaLower, AFusionThatReadsOtherElementsOfAnEntryDoesNotOverwriteIt) {
  auto program = LowerText(R"(
    module @m {
      param %w: f32[32, 32] = zeros()
      graph @step(%g: f32[32, 32], %ok: bool[]) {
        %n = fusion(%w, %g) : f32[32, 32] body(%w: f32[32, 32], %g: f32[32, 32]) {
          %t = transpose(%w), perm=[1, 0] : f32[32, 32]
          %d = sub(%t, %g) : f32[32, 32] return %d }
        update %w = %n guard=%ok
        return ok=%ok
      }
    })");
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<const KernelLaunch*> launches = LaunchesOf(*program);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[1]->family, "copy");
  EXPECT_THAT(launches[1]->writes, testing::ElementsAre(program->FindState("w")));
}

TEST(CudaLower, AKernelOfScalarsUpdatesThemInPlace) {
  auto program = LowerText(R"(
    module @m {
      state %a: i64[] = zeros()
      state %b: i64[] = zeros()
      graph @step(%x: i64[]) {
        %p, %q = fusion(%a, %b, %x) : i64[], i64[] body(%a: i64[], %b: i64[], %x: i64[]) {
          %p = add(%b, %x) : i64[] %q = sub(%a, %x) : i64[] return %p, %q }
        update %a = %p
        update %b = %q
        return x=%x
      }
    })");
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<const KernelLaunch*> launches = LaunchesOf(*program);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_THAT(launches[0]->writes,
              testing::ElementsAre(program->FindState("a"), program->FindState("b")));
  EXPECT_EQ(Count<runtime::Copy>(*program), 1) << "of the input that is an output";
}

TEST(CudaLower, AScheduleForAllKernelsMustBeACandidateSomewhere) {
  const char text[] = R"(
    graph @g(%x: f32[1000000]) {
      %a = fusion(%x) : f32[1000000] body(%x: f32[1000000]) {
        %n = neg(%x) : f32[1000000] return %n }
      return %a
    })";
  absl::StatusOr<std::unique_ptr<ir::Module>> module = ir::Parse(text);
  ASSERT_TRUE(module.ok()) << module.status();
  LowerOptions options{.codegen = {.target = *FindGpuTarget("sm_80")}};
  options.codegen.schedules = {"*=v4 u1 t256"};
  const auto lowered = Lower(*(*module)->graphs().front(), options);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_THAT(lowered->kernels[0].source, HasSubstr("__launch_bounds__(256)"));
  options.codegen.schedules = {"*=v4 u1 t2048"};
  EXPECT_THAT(std::string(Lower(*(*module)->graphs().front(), options).status().message()),
              HasSubstr("schedule override '*=v4 u1 t2048': no kernel has that candidate"));
}

TEST(CudaLower, ANodeOutsideFusionsIsAnError) {
  auto program = LowerText("graph @g(%x: f32[4]) { %y = neg(%x) : f32[4] return %y }");
  EXPECT_THAT(std::string(program.status().message()),
              HasSubstr("neg: stands outside a fusion; run passes/fuse before code generation "
                        "(node %y)"));
}

}  // namespace
}  // namespace duotone::codegen::cuda
