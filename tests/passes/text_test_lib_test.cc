// The harness must reject what is wrong: a harness that passes everything tests nothing.
#include "tests/passes/text_test_lib.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ir/emitter.h"

namespace duotone::passes {
namespace {

using testing::HasSubstr;

constexpr char kHeader[] = "// RUN: dce\n";
constexpr char kDeadExp[] =
    "graph @dead_exp(%x: f32[4]) {\n"
    "  %h = exp(%x) : f32[4]\n"
    "  %y = neg(%x) : f32[4]\n"
    "  return %y\n"
    "}\n";

// The result of the only section of `text`, or why it is no test.
absl::Status RunText(const std::string& text, const PassMaker& make = ParsePasses) {
  const auto tests = ParseTextTests(text, "t.duo");
  if (!tests.ok()) return tests.status();
  EXPECT_EQ(tests->size(), 1u);
  return RunTextTest((*tests)[0], make);
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(TextTest, ACheckThatMatchesPasses) {
  const absl::Status status =
      RunText(std::string(kHeader) + "// CHECK-NOT: = exp\n// CHECK: neg(%x)\n" + kDeadExp);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(TextTest, ACheckThatDoesNotMatchFailsWithItsLine) {
  const absl::Status status = RunText(std::string(kHeader) + "// CHECK: exp(%x)\n" + kDeadExp);
  EXPECT_THAT(Message(status), HasSubstr("t.duo:2:"));
}

TEST(TextTest, AForbiddenTextFails) {
  EXPECT_FALSE(RunText(std::string(kHeader) + "// CHECK-NOT: neg\n" + kDeadExp).ok());
}

TEST(TextTest, MisspeltDirectivesAreRejected) {
  for (const char* directive :
       {"CHEK: neg", "CHECK_NEXT: neg", "CHECK-NXT: neg", "CHECK neg", "Check: neg",
        "check-not: neg", "CHECKNOT: neg", "UNCHANGD", "unchanged", "UNCHANGED: yes", "SAME-RESULT",
        "SAME-RESULT within", "SAME_RESULT within 0", "EROR: text", "ERROR text", "RUN dce",
        "TODO: neg", "XFAIL: *"}) {
    const absl::Status status =
        RunText(std::string(kHeader) + "// CHECK: neg\n// " + directive + "\n" + kDeadExp);
    EXPECT_THAT(Message(status), HasSubstr("t.duo:3: '// ")) << directive;
  }
}

TEST(TextTest, ProseIsNoDirective) {
  for (const char* prose :
       {"Checks name only what matters.", "Nothing may change: exp is dead.",
        "Same result either way.", "NaN passes through.", "An error here would be wrong."}) {
    const absl::Status status =
        RunText(std::string(kHeader) + "// CHECK: neg\n// " + prose + "\n" + kDeadExp);
    EXPECT_TRUE(status.ok()) << prose << ": " << status;
  }
}

TEST(TextTest, AMisspeltDirectiveBehindANodeIsRejected) {
  const std::string text = std::string(kHeader) +
                           "// UNCHANGED\ngraph @g(%x: f32[4]) {\n"
                           "  %y = neg(%x) : f32[4]  // CHECK-NEX: neg\n  return %y\n}\n";
  EXPECT_THAT(Message(RunText(text)), HasSubstr("t.duo:4:"));
}

TEST(TextTest, ASectionWithoutDirectiveIsRejected) {
  EXPECT_THAT(Message(RunText(std::string(kHeader) + kDeadExp)),
              HasSubstr("nothing in it can fail"));
}

TEST(TextTest, ASectionWithoutRunIsRejected) {
  EXPECT_THAT(Message(RunText(std::string("// UNCHANGED\n") + kDeadExp)), HasSubstr("no RUN line"));
}

TEST(TextTest, UnchangedFailsWhereThePassChangesSomething) {
  EXPECT_THAT(Message(RunText(std::string(kHeader) + "// UNCHANGED\n" + kDeadExp)),
              HasSubstr("UNCHANGED: pass dce changed"));
}

TEST(TextTest, AnExpectedErrorThatDoesNotComeFails) {
  EXPECT_THAT(Message(RunText(std::string(kHeader) + "// ERROR: no such thing\n" + kDeadExp)),
              HasSubstr("every pass succeeded"));
}

TEST(TextTest, AnUnknownPassIsRejected) {
  EXPECT_THAT(Message(RunText(std::string("// RUN: dze\n// UNCHANGED\n") + kDeadExp)),
              HasSubstr("there is no pass 'dze'"));
}

TEST(TextTest, ABrokenInputIsRejectedWithItsLine) {
  const absl::Status status = RunText(
      "// RUN: dce\n// UNCHANGED\ngraph @g(%x: f32[4]) {\n  %y = nog(%x) : f32[4]\n return %y }");
  EXPECT_THAT(Message(status), HasSubstr("t.duo:4:"));
}

TEST(TextTest, LaterSectionsUseTheFirstRunLineAndTheirOwnLines) {
  const auto tests =
      ParseTextTests(std::string(kHeader) +
                         "// UNCHANGED\ngraph @a(%x: f32[4]) {\n  return %x\n}\n// -----\n"
                         "// CHECK: gone\ngraph @b(%x: f32[4]) {\n  return %x\n}\n",
                     "t.duo");
  ASSERT_TRUE(tests.ok()) << tests.status();
  ASSERT_EQ(tests->size(), 2u);
  EXPECT_EQ((*tests)[1].name, "2_b");
  EXPECT_EQ((*tests)[1].run, "dce");
  EXPECT_THAT(Message(RunTextTest((*tests)[1])), HasSubstr("t.duo:7:"));
}

// Passes that break the rules.
class FakePass : public GraphPass {
 public:
  using Body = std::function<bool(ir::Graph&)>;
  explicit FakePass(Body body) : body_(std::move(body)) {}
  std::string_view name() const override { return "fake"; }
  absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext&) const override {
    return body_(graph);
  }

 private:
  Body body_;
};

PassMaker Fake(FakePass::Body body) {
  return [body](std::string_view) -> absl::StatusOr<PassList> {
    PassList passes;
    passes.push_back(std::make_unique<FakePass>(body));
    return passes;
  };
}

constexpr char kFakeHeader[] = "// RUN: fake\n// SAME-RESULT within 0\n";

void AppendNeg(ir::Graph& graph) {
  ir::Emitter emit(graph);
  emit.Neg(graph.inputs()[0]->result());
}

TEST(TextTest, APassThatDeniesItsChangeIsFound) {
  const absl::Status status =
      RunText(std::string(kFakeHeader) + kDeadExp, Fake([](ir::Graph& graph) {
                AppendNeg(graph);
                return false;
              }));
  EXPECT_THAT(Message(status), HasSubstr("it said false, but the text changed"));
}

TEST(TextTest, APassThatClaimsAChangeIsFound) {
  const absl::Status status =
      RunText(std::string(kFakeHeader) + kDeadExp, Fake([](ir::Graph&) { return true; }));
  EXPECT_THAT(Message(status), HasSubstr("it said true, but the text did not change"));
}

TEST(TextTest, APassThatIsNeverDoneIsFound) {
  const absl::Status status =
      RunText(std::string(kFakeHeader) + kDeadExp, Fake([](ir::Graph& graph) {
                AppendNeg(graph);
                return true;
              }));
  EXPECT_THAT(Message(status), HasSubstr("the second run changed something"));
}

TEST(TextTest, APassThatChangesTheResultIsFound) {
  const absl::Status status =
      RunText(std::string(kFakeHeader) + kDeadExp, Fake([](ir::Graph& graph) {
                ir::Output& output = graph.outputs()[0];
                if (output.value.name() == "h") return false;
                output.value = graph.Find("h");  // exp(x) in place of -x
                return true;
              }));
  EXPECT_THAT(Message(status), HasSubstr("SAME-RESULT within 0: graph @dead_exp"));
}

TEST(TextTest, APassThatBreaksTheGraphIsFound) {
  const absl::Status status =
      RunText(std::string(kFakeHeader) + kDeadExp, Fake([](ir::Graph& graph) {
                // The reader now stands in front of what it reads.
                ir::Node* h = graph.Find("h").node;
                ir::Node* y = graph.Find("y").node;
                if (y->operand(0) == h->result()) return false;
                graph.SetOperand(y, 0, h->result());
                graph.MoveBefore(y, h);
                return true;
              }));
  EXPECT_THAT(Message(status), HasSubstr("the result is invalid"));
}

TEST(TextTest, ASameResultOfZeroTellsMinusZeroFromZero) {
  // x - (-0) turns -0 into 0, so this "identity" is none.
  const std::string text = std::string(kFakeHeader) +
                           "graph @g(%x: f32[64]) {\n"
                           "  %zero = constant(), value=-0.0 : f32[64]\n"
                           "  %y = sub(%x, %zero) : f32[64]\n  return y=%y\n}\n";
  const absl::Status status = RunText(text, Fake([](ir::Graph& graph) {
                                        if (graph.outputs()[0].value.name() == "x") return false;
                                        graph.outputs()[0].value = graph.Find("x");
                                        return true;
                                      }));
  EXPECT_THAT(Message(status), HasSubstr("output y"));
}

}  // namespace
}  // namespace duotone::passes
