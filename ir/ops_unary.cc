#include "ir/ops_unary.h"

#include "base/status.h"
#include "ir/grad.h"
#include "ir/op_util.h"

namespace duotone::ir {

absl::StatusOr<Types> InferClamp(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const auto& clamp = std::get<ClampAttrs>(attrs);
  if (!(clamp.min <= clamp.max)) {
    return InvalidArgument("min=%g is not at most max=%g", clamp.min, clamp.max);
  }
  return InferSameNumber(operands, attrs);
}

absl::StatusOr<Types> InferCast(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  return Types{operands[0].WithDType(std::get<CastAttrs>(attrs).to)};
}

absl::StatusOr<Types> InferIsFinite(llvm::ArrayRef<Type> operands, Attrs&) {
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  return Types{operands[0].WithDType(DType::kBool)};
}

void RunCast(const EvalCall& call, int64_t begin, int64_t end) {
  WithComputeType(call.operands[0].dtype, [&](auto compute) {
    using T = decltype(compute);
    ForEachBlock(call.results[0], begin, end, [&](int64_t first, int64_t count) {
      T buffer[kBlock];
      StoreBlock<T>(call.results[0], first, count,
                    LoadBlock<T>(call.operands[0], first, count, buffer));
    });
  });
}

absl::Status GradNeg(GradContext& ctx) {
  ctx.Set(0, ctx.emit().Neg(ctx.grad()));
  return absl::OkStatus();
}

// g * sign(x), with sign(0) = 0.
absl::Status GradAbs(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value x = ctx.operand(0);
  const Value zero = e.ConstantLike(x, 0);
  const Value negative = e.Select(e.Emit(Op::kLess, {x, zero}), e.Neg(ctx.grad()), zero);
  ctx.Set(0, e.Select(e.Emit(Op::kGreater, {x, zero}), ctx.grad(), negative));
  return absl::OkStatus();
}

absl::Status GradExp(GradContext& ctx) {
  ctx.Set(0, ctx.emit().Mul(ctx.grad(), ctx.result()));
  return absl::OkStatus();
}

absl::Status GradLog(GradContext& ctx) {
  ctx.Set(0, ctx.emit().Div(ctx.grad(), ctx.operand(0)));
  return absl::OkStatus();
}

absl::Status GradSqrt(GradContext& ctx) {
  Emitter& e = ctx.emit();
  ctx.Set(0, e.Div(ctx.grad(), e.Add(ctx.result(), ctx.result())));
  return absl::OkStatus();
}

// -y / (2 * x) rather than -y^3 / 2: the cube leaves f16's range for x below 6e-4.
absl::Status GradRsqrt(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value y = ctx.result();
  const Value numerator = e.Mul(ctx.grad(), e.Mul(y, e.ConstantLike(y, -0.5)));
  ctx.Set(0, e.Div(numerator, ctx.operand(0)));
  return absl::OkStatus();
}

// g * (1 - y) * (1 + y): near |y| = 1 the difference is exact, 1 - y*y is not.
absl::Status GradTanh(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value y = ctx.result();
  const Value one = e.ConstantLike(y, 1);
  ctx.Set(0, e.Mul(ctx.grad(), e.Mul(e.Sub(one, y), e.Add(one, y))));
  return absl::OkStatus();
}

absl::Status GradSigmoid(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value y = ctx.result();
  ctx.Set(0, e.Mul(ctx.grad(), e.Mul(y, e.Sub(e.ConstantLike(y, 1), y))));
  return absl::OkStatus();
}

absl::Status GradSoftplus(GradContext& ctx) {
  Emitter& e = ctx.emit();
  ctx.Set(0, e.Mul(ctx.grad(), e.Emit(Op::kSigmoid, {ctx.operand(0)})));
  return absl::OkStatus();
}

// 2/sqrt(pi) * exp(-x*x); where x*x overflows, the factor is 0 as it should be.
absl::Status GradErf(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value x = ctx.operand(0);
  const Value bell = e.Emit(Op::kExp, {e.Neg(e.Mul(x, x))});
  ctx.Set(0, e.Mul(ctx.grad(), e.Mul(bell, e.ConstantLike(x, kTwoOverSqrtPi))));
  return absl::OkStatus();
}

// By the result, so that only it is kept; 0 at 0, and a NaN passes the gradient on.
absl::Status GradRelu(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value y = ctx.result();
  const Value zero = e.ConstantLike(y, 0);
  ctx.Set(0, e.Select(e.Emit(Op::kLessEqual, {y, zero}), zero, ctx.grad()));
  return absl::OkStatus();
}

absl::Status GradGelu(GradContext& ctx) {
  ctx.Set(0, ctx.emit().Emit(Op::kGeluGrad, {ctx.grad(), ctx.operand(0)}, ctx.attrs<GeluAttrs>()));
  return absl::OkStatus();
}

absl::Status GradSilu(GradContext& ctx) {
  ctx.Set(0, ctx.emit().Emit(Op::kSiluGrad, {ctx.grad(), ctx.operand(0)}));
  return absl::OkStatus();
}

// Passes inside and at the bounds.
absl::Status GradClamp(GradContext& ctx) {
  Emitter& e = ctx.emit();
  const Value x = ctx.operand(0);
  const Value above =
      e.Emit(Op::kGreaterEqual, {x, e.ConstantLike(x, ctx.attrs<ClampAttrs>().min)});
  const Value below = e.Emit(Op::kLessEqual, {x, e.ConstantLike(x, ctx.attrs<ClampAttrs>().max)});
  const Value inside = e.Emit(Op::kAnd, {above, below});
  ctx.Set(0, e.Select(inside, ctx.grad(), e.ConstantLike(x, 0)));
  return absl::OkStatus();
}

absl::Status GradCast(GradContext& ctx) {
  if (ctx.operand(0).type().is_float()) ctx.Set(0, ctx.emit().Cast(ctx.grad(), ctx.grad_dtype(0)));
  return absl::OkStatus();
}

}  // namespace duotone::ir
