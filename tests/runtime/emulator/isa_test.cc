// The table of instructions: what it accepts, what it refuses and how it says so.
#include "runtime/emulator/isa.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "runtime/emulator/code.h"
#include "tests/runtime/emulator/isa_samples.h"

namespace duotone::emulator {
namespace {

std::string ErrorOf(std::string_view words) {
  const absl::StatusOr<IsaMatch> match = MatchIsa(words);
  return match.ok() ? "" : std::string(match.status().message());
}

Instruction Matched(std::string_view words) {
  const absl::StatusOr<IsaMatch> match = MatchIsa(words);
  EXPECT_TRUE(match.ok()) << match.status();
  return match.ok() ? match->instruction : Instruction();
}

// Calls `visit` with each word of the table and a module of its instruction.
template <typename Visit>
void ForEachSample(Visit visit) {
  for (const IsaRow& row : IsaRows()) {
    if (row.op == Op::kCall) continue;
    for (const std::string& words : SampleWords(row)) {
      const absl::StatusOr<IsaMatch> match = MatchIsa(words);
      if (!match.ok()) {
        // Vectors of 32 bytes.
        EXPECT_NE(words.find(".v4"), std::string::npos) << match.status();
        continue;
      }
      visit(row, words, SampleModule(SampleInstruction(words, *match) + "\n"));
    }
  }
}

TEST(Isa, EachFormParses) {
  int count = 0;
  ForEachSample([&](const IsaRow& row, const std::string& words, const std::string& text) {
    const absl::StatusOr<PtxModule> module = ParsePtx(text);
    ASSERT_TRUE(module.ok()) << words << ": " << module.status();
    ASSERT_EQ(module->functions[0].body.size(), 2u);
    EXPECT_EQ(module->functions[0].body[0].op, row.op) << words;
    ++count;
  });
  EXPECT_GT(count, 800);
}

TEST(Isa, EachFormCanBeExecuted) {
  ForEachSample([&](const IsaRow&, const std::string& words, const std::string& text) {
    const absl::StatusOr<PtxModule> module = ParsePtx(text);
    ASSERT_TRUE(module.ok()) << module.status();
    const auto executable = Translate(*module, "kernel", {}, {.architecture = "sm_90"});
    EXPECT_TRUE(executable.ok()) << words << ": " << executable.status();
  });
}

TEST(Isa, ModifiersAreFields) {
  const Instruction fma = Matched("fma.rm.ftz.sat.f32");
  EXPECT_EQ(fma.op, Op::kFma);
  EXPECT_EQ(fma.rounding, Rounding::kRm);
  EXPECT_TRUE(fma.ftz && fma.sat);
  EXPECT_EQ(fma.type, Type::kF32);
  EXPECT_EQ(fma.results, 1);

  const Instruction cvt = Matched("cvt.rzi.s32.f32");
  EXPECT_EQ(cvt.type, Type::kS32);
  EXPECT_EQ(cvt.source_type, Type::kF32);

  const Instruction ld = Matched("ld.global.nc.L1::evict_last.v4.f32");
  EXPECT_TRUE(ld.nc);
  EXPECT_EQ(ld.vector, 4);
  EXPECT_EQ(ld.space, Space::kGlobal);

  const Instruction mma = Matched("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
  EXPECT_EQ(mma.shape, (std::array<int, 3>{16, 8, 16}));
  EXPECT_EQ(mma.source_type, Type::kBf16);
  EXPECT_TRUE(mma.aligned);
}

TEST(Isa, OneWordHasSeveralMeanings) {
  EXPECT_EQ(Matched("mul.lo.s32").product, Product::kLo);
  EXPECT_EQ(Matched("setp.lo.u32").compare, Compare::kLo);
  EXPECT_EQ(Matched("setp.lt.and.u32").combine, BoolOp::kAnd);
  EXPECT_EQ(Matched("atom.global.and.b32").mode, Mode::kAnd);
  EXPECT_EQ(Matched("bar.red.and.pred").mode, Mode::kAnd);
  EXPECT_EQ(Matched("bar.sync").mode, Mode::kSync);
}

TEST(Isa, BarIsAlignedAndBarrierOnlyIfItSaysSo) {
  EXPECT_TRUE(Matched("bar.sync").aligned);
  EXPECT_FALSE(Matched("barrier.sync").aligned);
  EXPECT_TRUE(Matched("barrier.sync.aligned").aligned);
  EXPECT_FALSE(Matched("bar.warp.sync").aligned);
}

TEST(Isa, WhatPtxDoesNotHaveIsAnError) {
  EXPECT_EQ(ErrorOf("wgmma.fence.sync.aligned"), "there is no instruction 'wgmma' in the emulator");
  EXPECT_EQ(ErrorOf("exit.uni"),
            "the emulator has no such form of exit: '.uni' is not understood there; it knows exit");
  EXPECT_EQ(ErrorOf("popc"),
            "the emulator has no such form of popc: something is missing at its end; it knows "
            "popc[.b32,.b64]");
  for (const char* words : {"add.ftz.f64",
                            "add.sat.u32",
                            "div.f32",
                            "fma.f32",
                            "rcp.f32",
                            "sqrt.rn.ftz.f64",
                            "shl.s32",
                            "setp.lo.s32",
                            "setp.lt.b32",
                            "mul.s32",
                            "mul.wide.s64",
                            "cvt.f16.f32",
                            "cvt.s32.f32",
                            "cvt.rn.f32.f16",
                            "min.ftz.f64",
                            "atom.add.f16",
                            "atom.global.sub.u32",
                            "shfl.up.b32",
                            "vote.all.pred",
                            "ld.global.v3.f32",
                            "ld.global.v4.f64",
                            "ld.nc.f32",
                            "st.const.f32",
                            "redux.sync.and.u32",
                            "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16",
                            "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
                            "add",
                            "add.",
                            "add.f32.f32",
                            ""}) {
    EXPECT_NE(ErrorOf(words), "") << words;
  }
}

// docs/emulator.md holds the list between these lines.
constexpr std::string_view kBegin = "<!-- instructions: begin -->\n";
constexpr std::string_view kEnd = "<!-- instructions: end -->\n";

TEST(Isa, ListInTheDocumentIsFresh) {
  const std::string path = DUOTONE_SOURCE_DIR "/docs/emulator.md";
  std::stringstream stream;
  stream << std::ifstream(path).rdbuf();
  std::string text = stream.str();
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  ASSERT_NE(begin, std::string::npos) << path;
  ASSERT_NE(end, std::string::npos) << path;
  const size_t at = begin + kBegin.size();
  if (std::getenv("DUOTONE_BLESS") != nullptr) {
    text.replace(at, end - at, InstructionListMarkdown());
    std::ofstream(path) << text;
    return;
  }
  EXPECT_TRUE(text.substr(at, end - at) == InstructionListMarkdown())
      << "the list is stale; run emulator_isa_test with DUOTONE_BLESS=1 to refresh it";
}

}  // namespace
}  // namespace duotone::emulator
