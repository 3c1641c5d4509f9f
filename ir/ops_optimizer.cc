#include "ir/ops_optimizer.h"

#include <cmath>

#include "ir/eval_reduce.h"
#include "ir/op_checks.h"

namespace duotone::ir {

// ---- Types ----

namespace {

// The parameter w and its gradient g; `lr` is the position of the learning rate.
absl::Status CheckParameter(llvm::ArrayRef<Type> operands, int lr) {
  const Type& w = operands[0];
  const Type& g = operands[1];
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  if (IsLow(w.dtype)) {
    return InvalidArgument(
        "parameter %s is 16 bits wide, where small updates round away (1 + 1e-4 = 1 in f16): keep "
        "it in f32 and cast it where it is read",
        w.ToString());
  }
  DUOTONE_RETURN_IF_ERROR(CheckSameShape(w, "parameter", g, "gradient"));
  if (g.dtype != w.dtype && !(w.dtype == DType::kF32 && IsLow(g.dtype))) {
    return InvalidArgument("gradient %s does not fit the parameter %s", g.ToString(), w.ToString());
  }
  return CheckScalar(operands[lr], DType::kF32, "lr");
}

absl::Status CheckMoment(const Type& moment, const Type& w, std::string_view what) {
  if (moment == w) return absl::OkStatus();
  return InvalidArgument("%s must be %s like the parameter, not %s", what, w.ToString(),
                         moment.ToString());
}

absl::Status CheckAtLeastZero(double value, std::string_view what) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return InvalidArgument("%s=%g must be a finite number of at least 0", what, value);
}

absl::Status CheckBelowOne(double value, std::string_view what) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return InvalidArgument("%s=%g is outside [0, 1)", what, value);
}

}  // namespace

absl::StatusOr<Types> InferSgd(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const SgdAttrs& sgd = std::get<SgdAttrs>(attrs);
  DUOTONE_RETURN_IF_ERROR(CheckParameter(operands, 2));
  DUOTONE_RETURN_IF_ERROR(CheckAtLeastZero(sgd.momentum, "momentum"));
  DUOTONE_RETURN_IF_ERROR(CheckAtLeastZero(sgd.weight_decay, "weight_decay"));
  const bool has_buffer = operands.size() == 4;
  if (has_buffer != (sgd.momentum > 0)) {
    return InvalidArgument(
        "momentum=%g takes %s", sgd.momentum,
        sgd.momentum > 0 ? "a momentum buffer as the fourth operand" : "no momentum buffer");
  }
  if (sgd.nesterov && !has_buffer) return InvalidArgument("nesterov needs a momentum above 0");
  if (!has_buffer) return Types{operands[0]};
  DUOTONE_RETURN_IF_ERROR(CheckMoment(operands[3], operands[0], "the momentum buffer"));
  return Types{operands[0], operands[0]};
}

absl::StatusOr<Types> InferAdam(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const AdamAttrs& adam = std::get<AdamAttrs>(attrs);
  DUOTONE_RETURN_IF_ERROR(CheckParameter(operands, 5));
  DUOTONE_RETURN_IF_ERROR(CheckMoment(operands[2], operands[0], "m"));
  DUOTONE_RETURN_IF_ERROR(CheckMoment(operands[3], operands[0], "v"));
  DUOTONE_RETURN_IF_ERROR(CheckScalar(operands[4], DType::kI64, "step"));
  DUOTONE_RETURN_IF_ERROR(CheckBelowOne(adam.beta1, "beta1"));
  DUOTONE_RETURN_IF_ERROR(CheckBelowOne(adam.beta2, "beta2"));
  DUOTONE_RETURN_IF_ERROR(CheckAtLeastZero(adam.eps, "eps"));
  DUOTONE_RETURN_IF_ERROR(CheckAtLeastZero(adam.weight_decay, "weight_decay"));
  return Types{operands[0], operands[0], operands[0]};
}

absl::StatusOr<Types> InferUpdateLossScale(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const LossScaleAttrs& scale = std::get<LossScaleAttrs>(attrs);
  DUOTONE_RETURN_IF_ERROR(CheckScalar(operands[0], DType::kF32, "scale"));
  DUOTONE_RETURN_IF_ERROR(CheckScalar(operands[1], DType::kI32, "tracker"));
  DUOTONE_RETURN_IF_ERROR(CheckScalar(operands[2], DType::kBool, "ok"));
  if (!(scale.growth_factor > 1)) {
    return InvalidArgument("growth_factor=%g must be above 1", scale.growth_factor);
  }
  if (!(scale.backoff_factor > 0 && scale.backoff_factor < 1)) {
    return InvalidArgument("backoff_factor=%g is outside (0, 1)", scale.backoff_factor);
  }
  if (scale.growth_interval < 1) {
    return InvalidArgument("growth_interval=%d must be at least 1", scale.growth_interval);
  }
  if (!(scale.min_scale >= 0 && scale.min_scale <= scale.max_scale)) {
    return InvalidArgument("min_scale=%g and max_scale=%g must satisfy 0 <= min_scale <= max_scale",
                           scale.min_scale, scale.max_scale);
  }
  return Types{operands[0], operands[1]};
}

absl::StatusOr<Types> InferLearningRate(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const ScheduleAttrs& rate = std::get<ScheduleAttrs>(attrs);
  DUOTONE_RETURN_IF_ERROR(CheckScalar(operands[0], DType::kI64, "step"));
  const bool decays = rate.schedule == "linear" || rate.schedule == "cosine";
  if (!decays && rate.schedule != "constant") {
    return InvalidArgument("unknown schedule '%s'; known are constant, linear, cosine",
                           rate.schedule);
  }
  DUOTONE_RETURN_IF_ERROR(CheckAtLeastZero(rate.base, "base"));
  DUOTONE_RETURN_IF_ERROR(CheckAtLeastZero(rate.final, "final"));
  if (rate.warmup_steps < 0) {
    return InvalidArgument("warmup_steps=%d must not be negative", rate.warmup_steps);
  }
  if (decays && rate.total_steps <= rate.warmup_steps) {
    return InvalidArgument("schedule '%s' needs more total_steps than its %d warmup_steps, not %d",
                           rate.schedule, rate.warmup_steps, rate.total_steps);
  }
  return Types{{DType::kF32, {}}};
}

// ---- Evaluation: optimizers ----
//
// PyTorch's formulas, element by element in the parameter's type; a 16-bit gradient is read into
// f32. Numbers that do not depend on the element are computed in double and rounded once to the
// parameter's type; lr is an f32 tensor, so a rate such as 1e-3 enters as the f32 nearest to it.
// Element i of a result may share memory with element i of an operand: each block is read before it
// is written.

namespace {

// Calls fn(first, count, w, g) with the parameter's type for each block.
template <typename C, typename Fn>
void ForEachParameterBlock(const EvalCall& call, int64_t begin, int64_t end, Fn&& fn) {
  C g_buffer[kBlock];
  ForEachBlock(call.results[0], begin, end, [&](int64_t first, int64_t count) {
    const C* g = LoadBlock(call.operands[1], first, count, g_buffer);
    fn(first, count, call.operands[0].as<const C>() + first, g);
  });
}

// The new values of a block. They are collected apart from the operands, with which the results may
// share memory: so the loops need no order and are vectorised.
template <typename C>
struct NextValues {
  C values[kBlock];

  void Store(const TensorView& result, int64_t first, int64_t count) const {
    std::copy_n(values, count, result.as<C>() + first);
  }
};

// The gradient plus decay * w; the gradient itself without decay, so that an infinite w does not
// make it NaN.
template <typename C>
void AddDecay(const C* g, const C* w, C decay, int64_t count, C* sum) {
  if (decay == 0) {
    std::copy_n(g, count, sum);
  } else {
    for (int64_t i = 0; i < count; ++i) sum[i] = g[i] + decay * w[i];
  }
}

template <typename C>
void Sgd(const EvalCall& call, int64_t begin, int64_t end) {
  const SgdAttrs& attrs = std::get<SgdAttrs>(*call.attrs);
  const C lr = static_cast<C>(*call.operands[2].as<float>());
  const C decay = static_cast<C>(attrs.weight_decay);
  const C momentum = static_cast<C>(attrs.momentum);
  const bool has_buffer = call.operands.size() == 4;
  ForEachParameterBlock<C>(
      call, begin, end, [&](int64_t first, int64_t count, const C* w, const C* g) {
        NextValues<C> next_w;
        C d[kBlock];
        AddDecay(g, w, decay, count, d);
        if (has_buffer) {
          NextValues<C> velocity;
          const C* buffer = call.operands[3].as<const C>() + first;
          for (int64_t i = 0; i < count; ++i) velocity.values[i] = momentum * buffer[i] + d[i];
          for (int64_t i = 0; i < count; ++i) {
            d[i] = attrs.nesterov ? d[i] + momentum * velocity.values[i] : velocity.values[i];
          }
          velocity.Store(call.results[1], first, count);
        }
        for (int64_t i = 0; i < count; ++i) next_w.values[i] = w[i] - lr * d[i];
        next_w.Store(call.results[0], first, count);
      });
}

template <typename C>
void Adam(const EvalCall& call, bool decoupled, int64_t begin, int64_t end) {
  const AdamAttrs& attrs = std::get<AdamAttrs>(*call.attrs);
  const double lr = *call.operands[5].as<float>();
  const double step = static_cast<double>(*call.operands[4].as<int64_t>());
  const double correction1 = 1.0 - std::pow(attrs.beta1, step);
  const double correction2 = 1.0 - std::pow(attrs.beta2, step);
  const C step_size = static_cast<C>(lr / correction1);
  const C root_correction2 = static_cast<C>(std::sqrt(correction2));
  const C keep = static_cast<C>(decoupled ? 1.0 - lr * attrs.weight_decay : 1.0);
  const C decay = static_cast<C>(decoupled ? 0.0 : attrs.weight_decay);
  const C beta2 = static_cast<C>(attrs.beta2);
  const C rest1 = static_cast<C>(1.0 - attrs.beta1);
  const C rest2 = static_cast<C>(1.0 - attrs.beta2);
  const C eps = static_cast<C>(attrs.eps);
  ForEachParameterBlock<C>(
      call, begin, end, [&](int64_t first, int64_t count, const C* w, const C* g) {
        const C* m = call.operands[2].as<const C>() + first;
        const C* v = call.operands[3].as<const C>() + first;
        NextValues<C> next_w, next_m, next_v;
        C d[kBlock];
        AddDecay(g, w, decay, count, d);
        for (int64_t i = 0; i < count; ++i) next_m.values[i] = m[i] + rest1 * (d[i] - m[i]);
        for (int64_t i = 0; i < count; ++i) {
          next_v.values[i] = v[i] * beta2 + rest2 * d[i] * d[i];
        }
        for (int64_t i = 0; i < count; ++i) {
          const C denominator = std::sqrt(next_v.values[i]) / root_correction2 + eps;
          next_w.values[i] = w[i] * keep - step_size * (next_m.values[i] / denominator);
        }
        next_w.Store(call.results[0], first, count);
        next_m.Store(call.results[1], first, count);
        next_v.Store(call.results[2], first, count);
      });
}

}  // namespace

void EvalSgd(const EvalCall& call, int64_t begin, int64_t end) {
  WithFloatType(call.operands[0].dtype,
                [&](auto compute) { Sgd<decltype(compute)>(call, begin, end); });
}
void EvalAdam(const EvalCall& call, int64_t begin, int64_t end) {
  WithFloatType(call.operands[0].dtype,
                [&](auto compute) { Adam<decltype(compute)>(call, false, begin, end); });
}
void EvalAdamW(const EvalCall& call, int64_t begin, int64_t end) {
  WithFloatType(call.operands[0].dtype,
                [&](auto compute) { Adam<decltype(compute)>(call, true, begin, end); });
}

// ---- Evaluation: loss scale and learning rate ----

// PyTorch's _amp_update_scale_: products in double, rounded to f32; growth when the count of clean
// steps *equals* the interval; a growth that would leave f32 keeps the scale and starts the count
// again. Floor and ceiling come after it.
void EvalUpdateLossScale(const EvalCall& call, int64_t, int64_t) {
  const LossScaleAttrs& attrs = std::get<LossScaleAttrs>(*call.attrs);
  float scale = *call.operands[0].as<float>();
  int32_t tracker = *call.operands[1].as<int32_t>();
  if (*call.operands[2].as<uint8_t>() == 0) {
    scale = static_cast<float>(static_cast<double>(scale) * attrs.backoff_factor);
    tracker = 0;
  } else {
    const int64_t clean_steps = int64_t{tracker} + 1;
    if (clean_steps == attrs.growth_interval) {
      const float grown = static_cast<float>(static_cast<double>(scale) * attrs.growth_factor);
      if (std::isfinite(grown)) scale = grown;
      tracker = 0;
    } else {
      tracker = static_cast<int32_t>(std::min<int64_t>(clean_steps, INT32_MAX));
    }
  }
  // A NaN passes both comparisons by: an unusable scale stays visible.
  if (attrs.min_scale > 0 && scale < attrs.min_scale) scale = static_cast<float>(attrs.min_scale);
  if (scale > attrs.max_scale) scale = static_cast<float>(attrs.max_scale);
  *call.results[0].as<float>() = scale;
  *call.results[1].as<int32_t>() = tracker;
}

// In double, rounded once. With t = (step - warmup) / (total - warmup), at most 1:
//   step < warmup   base * (step + 1) / warmup
//   linear          base + (final - base) * t
//   cosine          final + (base - final) * (1 + cos(pi * t)) / 2
void EvalLearningRate(const EvalCall& call, int64_t, int64_t) {
  const ScheduleAttrs& attrs = std::get<ScheduleAttrs>(*call.attrs);
  const int64_t step = std::max<int64_t>(0, *call.operands[0].as<int64_t>());
  double rate = attrs.base;
  if (step < attrs.warmup_steps) {
    rate = attrs.base * (static_cast<double>(step) + 1.0) / static_cast<double>(attrs.warmup_steps);
  } else if (attrs.schedule != "constant") {
    constexpr double kPi = 3.14159265358979323846;
    const double t = static_cast<double>(step - attrs.warmup_steps) /
                     static_cast<double>(attrs.total_steps - attrs.warmup_steps);
    if (t >= 1) {
      rate = attrs.final;
    } else if (attrs.schedule == "linear") {
      rate = attrs.base + (attrs.final - attrs.base) * t;
    } else {
      rate = attrs.final + (attrs.base - attrs.final) * 0.5 * (1.0 + std::cos(kPi * t));
    }
  }
  *call.results[0].as<float>() = static_cast<float>(rate);
}

}  // namespace duotone::ir
