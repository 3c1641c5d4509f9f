// Real generated kernels with one mistake put into their PTX: the emulator must say which. The
// unchanged kernels must be silent (tests/duotone/emulated_session_test.cc asks that of whole
// trainings).
#include <cstdio>
#include <memory>
#include <mutex>
#include <ostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "duotone/backend.h"
#include "duotone/duotone.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/emulator/emulated_driver.h"
#include "samples/models.h"
#include "tests/duotone/test_compilers.h"

namespace duotone {
namespace {

using emulator::EmulatedGpu;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The n-th match of a pattern, from 0, replaced as std::regex_replace does; all with n = -1.
Mutate Replace(const std::string& pattern, const std::string& by, int n = -1) {
  return [=, regex = std::regex(pattern)](const std::string& ptx) {
    if (n < 0) return std::regex_replace(ptx, regex, by);
    auto match = std::sregex_iterator(ptx.begin(), ptx.end(), regex);
    for (int i = 0; i < n && match != std::sregex_iterator(); ++i) ++match;
    if (match == std::sregex_iterator()) return ptx;
    return absl::StrCat(ptx.substr(0, static_cast<size_t>(match->position())), match->format(by),
                        ptx.substr(static_cast<size_t>(match->position() + match->length())));
  };
}

struct Mutation {
  std::string name;
  std::string marker;  // in the source of the kernels that are changed
  Mutate mutate;
  std::string expected;     // the kind of problem
  std::string instruction;  // which is reported: a part of its text
  friend std::ostream& operator<<(std::ostream& out, const Mutation& mutation) {
    return out << mutation.name;
  }
};

std::vector<Mutation> Mutations() {
  return {
      {"MatMulWithoutItsBarriers", "MatMulSimt", Replace("bar\\.sync[^;]*;", ""),
       "race in shared memory", ".shared"},
      {"RowWithoutItsBarriers", "ReduceThreads<", Replace("bar\\.sync[^;]*;", ""),
       "race in shared memory", ".shared"},
      {"StoreShifted", "MatMulSimt", Replace("(st\\.global[^\\[]*\\[%rd\\d+)\\]", "$1+65536]", 0),
       "out of bounds", "+65536]"},
      {"LoadShifted", "MatMulSimt",
       Replace("(ld\\.global\\.nc[^\\[]*\\[%rd\\d+)\\]", "$1+65536]", 0), "out of bounds",
       "+65536]"},
      {"LoadShiftedByOneVector", "MatMulSimt",
       Replace("(ld\\.global\\.nc\\.v2\\.[fu]32[^\\[]*\\[%rd\\d+)\\]", "$1+8]"), "out of bounds",
       "+8]"},
      {"StoreShiftedBackwards", "MatMulSimt",
       Replace("(st\\.global[^\\[]*\\[%rd\\d+)\\]", "$1+-4]", 0), "out of bounds", "+-4]"},
      {"VectorMisaligned", "MatMulSimt",
       Replace("(ld\\.global\\.nc\\.v4\\.[fu]32[^\\[]*\\[%rd\\d+)\\]", "$1+4]"),
       "misaligned access", "+4]"},
      {"GuardDropped", "MatMulSimt", Replace("@%p\\d+ bra[^;]*;", ""), "out of bounds", ".global"},
      {"TileNotWritten", "MatMulSimt", Replace("st\\.shared[^;]*;", ""), "uninitialised read",
       "ld.shared"},
      {"PartialsNotWritten", "ReduceThreads<", Replace("st\\.shared[^;]*;", ""),
       "uninitialised read", "ld.shared"},
      // The next kernel reads what this one should have made.
      {"ResultNotWritten", "Relu", Replace("st\\.global[^;]*;", ""), "uninitialised read",
       "ld.global"},
      {"EndlessLoop", "MatMulSimt", Replace("@%p\\d+ bra", "bra"), "endless loop", ""},
  };
}

class EveryMutation : public ::testing::TestWithParam<Mutation> {};

// A step of a small MLP with ragged sizes in f32, its kernels changed by `compiler`; the problems.
std::vector<emulator::Problem> ProblemsOf(std::shared_ptr<runtime::KernelCompiler> compiler) {
  absl::StatusOr<std::shared_ptr<EmulatedGpu>> gpu =
      EmulatedGpu::Create({.instruction_budget = 2'000'000});
  absl::StatusOr<Model> model = samples::Mlp({50, 72, 10});
  EXPECT_TRUE(gpu.ok() && model.ok());
  absl::StatusOr<TrainSession> session = internal::CompileWith(
      *std::move(model),
      {.optimizers = {Sgd{.lr = 0.1, .momentum = 0.9}}, .device = Device("cuda:0")},
      {.driver = (*gpu)->driver(), .compiler = std::move(compiler)});
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  std::vector<float> x(21 * 50);
  std::vector<int32_t> y(21);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 17.0f - 0.5f;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 10);
  absl::StatusOr<Metrics> metrics = session->Step({{"x", x}, {"y", y}});
  if (metrics.ok()) metrics->status().IgnoreError();
  return (*gpu)->machine().problems().problems();
}

// A problem says in which kernel, for which node and line of the model, and where.
void ExpectPlace(const emulator::Problem& problem) {
  EXPECT_EQ(problem.kernel, "kernel");
  EXPECT_FALSE(problem.node.empty());
  // A line of the model, or of the kernel or a header where no node stands behind it.
  EXPECT_THAT(problem.place, AnyOf(HasSubstr("models.cc:"), HasSubstr(".cu"))) << problem.text;
  EXPECT_GT(problem.line, 0);
  EXPECT_FALSE(problem.text.empty());
  EXPECT_NE(problem.lanes, 0u);
}

TEST_P(EveryMutation, IsReported) {
  if (CompilerForTest() == nullptr) GTEST_SKIP() << "no NVRTC";
  const Mutation& mutation = GetParam();
  auto compiler =
      std::make_shared<MutatingCompiler>(CompilerForTest(), mutation.marker, mutation.mutate);
  const std::vector<emulator::Problem> problems = ProblemsOf(compiler);
  ASSERT_GT(compiler->changed(), 0) << "the mutation changes no kernel";
  std::set<std::string> kinds;
  bool is_found = false;
  for (const emulator::Problem& problem : problems) {
    kinds.emplace(KindName(problem.kind));
    if (KindName(problem.kind) != mutation.expected) continue;
    is_found |= absl::StrContains(problem.text, mutation.instruction);
    ExpectPlace(problem);
  }
  EXPECT_TRUE(is_found) << absl::StrJoin(kinds, ", ");
  // For the table of what was reported.
  std::printf("%s: %s\n", mutation.name.c_str(), absl::StrJoin(kinds, ", ").c_str());
}

INSTANTIATE_TEST_SUITE_P(Mutations, EveryMutation, ::testing::ValuesIn(Mutations()),
                         [](const auto& info) { return info.param.name; });

// ---- One barrier at a time

constexpr std::string_view kBarrier = "bar.sync";

// Where the barriers of a kernel begin that something of shared memory follows, or a way back.
std::vector<size_t> NeededBarriers(const std::string& ptx) {
  std::vector<size_t> found;
  for (size_t at = ptx.find(kBarrier); at != std::string::npos; at = ptx.find(kBarrier, at + 1)) {
    const bool is_last = ptx.find(".shared.", at) == std::string::npos;
    if (!is_last) found.push_back(at);
  }
  return found;
}

std::string WithoutBarrier(const std::string& ptx, size_t at) {
  return absl::StrCat(ptx.substr(0, at), ptx.substr(ptx.find(';', at) + 1));
}

TEST(Mutations, EachBarrierAloneIsMissed) {
  if (CompilerForTest() == nullptr) GTEST_SKIP() << "no NVRTC";
  std::mutex mutex;
  std::set<std::string> kernels;
  auto collector = std::make_shared<MutatingCompiler>(CompilerForTest(), "", [&](const auto& ptx) {
    const std::lock_guard<std::mutex> lock(mutex);
    kernels.insert(ptx);
    return ptx;
  });
  ASSERT_THAT(ProblemsOf(collector), IsEmpty());
  int barriers = 0;
  for (const std::string& kernel : kernels) {
    for (const size_t at : NeededBarriers(kernel)) {
      ++barriers;
      auto compiler = std::make_shared<MutatingCompiler>(
          CompilerForTest(), "",
          [&](const std::string& ptx) { return ptx == kernel ? WithoutBarrier(ptx, at) : ptx; });
      const std::vector<emulator::Problem> problems = ProblemsOf(compiler);
      EXPECT_EQ(compiler->changed(), 1);
      ASSERT_FALSE(problems.empty()) << "a barrier at " << at << " is not missed in\n" << kernel;
      std::set<std::string> kinds;
      for (const emulator::Problem& problem : problems) {
        kinds.emplace(KindName(problem.kind));
        ExpectPlace(problem);
      }
      EXPECT_THAT(kinds, Contains("race in shared memory")) << kernel;
    }
  }
  EXPECT_GT(barriers, 10);
}

TEST(Mutations, WithoutOneNothingIsReported) {
  if (CompilerForTest() == nullptr) GTEST_SKIP() << "no NVRTC";
  auto compiler = std::make_shared<MutatingCompiler>(CompilerForTest(), "kernel",
                                                     [](const std::string& ptx) { return ptx; });
  EXPECT_THAT(ProblemsOf(compiler), IsEmpty());
  EXPECT_EQ(compiler->changed(), 0);
}

}  // namespace
}  // namespace duotone
