#include "ir/ops_nary.h"

#include "base/status.h"
#include "ir/grad.h"
#include "ir/op_util.h"

namespace duotone::ir {

absl::StatusOr<Types> InferCompare(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  DUOTONE_RETURN_IF_ERROR(CheckNumber(operands, 0));
  return InferEquality(operands, attrs);
}

absl::StatusOr<Types> InferEquality(llvm::ArrayRef<Type> operands, Attrs&) {
  DUOTONE_RETURN_IF_ERROR(CheckSameTypes(operands));
  return Types{operands[0].WithDType(DType::kBool)};
}

absl::StatusOr<Types> InferSelect(llvm::ArrayRef<Type> operands, Attrs&) {
  DUOTONE_RETURN_IF_ERROR(CheckBool(operands, 0));
  if (operands[1] != operands[2]) {
    return InvalidArgument("operands 1 and 2 have different types, %s and %s",
                           operands[1].ToString(), operands[2].ToString());
  }
  if (operands[0].shape != operands[1].shape) {
    return InvalidArgument("the condition %s and operand 1 %s have different shapes",
                           operands[0].ToString(), operands[1].ToString());
  }
  return Types{operands[1]};
}

namespace {

template <typename Word>
void SelectWords(const EvalCall& call, int64_t first, int64_t count) {
  const uint8_t* condition = call.operands[0].as<const uint8_t>() + first;
  const Word* yes = call.operands[1].as<const Word>() + first;
  const Word* no = call.operands[2].as<const Word>() + first;
  Word* result = call.results[0].as<Word>() + first;
  for (int64_t i = 0; i < count; ++i) result[i] = condition[i] ? yes[i] : no[i];
}

}  // namespace

// By size: what is picked keeps its bits, a NaN's payload included.
void RunSelect(const EvalCall& call, int64_t begin, int64_t end) {
  ForEachBlock(call.results[0], begin, end, [&](int64_t first, int64_t count) {
    switch (ByteSize(call.results[0].dtype)) {
      case 1:
        return SelectWords<uint8_t>(call, first, count);
      case 2:
        return SelectWords<uint16_t>(call, first, count);
      case 4:
        return SelectWords<uint32_t>(call, first, count);
      default:
        return SelectWords<uint64_t>(call, first, count);
    }
  });
}

absl::Status GradAdd(GradContext& ctx) {
  ctx.Set(0, ctx.grad());
  ctx.Set(1, ctx.grad());
  return absl::OkStatus();
}

absl::Status GradSub(GradContext& ctx) {
  ctx.Set(0, ctx.grad());
  if (ctx.wanted(1)) ctx.Set(1, ctx.emit().Neg(ctx.grad()));
  return absl::OkStatus();
}

absl::Status GradMul(GradContext& ctx) {
  if (ctx.wanted(0)) ctx.Set(0, ctx.emit().Mul(ctx.grad(), ctx.operand(1)));
  if (ctx.wanted(1)) ctx.Set(1, ctx.emit().Mul(ctx.grad(), ctx.operand(0)));
  return absl::OkStatus();
}

// g/b and -(g/b)*y: the square of b, which may leave f16's range, is not formed.
absl::Status GradDiv(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value quotient = e.Div(ctx.grad(), ctx.operand(1));
  ctx.Set(0, quotient);
  if (ctx.wanted(1)) ctx.Set(1, e.Neg(e.Mul(quotient, ctx.result())));
  return absl::OkStatus();
}

namespace {

// The gradient of max (loses = kLess) and min (loses = kGreater): to the winner, half to each of
// two equal operands, and to both where one is NaN.
absl::Status GradExtremum(GradContext& ctx, Op loses) {
  Emitter& e = ctx.emit();
  const Value a = ctx.operand(0);
  const Value b = ctx.operand(1);
  const Value half = e.Mul(ctx.grad(), e.ConstantLike(ctx.grad(), 0.5));
  const Value share = e.Select(e.Emit(Op::kEqual, {a, b}), half, ctx.grad());
  const Value zero = e.ConstantLike(ctx.grad(), 0);
  if (ctx.wanted(0)) ctx.Set(0, e.Select(e.Emit(loses, {a, b}), zero, share));
  if (ctx.wanted(1)) ctx.Set(1, e.Select(e.Emit(loses, {b, a}), zero, share));
  return absl::OkStatus();
}

}  // namespace

absl::Status GradMax(GradContext& ctx) { return GradExtremum(ctx, Op::kLess); }
absl::Status GradMin(GradContext& ctx) { return GradExtremum(ctx, Op::kGreater); }

// b * a^(b-1), and 0 where b is 0; y * log(a), and 0 where a is 0 and b is not negative (the
// limit).
absl::Status GradPow(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value a = ctx.operand(0);
  const Value b = ctx.operand(1);
  const Value zero = e.ConstantLike(a, 0);
  if (ctx.wanted(0)) {
    const Value power = e.Emit(Op::kPow, {a, e.Sub(b, e.ConstantLike(a, 1))});
    const Value slope = e.Mul(ctx.grad(), e.Mul(b, power));
    ctx.Set(0, e.Select(e.Emit(Op::kEqual, {b, zero}), zero, slope));
  }
  if (ctx.wanted(1)) {
    const Value slope = e.Mul(ctx.grad(), e.Mul(ctx.result(), e.Emit(Op::kLog, {a})));
    const Value flat =
        e.Emit(Op::kAnd, {e.Emit(Op::kEqual, {a, zero}), e.Emit(Op::kGreaterEqual, {b, zero})});
    ctx.Set(1, e.Select(flat, zero, slope));
  }
  return absl::OkStatus();
}

absl::Status GradSelect(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value condition = ctx.operand(0);
  const Value zero = e.ConstantLike(ctx.grad(), 0);
  if (ctx.wanted(1)) ctx.Set(1, e.Select(condition, ctx.grad(), zero));
  if (ctx.wanted(2)) ctx.Set(2, e.Select(condition, zero, ctx.grad()));
  return absl::OkStatus();
}

namespace {

// The second derivative of gelu at x: density * (2 - x^2), or for the tanh form, with t = tanh(u),
// (1 - t^2) * (u' + x/2 * (u'' - 2*t*u'^2)).
Value GeluCurvature(Emitter& e, Value x, bool tanh) {
  const auto number = [&](double value) { return e.ConstantLike(x, value); };
  const Value square = e.Mul(x, x);
  if (!tanh) {
    const Value bell = e.Emit(Op::kExp, {e.Mul(number(-0.5), square)});
    return e.Mul(e.Mul(number(kInvSqrtTwoPi), bell), e.Sub(number(2), square));
  }
  const Value inner = e.Add(number(1), e.Mul(number(kGeluCubic), square));
  const Value t = e.Emit(Op::kTanh, {e.Mul(e.Mul(number(kSqrtTwoOverPi), x), inner)});
  const Value first =
      e.Add(number(kSqrtTwoOverPi), e.Mul(number(3 * kSqrtTwoOverPi * kGeluCubic), square));
  const Value second = e.Mul(number(6 * kSqrtTwoOverPi * kGeluCubic), x);
  const Value bend = e.Sub(second, e.Mul(e.Mul(number(2), t), e.Mul(first, first)));
  const Value slope = e.Mul(e.Sub(number(1), t), e.Add(number(1), t));
  return e.Mul(slope, e.Add(first, e.Mul(e.Mul(number(0.5), x), bend)));
}

}  // namespace

absl::Status GradGeluGrad(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value x = ctx.operand(1);
  const GeluAttrs attrs = ctx.attrs<GeluAttrs>();
  if (ctx.wanted(0)) ctx.Set(0, e.Emit(Op::kGeluGrad, {ctx.grad(), x}, attrs));
  if (ctx.wanted(1)) {
    const Value product = e.Mul(ctx.grad(), ctx.operand(0));
    ctx.Set(1, e.Mul(product, GeluCurvature(e, x, attrs.tanh)));
  }
  return absl::OkStatus();
}

// The second derivative of silu is s * (1 - s) * (2 + x * (1 - 2*s)).
absl::Status GradSiluGrad(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value x = ctx.operand(1);
  if (ctx.wanted(0)) ctx.Set(0, e.Emit(Op::kSiluGrad, {ctx.grad(), x}));
  if (ctx.wanted(1)) {
    const Value s = e.Emit(Op::kSigmoid, {x});
    const Value complement = e.Sub(e.ConstantLike(x, 1), s);
    const Value bend = e.Add(e.ConstantLike(x, 2), e.Mul(x, e.Sub(complement, s)));
    const Value product = e.Mul(ctx.grad(), ctx.operand(0));
    ctx.Set(1, e.Mul(product, e.Mul(e.Mul(s, complement), bend)));
  }
  return absl::OkStatus();
}

}  // namespace duotone::ir
