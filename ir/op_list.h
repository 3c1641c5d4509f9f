// The ops, by family. The enum, the count and the text names come from this list; everything else
// about an op is its row in ir/op_table.cc, and a missing or misplaced row does not compile.
#ifndef DUOTONE_IR_OP_LIST_H_
#define DUOTONE_IR_OP_LIST_H_

#include <cstddef>
#include <cstdint>

// V(enumerator, text_name). Order within a family is the order of docs/ops.md.
// Laid out by hand: clang-format arranges a macro anew each time it runs.
// clang-format off
#define DUOTONE_OPS(V)                                                                             \
  /* sources: an input or a state entry is never a line of its own in the text form */             \
  V(Input, input) V(State, state)                                                                  \
  V(Constant, constant) V(Iota, iota) V(SizeOf, size_of)                                           \
  V(RandomUniform, random_uniform) V(RandomNormal, random_normal)                                  \
  /* elementwise, one operand */                                                                   \
  V(Neg, neg) V(Abs, abs) V(Exp, exp) V(Log, log) V(Sqrt, sqrt) V(Rsqrt, rsqrt) V(Tanh, tanh)      \
  V(Sigmoid, sigmoid) V(Softplus, softplus) V(Erf, erf) V(Relu, relu) V(Gelu, gelu)                \
  V(Silu, silu) V(Clamp, clamp)                                                                    \
  V(Cast, cast) V(StopGradient, stop_gradient) V(IsFinite, is_finite)                              \
  /* elementwise, several operands */                                                              \
  V(Add, add) V(Sub, sub) V(Mul, mul) V(Div, div) V(Max, max) V(Min, min) V(Pow, pow)              \
  V(Equal, eq) V(NotEqual, ne) V(Less, lt) V(LessEqual, le) V(Greater, gt) V(GreaterEqual, ge)     \
  V(And, and) V(Or, or) V(Not, not) V(Select, select)                                              \
  V(GeluGrad, gelu_grad) V(SiluGrad, silu_grad)                                                    \
  /* data movement */                                                                              \
  V(Reshape, reshape) V(Transpose, transpose) V(Broadcast, broadcast) V(Slice, slice) V(Pad, pad)  \
  V(Concat, concat)                                                                                \
  /* reductions */                                                                                 \
  V(ReduceSum, reduce_sum) V(ReduceMean, reduce_mean) V(ReduceMax, reduce_max)                     \
  V(ReduceMin, reduce_min) V(ArgMax, argmax) V(AllFinite, all_finite)                              \
  /* matrix products */                                                                            \
  V(MatMul, matmul)                                                                                \
  /* composites over rows, f32 inside */                                                           \
  V(Softmax, softmax) V(LogSoftmax, log_softmax) V(LogSumExp, logsumexp)                           \
  V(LayerNorm, layer_norm) V(SoftmaxGrad, softmax_grad) V(LogSoftmaxGrad, log_softmax_grad)        \
  V(LayerNormGrad, layer_norm_grad)                                                                \
  /* losses, f32 inside */                                                                         \
  V(CrossEntropy, cross_entropy) V(MseLoss, mse_loss) V(BceWithLogits, bce_with_logits)            \
  V(CrossEntropyGrad, cross_entropy_grad)                                                          \
  /* gather, scatter, dropout */                                                                   \
  V(Gather, gather) V(ScatterAdd, scatter_add) V(Dropout, dropout)                                 \
  /* differentiation: expanded by passes/autodiff */                                               \
  V(Gradient, gradient) V(GradientSeed, gradient_seed)                                             \
  /* optimizers and the loss scale */                                                              \
  V(SgdUpdate, sgd_update) V(AdamUpdate, adam_update) V(AdamWUpdate, adamw_update)                 \
  V(UpdateLossScale, update_loss_scale) V(LearningRate, learning_rate)                             \
  /* one kernel of a device; made by passes/fuse */                                                \
  V(Fusion, fusion)
// clang-format on

namespace duotone::ir {

enum class Op : uint16_t {
#define DUOTONE_OP_ENUM_(enumerator, name) k##enumerator,
  DUOTONE_OPS(DUOTONE_OP_ENUM_)
#undef DUOTONE_OP_ENUM_
};

#define DUOTONE_OP_COUNT_(enumerator, name) +1
inline constexpr size_t kOpCount = 0 DUOTONE_OPS(DUOTONE_OP_COUNT_);
#undef DUOTONE_OP_COUNT_

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_LIST_H_
