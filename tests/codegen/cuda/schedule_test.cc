// The cost model of kernels: text forms, predicted terms against values worked out by hand, and the
// ranking of candidates.
#include "codegen/cuda/schedule.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace duotone::codegen::cuda {
namespace {

const GpuTarget& Target(std::string_view name) { return **FindGpuTarget(name); }

TEST(Schedule, TextFormReadsBack) {
  const Schedule schedule{.vector = 8, .unroll = 2, .threads = 256, .rows_per_block = 4};
  EXPECT_EQ(schedule.ToString(), "v8 u2 t256 r4");
  EXPECT_EQ(*Schedule::FromString("v8 u2 t256 r4"), schedule);
  const Schedule tile{.vector = 4, .threads = 128, .tile_m = 64, .tile_n = 32, .tile_k = 16};
  EXPECT_EQ(tile.ToString(), "v4 u1 t128 m64 n32 k16");
  EXPECT_EQ(*Schedule::FromString("m64 n32 k16 t128 v4"), tile);
}

TEST(Schedule, BadTextIsAnErrorThatQuotesIt) {
  for (const char* text : {"", "  ", "x8", "v", "v8x", "v-1", "v0", "v8 v4", "v99999999999"}) {
    EXPECT_FALSE(Schedule::FromString(text).ok()) << text;
  }
  EXPECT_EQ(Schedule::FromString("v8 q2").status().message(),
            "schedule 'v8 q2': 'q2' is none of v, u, t, r, m, n, k, f with a number");
}

// 4 GB at 90% of 1555 GB/s: 2858 us and the launch; enough bytes are in flight.
TEST(Predict, LargeCopyTakesTheTimeOfDram) {
  const Prediction p = Predict(Target("sm_80"), {.vector = 8, .threads = 256},
                               {.bytes_read = 2e9,
                                .bytes_written = 2e9,
                                .blocks = 488282,
                                .bytes_in_flight_per_thread = 16});
  EXPECT_EQ(p.limiter, "dram");
  EXPECT_NEAR(p.dram_us, 4e9 / (1555e3 * 0.9), 1e-6);
  EXPECT_EQ(p.bytes_in_flight, 2048 * 16);
  EXPECT_GT(p.total_us, p.dram_us);
  EXPECT_LT(p.total_us, 1.1 * p.dram_us);
}

TEST(Predict, TooFewBytesInFlightMakeItLatencyBound) {
  const Work work{.bytes_read = 1e9, .blocks = 100000, .bytes_in_flight_per_thread = 2};
  const Prediction p = Predict(Target("sm_90"), {.vector = 1, .threads = 128}, work);
  EXPECT_EQ(p.limiter, "latency");
  EXPECT_GT(p.total_us, 2 * p.dram_us);
}

// 108 SMs with 64 lanes at 1.41 GHz: 9.75e12 fused multiply-adds a second.
TEST(Predict, MultiplyAddsTakeTheLanesOfTheArchitecture) {
  const Prediction p = Predict(Target("sm_80"), {.threads = 256},
                               {.bytes_read = 1e6, .flops = 9.746e12, .blocks = 108 * 100});
  EXPECT_EQ(p.limiter, "issue");
  EXPECT_NEAR(p.issue_us, 1e6, 1e3);
}

// One block keeps one of 108 SMs busy.
TEST(Predict, FewBlocksLeaveTheOtherProcessorsIdle) {
  const Work one{.flops = 1e6, .mufu = 1e6, .blocks = 1};
  Work all = one;
  all.blocks = 108;
  const double slow = Predict(Target("sm_80"), {}, one).mufu_us;
  EXPECT_NEAR(slow / Predict(Target("sm_80"), {}, all).mufu_us, 108, 1e-6);
}

TEST(Predict, AKernelThatDoesNotFitComesLast) {
  const Prediction p = Predict(Target("sm_75"), {}, {.shared_bytes = 100 << 10});
  EXPECT_EQ(p.limiter, "does not fit");
  EXPECT_TRUE(std::isinf(p.total_us));
  EXPECT_TRUE(std::isfinite(Predict(Target("sm_80"), {}, {.shared_bytes = 100 << 10}).total_us));
  const Prediction fits = Predict(Target("sm_75"), {.vector = 2}, {.bytes_read = 1e12});
  EXPECT_EQ((*Rank(Target("sm_75"), {p, fits}, ""))[0].schedule.vector, 2);
}

std::vector<Prediction> Candidates() {
  std::vector<Prediction> candidates;
  for (int vector : {1, 2, 4, 8}) {
    candidates.push_back(Predict(Target("sm_90"), {.vector = vector},
                                 {.bytes_read = 1e9,
                                  .blocks = 8000000 / vector,
                                  .bytes_in_flight_per_thread = 2.0 * vector}));
  }
  return candidates;
}

std::string First(const absl::StatusOr<std::vector<Prediction>>& ranked) {
  return ranked.ok() ? ranked->front().schedule.ToString() : std::string(ranked.status().message());
}

TEST(Rank, WideLoadsComeFirstAndEqualTotalsKeepTheirOrder) {
  EXPECT_EQ(First(Rank(Target("sm_90"), Candidates(), "")), "v8 u1 t128");
  std::vector<Prediction> equal = {Predict(Target("sm_90"), {.unroll = 2}, {}),
                                   Predict(Target("sm_90"), {.unroll = 1}, {})};
  EXPECT_EQ(First(Rank(Target("sm_90"), equal, "")), "v1 u2 t128");
}

TEST(Rank, AnOverrideComesFirstAndTheRestStaysRanked) {
  const auto ranked = Rank(Target("sm_90"), Candidates(), "v2");
  ASSERT_TRUE(ranked.ok()) << ranked.status();
  ASSERT_EQ(ranked->size(), 4u);
  EXPECT_EQ((*ranked)[0].schedule.vector, 2);
  EXPECT_EQ((*ranked)[1].schedule.vector, 8);
  EXPECT_EQ((*ranked)[3].schedule.vector, 1);
}

TEST(Rank, AnUnknownOverrideIsAnErrorThatListsTheCandidates) {
  const auto ranked = Rank(Target("sm_90"), Candidates(), "v16");
  ASSERT_FALSE(ranked.ok());
  EXPECT_NE(ranked.status().message().find("no candidate has the schedule 'v16' on sm_90"),
            absl::string_view::npos);
  EXPECT_NE(ranked.status().message().find("v4 u1 t128"), absl::string_view::npos);
}

TEST(Rank, OverridesGoByNodeAndAStarHoldsWhereItCan) {
  const GpuTarget& target = Target("sm_90");
  const std::vector<std::string> both = {"*=v2", "h=v4"};
  EXPECT_EQ(First(Rank(target, Candidates(), both, "h")), "v4 u1 t128");
  EXPECT_EQ(First(Rank(target, Candidates(), both, "other")), "v2 u1 t128");
  EXPECT_EQ(First(Rank(target, Candidates(), {"*=m64 n64 k16"}, "h")), "v8 u1 t128");
  EXPECT_FALSE(Rank(target, Candidates(), {"h=m64 n64 k16"}, "h").ok());
  EXPECT_EQ(First(Rank(target, Candidates(), {"v8"}, "h")),
            "schedule override 'v8' is not NODE=SCHEDULE or *=SCHEDULE");
}

TEST(ToText, OneLinePerCandidate) {
  const auto ranked = Rank(Target("sm_90"), Candidates(), "");
  const std::string text = ToText(*ranked);
  EXPECT_EQ(text.substr(0, 2), "1 ");
  EXPECT_NE(text.find("v8 u1 t128"), std::string::npos);
  EXPECT_NE(text.find("in flight 32 KB  regs 32\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n4 "), std::string::npos);
}

}  // namespace
}  // namespace duotone::codegen::cuda
