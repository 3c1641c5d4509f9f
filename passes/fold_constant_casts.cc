#include "passes/fold_constant_casts.h"

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "ir/emitter.h"
#include "ir/interpreter.h"
#include "passes/representable.h"
#include "passes/rewrite.h"

namespace duotone::passes {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

constexpr char kOrigin[] = "autocast:constant";

double Round(DType dtype, double value) { return ir::Array::Of({dtype, {}}, {value}).Get(0); }

// The constant's numbers as they are after the cast.
ir::Literal RoundedTo(DType dtype, const ir::Literal& literal, DType from) {
  std::vector<double> values;
  for (size_t i = 0; i < literal.size(); ++i) {
    values.push_back(Round(dtype, Round(from, literal.AsDouble(i))));
  }
  return {std::move(values)};
}

bool Overflows(const ir::Literal& literal, DType dtype) {
  for (size_t i = 0; i < literal.size(); ++i) {
    if (FitIn(literal.AsDouble(i), dtype) == Fit::kOverflows) return true;
  }
  return false;
}

Value EmitConstant(Graph& graph, Node* before, ir::NodeInfo info, const ir::Type& type,
                   ir::Literal literal, std::string_view name) {
  ir::ConstantAttrs attrs;
  attrs.value = std::move(literal);
  attrs.result.type = type;
  return ir::Emitter(graph, before, std::move(info)).Emit(ir::Op::kConstant, {}, attrs, name);
}

bool ReadsNearestValue(const Node& reader, DType narrow, bool overflows) {
  const ir::Precision& precision = reader.def().precision;
  const ir::Tone tone = narrow == DType::kBF16 ? precision.bf16 : precision.f16;
  if (tone == ir::Tone::kClear) return true;
  return !overflows && reader.def().linear.kind == ir::Linearity::Kind::kJoint;
}

// Makes `reader` compute in the constant's wide type and casts its result back; false if its op has
// no such form.
bool ComputeWide(Graph& graph, Node* reader, Value cast, Value constant) {
  const DType narrow = cast.type().dtype;
  if (reader->result_count() != 1 || reader->type().dtype != narrow) return false;
  const DType wide = constant.type().dtype;
  llvm::SmallVector<ir::Type, 4> types;
  for (Value operand : reader->operands()) {
    const bool widened = operand.type().dtype == narrow;
    types.push_back(operand.type().WithDType(widened ? wide : operand.type().dtype));
  }
  ir::Attrs attrs = reader->attrs();
  const auto inferred = ir::InferTypes(reader->op(), types, attrs);
  if (!inferred.ok() || (*inferred)[0] != reader->type().WithDType(wide)) return false;

  ir::NodeInfo info = reader->info();
  info.dtype_origin = kOrigin;
  ir::Emitter emit(graph, reader, info);
  llvm::SmallVector<Value, 4> operands;
  for (Value operand : reader->operands()) {
    if (operand == cast) {
      operands.push_back(constant);
    } else {
      operands.push_back(operand.type().dtype == narrow ? emit.Cast(operand, wide) : operand);
    }
  }
  const Value result = emit.Emit(reader->op(), operands, attrs, reader->name());
  // A dtype of the user's always rounds.
  emit.info().dtype_origin = reader->info().dtype_origin.empty() ? "" : kOrigin;
  const Value narrowed = emit.Cast(result, narrow);
  graph.ReplaceAllUses(reader->result(), narrowed);
  const std::string name = reader->name();
  const uint64_t id = reader->id();
  graph.Erase(reader);
  TakeName(graph, narrowed, name, id);
  return true;
}

// Autocast narrowed a constant that its type cannot hold: each reader gets a form of its own.
bool FoldLostConstant(Graph& graph, Node* cast, const ir::Literal& literal, PassContext& ctx) {
  const DType narrow = cast->type().dtype;
  const bool overflows = Overflows(literal, narrow);
  Value clamped;  // made for the first reader that takes it
  bool changed = false;
  const llvm::SmallVector<Node*, 4> readers(cast->users());
  for (Node* reader : readers) {
    // A reader with two such operands occurs twice, and is gone the second time.
    if (!llvm::is_contained(cast->users(), reader)) continue;
    if (!ReadsNearestValue(*reader, narrow, overflows) &&
        ComputeWide(graph, reader, cast->result(), cast->operand(0))) {
      ++ctx.stats()["kept wide"];
      changed = true;
      continue;
    }
    if (!clamped) {
      clamped = EmitConstant(graph, cast, cast->info(), cast->type(), ClampTo(literal, narrow),
                             cast->name());
    }
    if (overflows) {
      ctx.Warn(absl::StrFormat("constant %%%s: %s; %%%s reads the nearest finite value",
                               cast->operand(0).name(), MisfitOf(literal, narrow), reader->name()));
    }
    for (int i = 0; i < reader->operand_count(); ++i) {
      if (reader->operand(i) == cast->result()) graph.SetOperand(reader, i, clamped);
    }
    ++ctx.stats()["clamped constants"];
    changed = true;
  }
  if (cast->users().empty() && !graph.IsRoot(cast)) {
    const std::string name = cast->name();
    const uint64_t id = cast->id();
    EraseDead(graph, cast);
    if (clamped) TakeName(graph, clamped, name, id);
  }
  return changed;
}

}  // namespace

bool FoldConstantCast(Graph& graph, Node* cast, PassContext& ctx) {
  const ir::ConstantAttrs* constant = ConstantOf(cast->operand(0));
  DUOTONE_CHECK(constant != nullptr) << cast->name();
  const DType from = cast->operand(0).type().dtype;
  const DType to = cast->type().dtype;
  // Doubles hold every value of these types; a float that becomes an integer is left to the device.
  if (!IsFloat(to) || from == DType::kI64) return false;
  const bool lost = IsLow(to) && FitIn(constant->value, to) != Fit::kFits;
  if (IsOfAutocast(*cast) && lost) return FoldLostConstant(graph, cast, constant->value, ctx);
  const Value folded = EmitConstant(graph, cast, cast->info(), cast->type(),
                                    RoundedTo(to, constant->value, from), cast->name());
  ReplaceNode(graph, cast, folded, /*take_name=*/true);
  ++ctx.stats()["folded constants"];
  return true;
}

}  // namespace duotone::passes
