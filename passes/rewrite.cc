#include "passes/rewrite.h"

#include "base/check.h"
#include "ir/interpreter.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::passes {

using ir::Graph;
using ir::Node;
using ir::Value;

void EraseDead(Graph& graph, Node* node) {
  llvm::SmallVector<Node*, 8> candidates = {node};
  while (!candidates.empty()) {
    Node* candidate = candidates.pop_back_val();
    const ir::Lower lower = candidate->def().lower;
    if (lower == ir::Lower::kSource && candidate->op() != ir::Op::kConstant) continue;
    if (!candidate->users().empty() || graph.IsRoot(candidate)) continue;
    // An operand that occurs twice is a candidate once: it is erased at most once.
    for (Value operand : candidate->operands()) {
      if (!llvm::is_contained(candidates, operand.node)) candidates.push_back(operand.node);
    }
    graph.Erase(candidate);
  }
}

void TakeName(Graph& graph, Value value, const std::string& name, uint64_t id) {
  const absl::Status renamed = graph.Rename(value, name);
  DUOTONE_CHECK(renamed.ok()) << renamed.ToString();
  value.node->set_id(id);
}

void ReplaceNode(Graph& graph, Node* node, Value value, bool take_name) {
  if (!IsOfAutocast(*node)) value.node->info().dtype_origin.clear();
  graph.ReplaceAllUses(node->result(), value);
  const std::string name = node->name();
  const uint64_t id = node->id();
  EraseDead(graph, node);
  if (take_name) TakeName(graph, value, name, id);
}

const ir::ConstantAttrs* ConstantOf(Value value) {
  if (value.node->op() != ir::Op::kConstant) return nullptr;
  return &value.node->attrs_as<ir::ConstantAttrs>();
}

std::optional<double> SplatOf(Value value) {
  const ir::ConstantAttrs* constant = ConstantOf(value);
  if (constant == nullptr || !constant->value.is_splat()) return std::nullopt;
  return ir::Array::Of({value.type().dtype, {}}, {constant->value.AsDouble(0)}).Get(0);
}

}  // namespace duotone::passes
