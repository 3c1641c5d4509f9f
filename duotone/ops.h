// The ops of the graph API: functions and operators on values. docs/ops.md says what each computes.
#ifndef DUOTONE_DUOTONE_OPS_H_
#define DUOTONE_DUOTONE_OPS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "duotone/graph_builder.h"

// Elementwise ops with one operand and no attributes: a new one is one word here. V(name), as in
// ir/op_list.h.
#define DUOTONE_UNARY_FUNCTIONS(V) \
  V(Neg)                           \
  V(Abs)                           \
  V(Exp)                           \
  V(Log)                           \
  V(Sqrt)                          \
  V(Rsqrt) V(Tanh) V(Sigmoid) V(Softplus) V(Erf) V(Relu) V(Silu) V(StopGradient) V(IsFinite) V(Not)

// Elementwise ops with two operands, which are promoted and broadcast; either may be a number.
#define DUOTONE_BINARY_FUNCTIONS(V) \
  V(Add)                            \
  V(Sub)                            \
  V(Mul)                            \
  V(Div)                            \
  V(Max)                            \
  V(Min) V(Pow) V(Equal) V(NotEqual) V(Less) V(LessEqual) V(Greater) V(GreaterEqual) V(And) V(Or)

namespace duotone {

#define DUOTONE_DECLARE_UNARY_(name) Value name(const Value& x, Loc loc = Loc::Here());
DUOTONE_UNARY_FUNCTIONS(DUOTONE_DECLARE_UNARY_)
#undef DUOTONE_DECLARE_UNARY_

#define DUOTONE_DECLARE_BINARY_(name) \
  Value name(const Operand& a, const Operand& b, Loc loc = Loc::Here());
DUOTONE_BINARY_FUNCTIONS(DUOTONE_DECLARE_BINARY_)
#undef DUOTONE_DECLARE_BINARY_

// An operator's place is that of its first operand.
inline Value operator+(const Operand& a, const Operand& b) { return Add(a, b, a.loc()); }
inline Value operator-(const Operand& a, const Operand& b) { return Sub(a, b, a.loc()); }
inline Value operator*(const Operand& a, const Operand& b) { return Mul(a, b, a.loc()); }
inline Value operator/(const Operand& a, const Operand& b) { return Div(a, b, a.loc()); }
inline Value operator<(const Operand& a, const Operand& b) { return Less(a, b, a.loc()); }
inline Value operator<=(const Operand& a, const Operand& b) { return LessEqual(a, b, a.loc()); }
inline Value operator>(const Operand& a, const Operand& b) { return Greater(a, b, a.loc()); }
inline Value operator>=(const Operand& a, const Operand& b) { return GreaterEqual(a, b, a.loc()); }
inline Value operator-(const Operand& a) { return Neg(a.value(), a.loc()); }

// condition ? a : b, element by element; `condition` is bool.
Value Select(const Value& condition, const Operand& a, const Operand& b, Loc loc = Loc::Here());
Value Clamp(const Value& x, double min, double max, Loc loc = Loc::Here());
enum class GeluKind { kErf, kTanh };
Value Gelu(const Value& x, GeluKind kind = GeluKind::kErf, Loc loc = Loc::Here());
// A cast of the user's: it always rounds, whatever autocast does.
Value Cast(const Value& x, DType dtype, Loc loc = Loc::Here());

// Data movement. Negative axes count from the end everywhere.
Value Reshape(const Value& x, std::vector<Size> shape, Loc loc = Loc::Here());
// Axis i of the result is axis permutation[i] of x.
Value Transpose(const Value& x, std::vector<int64_t> permutation, Loc loc = Loc::Here());
// By NumPy's rule: axes are aligned at the end, size 1 meets any size.
Value Broadcast(const Value& x, std::vector<Size> shape, Loc loc = Loc::Here());
// Elements begin (counted from 0) to end - 1 along one axis.
Value Slice(const Value& x, int axis, int64_t begin, Size end, Loc loc = Loc::Here());
Value Pad(const Value& x, std::vector<int64_t> low, std::vector<int64_t> high, double value = 0,
          Loc loc = Loc::Here());
Value Concat(const std::vector<Value>& parts, int axis, Loc loc = Loc::Here());

// Reductions accumulate in f32 (f64 for f64). No axes: over all of them.
Value ReduceSum(const Value& x, std::vector<int64_t> axes = {}, bool keep_dims = false,
                Loc loc = Loc::Here());
Value ReduceMean(const Value& x, std::vector<int64_t> axes = {}, bool keep_dims = false,
                 Loc loc = Loc::Here());
Value ReduceMax(const Value& x, std::vector<int64_t> axes = {}, bool keep_dims = false,
                Loc loc = Loc::Here());
Value ReduceMin(const Value& x, std::vector<int64_t> axes = {}, bool keep_dims = false,
                Loc loc = Loc::Here());
Value LogSumExp(const Value& x, std::vector<int64_t> axes, bool keep_dims = false,
                Loc loc = Loc::Here());
Value ArgMax(const Value& x, int axis = -1, Loc loc = Loc::Here());

struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  std::optional<DType> out;  // accumulation is in f32 whatever it is
};
// Over the last two axes; the axes before them are broadcast.
Value MatMul(const Value& a, const Value& b, MatMulOptions options = {}, Loc loc = Loc::Here());
// x times w [in, out] plus bias [out]; x may have any number of leading axes.
Value Linear(const Value& x, const Value& w, const Value& bias, Loc loc = Loc::Here());
Value Linear(const Value& x, const Value& w, Loc loc = Loc::Here());

Value Softmax(const Value& x, int axis = -1, Loc loc = Loc::Here());
Value LogSoftmax(const Value& x, int axis = -1, Loc loc = Loc::Here());
// Over the last axis, with gain and bias.
Value LayerNorm(const Value& x, const Value& gain, const Value& bias, double eps = 1e-5,
                Loc loc = Loc::Here());

struct CrossEntropyOptions {
  double label_smoothing = 0;
  int64_t ignore_index = -100;
};
// Mean over the rows of `logits` [.., classes] of the cross-entropy with the integer `labels` [..].
Value CrossEntropy(const Value& logits, const Value& labels, CrossEntropyOptions options = {},
                   Loc loc = Loc::Here());
Value MseLoss(const Value& x, const Value& target, Loc loc = Loc::Here());
Value BceWithLogits(const Value& logits, const Value& target, Loc loc = Loc::Here());

// Rows of `table` [rows, width] at `indices` [..]: [.., width].
Value Embedding(const Value& table, const Value& indices, Loc loc = Loc::Here());
// Zero with probability `rate`, else x / (1 - rate); the identity in Evaluate.
Value Dropout(const Value& x, double rate, Loc loc = Loc::Here());

// d(sum of y) / d(each of xs), for penalties on gradients.
std::vector<Value> Gradient(const Value& y, const std::vector<Value>& xs, Loc loc = Loc::Here());

// Gives a node's value the name it has in the text form; returns the same value.
Value Named(const Value& value, std::string_view name, Loc loc = Loc::Here());

}  // namespace duotone

#endif  // DUOTONE_DUOTONE_OPS_H_
