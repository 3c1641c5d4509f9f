// From PTX to codes: places of parameters and variables, joins, and what cannot be run.
#include <gmock/gmock.h>

#include "absl/strings/str_format.h"
#include "tests/runtime/emulator/lane_testing.h"

namespace duotone::emulator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A kernel k, translated for an architecture; the module lives as long.
struct Translated {
  PtxModule module;
  std::unique_ptr<Executable> executable;
  absl::Status status;
};
std::unique_ptr<Translated> TranslateKernel(const std::string& ptx,
                                            const std::string& architecture = "sm_90") {
  auto result = std::make_unique<Translated>();
  absl::StatusOr<PtxModule> module = ParsePtx(ptx);
  result->status = module.status();
  if (!module.ok()) return result;
  result->module = *std::move(module);
  EmulatorOptions options;
  options.architecture = architecture;
  const std::vector<uint64_t> addresses(result->module.variables.size(), 0x1000);
  absl::StatusOr<std::unique_ptr<Executable>> executable =
      Translate(result->module, "k", addresses, options);
  result->status = executable.status();
  if (executable.ok()) result->executable = *std::move(executable);
  return result;
}
std::string ErrorOf(const std::string& ptx, const std::string& architecture = "sm_90") {
  return std::string(TranslateKernel(ptx, architecture)->status.message());
}

TEST(Translate, ParametersAreAlignedLikeAStruct) {
  const auto kernel = TranslateKernel(PtxEntry(
      ".param .u8 a, .param .u64 b, .param .u16 c, .param .align 16 .b8 d[20], .param .u32 e", "",
      "ret;"));
  ASSERT_TRUE(kernel->status.ok()) << kernel->status;
  std::vector<std::pair<int64_t, int64_t>> places;
  for (const auto& place : kernel->executable->parameters) {
    places.emplace_back(place.offset, place.bytes);
  }
  EXPECT_THAT(places, ElementsAre(Pair(0, 1), Pair(8, 8), Pair(16, 2), Pair(32, 20), Pair(52, 4)));
  EXPECT_EQ(kernel->executable->parameter_bytes, 56);
}

// Dynamic shared memory begins behind the static one, as aligned as its variable asks.
TEST(Translate, SharedVariablesDoNotOverlap) {
  const auto kernel = TranslateKernel(
      PtxEntry("", ".reg .b32 %r<4>;",
               "mov.u32 %r0, first; mov.u32 %r1, second; mov.u32 %r2, tail; ret;", "sm_80",
               ".shared .align 4 .b8 first[6];\n.shared .align 8 .b8 second[4];\n"
               ".extern .shared .align 128 .b8 tail[];\n.shared .align 4 .b8 unused[1000];"));
  ASSERT_TRUE(kernel->status.ok()) << kernel->status;
  EXPECT_EQ(kernel->executable->static_shared_bytes, 128);
  std::vector<uint64_t> places;
  for (const auto& constant : kernel->executable->constants) places.push_back(constant.bits);
  EXPECT_THAT(places, ::testing::UnorderedElementsAre(0u, 8u, 128u));
}

TEST(Translate, EqualConstantsShareARow) {
  const auto kernel = TranslateKernel(
      PtxEntry("", ".reg .b32 %r<4>; .reg .b64 %d;",
               "add.u32 %r0, %r1, 5; add.u32 %r2, %r0, 5; add.u64 %d, %d, 5; ret;"));
  ASSERT_TRUE(kernel->status.ok()) << kernel->status;
  EXPECT_EQ(kernel->executable->constants.size(), 2u);  // 5 of 4 and of 8 bytes
}

// The branch to the end needs no join: lanes leave there one by one.
// An atomic whose old value nobody looks at tells its thread nothing.
TEST(Translate, ResultsOfAtomicsThatNothingReadsAreSinks) {
  const auto kernel = TranslateKernel(
      PtxEntry("", ".reg .b32 %r<6>; .reg .b64 %rd<2>; .reg .pred %p;",
               "atom.shared.add.u32 %r0, [%r1], 1; atom.shared.add.u32 %r2, [%r1], 1;\n"
               "atom.shared.add.u32 %r3, [%r2], 1; setp.eq.u32 %p, %r3, 0; ret;"));
  ASSERT_TRUE(kernel->status.ok()) << kernel->status;
  const std::vector<Code>& codes = kernel->executable->codes;
  EXPECT_EQ(codes[0].row[0], kNoRow);
  EXPECT_NE(codes[1].row[0], kNoRow) << "an address";
  EXPECT_NE(codes[2].row[0], kNoRow) << "an operand";
}

TEST(Translate, BranchesMeetAtPostDominators) {
  const auto kernel = TranslateKernel(
      PtxEntry("", ".reg .b32 %r<4>; .reg .pred %p<3>;",
               "@%p1 bra END; @%p2 bra ELSE; add.u32 %r1, %r1, 1; bra JOIN;\n"
               "ELSE: add.u32 %r1, %r1, 2;\nJOIN: add.u32 %r2, %r1, %r1;\nEND: ret;"));
  ASSERT_TRUE(kernel->status.ok()) << kernel->status;
  const std::vector<Code>& codes = kernel->executable->codes;
  EXPECT_EQ(codes[0].flow, Flow::kBranch);
  EXPECT_EQ(codes[0].join, -1);
  EXPECT_EQ(codes[1].join, 5);
  EXPECT_EQ(codes[1].target, 4);
}

std::string CallOf(std::string_view function, std::string_view call) {
  return PtxEntry("", ".reg .b32 %r<3>;",
                  absl::StrFormat("{ .param .b32 x; .param .b64 y; .param .b32 z;\n"
                                  "st.param.b32 [x], %%r1; %s }\nret;",
                                  call),
                  "sm_80", function);
}

TEST(Translate, CallsThatCannotBeAreErrors) {
  const std::string function = ".func (.param .b32 out) f(.param .b32 in) { ret; }\n";
  EXPECT_EQ(ErrorOf(CallOf(function, "call (z), f, (x);")), "");
  EXPECT_THAT(ErrorOf(CallOf(function, "call (z), f, (y);")),
              AllOf(HasSubstr("PTX line"), HasSubstr("'y'"), HasSubstr("8 bytes")));
  EXPECT_THAT(ErrorOf(CallOf(".func f(.param .b32 in);\n", "call f, (x);")),
              HasSubstr("f is declared, but has no body"));
  EXPECT_THAT(ErrorOf(CallOf(".func f(.param .b32 in) { .param .b32 o; call f, (o); ret; }\n",
                             "call f, (x);")),
              HasSubstr("call themselves"));
}

TEST(Translate, TwoFunctionsThatCallEachOtherAreRefused) {
  EXPECT_THAT(ErrorOf(CallOf(".func g(.param .b32 in);\n"
                             ".func f(.param .b32 in) { .param .b32 o; call g, (o); ret; }\n"
                             ".func g(.param .b32 in) { .param .b32 o; call f, (o); ret; }\n",
                             "call f, (x);")),
              HasSubstr("call themselves"));
}

TEST(Translate, LimitsAreThoseOfTheHardware) {
  EXPECT_THAT(ErrorOf(PtxEntry(".param .align 4 .b8 big[40000]", "", "ret;")),
              HasSubstr("more than 32764 bytes of parameters"));
  EXPECT_THAT(
      ErrorOf(PtxEntry("", ".reg .b64 %d; .local .b8 big[600000];", "mov.u64 %d, big; ret;")),
      HasSubstr("bytes of local memory"));
  EXPECT_THAT(ErrorOf(PtxEntry("", ".reg .b32 %r;", "mov.u32 %r, big; ret;", "sm_80",
                               ".shared .b8 big[2000000];")),
              HasSubstr("bytes of shared memory"));
}

}  // namespace
}  // namespace duotone::emulator
