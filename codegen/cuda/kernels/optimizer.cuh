// Updates of parameters, PyTorch's formulas, for all tensors of an optimizer in one launch. C is
// the parameter's type, float or double; in it everything is computed that depends on the element.
//
// Launch: a block belongs to one tensor, OptimizerTensor says to which. Numbers that do not depend
// on the element are computed by the block's first thread, in double, and rounded once to C.
#ifndef DUOTONE_OPTIMIZER_CUH
#define DUOTONE_OPTIMIZER_CUH

#include "duotone/prelude.cuh"

// The tensor t with first_block[t] <= block < first_block[t + 1]. The same for all threads.
DUOTONE_DEVICE int OptimizerTensor(const int* first_block, int tensors, int block) {
  int low = 0;
  int high = tensors;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first_block[middle] <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// base to an integer power. By squaring, which unlike pow() takes few instructions on devices whose
// double units are slow.
DUOTONE_DEVICE double OptimizerPower(double base, long long exponent) {
  double power = 1.0;
  double square = base;
  unsigned long long left = exponent < 0 ? -static_cast<unsigned long long>(exponent) : exponent;
  for (; left != 0; left >>= 1) {
    if ((left & 1) != 0) power *= square;
    square *= square;
  }
  return exponent < 0 ? 1.0 / power : power;
}

// The gradient plus decay * w; the gradient itself without decay, so that an infinite w does not
// make it NaN.
template <class C>
DUOTONE_DEVICE C OptimizerDecay(C gradient, C decay, C weight) {
  return decay == 0 ? gradient : gradient + decay * weight;
}

// ---- adam_update, adamw_update

template <class C>
struct AdamScalars {
  C step_size;         // lr / (1 - beta1^step)
  C root_correction2;  // sqrt(1 - beta2^step)
  C keep;              // what is left of a weight after decoupled decay
  C decay;             // what of it joins the gradient
  C beta2;
  C rest1;  // 1 - beta1
  C rest2;  // 1 - beta2
  C eps;
};

template <class C>
DUOTONE_DEVICE AdamScalars<C> MakeAdamScalars(bool decoupled, double beta1, double beta2, double eps,
                                          double weight_decay, long long step, float rate) {
  const double lr = rate;
  AdamScalars<C> scalars;
  scalars.step_size = static_cast<C>(lr / (1.0 - OptimizerPower(beta1, step)));
  scalars.root_correction2 =
      static_cast<C>(Sqrt(1.0 - OptimizerPower(beta2, step)));
  scalars.keep = static_cast<C>(decoupled ? 1.0 - lr * weight_decay : 1.0);
  scalars.decay = static_cast<C>(decoupled ? 0.0 : weight_decay);
  scalars.beta2 = static_cast<C>(beta2);
  scalars.rest1 = static_cast<C>(1.0 - beta1);
  scalars.rest2 = static_cast<C>(1.0 - beta2);
  scalars.eps = static_cast<C>(eps);
  return scalars;
}

template <class C>
DUOTONE_DEVICE void AdamUpdate(const AdamScalars<C>& scalars, C gradient, C& weight, C& m, C& v) {
  const C d = OptimizerDecay(gradient, scalars.decay, weight);
  m = m + scalars.rest1 * (d - m);
  v = v * scalars.beta2 + scalars.rest2 * d * d;
  const C denominator = Sqrt(v) / scalars.root_correction2 + scalars.eps;
  weight = weight * scalars.keep - scalars.step_size * (m / denominator);
}

// ---- sgd_update

template <class C>
struct SgdScalars {
  C rate;
  C decay;
  C momentum;
};

template <class C>
DUOTONE_DEVICE SgdScalars<C> MakeSgdScalars(double weight_decay, double momentum, float rate) {
  return {static_cast<C>(rate), static_cast<C>(weight_decay), static_cast<C>(momentum)};
}

template <class C>
DUOTONE_DEVICE void SgdUpdate(const SgdScalars<C>& scalars, C gradient, C& weight) {
  weight = weight - scalars.rate * OptimizerDecay(gradient, scalars.decay, weight);
}

template <class C>
DUOTONE_DEVICE void SgdMomentumUpdate(const SgdScalars<C>& scalars, bool nesterov, C gradient,
                                  C& weight, C& velocity) {
  const C d = OptimizerDecay(gradient, scalars.decay, weight);
  velocity = scalars.momentum * velocity + d;
  weight = weight - scalars.rate * (nesterov ? d + scalars.momentum * velocity : velocity);
}

#endif  // DUOTONE_OPTIMIZER_CUH
