// Fusions: nodes whose body is a graph. In text, in the verifier, in copies, and under the
// interpreter, where a fusion gives the bits of the nodes it was made of.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/ir/op_testing.h"

namespace duotone::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DType kF32 = DType::kF32;

std::unique_ptr<Module> ParseOk(std::string_view text) {
  absl::StatusOr<std::unique_ptr<Module>> module = Parse(text);
  EXPECT_TRUE(module.ok()) << module.status() << "\n" << text;
  return module.ok() ? *std::move(module) : nullptr;
}

// A dropout with its bias, a second result, named sizes, and two fusions beside each other.
constexpr char kFused[] = R"(module @m {
  param %b: f32[8] = zeros()

  graph @g(%x: f32[N, 8]) {
    %y, %mask = fusion(%x, %b), reason="same index \"i\"" : f32[N, 8], bool[N, 8] {scope="fc", loc="a.cc:7"} body(%x: f32[N, 8], %b: f32[8] {loc="a.cc:2"}) {
      %wide = broadcast(%b), dims=[1] : f32[N, 8]
      %sum = add(%x, %wide) : f32[N, 8] {loc="a.cc:5"}
      %y, %mask = dropout(%sum), rate=0.25 : f32[N, 8], bool[N, 8] {id=7}
      return %y, %mask
    }
    %rows = fusion(%y), family="row" : f32[N] body(%y: f32[N, 8]) {
      %rows = reduce_sum(%y), axes=[1] : f32[N]
      return %rows
    }
    return y=%y, mask=%mask, rows=%rows
  }
}
)";

constexpr char kUnfused[] = R"(
param %b: f32[8]
graph @g(%x: f32[N, 8]) {
  %wide = broadcast(%b), dims=[1] : f32[N, 8]
  %sum = add(%x, %wide) : f32[N, 8]
  %y, %mask = dropout(%sum), rate=0.25 : f32[N, 8], bool[N, 8] {id=7}
  %rows = reduce_sum(%y), axes=[1] : f32[N]
  return y=%y, mask=%mask, rows=%rows
})";

TEST(Fusion, PrintsAsItself) {
  const std::unique_ptr<Module> module = ParseOk(kFused);
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(Print(*module), kFused);
  const Graph& graph = *module->graphs()[0];
  ASSERT_EQ(graph.node_count(), 2u);
  const Node& first = *graph.nodes().front();
  EXPECT_EQ(first.attrs_as<FusionAttrs>().reason, "same index \"i\"");
  ASSERT_NE(first.body(), nullptr);
  EXPECT_EQ(first.body()->module(), nullptr);
  EXPECT_EQ(first.body()->nodes().back()->id(), 7u);
  EXPECT_EQ(first.body()->inputs()[1]->info().loc, "a.cc:2");
}

// A comment ends its line, so that of a fusion stands before the body.
TEST(Fusion, AnnotationsAreReadBackAsComments) {
  const std::unique_ptr<Module> module = ParseOk(kFused);
  const auto annotate = [](const Node& node) { return absl::StrCat("of ", node.name()); };
  const std::string text = Print(*module, {.annotate = annotate});
  EXPECT_THAT(text, HasSubstr("body(%y: f32[N, 8]) {  // of rows\n"));
  EXPECT_THAT(text, HasSubstr("reduce_sum(%y), axes=[1] : f32[N]  // of rows\n"));
  EXPECT_EQ(Print(*ParseOk(text)), kFused);
}

TEST(Fusion, PrintNodeHasTheBodyOnLinesOfItsOwn) {
  const std::unique_ptr<Module> module = ParseOk(kFused);
  EXPECT_EQ(PrintNode(*module->graphs()[0]->nodes().back()),
            "%rows = fusion(%y), family=\"row\" : f32[N] body(%y: f32[N, 8]) {\n"
            "  %rows = reduce_sum(%y), axes=[1] : f32[N]\n"
            "  return %rows\n"
            "}");
}

struct Broken {
  const char* text;
  const char* place;
  const char* sentence;
};

const Broken kBroken[] = {
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] return }", "1:28", "fusion: it needs a body"},
    {"graph @g(%x: f32[]) { %y = neg(%x) : f32[] body(%a: f32[]) { return %a } return }", "1:44",
     "neg: only a fusion has a body"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body { return } return }", "1:52",
     "expected '(' after body, found '{'"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[]) return }", "1:63",
     "expected '{' after the inputs, found 'return'"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[]) { } return }", "1:65",
     "the body has no return"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[]) { return %a", "1:74",
     "expected '}' after return, found the end of the text"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[]) { 1 } return }", "1:65",
     "expected a node or return, found '1'"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[]) { return } return }", "1:28",
     "fusion: its body returns nothing"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body() { return %x } return }", "1:63",
     "%x is not defined"},
    {"graph @g(%x: f32[]) { %y = fusion() : f32[] body(%a: f32[]) { return %a } return }", "1:28",
     "fusion: 0 operands, but its body has 1 inputs"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[4]) { return %a } return }",
     "1:28", "fusion: operand 0 is f32[], but input %a of its body is f32[4]"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f16[] body(%a: f32[]) { return %a } return }", "1:41",
     "fusion: the result is f32[], but f16[] is declared"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[]) { return %a, %a } return }",
     "1:23", "fusion: 2 results, but 1 name given"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[], %a: f32[]) { return %a } "
     "return }",
     "1:63", "input %a: the name is taken"},
    // What a body cannot hold.
    {"param %w: f32[]\ngraph @g() { %y = fusion() : f32[] body() { return %w } return }", "2:52",
     "%w is a state entry; a body reads only its inputs"},
    {"param %w: f32[]\ngraph @g() { %y = fusion(%w) : f32[] body(%w: f32[]) {\n"
     " update %w = %w return %w } return }",
     "3:2", "a body updates no state"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[]) {\n"
     " %b = fusion(%a) : f32[] body(%c: f32[]) { return %c } return %b } return }",
     "2:7", "fusion: a body holds no other one"},
    // Names after and inside bodies.
    {"graph @g(%x: f32[]) {\n %y = fusion(%z) : f32[] body(%a: f32[]) { return %a }\n"
     " %z = neg(%x) : f32[] return }",
     "2:14", "%z is used before its definition in line 3"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[]) {\n %b = neg(%c) : f32[]\n"
     " %c = neg(%a) : f32[] return %b } return }",
     "2:11", "%c is used before its definition in line 3"},
    {"graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[]) {\n %b = neg(%a) : f32[]\n"
     " return %b }\n %z = neg(%b) : f32[] return }",
     "4:11", "%b is not defined"},
    // The verifier's.
    {"graph @g(%x: f32[]) {\n %y = fusion(%x), family=\"fast\" : f32[] body(%a: f32[]) { return %a "
     "} return }",
     "2:2", "[22] fusion: the family 'fast' is none of pointwise, row, column, matmul"},
    {"graph @g() { %y = fusion() : f32[4] body() {\n %a = random_normal() : f32[4] {id=1}\n"
     " %b = random_normal() : f32[4] {id=1}\n %c = add(%a, %b) : f32[4] return %c } return }",
     "3:2", "[10] %b and %a have the same id 1"},
};

TEST(Fusion, BrokenTextsGiveASentenceWithItsPlace) {
  for (const Broken& broken : kBroken) {
    const absl::Status status = Parse(broken.text, "t.duo").status();
    EXPECT_FALSE(status.ok()) << broken.text;
    const std::string message(status.message());
    EXPECT_THAT(message, ::testing::StartsWith(absl::StrCat("t.duo:", broken.place, ": ")))
        << broken.text;
    EXPECT_THAT(message.substr(0, message.find('\n')), HasSubstr(broken.sentence)) << broken.text;
  }
}

// Bodies count towards the limit of nodes.
TEST(Fusion, TheLimitOfNodesHoldsInBodies) {
  const ParseLimits limits = {.max_nodes = 2};
  const absl::Status status =
      Parse(
          "graph @g(%x: f32[]) { %y = fusion(%x) : f32[] body(%a: f32[]) {\n"
          " %b = neg(%a) : f32[]\n %c = neg(%b) : f32[] return %c } return }",
          "t.duo", limits)
          .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("t.duo:3:2: more than 2 nodes"));
}

// A body made by hand: (a + a, bool[] flag), in the namespace of the body.
std::shared_ptr<Graph> DoublingBody(const Type& type) {
  auto body = std::make_shared<Graph>(nullptr, "body");
  const Value a = *body->AddInput("a", type);
  Node* sum = *body->Add({.op = Op::kAdd, .operands = {a, a}, .names = {"sum"}});
  Node* flag = *body->Add({.op = Op::kAllFinite, .operands = {sum->result()}, .names = {"flag"}});
  body->outputs().push_back({"sum", sum->result()});
  body->outputs().push_back({"flag", flag->result()});
  return body;
}

struct ByHand {
  explicit ByHand(std::shared_ptr<Graph> body) : module("m") {
    graph = *module.AddGraph("g");
    const Value x = *graph->AddInput("x", Type{kF32, {4}});
    absl::StatusOr<Node*> added =
        graph->Add({.op = Op::kFusion, .operands = {x}, .names = {"y"}, .body = std::move(body)});
    status = added.status();
    node = added.ok() ? *added : nullptr;
  }
  std::vector<std::string> Violations() const {
    std::vector<std::string> texts;
    for (const Violation& violation : FindViolations(module)) texts.push_back(violation.ToString());
    return texts;
  }
  Module module;
  Graph* graph;
  Node* node;
  absl::Status status;
};

TEST(Fusion, TypesAndNamesFollowTheBody) {
  const ByHand made(DoublingBody(Type{kF32, {4}}));
  ASSERT_TRUE(made.status.ok()) << made.status;
  ASSERT_EQ(made.node->result_count(), 2);
  EXPECT_EQ(made.node->type(0), (Type{kF32, {4}}));
  EXPECT_EQ(made.node->type(1), (Type{DType::kBool, {}}));
  EXPECT_EQ(made.node->name(1), "y.1");
  EXPECT_THAT(made.Violations(), ::testing::IsEmpty());
}

TEST(Fusion, OnlyAFusionHasABody) {
  ByHand made(DoublingBody(Type{kF32, {4}}));
  const absl::Status status = made.graph
                                  ->Add({.op = Op::kNeg,
                                         .operands = {made.graph->inputs()[0]->result()},
                                         .body = made.node->shared_body()})
                                  .status();
  EXPECT_EQ(status.message(), "neg: only a fusion has a body (node %neg)");
}

TEST(Fusion, TheVerifierComparesOperandsWithTheBody) {
  ByHand made(DoublingBody(Type{kF32, {4}}));
  made.graph->SetInputType(made.graph->inputs()[0], Type{DType::kF16, {4}});
  EXPECT_THAT(made.Violations(),
              ElementsAre("[20] fusion: the operand %x is f16[4], but the input %a of its body is "
                          "f32[4] (graph @g, node %y)"));
}

// A body is immutable once it is one; these change it behind its back.
TEST(Fusion, TheVerifierComparesResultsWithTheBody) {
  const std::shared_ptr<Graph> body = DoublingBody(Type{kF32, {4}});
  const ByHand made(body);
  std::swap(body->outputs()[0], body->outputs()[1]);
  EXPECT_THAT(
      made.Violations(),
      ElementsAre(
          "[20] fusion: the result %y is f32[4], but its body returns bool[] (graph @g, node %y)",
          "[20] fusion: the result %y.1 is bool[], but its body returns f32[4] (graph @g, node "
          "%y)"));
  body->outputs().pop_back();
  EXPECT_THAT(made.Violations(),
              ElementsAre("[20] fusion: 2 results, but its body returns 1 (graph @g, node %y)"));
}

TEST(Fusion, TheVerifierLooksIntoBodies) {
  const std::shared_ptr<Graph> body = DoublingBody(Type{kF32, {4}});
  const ByHand made(body);
  body->MoveBefore(body->nodes().back().get(), body->nodes().front().get());
  EXPECT_THAT(made.Violations(),
              ::testing::Contains("[5] all_finite reads %sum, which is defined only later (graph "
                                  "@g, body of %y, node %flag)"));
}

TEST(Fusion, TheVerifierFindsStateInBodies) {
  const std::shared_ptr<Graph> body = DoublingBody(Type{kF32, {4}});
  const ByHand made(body);
  const StateEntry entry{.name = "w", .type = Type{kF32, {4}}};
  body->updates().push_back({&entry, body->ReadState(&entry)});
  EXPECT_THAT(made.Violations(),
              ElementsAre("[21] a body reads the state entry %w (graph @g, body of %y, node %w)",
                          "[21] a body updates state (graph @g, body of %y)"));
}

TEST(Fusion, TheVerifierFindsFusionsInBodies) {
  const auto outer = std::make_shared<Graph>(nullptr, "body");
  const Value b = *outer->AddInput("b", Type{kF32, {4}});
  Node* inner = *outer->Add({.op = Op::kFusion,
                             .operands = {b},
                             .names = {"inner"},
                             .body = DoublingBody(Type{kF32, {4}})});
  outer->outputs().push_back({"y", inner->result()});
  EXPECT_THAT(
      ByHand(outer).Violations(),
      ElementsAre("[21] a body holds the fusion %inner (graph @g, body of %y, node %inner)"));
}

TEST(Fusion, CopiesShareTheBody) {
  const std::unique_ptr<Module> module = ParseOk(kFused);
  const std::unique_ptr<Module> copy = module->Clone();
  EXPECT_EQ(Print(*copy), kFused);
  EXPECT_EQ(copy->graphs()[0]->nodes().front()->body(),
            module->graphs()[0]->nodes().front()->body());
}

TEST(Fusion, CloneBodyPrintsTheSame) {
  const std::unique_ptr<Module> module = ParseOk(kFused);
  const Graph& body = *module->graphs()[0]->nodes().front()->body();
  EXPECT_EQ(Print(*CloneBody(body)), Print(body));
}

// The original, which shares the bodies, keeps its named sizes.
TEST(Fusion, SizesAreBoundInACopyOfTheBody) {
  const std::unique_ptr<Module> module = ParseOk(kFused);
  const std::unique_ptr<Module> copy = module->Clone();
  ASSERT_TRUE(BindSizes(*copy->graphs()[0], {{"N", 3}}).ok());
  EXPECT_TRUE(Verify(*copy).ok()) << Verify(*copy);
  const Node& first = *copy->graphs()[0]->nodes().front();
  EXPECT_EQ(first.type(0), (Type{kF32, {3, 8}}));
  EXPECT_EQ(first.body()->nodes().front()->type(), (Type{kF32, {3, 8}}));
  EXPECT_EQ(first.body()->nodes().back()->id(), 7u);
  EXPECT_EQ(Print(*module), kFused);
}

TEST(Fusion, ASizeThatIsNotBoundIsAnErrorOfTheBodysNode) {
  const auto module = ParseOk(
      "graph @g() { %y = fusion() : f32[B] body() { %c = constant(), value=1.0 : f32[B] return %c "
      "} return %y }");
  EXPECT_THAT(std::string(BindSizes(*module->graphs()[0], {}).message()),
              HasSubstr("constant (node %c)"));
}

ArrayMap Inputs(int64_t rows) {
  Array x(Type{kF32, {rows, 8}});
  for (int64_t i = 0; i < x.elements(); ++i) x.Set(i, 0.37 * static_cast<double>(i) - 5);
  return {{"x", std::move(x)}};
}

// The dropout in the body keeps its id, and so its random numbers.
TEST(Fusion, GivesTheBitsOfTheNodesItWasMadeOf) {
  const ArrayMap state = {{"b", Vec(kF32, {1, 2, 3, 4, 5, 6, 7, 8})}};
  const RandomKey key{.seed = 11, .step = 3};
  std::vector<InterpreterResult> results;
  for (const char* text : {kFused, kUnfused}) {
    const std::unique_ptr<Module> module = ParseOk(text);
    ASSERT_TRUE(BindSizes(*module->graphs()[0], {{"N", 5}}).ok());
    absl::StatusOr<InterpreterResult> result =
        Interpret(*module->graphs()[0], Inputs(5), state, key);
    ASSERT_TRUE(result.ok()) << result.status();
    results.push_back(*std::move(result));
  }
  for (const char* output : {"y", "mask", "rows"}) {
    EXPECT_TRUE(results[0].outputs[output].BitEqual(results[1].outputs[output])) << output;
  }
  // The mask is not constant, so a wrong key would have shown.
  const std::vector<double> mask = Values(results[0].outputs["mask"]);
  EXPECT_THAT(mask, ::testing::AllOf(::testing::Contains(0), ::testing::Contains(1)));
}

TEST(Fusion, AnErrorInTheBodyNamesBothNodes) {
  const auto module = ParseOk(
      "graph @g(%t: f32[2, 2], %i: i32[1]) {\n"
      "  %y = fusion(%t, %i) : f32[1, 2] body(%t: f32[2, 2], %i: i32[1]) {\n"
      "    %row = gather(%t, %i) : f32[1, 2] return %row }\n  return %y }");
  const absl::Status status =
      Interpret(*module->graphs()[0],
                {{"t", Tensor(kF32, {2, 2}, {1, 2, 3, 4})}, {"i", Vec(DType::kI32, {9})}}, {})
          .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("(node %y)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("(node %row)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the index 9 is outside [0, 2)"));
}

}  // namespace
}  // namespace duotone::ir
