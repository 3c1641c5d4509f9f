// The table of instructions: what it accepts, what it refuses and how it says so.
#include "runtime/emulator/isa.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/gpu_target.h"
#include "gtest/gtest.h"
#include "runtime/emulator/code.h"
#include "tests/runtime/emulator/isa_samples.h"

namespace duotone::emulator {
namespace {

std::string ErrorOf(std::string_view words) {
  const absl::StatusOr<IsaMatch> match = MatchIsa(words);
  return match.ok() ? "" : std::string(match.status().message());
}

IsaMatch MatchOf(std::string_view words) {
  const absl::StatusOr<IsaMatch> match = MatchIsa(words);
  EXPECT_TRUE(match.ok()) << match.status();
  return match.ok() ? *match : IsaMatch();
}

Instruction Matched(std::string_view words) { return MatchOf(words).instruction; }

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

// Whether a module for the architecture may have the instruction.
bool IsIn(const std::string& words, const std::string& target) {
  return ParsePtx(SampleModule(SampleInstruction(words, MatchOf(words)), target)).ok();
}

// As ptxas 13.0 has it, for what is in the table of sm_80 and later.
TEST(Isa, InstructionsBeginWithAnArchitecture) {
  const std::pair<int, std::vector<const char*>> kGroups[] = {
      {0,
       {"add.f16x2", "fma.rn.ftz.sat.f16", "set.lt.f16.f16", "setp.ltu.f16x2", "min.ftz.f32",
        "cvt.rn.f16.f32", "cvt.sat.u8.s32", "cvt.rzi.s32.f16", "ld.relaxed.gpu.global.u32",
        "ld.global.nc.L1::no_allocate.f32", "st.global.cs.v4.f32", "atom.global.add.noftz.f16x2",
        "atom.cta.shared.cas.b16", "prefetch.global.L2", "fence.acq_rel.gpu", "nanosleep.u32",
        "match.any.sync.b32", "barrier.sync.aligned"}},
      {75,
       {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "tanh.approx.f32", "tanh.approx.f16x2",
        "ex2.approx.f16", "ld.global.L2::128B.f32",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"}},
      {80,
       {"redux.sync.add.u32",
        "redux.sync.xor.b32",
        "min.NaN.f32",
        "max.ftz.NaN.f32",
        "min.f16",
        "max.ftz.f16x2",
        "max.NaN.f16",
        "fma.rn.relu.f16",
        "fma.rn.ftz.relu.f16x2",
        "fma.rn.bf16",
        "fma.rn.relu.bf16x2",
        "neg.bf16",
        "abs.bf16x2",
        "min.bf16",
        "max.NaN.bf16x2",
        "cvt.f32.bf16",
        "cvt.rn.bf16.f32",
        "cvt.rp.bf16.f32",
        "cvt.rz.relu.bf16.f32",
        "cvt.rn.relu.f16.f32",
        "cvt.rz.f16x2.f32",
        "cvt.rn.relu.bf16x2.f32",
        "cvt.rna.tf32.f32",
        "ld.global.L2::256B.f32",
        "prefetch.global.L2::evict_last",
        "cp.async.ca.shared.global.L2::128B",
        "cp.async.cg.shared::cta.global",
        "cp.async.commit_group",
        "cp.async.wait_group",
        "cp.async.wait_all",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32"}},
      {90,
       {"add.bf16",
        "sub.rn.bf16x2",
        "mul.bf16x2",
        "ex2.approx.ftz.bf16",
        "tanh.approx.bf16",
        "set.eq.bf16.bf16",
        "set.lt.u32.bf16x2",
        "setp.gt.bf16",
        "setp.nan.and.bf16x2",
        "cvt.rzi.s32.bf16",
        "cvt.rn.bf16.u64",
        "cvt.rni.bf16.bf16",
        "cvt.ftz.f32.bf16",
        "cvt.f64.bf16",
        "cvt.rn.bf16.f16",
        "cvt.rm.bf16.f64",
        "cvt.rz.f16.bf16",
        "cvt.rn.tf32.f32",
        "cvt.rz.relu.tf32.f32",
        "atom.global.add.noftz.bf16",
        "red.relaxed.gpu.shared.add.noftz.bf16x2",
        "atom.cluster.global.add.u32",
        "fence.sc.cluster",
        "ld.acquire.cluster.u32",
        "st.release.cluster.shared.u16",
        "stmatrix.sync.aligned.m8n8.x2.shared.b16"}},
  };
  for (const auto& [since, forms] : kGroups) {
    for (const std::string words : forms) {
      EXPECT_EQ(IsIn(words, "sm_70"), since <= 70) << words;
      for (const GpuTarget& target : AllGpuTargets()) {
        EXPECT_EQ(IsIn(words, std::string(target.name)), since <= target.compute)
            << words << " on " << target.name;
      }
    }
  }
}

TEST(Isa, EachFormIsRefusedBeforeItsArchitecture) {
  int newer = 0;
  ForEachSample([&](const IsaRow& row, const std::string& words, const std::string&) {
    const int since = MatchOf(words).since;
    EXPECT_GE(since, row.since) << words;
    for (const GpuTarget& target : AllGpuTargets()) {
      EXPECT_EQ(IsIn(words, std::string(target.name)), since <= target.compute)
          << words << " on " << target.name;
    }
    newer += since > 75;
  });
  EXPECT_GT(newer, 200);
}

TEST(Isa, AFormThatIsTooNewIsRefusedByName) {
  const std::string text = SampleModule("add.rn.bf16 %h, %h, %h;\n", "sm_80");
  EXPECT_EQ(ParsePtx(text).status().message(),
            "PTX line 10 'add.rn.bf16 %h, %h, %h;': add.rn.bf16 is there from sm_90 on; the "
            "module's .target is sm_80");
}

TEST(Isa, AScopeStandsBeforeTheSpaceOrBehindIt) {
  for (const char* words : {"atom.relaxed.gpu.global.add.u32", "atom.global.gpu.add.u32",
                            "red.gpu.add.u32", "red.relaxed.shared.cta.add.u32"}) {
    EXPECT_EQ(ErrorOf(words), "") << words;
  }
  for (const char* words : {"atom.relaxed.gpu.global.gpu.add.u32", "atom.gpu.gpu.add.u32",
                            "red.cta.shared.sys.add.u32"}) {
    EXPECT_NE(ErrorOf(words), "") << words;
  }
}

TEST(Isa, CachesAreToldByAnOperatorOrByLevelsOfGlobalMemory) {
  for (const char* words :
       {"ld.global.ca.L2::128B.f32", "ld.L1::evict_last.L2::64B.f32", "ld.shared.cg.f32",
        "ld.global.cg.nc.f32", "ld.global.nc.L1::evict_first.L2::64B.f32", "st.L1::evict_last.u32",
        "st.local.wt.u32", "ld.volatile.L2::64B.u32"}) {
    EXPECT_EQ(ErrorOf(words), "") << words;
  }
  for (const char* words :
       {"ld.global.ca.L1::evict_normal.f32", "ld.shared.L1::evict_last.f32", "ld.const.L2::64B.f32",
        "ld.global.lu.nc.f32", "ld.global.cv.nc.f32", "ld.global.ca.nc.L1::evict_last.f32",
        "ld.volatile.shared.L2::64B.u32", "ld.relaxed.cta.shared.L1::evict_first.u32",
        "st.global.wb.L1::evict_normal.u32", "st.shared.L1::no_allocate.u32",
        "st.release.gpu.shared.L1::evict_last.u32"}) {
    EXPECT_NE(ErrorOf(words), "") << words;
  }
}

TEST(Isa, IntegersSaturateOnlyWhereTheyMayNotFit) {
  const std::pair<const char*, int> kTypes[] = {{"8", 8}, {"16", 16}, {"32", 32}, {"64", 64}};
  int refused = 0;
  for (const auto& [to, to_bits] : kTypes) {
    for (const auto& [from, from_bits] : kTypes) {
      for (const bool to_signed : {false, true}) {
        for (const bool from_signed : {false, true}) {
          const bool fits = from_signed ? to_signed && from_bits <= to_bits
                                        : from_bits <= to_bits - (to_signed ? 1 : 0);
          const std::string types = absl::StrFormat(".%c%s.%c%s", to_signed ? 's' : 'u', to,
                                                    from_signed ? 's' : 'u', from);
          EXPECT_EQ(ErrorOf("cvt" + types), "") << types;
          EXPECT_EQ(ErrorOf("cvt.sat" + types) != "", fits) << types;
          refused += fits;
        }
      }
    }
  }
  EXPECT_EQ(refused, 26);  // by ptxas too
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
