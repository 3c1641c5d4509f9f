#include "tests/duotone/random_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/hash.h"

namespace duotone {
namespace {

using ir::Op;
using ir::Shape;
using ir::Type;
using ir::Value;

constexpr int64_t kMaxElements = 3000;
constexpr int64_t kLabels = 3;  // indices lie below

int64_t Elements(const Shape& shape) { return Type{DType::kF32, shape}.elements(); }

// Ops whose results backends may compute in another order or with another library.
bool IsInexact(Op op, DType operand) {
  switch (op) {
    case Op::kReduceSum:
      return IsFloat(operand);
    case Op::kExp:
    case Op::kLog:
    case Op::kTanh:
    case Op::kSigmoid:
    case Op::kSoftplus:
    case Op::kErf:
    case Op::kGelu:
    case Op::kSilu:
    case Op::kPow:
    case Op::kGeluGrad:
    case Op::kSiluGrad:
    case Op::kReduceMean:
    case Op::kMatMul:
    case Op::kSoftmax:
    case Op::kLogSoftmax:
    case Op::kLogSumExp:
    case Op::kLayerNorm:
    case Op::kSoftmaxGrad:
    case Op::kLogSoftmaxGrad:
    case Op::kLayerNormGrad:
    case Op::kCrossEntropy:
    case Op::kMseLoss:
    case Op::kBceWithLogits:
    case Op::kCrossEntropyGrad:
    case Op::kRandomNormal:
    case Op::kAdamUpdate:
    case Op::kAdamWUpdate:
      return true;
    default:
      return false;
  }
}

}  // namespace

RandomGraph::RandomGraph(uint32_t seed) : random_(seed), module_("random") {
  exact_ = seed % 3 != 2;
  // What overflows in 16 bits need not overflow where autocast's values stay wider.
  special_ = exact_ && OneIn(6);
  graph_ = *module_.AddGraph("g");
  base_ = RandomShape();
  const size_t entries = Pick(4);
  for (size_t i = 0; i < entries; ++i) {
    const Type type = OneIn(4) ? Type{DType::kBool, {}}
                               : Type{Any({DType::kF32, DType::kF32, DType::kF16}), base_};
    ir::StateEntry entry{.name = absl::StrCat("s", i), .kind = ir::StateKind::kState, .type = type};
    DUOTONE_CHECK(module_.AddState(std::move(entry)).ok());
    values_.push_back(graph_->ReadState(module_.state().back().get()));
  }
  Input({FloatType(), base_});
  Input({FloatType(), base_});
  if (OneIn(2)) Input({AnyType(), RandomShape()});
  const size_t nodes = 2 + Pick(OneIn(3) ? 40 : 12);
  for (size_t i = 0; i < nodes; ++i) AddNode();
  AddRoots();
}

int64_t RandomGraph::Size() {
  if (OneIn(60)) return 0;
  if (OneIn(25)) return Any<int64_t>({257, 520, 1030});
  return Any<int64_t>({1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 16, 17, 31, 32, 33, 64});
}

Shape RandomGraph::RandomShape(int min_rank) {
  Shape shape;
  const size_t rank = static_cast<size_t>(min_rank) + Pick(static_cast<size_t>(4 - min_rank));
  for (size_t i = 0; i < rank; ++i) {
    shape.push_back(Size());
    if (Elements(shape) > kMaxElements) shape.back() = Any<int64_t>({1, 2});
    if (Elements(shape) > kMaxElements) shape.pop_back();
  }
  return shape;
}

DType RandomGraph::FloatType() {
  return Any(
      {DType::kF32, DType::kF32, DType::kF32, DType::kF16, DType::kF16, DType::kBF16, DType::kF64});
}
DType RandomGraph::AnyType() {
  return OneIn(3) ? Any({DType::kI64, DType::kI32, DType::kU8, DType::kBool}) : FloatType();
}

template <typename F>
Value RandomGraph::Find(F&& fits) {
  std::vector<Value> found;
  for (Value value : values_) {
    if (fits(value)) found.push_back(value);
  }
  if (found.empty()) return {};
  return OneIn(2) ? found.back() : found[Pick(found.size())];
}

Value RandomGraph::Input(const Type& type, bool index) {
  const std::string name = graph_->UniqueName(index ? "index" : "x");
  const Value value = *graph_->AddInput(name, type);
  if (!index) values_.push_back(value);
  return value;
}

// `value` under another dtype.
Value RandomGraph::Convert(Value value, const Type& type) {
  if (value.type().dtype == type.dtype) return value;
  return Add(Op::kCast, {value}, ir::CastAttrs{type.dtype});
}

Value RandomGraph::Like(const Type& type, bool strict) {
  const bool discrete = !IsFloat(type.dtype);
  const auto is_allowed = [&](Value value) {
    return !(IsLoose(value) && (strict || (discrete && value.type().dtype != type.dtype)));
  };
  const auto try_find = [&](auto&& fits) {
    return Find([&](Value value) { return is_allowed(value) && fits(value); });
  };
  Value found = try_find([&](Value value) { return value.type() == type; });
  if (found && !OneIn(4)) return found;
  switch (Pick(7)) {
    case 0:
      found = try_find([&](Value value) { return value.type().shape == type.shape; });
      if (found) return Convert(found, type);
      break;
    case 1:  // a number, or a vector along one axis
    case 2: {
      const size_t axis = type.shape.empty() ? 0 : Pick(type.shape.size());
      found = try_find([&](Value value) {
        const Shape& shape = value.type().shape;
        return shape.empty() ||
               (shape.size() == 1 && !type.shape.empty() && shape[0] == type.shape[axis]);
      });
      if (found && type.shape != found.type().shape) {
        ir::BroadcastAttrs attrs{{}, {type.shape}};
        if (found.type().rank() == 1) attrs.dims.push_back(static_cast<int64_t>(axis));
        return Convert(Add(Op::kBroadcast, {found}, attrs), type);
      }
      break;
    }
    case 3:
      found = try_find([&](Value value) { return value.type().elements() == type.elements(); });
      if (found) {
        return Convert(Add(Op::kReshape, {found}, ir::ReshapeAttrs{{type.shape}}), type);
      }
      break;
    case 4: {  // axes of size 1
      Shape narrow = type.shape;
      for (ir::Dim& size : narrow) {
        if (OneIn(2)) size = 1;
      }
      ir::BroadcastAttrs attrs{{}, {type.shape}};
      for (size_t i = 0; i < narrow.size(); ++i) attrs.dims.push_back(static_cast<int64_t>(i));
      return Convert(Add(Op::kBroadcast, {Input({type.dtype, narrow})}, attrs), type);
    }
    case 5: {
      const double number = Any({0.0, 1.0, 2.0, -0.5, 3.0});
      const Type constant{type.dtype, type.shape};
      return Add(Op::kConstant, {},
                 ir::ConstantAttrs{IsFloat(type.dtype)
                                       ? ir::Literal::Float(number)
                                       : ir::Literal::Int(type.dtype == DType::kBool
                                                              ? number > 0
                                                              : std::lround(std::fabs(number))),
                                   {constant}});
    }
    default:
      break;
  }
  return Input(type);
}

Value RandomGraph::Floats(int min_rank, bool strict) {
  const Value found = Find([&](Value value) {
    return value.type().is_float() && value.type().rank() >= min_rank &&
           !(strict && IsLoose(value));
  });
  return found ? found : Input({FloatType(), RandomShape(min_rank)});
}

Value RandomGraph::Indices(const Shape& shape) {
  return Input({Any({DType::kI32, DType::kI64}), shape}, /*index=*/true);
}

Value RandomGraph::Add(Op op, std::vector<Value> operands, ir::Attrs attrs) {
  bool loose = IsInexact(op, operands.empty() ? DType::kF32 : operands[0].type().dtype);
  for (Value operand : operands) loose = loose || IsLoose(operand);
  loose = loose || (!exact_ && !operands.empty());
  ir::Graph::Spec spec{.op = op, .attrs = std::move(attrs)};
  spec.operands.assign(operands.begin(), operands.end());
  if (!exact_) spec.info.dtype_origin = "autocast:random";
  absl::StatusOr<ir::Node*> node = graph_->Add(std::move(spec));
  DUOTONE_CHECK(node.ok()) << node.status();
  for (int i = 0; i < (*node)->result_count(); ++i) {
    values_.push_back((*node)->result(i));
    loose_[{*node, i}] = loose && (*node)->type(i).is_float();
  }
  return (*node)->result();
}

void RandomGraph::AddNode() {
  switch (Pick(22)) {
    case 0:
    case 1:
    case 2:
      return AddUnary();
    case 3:
    case 4:
    case 5:
    case 6:
      return AddBinary();
    case 7:
    case 8:
    case 9:
    case 10:
      return AddView();
    case 11:
    case 12:
    case 13:
      return AddReduction();
    case 14:
    case 15:
      return AddComposite();
    case 16:
    case 17:
      return AddMatMul();
    case 18:
    case 19:
      return AddIndexed();
    case 20:
      return AddOptimizer();
    default:
      return AddSource();
  }
}

void RandomGraph::AddUnary() {
  const Op op = Any({Op::kNeg,   Op::kAbs,  Op::kExp,          Op::kLog,      Op::kSqrt,
                     Op::kRsqrt, Op::kTanh, Op::kSigmoid,      Op::kSoftplus, Op::kErf,
                     Op::kRelu,  Op::kGelu, Op::kSilu,         Op::kClamp,    Op::kCast,
                     Op::kCast,  Op::kCast, Op::kStopGradient, Op::kIsFinite, Op::kNot});
  const bool strict = op == Op::kLog || op == Op::kSqrt || op == Op::kRsqrt ||
                      op == Op::kIsFinite || op == Op::kExp;
  if (op == Op::kNot) {
    Add(op, {Like({DType::kBool, base_})});
  } else if (op == Op::kCast) {
    const Value value = values_[Pick(values_.size())];
    const DType to = IsLoose(value) ? FloatType() : AnyType();
    Add(op, {value}, ir::CastAttrs{to});
  } else if (op == Op::kClamp) {
    Add(op, {Floats()}, ir::ClampAttrs{-0.5, 1.25});
  } else if (op == Op::kGelu) {
    Add(op, {Floats()}, ir::GeluAttrs{OneIn(2)});
  } else {
    Add(op, {Floats(0, strict)});
  }
}

void RandomGraph::AddBinary() {
  const Op op =
      Any({Op::kAdd,       Op::kAdd,      Op::kSub,          Op::kMul,   Op::kMul,      Op::kDiv,
           Op::kMax,       Op::kMin,      Op::kPow,          Op::kEqual, Op::kNotEqual, Op::kLess,
           Op::kLessEqual, Op::kGreater,  Op::kGreaterEqual, Op::kAnd,   Op::kOr,       Op::kSelect,
           Op::kSelect,    Op::kGeluGrad, Op::kSiluGrad});
  const bool compares = op == Op::kEqual || op == Op::kNotEqual || op == Op::kLess ||
                        op == Op::kLessEqual || op == Op::kGreater || op == Op::kGreaterEqual;
  if (op == Op::kAnd || op == Op::kOr) {
    const Type type{DType::kBool, OneIn(2) ? base_ : Shape{}};
    Add(op, {Like(type), Like(type)});
  } else if (op == Op::kSelect) {
    const Type type = values_[Pick(values_.size())].type();
    Add(op, {Like({DType::kBool, type.shape}), Like(type), Like(type)});
  } else if (op == Op::kPow || op == Op::kGeluGrad || op == Op::kSiluGrad) {
    const Value a = Floats(0, op == Op::kPow);
    const Value b = Like(a.type(), op == Op::kPow);
    if (op == Op::kGeluGrad) {
      Add(op, {a, b}, ir::GeluAttrs{OneIn(2)});
    } else {
      Add(op, {a, b});
    }
  } else {
    const Value a = Find([&](Value value) {
      return value.type().dtype != DType::kBool && !(compares && IsLoose(value));
    });
    if (!a) return;
    Add(op, {a, Like(a.type(), compares || op == Op::kDiv)});
  }
}

void RandomGraph::AddView() {
  const Value x = values_[Pick(values_.size())];
  const Type& type = x.type();
  const size_t rank = type.shape.size();
  switch (Pick(7)) {
    case 0: {
      ir::TransposeAttrs attrs;
      for (size_t i = 0; i < rank; ++i) attrs.perm.push_back(static_cast<int64_t>(i));
      std::shuffle(attrs.perm.begin(), attrs.perm.end(), random_);
      if (rank > 0) Add(Op::kTranspose, {x}, attrs);
      return;
    }
    case 1: {
      ir::SliceAttrs attrs;
      for (const ir::Dim& size : type.shape) {
        const int64_t start = size == 0 ? 0 : static_cast<int64_t>(Pick(size.size())) / 2;
        const int64_t left = size.size() - start;
        attrs.starts.push_back(start);
        attrs.limits.push_back(left == 0 ? start : start + 1 + static_cast<int64_t>(Pick(left)));
        attrs.strides.push_back(Any<int64_t>({1, 1, 2, 3}));
      }
      Add(Op::kSlice, {x}, attrs);
      return;
    }
    case 2: {
      ir::PadAttrs attrs{.value = type.is_float() ? Any({0.0, 0.0, -1.5}) : 0.0};
      for (size_t i = 0; i < rank; ++i) {
        attrs.low.push_back(Any<int64_t>({0, 0, 1, 3}));
        attrs.high.push_back(Any<int64_t>({0, 0, 1, 2}));
        attrs.interior.push_back(Any<int64_t>({0, 0, 0, 1}));
      }
      if (type.elements() <= kMaxElements / 4) Add(Op::kPad, {x}, attrs);
      return;
    }
    case 3: {
      if (rank == 0) return;
      const size_t axis = Pick(rank);
      std::vector<Value> parts = {x};
      const size_t more = Pick(3);
      for (size_t i = 0; i < more; ++i) {
        Type part = type;
        if (OneIn(2)) part.shape[axis] = 1 + static_cast<int64_t>(Pick(4));
        parts.push_back(Like(part));
      }
      std::shuffle(parts.begin(), parts.end(), random_);
      Add(Op::kConcat, parts, ir::AxisAttrs{static_cast<int64_t>(axis)});
      return;
    }
    case 4: {  // to two axes, or to one
      const int64_t count = type.elements();
      int64_t first = 1;
      for (int64_t candidate : {2, 3, 4, 8, 16}) {
        if (count % candidate == 0 && OneIn(2)) first = candidate;
      }
      const Shape flat = {count}, pair = {first, count / first}, other = {count / first, first, 1};
      const Shape& shape = OneIn(3) ? flat : OneIn(2) ? pair : other;
      Add(Op::kReshape, {x}, ir::ReshapeAttrs{{shape}});
      return;
    }
    case 5: {
      if (type.elements() > kMaxElements / 8) return;
      ir::BroadcastAttrs attrs;
      Shape shape = type.shape;
      const size_t at = Pick(rank + 1);
      for (size_t i = 0; i < rank; ++i) attrs.dims.push_back(static_cast<int64_t>(i + (i >= at)));
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), Any<int64_t>({1, 2, 5, 8}));
      attrs.result = {shape};
      Add(Op::kBroadcast, {x}, attrs);
      return;
    }
    default:
      Add(Op::kIota, {},
          ir::IotaAttrs{rank == 0 ? 0 : static_cast<int64_t>(Pick(rank)),
                        {{Any({DType::kI32, DType::kF32}), rank == 0 ? Shape{7} : type.shape}}});
  }
}

void RandomGraph::AddReduction() {
  const Op op = Any({Op::kReduceSum, Op::kReduceSum, Op::kReduceSum, Op::kReduceMean,
                     Op::kReduceMax, Op::kReduceMin, Op::kArgMax, Op::kAllFinite, Op::kAllFinite});
  if (op == Op::kAllFinite) {
    std::vector<Value> operands = {Floats()};
    while (OneIn(2)) operands.push_back(Floats());
    Add(op, operands);
    return;
  }
  const Value x = Find([&](Value value) {
    const Type& type = value.type();
    return type.dtype != DType::kBool && (op != Op::kReduceMean || type.is_float()) &&
           (op != Op::kArgMax || (!IsLoose(value) && type.rank() > 0 && type.elements() > 0));
  });
  if (!x) return;
  const int rank = x.type().rank();
  if (op == Op::kArgMax) {
    Add(op, {x}, ir::AxisAttrs{static_cast<int64_t>(Pick(static_cast<size_t>(rank)))});
    return;
  }
  ir::ReduceAttrs attrs{.keep_dims = OneIn(3)};
  const size_t form = Pick(4);  // trailing, leading, any, all
  for (int i = 0; i < rank; ++i) {
    const bool wanted = form == 0   ? i == rank - 1
                        : form == 1 ? i == 0
                        : form == 2 ? OneIn(2)
                                    : true;
    if (wanted) attrs.axes.push_back(i);
  }
  if (attrs.axes.empty() && rank > 0) attrs.axes.push_back(0);
  if (x.type().is_float() && op != Op::kReduceMax && OneIn(4)) attrs.out = FloatType();
  Add(op, {x}, attrs);
}

void RandomGraph::AddComposite() {
  const Op op = Any({Op::kSoftmax, Op::kSoftmax, Op::kLogSoftmax, Op::kLogSumExp, Op::kLayerNorm,
                     Op::kLayerNorm, Op::kSoftmaxGrad, Op::kLogSoftmaxGrad, Op::kLayerNormGrad,
                     Op::kCrossEntropy, Op::kCrossEntropyGrad, Op::kMseLoss, Op::kBceWithLogits});
  const Value x = Floats(1);
  const Type& type = x.type();
  const int64_t axis =
      static_cast<int64_t>(OneIn(3) ? Pick(type.shape.size()) : type.shape.size() - 1);
  const Shape rows(type.shape.begin(), type.shape.end() - 1);
  const DType wide = type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  switch (op) {
    case Op::kSoftmax:
    case Op::kLogSoftmax: {
      ir::SoftmaxAttrs attrs{axis};
      if (OneIn(4)) attrs.out = DType::kF32;
      Add(op, {x}, attrs);
      return;
    }
    case Op::kSoftmaxGrad:
    case Op::kLogSoftmaxGrad:
      Add(op, {x, Like(type)}, ir::SoftmaxAttrs{axis});
      return;
    case Op::kLogSumExp:
      Add(op, {x}, ir::ReduceAttrs{.axes = {axis}, .keep_dims = OneIn(2)});
      return;
    case Op::kLayerNorm: {
      const Type parameters{wide, {type.shape.back()}};
      Add(op, {x, Like(parameters), Like(parameters)});
      return;
    }
    case Op::kLayerNormGrad: {
      const Type parameters{wide, {type.shape.back()}};
      Add(op, {x, Like(parameters), Like({wide, rows}), Like({wide, rows}), Like(type)});
      return;
    }
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad: {
      if (type.shape.back().size() < kLabels) return;
      std::vector<Value> operands = {x, Indices(rows)};
      if (op == Op::kCrossEntropyGrad) {
        operands.push_back(Like({wide, rows}));
        operands.push_back(Like({wide, {}}));
      }
      Add(op, operands, ir::CrossEntropyAttrs{OneIn(2) ? 0.0 : 0.1, OneIn(2) ? 1 : -100});
      return;
    }
    default:
      Add(op, {x, Like(type)});
  }
}

void RandomGraph::AddMatMul() {
  const Value a = Floats(2);
  const Type& type = a.type();
  ir::MatMulAttrs attrs{OneIn(2), OneIn(2)};
  if (OneIn(4) && type.dtype != DType::kF64) attrs.out = DType::kF32;
  const size_t rank = type.shape.size();
  const ir::Dim k = type.shape[attrs.transpose_a ? rank - 2 : rank - 1];
  const ir::Dim n = Any<int64_t>({1, 3, 8, 16, 17, 33});
  Shape shape;
  if (OneIn(2)) shape.assign(type.shape.begin(), type.shape.end() - 2);
  shape.push_back(attrs.transpose_b ? n : k);
  shape.push_back(attrs.transpose_b ? k : n);
  if (Elements(shape) > 4 * kMaxElements) return;
  const Value b = Like({type.dtype, shape});
  Add(Op::kMatMul, {a, b}, attrs);
}

void RandomGraph::AddIndexed() {
  switch (Pick(4)) {
    case 0:
    case 1: {
      const Value table = Find([&](Value value) {
        return value.type().rank() > 0 && value.type().shape[0].size() >= kLabels &&
               value.type().elements() <= kMaxElements / 4;
      });
      if (!table) return;
      Shape shape;
      if (!OneIn(4)) shape.push_back(Any<int64_t>({1, 4, 7}));
      if (OneIn(4)) shape.push_back(2);
      Add(Op::kGather, {table, Indices(shape)});
      return;
    }
    case 2: {
      const Value base = Find([&](Value value) {
        return value.type().is_float() && value.type().rank() > 0 &&
               value.type().shape[0].size() >= kLabels;
      });
      if (!base) return;
      Shape updates = base.type().shape;
      updates[0] = Any<int64_t>({1, 5, 9});
      Add(Op::kScatterAdd, {base, Indices({updates[0]}), Like({base.type().dtype, updates})});
      return;
    }
    default:
      Add(Op::kDropout, {Floats()}, ir::DropoutAttrs{Any({0.0, 0.1, 0.5})});
  }
}

void RandomGraph::AddSource() {
  if (OneIn(2)) {
    Add(Op::kRandomUniform, {}, ir::UniformAttrs{-1.0, 2.0, {{FloatType(), base_}}});
  } else {
    Add(Op::kRandomNormal, {}, ir::NormalAttrs{0.5, 2.0, {{FloatType(), base_}}});
  }
}

void RandomGraph::AddOptimizer() {
  const Type weights{DType::kF32, base_};
  const Value w = Like(weights), lr = Like({DType::kF32, {}});
  const Value g = Like({Any({DType::kF32, DType::kF16}), base_});
  if (OneIn(2)) {
    std::vector<Value> operands = {w, g, lr};
    const bool momentum = OneIn(2);
    if (momentum) operands.push_back(Like(weights));
    Add(Op::kSgdUpdate, operands, ir::SgdAttrs{momentum ? 0.9 : 0.0, momentum && OneIn(2), 0.1});
  } else {
    const Value squares = Add(Op::kAbs, {Like(weights)});
    const Value step =
        Add(Op::kConstant, {}, ir::ConstantAttrs{ir::Literal::Int(3), {Type{DType::kI64, {}}}});
    Add(Op::kAdamWUpdate, {w, g, Like(weights), squares, step, lr}, ir::AdamAttrs{});
  }
}

void RandomGraph::AddRoots() {
  for (const auto& entry : module_.state()) {
    if (OneIn(4)) continue;
    const Value guard = OneIn(2) ? Value{} : Like({DType::kBool, {}});
    const Value next = Like(entry->type);
    graph_->updates().push_back({entry.get(), next, guard});
    if (IsLoose(next)) loose_names_.insert(entry->name);
  }
  const size_t outputs = 1 + Pick(4);
  for (size_t i = 0; i < outputs; ++i) {
    const Value value = i == 0 ? values_.back() : values_[Pick(values_.size())];
    const std::string name = absl::StrCat("o", i);
    graph_->outputs().push_back({name, value});
    if (IsLoose(value)) loose_names_.insert(name);
  }
}

namespace {

ir::Array Values(const std::string& name, const Type& type, uint32_t seed, bool special) {
  std::mt19937 random(seed ^ static_cast<uint32_t>(Fnv1a(name)));
  ir::Array array(type);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double specials[] = {std::nan(""), kInf, -kInf, -0.0, 0.0, 1e-40, 6e-8, 65519, 65520, -7e4};
  for (int64_t i = 0; i < array.elements(); ++i) {
    const uint32_t bits = static_cast<uint32_t>(random());
    if (type.dtype == DType::kBool) {
      array.Set(i, bits % 2);
    } else if (absl::StartsWith(name, "index")) {
      array.Set(i, bits % kLabels);
    } else if (type.is_float()) {
      array.Set(i, static_cast<double>(bits % 65536) / 16384 - 2);
      if (special && bits >> 16 & 1) array.Set(i, specials[(bits >> 17) % std::size(specials)]);
    } else {
      array.Set(i, type.dtype == DType::kU8 ? bits % 256 : static_cast<int32_t>(bits % 41) - 20);
    }
  }
  return array;
}

}  // namespace

ir::ArrayMap RandomInputs(const ir::Graph& graph, uint32_t seed, bool special) {
  ir::ArrayMap arrays;
  for (const ir::Node* input : graph.inputs()) {
    arrays[input->name()] = Values(std::string(input->name()), input->type(), seed, special);
  }
  return arrays;
}

ir::ArrayMap RandomState(const ir::Module& module, uint32_t seed) {
  ir::ArrayMap arrays;
  for (const auto& entry : module.state()) {
    arrays[entry->name] = Values(entry->name, entry->type, seed, false);
  }
  return arrays;
}

}  // namespace duotone
