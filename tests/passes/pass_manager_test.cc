#include "passes/pass_manager.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status.h"
#include "ir/emitter.h"
#include "ir/text.h"

namespace duotone::passes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Appends neg(%x) under a name of its own, once.
class AddNeg : public GraphPass {
 public:
  explicit AddNeg(std::string name) : name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext& ctx) const override {
    if (graph.Find(name_)) return false;
    ir::Emitter(graph).Emit(ir::Op::kNeg, {graph.inputs()[0]->result()}, name_);
    ++ctx.stats()["added"];
    ctx.Warn("%" + name_ + " is new");
    return true;
  }

 private:
  std::string name_;
};

class Failing : public Pass {
 public:
  std::string_view name() const override { return "autodiff"; }
  absl::StatusOr<bool> Run(ir::Module&, PassContext&) const override {
    return InvalidArgument("round: has no derivative (node %%h)");
  }
};

// Leaves a node behind that stands in front of its operand.
class Breaking : public GraphPass {
 public:
  std::string_view name() const override { return "breaking"; }
  absl::StatusOr<bool> RunOnGraph(ir::Graph& graph, PassContext&) const override {
    ir::Emitter emit(graph);
    const ir::Value a = emit.Neg(graph.inputs()[0]->result());
    const ir::Value b = emit.Neg(a);
    graph.MoveBefore(b.node, a.node);
    return true;
  }
};

PassList AddNegs(std::initializer_list<const char*> names) {
  PassList passes;
  for (const char* name : names) passes.push_back(std::make_unique<AddNeg>(name));
  return passes;
}

class PassManagerTest : public testing::Test {
 protected:
  PassManagerTest() : module_(*ir::Parse("graph @g(%x: f32[4]) { return %x }")) {}

  absl::StatusOr<PassReport> Run(const PassList& passes, PassManagerOptions options = {}) {
    return PassManager(std::move(options)).Run(passes, *module_);
  }
  bool Has(std::string_view name) { return bool(module_->FindGraph("g")->Find(name)); }

  std::unique_ptr<ir::Module> module_;
};

TEST_F(PassManagerTest, ReportsWhatEachPassDid) {
  const auto report = Run(AddNegs({"a", "a", "b"}));
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->runs.size(), 3u);
  EXPECT_TRUE(report->runs[0].changed);
  EXPECT_FALSE(report->runs[1].changed);
  EXPECT_EQ(report->runs[2].nodes_before, 1);
  EXPECT_EQ(report->runs[2].nodes_after, 2);
  EXPECT_EQ(report->runs[2].stats.at("added"), 1);
  EXPECT_THAT(report->warnings, ElementsAre("pass a: %a is new", "pass b: %b is new"));
  EXPECT_THAT(report->ToString(), HasSubstr("added=1"));
}

TEST_F(PassManagerTest, SkipsByName) {
  const auto report = Run(AddNegs({"a", "b"}), {.skip = {"a"}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->runs[0].outcome, PassRun::Outcome::kSkipped);
  EXPECT_FALSE(Has("a"));
  EXPECT_TRUE(Has("b"));
}

TEST_F(PassManagerTest, StopsAfterTheNamedPass) {
  ASSERT_TRUE(Run(AddNegs({"a", "b", "c"}), {.stop_after = "b"}).ok());
  EXPECT_TRUE(Has("b"));
  EXPECT_FALSE(Has("c"));
}

TEST_F(PassManagerTest, BisectLimitCountsExecutionsAndNotSkippedPasses) {
  ASSERT_TRUE(Run(AddNegs({"a", "b", "c", "d"}), {.skip = {"a"}, .bisect_limit = 2}).ok());
  EXPECT_TRUE(Has("b"));
  EXPECT_TRUE(Has("c"));
  EXPECT_FALSE(Has("d"));
}

TEST_F(PassManagerTest, AnUnknownNameInAnOptionIsAnError) {
  EXPECT_THAT(Run(AddNegs({"a"}), {.skip = {"z"}}).status().ToString(),
              HasSubstr("skip: there is no pass 'z' in this pipeline"));
  EXPECT_THAT(Run(AddNegs({"a"}), {.stop_after = "z"}).status().ToString(),
              HasSubstr("stop after: there is no pass 'z'"));
  EXPECT_FALSE(Has("a"));
}

TEST_F(PassManagerTest, DumpsBeforeAfterAndOnChange) {
  std::vector<std::string> dumps;
  auto sink = [&](const Dump& dump) {
    dumps.push_back(absl::StrFormat("%d %s %s %d", dump.index, dump.pass,
                                    dump.when == Dump::When::kBefore ? "before" : "after",
                                    dump.text.find("%b = neg") != std::string_view::npos));
  };
  PassManagerOptions options{.sink = sink, .dump_before = {"b"}, .dump_on_change = true};
  ASSERT_TRUE(Run(AddNegs({"a", "a", "b"}), options).ok());
  EXPECT_THAT(dumps, ElementsAre("0 a after 0", "2 b before 0", "2 b after 1"));
}

TEST_F(PassManagerTest, DumpAfterAllDumpsPassesThatChangeNothing) {
  int dumps = 0;
  PassManagerOptions options{.sink = [&](const Dump&) { ++dumps; }, .dump_after = {"*"}};
  ASSERT_TRUE(Run(AddNegs({"a", "a"}), options).ok());
  EXPECT_EQ(dumps, 2);
}

TEST_F(PassManagerTest, AnErrorNamesThePass) {
  PassList passes = AddNegs({"a"});
  passes.push_back(std::make_unique<Failing>());
  EXPECT_EQ(Run(passes).status().message(), "pass autodiff: round: has no derivative (node %h)");
}

TEST_F(PassManagerTest, VerifiesAfterEachPass) {
  PassList passes;
  passes.push_back(std::make_unique<Breaking>());
  EXPECT_THAT(Run(passes).status().ToString(), HasSubstr("pass breaking: its result is invalid"));
}

TEST_F(PassManagerTest, VerifiesBeforeTheFirstPass) {
  PassContext ctx;
  ASSERT_TRUE(Breaking().Run(*module_, ctx).ok());
  EXPECT_THAT(Run(AddNegs({"a"})).status().ToString(), HasSubstr("before the first pass"));
  EXPECT_FALSE(Has("a"));
}

}  // namespace
}  // namespace duotone::passes
