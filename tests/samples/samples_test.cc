// Runs the sample programs and checks what they print.
#include <array>
#include <cstdio>
#include <regex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::HasSubstr;

struct Result {
  int exit_code = -1;
  std::string output;
};

Result RunSample(const std::string& sample) {
  Result result;
  FILE* pipe =
      popen((std::string(DUOTONE_SAMPLES_DIR) + "/sample_" + sample + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> buffer;
  while (size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    result.output.append(buffer.data(), count);
  }
  result.exit_code = pclose(pipe);
  return result;
}

// The number in front of or behind which `pattern` has its group, for each line that matches.
std::vector<double> Numbers(const std::string& text, const std::string& pattern) {
  std::vector<double> numbers;
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    numbers.push_back(std::stod((*it)[1]));
  }
  return numbers;
}

TEST(Samples, PrintGraph) {
  const Result result = RunSample("01_print_graph");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("module @tiny {"));
  EXPECT_THAT(result.output, HasSubstr("%y = tanh(%add) : f32[B, 2] {loc=\"01_print_graph.cc:"));
  EXPECT_THAT(result.output, HasSubstr("matmul: inner sizes differ, 127 and 128"));
}

TEST(Samples, Autocast) {
  const Result result = RunSample("02_autocast");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const size_t after = result.output.find("// after autocast");
  ASSERT_NE(after, std::string::npos) << result.output;
  EXPECT_EQ(result.output.substr(0, after).find("f16"), std::string::npos);
  EXPECT_THAT(result.output.substr(after), HasSubstr("%h = relu(%matmul) : f16[B, 32]"));
  EXPECT_THAT(result.output.substr(after), HasSubstr("autocast f16: "));
}

TEST(Samples, MlpLearns) {
  const Result result = RunSample("03_mlp");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const std::vector<double> right = Numbers(result.output, "([0-9]+) of 128 right");
  ASSERT_EQ(right.size(), 3u) << result.output;
  EXPECT_GT(right.back(), 96);  // three quarters; guessing gives 13
}

TEST(Samples, WhyLossScaling) {
  const Result result = RunSample("04_why_loss_scaling");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const size_t f16 = result.output.find("f16, no scaling");
  const size_t scaled = result.output.find("f16, dynamic scaling");
  ASSERT_TRUE(f16 != std::string::npos && scaled != std::string::npos) << result.output;
  const std::string f32_part = result.output.substr(0, f16);
  const std::string f16_part = result.output.substr(f16, scaled - f16);
  const std::string scaled_part = result.output.substr(scaled);

  for (double largest : Numbers(f32_part, "largest ([0-9.e+-]+)")) EXPECT_LT(largest, 6e-8);
  for (double zero : Numbers(f16_part, "([0-9.]+) % zero")) EXPECT_EQ(zero, 100);
  for (double zero : Numbers(scaled_part, "([0-9.]+) % zero")) EXPECT_LT(zero, 5);
  const double f32_left = Numbers(f32_part, "falls to ([0-9.]+) %")[0];
  EXPECT_LT(f32_left, 10);
  EXPECT_EQ(Numbers(f16_part, "falls to ([0-9.]+) %")[0], 100);
  EXPECT_NEAR(Numbers(scaled_part, "falls to ([0-9.]+) %")[0], f32_left, 1);
}

}  // namespace
