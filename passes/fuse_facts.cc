#include "passes/fuse_facts.h"

#include <algorithm>

#include "base/check.h"
#include "ir/op_util.h"

namespace duotone::passes {
namespace {

using ir::Lower;
using ir::Node;
using ir::Op;

// Operands and results of the composites: f full, r per row, c per column, s scalar, a across all
// rows.
struct Composite {
  Op op;
  std::string_view operands;
  std::string_view results;
};
constexpr Composite kComposites[] = {
    {Op::kSoftmax, "f", "f"},
    {Op::kLogSoftmax, "f", "f"},
    {Op::kLogSumExp, "f", "r"},
    {Op::kLayerNorm, "fcc", "frr"},
    {Op::kSoftmaxGrad, "ff", "f"},
    {Op::kLogSoftmaxGrad, "ff", "f"},
    {Op::kLayerNormGrad, "fcrrf", "faa"},
    {Op::kCrossEntropy, "fr", "ar"},
    {Op::kMseLoss, "ff", "a"},
    {Op::kBceWithLogits, "ff", "a"},
    {Op::kCrossEntropyGrad, "frrs", "f"},
};

const Composite& CompositeOf(const Node& node) {
  const auto* row = std::find_if(std::begin(kComposites), std::end(kComposites),
                                 [&](const Composite& c) { return c.op == node.op(); });
  DUOTONE_CHECK(row != std::end(kComposites)) << node.def().name;
  return *row;
}

Role RoleOf(char letter) {
  switch (letter) {
    case 'f':
      return Role::kFull;
    case 'r':
      return Role::kRow;
    case 'c':
      return Role::kColumn;
    case 's':
      return Role::kScalar;
    default:
      return Role::kAcross;
  }
}

// The rows of a reduction over `axes`; axes of size 1 do not matter.
RowShape RowShapeOver(const ir::Type& type, llvm::ArrayRef<int64_t> axes) {
  int64_t reduced = 1, kept = 1;
  bool kept_after_reduced = false, reduced_after_kept = false;
  for (int axis = 0; axis < type.rank(); ++axis) {
    const int64_t size = type.shape[axis].size();
    if (size == 1) continue;
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
      reduced_after_kept |= kept != 1;
      reduced *= size;
    } else {
      kept_after_reduced |= reduced != 1;
      kept *= size;
    }
  }
  if (kept_after_reduced && reduced_after_kept) {
    return {RowShape::Form::kOther, kept, reduced};
  }
  if (kept_after_reduced) return {RowShape::Form::kLeading, reduced, kept};
  return {RowShape::Form::kTrailing, kept, reduced};
}

// Sums over leading axes are column sums; anything else over leading axes works on strided rows.
RowShape AsRows(RowShape shape) {
  if (shape.form != RowShape::Form::kLeading) return shape;
  return {RowShape::Form::kOther, shape.length, shape.rows};
}

RowShape RowShapeOfComposite(const Node& node) {
  const Composite& composite = CompositeOf(node);
  const ir::Type& type = node.operand(0).type();
  if (const auto* softmax = std::get_if<ir::SoftmaxAttrs>(&node.attrs())) {
    return AsRows(RowShapeOver(type, {softmax->axis}));
  }
  if (const auto* reduce = std::get_if<ir::ReduceAttrs>(&node.attrs())) {
    return AsRows(RowShapeOver(type, reduce->axes));
  }
  if (composite.results == "a") return {RowShape::Form::kTotal, 1, type.elements()};
  // The axes that the norm's parameters cover, or the classes.
  const size_t column = composite.operands.find('c');
  const int64_t length = column != std::string_view::npos
                             ? node.operand(static_cast<int>(column)).type().elements()
                             : type.shape.back().size();
  return {RowShape::Form::kTrailing, length == 0 ? 0 : type.elements() / length, length};
}

}  // namespace

WorkKind WorkKindOf(const Node& node) {
  switch (node.def().lower) {
    case Lower::kSource:
      return WorkKind::kSource;
    case Lower::kExpanded:
      return WorkKind::kUnexpanded;
    case Lower::kElementwise:
      return node.operand_count() == 0 ? WorkKind::kFree : WorkKind::kElementwise;
    case Lower::kView:
      return WorkKind::kFree;
    case Lower::kRandom:
    case Lower::kHost:
      return WorkKind::kElementwise;
    case Lower::kReduce:
      return node.op() == Op::kAllFinite ? WorkKind::kAllFinite : WorkKind::kReduce;
    case Lower::kRow:
      return WorkKind::kRow;
    case Lower::kMatMul:
      return WorkKind::kMatMul;
    case Lower::kGather:
      return node.op() == Op::kGather ? WorkKind::kGather : WorkKind::kScatter;
    case Lower::kOptimizer:
      return WorkKind::kOptimizer;
    case Lower::kFused:
      return WorkKind::kFusion;
  }
  return WorkKind::kUnexpanded;
}

double FlopsPerElement(const Node& node) {
  llvm::SmallVector<ir::Type, 4> operands;
  for (ir::Value operand : node.operands()) operands.push_back(operand.type());
  const double flops = node.def().cost(operands, node.types(), node.attrs()).flops;
  return flops / static_cast<double>(std::max<int64_t>(1, node.type().elements()));
}

bool IsExpensive(const Node& node) {
  const Lower lower = node.def().lower;
  return lower == Lower::kRandom || lower == Lower::kHost ||
         FlopsPerElement(node) >= ir::kTranscendentalFlops;
}

int64_t ViewDivisor(const Node& node) {
  if (node.operand_count() != 1) return 0;
  const ir::Type& from = node.operand(0).type();
  const ir::Type& to = node.type();
  if (node.def().keeps_bytes && from.dtype == to.dtype) return 1;
  if (const auto* transpose = std::get_if<ir::TransposeAttrs>(&node.attrs())) {
    // Only axes of size 1 may have moved.
    int64_t last = -1;
    for (int64_t axis : transpose->perm) {
      if (from.shape[axis].size() == 1) continue;
      if (axis < last) return 0;
      last = axis;
    }
    return 1;
  }
  const auto* broadcast = std::get_if<ir::BroadcastAttrs>(&node.attrs());
  if (broadcast == nullptr) return node.op() == Op::kSlice && from == to ? 1 : 0;
  int64_t repeated = 1;
  for (int axis = 0, next = 0; axis < to.rank(); ++axis) {
    const bool mapped =
        next < static_cast<int>(broadcast->dims.size()) && broadcast->dims[next] == axis;
    const int64_t operand_size = mapped ? from.shape[next].size() : 1;
    next += mapped ? 1 : 0;
    const int64_t size = to.shape[axis].size();
    if (size == 1) continue;
    if (operand_size == 1) {
      repeated *= size;
    } else if (repeated != 1) {
      return 0;
    }
  }
  return repeated;
}

RowShape RowShapeOf(const Node& node) {
  if (WorkKindOf(node) == WorkKind::kRow) return RowShapeOfComposite(node);
  const ir::Type& type = node.operand(0).type();
  if (const auto* argmax = std::get_if<ir::AxisAttrs>(&node.attrs())) {
    return AsRows(RowShapeOver(type, {argmax->axis}));
  }
  const RowShape shape = RowShapeOver(type, std::get<ir::ReduceAttrs>(node.attrs()).axes);
  if (node.type().elements() != 1) return shape;
  return {RowShape::Form::kTotal, 1, type.elements()};
}

Role OperandRole(const Node& node, int i) {
  if (WorkKindOf(node) == WorkKind::kReduce) return Role::kFull;
  return RoleOf(CompositeOf(node).operands[i]);
}

Role ResultRole(const Node& node, int i) {
  if (WorkKindOf(node) == WorkKind::kRow) return RoleOf(CompositeOf(node).results[i]);
  const RowShape::Form form = RowShapeOf(node).form;
  const bool across = form == RowShape::Form::kLeading || form == RowShape::Form::kTotal;
  return across ? Role::kAcross : Role::kRow;
}

}  // namespace duotone::passes
