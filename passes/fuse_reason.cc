#include "passes/fuse_reason.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"
#include "passes/fuse_facts.h"

namespace duotone::passes {
namespace {

using ir::Node;
using ir::Value;

bool Computes(const Node& node) { return WorkKindOf(node) != WorkKind::kFree; }

// The names of ops, each once, in the order of the nodes; long lists are cut.
std::string OpNames(const std::vector<const Node*>& nodes) {
  constexpr size_t kMost = 5;
  std::vector<std::string> names;
  for (const Node* node : nodes) {
    std::string name(node->def().name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  const size_t left_out = names.size() > kMost ? names.size() - kMost : 0;
  if (left_out > 0) names.resize(kMost);
  std::string text = absl::StrJoin(names, ", ");
  if (left_out > 0) absl::StrAppendFormat(&text, " and %d more", left_out);
  return text;
}

// What stands in front of the product, behind it, and beside it.
std::string MatMulClause(const ir::Graph& body) {
  llvm::DenseSet<const Node*> after, before;
  const Node* product = nullptr;
  for (const auto& node : body.nodes()) {
    const bool follows = std::any_of(node->operands().begin(), node->operands().end(),
                                     [&](Value v) { return after.contains(v.node); });
    if (WorkKindOf(*node) == WorkKind::kMatMul) product = node.get();
    if (follows || node.get() == product) after.insert(node.get());
  }
  llvm::SmallVector<const Node*, 8> open = {product};
  while (!open.empty()) {
    for (Value operand : open.pop_back_val()->operands()) {
      if (before.insert(operand.node).second) open.push_back(operand.node);
    }
  }
  std::vector<const Node*> prologue, epilogue, beside;
  for (const auto& node : body.nodes()) {
    if (!Computes(*node) || node.get() == product) continue;
    const WorkKind kind = WorkKindOf(*node);
    if (kind == WorkKind::kReduce) {
      beside.push_back(node.get());
    } else if (before.contains(node.get())) {
      prologue.push_back(node.get());
    } else {
      epilogue.push_back(node.get());
    }
  }
  std::vector<std::string> clauses;
  if (!prologue.empty()) clauses.push_back(absl::StrCat(OpNames(prologue), " in the prologue"));
  if (!epilogue.empty()) clauses.push_back(absl::StrCat(OpNames(epilogue), " in the epilogue"));
  if (clauses.empty() && beside.empty()) return "a product alone";
  std::string text =
      clauses.empty() ? "" : absl::StrCat(absl::StrJoin(clauses, ", "), " of matmul");
  if (!beside.empty()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", OpNames(beside),
                    text.empty() ? " beside matmul" : " beside it");
  }
  return text;
}

std::string Clause(const ir::Graph& body, const FusionGroup& group) {
  if (group.family == Family::kMatMul) return MatMulClause(body);
  std::vector<const Node*> nodes;
  int64_t updates = 0;
  for (const auto& node : body.nodes()) {
    if (Computes(*node)) nodes.push_back(node.get());
    updates += WorkKindOf(*node) == WorkKind::kOptimizer ? 1 : 0;
  }
  const std::string names = nodes.empty() ? "a copy" : OpNames(nodes);
  switch (group.family) {
    case Family::kRow:
      if (group.length > 0) return absl::StrFormat("%s over rows of %d", names, group.length);
      return absl::StrFormat("%s over strided rows", names);
    case Family::kOptimizer:
      return absl::StrFormat("%s of %d parameters", names, updates);
    case Family::kPointwise:
      if (group.members.empty())
        return absl::StrFormat("%s of %d tensors", names, body.inputs().size());
      if (group.is_control) return absl::StrFormat("%d scalars of the step", nodes.size());
      return absl::StrFormat("%s over %d elements", names, group.elements);
    default:
      return names;
  }
}

}  // namespace

double BytesAlone(const Node& node) {
  if (!Computes(node)) return 0;
  llvm::SmallVector<Value, 4> read;
  double bytes = 0;
  for (Value operand : node.operands()) {
    // A constant is no memory; a view shows at most what it is a view of.
    double size = static_cast<double>(operand.type().bytes());
    while (WorkKindOf(*operand.node) == WorkKind::kFree && operand.node->operand_count() == 1) {
      operand = operand.node->operand(0);
      size = std::min(size, static_cast<double>(operand.type().bytes()));
    }
    if (operand.node->operand_count() == 0 && WorkKindOf(*operand.node) == WorkKind::kFree)
      continue;
    if (std::find(read.begin(), read.end(), operand) != read.end()) continue;
    read.push_back(operand);
    bytes += size;
  }
  for (const ir::Type& type : node.types()) bytes += static_cast<double>(type.bytes());
  return bytes;
}

std::string ByteText(double bytes) {
  if (bytes < 1000) return absl::StrFormat("%.0f B", bytes);
  const char* unit = "KB";
  for (const char* next : {"MB", "GB", "TB"}) {
    if (bytes / 1024 < 1000) break;
    bytes /= 1024;
    unit = next;
  }
  return absl::StrFormat("%.3g %s", bytes / 1024, unit);
}

std::string FusionReason(const ir::Graph& body, const FusionGroup& group) {
  double alone = 0, fused = 0;
  for (const auto& node : body.nodes()) alone += BytesAlone(*node);
  for (const Node* input : body.inputs()) fused += static_cast<double>(input->type().bytes());
  for (const ir::Output& output : body.outputs()) {
    fused += static_cast<double>(output.value.type().bytes());
  }
  std::string text = Clause(body, group);
  if (alone > fused) absl::StrAppend(&text, "; saves ", ByteText(alone - fused));
  return text;
}

}  // namespace duotone::passes
