// codegen/index.h: simplified expressions have the values of the plain ones, and elements of
// vectors are recognised behind chains of views.
#include "codegen/index.h"

#include <cctype>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duotone::codegen {
namespace {

using Values = std::map<std::string, int64_t>;

// Evaluates C++ text of +, -, *, /, %, parentheses, numbers and names with C++'s rules.
class TextEvaluator {
 public:
  TextEvaluator(std::string text, const Values& values) : text_(std::move(text)), values_(values) {}
  int64_t Run() {
    const int64_t value = Sum();
    EXPECT_EQ(at_, text_.size()) << text_;
    return value;
  }

 private:
  char Peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  int64_t Sum() {
    int64_t value = Product();
    while (Peek() == '+' || Peek() == '-') {
      const bool plus = text_[at_++] == '+';
      const int64_t right = Product();
      value = plus ? value + right : value - right;
    }
    return value;
  }
  int64_t Product() {
    int64_t value = Leaf();
    while (Peek() == '*' || Peek() == '/' || Peek() == '%') {
      const char op = text_[at_++];
      const int64_t right = Leaf();
      value = op == '*' ? value * right : op == '/' ? value / right : value % right;
    }
    return value;
  }
  int64_t Leaf() {
    if (Peek() == '-') return ++at_, -Leaf();
    if (Peek() == '(') {
      ++at_;
      const int64_t value = Sum();
      EXPECT_EQ(Peek(), ')') << text_;
      ++at_;
      return value;
    }
    const size_t begin = at_;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_]))) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (std::isdigit(static_cast<unsigned char>(word[0]))) return std::stoll(word);
    return values_.at(word);
  }

  std::string text_;
  const Values& values_;
  size_t at_ = 0;
};

// An expression beside a function that computes it without any simplification.
struct Pair {
  Index index = 0;
  std::function<int64_t(const Values&)> plain = [](const Values&) { return 0; };
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}
  int64_t Pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  Pair Make(int depth) {
    if (depth == 0) return Pick(0, 3) == 0 ? Constant() : Variable();
    const Pair a = Make(depth - 1);
    // Divisors share factors with each other, so that the rules apply often.
    static constexpr int64_t kNumbers[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32};
    const int64_t n = kNumbers[Pick(0, 10)];
    switch (Pick(0, 3)) {
      case 0: {
        const Pair b = Make(depth - 1);
        return {a.index + b.index, [a, b](const Values& v) { return a.plain(v) + b.plain(v); }};
      }
      case 1:
        return {a.index * n, [a, n](const Values& v) { return a.plain(v) * n; }};
      case 2:
        return {a.index / n, [a, n](const Values& v) { return a.plain(v) / n; }};
      default:
        return {a.index % n, [a, n](const Values& v) { return a.plain(v) % n; }};
    }
  }

  static constexpr std::pair<const char*, int64_t> kVariables[] = {{"q", 40}, {"v", 8}, {"r", 3}};

 private:
  Pair Constant() {
    const int64_t n = Pick(0, 20);
    return {Index(n), [n](const Values&) { return n; }};
  }
  Pair Variable() {
    const auto& [name, limit] = kVariables[Pick(0, 2)];
    const std::string text = name;
    return {Index::Variable(text, limit), [text](const Values& v) { return v.at(text); }};
  }

  std::mt19937 random_;
};

TEST(Index, RandomExpressionsHaveTheValuesOfThePlainOnes) {
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Generator generator(seed);
    const Pair pair = generator.Make(1 + static_cast<int>(seed % 6));
    const std::string text = pair.index.ToString();
    const int64_t divisor = pair.index.divisor();
    for (int sample = 0; sample < 24; ++sample) {
      Values values;
      for (const auto& [name, limit] : Generator::kVariables) {
        values[name] = generator.Pick(0, limit - 1);
      }
      const int64_t expected = pair.plain(values);
      ASSERT_EQ(pair.index.Evaluate([&](const std::string& name) { return values.at(name); }),
                expected)
          << text;
      ASSERT_EQ(TextEvaluator(text, values).Run(), expected) << text;
      ASSERT_GE(expected, pair.index.min()) << text;
      ASSERT_LE(expected, pair.index.max()) << text;
      if (divisor == 0) {
        ASSERT_EQ(expected, 0) << text;
      } else {
        ASSERT_EQ(expected % divisor, 0) << text << " divisor " << divisor;
      }
    }
  }
}

TEST(Index, SplitByGivesBaseAndStride) {
  int split_count = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Generator generator(seed);
    const Index index = generator.Make(4).index;
    const Index v = Index::Variable("v", 8);
    const auto split = index.SplitBy(v);
    if (!split) continue;
    ++split_count;
    EXPECT_FALSE(split->base.Contains(v));
    EXPECT_EQ(split->base + v * split->stride, index) << index.ToString();
  }
  EXPECT_GT(split_count, 500);
}

const Index kQ = Index::Variable("q", 4096);
const Index kV = Index::Variable("v", 8);

TEST(Index, VectorStaysOneBehindDivisionAndRemainder) {
  EXPECT_EQ(((kQ * 8 + kV) / 64).ToString(), "q / 8");
  EXPECT_EQ(((kQ * 8 + kV) % 64).ToString(), "8 * (q % 8) + v");
  EXPECT_EQ(((kQ * 64 + kV) / 192).ToString(), "q / 3");
  EXPECT_EQ(((kQ * 70 + kV) / 64).ToString(), "q + (6 * q + v) / 64");
}

TEST(Index, NestedDivisionsAndRemaindersAreOne) {
  const Index x = Index::Variable("x", 10000);
  EXPECT_EQ((x / 4 / 8).ToString(), "x / 32");
  EXPECT_EQ((x % 32 / 8).ToString(), "x / 8 % 4");
  EXPECT_EQ((x % 32 % 8).ToString(), "x % 8");
  EXPECT_EQ((x % 7 / 7).ToString(), "0");
  EXPECT_EQ(((x / 8) * 8 + x % 8).ToString(), "x");
  EXPECT_EQ(((x / 8 % 4) * 8 + x % 8).ToString(), "x % 32");
}

// A reshape to any shape and back leaves the position alone.
TEST(Index, LineariseUndoesDelinearise) {
  const std::vector<std::vector<int64_t>> shapes = {
      {4096, 8}, {64, 512}, {1, 32768}, {16, 4, 512}, {32, 1, 1024}, {2, 4, 8, 8, 64}, {32768}};
  const Index position = kQ * 8 + kV;
  for (const auto& shape : shapes) {
    EXPECT_EQ(Linearise(Delinearise(position, shape), shape), position);
  }
  const Index odd = Index::Variable("p", 7 * 5 * 9);
  EXPECT_EQ(Linearise(Delinearise(odd, {7, 5, 9}), {7, 5, 9}), odd);
  EXPECT_EQ(Linearise(Delinearise(kQ, {16, 1, 256}), {16, 1, 256}), kQ);
}

// [B, T, H*D] -> [B, T, H, D] -> transpose [B, H, T, D], read in vectors of 8: aligned vectors.
TEST(Index, VectorsBehindReshapeAndTransposeAreAligned) {
  const int64_t batch = 4;
  const int64_t time = 16;
  const int64_t heads = 8;
  const int64_t dim = 64;
  const Coordinates at = Delinearise(kQ * 8 + kV, {batch, heads, time, dim});
  const Coordinates source = {at[0], at[2], at[1], at[3]};
  const Index position = Linearise(source, {batch, time, heads, dim});
  const auto split = position.SplitBy(kV);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->stride, 1);
  EXPECT_EQ(split->base.divisor() % 8, 0) << split->base.ToString();
  // The inverse reshape of the source sees the same position.
  EXPECT_EQ(
      Linearise(Delinearise(position, {batch * time, heads * dim}), {batch * time, heads * dim}),
      position);
}

TEST(Index, ReplacePutsAValueInPlaceOfAVariable) {
  const Index index = (kQ * 8 + kV) % 48;
  EXPECT_EQ(index.Replace(kV, 3), (kQ * 8 + 3) % 48);
  EXPECT_EQ(index.Replace(kQ, 7), kV + 8);
}

TEST(Index, BoundsThatHoldAreLeftOut) {
  EXPECT_EQ((Bounds{kV, 0, 8}.ToString()), "");
  EXPECT_EQ((Bounds{kV - 2, 0, 8}.ToString()), "v >= 2");
  EXPECT_EQ((Bounds{kV + 2, 0, 8}.ToString()), "v < 6");
  EXPECT_EQ((Bounds{kQ - 2, 0, 8}.ToString()), "q >= 2 && q < 10");
}

TEST(Index, LargeNumbersAre64BitLiterals) {
  EXPECT_EQ((Index::Variable("q", 1 << 20) * (int64_t{1} << 33)).ToString(), "8589934592LL * q");
}

}  // namespace
}  // namespace duotone::codegen
