// Pointwise kernels, run on the host, against the reference evaluation. In exact mode they agree to
// the last bit; the host's functions are the reference's.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/codegen/cuda/run_kernel.h"

namespace duotone::codegen::cuda {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

FusionOptions Exact() { return {.family = "pointwise", .exact = true}; }

// `count` numbers: the special ones first, then a spread of magnitudes and signs.
ir::Array Numbers(DType dtype, int64_t count, int shift = 0) {
  std::vector<double> special = {0.0, 1.0, 2.0, 3.0, 100.0, 7.0};
  if (IsFloat(dtype)) {
    special = {0.0, -0.0, 1.0,   -1.0,  kInf, -kInf, kNaN,   0.5,  -2.5,
               3.0, 1e-7, -1e-7, 65504, -7e4, 300.0, -300.0, 1e-3, 88.0};
  } else if (dtype == DType::kI32) {
    special = {0, 1, -1, 2147483647, -2147483648.0, 17, -17, 5};
  } else if (dtype == DType::kI64) {
    special = {0, 1, -1, 9e15, -9e15, 17, -17, 5};
  } else if (dtype == DType::kBool) {
    special = {0, 1, 1};
  }
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i + shift);
    if (at % 3 != 2) {
      values.push_back(special[(at * 7) % special.size()]);
    } else {
      const double x = std::sin(static_cast<double>(at) * 0.7) * 8;
      values.push_back(IsFloat(dtype) ? x : std::abs(std::floor(x)));
    }
  }
  if (dtype == DType::kBool) {
    for (double& value : values) value = value != 0;
  }
  return ir::Array::Of({dtype, {count}}, values);
}

// "%y0 = neg(%x) : f32[99]" for each op, and a return of all results.
std::string Lines(const std::vector<std::string>& calls, const std::string& type) {
  std::string text;
  std::vector<std::string> results;
  for (size_t i = 0; i < calls.size(); ++i) {
    absl::StrAppend(&text, "%y", i, " = ", calls[i], " : ", type, "\n");
    results.push_back(absl::StrCat("y", i, "=%y", i));
  }
  return absl::StrCat(text, "return ", absl::StrJoin(results, ", "));
}

TEST(Pointwise, FunctionsOfOneNumber) {
  const std::vector<std::string> calls = {"neg(%x)",
                                          "abs(%x)",
                                          "exp(%x)",
                                          "log(%x)",
                                          "sqrt(%x)",
                                          "rsqrt(%x)",
                                          "tanh(%x)",
                                          "sigmoid(%x)",
                                          "softplus(%x)",
                                          "erf(%x)",
                                          "relu(%x)",
                                          "gelu(%x)",
                                          "gelu(%x), tanh=true",
                                          "silu(%x)",
                                          "clamp(%x), min=-0.5, max=0.75",
                                          "stop_gradient(%x)"};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
    const std::string type = absl::StrFormat("%s[99]", DTypeName(dtype));
    ExpectFusionMatches(absl::StrCat("graph @f(%x: ", type, ") {\n", Lines(calls, type), "\n}"),
                        {{"x", Numbers(dtype, 99)}}, 0, Exact());
  }
  for (DType dtype : {DType::kI32, DType::kI64, DType::kU8}) {
    const std::string type = absl::StrFormat("%s[99]", DTypeName(dtype));
    ExpectFusionMatches(
        absl::StrCat("graph @f(%x: ", type, ") {\n",
                     Lines({"neg(%x)", "abs(%x)", "relu(%x)", "clamp(%x), min=0.5, max=7.5"}, type),
                     "\n}"),
        {{"x", Numbers(dtype, 99)}}, 0, Exact());
  }
}

TEST(Pointwise, FunctionsOfTwoNumbers) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI32, DType::kI64,
                      DType::kU8}) {
    std::vector<std::string> calls = {"add(%a, %b)",       "sub(%a, %b)", "mul(%a, %b)",
                                      "div(%a, %b)",       "max(%a, %b)", "min(%a, %b)",
                                      "select(%c, %a, %b)"};
    if (IsFloat(dtype)) {
      for (const char* call : {"pow(%a, %b)", "gelu_grad(%a, %b)", "gelu_grad(%a, %b), tanh=true",
                               "silu_grad(%a, %b)"}) {
        calls.push_back(call);
      }
    }
    const std::string type = absl::StrFormat("%s[101]", DTypeName(dtype));
    ExpectFusionMatches(absl::StrCat("graph @f(%a: ", type, ", %b: ", type, ", %c: bool[101]) {\n",
                                     Lines(calls, type), "\n}"),
                        {{"a", Numbers(dtype, 101)},
                         {"b", Numbers(dtype, 101, 13)},
                         {"c", Numbers(DType::kBool, 101)}},
                        0, Exact());
  }
}

TEST(Pointwise, ComparisonsAndLogic) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI32, DType::kI64,
                      DType::kU8}) {
    std::vector<std::string> calls = {"eq(%a, %b)", "ne(%a, %b)", "lt(%a, %b)",
                                      "le(%a, %b)", "gt(%a, %b)", "ge(%a, %b)"};
    if (IsFloat(dtype)) calls.push_back("is_finite(%a)");
    const std::string type = absl::StrFormat("%s[77]", DTypeName(dtype));
    ExpectFusionMatches(absl::StrCat("graph @f(%a: ", type, ", %b: ", type, ") {\n",
                                     Lines(calls, "bool[77]"), "\n}"),
                        {{"a", Numbers(dtype, 77)}, {"b", Numbers(dtype, 77, 4)}}, 0, Exact());
  }
  ExpectFusionMatches(absl::StrCat("graph @f(%a: bool[77], %b: bool[77]) {\n",
                                   Lines({"and(%a, %b)", "or(%a, %b)", "not(%a)", "eq(%a, %b)",
                                          "ne(%a, %b)", "select(%a, %b, %a)"},
                                         "bool[77]"),
                                   "\n}"),
                      {{"a", Numbers(DType::kBool, 77)}, {"b", Numbers(DType::kBool, 77, 1)}}, 0,
                      Exact());
}

TEST(Pointwise, CastsBetweenAllTypes) {
  for (const DTypeInfo& from : kDTypes) {
    std::string text = absl::StrFormat("graph @f(%%x: %s[90]) {\n", from.name);
    std::vector<std::string> results;
    for (const DTypeInfo& to : kDTypes) {
      absl::StrAppendFormat(&text, "%%y.%s = cast(%%x), to=%s : %s[90]\n", to.name, to.name,
                            to.name);
      results.push_back(absl::StrFormat("%s=%%y.%s", to.name, to.name));
    }
    ExpectFusionMatches(absl::StrCat(text, "return ", absl::StrJoin(results, ", "), "\n}"),
                        {{"x", Numbers(from.dtype, 90)}}, 0, Exact());
  }
}

// Each view over a shape that vectors divide, and over one that they do not.
TEST(Pointwise, Views) {
  const char* kText = R"(graph @f(%x: f16[4, 6, C], %b: f16[C], %s: f16[]) {
    %t = transpose(%x), perm=[1, 0, 2] : f16[6, 4, C]
    %t2 = transpose(%x), perm=[2, 1, 0] : f16[C, 6, 4]
    %r = reshape(%x) : f16[24, C]
    %r2 = reshape(%t) : f16[2, 12, C]
    %l = slice(%x), starts=[1, 0, 0], limits=[4, 5, C], strides=[2, 3, 1] : f16[2, 2, C]
    %l2 = slice(%x), starts=[0, 0, 1], limits=[4, 6, C], strides=[1, 1, 2] : f16[4, 6, H]
    %p = pad(%x), low=[0, 1, 8], high=[1, 0, 0], interior=[1, 0, 0], value=2.5 : f16[8, 7, P]
    %p2 = pad(%r), low=[0, 1], high=[0, 2], interior=[0, 1] : f16[24, Q]
    %bb = broadcast(%b), dims=[1] : f16[24, C]
    %ss = broadcast(%s), dims=[] : f16[24, C]
    %sum = add(%bb, %ss) : f16[24, C]
    %y = mul(%r, %sum) : f16[24, C]
    %n = neg(%r) : f16[24, C]
    %c = concat(%r, %y, %n), axis=1 : f16[24, T]
    %c2 = concat(%r, %n), axis=0 : f16[48, C]
    return t=%t, t2=%t2, r2=%r2, l=%l, l2=%l2, p=%p, p2=%p2, y=%y, c=%c, c2=%c2
  })";
  for (int c : {16, 5}) {
    const std::string text = absl::StrReplaceAll(kText, {{"C]", absl::StrCat(c, "]")},
                                                         {"[C,", absl::StrCat("[", c, ",")},
                                                         {"H]", absl::StrCat(c / 2, "]")},
                                                         {"P]", absl::StrCat(c + 8, "]")},
                                                         {"Q]", absl::StrCat(2 * c + 2, "]")},
                                                         {"T]", absl::StrCat(3 * c, "]")}});
    ExpectFusionMatches(text, {}, 0, Exact());
  }
}

TEST(Pointwise, AnyNumberOfElements) {
  for (int n : {0, 1, 3, 7, 8, 9, 127, 1023, 4097}) {
    ExpectFusionMatches(absl::StrReplaceAll(R"(graph @f(%x: f16[N], %w: f32[N]) {
                          %x32 = cast(%x), to=f32 : f32[N]
                          %y = mul(%x32, %w) : f32[N]
                          %ok = all_finite(%y) : bool[]
                          return y=%y, x32=%x32, ok=%ok
                        })",
                                            {{"[N]", absl::StrCat("[", n, "]")}}),
                        {}, 0, Exact());
  }
}

TEST(Pointwise, ResultsOfSeveralShapes) {
  ExpectFusionMatches(R"(graph @f(%a: f32[100, 8], %b: f16[37], %s: f32[]) {
    %a2 = add(%a, %a) : f32[100, 8]
    %flat = reshape(%a2) : f32[800]
    %b2 = mul(%b, %b) : f16[37]
    %t = neg(%s) : f32[]
    %none = constant() : f32[0, 4]
    return a2=%a2, flat=%flat, b2=%b2, t=%t, none=%none
  })",
                      {}, 0, Exact());
}

TEST(Pointwise, ConstantsAndIndices) {
  ExpectFusionMatches(R"(graph @f(%x: f32[3, 5]) {
    %k = constant(), value=[1.0, -2.5, 3.0, inf, nan] : f32[5]
    %kb = broadcast(%k), dims=[1] : f32[3, 5]
    %y = mul(%x, %kb) : f32[3, 5]
    %i = iota(), axis=1 : f16[3, 5]
    %j = iota(), axis=0 : i64[3, 5]
    %n = constant(), value=-9223372036854775808 : i64[3, 5]
    %m = add(%n, %j) : i64[3, 5]
    %e = constant(), value=-inf : bf16[3, 5]
    return y=%y, i=%i, m=%m, e=%e
  })",
                      {}, 0, Exact());
}

TEST(Pointwise, ReductionsOfEverything) {
  for (int n : {0, 1, 2, 1000, 70001}) {
    for (const char* dtype : {"f32", "f16", "f64"}) {
      const std::string text = absl::StrReplaceAll(
          R"(graph @f(%x: T[N]) {
        %y = add(%x, %x) : T[N]
        %sum = reduce_sum(%y), axes=[0] : T[]
        %mean = reduce_mean(%y), axes=[0], keep_dims=true : T[1]
        %max = reduce_max(%y), axes=[0] : T[]
        %min = reduce_min(%y), axes=[0] : T[]
        %finite = all_finite(%sum) : bool[]
        return y=%y, sum=%sum, mean=%mean, max=%max, min=%min, finite=%finite
      })",
          {{"N]", absl::StrCat(n, "]")}, {"T[", absl::StrCat(dtype, "[")}});
      ExpectFusionMatches(text, {}, std::string(dtype) == "f16" ? 0.03 : 1e-4,
                          {.family = "pointwise"});
    }
  }
  ExpectFusionMatches(R"(graph @f(%x: i32[3000]) {
    %sum = reduce_sum(%x), axes=[0] : i32[]
    %max = reduce_max(%x), axes=[0] : i32[]
    return sum=%sum, max=%max
  })",
                      {{"x", Numbers(DType::kI32, 3000)}}, 0, Exact());
}

TEST(Pointwise, AMaximumKeepsNaN) {
  std::vector<double> values(5000, 1.0);
  values[4321] = kNaN;
  ExpectFusionMatches(R"(graph @f(%x: f32[5000]) {
    %max = reduce_max(%x), axes=[0] : f32[]
    %min = reduce_min(%x), axes=[0] : f32[]
    return max=%max, min=%min
  })",
                      {{"x", ir::Array::Of({DType::kF32, {5000}}, values)}}, 0, Exact());
}

// 300 * 300 leaves f16 but not f32: what is stored is infinite, whatever the kernel holds.
TEST(Pointwise, TestsSeeStoredValues) {
  const char* kText = R"(graph @f(%x: f16[1000]) {
    %y = mul(%x, %x) : f16[1000] {origin="autocast:infer"}
    %ok = all_finite(%y) : bool[]
    %inf = constant(), value=inf : f16[1000]
    %is = eq(%y, %inf) : bool[1000]
    return y=%y, ok=%ok, is=%is
  })";
  std::vector<double> values(1000, 2.0);
  ExpectFusionMatches(kText, {{"x", ir::Array::Of({DType::kF16, {1000}}, values)}}, 0,
                      {.family = "pointwise"});
  values[999] = 300;
  ExpectFusionMatches(kText, {{"x", ir::Array::Of({DType::kF16, {1000}}, values)}}, 0,
                      {.family = "pointwise"});
}

// 2049 rounds to 2048 in f16: a sum that stays wider gives 2 in the end, a rounded one 0.
TEST(Pointwise, OnlyTypesOfAutocastStayWide) {
  const auto run = [](const std::string& origin) {
    const FusionModule made = ParseFusion(absl::StrCat(R"(graph @f(%x: f16[8], %one: f16[8]) {
      %a = add(%x, %one) : f16[8] )",
                                                       origin, R"(
      %b = sub(%a, %x) : f16[8]
      return b=%b
    })"),
                                          "pointwise");
    const std::vector<ir::Array> operands = {ir::Array::Of({DType::kF16, {8}}, {2048}),
                                             ir::Array::Of({DType::kF16, {8}}, {1})};
    absl::StatusOr<FusionRun> result = RunFusion(*made.fusion, operands);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->results[0].Get(3) : kNaN;
  };
  EXPECT_EQ(run(""), 0);
  EXPECT_EQ(run("{origin=\"autocast:infer\"}"), 1);
}

TEST(Pointwise, ApproximationsVanishInTheRounding) {
  std::string text = "graph @f(%x: f16[600], %g: f16[600]) {\n";
  std::vector<std::string> results;
  int i = 0;
  for (const char* call :
       {"exp(%x)", "tanh(%x)", "sigmoid(%x)", "silu(%x)", "gelu(%x)", "gelu(%x), tanh=true",
        "gelu_grad(%g, %x)", "gelu_grad(%g, %x), tanh=true", "silu_grad(%g, %x)"}) {
    absl::StrAppendFormat(&text, "%%y%d = %s : f16[600] {origin=\"autocast:infer\"}\n", i, call);
    results.push_back(absl::StrFormat("y%d=%%y%d", i, i));
    ++i;
  }
  ExpectFusionMatches(absl::StrCat(text, "return ", absl::StrJoin(results, ", "), "\n}"),
                      {{"x", Numbers(DType::kF16, 600)}, {"g", Numbers(DType::kF16, 600, 5)}},
                      std::ldexp(1.0, -10), {.family = "pointwise"});
}

TEST(Pointwise, RandomNumbersAreThoseOfTheReference) {
  for (const char* shape : {"[64, 8]", "[7, 11]"}) {
    FusionOptions options = Exact();
    options.random = {.seed = 0x123456789abcdef, .step = 77, .micro_batch = 3};
    ExpectFusionMatches(absl::StrReplaceAll(R"(graph @f(%x: f16[S]) {
      %d, %mask = dropout(%x), rate=0.3 : f16[S], bool[S] {id=81985529216486895}
      %u = random_uniform(), low=-1, high=3 : f32[S]
      return d=%d, mask=%mask, u=%u
    })",
                                            {{"[S]", shape}}),
                        {}, 0, options);
    ExpectFusionMatches(absl::StrReplaceAll(R"(graph @f() {
      %n = random_normal(), mean=1, stddev=2 : f32[S]
      %n64 = random_normal(), stddev=2 : f64[S]
      return n=%n, n64=%n64
    })",
                                            {{"[S]", shape}}),
                        {}, 2e-6, options);
  }
}

TEST(Pointwise, GatherReadsRows) {
  const ir::Array indices = ir::Array::Of({DType::kI32, {3, 2}}, {4, 0, 9, 9, 1, 7});
  for (const char* dim : {"16", "5"}) {
    ExpectFusionMatches(absl::StrReplaceAll(R"(graph @f(%t: f16[10, D], %i: i32[3, 2]) {
      %y = gather(%t, %i) : f16[3, 2, D]
      %s = add(%y, %y) : f16[3, 2, D]
      return y=%y, s=%s
    })",
                                            {{"D]", absl::StrCat(dim, "]")}}),
                        {{"i", indices}}, 0, Exact());
  }
  // Every lane has its own row, and the table is computed.
  ExpectFusionMatches(R"(graph @f(%t: f32[10], %i: i64[6]) {
    %n = neg(%t) : f32[10]
    %y = gather(%n, %i) : f32[6]
    return y=%y
  })",
                      {{"i", ir::Array::Of({DType::kI64, {6}}, {4, 0, 9, 9, 1, 7})}}, 0, Exact());
}

TEST(Pointwise, AnIndexOutOfRangeIsReportedAndGivesZeros) {
  for (double bad : {10.0, -1.0}) {
    const FusionModule made = ParseFusion(R"(graph @f(%t: f32[10, 8], %i: i32[3]) {
      %y = gather(%t, %i) : f32[3, 8] {loc="model.cc:7"}
      return y=%y
    })",
                                          "pointwise");
    const std::vector<ir::Array> operands = {ir::Array::Of({DType::kF32, {10, 8}}, {1}),
                                             ir::Array::Of({DType::kI32, {3}}, {2, bad, 9})};
    absl::StatusOr<FusionRun> run = RunFusion(*made.fusion, operands);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->error.claimed, 1);
    EXPECT_EQ(run->error.value, bad);
    EXPECT_EQ(run->error.limit, 10);
    EXPECT_THAT(run->kernel.labels[static_cast<size_t>(run->error.label - 1)],
                HasSubstr("gather (model.cc:7, node %y)"));
    EXPECT_EQ(run->results[0].Get(7), 1);
    EXPECT_EQ(run->results[0].Get(8), 0);
    EXPECT_EQ(run->results[0].Get(16), 1);
  }
}

TEST(Pointwise, ScalarsOfAStep) {
  const char* kText = R"(graph @f(%scale: f32[], %tracker: i32[], %f1: bool[], %f2: bool[],
                                  %step: i64[]) {
    %ok = and(%f1, %f2) : bool[]
    %next, %count = update_loss_scale(%scale, %tracker, %ok), growth_interval=3 : f32[], i32[]
    %lr = learning_rate(%step), schedule="cosine", base=0.1, warmup_steps=10, total_steps=100 : f32[]
    %lin = learning_rate(%step), schedule="linear", base=0.1, final=0.01, total_steps=100 : f32[]
    %con = learning_rate(%step), base=0.1, warmup_steps=20 : f32[]
    %one = constant(), value=1 : i64[]
    %step1 = add(%step, %one) : i64[]
    %kept = select(%ok, %step1, %step) : i64[]
    return next=%next, count=%count, lr=%lr, lin=%lin, con=%con, kept=%kept
  })";
  const auto number = [](DType dtype, double value) { return ir::Array::Of({dtype, {}}, {value}); };
  for (double tracker : {0.0, 2.0}) {
    for (double f2 : {0.0, 1.0}) {
      for (double step : {3.0, 15.0, 60.0, 200.0}) {
        ExpectFusionMatches(kText,
                            {{"scale", number(DType::kF32, 65536)},
                             {"tracker", number(DType::kI32, tracker)},
                             {"f1", number(DType::kBool, 1)},
                             {"f2", number(DType::kBool, f2)},
                             {"step", number(DType::kI64, step)}},
                            0, Exact());
      }
    }
  }
}

TEST(Pointwise, AFalseGuardLeavesEverythingAlone) {
  const FusionModule made = ParseFusion(R"(graph @f(%x: f32[40], %y: f32[40]) {
    %s = add(%x, %y) : f32[40]
    return s=%s
  })",
                                        "pointwise");
  const std::vector<ir::Array> operands = {ir::Array::Of({DType::kF32, {40}}, {1}),
                                           ir::Array::Of({DType::kF32, {40}}, {2})};
  for (bool guard : {false, true}) {
    absl::StatusOr<FusionRun> run =
        RunFusion(*made.fusion, operands, {.guard = guard, .in_place = {{0, 0}}});
    ASSERT_TRUE(run.ok()) << run.status();
    for (int i = 0; i < 40; ++i) EXPECT_EQ(run->results[0].Get(i), guard ? 3 : 1);
    // The sum is written over %x, so neither pointer may be __restrict__.
    EXPECT_THAT(run->kernel.source, HasSubstr("const float* in0"));
    EXPECT_THAT(run->kernel.source, HasSubstr("float* out0"));
    EXPECT_THAT(run->kernel.source, HasSubstr("const float* __restrict__ in1"));
  }
}

TEST(Pointwise, SchedulesGiveTheSameBits) {
  const char* kText = R"(graph @f(%x: i32[3001], %b: f32[3001]) {
    %x32 = cast(%x), to=f32 : f32[3001]
    %y = mul(%x32, %b) : f32[3001]
    %z = exp(%y) : f32[3001]
    return y=%y, z=%z
  })";
  for (const char* schedule : {"v4 u1 t128", "v4 u4 t256", "v4 u2 t512", "v4 u1 t512"}) {
    FusionOptions options = Exact();
    options.schedules = {absl::StrCat("*=", schedule)};
    ExpectFusionMatches(kText, {}, 0, options);
  }
  const char* kSum = R"(graph @f(%x: f32[200000]) {
    %y = reduce_sum(%x), axes=[0] : f32[]
    return y=%y
  })";
  const FusionModule made = ParseFusion(kSum, "pointwise");
  std::vector<double> values;
  for (int i = 0; i < 200000; ++i) values.push_back(std::sin(i));
  const ir::Array x = ir::Array::Of({DType::kF32, {200000}}, values);
  std::vector<double> sums;
  for (const char* schedule : {"v4 u1 t256", "v4 u3 t256", "v4 u8 t256"}) {
    absl::StatusOr<FusionRun> run =
        RunFusion(*made.fusion, x, {.schedules = {absl::StrCat("*=", schedule)}});
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->kernel.schedule, schedule);
    sums.push_back(run->results[0].Get(0));
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

// The source of the kernel of a graph.
GeneratedKernel Generate(std::string_view text) {
  const FusionModule made = ParseFusion(text, "pointwise");
  CodegenOptions options{.target = *FindGpuTarget("sm_80")};
  absl::StatusOr<GeneratedKernel> kernel = GenerateKernel(*made.fusion, {}, options);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *std::move(kernel) : GeneratedKernel();
}

TEST(Pointwise, VectorsSurviveViews) {
  const GeneratedKernel kernel = Generate(R"(graph @f(%x: f16[16, 128, 8, 64], %b: f16[512]) {
    %t = transpose(%x), perm=[0, 2, 1, 3] : f16[16, 8, 128, 64]
    %bb = broadcast(%b), dims=[1] : f16[128, 512]
    %r = reshape(%bb) : f16[128, 8, 64]
    %rt = transpose(%r), perm=[1, 0, 2] : f16[8, 128, 64]
    %rb = broadcast(%rt), dims=[1, 2, 3] : f16[16, 8, 128, 64]
    %y = add(%t, %rb) : f16[16, 8, 128, 64]
    return y=%y
  })");
  EXPECT_THAT(kernel.source, HasSubstr("Load<8>(in0 + "));
  EXPECT_THAT(kernel.source, HasSubstr("Load<8>(in1 + "));
  EXPECT_THAT(kernel.source, HasSubstr("Store(out0 + 8 * q, y0)"));
  EXPECT_THAT(kernel.schedules, HasSubstr("\n"));
}

TEST(Pointwise, EqualKernelsHaveEqualSources) {
  const std::string text = R"(graph @f(%x: f16[512]) {
    %d, %m = dropout(%x), rate=0.1 : f16[512], bool[512]
    return d=%d, m=%m
  })";
  const GeneratedKernel a = Generate(text);
  const GeneratedKernel b =
      Generate(absl::StrReplaceAll(text, {{"%x", "%h"}, {"%d", "%other"}, {"%m", "%mask"}}));
  EXPECT_EQ(a.source, b.source);
  EXPECT_NE(a.labels, b.labels);
}

TEST(Pointwise, OneTestOfSeveralValues) {
  const std::string text = R"(graph @f(%a: f32[8], %b: f32[8], %c: f32[3], %t: bool[]) {
    %x = exp(%a) : f32[8]
    %y = exp(%b) : f32[8]
    %z = exp(%c) : f32[3]
    %f = all_finite(%x, %y, %z) : bool[]
    %g = all_finite(%x) : bool[]
    return x=%x, f=%f, g=%g
  })";
  for (const char* input : {"a", "b", "c"}) {
    ir::Array array({DType::kF32, {input[0] == 'c' ? 3 : 8}});
    array.Set(2, 1000);
    ExpectFusionMatches(text, {{input, array}}, 1e-6, {.family = "pointwise"});
  }
  ExpectFusionMatches(R"(graph @f(%f: bool[], %g: bool[]) {
    %h = all_finite(%f, %g) : bool[]
    return h=%h
  })",
                      {}, 0, {.family = "pointwise"});
}

// As two state entries do that a step exchanges.
TEST(Pointwise, ResultsTakeEachOthersOperands) {
  for (const char* schedule : {"*=v1 u1 t128", "*=v4 u1 t128", "*=v4 u4 t128"}) {
    FusionOptions options{.family = "pointwise"};
    options.schedules = {schedule};
    options.in_place = {{0, 1}, {1, 0}};
    ExpectFusionMatches(R"(graph @f(%a: f32[1003], %b: f32[1003]) {
      %x = neg(%b) : f32[1003]
      %y = abs(%a) : f32[1003]
      return x=%x, y=%y
    })",
                        {}, 0, options);
  }
}

TEST(Pointwise, NothingToDoIsOneEmptyBlock) {
  const GeneratedKernel kernel = Generate(R"(graph @f(%x: f32[0]) {
    %y = neg(%x) : f32[0]
    return y=%y
  })");
  EXPECT_EQ(kernel.grid, (std::array<int64_t, 3>{1, 1, 1}));
  EXPECT_THAT(kernel.source, Not(HasSubstr("Store")));
}

TEST(Pointwise, ReductionsInsideAreRefused) {
  const FusionModule made = ParseFusion(R"(graph @f(%x: f32[8]) {
    %s = reduce_sum(%x), axes=[0] : f32[]
    %y = neg(%s) : f32[]
    return y=%y
  })",
                                        "pointwise");
  const CodegenOptions options{.target = *FindGpuTarget("sm_80")};
  const absl::Status status = GenerateKernel(*made.fusion, {}, options).status();
  EXPECT_THAT(status.ToString(), HasSubstr("reduce_sum: has no expression of its own"));
}

}  // namespace
}  // namespace duotone::codegen::cuda
