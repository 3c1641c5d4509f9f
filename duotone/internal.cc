#include "duotone/internal.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace duotone::internal {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// True if the finite `number` becomes an infinity or leaves the integers of `dtype`.
bool Overflows(DType dtype, double number) {
  if (IsFloat(dtype)) {
    if (!std::isfinite(number)) return false;
    if (dtype == DType::kF16) return std::abs(number) >= 65520.0;
    if (dtype == DType::kBF16) return std::abs(number) >= 0x1.ffp127;
    return dtype != DType::kF64 && std::abs(number) > double{std::numeric_limits<float>::max()};
  }
  switch (dtype) {
    case DType::kI32:
      return number < -2147483648.0 || number > 2147483647.0;
    case DType::kU8:
      return number < 0 || number > 255;
    case DType::kBool:
      return number != 0 && number != 1;
    default:
      return !(std::abs(number) < 9.2e18);
  }
}

}  // namespace

BuilderState::BuilderState(std::string_view name)
    : name(name), module(std::make_unique<ir::Module>(std::string(name))) {
  graph = *module->AddGraph("loss");
}

void BuilderState::Fail(Loc loc, std::string_view what, std::string_view message) {
  if (!error.ok()) return;
  const std::string place = loc.ToString();
  error = InvalidArgument("%s%s%s%s%s", place, place.empty() ? "" : ": ", what,
                          what.empty() ? "" : ": ", message);
}

Value Access::Make(std::shared_ptr<BuilderState> state, ir::Value value) {
  Value made;
  made.id_ = static_cast<int>(state->values.size());
  state->values.push_back(value);
  made.builder_ = std::move(state);
  return made;
}

Value Access::Failed(std::shared_ptr<BuilderState> state) {
  Value made;
  made.builder_ = std::move(state);
  return made;
}

Model Access::MakeModel(std::unique_ptr<const ir::Module> module) {
  Model model;
  model.data_ = std::make_shared<const ModelData>(ModelData{std::move(module)});
  return model;
}

bool IsName(std::string_view name) {
  return !name.empty() && IsLetter(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '.';
  });
}

absl::StatusOr<ir::Dim> ToDim(const Size& size) {
  ir::Dim dim = 1;
  for (absl::string_view part : absl::StrSplit(size.ToString(), '*')) {
    part = absl::StripAsciiWhitespace(part);
    const std::string factor(part);
    ir::Dim next;
    if (!factor.empty() && (IsDigit(factor[0]) || factor[0] == '-')) {
      int64_t number = 0;
      if (!absl::SimpleAtoi(factor, &number) || number > ir::kMaxElements) {
        return InvalidArgument("the size '%s' is no number up to 2^56", factor);
      }
      if (number < 0) return InvalidArgument("the size %d is negative", number);
      next = number;
    } else if (IsName(factor) && factor.find('.') == factor.npos) {
      next = ir::Dim::Named(factor);
    } else {
      return InvalidArgument("the size '%s' is neither a number nor a name", size.ToString());
    }
    std::optional<ir::Dim> product = dim.Times(next);
    if (!product) return InvalidArgument("the size %s is above 2^56", size.ToString());
    dim = *product;
  }
  return dim;
}

absl::StatusOr<ir::Shape> ToShape(const std::vector<Size>& shape) {
  if (shape.size() > static_cast<size_t>(ir::kMaxRank)) {
    return InvalidArgument("a shape has at most %d axes, not %d", ir::kMaxRank, shape.size());
  }
  ir::Shape result;
  for (const Size& size : shape) {
    DUOTONE_ASSIGN_OR_RETURN(ir::Dim dim, ToDim(size));
    result.push_back(std::move(dim));
  }
  DUOTONE_RETURN_IF_ERROR(ir::ElementCount(result));
  return result;
}

absl::StatusOr<ir::Type> ToType(const TensorType& type) {
  DUOTONE_ASSIGN_OR_RETURN(ir::Shape shape, ToShape(type.shape));
  return ir::Type{type.dtype, std::move(shape)};
}

TensorType FromType(const ir::Type& type) {
  TensorType result{type.dtype, {}};
  for (const ir::Dim& dim : type.shape) result.shape.emplace_back(dim.ToString());
  return result;
}

absl::StatusOr<const ir::Graph*> ForwardGraph(const ir::Module& module, std::string_view name) {
  if (module.graphs().empty()) return InvalidArgument("module @%s has no graph", module.name());
  if (!name.empty()) {
    if (const ir::Graph* graph = module.FindGraph(name)) return graph;
    return NotFound("module @%s has no graph @%s", module.name(), name);
  }
  if (module.graphs().size() == 1) return module.graphs()[0].get();
  for (std::string_view usual : {"step", "loss", "main"}) {  // @step: a dump of a training module
    if (const ir::Graph* graph = module.FindGraph(usual)) return graph;
  }
  return InvalidArgument("module @%s has %d graphs and none is called @loss or @main: name one",
                         module.name(), module.graphs().size());
}

absl::StatusOr<ir::Shape> BroadcastShapes(llvm::ArrayRef<ir::Dim> a, llvm::ArrayRef<ir::Dim> b) {
  const size_t rank = std::max(a.size(), b.size());
  ir::Shape result(rank);
  for (size_t i = 0; i < rank; ++i) {  // from the last axis
    const ir::Dim left = i < a.size() ? a[a.size() - 1 - i] : ir::Dim(1);
    const ir::Dim right = i < b.size() ? b[b.size() - 1 - i] : ir::Dim(1);
    if (left != right && left != ir::Dim(1) && right != ir::Dim(1)) {
      return InvalidArgument("shapes %s and %s do not broadcast: %s meets %s", ir::ToString(a),
                             ir::ToString(b), left.ToString(), right.ToString());
    }
    result[rank - 1 - i] = left == ir::Dim(1) ? right : left;
  }
  return result;
}

std::optional<DType> PromotedDType(DType a, DType b) {
  if (a == b) return a;
  if (IsFloat(a) && IsFloat(b)) {
    return a == DType::kF64 || b == DType::kF64 ? DType::kF64 : DType::kF32;
  }
  if (IsInteger(a) && IsInteger(b)) return ByteSize(a) > ByteSize(b) ? a : b;
  return std::nullopt;
}

Call::Call(std::string_view what, Loc loc, llvm::ArrayRef<const Value*> operands)
    : what_(what), loc_(loc) {
  for (const Value* operand : operands) {
    if (state_ == nullptr) state_ = Access::State(*operand);
  }
  ok_ = state_ != nullptr && state_->error.ok();
  if (!ok_) return;
  for (const Value* operand : operands) {
    const std::shared_ptr<BuilderState>& other = Access::State(*operand);
    if (other == nullptr) {
      Fail("an operand is a default-constructed Value");
      return;
    }
    if (other != state_) {
      const std::string message = absl::StrFormat(
          "the operands belong to two builders, '%s' and '%s'", state_->name, other->name);
      other->Fail(loc_, what_, message);
      Fail(std::string_view(message));
      return;
    }
    if (state_->module == nullptr) {
      Fail("the builder's graph has been built already");
      return;
    }
    const int id = Access::Id(*operand);
    if (id < 0) {  // an earlier call failed
      ok_ = false;
      return;
    }
    operands_.push_back(state_->values[id]);
  }
}

Call::Call(std::string_view what, Loc loc, std::shared_ptr<BuilderState> state)
    : what_(what), loc_(loc), state_(std::move(state)) {
  ok_ = state_ != nullptr && state_->error.ok();
  if (ok_ && state_->module == nullptr) Fail("the builder's graph has been built already");
}

void Call::Fail(std::string_view message) {
  ok_ = false;
  if (state_ != nullptr) state_->Fail(loc_, what_, message);
}

ir::Node* Call::EmitNode(ir::Op op, llvm::ArrayRef<ir::Value> operands, ir::Attrs attrs) {
  if (!ok_) return nullptr;
  if (attrs.index() == 0) attrs = ir::DefaultAttrs(ir::DefOf(op).attrs);
  llvm::SmallVector<ir::Type, 4> types;
  for (ir::Value operand : operands) types.push_back(operand.type());
  if (absl::Status status = ir::InferTypes(op, types, attrs).status(); !status.ok()) {
    what_.clear();  // the message begins with the op's name
    Fail(status);
    return nullptr;
  }
  ir::Graph::Spec spec{.op = op, .attrs = std::move(attrs)};
  spec.operands.assign(operands.begin(), operands.end());
  spec.info.loc = loc_.ToString();
  spec.info.scope = state_->scope;
  if (!state_->regions.empty()) spec.info.region = state_->regions.back();
  return Get(state_->graph->Add(std::move(spec)));
}

ir::Value Call::Emit(ir::Op op, llvm::ArrayRef<ir::Value> operands, ir::Attrs attrs) {
  ir::Node* node = EmitNode(op, operands, std::move(attrs));
  return node == nullptr ? ir::Value{} : node->result();
}

void Call::CheckNumber(DType dtype, double number, bool is_integer) {
  if (!IsFloat(dtype) && !is_integer) {
    Fail("the number %g meets %s: cast one of them", number, DTypeName(dtype));
  } else if (Overflows(dtype, number)) {
    Fail("the number %g does not fit %s", number, DTypeName(dtype));
  }
}

ir::Value Call::Number(const ir::Type& type, double number, bool is_integer) {
  if (!ok_) return {};
  CheckNumber(type.dtype, number, is_integer);
  if (!ok_) return {};
  ir::ConstantAttrs attrs;
  attrs.value =
      type.is_float() ? ir::Literal::Float(number) : ir::Literal::Int(static_cast<int64_t>(number));
  attrs.result.type = type;
  return Emit(ir::Op::kConstant, {}, std::move(attrs));
}

ir::Value Call::CastTo(ir::Value value, DType dtype) {
  if (!ok_ || value.type().dtype == dtype) return value;
  return Emit(ir::Op::kCast, {value}, ir::CastAttrs{.to = dtype});
}

ir::Value Call::ReshapeTo(ir::Value value, llvm::ArrayRef<ir::Dim> shape) {
  if (!ok_ || llvm::ArrayRef<ir::Dim>(value.type().shape) == shape) return value;
  ir::ReshapeAttrs attrs;
  attrs.result.shape.assign(shape.begin(), shape.end());
  return Emit(ir::Op::kReshape, {value}, std::move(attrs));
}

ir::Value Call::BroadcastTo(ir::Value value, llvm::ArrayRef<ir::Dim> shape) {
  if (!ok_ || llvm::ArrayRef<ir::Dim>(value.type().shape) == shape) return value;
  const int rank = value.type().rank();
  const int result_rank = static_cast<int>(shape.size());
  absl::StatusOr<ir::Shape> common = BroadcastShapes(value.type().shape, shape);
  if (!common.ok() || llvm::ArrayRef<ir::Dim>(*common) != shape) {
    Fail("%s cannot be broadcast to %s", value.type().ToString(), ir::ToString(shape));
    return {};
  }
  ir::BroadcastAttrs attrs;
  for (int i = 0; i < rank; ++i) attrs.dims.push_back(result_rank - rank + i);
  attrs.result.shape.assign(shape.begin(), shape.end());
  return Emit(ir::Op::kBroadcast, {value}, std::move(attrs));
}

void Call::Promote(llvm::MutableArrayRef<ir::Value> values) {
  if (!ok_ || values.empty()) return;
  DType common = values[0].type().dtype;
  for (ir::Value value : values) {
    const DType dtype = value.type().dtype;
    std::optional<DType> promoted = PromotedDType(common, dtype);
    if (!promoted) {
      return Fail("operands are %s and %s, which do not mix: cast one of them", DTypeName(common),
                  DTypeName(dtype));
    }
    common = *promoted;
  }
  for (ir::Value& value : values) value = CastTo(value, common);
}

void Call::BroadcastTogether(llvm::MutableArrayRef<ir::Value> values) {
  if (!ok_ || values.empty()) return;
  ir::Shape common = values[0].type().shape;
  for (ir::Value value : values) {
    common = Get(BroadcastShapes(common, value.type().shape));
    if (!ok_) return;
  }
  for (ir::Value& value : values) value = BroadcastTo(value, common);
}

int64_t Call::Axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    Fail("axis %d is outside [%d, %d)", axis, -rank, rank);
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

}  // namespace duotone::internal
