#include "passes/scale_exponents.h"

#include "base/status.h"
#include "llvm/ADT/STLExtras.h"

namespace duotone::passes {
namespace {

using ir::Linearity;
using ir::Node;
using ir::Value;

bool IsZeroConstant(const Node& node) {
  const auto* attrs = std::get_if<ir::ConstantAttrs>(&node.attrs());
  if (attrs == nullptr) return false;
  for (size_t i = 0; i < attrs->value.size(); ++i) {
    if (attrs->value.AsDouble(i) != 0.0) return false;
  }
  return true;
}

// The table's answer, less results that are no floating-point numbers (a cast to integers).
Linearity LinearityOf(const Node& node) {
  return node.type().is_float() ? node.def().LinearityWith(node.attrs()) : ir::kNonLinear;
}

std::string Shown(ScaleExponent exponent) {
  return exponent ? absl::StrFormat("%d", *exponent) : "any";
}

}  // namespace

ScaleExponents::Typing ScaleExponents::TypeOf(const Node& node) const {
  if (IsZeroConstant(node)) return {.result = std::nullopt};
  const Linearity linear = LinearityOf(node);
  Typing typing{.result = 0};
  llvm::SmallVector<int, 4> linear_operands;
  bool all_zero = true;
  for (int i = 0; i < node.operand_count(); ++i) {
    if (linear.kind != Linearity::Kind::kNone && linear.operands.contains(i)) {
      linear_operands.push_back(i);
      all_zero = all_zero && !Of(node.operand(i));
    } else if (IsScaled(node.operand(i))) {
      typing.unscale.push_back(i);
    }
  }
  if (linear_operands.empty()) return typing;
  if (all_zero) {
    typing.result = std::nullopt;
    return typing;
  }
  if (linear.kind == Linearity::Kind::kEach) {
    int sum = 0;
    for (int i : linear_operands) {
      const int exponent = Of(node.operand(i)).value_or(0);
      if (sum + exponent > 1) {
        typing.unscale.push_back(i);
      } else {
        sum += exponent;
      }
    }
    typing.result = sum;
  } else {
    ScaleExponent common;
    bool equal = true;
    for (int i : linear_operands) {
      const ScaleExponent exponent = Of(node.operand(i));
      if (!exponent) continue;
      equal = equal && (!common || common == exponent);
      common = exponent;
    }
    typing.result = equal ? common : 0;
    if (!equal) {
      for (int i : linear_operands) {
        if (IsScaled(node.operand(i))) typing.unscale.push_back(i);
      }
    }
  }
  llvm::sort(typing.unscale);
  return typing;
}

absl::Status CheckScaleExponents(const ir::Graph& graph, llvm::ArrayRef<ScaleSource> sources) {
  ScaleExponents exponents;
  for (const ScaleSource& source : sources) exponents.Set(source.value, source.exponent);
  auto given = [&](const Node* node) {
    return llvm::any_of(sources,
                        [&](const ScaleSource& source) { return source.value.node == node; });
  };
  for (const auto& node : graph.nodes()) {
    if (given(node.get())) continue;
    const ScaleExponents::Typing typing = exponents.TypeOf(*node);
    if (!typing.unscale.empty()) {
      const Value operand = node->operand(typing.unscale[0]);
      return InvalidArgument(
          "%s: operand %%%s carries the loss scale to the power %s, which does not fit here %s",
          node->def().name, operand.name(), Shown(exponents.Of(operand)), node->Place());
    }
    for (int i = 0; i < node->result_count(); ++i) {
      exponents.Set(node->result(i), node->type(i).is_float() ? typing.result : 0);
    }
  }
  for (const ir::Output& output : graph.outputs()) {
    if (!exponents.IsScaled(output.value)) continue;
    return InvalidArgument("output %s: %%%s carries the loss scale to the power %s %s", output.name,
                           output.value.name(), Shown(exponents.Of(output.value)),
                           output.value.node->Place());
  }
  for (const ir::Update& update : graph.updates()) {
    if (!exponents.IsScaled(update.next)) continue;
    return InvalidArgument("update of %%%s: %%%s carries the loss scale to the power %s %s",
                           update.entry->name, update.next.name(), Shown(exponents.Of(update.next)),
                           update.next.node->Place());
  }
  return absl::OkStatus();
}

}  // namespace duotone::passes
