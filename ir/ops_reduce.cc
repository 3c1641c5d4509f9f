#include "ir/ops_reduce.h"

#include <limits>

#include "ir/eval_reduce.h"
#include "ir/op_checks.h"

namespace duotone::ir {

// ---- Types ----

absl::StatusOr<Shape> ReducedShape(const Type& operand, ReduceAttrs& attrs) {
  if (attrs.axes.empty() && operand.rank() > 0) {
    return InvalidArgument("axes is empty; name the axes of %s to reduce", operand.ToString());
  }
  for (int64_t& axis : attrs.axes) {
    DUOTONE_RETURN_IF_ERROR(NormalizeAxis(axis, operand.rank()));
  }
  std::sort(attrs.axes.begin(), attrs.axes.end());
  auto repeated = std::adjacent_find(attrs.axes.begin(), attrs.axes.end());
  if (repeated != attrs.axes.end()) return InvalidArgument("axis %d is named twice", *repeated);
  Shape shape;
  for (int i = 0; i < operand.rank(); ++i) {
    const bool reduced = std::binary_search(attrs.axes.begin(), attrs.axes.end(), i);
    if (!reduced) shape.push_back(operand.shape[i]);
    if (reduced && attrs.keep_dims) shape.push_back(1);
  }
  return shape;
}

namespace {

absl::StatusOr<Types> InferReduction(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const Type& operand = operands[0];
  ReduceAttrs& reduce = std::get<ReduceAttrs>(attrs);
  DUOTONE_RETURN_IF_ERROR(CheckNumber(operands, 0));
  DUOTONE_ASSIGN_OR_RETURN(Shape shape, ReducedShape(operand, reduce));
  const DType out = reduce.out.value_or(operand.dtype);
  if (IsFloat(out) != operand.is_float() || out == DType::kBool) {
    return InvalidArgument("out=%s does not fit the operand %s", DTypeName(out),
                           operand.ToString());
  }
  return Types{{out, shape}};
}

}  // namespace

absl::StatusOr<Types> InferReduceSum(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  return InferReduction(operands, attrs);
}

absl::StatusOr<Types> InferReduceMean(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  return InferReduction(operands, attrs);
}

absl::StatusOr<Types> InferReduceMaxMin(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  return InferReduction(operands, attrs);
}

absl::StatusOr<Types> InferArgMax(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const Type& x = operands[0];
  DUOTONE_RETURN_IF_ERROR(CheckNumber(operands, 0));
  int64_t& axis = std::get<AxisAttrs>(attrs).axis;
  DUOTONE_RETURN_IF_ERROR(NormalizeAxis(axis, x.rank()));
  const Dim& size = x.shape[axis];
  if (size.is_number() && size.size() == 0) {
    return InvalidArgument("axis %d of %s is empty: it has no maximum", axis, x.ToString());
  }
  if (size.is_number() && size.size() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("axis %d of %s is too long for i32 indices", axis, x.ToString());
  }
  Shape shape = x.shape;
  shape.erase(shape.begin() + axis);
  return Types{{DType::kI32, shape}};
}

// ---- Gradients ----

Value ExpandReduced(Emitter& emit, Value value, const ReduceAttrs& attrs,
                    llvm::ArrayRef<Dim> shape) {
  const int rank = static_cast<int>(shape.size());
  return emit.Broadcast(value, attrs.keep_dims ? AllAxes(rank) : OtherAxes(rank, attrs.axes),
                        shape);
}

absl::Status GradReduceSum(GradContext& ctx) {
  Value g = ctx.emit().Cast(ctx.grad(), ctx.operand(0).type().dtype);
  ctx.Set(0, ExpandReduced(ctx.emit(), g, ctx.attrs<ReduceAttrs>(), ctx.operand(0).type().shape));
  return absl::OkStatus();
}

absl::Status GradReduceMean(GradContext& ctx) {
  const ReduceAttrs& attrs = ctx.attrs<ReduceAttrs>();
  const Type& x = ctx.operand(0).type();
  Emitter& emit = ctx.emit();
  Shape reduced;
  for (int64_t axis : attrs.axes) reduced.push_back(x.shape[axis]);
  // The division is done on the small side, in f32: a count above 65504 has no f16.
  Value g = emit.Cast(ctx.grad(), WideType(x.dtype));
  Value count = emit.BroadcastScalar(EmitSize(emit, reduced, g.type().dtype), g.type().shape);
  g = emit.Cast(emit.Div(g, count), x.dtype);
  ctx.Set(0, ExpandReduced(emit, g, attrs, x.shape));
  return absl::OkStatus();
}

// The gradient is shared equally by the elements that attain the extremum, as torch.amax does.
absl::Status GradReduceMaxMin(GradContext& ctx) {
  ReduceAttrs attrs = ctx.attrs<ReduceAttrs>();
  const Type& x = ctx.operand(0).type();
  Emitter& emit = ctx.emit();
  Value extremum = ctx.result();
  if (extremum.type().dtype != x.dtype) {  // a rounded result would equal no element
    ReduceAttrs exact = attrs;
    exact.out.reset();
    extremum = emit.Emit(ctx.node()->op(), {ctx.operand(0)}, exact);
  }
  const DType wide = WideType(x.dtype);
  Value attains =
      emit.Emit(Op::kEqual, {ctx.operand(0), ExpandReduced(emit, extremum, attrs, x.shape)});
  Value ties = emit.ReduceSum(emit.Cast(attains, wide), attrs.axes, attrs.keep_dims);
  Value share = emit.Cast(emit.Div(emit.Cast(ctx.grad(), wide), ties), x.dtype);
  share = ExpandReduced(emit, share, attrs, x.shape);
  ctx.Set(0, emit.Select(attains, share, emit.ConstantLike(share, 0.0)));
  return absl::OkStatus();
}

// ---- Cost ----

Cost CostReduce(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs&) {
  return {.flops = static_cast<double>(operands[0].elements()),
          .bytes = BytesMoved(operands, results)};
}

// ---- Evaluation ----

ReduceGeometry::ReduceGeometry(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> axes) {
  struct Merged {
    int64_t size;
    bool reduced;
  };
  llvm::SmallVector<Merged, kMaxRank> merged;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    const bool is_reduced =
        std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (!merged.empty() && merged.back().reduced == is_reduced) {
      merged.back().size *= shape[i];
    } else {
      merged.push_back({shape[i], is_reduced});
    }
  }
  if (merged.empty()) return;
  inner = merged.back().size;
  inner_reduced = merged.back().reduced;
  int64_t stride = inner;
  for (size_t i = merged.size() - 1; i-- > 0;) {
    (merged[i].reduced ? reduced : kept).push_back({merged[i].size, stride});
    (merged[i].reduced ? reduced_count : kept_count) *= merged[i].size;
    stride *= merged[i].size;
  }
  std::reverse(kept.begin(), kept.end());
  std::reverse(reduced.begin(), reduced.end());
}

namespace {

ReduceGeometry GeometryOf(const EvalCall& call) {
  return ReduceGeometry(call.operands[0].shape, std::get<ReduceAttrs>(*call.attrs).axes);
}

// Results of a reduction over no elements. Integers get the least and greatest value of their own
// dtype.
template <Combine how>
void FillEmpty(const TensorView& result, bool mean, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    if (IsFloat(result.dtype)) {
      StoreElement<double>(
          result, i, mean ? std::numeric_limits<double>::quiet_NaN() : Identity<how, double>());
      continue;
    }
    int64_t value = Identity<how, int64_t>();
    if (how != Combine::kSum && result.dtype == DType::kI32) {
      value = how == Combine::kMax ? std::numeric_limits<int32_t>::min()
                                   : std::numeric_limits<int32_t>::max();
    }
    if (how != Combine::kSum && result.dtype == DType::kU8) value = how == Combine::kMax ? 0 : 255;
    StoreElement<int64_t>(result, i, value);
  }
}

template <Combine how, typename C>
void ReduceRows(const ReduceGeometry& geometry, const TensorView& x, const TensorView& y, bool mean,
                int64_t begin, int64_t end) {
  C buffer[kRowBlock];
  for (int64_t item = begin; item < end; ++item) {
    const int64_t base = ReduceGeometry::OffsetOf(item, geometry.kept);
    C total;
    if (geometry.reduced_count == 1) {
      total = ReduceRow<how, C>(geometry.inner, [&](int64_t start, int64_t count) {
        return LoadBlock(x, base + start, count, buffer);
      });
    } else {
      PairwiseTree<how, C> tree;
      for (int64_t r = 0; r < geometry.reduced_count; ++r) {
        const int64_t row = base + ReduceGeometry::OffsetOf(r, geometry.reduced);
        for (int64_t start = 0; start < geometry.inner; start += kRowBlock) {
          const int64_t count = std::min<int64_t>(kRowBlock, geometry.inner - start);
          tree.Add(ReduceBlock<how, C>(LoadBlock(x, row + start, count, buffer), count));
        }
      }
      total = tree.Total();
    }
    if (mean) total /= static_cast<C>(geometry.terms());
    StoreElement(y, item, total);
  }
}

template <Combine how, typename C>
void ReduceColumns(const ReduceGeometry& geometry, const TensorView& x, const TensorView& y,
                   bool mean, int64_t begin, int64_t end) {
  const int64_t blocks = (geometry.inner + kColumns - 1) / kColumns;
  C buffer[kColumns];
  for (int64_t item = begin; item < end; ++item) {
    const int64_t outer = item / blocks;
    const int64_t column = item % blocks * kColumns;
    const int columns = static_cast<int>(std::min<int64_t>(kColumns, geometry.inner - column));
    const int64_t base = ReduceGeometry::OffsetOf(outer, geometry.kept) + column;
    ColumnReducer<how, C> reducer(columns);
    for (int64_t r = 0; r < geometry.reduced_count; ++r) {
      const int64_t row = base + ReduceGeometry::OffsetOf(r, geometry.reduced);
      reducer.Add(LoadBlock(x, row, columns, buffer));
    }
    std::copy_n(reducer.Total(), columns, buffer);
    if (mean) {
      for (int c = 0; c < columns; ++c) buffer[c] /= static_cast<C>(geometry.terms());
    }
    StoreBlock(y, outer * geometry.inner + column, columns, buffer);
  }
}

template <Combine how>
void EvalReduce(const EvalCall& call, bool mean, int64_t begin, int64_t end) {
  const TensorView& x = call.operands[0];
  const TensorView& y = call.results[0];
  const ReduceGeometry geometry = GeometryOf(call);
  if (geometry.terms() == 0) {
    // One item per result or block of results; the blocks cover all results.
    const int64_t per_item = geometry.inner_reduced ? 1 : kColumns;
    return FillEmpty<how>(y, mean, begin * per_item, std::min(end * per_item, y.elements()));
  }
  const auto reduce = [&](auto compute) {
    using C = decltype(compute);
    if (geometry.inner_reduced) {
      ReduceRows<how, C>(geometry, x, y, mean, begin, end);
    } else {
      ReduceColumns<how, C>(geometry, x, y, mean, begin, end);
    }
  };
  WithComputeType(x.dtype, reduce);
}

}  // namespace

int64_t ItemsReduce(const EvalCall& call) { return GeometryOf(call).items(); }

void EvalReduceSum(const EvalCall& call, int64_t begin, int64_t end) {
  EvalReduce<Combine::kSum>(call, false, begin, end);
}
void EvalReduceMean(const EvalCall& call, int64_t begin, int64_t end) {
  EvalReduce<Combine::kSum>(call, true, begin, end);
}
void EvalReduceMax(const EvalCall& call, int64_t begin, int64_t end) {
  EvalReduce<Combine::kMax>(call, false, begin, end);
}
void EvalReduceMin(const EvalCall& call, int64_t begin, int64_t end) {
  EvalReduce<Combine::kMin>(call, false, begin, end);
}

namespace {

template <typename C>
void ArgMaxRows(const TensorView& x, const TensorView& y, int64_t size, int64_t inner,
                int64_t begin, int64_t end) {
  C buffer[kRowBlock];
  for (int64_t item = begin; item < end; ++item) {
    const int64_t base = item / inner * size * inner + item % inner;
    int32_t best = 0;
    C maximum{};
    const auto consider = [&](C value, int64_t i) {
      const bool first = i == 0;
      if (first || value > maximum || (value != value && maximum == maximum)) {
        maximum = value;
        best = static_cast<int32_t>(i);
      }
    };
    if (inner == 1) {
      for (int64_t start = 0; start < size; start += kRowBlock) {
        const int64_t count = std::min<int64_t>(kRowBlock, size - start);
        const C* block = LoadBlock(x, base + start, count, buffer);
        for (int64_t i = 0; i < count; ++i) consider(block[i], start + i);
      }
    } else {
      for (int64_t i = 0; i < size; ++i) consider(LoadElement<C>(x, base + i * inner), i);
    }
    y.as<int32_t>()[item] = best;
  }
}

}  // namespace

int64_t ItemsArgMax(const EvalCall& call) { return call.results[0].elements(); }

void EvalArgMax(const EvalCall& call, int64_t begin, int64_t end) {
  const TensorView& x = call.operands[0];
  const int64_t axis = std::get<AxisAttrs>(*call.attrs).axis;
  int64_t inner = 1;
  for (size_t i = axis + 1; i < x.shape.size(); ++i) inner *= x.shape[i];
  if (x.dtype == DType::kF64) {
    ArgMaxRows<double>(x, call.results[0], x.shape[axis], inner, begin, end);
  } else if (IsFloat(x.dtype)) {
    ArgMaxRows<float>(x, call.results[0], x.shape[axis], inner, begin, end);
  } else {
    ArgMaxRows<int64_t>(x, call.results[0], x.shape[axis], inner, begin, end);
  }
}

}  // namespace duotone::ir
