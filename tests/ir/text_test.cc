// The text form: what prints reads back as itself, and every broken text gives a sentence with its
// place.
#include "ir/text.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/lexer.h"

namespace duotone::ir {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Module> ParseOk(std::string_view text) {
  absl::StatusOr<std::unique_ptr<Module>> module = Parse(text);
  EXPECT_TRUE(module.ok()) << module.status() << "\n" << text;
  return module.ok() ? *std::move(module) : nullptr;
}

std::string ErrorOf(std::string_view text) {
  const absl::Status status = Parse(text, "t.duo").status();
  EXPECT_FALSE(status.ok()) << text;
  return std::string(status.message());
}

// The graph that holds `line` between inputs of many types.
std::string WithLine(std::string_view line) {
  return absl::StrCat(
      "module @m {\n"
      "  graph @g(%x: f32[4, 8], %h: f16[4, 8], %v: f32[8], %i: i32[4], %s: f32[], %b: bool[], %n: "
      "i32[], %step: i64[]) {\n    ",
      std::string(line), "\n    return\n  }\n}\n");
}

// One line per attribute field at least, every field unlike its default, every dtype as a type.
const char* const kLines[] = {
    "%y = cast(%x), to=f64 : f64[4, 8]",
    "%y = cast(%x), to=f16 : f16[4, 8]",
    "%y = cast(%x), to=bf16 : bf16[4, 8]",
    "%y = cast(%x), to=i64 : i64[4, 8]",
    "%y = cast(%x), to=i32 : i32[4, 8]",
    "%y = cast(%x), to=u8 : u8[4, 8]",
    "%y = cast(%x), to=bool : bool[4, 8]",
    "%y = constant(), value=0.1 : f32[]",
    "%y = constant() : f32[2]",
    "%y = constant(), value=-0.0 : f32[2]",
    "%y = constant(), value=[1.0, inf, -inf, nan, 1e-05, 1e+20] : f64[6]",
    "%y = constant(), value=[1, -2] : i32[2]",
    "%y = constant(), value=-9223372036854775808 : i64[]",
    "%y = constant(), value=[true, false] : bool[2]",
    "%y = constant(), value=[] : f32[0]",
    "%y = constant(), value=[] : i64[3, 0]",
    "%y = iota(), axis=1 : i32[2, 3]",
    "%y = size_of(), size=6 : i64[]",
    "%y = reshape(%x) : f32[2, 16]",
    "%y = transpose(%x), perm=[1, 0] : f32[8, 4]",
    "%y = broadcast(%v), dims=[1] : f32[4, 8]",
    "%y = slice(%x), starts=[0, 1], limits=[4, 7], strides=[1, 2] : f32[4, 3]",
    "%y = pad(%x), low=[1, 0], high=[0, 2], interior=[0, 1], value=-inf : f32[5, 17]",
    "%y = concat(%x, %x), axis=1 : f32[4, 16]",
    "%y = softmax(%h), axis=1, out=f32 : f32[4, 8]",
    "%y = reduce_sum(%h), axes=[0, 1], keep_dims=true, out=f32 : f32[1, 1]",
    "%y = matmul(%h, %h), transpose_a=true, out=f32 : f32[8, 8]",
    "%y = matmul(%x, %x), transpose_b=true : f32[4, 4]",
    "%y, %mean, %rstd = layer_norm(%x, %v, %v), eps=0.001 : f32[4, 8], f32[4], f32[4]",
    "%y = clamp(%x), min=-1.0, max=6.5 : f32[4, 8]",
    "%y = gelu(%x), tanh=true : f32[4, 8]",
    "%y, %lse = cross_entropy(%x, %i), label_smoothing=0.1, ignore_index=-1 : f32[], f32[4]",
    "%y, %mask = dropout(%x), rate=0.25 : f32[4, 8], bool[4, 8]",
    "%y = random_uniform(), low=-1.0, high=2.0 : f32[4]",
    "%y = random_normal(), mean=1.0, stddev=0.02 : f32[4]",
    "%w1, %buf = sgd_update(%v, %v, %s, %v), momentum=0.9, nesterov=true, weight_decay=0.01 : "
    "f32[8], f32[8]",
    "%w1, %m1, %v1 = adam_update(%v, %v, %v, %v, %step, %s), beta1=0.8, beta2=0.99, eps=1e-06, "
    "weight_decay=0.01 : f32[8], f32[8], f32[8]",
    "%s1, %n1 = update_loss_scale(%s, %n, %b), growth_factor=4.0, backoff_factor=0.25, "
    "growth_interval=100, min_scale=1.0, max_scale=65536.0 : f32[], i32[]",
    "%rate = learning_rate(%step), schedule=\"cosine\", base=0.1, final=0.01, warmup_steps=10, "
    "total_steps=100 : f32[]",
    "%gx, %gv = gradient(%s, %x, %v) : f32[4, 8], f32[8]",
    "%y = fusion(%x), family=\"row\", reason=\"each reads a row\" : f32[4, 8] {scope=\"fc1\"} "
    "body(%a: f32[4, 8]) {\n      %n = softmax(%a), axis=1 : f32[4, 8] {loc=\"a.cc:7\"}\n"
    "      return %n\n    }",
    "%y = relu(%x) : f32[4, 8] {scope=\"encoder/0\", loc=\"a.cc:7\", forward=\"x\", "
    "origin=\"autocast:allow\", region=bf16, id=18446744073709551615}",
    "%y = relu(%x) : f32[4, 8] {region=off}",
    "%y = relu(%x) : f32[4, 8] {region=f16}",
    "%y.1 = relu(%x) : f32[4, 8]",
    "%\"0/y z\" = relu(%x) : f32[4, 8]",
};

TEST(Text, EveryLinePrintsAsItself) {
  for (const char* line : kLines) {
    const std::string text = WithLine(line);
    const std::unique_ptr<Module> module = ParseOk(text);
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(Print(*module), text);
  }
}

// The attribute fields of all ops: `axes=` and so on. Every one must occur in an example or in a
// line above.
TEST(Text, EveryAttributeFieldIsAmongTheTestedLines) {
  std::string tested;
  for (const char* line : kLines) tested += line;
  for (const OpDef& def : AllOps()) tested += def.example;
  for (const OpDef& def : AllOps()) {
    ForEachField(DefaultAttrs(def.attrs), [&](std::string_view field, const auto& value) {
      using T = std::decay_t<decltype(value)>;
      if constexpr (!std::is_same_v<T, ResultType> && !std::is_same_v<T, ResultShape>) {
        const std::string printed = absl::StrCat(", ", std::string(field), "=");
        EXPECT_NE(tested.find(printed), std::string::npos) << def.name << printed;
      }
    });
  }
}

// An example is one line: "graph @example(%x: f32[4]) { %y = neg(%x) : f32[4] return %y }".
TEST(Text, EveryExampleOfTheOpTablePrintsAsItself) {
  for (const OpDef& def : AllOps()) {
    if (def.lower == Lower::kSource) continue;
    const std::unique_ptr<Module> module = ParseOk(def.example);
    ASSERT_NE(module, nullptr) << def.name;
    EXPECT_TRUE(Verify(*module).ok()) << def.name;
    const std::string printed = Print(*module->graphs()[0]);
    // The print has line breaks, and names each output: `return y=%y`; that of a body does not.
    std::string one_line =
        absl::StrReplaceAll(printed, {{"\n    ", " "}, {"\n  ", " "}, {"\n", " "}});
    one_line.pop_back();
    std::string expected(def.example);
    const size_t at = expected.rfind(" return %");
    if (at != std::string::npos) {
      const std::string name =
          expected.substr(at + 9, expected.find_first_of(" ,", at + 9) - at - 9);
      expected.replace(at, 9 + name.size(), absl::StrCat(" return ", name, "=%", name));
    }
    EXPECT_EQ(one_line, expected) << def.name;
  }
}

// State kinds, initialisers, guards, several graphs, quoted output names, inputs with fields, named
// sizes and products.
TEST(Text, AModulePrintsAsItself) {
  constexpr char kText[] = R"(module @all {
  param %w: f32[8, 4] = kaiming_uniform(fan_in=8) {loc="a.cc:1"}
  param %b: f32[4] = uniform(bound=0.0357)
  param %g: f32[4] = ones()
  param %e: f32[4] = normal(mean=0.5, stddev=0.02)
  param %f: f32[4] = xavier_uniform(fan_in=4, fan_out=2, gain=2)
  state %scale: f32[] = constant(value=65536)
  state %tracker: i32[] = zeros()
  derived %w16: f16[8, 4] = cast_of(%w)

  graph @step(%x: f16[B, 2*T, 8] {scope="in", loc="a.cc:2", id=5}, %ok: bool[]) {
    %y = matmul(%x, %w16) : f16[B, 2*T, 4]
    %flat = reshape(%y) : f16[8*B*T]
    update %scale = %scale guard=%ok
    update %tracker = %tracker
    return y=%y, "grad:w"=%flat
  }

  graph @"no identifier"() {
    return
  }
}
)";
  const std::unique_ptr<Module> module = ParseOk(kText);
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(Print(*module), kText);
  EXPECT_EQ(Print(*module->Clone()), kText);

  const StateEntry* w = module->FindState("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->loc, "a.cc:1");
  EXPECT_EQ(w->init.args.size(), 1u);
  EXPECT_EQ(module->FindState("w16")->init.source, "w");
  const Graph* step = module->FindGraph("step");
  ASSERT_EQ(step->updates().size(), 2u);
  EXPECT_EQ(step->updates()[0].guard.name(), "ok");
  EXPECT_FALSE(step->updates()[1].guard);
  EXPECT_EQ(step->outputs()[1].name, "grad:w");
  EXPECT_EQ(step->inputs()[0]->id(), 5u);
}

// Blanks, comments, bare graphs and state, `return %y`, sizes in any order, defaults written out.
TEST(Text, ReadsMoreThanItPrints) {
  const std::unique_ptr<Module> module = ParseOk(
      "// a comment\nparam %w:f32[ 4 ]=constant( value = 1 )// another\n"
      "graph @g(%x: f32[T*2*B*3]){%y=softmax(%w),axis=-1:f32[4] return%y}");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(Print(*module), R"(module @module {
  param %w: f32[4] = constant(value=1)

  graph @g(%x: f32[6*B*T]) {
    %y = softmax(%w), axis=0 : f32[4]
    return y=%y
  }
}
)");
}

// Any byte survives in a string; valid UTF-8 stays readable.
TEST(Text, StringsKeepEveryByte) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  for (const std::string& value : {bytes, std::string("größe \"\\/"), std::string("\xe2\x82")}) {
    Module module("m");
    Graph* graph = *module.AddGraph("g");
    const Value x = *graph->AddInput("x", Type{}, value);
    graph->outputs().push_back({value, x});
    const std::unique_ptr<Module> again = ParseOk(Print(module));
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->graphs()[0]->inputs()[0]->info().loc, value);
    EXPECT_EQ(again->graphs()[0]->outputs()[0].name, value);
  }
  EXPECT_EQ(Quote("größe"), "\"größe\"");
  EXPECT_EQ(Quote("\xff\n\x7f"), "\"\\xff\\n\\x7f\"");
}

// The shortest decimal that reads back as the same bits, in every binade.
TEST(Text, FloatsKeepEveryBit) {
  for (int exponent = -1074; exponent < 1024; exponent += 7) {
    for (double mantissa : {1.0, 1.1, 1.0 + std::numeric_limits<double>::epsilon()}) {
      const double value = std::ldexp(mantissa, exponent);
      const std::unique_ptr<Module> module = ParseOk(WithLine(
          absl::StrFormat("%%y = clamp(%%x), min=-%.17g, max=%.17g : f32[4, 8]", value, value)));
      ASSERT_NE(module, nullptr);
      const std::unique_ptr<Module> again = ParseOk(Print(*module));
      ASSERT_NE(again, nullptr);
      const auto& attrs = again->graphs()[0]->nodes().front()->attrs_as<ClampAttrs>();
      EXPECT_EQ(attrs.min, -value);
      EXPECT_EQ(attrs.max, value);
    }
  }
}

// An id that is not the name's hash prints, so that a renamed random node keeps its numbers.
TEST(Text, ARenamedNodeKeepsItsId) {
  const std::unique_ptr<Module> module =
      ParseOk("graph @g() { %old = random_normal() : f32[4] return %old }");
  Graph& graph = *module->graphs()[0];
  Node& node = *graph.nodes().front();
  const uint64_t id = node.id();
  ASSERT_TRUE(graph.Rename(node.result(), "new").ok());
  EXPECT_EQ(PrintNode(node), absl::StrCat("%new = random_normal() : f32[4] {id=", id, "}"));
  EXPECT_EQ(ParseOk(Print(*module))->graphs()[0]->nodes().front()->id(), id);
}

TEST(Text, AnnotationsAreCommentsOnOneLine) {
  const std::unique_ptr<Module> module =
      ParseOk(WithLine("%y = relu(%x) : f32[4, 8] {loc=\"a.cc:1\"}"));
  const Node& node = *module->graphs()[0]->nodes().front();
  const auto annotate = [](const Node& n) { return absl::StrCat("cost of\n", n.name()); };
  EXPECT_EQ(PrintNode(node, {.annotate = annotate}),
            "%y = relu(%x) : f32[4, 8] {loc=\"a.cc:1\"}  // cost of y");
  const std::unique_ptr<Module> again = ParseOk(Print(*module, {.annotate = annotate}));
  EXPECT_EQ(Print(*again), Print(*module));
}

TEST(Text, AttributesCanBeLeftOut) {
  const std::unique_ptr<Module> module = ParseOk(
      "param %w: f32[] = zeros() {loc=\"a.cc:1\"}"
      "graph @g(%x: f32[] {loc=\"a.cc:2\"}) { %y = relu(%x) : f32[] {loc=\"a.cc:3\"} return %y }");
  const std::string text = Print(*module, {.attributes = false});
  EXPECT_EQ(text.find("a.cc"), std::string::npos) << text;
  EXPECT_NE(ParseOk(text), nullptr);
}

struct Broken {
  const char* text;
  const char* place;     // line:column
  const char* sentence;  // a part of it
};

const Broken kBroken[] = {
    // The file.
    {"", "1:1", "expected a module or a graph, found the end of the text"},
    {"\n\n// nothing\n", "3:11", "expected a module or a graph, found the end of the text"},
    {"grph @g() { return }", "1:1", "expected param, state, derived or graph, found 'grph'"},
    {"module @m { graph @g() { return } ", "1:35", "expected param, state, derived or graph"},
    {"module @m { } x", "1:15", "expected the end of the text after the module, found 'x'"},
    {"graph @g() { return }\n\xff", "2:1", "byte 0xff is not part of valid UTF-8"},
    {"graph @g() { return }\n // \xc0\x80", "2:5", "byte 0xc0 is not part of valid UTF-8"},
    {"graph @g(%x: f32[]) {\n  %é = relu(%x) : f32[] return }", "2:3", "'%' needs a name"},
    {"graph @g() { return ; }", "1:21", "';' has no meaning here"},
    // Structure.
    {"graph @g(%x: f32[])\n  return }", "2:3", "expected '{' after the inputs, found 'return'"},
    {"graph @g(%x: f32[] %y: f32[]) { return }", "1:20",
     "expected ',' or ')' in the list of inputs"},
    {"graph @g(%x: f32[]) { %y = relu(%x) : f32[]\n}", "2:1", "graph @g has no return"},
    {"graph @g(%x: f32[]) { %y = relu(%x) : f32[]", "1:44", "expected a node, an update or return"},
    {"graph @g(%x: f32[]) { %y = relu(%x) return }", "1:37",
     "expected ':' and the type of each result"},
    {"graph @g() { return }\ngraph @g() { return }", "2:7", "graph @g: the name is taken"},
    {"graph @g(%x: f32[] {loc=\"a\nb\"}) { return }", "1:25",
     "the string is not closed on its line"},
    {"graph @g(%x: f32[] {loc=\"\\q\"}) { return }", "1:26", "an escape is one of"},
    {"graph @g(%x: f32[] {lok=\"\"}) { return }", "1:21", "did you mean 'loc'?"},
    {"graph @g(%x: f32[] {loc=\"\", loc=\"\"}) { return }", "1:29", "'loc' is given twice"},
    {"graph @g(%x: f32[] {id=-1}) { return }", "1:24",
     "an id is a number from 0 to 2^64-1, not -1"},
    {"graph @g(%x: f32[] {region=on}) { return }", "1:28", "expected a region: off, f16 or bf16"},
    // Names.
    {"graph @g(%x: f32[], %x: f32[]) { return }", "1:21", "input %x: the name is taken"},
    {"graph @g(%x: f32[]) {\n  %x = relu(%x) : f32[] return }", "2:8", "the name %x is taken"},
    {"param %w: f32[]\ngraph @g(%x: f32[]) {\n %w = relu(%x) : f32[] return }", "3:7",
     "the name %w is taken"},
    {"param %w: f32[]\nstate %w: f32[]", "2:7", "state %w: the name is taken"},
    {"graph @g(%logits: f32[]) { %y = relu(%logit) : f32[] return }", "1:38",
     "%logit is not defined; did you mean 'logits'?"},
    {"graph @g(%x: f32[]) {\n  %a = relu(%b) : f32[]\n  %b = relu(%a) : f32[]\n  return }", "2:13",
     "%b is used before its definition in line 3"},
    {"graph @g() { %a = relu(%a) : f32[] return }", "1:24",
     "%a is used before its definition in line 1"},
    {"graph @g(%x: f32[]) { update %x = %x return }", "1:30", "update: %x is no state entry"},
    // Ops, attributes, dtypes.
    {"graph @g(%x: f32[2, 2]) { %y = matmull(%x, %x) : f32[2, 2] return }", "1:32",
     "unknown op 'matmull'; did you mean 'matmul'?"},
    {"graph @g() { %y = state() : f32[] return }", "1:19", "state is no op of a line"},
    {"graph @g(%x: f32[2]) { %y = relu(%x), axis=0 : f32[2] return }", "1:39",
     "relu has no attribute 'axis'"},
    {"graph @g(%x: f32[2]) { %y = softmax(%x), axes=0 : f32[2] return }", "1:42",
     "softmax has no attribute 'axes'; did you mean 'axis'?"},
    {"graph @g(%x: f32[2]) { %y = softmax(%x), axis=0, axis=0 : f32[2] return }", "1:50",
     "softmax: 'axis' is given twice"},
    {"graph @g(%x: f32[2]) { %y = softmax(%x), axis=1.5 : f32[2] return }", "1:47",
     "expected an integer, found '1.5'"},
    {"graph @g(%x: f32[2]) { %y = softmax(%x), axis=9223372036854775808 : f32[2] return }", "1:47",
     "the integer 9223372036854775808 does not fit in 64 bits"},
    {"graph @g(%x: f32[2]) { %y = clamp(%x), min=1e999 : f32[2] return }", "1:44",
     "the number 1e999 does not fit in an f64"},
    {"graph @g(%x: f32[2]) { %y = clamp(%x), min=1.2.3 : f32[2] return }", "1:44",
     "'1.2.3' is no number"},
    {"graph @g(%x: f32[2]) { %y = clamp(%x), min=\"a\" : f32[2] return }", "1:44",
     "expected a number, found the string \"a\""},
    {"graph @g(%x: f32[2]) { %y = gelu(%x), tanh=1 : f32[2] return }", "1:44",
     "expected true or false, found '1'"},
    {"graph @g() { %y = constant(), value=[1, 2.5] : f32[2] return }", "1:37",
     "a literal holds integers or floating-point numbers"},
    {"graph @g(%x: float32[2]) { return }", "1:14", "unknown dtype 'float32'; there are f64, f32"},
    {"graph @g(%x: boole[2]) { return }", "1:14", "did you mean 'bool'?"},
    {"graph @g(%x: f32) { return }", "1:17",
     "expected '[' and the sizes after the dtype, found ')'"},
    // Sizes.
    {"graph @g(%x: f32[-1]) { return }", "1:18", "a size is from 0 to 2^56, not -1"},
    {"graph @g(%x: f32[99999999999999999999]) { return }", "1:18",
     "a size is from 0 to 2^56, not 999"},
    {"graph @g(%x: f32[72057594037927937]) { return }", "1:18", "a size is from 0 to 2^56"},
    {"graph @g(%x: f32[4294967296*B*4294967296]) { return }", "1:31", "the size is above 2^56"},
    {"graph @g(%x: f32[4294967296, 4294967296]) { return }", "1:17", "has more than 2^56 elements"},
    {"graph @g(%x: f32[1.5]) { return }", "1:18", "expected a size: a number or a name, like B"},
    {"graph @g(%x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]) { return }", "1:50",
     "more than 16 axes"},
    {"param %w: f32[B]", "1:7", "the type f32[B] has a named size; state needs numbers"},
    // Results.
    {"graph @g(%x: f32[8, 2], %y: f32[2, 4]) {\n  %z = matmul(%x, %y) : f32[8, 5]\n  return }",
     "2:25", "matmul: the result is f32[8, 4], but f32[8, 5] is declared"},
    {"graph @g(%x: f32[2]) { %y = relu(%x) : f16[2] return }", "1:40",
     "relu: the result is f32[2], but f16[2] is declared"},
    {"graph @g(%x: f32[4, 2], %i: i32[4]) { %l, %e = cross_entropy(%x, %i) : f32[], f32[2] return "
     "}",
     "1:79", "cross_entropy: the result %e is f32[4], but f32[2] is declared"},
    {"graph @g(%x: f32[4, 2], %i: i32[4]) { %l = cross_entropy(%x, %i) : f32[] return }", "1:39",
     "cross_entropy: 2 results, but 1 name given"},
    {"graph @g(%x: f32[2]) { %y, %z = relu(%x) : f32[2], f32[2] return }", "1:33",
     "relu: 2 names, but 1 result"},
    {"graph @g(%x: f32[2]) { %y = relu(%x) : f32[2], f32[2] return }", "1:48",
     "relu: 1 name, but 2 types declared"},
    {"graph @g(%x: f32[2, 3]) {\n  %y = matmul(%x, %x) : f32[2, 2]\n  return }", "2:8", "matmul: "},
    {"graph @g(%x: f32[2]) { %y = add(%x) : f32[2] return }", "1:29",
     "add: takes 2 operands, not 1"},
    // Initialisers.
    {"param %w: f32[2] = kaiming(fan_in=2)", "1:7",
     "unknown initialiser 'kaiming'; did you mean 'kaiming_uniform'?"},
    {"param %w: f32[2] = kaiming_uniform()", "1:7", "kaiming_uniform needs fan_in"},
    {"param %w: f32[2] = uniform(bund=1)", "1:7",
     "uniform has no argument 'bund'; did you mean 'bound'?"},
    {"param %w: f32[2] = uniform(bound=1, bound=2)", "1:7", "'bound' is given twice"},
    {"param %w: f32[2] = normal(stddev=-1)", "1:7",
     "stddev is -1; it must be finite and at least 0"},
    {"param %w: f32[2] = constant(value=inf)", "1:7", "value is inf; it must be finite"},
    {"state %n: i32[] = constant(value=0.5)", "1:7", "value is 0.5, which is no i32"},
    {"state %n: i32[] = normal()", "1:7", "normal gives floating-point numbers, the type is i32[]"},
    {"derived %d: f16[2] = cast_of(%w)", "1:9", "there is no state entry %w above"},
    {"derived %d: f16[2] = zeros()", "1:9", "derived state needs cast_of, not zeros"},
    {"param %w: f32[2]\nparam %d: f16[2] = cast_of(%w)", "2:7",
     "cast_of is for derived state only"},
    {"param %w: f32[2]\nderived %d: f16[3] = cast_of(%w)", "2:9", "no cast makes f16[3] from %w"},
};

TEST(Text, BrokenTextsGiveASentenceWithItsPlace) {
  for (const Broken& broken : kBroken) {
    const std::string message = ErrorOf(broken.text);
    EXPECT_THAT(message, ::testing::StartsWith(absl::StrCat("t.duo:", broken.place, ": ")))
        << broken.text;
    EXPECT_THAT(message.substr(0, message.find('\n')), HasSubstr(broken.sentence)) << broken.text;
  }
}

// Tabs and multi-byte characters each take one column, and indentation is left out.
TEST(Text, AnErrorShowsTheLineAndACaret) {
  EXPECT_EQ(
      ErrorOf("graph @g(%x: f32[2]) {\n\t%y = relu(%x) : f32[2] {scope=\"größe\", lok=\"\"}\n}\n"),
      "t.duo:2:41: unknown field 'lok' in braces; did you mean 'loc'?\n"
      "  %y = relu(%x) : f32[2] {scope=\"größe\", lok=\"\"}\n"
      "                                         ^");
}

TEST(Text, ANulByteIsAnError) {
  const std::string text("graph @g() {\n  return \0 }", 24);
  EXPECT_THAT(ErrorOf(text), ::testing::StartsWith("t.duo:2:10: a NUL byte"));
}

// A long line shows only the part around the place.
TEST(Text, ErrorsStayReadableOnHugeTokens) {
  const std::string name(50000, 'n');
  const std::string message =
      ErrorOf(absl::StrCat("graph @g(%x: f32[]) { %y = ", name, "(%x) : f32[] return }"));
  EXPECT_THAT(message, HasSubstr("unknown op 'nnn"));
  EXPECT_LT(message.size(), 600u);
  EXPECT_THAT(ErrorOf(std::string(1 << 17, 'g')), HasSubstr("a word of 131072 bytes"));
}

TEST(Text, LimitsAreErrors) {
  ParseLimits limits;
  limits.max_bytes = 10;
  EXPECT_THAT(std::string(Parse("graph @g() { return }", "t.duo", limits).status().message()),
              HasSubstr("t.duo: 21 bytes; a graph's text may have 10"));
  limits = {.max_nodes = 1};
  EXPECT_THAT(
      std::string(
          Parse("graph @g(%x: f32[]) { %y = relu(%x) : f32[]\n %z = relu(%x) : f32[] return }",
                "t.duo", limits)
              .status()
              .message()),
      HasSubstr("t.duo:2:2: more than 1 nodes"));
  limits = {.max_literal_elements = 2};
  EXPECT_THAT(std::string(Parse("graph @g() { %y = constant(), value=[1, 2, 3] : i32[3] return }",
                                "t.duo", limits)
                              .status()
                              .message()),
              HasSubstr("t.duo:1:44: a literal of more than 2 elements"));
}

// Deep nesting has nothing to nest in: brackets beyond the grammar are an error at once.
TEST(Text, NestedBracketsAreAnError) {
  EXPECT_THAT(ErrorOf(absl::StrCat("graph @g(%x: f32[", std::string(1 << 20, '['))),
              HasSubstr("t.duo:1:18: expected a size"));
}

}  // namespace
}  // namespace duotone::ir
