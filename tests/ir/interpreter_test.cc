// Whole graphs under the interpreter: updates read old state, guards hold them back, errors name
// their place.
#include "ir/interpreter.h"

#include "base/hash.h"
#include "base/philox.h"
#include "ir/text.h"
#include "tests/ir/op_testing.h"

namespace duotone::ir {
namespace {

std::unique_ptr<Module> ParseOrDie(std::string_view text) {
  absl::StatusOr<std::unique_ptr<Module>> module = Parse(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return *std::move(module);
}

TEST(Interpreter, UpdatesReadTheOldState) {
  const auto module = ParseOrDie(R"(
    module @m {
      state %a: f32[1] = zeros()
      state %b: f32[1] = zeros()
      graph @swap() {
        update %a = %b
        update %b = %a
        return old=%a
      }
    })");
  const ArrayMap state = {{"a", Vec(DType::kF32, {1})}, {"b", Vec(DType::kF32, {2})}};
  absl::StatusOr<InterpreterResult> result = Interpret(*module->FindGraph("swap"), {}, state);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->state["a"].Get(0), 2);
  EXPECT_EQ(result->state["b"].Get(0), 1);
  EXPECT_EQ(result->outputs["old"].Get(0), 1);
}

TEST(Interpreter, AGuardHoldsAnUpdateBack) {
  const auto module = ParseOrDie(R"(
    module @m {
      state %guarded: f32[] = zeros()
      state %free: f32[] = zeros()
      graph @step(%x: f32[], %ok: bool[]) {
        update %guarded = %x guard=%ok
        update %free = %x
        return x=%x
      }
    })");
  const ArrayMap state = {{"guarded", Tensor(DType::kF32, {}, {1})},
                          {"free", Tensor(DType::kF32, {}, {1})}};
  for (double ok : {0.0, 1.0}) {
    const ArrayMap inputs = {{"x", Tensor(DType::kF32, {}, {7})},
                             {"ok", Tensor(DType::kBool, {}, {ok})}};
    absl::StatusOr<InterpreterResult> result = Interpret(*module->FindGraph("step"), inputs, state);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->state["guarded"].Get(0), ok ? 7 : 1);
    EXPECT_EQ(result->state["free"].Get(0), 7);
    EXPECT_EQ(result->outputs["x"].Get(0), 7);
  }
}

TEST(Interpreter, FeedsMustFitTheirDeclarations) {
  const auto module = ParseOrDie("graph @g(%x: f32[2]) { %y = neg(%x) : f32[2] return %y }");
  const Graph& graph = *module->graphs()[0];
  EXPECT_EQ(Interpret(graph, {}, {}).status().message(), "@g: no array for input %x");
  EXPECT_EQ(Interpret(graph, {{"x", Vec(DType::kF32, {1})}}, {}).status().message(),
            "@g: input %x is declared as f32[2], but its array is f32[1]");
}

TEST(Interpreter, NamedSizesMustBeBound) {
  const auto module = ParseOrDie("graph @g() { %y = constant(), value=1.0 : f32[B] return %y }");
  EXPECT_EQ(Interpret(*module->graphs()[0], {}, {}).status().message(),
            "@g (node %y): constant: the result f32[B] has a named size that is not bound");
}

TEST(Interpreter, AGradientMustBeExpandedFirst) {
  const auto module = ParseOrDie(
      "graph @g(%x: f32[]) { %y = neg(%x) : f32[] %dx = gradient(%y, %x) : f32[] return %dx }");
  const ArrayMap inputs = {{"x", Tensor(DType::kF32, {}, {1})}};
  EXPECT_EQ(Interpret(*module->graphs()[0], inputs, {}).status().message(),
            "@g (node %dx): gradient cannot be evaluated by itself");
}

// A node draws by its id, the hash of its name, so two draws of one graph differ.
TEST(Interpreter, RandomNodesKeyOnTheirNames) {
  const auto module = ParseOrDie(R"(graph @g() {
    %a = random_uniform() : f32[4]
    %b = random_uniform() : f32[4]
    return a=%a, b=%b
  })");
  absl::StatusOr<InterpreterResult> result =
      Interpret(*module->graphs()[0], {}, {}, {.seed = 1, .step = 2, .micro_batch = 3});
  ASSERT_TRUE(result.ok()) << result.status();
  for (const char* name : {"a", "b"}) {
    const RandomWords words = RandomBlock(1, 2, 3, Fnv1a(name), 0);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(result->outputs[name].Get(i), UniformFromBits(words[i])) << name;
    }
  }
}

Array InitialValue(std::string_view kind, std::vector<std::pair<std::string, double>> args,
                   Type type, const Array* source = nullptr) {
  StateEntry entry{.name = "w", .type = std::move(type)};
  entry.init.kind = kind;
  entry.init.args.assign(args.begin(), args.end());
  if (source != nullptr) {
    entry.kind = StateKind::kDerived;
    entry.init.source = "master";
  }
  absl::StatusOr<Array> array = Initialise(entry, /*seed=*/9, source);
  EXPECT_TRUE(array.ok()) << array.status();
  return array.ok() ? *std::move(array) : Array();
}

TEST(Initialise, PlainKinds) {
  const Type type{DType::kF32, {Dim(2)}};
  ExpectValues(InitialValue("zeros", {}, type), {0, 0});
  ExpectValues(InitialValue("ones", {}, type), {1, 1});
  ExpectValues(InitialValue("constant", {{"value", 65536}}, type), {65536, 65536});
}

// kaiming_uniform(fan_in=6): the bound is sqrt(2) * sqrt(3/6) = 1.
TEST(Initialise, RandomKindsDrawWithinTheirBounds) {
  const Type type{DType::kF32, {Dim(1000)}};
  const Array x = InitialValue("kaiming_uniform", {{"fan_in", 6}}, type);
  const RandomWords words = RandomBlock(9, 0, 0, Fnv1a("w"), 0);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(x.Get(i), 2 * UniformFromBits(words[i]) - 1, 1e-6);
  double low = 0;
  double high = 0;
  for (double value : Values(x)) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_NEAR(low, -1, 0.02);
  EXPECT_NEAR(high, 1, 0.02);
}

TEST(Initialise, DerivedStateIsACastOfItsSource) {
  const Array source = Vec(DType::kF32, {0.1});
  const Array copy = InitialValue("cast_of", {}, {DType::kF16, {Dim(1)}}, &source);
  ExpectValues(copy, {0.0999755859375});
}

}  // namespace
}  // namespace duotone::ir
