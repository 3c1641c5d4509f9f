#include "codegen/cpu/lower.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/codegen/run_program.h"

namespace duotone::codegen::cpu {
namespace {

using runtime::BufferKind;
using runtime::Copy;
using runtime::Fill;
using runtime::HostCall;
using runtime::MatMul;
using runtime::Program;
using runtime::Step;
using ::testing::HasSubstr;

const ir::Graph& OnlyGraph(const ir::Module& module) { return *module.graphs().front(); }

Program MustLower(const ir::Graph& graph, LowerOptions options = {}) {
  absl::StatusOr<Program> program = Lower(graph, options);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

template <typename Action>
int Count(const Program& program) {
  return static_cast<int>(
      std::count_if(program.steps.begin(), program.steps.end(),
                    [](const Step& step) { return std::holds_alternative<Action>(step.action); }));
}

// The step that calls `op`, which must be there.
const Step& CallOf(const Program& program, std::string_view op) {
  for (const Step& step : program.steps) {
    const auto* call = std::get_if<HostCall>(&step.action);
    if (call != nullptr && call->op == op) return step;
  }
  ADD_FAILURE() << "no call of " << op << " in\n" << program.ToString();
  return program.steps.front();
}

bool WritesState(const Program& program, const Step& step) {
  const int result = std::get<HostCall>(step.action).results[0];
  return program.buffers[result].kind == BufferKind::kState;
}

// Three runs on 1, 2, 3 and 8 threads give the interpreter's bits.
void ExpectReference(std::string_view text) {
  std::unique_ptr<ir::Module> module = ParseOrDie(text);
  const ir::Graph& graph = OnlyGraph(*module);
  for (int threads : {1, 2, 3, 8}) {
    ir::ArrayMap state = RandomState(*module, 1);
    CpuSession session(*module, state, threads, {.use_library = false});
    for (uint64_t run = 0; run < 3; ++run) {
      const ir::ArrayMap inputs = RandomInputs(graph, run);
      ir::RandomKey key{.seed = 9, .step = 0};
      if (auto it = state.find("rng_position"); it != state.end()) {
        key.step = static_cast<int64_t>(it->second.Get(0));
      }
      auto expected = ir::Interpret(graph, inputs, state, key);
      ASSERT_TRUE(expected.ok()) << expected.status();
      auto actual = session.Run(graph, inputs, {.seed = 9});
      ASSERT_TRUE(actual.ok()) << actual.status();
      EXPECT_EQ(Difference(*actual, *expected), "") << threads << " threads, run " << run << "\n"
                                                    << (*session.Load(graph))->program().ToString();
      state = std::move(expected->state);
    }
  }
}

TEST(Lower, AgreesWithTheReferenceOnForwardGraphs) {
  ExpectReference(R"(
graph @g(%x: f32[37, 20], %y: f32[37, 20]) {
  %a = mul(%x, %y) : f32[37, 20]
  %b = tanh(%a) : f32[37, 20]
  %c = transpose(%b), perm=[1, 0] : f32[20, 37]
  %d = cast(%c), to=f16 : f16[20, 37]
  %e = reshape(%d) : f16[740]
  %n = neg(%e) : f16[740]
  %s = stop_gradient(%n) : f16[740]
  return a=%a, e=%e, s=%s, x=%x
})");
}

TEST(Lower, AgreesWithTheReferenceOnEmptyTensors) {
  ExpectReference(R"(
graph @g(%x: f32[0, 4], %y: f32[3, 4]) {
  %a = neg(%x) : f32[0, 4]
  %b = concat(%a, %y), axis=0 : f32[3, 4]
  %c = reshape(%a) : f32[4, 0]
  return a=%a, b=%b, c=%c, x=%x
})");
}

TEST(Lower, SwapsStateThroughATemporary) {
  const std::string_view text = R"(
module @m {
  state %a: f32[4] = zeros()
  state %b: f32[4] = zeros()
  graph @swap() {
    update %a = %b
    update %b = %a
    return old=%a
  }
})";
  ExpectReference(text);
  std::unique_ptr<ir::Module> module = ParseOrDie(text);
  // One for the output, three to swap.
  EXPECT_EQ(Count<Copy>(MustLower(OnlyGraph(*module))), 4);
}

TEST(Lower, RotatesStateWithOneTemporary) {
  const std::string_view text = R"(
module @m {
  state %a: f32[4] = zeros()
  state %b: f32[4] = zeros()
  state %c: f32[4] = zeros()
  state %last: f32[4] = zeros()
  graph @rotate() {
    update %a = %b
    update %b = %c
    update %c = %a
    update %last = %a
    return
  }
})";
  ExpectReference(text);
  std::unique_ptr<ir::Module> module = ParseOrDie(text);
  EXPECT_EQ(Count<Copy>(MustLower(OnlyGraph(*module))), 5);
}

TEST(Lower, StateThatGuardsAnotherUpdateKeepsItsOldValueUntilThen) {
  ExpectReference(R"(
module @m {
  state %flag: bool[] = zeros()
  state %other: bool[] = zeros()
  state %w: f32[4] = zeros()
  graph @g(%x: f32[4], %f: bool[]) {
    %y = neg(%x) : f32[4]
    %g = not(%f) : bool[]
    update %flag = %g guard=%other
    update %other = %flag guard=%flag
    update %w = %y guard=%flag
    return
  }
})");
}

constexpr std::string_view kGuarded = R"(
module @m {
  param %w: f32[4] = zeros()
  state %count: i64[] = zeros()
  graph @g(%x: f32[4], %ok: bool[]) {
    %next = add(%w, %x) : f32[4]
    %one = constant(), value=1 : i64[]
    %count.next = add(%count, %one) : i64[]
    update %w = %next guard=%ok
    update %count = %count.next
    return
  }
})";

TEST(Lower, WritesStateInPlaceUnderItsGuard) {
  ExpectReference(kGuarded);
  std::unique_ptr<ir::Module> module = ParseOrDie(kGuarded);
  const Program program = MustLower(OnlyGraph(*module));
  EXPECT_EQ(Count<Copy>(program), 0) << program.ToString();
  const Step& step = CallOf(program, "add");
  EXPECT_TRUE(WritesState(program, step));
  EXPECT_EQ(step.guard, program.FindInput("ok"));
}

TEST(Lower, SkippedUpdatesLeaveEveryBit) {
  std::unique_ptr<ir::Module> module = ParseOrDie(kGuarded);
  const ir::Graph& graph = OnlyGraph(*module);
  const ir::ArrayMap state = RandomState(*module, 1);
  ir::ArrayMap inputs = RandomInputs(graph, 2);
  inputs["x"].Set(0, NAN);
  inputs["ok"].Set(0, 0);
  CpuSession session(*module, state, 2);
  auto result = session.Run(graph, inputs);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->state["w"].BitEqual(state.find("w")->second));
  EXPECT_EQ(result->state["count"].Get(0), state.find("count")->second.Get(0) + 1);
}

// What stands between a result and its place in the state entry it updates.
TEST(Lower, CopiesUpdatesAtTheEndWhereItMust) {
  for (
      std::string_view body : {
          // The old value is read later.
          "%n = add(%w, %x) : f32[4]  %m = mul(%w, %x) : f32[4]  update %w = %n  return m=%m",
          // The node itself reads the old value, and not element by element.
          "%n = transpose(%w2), perm=[1, 0] : f32[2, 2]  update %w2 = %n  return n=%x",
          // The new value is an output too.
          "%n = add(%w, %x) : f32[4]  update %w = %n  return n=%n",
          // Under a guard, the new value is used beside the update.
          "%n = add(%w, %x) : f32[4]  %m = neg(%n) : f32[4]  update %w = %n guard=%ok  return m=%m",
          // The guard is known only after the node.
          "%n = add(%w, %x) : f32[4]  %g = not(%ok) : bool[]  update %w = %n guard=%g  return x=%x",
          // Two entries get the value under different guards.
          "%n = add(%w, %x) : f32[4]  update %w = %n guard=%ok  update %v = %n  return x=%x",
          // The new value is no node's result.
          "update %w = %x guard=%ok  return x=%x",
      }) {
    const std::string text = absl::StrFormat(R"(
module @m {
  state %%w: f32[4] = zeros()
  state %%v: f32[4] = zeros()
  state %%w2: f32[2, 2] = zeros()
  graph @g(%%x: f32[4], %%ok: bool[]) {
    %s
  }
})",
                                             body);
    ExpectReference(text);
    std::unique_ptr<ir::Module> module = ParseOrDie(text);
    const Program program = MustLower(OnlyGraph(*module));
    const bool copies_to_state =
        std::any_of(program.steps.begin(), program.steps.end(), [&](const Step& step) {
          const auto* copy = std::get_if<Copy>(&step.action);
          return copy != nullptr && program.buffers[copy->to].kind == BufferKind::kState;
        });
    EXPECT_TRUE(copies_to_state) << body << "\n" << program.ToString();
  }
}

// A moving copy follows its parameter under the same guard; both are written in place.
TEST(Lower, NodesBehindAGuardedUpdateMayRunOnStaleData) {
  const std::string_view text = R"(
module @m {
  param %w: f32[4] = zeros()
  state %w16: f16[4] = zeros()
  graph @g(%x: f32[4], %ok: bool[]) {
    %wide = cast(%w16), to=f32 : f32[4]
    %g = mul(%wide, %x) : f32[4]
    %next = sub(%w, %g) : f32[4]
    %next16 = cast(%next), to=f16 : f16[4]
    update %w = %next guard=%ok
    update %w16 = %next16 guard=%ok
    return
  }
})";
  ExpectReference(text);
  std::unique_ptr<ir::Module> module = ParseOrDie(text);
  EXPECT_EQ(Count<Copy>(MustLower(OnlyGraph(*module))), 0);
}

TEST(Lower, ReshapesTakeNoStepAndNoMemory) {
  std::unique_ptr<ir::Module> module = ParseOrDie(R"(
graph @g(%x: f32[4, 6]) {
  %a = neg(%x) : f32[4, 6]
  %b = reshape(%a) : f32[24]
  %c = stop_gradient(%b) : f32[24]
  %d = cast(%c), to=f32 : f32[24]
  %e = abs(%d) : f32[24]
  return e=%e
})");
  const Program program = MustLower(OnlyGraph(*module));
  EXPECT_EQ(program.steps.size(), 2u) << program.ToString();
  const auto& abs = std::get<HostCall>(program.steps[1].action);
  const runtime::Buffer& operand = program.buffers[abs.operands[0]];
  EXPECT_EQ(operand.shape, std::vector<int64_t>{24});
  EXPECT_EQ(program.buffers[operand.alias_of].name, "a");
  // x, a and e, 96 bytes each.
  EXPECT_EQ(program.unplanned_bytes, 3 * 128);
}

TEST(Lower, EvaluatesConstantsOnce) {
  std::unique_ptr<ir::Module> module = ParseOrDie(R"(
graph @g(%x: i32[100]) {
  %i = iota(), axis=0 : i32[100]
  %one = constant(), value=1 : i32[100]
  %a = add(%x, %i) : i32[100]
  %b = add(%a, %one) : i32[100]
  return b=%b, i=%i
})");
  const Program program = MustLower(OnlyGraph(*module));
  EXPECT_EQ(program.steps.size(), 2u);
  ASSERT_EQ(program.constants.size(), 2u);
  EXPECT_EQ(program.constants[0].bytes.size(), 400u);
  EXPECT_EQ(program.constants[1].bytes, (std::vector<uint8_t>{1, 0, 0, 0}));
  CpuSession session(*module, {}, 1);
  ir::ArrayMap inputs = RandomInputs(OnlyGraph(*module), 0);
  auto result = session.Run(OnlyGraph(*module), inputs);
  ASSERT_TRUE(result.ok()) << result.status();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(result->outputs["b"].Get(i), inputs["x"].Get(i) + i + 1);
    EXPECT_EQ(result->outputs["i"].Get(i), i);
  }
}

TEST(Lower, ArenasShareTheBytesOfTheDead) {
  std::string body = "%a0 = neg(%x) : f32[1000]\n";
  for (int i = 1; i < 20; ++i) {
    absl::StrAppendFormat(&body, "%%a%d = neg(%%a%d) : f32[1000]\n", i, i - 1);
  }
  std::unique_ptr<ir::Module> module =
      ParseOrDie(absl::StrFormat("graph @g(%%x: f32[1000]) {\n%s return y=%%a19\n}", body));
  const Program program = MustLower(OnlyGraph(*module));
  // The input, the output, and two that take turns.
  EXPECT_LE(program.arena_bytes, 4 * 4032);
  EXPECT_EQ(program.unplanned_bytes, 21 * 4032);
}

TEST(Lower, RandomNumbersFollowTheStateRngPosition) {
  ExpectReference(R"(
module @m {
  state %rng_position: i64[] = zeros()
  graph @g(%x: f32[1000]) {
    %one = constant(), value=1 : i64[]
    %next = add(%rng_position, %one) : i64[]
    %u = random_uniform() : f32[1000]
    %n = random_normal() : f32[1000]
    update %rng_position = %next
    return u=%u, n=%n
  }
})");
}

TEST(Lower, NamesUnboundSizes) {
  std::unique_ptr<ir::Module> module =
      ParseOrDie("graph @g(%x: f32[B]) { %y = neg(%x) : f32[B] return y=%y }");
  EXPECT_THAT(std::string(Lower(OnlyGraph(*module)).status().message()),
              HasSubstr("input %x: the type f32[B] has a named size that is not bound"));
}

TEST(Lower, RefusesGraphsThatNoMemoryHolds) {
  // Each tensor has 2^55 elements, and together they have more bytes than 63 bits count.
  std::string body;
  for (int i = 0; i < 60; ++i) {
    absl::StrAppendFormat(&body, "%%a%d = neg(%%x) : f64[36028797018963968]\n", i);
  }
  std::unique_ptr<ir::Module> module = ParseOrDie(
      absl::StrFormat("graph @g(%%x: f64[36028797018963968]) {\n%s return y=%%a0\n}", body));
  EXPECT_EQ(Lower(OnlyGraph(*module)).status().code(), absl::StatusCode::kResourceExhausted);
  // Such a constant is not evaluated here, and does not load.
  module =
      ParseOrDie("graph @g() { %c = constant(), value=1 : f32[36028797018963968] return c=%c }");
  CpuSession session(*module, {}, 1);
  EXPECT_EQ(session.Load(OnlyGraph(*module)).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace duotone::codegen::cpu
