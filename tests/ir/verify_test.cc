// One module per invariant of ir/verify.cc. Where the text can express a violation, the offending
// line says so behind `// error:`; the others are made by hand.
#include "ir/verify.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text.h"

namespace duotone::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::unique_ptr<Module> ParseOk(std::string_view text) {
  absl::StatusOr<std::unique_ptr<Module>> module = Parse(text);
  EXPECT_TRUE(module.ok()) << module.status() << "\n" << text;
  return module.ok() ? *std::move(module) : nullptr;
}

// "<line>: <sentence>" for each `// error: <sentence>` of the text; several on a line are separated
// by " // ".
std::vector<std::string> Expected(std::string_view text) {
  std::vector<std::string> expected;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(std::string(text), '\n')) {
    ++number;
    constexpr absl::string_view kMark = "// error: ";
    for (size_t at = line.find(kMark); at != line.npos; at = line.find(kMark, at + 1)) {
      absl::string_view sentence = line.substr(at + kMark.size());
      sentence = sentence.substr(0, sentence.find(" // "));
      expected.push_back(absl::StrCat(number, ": ", sentence));
    }
  }
  return expected;
}

// The same from the parser's message "v.duo:<line>:<column>: <sentence>".
std::vector<std::string> Found(std::string_view text) {
  const absl::Status status = Parse(text, "v.duo").status();
  std::vector<std::string> found;
  for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 3));
    if (parts.size() == 4 && parts[0] == "v.duo")
      found.push_back(absl::StrCat(parts[1], ":", parts[3]));
  }
  return found;
}

const char* const kMarked[] = {
    // [10]: random numbers key on ids.
    R"(graph @g() {
  %a = random_normal() : f32[4] {id=7}
  %b = random_uniform() : f32[4] {id=7}  // error: [10] %b and %a have the same id 7: their random numbers would be the same
  %c = constant(), value=1.0 : f32[4] {id=7}
  return
})",
    // [11]
    R"(graph @g(%x: f32[4]) {
  %a = relu(%x) : f32[4] {forward="a"}  // error: [11] %a names itself as its forward node
  %b = relu(%x) : f32[4] {origin="user"}  // error: [11] %b: the origin 'user' is not autocast:<rule>
  %c = relu(%x) : f32[4] {origin="autocast:"}  // error: [11] %c: the origin 'autocast:' is not autocast:<rule>
  %d = relu(%x) : f32[4] {origin="autocast:allow", forward="a"}
  return
})",
    // [13]: derived state follows its source.
    R"(param %w: f32[4]
derived %w16: f16[4] = cast_of(%w)
graph @alone(%x: f16[4]) {
  update %w16 = %x  // error: [13] update %w16: the entry is derived and follows its source %w, which has no update here
  return
}
graph @other_value(%w.next: f32[4], %other: f32[4]) {
  %low = cast(%other), to=f16 : f16[4]
  update %w = %w.next
  update %w16 = %low  // error: [13] update %w16: the value %low is no cast of %w.next, the next value of its source %w
  return
}
graph @other_guard(%w.next: f32[4], %ok: bool[]) {
  %low = cast(%w.next), to=f16 : f16[4]
  update %w16 = %low  // error: [13] update %w16: its guard is not that of its source %w
  update %w = %w.next guard=%ok
  return
}
graph @follows(%w.next: f32[4], %ok: bool[]) {
  %low = cast(%w.next), to=f16 : f16[4]
  update %w16 = %low guard=%ok
  update %w = %w.next guard=%ok
  return
})",
    // [13]: the same inside fusions, where the cast is an output of the body.
    R"(param %w: f32[4]
derived %w16: f16[4] = cast_of(%w)
graph @both_results(%g: f32[4]) {
  %w.next, %low = fusion(%w, %g), family="optimizer" : f32[4], f16[4] body(%w: f32[4], %g: f32[4]) {
    %n = sub(%w, %g) : f32[4]
    %l = cast(%n), to=f16 : f16[4]
    return %n, %l
  }
  update %w = %w.next
  update %w16 = %low
  return
}
graph @of_an_operand(%w.next: f32[4]) {
  %low = fusion(%w.next) : f16[4] body(%n: f32[4]) { %l = cast(%n), to=f16 : f16[4] return %l }
  update %w = %w.next
  update %w16 = %low
  return
}
graph @of_another_result(%g: f32[4]) {
  %w.next, %low = fusion(%w, %g), family="optimizer" : f32[4], f16[4] body(%w: f32[4], %g: f32[4]) {
    %n = sub(%w, %g) : f32[4]
    %l = cast(%g), to=f16 : f16[4]
    return %n, %l
  }
  update %w = %w.next
  update %w16 = %low  // error: [13] update %w16: the value %low is no cast of %w.next, the next value of its source %w
  return
}
graph @of_another_operand(%w.next: f32[4], %g: f32[4]) {
  %low = fusion(%w.next, %g) : f16[4] body(%n: f32[4], %g: f32[4]) { %l = cast(%g), to=f16 : f16[4] return %l }
  update %w = %w.next
  update %w16 = %low  // error: [13] update %w16: the value %low is no cast of %w.next, the next value of its source %w
  return
})",
    // [14]: neither casts nor broadcasts are implied.
    R"(param %w: f32[4]
param %v: f32[4]
param %u: f32[4]
graph @g(%short: f32[3], %low: f16[4], %right: f32[4]) {
  update %w = %short  // error: [14] update %w: the value %short is f32[3], but the entry is f32[4]
  update %v = %low  // error: [14] update %v: the value %low is f16[4], but the entry is f32[4]
  update %u = %right
  return
})",
    // [15]
    R"(param %w: f32[4]
param %v: f32[4]
param %u: f32[4]
graph @g(%x: f32[4], %each: bool[4], %number: i32[], %ok: bool[]) {
  update %w = %x guard=%each  // error: [15] update %w: the guard %each is bool[4], not bool[]
  update %v = %x guard=%number  // error: [15] update %v: the guard %number is i32[], not bool[]
  update %u = %x guard=%ok
  return
})",
    // [16]; another graph may update the entry again.
    R"(param %w: f32[4]
graph @g(%x: f32[4]) {
  update %w = %x
  update %w = %w  // error: [16] %w is updated twice
  return
}
graph @h(%x: f32[4]) { update %w = %x return })",
    // [18]; another graph may have an output of that name.
    R"(graph @g(%x: f32[4], %y: f32[4]) {
  return %x,
    x=%y,  // error: [18] output 'x' occurs twice
    ""=%y  // error: [18] an output without a name
}
graph @h(%x: f32[4]) { return %x })",
    // All are collected.
    R"(param %w: f32[4]
graph @g(%x: f32[3], %ok: i32[]) {
  %a = random_normal() : f32[4] {id=1}
  %b = random_normal() : f32[4] {id=1}  // error: [10] %b and %a have the same id 1: their random numbers would be the same
  update %w = %x guard=%ok  // error: [14] update %w: the value %x is f32[3], but the entry is f32[4] // error: [15] update %w: the guard %ok is i32[], not bool[]
  return %a, a=%b  // error: [18] output 'a' occurs twice
})",
};

TEST(Verify, FindsTheMarkedLines) {
  for (const char* text : kMarked) EXPECT_EQ(Found(text), Expected(text)) << text;
}

// Modules made by hand.

constexpr char kTwoNodes[] = R"(module @m {
  param %w: f32[4] = zeros()
  graph @g(%x: f32[4]) {
    %a = relu(%x) : f32[4] {loc="m.cc:7"}
    %b = add(%a, %w) : f32[4]
    return b=%b
  }
  graph @other(%z: f32[4]) { return %z }
})";

class VerifyByHand : public ::testing::Test {
 protected:
  Value Find(std::string_view name) { return graph().Find(name); }
  Graph& graph() { return *module_->FindGraph("g"); }
  // The violations as text.
  std::vector<std::string> Violations() const {
    std::vector<std::string> texts;
    for (const Violation& violation : FindViolations(*module_))
      texts.push_back(violation.ToString());
    return texts;
  }
  std::unique_ptr<Module> module_ = ParseOk(kTwoNodes);
};

TEST_F(VerifyByHand, AcceptsAGoodModule) {
  EXPECT_THAT(Violations(), IsEmpty());
  EXPECT_TRUE(Verify(*module_).ok());
}

TEST_F(VerifyByHand, OneGraphPerName) {
  module_->FindGraph("other")->set_name("g");
  EXPECT_THAT(Violations(), ElementsAre("[1] graph @g is not found under its name (graph @g)"));
}

TEST_F(VerifyByHand, OperandsStandBeforeTheirReaders) {
  graph().MoveBefore(Find("b").node, Find("a").node);
  EXPECT_THAT(
      Violations(),
      ::testing::Contains("[5] add reads %a, which is defined only later (graph @g, node %b)"));
}

TEST_F(VerifyByHand, OperandsAreOfTheSameGraph) {
  graph().SetOperand(Find("b").node, 0, module_->FindGraph("other")->Find("z"));
  EXPECT_THAT(Violations(),
              UnorderedElementsAre(
                  "[5] add reads a value of another graph (%z) (graph @g, node %b)",
                  "[6] %z is read 0 times, but its list of users, with 1 entries, disagrees (graph "
                  "@other, node %z)"));
}

TEST_F(VerifyByHand, OperandsAreResults) {
  graph().SetOperand(Find("b").node, 0, Value{Find("a").node, 1});
  EXPECT_THAT(Violations(),
              ::testing::Contains("[5] add reads result 1 of %a, which has 1 (graph @g, node %b)"));
}

TEST_F(VerifyByHand, TypesAreThoseOfInference) {
  graph().SetInputType(graph().inputs()[0], Type{DType::kF32, {8}});
  EXPECT_THAT(Violations(),
              ElementsAre("[7] relu: the type is f32[4], but the operands give f32[8] "
                          "(graph @g, m.cc:7, node %a)"));
}

TEST_F(VerifyByHand, OperandsFitTheOp) {
  graph().SetInputType(graph().inputs()[0], Type{DType::kF32, {8}});
  ASSERT_TRUE(graph().Reinfer(Find("a").node).ok());
  const std::vector<std::string> violations = Violations();
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_THAT(violations[0], HasSubstr("[7] add: "));
  EXPECT_THAT(violations[0], HasSubstr("(graph @g, node %b)"));
}

TEST_F(VerifyByHand, NamedSizesAreIdentifiers) {
  ASSERT_TRUE(graph().AddInput("y", Type{DType::kF32, {Dim::Named("2B")}}).ok());
  EXPECT_THAT(Violations(),
              ElementsAre("[8] %y: the named size '2B' is no identifier (graph @g, node %y)"));
}

TEST_F(VerifyByHand, StateReadsHaveTheTypeOfTheirEntry) {
  graph().SetInputType(Find("w").node, Type{DType::kF32, {8}});
  EXPECT_THAT(
      Violations(),
      ::testing::Contains("[9] the read of %w is f32[8], the entry f32[4] (graph @g, node %w)"));
}

TEST_F(VerifyByHand, UpdatesAreOfEntriesOfTheModule) {
  const std::unique_ptr<Module> copy = module_->Clone();
  graph().updates().push_back({copy->FindState("w"), Find("a")});
  graph().updates().push_back({nullptr, Find("a")});
  EXPECT_THAT(
      Violations(),
      ElementsAre("[13] an update of an entry that is not in the module's state table (graph @g)",
                  "[13] an update of an entry that is not in the module's state table (graph @g)"));
}

TEST_F(VerifyByHand, UpdatesReadValuesOfTheirGraph) {
  graph().updates().push_back({module_->FindState("w"), Value{}});
  graph().updates()[0].guard = module_->FindGraph("other")->Find("z");
  EXPECT_THAT(
      Violations(),
      ElementsAre("[14] update %w reads no value (graph @g)",
                  "[15] the guard of update %w reads a value of another graph (%z) (graph @g)"));
}

TEST_F(VerifyByHand, OutputsReadValuesOfTheirGraph) {
  graph().outputs().push_back({"loss", module_->FindGraph("other")->Find("z")});
  EXPECT_THAT(Violations(),
              ElementsAre("[17] output 'loss' reads a value of another graph (%z) (graph @g)"));
}

TEST_F(VerifyByHand, TheStatusHoldsAllViolations) {
  graph().outputs().push_back({"b", Value{}});
  EXPECT_EQ(std::string(Verify(*module_).message()),
            "[17] output 'b' reads no value (graph @g)\n[18] output 'b' occurs twice (graph @g)");
}

}  // namespace
}  // namespace duotone::ir
