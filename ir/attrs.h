// The attributes of ops: one struct per kind, each described once by its field list. The printer,
// the parser, equality, hashing and docs/ops.md are folds over that list (ir/attrs.cc,
// ir/printer.cc, ir/parser.cc); none has a case per op. A new kind is a struct here plus its name
// in DUOTONE_ATTR_KINDS.
//
// A field whose value equals its default is not printed. A field of type ResultType or ResultShape
// is never printed: it is the type (or shape) after the colon, for ops whose result does not follow
// from their operands.
#ifndef DUOTONE_IR_ATTRS_H_
#define DUOTONE_IR_ATTRS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "ir/type.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::ir {

// The value of a constant: one number for every element, or one number per element in row-major
// order. Integers are kept apart from floating-point numbers so that every i64 is exact; bool is
// stored as integers 0 and 1.
struct Literal {
  std::variant<std::vector<double>, std::vector<int64_t>> values = std::vector<double>{0.0};

  static Literal Float(double value) { return {std::vector<double>{value}}; }
  static Literal Int(int64_t value) { return {std::vector<int64_t>{value}}; }
  size_t size() const {
    return std::visit([](const auto& v) { return v.size(); }, values);
  }
  bool is_splat() const { return size() == 1; }
  // Element i (any i for a splat) as a double.
  double AsDouble(size_t i) const {
    return std::visit([&](const auto& v) { return static_cast<double>(v[is_splat() ? 0 : i]); },
                      values);
  }
  // Bitwise equality: NaN equals itself, 0 differs from -0.
  friend bool operator==(const Literal& a, const Literal& b);
};

// The result type or shape of the node itself; see the top of the file.
struct ResultType {
  Type type;
  friend bool operator==(const ResultType&, const ResultType&) = default;
};
struct ResultShape {
  Shape shape;
  friend bool operator==(const ResultShape&, const ResultShape&) = default;
};

using Ints = llvm::SmallVector<int64_t, 4>;

// One entry of a field list: the name in the text form and the member.
template <typename Struct, typename T>
struct Field {
  std::string_view name;
  T Struct::*member;
};
template <typename Struct, typename T>
Field(const char*, T Struct::*) -> Field<Struct, T>;

struct NoAttrs {
  static constexpr std::tuple<> kFields{};
};

struct CastAttrs {
  DType to = DType::kF32;
  static constexpr auto kFields = std::make_tuple(Field{"to", &CastAttrs::to});
};

// constant: `value` is converted to the result's dtype by round to nearest even.
struct ConstantAttrs {
  Literal value;
  ResultType result;
  static constexpr auto kFields = std::make_tuple(Field{"value", &ConstantAttrs::value},
                                                  Field{"result", &ConstantAttrs::result});
};

struct IotaAttrs {
  int64_t axis = 0;
  ResultType result;
  static constexpr auto kFields =
      std::make_tuple(Field{"axis", &IotaAttrs::axis}, Field{"result", &IotaAttrs::result});
};

// size_of: the number `size`, which may be a product of named sizes.
struct SizeOfAttrs {
  Dim size = 1;
  static constexpr auto kFields = std::make_tuple(Field{"size", &SizeOfAttrs::size});
};

struct ReshapeAttrs {
  ResultShape result;
  static constexpr auto kFields = std::make_tuple(Field{"result", &ReshapeAttrs::result});
};

// transpose: axis i of the result is axis perm[i] of the operand.
struct TransposeAttrs {
  Ints perm;
  static constexpr auto kFields = std::make_tuple(Field{"perm", &TransposeAttrs::perm});
};

// broadcast: axis i of the operand becomes axis dims[i] of the result; dims increases; an operand
// axis of size 1 may meet any size.
struct BroadcastAttrs {
  Ints dims;
  ResultShape result;
  static constexpr auto kFields = std::make_tuple(Field{"dims", &BroadcastAttrs::dims},
                                                  Field{"result", &BroadcastAttrs::result});
};

// slice: elements starts[i], starts[i] + strides[i], ... below limits[i]. Empty strides mean 1
// everywhere.
struct SliceAttrs {
  Ints starts;
  Shape limits;
  Ints strides;
  static constexpr auto kFields =
      std::make_tuple(Field{"starts", &SliceAttrs::starts}, Field{"limits", &SliceAttrs::limits},
                      Field{"strides", &SliceAttrs::strides});
};

// pad: low[i] elements before and high[i] after each axis, and interior[i] between neighbours
// (empty: none).
struct PadAttrs {
  Ints low;
  Ints high;
  Ints interior;
  double value = 0.0;
  static constexpr auto kFields =
      std::make_tuple(Field{"low", &PadAttrs::low}, Field{"high", &PadAttrs::high},
                      Field{"interior", &PadAttrs::interior}, Field{"value", &PadAttrs::value});
};

// concat, argmax. Negative axes count from the end and are made positive when the node is built.
struct AxisAttrs {
  int64_t axis = 0;
  static constexpr auto kFields = std::make_tuple(Field{"axis", &AxisAttrs::axis});
};

// softmax, log_softmax: `out` is the result's dtype; absent means the operand's.
struct SoftmaxAttrs {
  int64_t axis = -1;
  std::optional<DType> out;
  static constexpr auto kFields =
      std::make_tuple(Field{"axis", &SoftmaxAttrs::axis}, Field{"out", &SoftmaxAttrs::out});
};

// reduce_*, logsumexp: `axes` is sorted and not empty unless the operand is a scalar; reductions
// accumulate in f32 (f64 for f64) whatever `out` is.
struct ReduceAttrs {
  Ints axes;
  bool keep_dims = false;
  std::optional<DType> out;
  static constexpr auto kFields =
      std::make_tuple(Field{"axes", &ReduceAttrs::axes},
                      Field{"keep_dims", &ReduceAttrs::keep_dims}, Field{"out", &ReduceAttrs::out});
};

// matmul: over the last two axes; accumulation is in f32 (f64 for f64) whatever `out` is.
struct MatMulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
  std::optional<DType> out;
  static constexpr auto kFields = std::make_tuple(Field{"transpose_a", &MatMulAttrs::transpose_a},
                                                  Field{"transpose_b", &MatMulAttrs::transpose_b},
                                                  Field{"out", &MatMulAttrs::out});
};

struct LayerNormAttrs {
  double eps = 1e-5;
  static constexpr auto kFields = std::make_tuple(Field{"eps", &LayerNormAttrs::eps});
};

struct ClampAttrs {
  double min = 0.0;
  double max = 1.0;
  static constexpr auto kFields =
      std::make_tuple(Field{"min", &ClampAttrs::min}, Field{"max", &ClampAttrs::max});
};

// gelu: exact (erf) or the tanh approximation of Hendrycks and Gimpel, arXiv 1606.08415.
struct GeluAttrs {
  bool tanh = false;
  static constexpr auto kFields = std::make_tuple(Field{"tanh", &GeluAttrs::tanh});
};

struct CrossEntropyAttrs {
  double label_smoothing = 0.0;  // in [0, 1)
  int64_t ignore_index = -100;   // rows with this label count for nothing
  static constexpr auto kFields =
      std::make_tuple(Field{"label_smoothing", &CrossEntropyAttrs::label_smoothing},
                      Field{"ignore_index", &CrossEntropyAttrs::ignore_index});
};

struct DropoutAttrs {
  double rate = 0.5;  // the probability of a zero, in [0, 1)
  static constexpr auto kFields = std::make_tuple(Field{"rate", &DropoutAttrs::rate});
};

// fusion: what kind of kernel the body becomes (design.md section 7: pointwise, row, column,
// matmul, optimizer, scatter), and why its nodes stand together.
struct FusionAttrs {
  std::string family = "pointwise";
  std::string reason;
  static constexpr auto kFields =
      std::make_tuple(Field{"family", &FusionAttrs::family}, Field{"reason", &FusionAttrs::reason});
};

struct UniformAttrs {
  double low = 0.0;
  double high = 1.0;
  ResultType result;
  static constexpr auto kFields =
      std::make_tuple(Field{"low", &UniformAttrs::low}, Field{"high", &UniformAttrs::high},
                      Field{"result", &UniformAttrs::result});
};

struct NormalAttrs {
  double mean = 0.0;
  double stddev = 1.0;
  ResultType result;
  static constexpr auto kFields =
      std::make_tuple(Field{"mean", &NormalAttrs::mean}, Field{"stddev", &NormalAttrs::stddev},
                      Field{"result", &NormalAttrs::result});
};

struct SgdAttrs {
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
  static constexpr auto kFields = std::make_tuple(Field{"momentum", &SgdAttrs::momentum},
                                                  Field{"nesterov", &SgdAttrs::nesterov},
                                                  Field{"weight_decay", &SgdAttrs::weight_decay});
};

// adam_update (weight decay added to the gradient) and adamw_update (decoupled).
struct AdamAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  static constexpr auto kFields = std::make_tuple(
      Field{"beta1", &AdamAttrs::beta1}, Field{"beta2", &AdamAttrs::beta2},
      Field{"eps", &AdamAttrs::eps}, Field{"weight_decay", &AdamAttrs::weight_decay});
};

// update_loss_scale: PyTorch's GradScaler arithmetic. min_scale 0 and max_scale inf mean no floor
// and no ceiling.
struct LossScaleAttrs {
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min_scale = 0.0;
  double max_scale = std::numeric_limits<double>::infinity();
  static constexpr auto kFields =
      std::make_tuple(Field{"growth_factor", &LossScaleAttrs::growth_factor},
                      Field{"backoff_factor", &LossScaleAttrs::backoff_factor},
                      Field{"growth_interval", &LossScaleAttrs::growth_interval},
                      Field{"min_scale", &LossScaleAttrs::min_scale},
                      Field{"max_scale", &LossScaleAttrs::max_scale});
};

// learning_rate: the rate at a step; see the op's row. `schedule` is constant, linear or cosine.
struct ScheduleAttrs {
  std::string schedule = "constant";
  double base = 1e-3;        // the rate after warm-up
  double final = 0.0;        // the rate at total_steps, for linear and cosine
  int64_t warmup_steps = 0;  // linear from 0
  int64_t total_steps = 0;   // the schedule's own length
  static constexpr auto kFields = std::make_tuple(
      Field{"schedule", &ScheduleAttrs::schedule}, Field{"base", &ScheduleAttrs::base},
      Field{"final", &ScheduleAttrs::final}, Field{"warmup_steps", &ScheduleAttrs::warmup_steps},
      Field{"total_steps", &ScheduleAttrs::total_steps});
};

// Alphabetical. Laid out by hand: clang-format arranges a macro anew each time it runs.
// clang-format off
#define DUOTONE_ATTR_KINDS(V)                                                                      \
  V(AdamAttrs) V(AxisAttrs) V(BroadcastAttrs) V(CastAttrs) V(ClampAttrs) V(ConstantAttrs)          \
  V(CrossEntropyAttrs) V(DropoutAttrs) V(FusionAttrs) V(GeluAttrs) V(IotaAttrs) V(LayerNormAttrs)  \
  V(LossScaleAttrs) V(MatMulAttrs) V(NormalAttrs) V(PadAttrs) V(ReduceAttrs) V(ReshapeAttrs)       \
  V(ScheduleAttrs) V(SgdAttrs) V(SizeOfAttrs) V(SliceAttrs) V(SoftmaxAttrs) V(TransposeAttrs)      \
  V(UniformAttrs)
// clang-format on

#define DUOTONE_ATTR_COMMA_(kind) , kind
using Attrs = std::variant<NoAttrs DUOTONE_ATTR_KINDS(DUOTONE_ATTR_COMMA_)>;
#undef DUOTONE_ATTR_COMMA_

// An op's attribute kind is the index of its struct in Attrs: AttrKindOf<MatMulAttrs>.
using AttrKind = size_t;
template <typename T, size_t I = 0>
constexpr AttrKind AttrKindIndex() {
  if constexpr (std::is_same_v<std::variant_alternative_t<I, Attrs>, T>) {
    return I;
  } else {
    return AttrKindIndex<T, I + 1>();
  }
}
template <typename T>
inline constexpr AttrKind kAttrKindOf = AttrKindIndex<T>();

// A default-constructed Attrs holding the struct of `kind`.
Attrs DefaultAttrs(AttrKind kind);

// Calls fn(field_name, const member&) for each field of the struct in `attrs`.
template <typename Fn>
void ForEachField(const Attrs& attrs, Fn&& fn) {
  std::visit(
      [&](const auto& a) {
        std::apply([&](const auto&... field) { (fn(field.name, a.*(field.member)), ...); },
                   a.kFields);
      },
      attrs);
}
// The same with mutable members.
template <typename Fn>
void ForEachField(Attrs& attrs, Fn&& fn) {
  std::visit(
      [&](auto& a) {
        std::apply([&](const auto&... field) { (fn(field.name, a.*(field.member)), ...); },
                   a.kFields);
      },
      attrs);
}

// Bitwise equality of all fields (a NaN equals itself), and a hash that agrees with it.
bool AttrsEqual(const Attrs& a, const Attrs& b);
uint64_t HashAttrs(const Attrs& attrs);

// Replaces named sizes by their numbers in every field that holds sizes.
absl::Status BindAttrs(Attrs& attrs, const SizeBinding& binding);

// Replaces named sizes by numbers.
absl::StatusOr<Shape> BindShape(llvm::ArrayRef<Dim> shape, const SizeBinding& binding);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_ATTRS_H_
