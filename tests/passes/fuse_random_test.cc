// Random graphs give the same bits fused and unfused. What is tested is that groups can be run in
// their order, that bodies compute what the nodes computed, and that values that are read are
// stored.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "passes/dce.h"
#include "passes/fuse.h"
#include "passes/fuse_facts.h"
#include "tests/ir/random_module.h"

namespace duotone::passes {
namespace {

using ir::Op;
using ir::Value;

class Generator : public ir::RandomModule {
 public:
  using RandomModule::RandomModule;

  ir::Graph& Make() {
    for (int i = 0; i < 2; ++i) AddState(absl::StrCat("w", i), kMatrix);
    for (int i = 0; i < 2; ++i) AddState(absl::StrCat("s", i), kScalar);
    AddState("f", kFlag);
    graph_ = *module_.AddGraph("g");
    for (const ir::Type& type : {kMatrix, kMatrix, kHalf, kVector, kScalar, kFlag, kLabels}) {
      values_.push_back(*graph_->AddInput(absl::StrCat("x", values_.size()), type));
    }
    for (const auto& entry : module_.state()) values_.push_back(graph_->ReadState(entry.get()));
    const size_t nodes = 3 + Pick(40);
    for (size_t i = 0; i < nodes; ++i) AddNode();
    for (const auto& entry : module_.state()) {
      if (Pick(3) == 0) continue;
      const Value guard = Pick(2) == 0 ? Value{} : OfType(kFlag);
      graph_->updates().push_back({entry.get(), OfType(entry->type), guard});
    }
    const size_t outputs = 1 + Pick(4);
    for (size_t i = 0; i < outputs; ++i) {
      graph_->outputs().push_back({absl::StrCat("o", i), values_[Pick(values_.size())]});
    }
    return *graph_;
  }

 private:
  const ir::Type kMatrix{DType::kF32, {6, 6}};
  const ir::Type kHalf{DType::kF16, {6, 6}};
  const ir::Type kCube{DType::kF32, {2, 3, 6}};
  const ir::Type kVector{DType::kF32, {6}};
  const ir::Type kScalar{DType::kF32, {}};
  const ir::Type kFlag{DType::kBool, {}};
  const ir::Type kLabels{DType::kI32, {6}};

  ir::Attrs Over(ir::Ints axes, bool keep = false) {
    return ir::ReduceAttrs{.axes = std::move(axes), .keep_dims = keep};
  }

  void AddNode() {
    const ir::Type& type = Pick(4) == 0 ? kScalar : Pick(4) == 0 ? kHalf : kMatrix;
    const ir::Type& floats = Pick(3) == 0 ? kHalf : kMatrix;
    switch (Pick(28)) {
      case 0:
        return Add(Op::kRelu, {OfType(type)});
      case 1:
        return Add(Op::kTanh, {OfType(type)});
      case 2:
      case 3:
        return Add(Op::kAdd, {OfType(type), OfType(type)});
      case 4:
        return Add(Op::kMul, {OfType(type), OfType(type)});
      case 5:
        return Add(Op::kCast, {OfType(kMatrix)}, ir::CastAttrs{DType::kF16});
      case 6:
        return Add(Op::kCast, {OfType(kHalf)}, ir::CastAttrs{DType::kF32});
      case 7:
        return Add(Op::kReshape, {OfType(kMatrix)}, ir::ReshapeAttrs{{kCube.shape}});
      case 8:
        Add(Op::kReshape, {OfType(kMatrix)}, ir::ReshapeAttrs{{kCube.shape}});
        Add(Op::kExp, {values_.back()});
        return Add(Op::kReshape, {values_.back()}, ir::ReshapeAttrs{{kMatrix.shape}});
      case 9:
        return Add(Op::kTranspose, {OfType(floats)}, ir::TransposeAttrs{{1, 0}});
      case 10:
        return Add(Op::kBroadcast, {OfType(kScalar)}, ir::BroadcastAttrs{{}, {kMatrix.shape}});
      case 11:
        return Add(Op::kBroadcast, {OfType(kVector)},
                   ir::BroadcastAttrs{{static_cast<int64_t>(Pick(2))}, {kMatrix.shape}});
      case 12:
      case 13:
        return Add(Op::kMatMul, {OfType(kMatrix), OfType(kMatrix)},
                   ir::MatMulAttrs{Pick(2) == 0, Pick(3) == 0});
      case 14:
        return Add(Op::kMatMul, {OfType(kHalf), OfType(kHalf)},
                   ir::MatMulAttrs{Pick(2) == 0, false, DType::kF32});
      case 15:
        return Add(Op::kReduceSum, {OfType(kMatrix)}, Over({static_cast<int64_t>(Pick(2))}));
      case 16:
        return Add(Op::kReduceMax, {OfType(kMatrix)}, Over({static_cast<int64_t>(Pick(2))}));
      case 17:
        return Add(Op::kReduceMean, {OfType(kMatrix)}, Over({0, 1}));
      case 18:
        return Add(Op::kSoftmax, {OfType(floats)}, ir::SoftmaxAttrs{static_cast<int64_t>(Pick(2))});
      case 19:
        return Add(Op::kLayerNorm, {OfType(floats), OfType(kVector), OfType(kVector)});
      case 20:
        return Add(Op::kLayerNormGrad, {OfType(kMatrix), OfType(kVector), OfType(kVector),
                                        OfType(kVector), OfType(kMatrix)});
      case 21:
        return Add(Op::kCrossEntropy, {OfType(kMatrix), OfType(kLabels)});
      case 22:
        return Add(Op::kCrossEntropyGrad,
                   {OfType(kMatrix), OfType(kLabels), OfType(kVector), OfType(kScalar)});
      case 23:
        return Add(Op::kAllFinite, {OfType(kMatrix), OfType(kVector), OfType(type)});
      case 24:
        return Add(Op::kDropout, {OfType(floats)}, ir::DropoutAttrs{0.5});
      case 25:
        return Add(Op::kGather, {OfType(kMatrix), OfType(kLabels)});
      case 26:
        return Add(Op::kScatterAdd, {OfType(kMatrix), OfType(kLabels), OfType(kMatrix)});
      default:
        return Add(Op::kNot, {OfType(kFlag)});
    }
  }
};

ir::Array RandomArray(const ir::Type& type, std::mt19937& random) {
  ir::Array array(type);
  for (int64_t i = 0; i < array.elements(); ++i) {
    const auto bits = static_cast<double>(random() % 4096);
    array.Set(i, type.is_float() ? bits / 1024 - 2 : static_cast<double>(random() % 6));
    if (type.dtype == DType::kBool) array.Set(i, random() % 2);
  }
  return array;
}

void ExpectSameBits(const ir::ArrayMap& actual, const ir::ArrayMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& entry : expected) {
    EXPECT_TRUE(actual.find(entry.first())->second.BitEqual(entry.second)) << entry.first().str();
  }
}

// What kernels can be made for: one product; and what combines all rows is read by nothing in the
// kernel that computes it, but for tests.
std::string WhatNoKernelCanDo(const ir::Node& fusion) {
  int products = 0;
  for (const auto& node : fusion.body()->nodes()) {
    const WorkKind kind = WorkKindOf(*node);
    products += kind == WorkKind::kMatMul;
    if (kind == WorkKind::kAllFinite) continue;
    for (Value operand : node->operands()) {
      const WorkKind made = WorkKindOf(*operand.node);
      const bool reduces = made == WorkKind::kRow || made == WorkKind::kReduce;
      if (reduces && ResultRole(*operand.node, operand.index) == Role::kAcross) {
        return absl::StrCat(operand.name(), " is read by ", node->name());
      }
    }
  }
  const bool is_matmul = fusion.attrs_as<ir::FusionAttrs>().family == "matmul";
  return products == is_matmul ? "" : absl::StrCat(fusion.name(), " has ", products, " products");
}

TEST(RandomGraphs, GiveTheSameBitsFused) {
  size_t nodes = 0, fusions = 0;
  for (int seed = 0; seed < 1500; ++seed) {
    Generator generator(seed);
    ir::Graph& graph = generator.Make();
    PassContext ctx;
    ASSERT_TRUE(Dce().Run(generator.module(), ctx).ok());
    const std::unique_ptr<ir::Module> fused = generator.module().Clone();
    const auto changed = Fuse().Run(*fused, ctx);
    ASSERT_TRUE(changed.ok()) << changed.status();
    const absl::Status verified = ir::Verify(*fused);
    const std::string where = absl::StrCat("seed ", seed, "\n", ir::Print(generator.module()),
                                           "fused:\n", ir::Print(*fused));
    ASSERT_TRUE(verified.ok()) << verified << where;
    EXPECT_FALSE(*Fuse().Run(*fused, ctx)) << where;
    for (const auto& node : fused->FindGraph("g")->nodes()) {
      if (node->op() != Op::kFusion) continue;
      EXPECT_EQ(WhatNoKernelCanDo(*node), "") << where;
    }

    std::mt19937 random(static_cast<uint32_t>(seed));
    ir::ArrayMap inputs, state;
    for (const ir::Node* input : graph.inputs()) {
      inputs[input->name()] = RandomArray(input->type(), random);
    }
    for (const auto& entry : generator.module().state()) {
      state[entry->name] = RandomArray(entry->type, random);
    }
    const auto expected = ir::Interpret(graph, inputs, state);
    ASSERT_TRUE(expected.ok()) << expected.status() << where;
    const ir::Graph& fused_graph = *fused->FindGraph("g");
    const auto actual = ir::Interpret(fused_graph, inputs, state);
    ASSERT_TRUE(actual.ok()) << actual.status() << where;
    ExpectSameBits(actual->outputs, expected->outputs);
    ExpectSameBits(actual->state, expected->state);
    ASSERT_FALSE(testing::Test::HasFailure()) << where;
    nodes += graph.node_count();
    fusions += fused_graph.node_count();
  }
  // The generator makes graphs in which something can be fused.
  EXPECT_LT(fusions, nodes * 3 / 4);
}

}  // namespace
}  // namespace duotone::passes
