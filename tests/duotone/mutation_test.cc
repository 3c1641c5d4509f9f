// Real generated kernels with one mistake put into their PTX: the emulator must say which. The
// unchanged kernels must be silent (tests/duotone/emulated_session_test.cc asks that of whole
// trainings).
#include <cstdio>
#include <memory>
#include <ostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

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
using ::testing::Contains;
using ::testing::IsEmpty;

// The n-th match of a pattern, from 0, replaced as std::regex_replace does; all with n = -1.
Mutate Replace(const std::string& pattern, const std::string& by, int n = -1) {
  return [=](const std::string& ptx) {
    const std::regex regex(pattern);
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
  std::string expected;  // the kind of problem
  friend std::ostream& operator<<(std::ostream& out, const Mutation& mutation) {
    return out << mutation.name;
  }
};

std::vector<Mutation> Mutations() {
  return {
      {"MatMulWithoutItsBarriers", "MatMulSimt", Replace("bar\\.sync[^;]*;", ""),
       "race in shared memory"},
      {"RowWithoutItsBarriers", "ReduceThreads<", Replace("bar\\.sync[^;]*;", ""),
       "race in shared memory"},
      {"StoreShifted", "MatMulSimt", Replace("(st\\.global[^\\[]*\\[%rd\\d+)\\]", "$1+65536]", 0),
       "out of bounds"},
      {"LoadShifted", "MatMulSimt",
       Replace("(ld\\.global\\.nc[^\\[]*\\[%rd\\d+)\\]", "$1+65536]", 0), "out of bounds"},
      {"LoadShiftedByOneVector", "MatMulSimt",
       Replace("(ld\\.global\\.nc\\.v2\\.[fu]32[^\\[]*\\[%rd\\d+)\\]", "$1+8]"), "out of bounds"},
      {"StoreShiftedBackwards", "MatMulSimt",
       Replace("(st\\.global[^\\[]*\\[%rd\\d+)\\]", "$1+-4]", 0), "out of bounds"},
      {"VectorMisaligned", "MatMulSimt",
       Replace("(ld\\.global\\.nc\\.v4\\.[fu]32[^\\[]*\\[%rd\\d+)\\]", "$1+4]"),
       "misaligned access"},
      {"GuardDropped", "MatMulSimt", Replace("@%p\\d+ bra[^;]*;", ""), "out of bounds"},
      {"TileNotWritten", "MatMulSimt", Replace("st\\.shared[^;]*;", ""), "uninitialised read"},
      {"PartialsNotWritten", "ReduceThreads<", Replace("st\\.shared[^;]*;", ""),
       "uninitialised read"},
      // The next kernel reads what this one should have made.
      {"ResultNotWritten", "Relu", Replace("st\\.global[^;]*;", ""), "uninitialised read"},
      {"EndlessLoop", "MatMulSimt", Replace("@%p\\d+ bra", "bra"), "endless loop"},
  };
}

class EveryMutation : public ::testing::TestWithParam<Mutation> {};

// A step of a small MLP with ragged sizes in f32; the kinds of the problems.
std::vector<std::string> KindsOf(const Mutation& mutation, int* changed) {
  auto compiler =
      std::make_shared<MutatingCompiler>(CompilerForTest(), mutation.marker, mutation.mutate);
  absl::StatusOr<std::shared_ptr<EmulatedGpu>> gpu =
      EmulatedGpu::Create({.instruction_budget = 2'000'000});
  absl::StatusOr<Model> model = samples::Mlp({50, 72, 10});
  EXPECT_TRUE(gpu.ok() && model.ok());
  absl::StatusOr<TrainSession> session = internal::CompileWith(
      *std::move(model),
      {.optimizers = {Sgd{.lr = 0.1, .momentum = 0.9}}, .device = Device("cuda:0")},
      {.driver = (*gpu)->driver(), .compiler = compiler});
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  std::vector<float> x(21 * 50);
  std::vector<int32_t> y(21);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 17.0f - 0.5f;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 10);
  absl::StatusOr<Metrics> metrics = session->Step({{"x", x}, {"y", y}});
  if (metrics.ok()) metrics->status().IgnoreError();
  *changed = compiler->changed();
  std::vector<std::string> kinds;
  for (const emulator::Problem& problem : (*gpu)->machine().problems().problems()) {
    kinds.emplace_back(KindName(problem.kind));
  }
  return kinds;
}

TEST_P(EveryMutation, IsReported) {
  if (CompilerForTest() == nullptr) GTEST_SKIP() << "no NVRTC";
  int changed = 0;
  const std::vector<std::string> kinds = KindsOf(GetParam(), &changed);
  ASSERT_GT(changed, 0) << "the mutation changes no kernel";
  EXPECT_THAT(kinds, Contains(GetParam().expected));
  // For the table of what was reported.
  std::printf("%s: %s\n", GetParam().name.c_str(),
              absl::StrJoin(std::set<std::string>(kinds.begin(), kinds.end()), ", ").c_str());
}

INSTANTIATE_TEST_SUITE_P(Mutations, EveryMutation, ::testing::ValuesIn(Mutations()),
                         [](const auto& info) { return info.param.name; });

TEST(Mutations, WithoutOneNothingIsReported) {
  if (CompilerForTest() == nullptr) GTEST_SKIP() << "no NVRTC";
  int changed = 0;
  EXPECT_THAT(KindsOf({"None", "kernel", [](const std::string& ptx) { return ptx; }, ""}, &changed),
              IsEmpty());
  EXPECT_EQ(changed, 0);
}

}  // namespace
}  // namespace duotone
