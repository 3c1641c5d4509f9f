#include "passes/sink_casts.h"

#include <algorithm>

#include "base/check.h"
#include "base/lossless.h"
#include "ir/emitter.h"
#include "ir/interpreter.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/rewrite.h"

namespace duotone::passes {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

// Nodes whose result elements are copies of elements of the operands that MovedOperands names.
bool MovesElements(const Node& node) {
  return node.def().lower == ir::Lower::kView || node.op() == ir::Op::kGather;
}

llvm::ArrayRef<Value> MovedOperands(const Node& node) {
  return node.op() == ir::Op::kConcat ? node.operands() : node.operands().take_front(1);
}

bool Holds(DType dtype, double value) {
  return ir::Array::Of({dtype, {}}, {value}).Get(0) == value;
}

// A pad also writes a value of its own, which the narrow type must hold.
bool CanMoveIn(const Node& node, DType narrow) {
  if (node.info().region == ir::Region::kOff) return false;
  const auto* pad = std::get_if<ir::PadAttrs>(&node.attrs());
  return pad == nullptr || Holds(narrow, pad->value);
}

double EstimateElements(const ir::Type& type) {
  constexpr double kNamedSize = 64;
  double count = 1;
  for (const ir::Dim& dim : type.shape) {
    count *= static_cast<double>(dim.coefficient());
    for (size_t i = 0; i < dim.names().size(); ++i) count *= kNamedSize;
  }
  return count;
}

double MovedElements(const Node& node) {
  double count = 0;
  for (Value operand : MovedOperands(node)) count += EstimateElements(operand.type());
  return count;
}

// `node` again, with other moved operands, in front of it.
Node* Rebuild(Graph& graph, Node* node, llvm::ArrayRef<Value> moved, std::string origin) {
  Graph::Spec spec{.op = node->op(), .attrs = node->attrs(), .info = node->info()};
  spec.operands.assign(moved.begin(), moved.end());
  for (Value operand : node->operands().drop_front(moved.size())) spec.operands.push_back(operand);
  spec.info.dtype_origin = std::move(origin);
  absl::StatusOr<Node*> rebuilt = graph.Add(std::move(spec), node);
  DUOTONE_CHECK(rebuilt.ok()) << rebuilt.status().ToString();
  return *rebuilt;
}

// The casts that the moved operands come from, if all are float casts from one type to another,
// `node` alone reads them, and the direction is the one asked for.
bool ReadsWideningCasts(const Graph& graph, const Node& node) {
  const Value first = node.operand(0);
  if (!IsCast(first)) return false;
  const DType narrow = first.node->operand(0).type().dtype;
  const DType wide = first.type().dtype;
  if (!IsFloat(narrow) || !IsFloat(wide) || !IsLossless(narrow, wide) || narrow == wide)
    return false;
  return llvm::all_of(MovedOperands(node), [&](Value operand) {
    return IsCast(operand) && operand.node->operand(0).type().dtype == narrow &&
           llvm::all_of(operand.node->users(), [&](const Node* user) { return user == &node; }) &&
           !graph.IsRoot(operand.node);
  });
}

bool Sink(Graph& graph, Node* node) {
  if (!MovesElements(*node) || node->operand_count() == 0 || !ReadsWideningCasts(graph, *node)) {
    return false;
  }
  Node* cast = node->operand(0).node;
  const DType narrow = cast->operand(0).type().dtype;
  const DType wide = cast->type().dtype;
  if (!CanMoveIn(*node, narrow)) return false;
  if (ByteSize(wide) * MovedElements(*node) <= ByteSize(narrow) * EstimateElements(node->type())) {
    return false;
  }
  llvm::SmallVector<Value, 4> narrow_operands;
  for (Value operand : MovedOperands(*node)) narrow_operands.push_back(operand.node->operand(0));
  const ir::NodeInfo cast_info = cast->info();
  const std::string cast_name = cast->name();
  const uint64_t cast_id = cast->id();
  Node* moved = Rebuild(graph, node, narrow_operands, cast_info.dtype_origin);
  const Value widened = ir::Emitter(graph, node, cast_info).Cast(moved->result(), wide);
  ReplaceNode(graph, node, widened, /*take_name=*/true);
  widened.node->info().dtype_origin = cast_info.dtype_origin;
  TakeName(graph, moved->result(), cast_name, cast_id);
  return true;
}

// The narrow type to which every reader of `node` casts its result; nothing if some reader does
// not.
std::optional<DType> NarrowedTo(const Graph& graph, const Node& node) {
  if (node.users().empty() || graph.IsRoot(&node)) return std::nullopt;
  std::optional<DType> narrow;
  for (const Node* user : node.users()) {
    if (user->op() != ir::Op::kCast) return std::nullopt;
    if (narrow && *narrow != user->type().dtype) return std::nullopt;
    narrow = user->type().dtype;
  }
  const DType wide = node.type().dtype;
  const bool narrows = IsFloat(*narrow) && IsFloat(wide) && ByteSize(*narrow) < ByteSize(wide);
  return narrows ? narrow : std::nullopt;
}

bool Hoist(Graph& graph, Node* node) {
  if (!MovesElements(*node) || node->operand_count() == 0) return false;
  const std::optional<DType> narrow = NarrowedTo(graph, *node);
  if (!narrow || !CanMoveIn(*node, *narrow)) return false;
  if (ByteSize(node->type().dtype) * EstimateElements(node->type()) <=
      ByteSize(*narrow) * MovedElements(*node)) {
    return false;
  }
  const llvm::SmallVector<Node*, 2> casts(node->users());
  // A user's cast among the readers keeps its promise to round, now at the operands.
  ir::NodeInfo info = casts[0]->info();
  for (const Node* cast : casts) {
    if (!IsOfAutocast(*cast)) info = cast->info();
  }
  ir::Emitter emit(graph, node, info);
  llvm::SmallVector<Value, 4> narrow_operands;
  for (Value operand : MovedOperands(*node)) {
    narrow_operands.push_back(emit.Cast(operand, *narrow, node->name()));
  }
  Node* moved = Rebuild(graph, node, narrow_operands, info.dtype_origin);
  const std::string name = casts[0]->name();
  const uint64_t id = casts[0]->id();
  for (Node* cast : casts) {
    graph.ReplaceAllUses(cast->result(), moved->result());
    graph.Erase(cast);
  }
  graph.Erase(node);
  TakeName(graph, moved->result(), name, id);
  return true;
}

}  // namespace

absl::StatusOr<bool> SinkCasts::RunOnGraph(Graph& graph, PassContext& ctx) const {
  int64_t sunk = 0;
  int64_t hoisted = 0;
  // Both walks erase only the node they stand on and casts, and meet the casts they moved at the
  // next node they come to.
  for (Node* node : graph.NodePointers()) {
    if (MovesElements(*node)) sunk += Sink(graph, node);
  }
  const std::vector<Node*> nodes = graph.NodePointers();
  for (Node* node : llvm::reverse(nodes)) {
    if (MovesElements(*node)) hoisted += Hoist(graph, node);
  }
  if (sunk > 0) ctx.stats()["sunk"] += sunk;
  if (hoisted > 0) ctx.stats()["hoisted"] += hoisted;
  return sunk + hoisted > 0;
}

}  // namespace duotone::passes
