#include "ir/ops_row.h"

#include <cmath>
#include <limits>

#include "ir/eval_reduce.h"
#include "ir/op_checks.h"
#include "ir/ops_reduce.h"

namespace duotone::ir {

// ---- Types ----

absl::StatusOr<Types> InferSoftmax(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  SoftmaxAttrs& softmax = std::get<SoftmaxAttrs>(attrs);
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  DUOTONE_RETURN_IF_ERROR(NormalizeAxis(softmax.axis, operands[0].rank()));
  const DType out = softmax.out.value_or(operands[0].dtype);
  DUOTONE_RETURN_IF_ERROR(CheckFloat(out, "out"));
  return Types{operands[0].WithDType(out)};
}

absl::StatusOr<Types> InferSoftmaxGrad(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  DUOTONE_RETURN_IF_ERROR(CheckSameTypes(operands));
  return InferSoftmax(operands, attrs);
}

absl::StatusOr<Types> InferLogSumExp(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  ReduceAttrs& reduce = std::get<ReduceAttrs>(attrs);
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  DUOTONE_ASSIGN_OR_RETURN(Shape shape, ReducedShape(operands[0], reduce));
  const DType out = reduce.out.value_or(operands[0].dtype);
  DUOTONE_RETURN_IF_ERROR(CheckFloat(out, "out"));
  return Types{{out, shape}};
}

namespace {

// gamma covers the trailing axes of x, in x's dtype or in f32 (f64 for f64).
absl::Status CheckGamma(const Type& x, const Type& gamma) {
  if (gamma.dtype != x.dtype && gamma.dtype != WideType(x.dtype)) {
    return InvalidArgument("gamma is %s; with x in %s it must be %s", gamma.ToString(),
                           DTypeName(x.dtype), DTypeName(WideType(x.dtype)));
  }
  const bool fits =
      gamma.rank() >= 1 && gamma.rank() <= x.rank() &&
      llvm::ArrayRef<Dim>(x.shape).take_back(gamma.rank()) == llvm::ArrayRef<Dim>(gamma.shape);
  if (fits) return absl::OkStatus();
  return InvalidArgument("gamma %s does not match the last axes of x %s", gamma.ToString(),
                         x.ToString());
}

// The type of the saved mean and reciprocal standard deviation.
Type StatisticsType(const Type& x, const Type& gamma) {
  Shape leading(x.shape.begin(), x.shape.end() - gamma.rank());
  return {WideType(x.dtype), leading};
}

}  // namespace

absl::StatusOr<Types> InferLayerNorm(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const Type& x = operands[0];
  const Type& gamma = operands[1];
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  DUOTONE_RETURN_IF_ERROR(CheckGamma(x, gamma));
  if (operands[2] != gamma) {
    return InvalidArgument("gamma %s and beta %s differ in type", gamma.ToString(),
                           operands[2].ToString());
  }
  const double eps = std::get<LayerNormAttrs>(attrs).eps;
  if (!(eps >= 0)) return InvalidArgument("eps=%g must not be negative", eps);
  const Type statistics = StatisticsType(x, gamma);
  return Types{x, statistics, statistics};
}

absl::StatusOr<Types> InferLayerNormGrad(llvm::ArrayRef<Type> operands, Attrs&) {
  const Type& x = operands[0];
  const Type& gamma = operands[1];
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  DUOTONE_RETURN_IF_ERROR(CheckGamma(x, gamma));
  const Type statistics = StatisticsType(x, gamma);
  for (int i : {2, 3}) {
    if (operands[i] == statistics) continue;
    return InvalidArgument("%s must be %s, not %s", i == 2 ? "mean" : "rstd", statistics.ToString(),
                           operands[i].ToString());
  }
  if (operands[4] != x) {
    return InvalidArgument("x %s and dy %s differ in type", x.ToString(), operands[4].ToString());
  }
  return Types{x, gamma, gamma};
}

// ---- Gradients ----

namespace {

std::optional<DType> OutIfOther(DType out, DType own) {
  return out == own ? std::nullopt : std::optional<DType>(out);
}

absl::Status GradBySoftmaxGrad(GradContext& ctx, Op op) {
  SoftmaxAttrs attrs{.axis = ctx.attrs<SoftmaxAttrs>().axis};
  attrs.out = OutIfOther(ctx.grad_dtype(0), ctx.result().type().dtype);
  ctx.Set(0, ctx.emit().Emit(op, {ctx.result(), ctx.grad()}, attrs));
  return absl::OkStatus();
}

// The sum along `axis`, repeated along it.
Value SumAlong(Emitter& emit, Value value, int64_t axis) {
  ReduceAttrs attrs{.axes = {axis}, .keep_dims = true};
  return ExpandReduced(emit, emit.Emit(Op::kReduceSum, {value}, attrs), attrs, value.type().shape);
}

}  // namespace

absl::Status GradSoftmax(GradContext& ctx) { return GradBySoftmaxGrad(ctx, Op::kSoftmaxGrad); }
absl::Status GradLogSoftmax(GradContext& ctx) {
  return GradBySoftmaxGrad(ctx, Op::kLogSoftmaxGrad);
}

// dx = g * softmax(x). A row of -inf only, whose result is -inf, has the gradient 0.
absl::Status GradLogSumExp(GradContext& ctx) {
  const ReduceAttrs& attrs = ctx.attrs<ReduceAttrs>();
  Emitter& emit = ctx.emit();
  Value x = ctx.operand(0);
  const DType wide = WideType(x.type().dtype);
  Value weights;
  if (attrs.axes.size() == 1) {
    weights =
        emit.Emit(Op::kSoftmax, {x},
                  SoftmaxAttrs{.axis = attrs.axes[0], .out = OutIfOther(wide, x.type().dtype)});
  } else {
    // exp(x - y) needs y in full precision: an error of y is a relative error of the gradient.
    Value y = ctx.result();
    if (y.type().dtype != wide) {
      ReduceAttrs exact = attrs;
      exact.out = wide;
      y = emit.Emit(Op::kLogSumExp, {x}, exact);
    }
    y = ExpandReduced(emit, y, attrs, x.type().shape);
    Value masked =
        emit.Emit(Op::kEqual, {y, emit.ConstantLike(y, -std::numeric_limits<double>::infinity())});
    weights = emit.Emit(Op::kExp, {emit.Sub(emit.Cast(x, wide), y)});
    weights = emit.Select(masked, emit.ConstantLike(y, 0.0), weights);
  }
  Value g = ExpandReduced(emit, emit.Cast(ctx.grad(), wide), attrs, x.type().shape);
  ctx.Set(0, emit.Cast(emit.Mul(g, weights), ctx.grad_dtype(0)));
  return absl::OkStatus();
}

absl::Status GradLayerNorm(GradContext& ctx) {
  Emitter& emit = ctx.emit();
  Value x = ctx.operand(0);
  Value mean = ctx.result(1);
  Value rstd = ctx.result(2);
  Value dx;
  if (ctx.grad(0)) {
    Node* grads =
        emit.EmitNode(Op::kLayerNormGrad, {x, ctx.operand(1), mean, rstd, ctx.grad(0)}, NoAttrs());
    dx = grads->result(0);
    if (ctx.wanted(1)) ctx.Set(1, grads->result(1));
    if (ctx.wanted(2)) ctx.Set(2, grads->result(2));
  }
  if (!ctx.wanted(0)) return absl::OkStatus();
  // Who reads the statistics themselves: mean' = 1/n and rstd' = -rstd^3 * (x - mean) / n.
  const Type& type = x.type();
  const Ints leading = AllAxes(mean.type().rank());
  Value count = EmitSize(emit, ctx.operand(1).type().shape, mean.type().dtype);
  count = emit.BroadcastScalar(count, mean.type().shape);
  Value extra;
  if (ctx.grad(1)) extra = emit.Broadcast(emit.Div(ctx.grad(1), count), leading, type.shape);
  if (ctx.grad(2)) {
    Value factor = emit.Mul(rstd, emit.Mul(rstd, rstd));
    factor = emit.Neg(emit.Div(emit.Mul(ctx.grad(2), factor), count));
    Value centred =
        emit.Sub(emit.Cast(x, mean.type().dtype), emit.Broadcast(mean, leading, type.shape));
    Value term = emit.Mul(emit.Broadcast(factor, leading, type.shape), centred);
    extra = extra ? emit.Add(extra, term) : term;
  }
  if (extra) {
    dx = dx ? emit.Add(emit.Cast(dx, extra.type().dtype), extra) : extra;
    dx = emit.Cast(dx, ctx.grad_dtype(0));
  }
  if (dx) ctx.Set(0, dx);
  return absl::OkStatus();
}

// z = y * (g - sum(g * y)); with u the gradient of z: dg = y * (u - sum(u * y)), which is the op
// itself, and dy = u * (g - sum(g * y)) - g * sum(u * y).
absl::Status GradSoftmaxGrad(GradContext& ctx) {
  const int64_t axis = ctx.attrs<SoftmaxAttrs>().axis;
  Emitter& emit = ctx.emit();
  const DType own = ctx.operand(0).type().dtype;
  const DType wide = WideType(own);
  if (ctx.wanted(1)) {
    SoftmaxAttrs attrs{.axis = axis, .out = OutIfOther(ctx.grad_dtype(1), own)};
    ctx.Set(1, emit.Emit(Op::kSoftmaxGrad, {ctx.operand(0), emit.Cast(ctx.grad(), own)}, attrs));
  }
  if (ctx.wanted(0)) {
    Value y = emit.Cast(ctx.operand(0), wide);
    Value g = emit.Cast(ctx.operand(1), wide);
    Value u = emit.Cast(ctx.grad(), wide);
    Value first = emit.Mul(u, emit.Sub(g, SumAlong(emit, emit.Mul(g, y), axis)));
    Value second = emit.Mul(g, SumAlong(emit, emit.Mul(u, y), axis));
    ctx.Set(0, emit.Cast(emit.Sub(first, second), ctx.grad_dtype(0)));
  }
  return absl::OkStatus();
}

// z = g - e^y * sum(g); with u the gradient of z: dg = u - sum(u * e^y) and dy = -u * e^y * sum(g).
absl::Status GradLogSoftmaxGrad(GradContext& ctx) {
  const int64_t axis = ctx.attrs<SoftmaxAttrs>().axis;
  Emitter& emit = ctx.emit();
  const DType wide = WideType(ctx.operand(0).type().dtype);
  Value u = emit.Cast(ctx.grad(), wide);
  Value weighted = emit.Mul(u, emit.Emit(Op::kExp, {emit.Cast(ctx.operand(0), wide)}));
  if (ctx.wanted(1)) {
    Value dg = emit.Sub(u, SumAlong(emit, weighted, axis));
    ctx.Set(1, emit.Cast(dg, ctx.grad_dtype(1)));
  }
  if (ctx.wanted(0)) {
    Value sum = SumAlong(emit, emit.Cast(ctx.operand(1), wide), axis);
    ctx.Set(0, emit.Cast(emit.Neg(emit.Mul(weighted, sum)), ctx.grad_dtype(0)));
  }
  return absl::OkStatus();
}

// ---- Evaluation: softmax and its kin ----

namespace {

// The lines of a tensor along one axis.
struct AxisLines {
  int64_t size;    // of the axis
  int64_t stride;  // elements between neighbours along it
  int64_t count;

  AxisLines(llvm::ArrayRef<int64_t> shape, int64_t axis) : size(shape[axis]), stride(1), count(1) {
    for (size_t i = axis + 1; i < shape.size(); ++i) stride *= shape[i];
    for (int64_t i = 0; i < axis; ++i) count *= shape[i];
    count *= stride;
  }
  int64_t First(int64_t line) const { return line / stride * stride * size + line % stride; }
};

AxisLines LinesOf(const EvalCall& call) {
  return AxisLines(call.operands[0].shape, std::get<SoftmaxAttrs>(*call.attrs).axis);
}

template <typename C>
C MaxOf(Line<C>& x) {
  return ReduceRow<Combine::kMax, C>(
      x.size(), [&](int64_t begin, int64_t count) { return x.Block(begin, count); });
}

// e^(x - shift) of a block.
template <typename C>
void ExpBlock(const C* x, int64_t count, C shift, C* exps) {
  for (int64_t i = 0; i < count; ++i) exps[i] = std::exp(x[i] - shift);
}

// The sum of e^(x - maximum); leaves the last block's exponentials in `exps`.
template <typename C>
C SumOfExps(Line<C>& x, C maximum, C* exps) {
  return ReduceRow<Combine::kSum, C>(x.size(), [&](int64_t begin, int64_t count) {
    ExpBlock(x.Block(begin, count), count, maximum, exps);
    return static_cast<const C*>(exps);
  });
}

template <typename C>
constexpr C kInfinity = std::numeric_limits<C>::infinity();

template <typename C>
void SoftmaxLine(Line<C>& x, const TensorView& y, int64_t first, int64_t stride) {
  C exps[kRowBlock];
  const C maximum = MaxOf(x);
  const bool masked = maximum == -kInfinity<C>;  // every element is -inf: all probabilities are 0
  const C sum = masked ? C(1) : SumOfExps(x, maximum, exps);
  ForEachRowBlock(x.size(), [&](int64_t begin, int64_t count) {
    if (masked) {
      std::fill_n(exps, count, C(0));
    } else if (x.size() > kRowBlock) {
      ExpBlock(x.Block(begin, count), count, maximum, exps);
    }
    for (int64_t i = 0; i < count; ++i) exps[i] /= sum;
    StoreStrided(y, first + begin * stride, stride, count, exps);
  });
}

template <typename C>
void LogSoftmaxLine(Line<C>& x, const TensorView& y, int64_t first, int64_t stride) {
  C buffer[kRowBlock];
  const C maximum = MaxOf(x);
  const bool masked = maximum == -kInfinity<C>;
  const C log_sum = masked ? C(0) : std::log(SumOfExps(x, maximum, buffer));
  const C shift = masked ? C(0) : maximum;  // a masked line stays -inf
  ForEachRowBlock(x.size(), [&](int64_t begin, int64_t count) {
    const C* block = x.Block(begin, count);
    for (int64_t i = 0; i < count; ++i) buffer[i] = (block[i] - shift) - log_sum;
    StoreStrided(y, first + begin * stride, stride, count, buffer);
  });
}

}  // namespace

int64_t ItemsSoftmax(const EvalCall& call) { return LinesOf(call).count; }

void EvalSoftmax(const EvalCall& call, int64_t begin, int64_t end) {
  const AxisLines lines = LinesOf(call);
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    for (int64_t line = begin; line < end; ++line) {
      Line<decltype(compute)> x(call.operands[0], lines.First(line), lines.stride, lines.size);
      SoftmaxLine(x, call.results[0], lines.First(line), lines.stride);
    }
  });
}

void EvalLogSoftmax(const EvalCall& call, int64_t begin, int64_t end) {
  const AxisLines lines = LinesOf(call);
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    for (int64_t line = begin; line < end; ++line) {
      Line<decltype(compute)> x(call.operands[0], lines.First(line), lines.stride, lines.size);
      LogSoftmaxLine(x, call.results[0], lines.First(line), lines.stride);
    }
  });
}

void EvalSoftmaxGrad(const EvalCall& call, int64_t begin, int64_t end) {
  const AxisLines lines = LinesOf(call);
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    using C = decltype(compute);
    C buffer[kRowBlock];
    for (int64_t line = begin; line < end; ++line) {
      const int64_t first = lines.First(line);
      Line<C> y(call.operands[0], first, lines.stride, lines.size);
      Line<C> g(call.operands[1], first, lines.stride, lines.size);
      const C sum = ReduceRow<Combine::kSum, C>(lines.size, [&](int64_t start, int64_t count) {
        const C* y_block = y.Block(start, count);
        const C* g_block = g.Block(start, count);
        for (int64_t i = 0; i < count; ++i) buffer[i] = g_block[i] * y_block[i];
        return static_cast<const C*>(buffer);
      });
      ForEachRowBlock(lines.size, [&](int64_t start, int64_t count) {
        const C* y_block = y.Block(start, count);
        const C* g_block = g.Block(start, count);
        for (int64_t i = 0; i < count; ++i) buffer[i] = y_block[i] * (g_block[i] - sum);
        StoreStrided(call.results[0], first + start * lines.stride, lines.stride, count, buffer);
      });
    }
  });
}

void EvalLogSoftmaxGrad(const EvalCall& call, int64_t begin, int64_t end) {
  const AxisLines lines = LinesOf(call);
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    using C = decltype(compute);
    C buffer[kRowBlock];
    for (int64_t line = begin; line < end; ++line) {
      const int64_t first = lines.First(line);
      Line<C> y(call.operands[0], first, lines.stride, lines.size);
      Line<C> g(call.operands[1], first, lines.stride, lines.size);
      const C sum = ReduceRow<Combine::kSum, C>(
          lines.size, [&](int64_t start, int64_t count) { return g.Block(start, count); });
      ForEachRowBlock(lines.size, [&](int64_t start, int64_t count) {
        const C* y_block = y.Block(start, count);
        const C* g_block = g.Block(start, count);
        for (int64_t i = 0; i < count; ++i) buffer[i] = g_block[i] - std::exp(y_block[i]) * sum;
        StoreStrided(call.results[0], first + start * lines.stride, lines.stride, count, buffer);
      });
    }
  });
}

// ---- Evaluation: logsumexp ----

namespace {

// log(sum(e^x)) over the elements of one result: lines along the innermost reduced axis, one for
// each index of the others.
template <typename C>
C LogSumExpAt(const TensorView& x, const ReduceGeometry& geometry, int64_t base) {
  llvm::ArrayRef<ReduceGeometry::Axis> others = geometry.reduced;
  ReduceGeometry::Axis along{1, 1};
  if (geometry.inner_reduced) {
    along = {geometry.inner, 1};
  } else if (!others.empty()) {
    along = others.back();
    others = others.drop_back();
  }
  int64_t line_count = 1;
  for (const ReduceGeometry::Axis& axis : others) line_count *= axis.size;

  C maximum = Identity<Combine::kMax, C>();
  for (int64_t i = 0; i < line_count; ++i) {
    Line<C> line(x, base + ReduceGeometry::OffsetOf(i, others), along.stride, along.size);
    maximum = CombineTwo<Combine::kMax>(maximum, MaxOf(line));
  }
  // No element, only -inf, or one +inf: the result is the maximum itself, where the formula would
  // give NaN.
  if (std::isinf(maximum)) return maximum;
  PairwiseTree<Combine::kSum, C> sums;
  C exps[kRowBlock];
  for (int64_t i = 0; i < line_count; ++i) {
    Line<C> line(x, base + ReduceGeometry::OffsetOf(i, others), along.stride, along.size);
    sums.Add(SumOfExps(line, maximum, exps));
  }
  return maximum + std::log(sums.Total());
}

ReduceGeometry LogSumExpGeometry(const EvalCall& call) {
  return ReduceGeometry(call.operands[0].shape, std::get<ReduceAttrs>(*call.attrs).axes);
}

}  // namespace

int64_t ItemsLogSumExp(const EvalCall& call) { return LogSumExpGeometry(call).results(); }

void EvalLogSumExp(const EvalCall& call, int64_t begin, int64_t end) {
  const ReduceGeometry geometry = LogSumExpGeometry(call);
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t outer = geometry.inner_reduced ? item : item / geometry.inner;
      const int64_t column = geometry.inner_reduced ? 0 : item % geometry.inner;
      const int64_t base = ReduceGeometry::OffsetOf(outer, geometry.kept) + column;
      StoreElement(call.results[0], item,
                   geometry.terms() == 0
                       ? -kInfinity<decltype(compute)>
                       : LogSumExpAt<decltype(compute)>(call.operands[0], geometry, base));
    }
  });
}

// ---- Evaluation: layer norm ----

int64_t ItemsLayerNorm(const EvalCall& call) { return call.results[1].elements(); }

void EvalLayerNorm(const EvalCall& call, int64_t begin, int64_t end) {
  const int64_t size = call.operands[1].elements();
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    using C = decltype(compute);
    const C eps = static_cast<C>(std::get<LayerNormAttrs>(*call.attrs).eps);
    C buffer[kRowBlock];
    C gamma_buffer[kRowBlock];
    C beta_buffer[kRowBlock];
    for (int64_t row = begin; row < end; ++row) {
      Line<C> x(call.operands[0], row * size, 1, size);
      const C mean =
          ReduceRow<Combine::kSum, C>(
              size, [&](int64_t start, int64_t count) { return x.Block(start, count); }) /
          static_cast<C>(size);
      const C variance = ReduceRow<Combine::kSum, C>(size,
                                                     [&](int64_t start, int64_t count) {
                                                       const C* block = x.Block(start, count);
                                                       for (int64_t i = 0; i < count; ++i) {
                                                         buffer[i] =
                                                             (block[i] - mean) * (block[i] - mean);
                                                       }
                                                       return static_cast<const C*>(buffer);
                                                     }) /
                         static_cast<C>(size);
      const C rstd = C(1) / std::sqrt(variance + eps);
      ForEachRowBlock(size, [&](int64_t start, int64_t count) {
        const C* block = x.Block(start, count);
        const C* gamma = LoadBlock(call.operands[1], start, count, gamma_buffer);
        const C* beta = LoadBlock(call.operands[2], start, count, beta_buffer);
        for (int64_t i = 0; i < count; ++i) {
          buffer[i] = (block[i] - mean) * rstd * gamma[i] + beta[i];
        }
        StoreBlock(call.results[0], row * size + start, count, buffer);
      });
      StoreElement(call.results[1], row, mean);
      StoreElement(call.results[2], row, rstd);
    }
  });
}

namespace {

// dx of one row: rstd * (dy*gamma - mean(dy*gamma) - x^ * mean(dy*gamma*x^)), with x^ = (x - mean)
// * rstd.
template <typename C>
void LayerNormGradRow(const EvalCall& call, int64_t row, int64_t size) {
  Line<C> x(call.operands[0], row * size, 1, size);
  Line<C> dy(call.operands[4], row * size, 1, size);
  const C mean = LoadElement<C>(call.operands[2], row);
  const C rstd = LoadElement<C>(call.operands[3], row);
  C gamma_buffer[kRowBlock];
  C buffer[kRowBlock];
  const C mean_dy = ReduceRow<Combine::kSum, C>(size,
                                                [&](int64_t start, int64_t count) {
                                                  const C* dy_block = dy.Block(start, count);
                                                  const C* gamma = LoadBlock(
                                                      call.operands[1], start, count, gamma_buffer);
                                                  for (int64_t i = 0; i < count; ++i)
                                                    buffer[i] = dy_block[i] * gamma[i];
                                                  return static_cast<const C*>(buffer);
                                                }) /
                    static_cast<C>(size);
  const C mean_dy_x = ReduceRow<Combine::kSum, C>(
                          size,
                          [&](int64_t start, int64_t count) {
                            const C* x_block = x.Block(start, count);
                            const C* dy_block = dy.Block(start, count);
                            const C* gamma =
                                LoadBlock(call.operands[1], start, count, gamma_buffer);
                            for (int64_t i = 0; i < count; ++i) {
                              buffer[i] = dy_block[i] * gamma[i] * ((x_block[i] - mean) * rstd);
                            }
                            return static_cast<const C*>(buffer);
                          }) /
                      static_cast<C>(size);
  ForEachRowBlock(size, [&](int64_t start, int64_t count) {
    const C* x_block = x.Block(start, count);
    const C* dy_block = dy.Block(start, count);
    const C* gamma = LoadBlock(call.operands[1], start, count, gamma_buffer);
    for (int64_t i = 0; i < count; ++i) {
      const C normal = (x_block[i] - mean) * rstd;
      buffer[i] = rstd * (dy_block[i] * gamma[i] - mean_dy - normal * mean_dy_x);
    }
    StoreBlock(call.results[0], row * size + start, count, buffer);
  });
}

// dgamma = sum(dy * x^) and dbeta = sum(dy) over all rows, for a block of columns.
template <typename C>
void LayerNormGradColumns(const EvalCall& call, int64_t rows, int64_t size, int64_t column) {
  const int columns = static_cast<int>(std::min<int64_t>(kColumns, size - column));
  ColumnReducer<Combine::kSum, C> dgamma(columns);
  ColumnReducer<Combine::kSum, C> dbeta(columns);
  C x_buffer[kColumns];
  C dy_buffer[kColumns];
  C products[kColumns];
  for (int64_t row = 0; row < rows; ++row) {
    const C mean = LoadElement<C>(call.operands[2], row);
    const C rstd = LoadElement<C>(call.operands[3], row);
    const C* x = LoadBlock(call.operands[0], row * size + column, columns, x_buffer);
    const C* dy = LoadBlock(call.operands[4], row * size + column, columns, dy_buffer);
    for (int c = 0; c < columns; ++c) products[c] = dy[c] * ((x[c] - mean) * rstd);
    dgamma.Add(products);
    dbeta.Add(dy);
  }
  StoreBlock(call.results[1], column, columns, dgamma.Total());
  StoreBlock(call.results[2], column, columns, dbeta.Total());
}

}  // namespace

// Items: first the rows of dx, then the blocks of columns of dgamma and dbeta.
int64_t ItemsLayerNormGrad(const EvalCall& call) {
  return call.operands[2].elements() + (call.operands[1].elements() + kColumns - 1) / kColumns;
}

void EvalLayerNormGrad(const EvalCall& call, int64_t begin, int64_t end) {
  const int64_t rows = call.operands[2].elements();
  const int64_t size = call.operands[1].elements();
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    for (int64_t item = begin; item < end; ++item) {
      if (item < rows) {
        LayerNormGradRow<decltype(compute)>(call, item, size);
      } else {
        LayerNormGradColumns<decltype(compute)>(call, rows, size, (item - rows) * kColumns);
      }
    }
  });
}

}  // namespace duotone::ir
