// What holds for every row of the op table; an op enters by existing. From its example: it parses,
// prints and reads back; its gradient agrees with central differences; in 16 bits it gives the f32
// result of the widened operands, rounded once.
#include <random>

#include "base/float16.h"
#include "ir/text.h"
#include "tests/ir/op_testing.h"

namespace duotone::ir {
namespace {

class OpTest : public testing::TestWithParam<Op> {
 protected:
  const OpDef& def() const { return DefOf(GetParam()); }
};

class GradientTest : public OpTest {};

std::vector<Op> OpsWhere(bool (*condition)(const OpDef&)) {
  std::vector<Op> ops;
  for (const OpDef& def : AllOps()) {
    if (condition(def)) ops.push_back(def.op);
  }
  return ops;
}

bool IsWritten(const OpDef& def) { return def.lower != Lower::kSource; }
bool IsEvaluated(const OpDef& def) { return def.eval.run != nullptr; }
bool HasGradient(const OpDef& def) {
  return def.grad != StopsGradient && def.grad != NotDifferentiable;
}

std::string NameOf(const testing::TestParamInfo<Op>& info) {
  return std::string(OpName(info.param));
}

INSTANTIATE_TEST_SUITE_P(Table, OpTest, testing::ValuesIn(OpsWhere(IsWritten)), NameOf);
INSTANTIATE_TEST_SUITE_P(Table, GradientTest, testing::ValuesIn(OpsWhere(HasGradient)), NameOf);

// The node of the op under test in its example.
Node* FindNode(Graph& graph, Op op) {
  for (Node* node : graph.NodePointers()) {
    if (node->op() == op) return node;
  }
  return nullptr;
}

TEST_P(OpTest, ExampleParsesAndPrintsBack) {
  absl::StatusOr<std::unique_ptr<Module>> module = Parse(def().example);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_TRUE(Verify(**module).ok()) << Verify(**module);
  EXPECT_NE(FindNode(*(*module)->graphs()[0], GetParam()), nullptr) << "the example lacks the op";
  const std::string printed = Print(**module);
  absl::StatusOr<std::unique_ptr<Module>> again = Parse(printed);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Print(**again), printed);
}

// The op as its example uses it, with named sizes bound.
struct Usage {
  Attrs attrs;
  llvm::SmallVector<Type, 4> operands;
};

Usage UsageOf(const OpDef& def) {
  absl::StatusOr<std::unique_ptr<Module>> module = Parse(def.example);
  Usage usage;
  if (!module.ok()) {
    ADD_FAILURE() << module.status();
    return usage;
  }
  Graph& graph = *(*module)->graphs()[0];
  SizeBinding binding;
  for (const std::string& name : NamedSizes(graph)) binding[name] = 3;
  EXPECT_TRUE(BindSizes(graph, binding).ok());
  const Node* node = FindNode(graph, def.op);
  usage.attrs = node->attrs();
  for (Value operand : node->operands()) usage.operands.push_back(operand.type());
  return usage;
}

// The same usage with floating-point operands and results in `dtype`; operands that stay in f32
// beside 16-bit ones do so.
Usage WithFloat(const OpDef& def, Usage usage, DType dtype) {
  for (size_t i = 0; i < usage.operands.size(); ++i) {
    const bool keep = IsLow(dtype) && def.keeps_f32.contains(static_cast<int>(i));
    if (usage.operands[i].is_float()) usage.operands[i].dtype = keep ? DType::kF32 : dtype;
  }
  ForEachField(usage.attrs, [&](std::string_view, auto& field) {
    using T = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<T, std::optional<DType>>) field = std::nullopt;
    if constexpr (std::is_same_v<T, DType>) field = dtype;
    if constexpr (std::is_same_v<T, ResultType>) {
      if (field.type.is_float()) field.type.dtype = dtype;
    }
  });
  return usage;
}

// Where an operand's numbers are drawn from: away from poles, and with valid indices.
std::pair<double, double> DomainOf(Op op, int operand) {
  switch (op) {
    case Op::kLog:
    case Op::kSqrt:
    case Op::kRsqrt:
      return {0.5, 3};
    case Op::kPow:
      return operand == 0 ? std::pair(0.5, 2.0) : std::pair(-2.0, 2.0);
    case Op::kDiv:
      return operand == 1 ? std::pair(0.5, 2.0) : std::pair(-2.0, 2.0);
    case Op::kBceWithLogits:
      return operand == 1 ? std::pair(0.0, 1.0) : std::pair(-2.0, 2.0);
    case Op::kAdamUpdate:
    case Op::kAdamWUpdate:
    case Op::kUpdateLossScale:
      return {0.25, 2};  // second moments and scales are not negative
    default:
      return {-2, 2};
  }
}

Array RandomArray(const Type& type, std::pair<double, double> domain, std::mt19937& random) {
  Array array(type);
  std::uniform_real_distribution<double> number(domain.first, domain.second);
  std::uniform_int_distribution<int> index(0, type.dtype == DType::kBool ? 1 : 2);
  for (int64_t i = 0; i < array.elements(); ++i) {
    array.Set(i, type.is_float() ? number(random) : index(random));
  }
  return array;
}

// sum over i of weight[i] * y[i], for result r of the graph's node.
double WeightedSum(const Graph& graph, const ArrayMap& inputs, int r, const Array& weights) {
  absl::StatusOr<InterpreterResult> result = Interpret(graph, inputs, {});
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    return kNaN;
  }
  const Array& y = result->outputs[absl::StrCat("y", r)];
  double sum = 0;
  for (int64_t i = 0; i < y.elements(); ++i) sum += weights.Get(i) * y.Get(i);
  return sum;
}

// Compares the op's gradient through result r with central differences, element by element.
void CheckGradient(const OpDef& def, const Usage& usage, int r) {
  absl::StatusOr<GradientGraph> forward =
      MakeGradientGraph(def.op, usage.attrs, usage.operands, {});
  absl::StatusOr<GradientGraph> backward =
      MakeGradientGraph(def.op, usage.attrs, usage.operands, {r});
  ASSERT_TRUE(forward.ok() && backward.ok()) << forward.status() << backward.status();
  EXPECT_TRUE(Verify(*backward->module).ok()) << Verify(*backward->module);

  bool f32 = false;
  std::mt19937 random(1);
  ArrayMap inputs;
  for (size_t i = 0; i < usage.operands.size(); ++i) {
    f32 |= usage.operands[i].dtype == DType::kF32;
    inputs[absl::StrCat("x", i)] =
        RandomArray(usage.operands[i], DomainOf(def.op, static_cast<int>(i)), random);
  }
  f32 |= forward->node->type(r).dtype == DType::kF32;
  const double step = f32 ? 2e-2 : 1e-5;
  const double tolerance = f32 ? 5e-3 : 1e-7;
  const Array weights = RandomArray(forward->node->type(r), {-1, 1}, random);
  ArrayMap backward_inputs = inputs;
  backward_inputs[absl::StrCat("g", r)] = weights;
  absl::StatusOr<InterpreterResult> result = Interpret(*backward->graph, backward_inputs, {});
  ASSERT_TRUE(result.ok()) << result.status();

  for (size_t i = 0; i < usage.operands.size(); ++i) {
    if (!usage.operands[i].is_float()) continue;
    auto gradient = result->outputs.find(absl::StrCat("dx", i));
    const std::string name = absl::StrCat("x", i);
    if (gradient != result->outputs.end()) {
      ASSERT_EQ(gradient->second.type().shape, usage.operands[i].shape) << "operand " << i;
    }
    for (int64_t k = 0; k < inputs[name].elements(); ++k) {
      const double at = inputs[name].Get(k);
      inputs[name].Set(k, at + step);
      const double above = WeightedSum(*forward->graph, inputs, r, weights);
      const double width = inputs[name].Get(k);
      inputs[name].Set(k, at - step);
      const double below = WeightedSum(*forward->graph, inputs, r, weights);
      const double expected = (above - below) / (width - inputs[name].Get(k));
      inputs[name].Set(k, at);
      const double actual = gradient == result->outputs.end() ? 0 : gradient->second.Get(k);
      ASSERT_NEAR(actual, expected, tolerance * (1 + std::fabs(expected)))
          << "operand " << i << ", element " << k << ", through result " << r;
    }
  }
}

TEST_P(GradientTest, AgreesWithCentralDifferences) {
  Usage usage = WithFloat(def(), UsageOf(def()), DType::kF64);
  if (!InferTypes(def().op, usage.operands, usage.attrs).ok()) {
    usage = WithFloat(def(), UsageOf(def()), DType::kF32);  // the op fixes f32 operands
  }
  absl::StatusOr<Types> results = InferTypes(def().op, usage.operands, usage.attrs);
  ASSERT_TRUE(results.ok()) << results.status();
  for (int r = 0; r < static_cast<int>(results->size()); ++r) {
    if ((*results)[r].is_float()) CheckGradient(def(), usage, r);
  }
}

class NarrowTest : public testing::TestWithParam<std::tuple<Op, DType>> {};

INSTANTIATE_TEST_SUITE_P(Table, NarrowTest,
                         testing::Combine(testing::ValuesIn(OpsWhere(IsEvaluated)),
                                          testing::Values(DType::kF16, DType::kBF16)),
                         [](const auto& info) {
                           return absl::StrCat(std::string(OpName(std::get<0>(info.param))), "_",
                                               std::string(DTypeName(std::get<1>(info.param))));
                         });

TEST_P(NarrowTest, RoundsTheWideResultOnce) {
  const auto [op, low] = GetParam();
  const OpDef& def = DefOf(op);
  const Usage narrow = WithFloat(def, UsageOf(def), low);
  const Usage wide = WithFloat(def, UsageOf(def), DType::kF32);
  Attrs attrs = narrow.attrs;
  if (!InferTypes(op, narrow.operands, attrs).ok()) GTEST_SKIP() << "takes no 16-bit operands";

  std::mt19937 random(2);
  std::vector<Array> narrow_operands;
  std::vector<Array> wide_operands;
  for (size_t i = 0; i < narrow.operands.size(); ++i) {
    narrow_operands.push_back(
        RandomArray(narrow.operands[i], DomainOf(op, static_cast<int>(i)), random));
    wide_operands.push_back(Array::Of(wide.operands[i], Values(narrow_operands[i])));
  }
  absl::StatusOr<std::vector<Array>> actual = EvaluateOp(op, narrow.attrs, narrow_operands);
  absl::StatusOr<std::vector<Array>> expected = EvaluateOp(op, wide.attrs, wide_operands);
  ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
  for (size_t r = 0; r < actual->size(); ++r) {
    const Array rounded = Array::Of((*actual)[r].type(), Values((*expected)[r]));
    EXPECT_TRUE((*actual)[r].BitEqual(rounded)) << "result " << r;
  }
}

}  // namespace
}  // namespace duotone::ir
