// Constant folding: ops on constants are evaluated by the reference evaluation of the op table.
#include <cstring>

#include "ir/emitter.h"
#include "ir/interpreter.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "passes/rewrite.h"
#include "passes/simplify_rules.h"

namespace duotone::passes {
namespace {

using ir::Array;
using ir::Graph;
using ir::Literal;
using ir::Node;
using ir::Value;

// A folded constant is no larger than this, so that folding cannot fill the text or the memory.
constexpr int64_t kMaxElements = 4096;

int64_t IntegerAt(const Array& array, int64_t i) {
  return array.type().dtype == DType::kI64 ? array.view().as<int64_t>()[i]
                                           : static_cast<int64_t>(array.Get(i));
}

// The numbers of `array`; one number if all elements have the same bits.
Literal ToLiteral(const Array& array) {
  Literal all;
  if (array.type().is_float()) {
    std::vector<double> values;
    for (int64_t i = 0; i < array.elements(); ++i) values.push_back(array.Get(i));
    all.values = std::move(values);
  } else {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < array.elements(); ++i) values.push_back(IntegerAt(array, i));
    all.values = std::move(values);
  }
  return all;
}

Literal SplatIfEqual(Literal all) {
  std::visit(
      [](auto& values) {
        const bool equal = llvm::all_of(values, [&](const auto& value) {
          return std::memcmp(&value, &values[0], sizeof(value)) == 0;
        });
        if (!values.empty() && equal) values.resize(1);
      },
      all.values);
  return all;
}

// A constant's elements as an array of `shape`; i64 numbers stay exact.
Array ToArray(const ir::ConstantAttrs& constant, const ir::Type& type) {
  Array array(type);
  for (int64_t i = 0; i < array.elements(); ++i) {
    const size_t index = constant.value.is_splat() ? 0 : static_cast<size_t>(i);
    if (type.dtype == DType::kI64) {
      const auto* integers = std::get_if<std::vector<int64_t>>(&constant.value.values);
      array.view().as<int64_t>()[i] = integers ? (*integers)[index] : 0;
    } else {
      array.Set(i, constant.value.AsDouble(index));
    }
  }
  return array;
}

Value EmitConstant(Graph& graph, Node* node, Literal literal) {
  ir::ConstantAttrs attrs;
  attrs.value = std::move(literal);
  attrs.result.type = node->type();
  return ir::Emitter(graph, node, node->info()).Emit(ir::Op::kConstant, {}, std::move(attrs));
}

// Evaluates `node` with operands of the types that `operand_type` gives; nothing if that reports an
// error.
template <typename OperandType>
std::optional<Array> Evaluate(Node* node, OperandType operand_type) {
  llvm::SmallVector<Array, 3> operands;
  for (Value operand : node->operands()) {
    operands.push_back(ToArray(*ConstantOf(operand), operand_type(operand.type())));
  }
  absl::StatusOr<std::vector<Array>> results =
      ir::EvaluateOp(node->op(), node->attrs(), operands, node->id());
  if (!results.ok() || results->size() != 1) return std::nullopt;
  return std::move((*results)[0]);
}

// Elementwise ops and data movement make a splat from equal splats, whatever the sizes.
Replacement FoldSplats(Graph& graph, Node* node) {
  const bool moves = node->def().lower == ir::Lower::kView && node->op() != ir::Op::kPad;
  if (moves) {
    const Literal& first = ConstantOf(node->operand(0))->value;
    const bool equal = llvm::all_of(
        node->operands(), [&](Value operand) { return ConstantOf(operand)->value == first; });
    if (equal) return Replacement::New(EmitConstant(graph, node, first));
    return Replacement::None();
  }
  if (node->def().lower != ir::Lower::kElementwise) return Replacement::None();
  const std::optional<Array> result = Evaluate(node, [](const ir::Type& type) {
    return ir::Type{type.dtype, {}};
  });
  if (!result) return Replacement::None();
  return Replacement::New(EmitConstant(graph, node, ToLiteral(*result)));
}

}  // namespace

Replacement FoldConstants(Graph& graph, Node* node) {
  const ir::Lower lower = node->def().lower;
  if (lower == ir::Lower::kRandom || lower == ir::Lower::kExpanded || node->result_count() != 1 ||
      node->operand_count() == 0) {
    return Replacement::None();
  }
  // An eps that autocast narrows must not become 0: fold-casts has the rule for that.
  if (node->op() == ir::Op::kCast && IsOfAutocast(*node)) return Replacement::None();
  if (!llvm::all_of(node->operands(), [](Value v) { return ConstantOf(v) != nullptr; })) {
    return Replacement::None();
  }
  if (llvm::all_of(node->operands(), [](Value v) { return ConstantOf(v)->value.is_splat(); })) {
    if (const Replacement splat = FoldSplats(graph, node); splat.value) return splat;
  }
  auto small = [](const ir::Type& type) {
    return type.is_static() && type.elements() <= kMaxElements;
  };
  if (!small(node->type()) ||
      !llvm::all_of(node->operands(), [&](Value v) { return small(v.type()); })) {
    return Replacement::None();
  }
  const std::optional<Array> result = Evaluate(node, [](const ir::Type& type) { return type; });
  if (!result) return Replacement::None();
  return Replacement::New(EmitConstant(graph, node, SplatIfEqual(ToLiteral(*result))));
}

}  // namespace duotone::passes
