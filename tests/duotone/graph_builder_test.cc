#include <string>

#include "duotone/duotone.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duotone {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// The message that Build() returns.
std::string ErrorOf(GraphBuilder b) {
  absl::StatusOr<Model> model = std::move(b).Build();
  return model.ok() ? "" : std::string(model.status().message());
}

// The text without the braces, which hold line numbers.
std::string TextOf(GraphBuilder b) {
  absl::StatusOr<Model> model = std::move(b).Build();
  EXPECT_TRUE(model.ok()) << model.status();
  std::string text = model.ok() ? model->Text() : "";
  for (size_t brace = text.find(" {loc="); brace != text.npos; brace = text.find(" {loc=")) {
    text.erase(brace, text.find('}', brace) + 1 - brace);
  }
  return text;
}

TEST(GraphBuilder, BuildsTheExampleOfTheReadme) {
  GraphBuilder b("mlp");
  Value x = b.Input("x", F32({"B", 784})), y = b.Input("y", I32({"B"}));
  Value h = Relu(Linear(x, b.Param("w1", F32({784, 512}), KaimingUniform()),
                        b.Param("b1", F32({512}), Zeros())));
  Value logits =
      Linear(h, b.Param("w2", F32({512, 10}), KaimingUniform()), b.Param("b2", F32({10}), Zeros()));
  b.Output("loss", CrossEntropy(logits, y));
  b.Output("logits", logits);
  absl::StatusOr<Model> model = std::move(b).Build();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name(), "mlp");
  EXPECT_EQ(model->inputs()[0].type.ToString(), "f32[B, 784]");
  EXPECT_EQ(model->outputs()[1].type.ToString(), "f32[B, 10]");
  // The order of the entries is that in which the C++ compiler evaluates arguments.
  EXPECT_EQ(model->params().size(), 4u);
  EXPECT_THAT(model->Text(), HasSubstr("param %w1: f32[784, 512] = kaiming_uniform(fan_in=784)"));
}

TEST(GraphBuilder, AnErrorNamesFileAndLineOfTheCall) {
  GraphBuilder b("mlp");
  Value x = b.Input("x", F32({"B", 127}));
  Value w = b.Param("w", F32({128, 10}), Zeros());
  const int line = __LINE__ + 1;
  b.Output("y", MatMul(x, w));
  EXPECT_EQ(ErrorOf(std::move(b)),
            "graph_builder_test.cc:" + std::to_string(line) +
                ": matmul: inner sizes differ, 127 and 128, in f32[B, 127] and "
                "f32[128, 10]");
}

TEST(GraphBuilder, AnOperatorNamesItsLineToo) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({3})), y = b.Input("y", F32({4}));
  const int line = __LINE__ + 1;
  Value z = x * 2.0f + y;
  b.Output("z", z);
  EXPECT_EQ(ErrorOf(std::move(b)), "graph_builder_test.cc:" + std::to_string(line) +
                                       ": add: shapes [3] and [4] do not broadcast: 3 meets 4");
}

TEST(GraphBuilder, TheFirstErrorIsKept) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({3}));
  Value bad = ReduceSum(x, {1});
  EXPECT_EQ(bad.rank(), 0);
  b.Output("y", Reshape(bad, {7}));
  b.Output("y", MatMul(bad, bad));
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("reduce_sum: axis 1 is outside [-1, 1)"));
}

TEST(GraphBuilder, ValuesOfTwoBuildersDoNotMix) {
  GraphBuilder a("first"), b("second");
  Value sum = a.Input("x", F32({3})) + b.Input("x", F32({3}));
  a.Output("y", sum);
  const std::string sentence = "add: the operands belong to two builders, 'first' and 'second'";
  EXPECT_THAT(ErrorOf(std::move(a)), HasSubstr(sentence));
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr(sentence));
}

TEST(GraphBuilder, AnEmptyValueIsAnError) {
  GraphBuilder b("m");
  b.Output("y", b.Input("x", F32({3})) + Value());
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("add: an operand is a default-constructed Value"));
  EXPECT_EQ(Relu(Value()).rank(), 0);
}

TEST(GraphBuilder, NothingCanBeAddedAfterBuild) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({3}));
  b.Output("y", Neg(x));
  ASSERT_TRUE(std::move(b).Build().ok());
  EXPECT_EQ(Neg(x).rank(), 0);
  b.Output("z", x);
  EXPECT_THAT(std::string(b.status().message()), HasSubstr("has been built already"));
}

TEST(GraphBuilder, BroadcastsAreNodes) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({"B", 3})), row = b.Input("row", F32({3}));
  Value column = b.Input("column", F32({"B", 1}));
  b.Output("y", x + row);
  b.Output("z", column * row);
  const std::string text = TextOf(std::move(b));
  EXPECT_THAT(text, HasSubstr("%broadcast = broadcast(%row), dims=[1] : f32[B, 3]"));
  EXPECT_THAT(text, HasSubstr("%add = add(%x, %broadcast) : f32[B, 3]"));
  EXPECT_THAT(text, HasSubstr("broadcast(%column), dims=[0, 1] : f32[B, 3]"));
}

TEST(GraphBuilder, EqualShapesNeedNoBroadcast) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({"B", 3}));
  b.Output("y", x + x);
  EXPECT_THAT(TextOf(std::move(b)), Not(HasSubstr("broadcast")));
}

TEST(GraphBuilder, MixedFloatsAreCastToTheWider) {
  GraphBuilder b("m");
  Value f32 = b.Input("f32", F32({3}));
  Value f16 = b.Input("f16", {DType::kF16, {3}}), bf16 = b.Input("bf16", {DType::kBF16, {3}});
  EXPECT_EQ((f32 + f16).dtype(), DType::kF32);
  EXPECT_EQ((f16 + bf16).dtype(), DType::kF32);
  EXPECT_EQ((f16 * 2).dtype(), DType::kF16);
  EXPECT_TRUE(b.status().ok()) << b.status();
}

TEST(GraphBuilder, IntegersAndFloatsDoNotMix) {
  GraphBuilder b("m");
  b.Output("y", b.Input("i", I32({3})) + b.Input("x", F32({3})));
  EXPECT_THAT(ErrorOf(std::move(b)),
              HasSubstr("add: operands are i32 and f32, which do not mix: cast one of them"));
}

TEST(GraphBuilder, NumbersTakeTheTypeTheyMeet) {
  GraphBuilder b("m");
  Value x = b.Input("x", {DType::kF16, {"B", 3}}), i = b.Input("i", I64({3}));
  b.Output("y", 1 - x);
  b.Output("z", i * 2);
  const std::string text = TextOf(std::move(b));
  EXPECT_THAT(text, HasSubstr("%constant = constant(), value=1.0 : f16[B, 3]"));
  EXPECT_THAT(text, HasSubstr("%sub = sub(%constant, %x) : f16[B, 3]"));
  EXPECT_THAT(text, HasSubstr("value=2 : i64[3]"));
}

TEST(GraphBuilder, ANumberThatOverflowsIsAnError) {
  GraphBuilder b("m");
  b.Output("y", b.Input("x", {DType::kF16, {3}}) - 1e9);
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("sub: the number 1e+09 does not fit f16"));
}

TEST(GraphBuilder, ConstantsAreCheckedElementByElement) {
  GraphBuilder b("m");
  b.Output("y", b.Constant(I32({2}), {1, 3e9}));
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("constant: the number 3e+09 does not fit i32"));
}

TEST(GraphBuilder, AFractionDoesNotMeetAnInteger) {
  GraphBuilder b("m");
  b.Output("y", b.Input("i", I32({3})) * 0.5);
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("mul: the number 0.5 meets i32: cast one of them"));
}

TEST(GraphBuilder, ScopesGiveParamsTheirNamesAndNodesTheirPath) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({4}));
  {
    Scope encoder(b, "encoder/0");
    Scope attention(b, "attn");
    x = x * b.Param("w", F32({4}), Ones());
  }
  b.Output("y", Neg(x));
  absl::StatusOr<Model> model = std::move(b).Build();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->params()[0].name, "encoder.0.attn.w");
  EXPECT_THAT(model->Text(), HasSubstr("mul(%x, %encoder.0.attn.w) : f32[4] "
                                       "{scope=\"encoder/0/attn\", loc=\"graph_builder_test.cc:"));
  EXPECT_THAT(model->Text(), HasSubstr("neg(%mul) : f32[4] {loc="));
}

TEST(GraphBuilder, TheInnermostPrecisionRegionCounts) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({4}));
  {
    Autocast off(b, AutocastRegion::kOff);
    x = Neg(x);
    Autocast bf16(b, AutocastRegion::kBF16);
    x = Exp(x);
  }
  b.Output("y", Abs(x));
  const std::string text = std::move(b).Build()->Text();
  EXPECT_THAT(text, HasSubstr("region=off")) << text;
  EXPECT_THAT(text, HasSubstr("region=bf16")) << text;
  const std::string last = text.substr(text.find("= abs("));
  EXPECT_THAT(last, Not(HasSubstr("region")));
}

TEST(GraphBuilder, LinearMergesLeadingAxesIntoOneProduct) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({"B", "T", 8}));
  b.Output("y", Linear(x, b.Param("w", F32({8, 5}), KaimingUniform()),
                       b.Param("bias", F32({5}), Zeros())));
  const std::string text = TextOf(std::move(b));
  EXPECT_THAT(text, HasSubstr("matmul(%reshape, %w) : f32[B*T, 5]"));
  EXPECT_THAT(text, HasSubstr(": f32[B, T, 5]"));
}

TEST(GraphBuilder, InitialisersTakeTheirFansFromTheShape) {
  GraphBuilder b("m");
  b.Output("y", ReduceSum(b.Param("w", F32({3, 4, 5}), XavierUniform())));
  // The product of all but the last axis: 3 * 4.
  EXPECT_THAT(TextOf(std::move(b)), HasSubstr("= xavier_uniform(fan_in=12, fan_out=5)"));
}

TEST(GraphBuilder, GoodNamesOnly) {
  GraphBuilder b("m");
  b.Input("my input", F32({3}));
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("input my input: a name has letters"));
}

TEST(GraphBuilder, ANameIsUsedOnce) {
  GraphBuilder b("m");
  b.Input("x", F32({3}));
  b.Param("x", F32({3}), Zeros());
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("%x"));
}

TEST(GraphBuilder, SizesAreChecked) {
  for (const char* bad : {"-1", "B+1", "", "99999999999999999999", "2**B"}) {
    GraphBuilder b("m");
    b.Output("y", Neg(b.Input("x", F32({bad}))));
    EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("size")) << bad;
  }
}

TEST(GraphBuilder, StateNeedsNumbers) {
  GraphBuilder b("m");
  b.Param("w", F32({"B"}), Zeros());
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("has a named size; state needs numbers"));
}

TEST(GraphBuilder, AModelNeedsAnOutput) {
  EXPECT_EQ(ErrorOf(GraphBuilder("m")), "module @m: the graph has no output");
}

TEST(GraphBuilder, NamedValuesKeepTheirName) {
  GraphBuilder b("m");
  Value h = Named(Relu(b.Input("x", F32({3}))), "hidden");
  EXPECT_EQ(h.name(), "hidden");
  b.Output("y", h);
  EXPECT_THAT(TextOf(std::move(b)), HasSubstr("%hidden = relu(%x) : f32[3]\n"));
}

TEST(GraphBuilder, ATakenNameIsQuotedAsItIs) {
  GraphBuilder b("m");
  b.Output("y", Named(Relu(b.Input("x", F32({3}))), "x"));
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("the name %x is taken"));
}

TEST(GraphBuilder, AnUpdateSetsTheNextStateOfAState) {
  GraphBuilder b("m");
  Value count = b.State("count", F32({}), Zeros());
  b.Update(count, count + 1);
  b.Output("y", count);
  EXPECT_THAT(TextOf(std::move(b)), HasSubstr("update %count = %add"));
}

TEST(GraphBuilder, OnlyStatesAreUpdated) {
  GraphBuilder b("m");
  Value w = b.Param("w", F32({}), Zeros());
  b.Update(w, w + 1);
  EXPECT_THAT(ErrorOf(std::move(b)), HasSubstr("update: %w was not made by GraphBuilder::State"));
}

TEST(GraphBuilder, AMovedFromBuilderDoesNotCrash) {
  GraphBuilder b("m");
  Value s = b.State("s", F32({}), Zeros());
  GraphBuilder moved = std::move(b);
  b.Update(s, s);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(b.Input("x", F32({})).rank(), 0);
  EXPECT_EQ(std::string(b.status().message()), "the builder was moved from");
}

TEST(Model, ReadsWhatItPrints) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({"B", 8}));
  Value p = Softmax(Gelu(x, GeluKind::kTanh));
  b.Output("y", ReduceMean(Select(p < 0.25, p, 0.0), {1}));
  const std::string text = std::move(b).Build()->Text();
  absl::StatusOr<Model> again = ParseModel(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->Text(), text);
}

TEST(Model, BadTextIsASentence) {
  EXPECT_THAT(std::string(ParseModel("module @m {", "m.duo").status().message()),
              HasSubstr("m.duo"));
  EXPECT_THAT(std::string(LoadModel("/nonexistent.duo").status().message()),
              HasSubstr("/nonexistent.duo"));
}

}  // namespace
}  // namespace duotone
