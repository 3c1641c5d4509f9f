#include "passes/paint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace duotone::passes {
namespace {

using ir::Tone;
using testing::ElementsAre;

PaintVertex Vertex(Tone tone, std::vector<int> reads, DType low = DType::kF16) {
  PaintVertex vertex{.tone = tone, .can_be_low = true, .low_dtype = low};
  for (int from : reads) vertex.reads.push_back({from, true});
  return vertex;
}

Tone ToneOf(char letter) {
  switch (letter) {
    case 'A':
      return Tone::kAllow;
    case 'i':
      return Tone::kInfer;
    case 'c':
      return Tone::kClear;
    case 'D':
      return Tone::kDeny;
    default:
      return Tone::kFixed;
  }
}

// Paints a chain, each vertex reading the one before it. 'L' is low, '-' is f32.
std::string PaintChain(std::string_view tones) {
  std::vector<PaintVertex> vertices;
  for (char letter : tones) {
    const int previous = static_cast<int>(vertices.size()) - 1;
    vertices.push_back(
        Vertex(ToneOf(letter), previous < 0 ? std::vector<int>{} : std::vector<int>{previous}));
  }
  Paint(vertices);
  std::string colours;
  for (const PaintVertex& vertex : vertices) colours += vertex.low ? 'L' : '-';
  return colours;
}

TEST(PaintTest, DenyReachesTheLastInferAndLeavesTheClearBehindItFree) {
  EXPECT_EQ(PaintChain("DiciciA"), "------L");
  EXPECT_EQ(PaintChain("DicicAi"), "----LLL");
}

TEST(PaintTest, WithoutAnAllowVertexNothingIsLow) { EXPECT_EQ(PaintChain("iccic"), "-----"); }

TEST(PaintTest, ClearAndInferBetweenAllowVerticesAreLow) {
  EXPECT_EQ(PaintChain("AiciA"), "LLLLL");
}

TEST(PaintTest, TheTailOfAnAllowVertexIsLowUpToADenyVertex) {
  EXPECT_EQ(PaintChain("AicDi"), "LLL--");
}

TEST(PaintTest, InferInFrontOfTheFirstAllowVertexStaysWideAndClearFollowsBackwards) {
  EXPECT_EQ(PaintChain("icA"), "-LL");
}

TEST(PaintTest, AFixedVertexSeparates) {
  EXPECT_EQ(PaintChain("AfcA"), "L-LL");
  EXPECT_EQ(PaintChain("DfiA"), "---L");
}

TEST(PaintTest, InferThatAlsoReadsADeniedVertexStaysWide) {
  std::vector<PaintVertex> v = {Vertex(Tone::kAllow, {}), Vertex(Tone::kDeny, {}),
                                Vertex(Tone::kInfer, {0, 1})};
  Paint(v);
  EXPECT_FALSE(v[2].low);
  EXPECT_EQ(v[2].rule, PaintRule::kDownstream);
  EXPECT_EQ(v[2].via, 1);
}

TEST(PaintTest, AResultThatIsNeverLowCarriesNothing) {
  std::vector<PaintVertex> v = {Vertex(Tone::kAllow, {}), Vertex(Tone::kInfer, {0})};
  v[1].reads[0].low_result = false;
  Paint(v);
  EXPECT_FALSE(v[1].low);
}

TEST(PaintTest, AVertexThatCannotBeLowPassesDenyOn) {
  std::vector<PaintVertex> v = {Vertex(Tone::kDeny, {}), Vertex(Tone::kInfer, {0}),
                                Vertex(Tone::kInfer, {1}), Vertex(Tone::kAllow, {})};
  v[1].can_be_low = false;
  v[3].reads.push_back({2, true});
  Paint(v);
  EXPECT_EQ(v[2].rule, PaintRule::kDownstream);
}

TEST(PaintTest, ReadersOfTwoSixteenBitTypesStayWideAndSoDoesWhatHungOnThem) {
  // f16 and bf16 products meet in an infer vertex, behind which a clear one follows.
  std::vector<PaintVertex> v = {
      Vertex(Tone::kAllow, {}, DType::kF16), Vertex(Tone::kAllow, {}, DType::kBF16),
      Vertex(Tone::kInfer, {0, 1}, DType::kF16), Vertex(Tone::kClear, {2}, DType::kF16)};
  Paint(v);
  EXPECT_EQ(v[2].rule, PaintRule::kMixed);
  EXPECT_FALSE(v[2].low);
  EXPECT_FALSE(v[3].low);
}

TEST(PaintTest, ACarrierOfAClampedConstantIsLowOnlyIfAllItsReadersAre) {
  // The carrier (1) is read by a low clear vertex (2) and by a wide one (3).
  auto graph = [](bool wide_reader) {
    std::vector<PaintVertex> v = {Vertex(Tone::kAllow, {}), Vertex(Tone::kClear, {}),
                                  Vertex(Tone::kClear, {0, 1})};
    v[1].keeps_readers_low = true;
    if (wide_reader) v.push_back(Vertex(Tone::kFixed, {1}));
    Paint(v);
    return v;
  };
  EXPECT_TRUE(graph(false)[1].low);
  EXPECT_FALSE(graph(true)[1].low);
  EXPECT_TRUE(graph(true)[2].low);
}

TEST(PaintTest, CausesAreTheNearestOnes) {
  // A -> i -> c: the infer follows the product, the clear its neighbour.
  std::vector<PaintVertex> v = {Vertex(Tone::kAllow, {}), Vertex(Tone::kInfer, {0}),
                                Vertex(Tone::kInfer, {1}), Vertex(Tone::kAllow, {2})};
  Paint(v);
  EXPECT_EQ(v[1].rule, PaintRule::kBetween);
  EXPECT_THAT((std::vector<int>{v[1].via, v[1].towards, v[2].via, v[2].towards}),
              ElementsAre(0, 2, 1, 3));
}

// A random graph whose vertices are put in another topological order: same colours and causes by
// name.
TEST(PaintTest, TheOrderOfNodesDoesNotMatter) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int count = 24;
    std::vector<std::string> names;
    std::vector<PaintVertex> plain;
    for (int i = 0; i < count; ++i) names.push_back(std::to_string(random()));
    for (int i = 0; i < count; ++i) {
      constexpr char kTones[] = "AiiiiccccDf";
      std::vector<int> reads;
      for (int k = 0; i > 0 && k < 2; ++k) reads.push_back(static_cast<int>(random() % i));
      const DType low = random() % 8 == 0 ? DType::kBF16 : DType::kF16;
      plain.push_back(Vertex(ToneOf(kTones[random() % 11]), reads, low));
      plain.back().name = names[i];
    }
    // A topological order drawn at random: repeatedly any vertex whose reads are placed.
    std::vector<int> place(count, -1);
    std::vector<PaintVertex> shuffled;
    while (shuffled.size() < plain.size()) {
      const int i = static_cast<int>(random() % count);
      const bool ready = std::all_of(plain[i].reads.begin(), plain[i].reads.end(),
                                     [&](const auto& read) { return place[read.from] >= 0; });
      if (place[i] >= 0 || !ready) continue;
      place[i] = static_cast<int>(shuffled.size());
      PaintVertex copy = plain[i];
      for (auto& read : copy.reads) read.from = place[read.from];
      shuffled.push_back(copy);
    }
    Paint(plain);
    Paint(shuffled);
    auto cause = [](const std::vector<PaintVertex>& v, int i) {
      return i < 0 ? std::string() : std::string(v[i].name);
    };
    for (int i = 0; i < count; ++i) {
      const PaintVertex& other = shuffled[place[i]];
      ASSERT_EQ(plain[i].low, other.low) << "round " << round << " vertex " << i;
      ASSERT_EQ(plain[i].rule, other.rule) << "round " << round << " vertex " << i;
      ASSERT_EQ(cause(plain, plain[i].via), cause(shuffled, other.via));
    }
  }
}

}  // namespace
}  // namespace duotone::passes
