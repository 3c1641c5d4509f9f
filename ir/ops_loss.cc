#include "ir/ops_loss.h"

#include <cmath>

#include "ir/eval_reduce.h"
#include "ir/op_checks.h"

namespace duotone::ir {

// ---- Types ----

namespace {

absl::Status CheckCrossEntropy(const Type& logits, const Type& labels, const Attrs& attrs) {
  if (!logits.is_float()) {
    return InvalidArgument("logits must be floating point, not %s", logits.ToString());
  }
  if (logits.rank() < 1) return InvalidArgument("logits need an axis of classes, the last one");
  DUOTONE_RETURN_IF_ERROR(CheckIndices(labels, "labels"));
  if (llvm::ArrayRef<Dim>(logits.shape).drop_back() != llvm::ArrayRef<Dim>(labels.shape)) {
    return InvalidArgument("labels %s do not match the rows of the logits %s", labels.ToString(),
                           logits.ToString());
  }
  const double smoothing = std::get<CrossEntropyAttrs>(attrs).label_smoothing;
  if (!(smoothing >= 0 && smoothing < 1)) {
    return InvalidArgument("label_smoothing=%g is outside [0, 1)", smoothing);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Types> InferCrossEntropy(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  DUOTONE_RETURN_IF_ERROR(CheckCrossEntropy(operands[0], operands[1], attrs));
  const DType wide = WideType(operands[0].dtype);
  return Types{{wide, {}}, {wide, operands[1].shape}};
}

absl::StatusOr<Types> InferCrossEntropyGrad(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  DUOTONE_RETURN_IF_ERROR(CheckCrossEntropy(operands[0], operands[1], attrs));
  const Type lse{WideType(operands[0].dtype), operands[1].shape};
  if (operands[2] != lse) {
    return InvalidArgument("lse must be %s, not %s", lse.ToString(), operands[2].ToString());
  }
  DUOTONE_RETURN_IF_ERROR(CheckScalar(operands[3], lse.dtype, "dloss"));
  return Types{operands[0]};
}

absl::StatusOr<Types> InferPairLoss(llvm::ArrayRef<Type> operands, Attrs&) {
  const Type& x = operands[0];
  const Type& target = operands[1];
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  DUOTONE_RETURN_IF_ERROR(CheckSameShape(x, "operand", target, "targets"));
  if (target.dtype != x.dtype && target.dtype != WideType(x.dtype)) {
    return InvalidArgument("targets must be %s or %s, not %s", DTypeName(x.dtype),
                           DTypeName(WideType(x.dtype)), DTypeName(target.dtype));
  }
  return Types{{WideType(x.dtype), {}}};
}

// ---- Gradients ----

absl::Status GradCrossEntropy(GradContext& ctx) {
  Emitter& emit = ctx.emit();
  Value logits = ctx.operand(0);
  Value lse = ctx.result(1);
  if (!ctx.wanted(0)) return absl::OkStatus();
  Value total;
  if (ctx.grad(0)) {
    total = emit.Emit(Op::kCrossEntropyGrad, {logits, ctx.operand(1), lse, ctx.grad(0)},
                      ctx.attrs<CrossEntropyAttrs>());
  }
  if (ctx.grad(1)) {  // a loss on the log-partition itself: its gradient is the softmax
    SoftmaxAttrs attrs{.axis = logits.type().rank() - 1};
    if (lse.type().dtype != logits.type().dtype) attrs.out = lse.type().dtype;
    Value probabilities = emit.Emit(Op::kSoftmax, {logits}, attrs);
    Value g = emit.Broadcast(ctx.grad(1), AllAxes(lse.type().rank()), logits.type().shape);
    Value term = emit.Mul(g, probabilities);
    total = total ? emit.Add(emit.Cast(total, term.type().dtype), term) : term;
    total = emit.Cast(total, ctx.grad_dtype(0));
  }
  if (total) ctx.Set(0, total);
  return absl::OkStatus();
}

namespace {

// factor * dloss / number of elements, repeated to the operand's shape.
Value MeanFactor(GradContext& ctx, double factor) {
  Emitter& emit = ctx.emit();
  Value g = ctx.grad();
  llvm::ArrayRef<Dim> shape = ctx.operand(0).type().shape;
  if (factor != 1.0) g = emit.Mul(g, emit.ConstantLike(g, factor));
  return emit.BroadcastScalar(emit.Div(g, EmitSize(emit, shape, g.type().dtype)), shape);
}

}  // namespace

absl::Status GradMseLoss(GradContext& ctx) {
  Emitter& emit = ctx.emit();
  const DType wide = ctx.result().type().dtype;
  Value difference = emit.Sub(emit.Cast(ctx.operand(0), wide), emit.Cast(ctx.operand(1), wide));
  Value dx = emit.Mul(MeanFactor(ctx, 2.0), difference);
  if (ctx.wanted(0)) ctx.Set(0, emit.Cast(dx, ctx.grad_dtype(0)));
  if (ctx.wanted(1)) ctx.Set(1, emit.Cast(emit.Neg(dx), ctx.grad_dtype(1)));
  return absl::OkStatus();
}

absl::Status GradBceWithLogits(GradContext& ctx) {
  Emitter& emit = ctx.emit();
  const DType wide = ctx.result().type().dtype;
  Value x = emit.Cast(ctx.operand(0), wide);
  Value factor = MeanFactor(ctx, 1.0);
  if (ctx.wanted(0)) {
    Value difference = emit.Sub(emit.Emit(Op::kSigmoid, {x}), emit.Cast(ctx.operand(1), wide));
    ctx.Set(0, emit.Cast(emit.Mul(factor, difference), ctx.grad_dtype(0)));
  }
  if (ctx.wanted(1)) {
    ctx.Set(1, emit.Cast(emit.Neg(emit.Mul(factor, x)), ctx.grad_dtype(1)));
  }
  return absl::OkStatus();
}

// ---- Evaluation: cross-entropy ----
//
// With p = softmax(x), s = label_smoothing, C classes and a label y, the loss of a row is
//   (1 - s) * (lse - x[y]) + s * (lse - mean(x)),
// which is PyTorch's formula; rows whose label is ignore_index count for nothing, and the loss is
// the mean over the others, 0 if there are none. A label outside [0, C) is reported, and its row
// counts as ignored.

namespace {

struct Labels {
  const EvalCall& call;
  int64_t classes;
  int64_t ignore_index;

  explicit Labels(const EvalCall& c)
      : call(c),
        classes(c.operands[0].shape.back()),
        ignore_index(std::get<CrossEntropyAttrs>(*c.attrs).ignore_index) {}
  int64_t count() const { return call.operands[1].elements(); }
  // The label of a row, or -1 if the row is ignored.
  int64_t Get(int64_t row) const {
    const int64_t label = Raw(row);
    return label == ignore_index || label < 0 || label >= classes ? -1 : label;
  }
  void ReportBad(int64_t row) const {
    const int64_t label = Raw(row);
    if (label != ignore_index && (label < 0 || label >= classes)) {
      call.error->Report(EvalError::Kind::kIndexOutOfRange, label, classes);
    }
  }
  int64_t CountValid() const {
    int64_t valid = 0;
    for (int64_t row = 0; row < count(); ++row) valid += Get(row) >= 0;
    return valid;
  }

 private:
  int64_t Raw(int64_t row) const {
    const TensorView& labels = call.operands[1];
    return labels.dtype == DType::kI64 ? labels.as<int64_t>()[row] : labels.as<int32_t>()[row];
  }
};

template <typename C>
C LogSumExpOf(Line<C>& x) {
  const C maximum = ReduceRow<Combine::kMax, C>(
      x.size(), [&](int64_t begin, int64_t count) { return x.Block(begin, count); });
  if (std::isinf(maximum)) return maximum;
  C exps[kRowBlock];
  const C sum = ReduceRow<Combine::kSum, C>(x.size(), [&](int64_t begin, int64_t count) {
    const C* block = x.Block(begin, count);
    for (int64_t i = 0; i < count; ++i) exps[i] = std::exp(block[i] - maximum);
    return static_cast<const C*>(exps);
  });
  return maximum + std::log(sum);
}

template <typename C>
C RowLoss(Line<C>& x, const TensorView& logits, int64_t row, int64_t label, C lse, C smoothing) {
  const C picked = lse - LoadElement<C>(logits, row * x.size() + label);
  if (smoothing == 0) return picked;
  const C mean =
      ReduceRow<Combine::kSum, C>(
          x.size(), [&](int64_t begin, int64_t count) { return x.Block(begin, count); }) /
      static_cast<C>(x.size());
  return (C(1) - smoothing) * picked + smoothing * (lse - mean);
}

template <typename C>
void CrossEntropy(const EvalCall& call) {
  const Labels labels(call);
  const TensorView& logits = call.operands[0];
  const C smoothing = static_cast<C>(std::get<CrossEntropyAttrs>(*call.attrs).label_smoothing);
  int64_t valid = 0;
  PairwiseTree<Combine::kSum, C> losses;
  C buffer[kRowBlock];
  ForEachRowBlock(labels.count(), [&](int64_t first_row, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = first_row + i;
      Line<C> x(logits, row * labels.classes, 1, labels.classes);
      const C lse = LogSumExpOf(x);
      StoreElement(call.results[1], row, lse);
      labels.ReportBad(row);
      const int64_t label = labels.Get(row);
      valid += label >= 0;
      buffer[i] = label >= 0 ? RowLoss(x, logits, row, label, lse, smoothing) : C(0);
    }
    losses.Add(ReduceBlock<Combine::kSum, C>(buffer, rows));
  });
  StoreElement(call.results[0], 0, valid > 0 ? losses.Total() / static_cast<C>(valid) : C(0));
}

template <typename C>
void CrossEntropyGrad(const EvalCall& call, int64_t begin, int64_t end) {
  const Labels labels(call);
  const TensorView& logits = call.operands[0];
  const C smoothing = static_cast<C>(std::get<CrossEntropyAttrs>(*call.attrs).label_smoothing);
  const C uniform = smoothing / static_cast<C>(labels.classes);
  const int64_t valid = labels.CountValid();
  const C scale = LoadElement<C>(call.operands[3], 0) / static_cast<C>(valid);
  C x_buffer[kRowBlock];
  C gradient[kRowBlock];
  for (int64_t row = begin; row < end; ++row) {
    const int64_t label = labels.Get(row);
    const C lse = LoadElement<C>(call.operands[2], row);
    ForEachRowBlock(labels.classes, [&](int64_t start, int64_t count) {
      const int64_t first = row * labels.classes + start;
      if (label < 0) {
        std::fill_n(gradient, count, C(0));
      } else {
        const C* x = LoadBlock(logits, first, count, x_buffer);
        for (int64_t i = 0; i < count; ++i) gradient[i] = std::exp(x[i] - lse) - uniform;
        if (label >= start && label < start + count) gradient[label - start] -= C(1) - smoothing;
        for (int64_t i = 0; i < count; ++i) gradient[i] *= scale;
      }
      StoreBlock(call.results[0], first, count, gradient);
    });
  }
}

}  // namespace

void EvalCrossEntropy(const EvalCall& call, int64_t, int64_t) {
  WithFloatType(call.operands[0].dtype,
                [&](auto compute) { CrossEntropy<decltype(compute)>(call); });
}

int64_t ItemsCrossEntropyGrad(const EvalCall& call) { return call.operands[1].elements(); }

void EvalCrossEntropyGrad(const EvalCall& call, int64_t begin, int64_t end) {
  WithFloatType(call.operands[0].dtype,
                [&](auto compute) { CrossEntropyGrad<decltype(compute)>(call, begin, end); });
}

// ---- Evaluation: means over pairs ----

namespace {

template <typename C, typename Fn>
void MeanOverPairs(const EvalCall& call, Fn&& loss) {
  const int64_t size = call.operands[0].elements();
  C x_buffer[kRowBlock];
  C target_buffer[kRowBlock];
  C losses[kRowBlock];
  const C sum = ReduceRow<Combine::kSum, C>(size, [&](int64_t begin, int64_t count) {
    const C* x = LoadBlock(call.operands[0], begin, count, x_buffer);
    const C* target = LoadBlock(call.operands[1], begin, count, target_buffer);
    for (int64_t i = 0; i < count; ++i) losses[i] = loss(x[i], target[i]);
    return static_cast<const C*>(losses);
  });
  StoreElement(call.results[0], 0, sum / static_cast<C>(size));
}

}  // namespace

void EvalMseLoss(const EvalCall& call, int64_t, int64_t) {
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    using C = decltype(compute);
    MeanOverPairs<C>(call, [](C x, C target) { return (x - target) * (x - target); });
  });
}

// max(x, 0) - x*z + log(1 + e^-|x|), which overflows for no x.
void EvalBceWithLogits(const EvalCall& call, int64_t, int64_t) {
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    using C = decltype(compute);
    MeanOverPairs<C>(call, [](C x, C target) {
      const C positive = x < 0 ? C(0) : x;  // NaN stays
      return positive - x * target + std::log1p(std::exp(-std::fabs(x)));
    });
  });
}

}  // namespace duotone::ir
