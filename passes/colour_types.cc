#include "passes/colour_types.h"

#include <algorithm>

#include "base/status.h"
#include "llvm/ADT/DenseSet.h"

namespace duotone::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;
using DTypes = llvm::SmallVector<DType, 3>;

bool HasUnsetOut(const Node& node) {
  ir::Attrs attrs = node.attrs();
  std::optional<DType>* out = OutField(attrs);
  return out != nullptr && !out->has_value();
}

// f32 if the two differ: f16 and bf16 have no common 16-bit type.
DType Widest(DType a, DType b) { return a == b ? a : DType::kF32; }

// How a value counts in PyTorch's type promotion: only the highest rank among the operands decides.
enum class PromotionRank { kNumber, kScalarTensor, kTensor };

PromotionRank RankOf(Value value) {
  while (value.node->op() == Op::kBroadcast && value.type().rank() > 0) {
    value = value.node->operand(0);
  }
  if (value.node->op() == Op::kConstant &&
      value.node->attrs_as<ir::ConstantAttrs>().value.is_splat()) {
    return PromotionRank::kNumber;
  }
  return value.type().is_scalar() ? PromotionRank::kScalarTensor : PromotionRank::kTensor;
}

class TypeAssigner {
 public:
  TypeAssigner(const ir::Graph& graph, Colouring& colouring)
      : graph_(graph), colouring_(colouring) {
    for (const ir::Output& output : graph.outputs()) roots_.insert(output.value.node);
    for (const ir::Update& update : graph.updates()) roots_.insert(update.next.node);
  }

  absl::Status Run() {
    for (const auto& owned : graph_.nodes()) {
      const Node& node = *owned;
      NodeColour& colour = colouring_.nodes[&node];
      colour.reads = Wanted(node, colour);
      if (Infer(node, colour)) continue;
      // The op does not take these operands: it keeps the ones it was built with.
      colour.rule = Rule::kNoLowForm;
      colour.out.reset();
      colour.reads = Original(node);
      if (!Infer(node, colour)) {
        return Internal("autocast: no types for %s %s", node.def().name, node.Place());
      }
    }
    return absl::OkStatus();
  }

 private:
  DType Stored(Value value) const {
    auto it = colouring_.nodes.find(value.node);
    return it == colouring_.nodes.end() ? value.type().dtype : it->second.writes[value.index];
  }

  DTypes Original(const Node& node) const {
    DTypes dtypes;
    for (Value operand : node.operands()) dtypes.push_back(operand.type().dtype);
    return dtypes;
  }
  DTypes AsStored(const Node& node) const {
    DTypes dtypes;
    for (Value operand : node.operands()) dtypes.push_back(Stored(operand));
    return dtypes;
  }
  // `dtype` for the castable operands, the rest as the node was built.
  DTypes Castable(const Node& node, DType dtype) const {
    DTypes dtypes = Original(node);
    for (int i = 0; i < node.operand_count(); ++i) {
      if (IsCastable(node, i)) dtypes[i] = dtype;
    }
    return dtypes;
  }

  absl::StatusOr<ir::Types> TypesWith(const Node& node, llvm::ArrayRef<DType> reads,
                                      std::optional<DType> out) const {
    llvm::SmallVector<ir::Type, 4> operands;
    for (int i = 0; i < node.operand_count(); ++i) {
      operands.push_back(node.operand(i).type().WithDType(reads[i]));
    }
    ir::Attrs attrs = node.attrs();
    if (out) *OutField(attrs) = out;
    return ir::InferTypes(node.op(), operands, attrs);
  }

  // Fills in `writes`; false if the op does not take the operands.
  bool Infer(const Node& node, NodeColour& colour) const {
    absl::StatusOr<ir::Types> types = TypesWith(node, colour.reads, colour.out);
    if (!types.ok()) return false;
    colour.writes.clear();
    for (const ir::Type& type : *types) colour.writes.push_back(type.dtype);
    return true;
  }

  DTypes Wanted(const Node& node, NodeColour& colour) const {
    if (ReadsLow(colour.rule)) return WantedLow(node, colour);
    if (ReadsF32(colour.rule)) return WantedF32(node, colour);
    switch (colour.rule) {
      case Rule::kTorchLower:
        return Castable(node, colour.low_dtype);
      case Rule::kTorchFp32:
        return Castable(node, DType::kF32);
      case Rule::kTorchFp32Out:
        return WantedFp32Out(node, colour);
      case Rule::kTorchPromote:
        return WantedPromoted(node, colour.low_dtype);
      case Rule::kTorchNative:
        return WantedNative(node);
      case Rule::kFixed:
        return WantedFixed(node);
      default:
        return Original(node);
    }
  }

  DTypes WantedLow(const Node& node, NodeColour& colour) const {
    DTypes reads = Castable(node, colour.low_dtype);
    // Widening is free in the op itself, so a result that is only read in f32 is written in f32.
    if (HasUnsetOut(node) && OnlyReadInF32(node)) {
      absl::StatusOr<ir::Types> plain = TypesWith(node, reads, std::nullopt);
      if (plain.ok() && IsLow((*plain)[0].dtype)) colour.out = DType::kF32;
    }
    return reads;
  }

  DTypes WantedF32(const Node& node, NodeColour& colour) const {
    // A reduction of a 16-bit value accumulates in f32: reading it as stored and writing f32 gives
    // the same bits as casting it first, without the cast.
    const int position = OnlyCastable(node);
    if (position >= 0 && IsLow(Stored(node.operand(position))) &&
        node.operand(position).type().dtype == DType::kF32 && HasUnsetOut(node)) {
      colour.out = DType::kF32;
      return Castable(node, Stored(node.operand(position)));
    }
    return Castable(node, DType::kF32);
  }

  DTypes WantedFp32Out(const Node& node, NodeColour& colour) const {
    ir::Attrs attrs = node.attrs();
    std::optional<DType>* out = OutField(attrs);
    if (out == nullptr) return Castable(node, DType::kF32);
    DTypes reads = WantedNative(node);
    // An `out` of the user's is respected.
    if (!out->has_value() && IsLow(reads[0])) colour.out = DType::kF32;
    return reads;
  }

  // The type of PyTorch's promote list: the widest of `low` and all operands but f64 ones.
  DTypes WantedPromoted(const Node& node, DType low) const {
    DType widest = low;
    for (Value operand : node.operands()) {
      const DType stored = Stored(operand);
      if (IsFloat(stored) && stored != DType::kF64) widest = Widest(widest, stored);
    }
    return Castable(node, widest);
  }

  // PyTorch's type promotion: the widest of the castable operands that count.
  DTypes WantedNative(const Node& node) const {
    PromotionRank highest = PromotionRank::kNumber;
    for (int i = 0; i < node.operand_count(); ++i) {
      if (IsCastable(node, i)) highest = std::max(highest, RankOf(node.operand(i)));
    }
    std::optional<DType> widest;
    for (int i = 0; i < node.operand_count(); ++i) {
      if (!IsCastable(node, i) || RankOf(node.operand(i)) < highest) continue;
      const DType stored = Stored(node.operand(i));
      widest = widest ? Widest(*widest, stored) : stored;
    }
    return widest ? Castable(node, *widest) : Original(node);
  }

  // An op that autocast never touches takes values as they are stored if its results stay the same.
  DTypes WantedFixed(const Node& node) const {
    DTypes stored = AsStored(node);
    // The xs of a gradient name values: a cast of one would be another value, on which the loss
    // does not depend. Its y is the seed's type, which must hold the loss scale.
    if (node.op() == Op::kGradient) {
      stored[0] = node.operand(0).type().dtype;
      return stored;
    }
    absl::StatusOr<ir::Types> types = TypesWith(node, stored, std::nullopt);
    if (!types.ok()) return Original(node);
    for (int i = 0; i < node.result_count(); ++i) {
      if ((*types)[i].dtype != node.type(i).dtype) return Original(node);
    }
    return stored;
  }

  // The position of the only castable operand, or -1 if there are several or none.
  static int OnlyCastable(const Node& node) {
    int found = -1;
    for (int i = 0; i < node.operand_count(); ++i) {
      if (!IsCastable(node, i)) continue;
      if (found >= 0) return -1;
      found = i;
    }
    return found;
  }

  // True if the first result is read in f32 and in no 16-bit type. Nodes that take it either way do
  // not count.
  bool OnlyReadInF32(const Node& node) const {
    bool in_f32 = roots_.contains(&node);
    for (const Node* reader : node.users()) {
      const NodeColour& colour = colouring_.nodes.find(reader)->second;
      for (int i = 0; i < reader->operand_count(); ++i) {
        if (reader->operand(i).node != &node || reader->operand(i).index != 0) continue;
        if (ReadsLow(colour.rule) && IsCastable(*reader, i)) return false;
        const bool takes_either =
            colour.rule == Rule::kFixed || (OnlyCastable(*reader) == i && HasUnsetOut(*reader));
        in_f32 |= !takes_either;
      }
    }
    return in_f32;
  }

  const ir::Graph& graph_;
  Colouring& colouring_;
  llvm::DenseSet<const Node*> roots_;
};

}  // namespace

std::optional<DType>* OutField(ir::Attrs& attrs) {
  std::optional<DType>* out = nullptr;
  ir::ForEachField(attrs, [&](std::string_view name, auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, std::optional<DType>>) {
      if (name == "out") out = &member;
    }
  });
  return out;
}

bool ReadsLow(Rule rule) {
  return rule == Rule::kAllow || rule == Rule::kBetween || rule == Rule::kFollow ||
         rule == Rule::kClear;
}

bool ReadsF32(Rule rule) {
  return rule == Rule::kDeny || rule == Rule::kDownstream || rule == Rule::kConstant ||
         rule == Rule::kAttribute || rule == Rule::kAlone || rule == Rule::kNone ||
         rule == Rule::kMixed;
}

absl::Status AssignTypes(const ir::Graph& graph, Colouring& colouring) {
  return TypeAssigner(graph, colouring).Run();
}

}  // namespace duotone::passes
