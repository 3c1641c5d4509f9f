#include "passes/autocast.h"

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/status.h"
#include "ir/emitter.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "passes/colour.h"
#include "passes/colour_types.h"
#include "passes/precision_overrides.h"
#include "passes/representable.h"

namespace duotone::passes {
namespace {

using ir::Node;
using ir::Value;

// Carries a colouring out on its graph.
class CastInserter {
 public:
  CastInserter(ir::Graph& graph, const Colouring& colouring, PassContext& ctx)
      : graph_(graph), colouring_(colouring), ctx_(ctx), order_(graph.NodePointers()) {
    for (size_t i = 0; i < order_.size(); ++i) {
      next_[order_[i]] = i + 1 < order_.size() ? order_[i + 1] : nullptr;
    }
  }

  absl::StatusOr<bool> Run() {
    // The roots' declared types, before anything changes.
    std::vector<DType> outputs;
    for (const ir::Output& output : graph_.outputs()) outputs.push_back(output.value.type().dtype);
    std::vector<DType> updates;
    for (const ir::Update& update : graph_.updates()) updates.push_back(update.next.type().dtype);
    for (Node* node : order_) DUOTONE_RETURN_IF_ERROR(Apply(node));
    for (size_t i = 0; i < outputs.size(); ++i) {
      Value& value = graph_.outputs()[i].value;
      value = InType(value, outputs[i], Rule::kOutput);
    }
    for (size_t i = 0; i < updates.size(); ++i) {
      Value& next = graph_.updates()[i].next;
      next = InType(next, updates[i], Rule::kOutput);
    }
    RenameTwins();
    return changed_;
  }

 private:
  absl::Status Apply(Node* node) {
    const NodeColour& colour = colouring_.nodes.find(node)->second;
    llvm::SmallVector<DType, 2> before;
    for (const ir::Type& type : node->types()) before.push_back(type.dtype);
    bool narrowed = false;
    for (int i = 0; i < node->operand_count(); ++i) {
      const Value operand = node->operand(i);
      narrowed |= IsLow(colour.reads[i]) && OriginalDType(operand) != colour.reads[i];
      const Value in_type = InType(operand, colour.reads[i], colour.rule);
      if (!(in_type == operand)) graph_.SetOperand(node, i, in_type);
    }
    if (colour.out) {
      ir::Attrs attrs = node->attrs();
      *OutField(attrs) = colour.out;
      DUOTONE_RETURN_IF_ERROR(graph_.SetAttrs(node, std::move(attrs))).With("autocast");
    } else {
      DUOTONE_RETURN_IF_ERROR(graph_.Reinfer(node)).With("autocast");
    }
    bool retyped = colour.out.has_value();
    for (int i = 0; i < node->result_count(); ++i) {
      DUOTONE_CHECK(node->type(i).dtype == colour.writes[i]) << node->name();
      retyped |= node->type(i).dtype != before[i];
    }
    // A fixed op that takes a 16-bit value as it is stored keeps its own types.
    if (retyped || (narrowed && colour.rule != Rule::kFixed)) {
      node->info().dtype_origin = OriginOf(colour.rule);
      changed_ = true;
    }
    return absl::OkStatus();
  }

  // The value in `dtype`: itself, or its one cast.
  Value InType(Value value, DType dtype, Rule rule) {
    if (value.type().dtype == dtype) return value;
    Value& cast = casts_[{{value.node, value.index}, static_cast<int>(dtype)}];
    if (cast) return cast;
    changed_ = true;
    ir::NodeInfo info{.loc = value.node->info().loc,
                      .scope = value.node->info().scope,
                      .dtype_origin = OriginOf(rule)};
    ir::Emitter emit(graph_, Behind(value.node), std::move(info));
    const std::string name = absl::StrFormat("%s.%s", value.name(), DTypeName(dtype));
    if (value.node->op() == ir::Op::kConstant && IsLow(dtype)) {
      cast = Twin(emit, value, dtype, name);
    } else {
      cast = emit.Cast(value, dtype, name);
      ctx_.stats()["casts"] += 1;
    }
    return cast;
  }

  // The node in front of which a cast of the definition's result goes.
  Node* Behind(const Node* definition) const {
    auto it = next_.find(definition);
    if (it != next_.end()) return it->second;
    return order_.empty() ? nullptr : order_.front();  // an input or a state entry
  }

  Value Twin(ir::Emitter& emit, Value constant, DType dtype, std::string_view name) {
    ir::ConstantAttrs attrs = constant.node->attrs_as<ir::ConstantAttrs>();
    const std::string misfit = MisfitOf(attrs.value, dtype);
    if (!misfit.empty()) {
      attrs.value = ClampTo(attrs.value, dtype);
      ctx_.Warn(
          absl::StrFormat("constant %%%s: %s, so its nearest finite non-zero number is used %s",
                          constant.name(), misfit, constant.node->Place()));
    }
    attrs.result.type.dtype = dtype;
    const Value twin = emit.Emit(ir::Op::kConstant, {}, std::move(attrs), name);
    twins_.push_back({constant.node, twin});
    return twin;
  }

  // A constant that nobody reads any more leaves its name to its twin.
  void RenameTwins() {
    llvm::DenseSet<const Node*> erased;
    for (const auto& [constant, twin] : twins_) {
      if (erased.contains(constant)) continue;
      if (!constant->users().empty() || graph_.IsRoot(constant)) continue;
      const std::string name = constant->name();
      graph_.Erase(constant);
      erased.insert(constant);
      DUOTONE_CHECK(graph_.Rename(twin, name).ok()) << name;
      twin.node->set_id(Fnv1a(name));
    }
  }

  using ValueInType = std::pair<std::pair<const Node*, int>, int>;

  ir::Graph& graph_;
  const Colouring& colouring_;
  PassContext& ctx_;
  std::vector<Node*> order_;
  llvm::DenseMap<const Node*, Node*> next_;
  llvm::DenseMap<ValueInType, Value> casts_;
  std::vector<std::pair<Node*, Value>> twins_;
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> Autocast::Run(ir::Module& module, PassContext& ctx) const {
  if (!options_.dtype) return false;
  DUOTONE_RETURN_IF_ERROR(CheckOverrides(options_));
  bool changed = false;
  bool coloured_any = false;
  std::vector<bool> used(options_.overrides.size());
  for (const auto& graph : module.graphs()) {
    if (IsColoured(*graph)) continue;
    absl::StatusOr<Colouring> colouring = Colour(*graph, options_);
    DUOTONE_RETURN_IF_ERROR(colouring).With("graph @%s", graph->name());
    absl::StatusOr<bool> graph_changed = CastInserter(*graph, *colouring, ctx).Run();
    DUOTONE_RETURN_IF_ERROR(graph_changed).With("graph @%s", graph->name());
    changed |= *graph_changed;
    coloured_any = true;
    for (size_t i = 0; i < used.size(); ++i) {
      used[i] = used[i] || colouring->override_used[i];
    }
  }
  for (size_t i = 0; coloured_any && i < used.size(); ++i) {
    if (used[i]) continue;
    ctx.Warn(absl::StrFormat("autocast: the override of %s decided nothing",
                             PrecisionOverrides::Describe(options_.overrides[i])));
  }
  return changed;
}

}  // namespace duotone::passes
