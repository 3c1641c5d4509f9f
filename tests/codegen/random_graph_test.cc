// Random graphs with state, updates and guards: the program of each gives the interpreter's bits,
// run after run. What is tested is sharing of memory: lifetimes, aliases, results written in place,
// copies in the right order.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ir/text.h"
#include "tests/codegen/run_program.h"
#include "tests/ir/random_module.h"

namespace duotone::codegen::cpu {
namespace {

using ir::Op;
using ir::Value;

class Generator : public ir::RandomModule {
 public:
  using RandomModule::RandomModule;

  ir::Graph& Make() {
    for (int i = 0; i < 3; ++i) AddState(absl::StrCat("w", i), kMatrix);
    for (int i = 0; i < 2; ++i) AddState(absl::StrCat("s", i), kScalar);
    for (int i = 0; i < 2; ++i) AddState(absl::StrCat("f", i), kFlag);
    graph_ = *module_.AddGraph("g");
    for (const ir::Type& type : {kMatrix, kVector, kScalar, kFlag, kFlag}) {
      values_.push_back(*graph_->AddInput(absl::StrCat("x", values_.size()), type));
    }
    for (const auto& entry : module_.state()) values_.push_back(graph_->ReadState(entry.get()));
    const int nodes = Pick(25);
    for (int i = 0; i < nodes; ++i) AddNode();
    for (const auto& entry : module_.state()) {
      if (Pick(4) == 0) continue;
      const Value guard = Pick(3) == 0 ? Value{} : OfType(kFlag);
      graph_->updates().push_back({entry.get(), OfType(entry->type), guard});
    }
    const int outputs = Pick(4);
    for (int i = 0; i < outputs; ++i) {
      graph_->outputs().push_back({absl::StrCat("o", i), values_[Pick(values_.size())]});
    }
    return *graph_;
  }

 private:
  const ir::Type kMatrix{DType::kF32, {5, 5}};
  const ir::Type kVector{DType::kF32, {25}};
  const ir::Type kScalar{DType::kF32, {}};
  const ir::Type kFlag{DType::kBool, {}};

  void AddNode() {
    const ir::Type& type = Pick(3) == 0 ? kScalar : Pick(4) == 0 ? kVector : kMatrix;
    const Value a = OfType(type);
    switch (Pick(12)) {
      case 0:
        return Add(Op::kNeg, {a});
      case 1:
        return Add(Op::kTanh, {a});
      case 2:
        return Add(Op::kAdd, {a, OfType(type)});
      case 3:
        return Add(Op::kMul, {a, OfType(type)});
      case 4:
        return Add(Op::kReshape, {OfType(kMatrix)}, ir::ReshapeAttrs{{kVector.shape}});
      case 5:
        return Add(Op::kReshape, {OfType(kVector)}, ir::ReshapeAttrs{{kMatrix.shape}});
      case 6:
        return Add(Op::kStopGradient, {a});
      case 7:
        return Add(Op::kLess, {OfType(kScalar), OfType(kScalar)});
      case 8:
        return Add(Op::kNot, {OfType(kFlag)});
      case 9:
        return Add(Op::kBroadcast, {OfType(kScalar)}, ir::BroadcastAttrs{{}, {kMatrix.shape}});
      case 10:
        return Add(Op::kAllFinite, {a, OfType(kMatrix)});
      default:
        return Add(Op::kTranspose, {OfType(kMatrix)}, ir::TransposeAttrs{{1, 0}});
    }
  }
};

TEST(RandomGraphs, AgreeWithTheInterpreter) {
  int in_place = 0;
  for (int seed = 0; seed < 2000; ++seed) {
    Generator generator(seed);
    const ir::Graph& graph = generator.Make();
    absl::Status verified = ir::Verify(generator.module());
    ASSERT_TRUE(verified.ok()) << verified;
    ir::ArrayMap state = RandomState(generator.module(), seed);
    CpuSession session(generator.module(), state, 1, {.use_library = false});
    for (int run = 0; run < 3; ++run) {
      const ir::ArrayMap inputs = RandomInputs(graph, seed + run);
      auto expected = ir::Interpret(graph, inputs, state);
      ASSERT_TRUE(expected.ok()) << expected.status();
      auto actual = session.Run(graph, inputs);
      ASSERT_TRUE(actual.ok()) << actual.status();
      ASSERT_EQ(Difference(*actual, *expected), "")
          << "seed " << seed << ", run " << run << "\n"
          << ir::Print(graph) << (*session.Load(graph))->program().ToString();
      state = std::move(expected->state);
    }
    const runtime::Program& program = (*session.Load(graph))->program();
    for (const runtime::Step& step : program.steps) {
      const auto* call = std::get_if<runtime::HostCall>(&step.action);
      in_place += call != nullptr && step.guard >= 0;
    }
  }
  // The generator reaches the case that is the hardest.
  EXPECT_GT(in_place, 100);
}

}  // namespace
}  // namespace duotone::codegen::cpu
