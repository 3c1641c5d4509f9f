// Products of matrices as library calls: what shapes and types become of them, and that they are
// near the reference.
#include <cmath>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "tests/codegen/run_program.h"

namespace duotone::codegen::cpu {
namespace {

using runtime::Fill;
using runtime::HostCall;
using runtime::MatMul;

struct Case {
  const char* a;
  const char* b;
  const char* attrs;
  const char* result;
  double bound;   // of the difference to the reference, for sums of at most 40 products below 4
  int64_t batch;  // of the call
  int64_t rows;
};

std::string TextOf(const Case& c) {
  return absl::StrFormat(
      "graph @g(%%a: %s, %%b: %s) { %%y = matmul(%%a, %%b)%s : %s return y=%%y }", c.a, c.b,
      c.attrs, c.result);
}

TEST(LowerMatMul, IsNearTheReferenceInAllForms) {
  constexpr double kF32 = 2e-5;
  constexpr double kF16 = 0.04;  // one unit in the last place below 64
  constexpr double kBF16 = 0.3;
  for (const Case& c : {
           Case{"f32[5, 40]", "f32[40, 7]", "", "f32[5, 7]", kF32, 1, 5},
           Case{"f32[40, 5]", "f32[40, 7]", ", transpose_a=true", "f32[5, 7]", kF32, 1, 5},
           Case{"f32[5, 40]", "f32[7, 40]", ", transpose_b=true", "f32[5, 7]", kF32, 1, 5},
           Case{"f32[40, 5]", "f32[7, 40]", ", transpose_a=true, transpose_b=true", "f32[5, 7]",
                kF32, 1, 5},
           Case{"f16[5, 40]", "f16[40, 7]", "", "f16[5, 7]", kF16, 1, 5},
           Case{"f16[5, 40]", "f16[40, 7]", ", out=f32", "f32[5, 7]", kF32, 1, 5},
           Case{"bf16[5, 40]", "bf16[40, 7]", "", "bf16[5, 7]", kBF16, 1, 5},
           Case{"f32[5, 40]", "f32[40, 7]", ", out=bf16", "bf16[5, 7]", kBF16, 1, 5},
           Case{"f32[2, 3, 5, 40]", "f32[2, 3, 40, 7]", "", "f32[2, 3, 5, 7]", kF32, 6, 5},
           Case{"f16[6, 40, 5]", "f16[6, 7, 40]", ", transpose_a=true, transpose_b=true",
                "f16[6, 5, 7]", kF16, 6, 5},
           // A matrix shared by a batch: one tall product if the rows follow one another.
           Case{"f16[2, 3, 5, 40]", "f16[40, 7]", "", "f16[2, 3, 5, 7]", kF16, 1, 30},
           Case{"f32[6, 40, 5]", "f32[7, 40]", ", transpose_a=true, transpose_b=true",
                "f32[6, 5, 7]", kF32, 6, 5},
           Case{"f16[5, 40]", "f16[6, 40, 7]", "", "f16[6, 5, 7]", kF16, 6, 5},
           Case{"f32[0, 40]", "f32[40, 7]", "", "f32[0, 7]", kF32, 1, 0},
           Case{"f32[0, 5, 40]", "f32[0, 40, 7]", "", "f32[0, 5, 7]", kF32, 0, 5},
       }) {
    const std::string text = TextOf(c);
    std::unique_ptr<ir::Module> module = ParseOrDie(text);
    const ir::Graph& graph = *module->FindGraph("g");
    auto program = Lower(graph);
    ASSERT_TRUE(program.ok()) << program.status();
    ASSERT_EQ(program->steps.size(), 1u);
    const auto* mm = std::get_if<MatMul>(&program->steps[0].action);
    ASSERT_NE(mm, nullptr) << text;
    EXPECT_EQ(mm->batch, c.batch) << text;
    EXPECT_EQ(mm->m, c.rows) << text;
    CpuSession session(*module, {}, 2);
    const ir::ArrayMap inputs = RandomInputs(graph, 1);
    auto actual = session.Run(graph, inputs);
    auto expected = ir::Interpret(graph, inputs, {});
    ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
    const ir::Array& y = actual->outputs["y"];
    for (int64_t i = 0; i < y.elements(); ++i) {
      ASSERT_NEAR(y.Get(i), expected->outputs["y"].Get(i), c.bound) << text << " element " << i;
    }
  }
}

TEST(LowerMatMul, SumsOfNothingAreZeros) {
  std::unique_ptr<ir::Module> module = ParseOrDie(
      "graph @g(%a: f16[3, 0], %b: f16[0, 4]) { %y = matmul(%a, %b) : f16[3, 4] return y=%y }");
  const ir::Graph& graph = *module->FindGraph("g");
  auto program = Lower(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(std::holds_alternative<Fill>(program->steps[0].action));
  CpuSession session(*module, {}, 1);
  auto result = session.Run(graph, RandomInputs(graph, 1));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Difference(result->outputs, {{"y", ir::Array(ir::Type{DType::kF16, {3, 4}})}}), "");
}

// The library has no product in f64, and none is called where every bit must agree.
TEST(LowerMatMul, UsesTheReferenceWhereItMust) {
  std::unique_ptr<ir::Module> module = ParseOrDie(
      "graph @g(%a: f64[3, 5], %b: f64[5, 4]) { %y = matmul(%a, %b) : f64[3, 4] return y=%y }"
      "graph @h(%a: f32[3, 5], %b: f32[5, 4]) { %y = matmul(%a, %b) : f32[3, 4] return y=%y }");
  for (const char* name : {"g", "h"}) {
    auto program = Lower(*module->FindGraph(name), {.use_library = name[0] == 'g'});
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_TRUE(std::holds_alternative<HostCall>(program->steps[0].action)) << name;
  }
}

}  // namespace
}  // namespace duotone::codegen::cpu
