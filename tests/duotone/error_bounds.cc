#include "tests/duotone/error_bounds.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "llvm/ADT/DenseMap.h"

namespace duotone {
namespace {

using ir::Array;
using ir::Op;
using Arrays = std::vector<Array>;

// The distance of neighbouring numbers of a type at a magnitude.
double UnitAt(DType dtype, double magnitude) {
  struct Format {
    int digits;
    int least;  // exponent of a normal number
  };
  const Format format = dtype == DType::kF16    ? Format{11, -14}
                        : dtype == DType::kBF16 ? Format{8, -126}
                        : dtype == DType::kF32  ? Format{24, -126}
                                                : Format{53, -1022};
  const int exponent = magnitude == 0 ? format.least : std::ilogb(magnitude);
  return std::ldexp(1.0, std::max(exponent, format.least) - (format.digits - 1));
}

// "One node", 2: what IEEE 754 defines is rounded to nearest. "Transcendental functions": the wider
// column of the table, in units of the exact f32 result. What picks or moves its operands does not
// err.
std::optional<double> UnitsOf(const ir::Node& node) {
  switch (node.op()) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kSqrt:
      return 0.5;
    case Op::kLog:
    case Op::kPow:
      return 1;
    case Op::kRsqrt:
      return 1.5;
    case Op::kErf:
      return 2;
    case Op::kTanh:
      return 4;
    case Op::kExp:
      return 6;
    case Op::kSigmoid:
    case Op::kSoftplus:
      return 8;
    case Op::kSilu:
      return 9;
    case Op::kGelu:
      if (node.attrs_as<ir::GeluAttrs>().tanh) return std::nullopt;
      return 10;
    case Op::kAbs:
    case Op::kArgMax:
    case Op::kBroadcast:
    case Op::kCast:
    case Op::kClamp:
    case Op::kGather:
    case Op::kMax:
    case Op::kMin:
    case Op::kNeg:
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kRelu:
    case Op::kReshape:
    case Op::kSelect:
    case Op::kTranspose:
      return 0;
    default:
      return std::nullopt;
  }
}

// "CUDA kernels": the approximations.
std::optional<double> ApproximationError(Op op, double magnitude) {
  switch (op) {
    case Op::kExp:
    case Op::kTanh:
    case Op::kSigmoid:
      return 0x1p-17 * magnitude;
    case Op::kSilu:
    case Op::kGelu:
      return 0x1p-18 * std::max(1.0, magnitude);
    default:
      return std::nullopt;
  }
}

template <typename F>
Array Map(const Array& array, F&& f) {
  Array result({DType::kF64, array.type().shape});
  for (int64_t i = 0; i < array.elements(); ++i) result.Set(i, f(i));
  return result;
}

// An array without errors.
Bounded InF64(const Array& array) {
  return {array.type().is_float() ? Map(array, [&](int64_t i) { return array.Get(i); }) : array,
          Map(array, [](int64_t) { return 0; })};
}

// The greatest magnitude that an element may have.
Array MagnitudeOf(const Bounded& x) {
  return Map(x.value, [&](int64_t i) { return std::fabs(x.value.Get(i)) + x.error.Get(i); });
}

bool IsExact(const Bounded& x) {
  for (int64_t i = 0; i < x.error.elements(); ++i) {
    if (x.error.Get(i) != 0) return false;
  }
  return true;
}

// Attributes with which an op gives f64 for f64.
ir::Attrs Widened(ir::Attrs attrs) {
  ir::ForEachField(attrs, [](std::string_view, auto& field) {
    using T = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<T, DType>) {
      if (IsFloat(field)) field = DType::kF64;
    } else if constexpr (std::is_same_v<T, std::optional<DType>>) {
      field.reset();
    } else if constexpr (std::is_same_v<T, ir::ResultType>) {
      if (field.type.is_float()) field.type.dtype = DType::kF64;
    }
  });
  return attrs;
}

// One node, whose operands are known with their errors.
class NodeBounds {
 public:
  NodeBounds(const ir::Node& node, std::vector<Bounded> operands, bool approximates)
      : node_(node), operands_(std::move(operands)), approximates_(approximates) {}

  absl::StatusOr<std::vector<Bounded>> Run() {
    if (node_.operands().empty()) return Constants();
    Arrays values;
    for (const Bounded& operand : operands_) values.push_back(operand.value);
    DUOTONE_ASSIGN_OR_RETURN(values, Evaluate(values));
    if (values.size() != 1) {
      return Unimplemented("%s: no rule for several results", node_.def().name);
    }
    Bounded result{values[0], Map(values[0], [](int64_t) { return 0; })};
    if (!node_.type().is_float()) {
      const bool exact = std::all_of(operands_.begin(), operands_.end(), IsExact);
      if (!exact) return Unimplemented("%s: of values that err", node_.def().name);
      return std::vector<Bounded>{std::move(result)};
    }
    DUOTONE_RETURN_IF_ERROR(node_.op() == Op::kMatMul ? AddMatMul(result) : AddOperands(result));
    DUOTONE_RETURN_IF_ERROR(AddOwn(result));
    Round(result);
    return std::vector<Bounded>{std::move(result)};
  }

 private:
  // Constants are numbers of their type.
  absl::StatusOr<std::vector<Bounded>> Constants() const {
    if (node_.op() != Op::kConstant) return Unimplemented("%s: no rule", node_.def().name);
    DUOTONE_ASSIGN_OR_RETURN(const Arrays values, ir::EvaluateOp(node_.op(), node_.attrs(), {}));
    return std::vector<Bounded>{InF64(values[0])};
  }

  absl::StatusOr<Arrays> Evaluate(llvm::ArrayRef<Array> operands) const {
    return ir::EvaluateOp(node_.op(), Widened(node_.attrs()), operands);
  }
  absl::StatusOr<Array> EvaluateOne(llvm::ArrayRef<Array> operands) const {
    DUOTONE_ASSIGN_OR_RETURN(Arrays results, Evaluate(operands));
    return std::move(results[0]);
  }

  // What operands that err make of the result: ops other than products of matrices rise or fall
  // in every operand, so the results furthest away are those for operands at their ends. (Where
  // gelu and silu turn, an end is still further away than the turning point.)
  absl::Status AddOperands(Bounded& result) const {
    std::vector<size_t> erring;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!IsExact(operands_[i])) erring.push_back(i);
    }
    if (erring.empty()) return absl::OkStatus();
    for (size_t ends = 0; ends < size_t{1} << erring.size(); ++ends) {
      Arrays moved;
      for (const Bounded& operand : operands_) moved.push_back(operand.value);
      for (size_t bit = 0; bit < erring.size(); ++bit) {
        const Bounded& operand = operands_[erring[bit]];
        const double sign = (ends >> bit & 1) != 0 ? 1 : -1;
        moved[erring[bit]] = Map(operand.value, [&](int64_t i) {
          return operand.value.Get(i) + sign * operand.error.Get(i);
        });
      }
      DUOTONE_ASSIGN_OR_RETURN(const Array at_ends, EvaluateOne(moved));
      for (int64_t i = 0; i < at_ends.elements(); ++i) {
        const double distance = std::fabs(at_ends.Get(i) - result.value.Get(i));
        // A distance that is no number allows nothing.
        if (!(distance <= result.error.Get(i))) result.error.Set(i, distance);
      }
    }
    return absl::OkStatus();
  }

  // "Sums": K * 2^-24 times the sum of the magnitudes of the terms. Errors of factors meet
  // magnitudes of factors.
  absl::Status AddMatMul(Bounded& result) const {
    const auto absolute = [](const Bounded& x) {
      return Map(x.value, [&](int64_t i) { return std::fabs(x.value.Get(i)); });
    };
    DUOTONE_ASSIGN_OR_RETURN(const Array most,
                             EvaluateOne({MagnitudeOf(operands_[0]), MagnitudeOf(operands_[1])}));
    DUOTONE_ASSIGN_OR_RETURN(const Array least,
                             EvaluateOne({absolute(operands_[0]), absolute(operands_[1])}));
    const ir::Type& a = node_.operand(0).type();
    const int axis = node_.attrs_as<ir::MatMulAttrs>().transpose_a ? a.rank() - 2 : a.rank() - 1;
    const auto length = static_cast<double>(a.shape[static_cast<size_t>(axis)].size());
    result.error = Map(result.value, [&](int64_t i) {
      return most.Get(i) - least.Get(i) + length * 0x1p-24 * most.Get(i);
    });
    return absl::OkStatus();
  }

  // What the op adds of itself before the result is rounded into its type.
  absl::Status AddOwn(Bounded& result) const {
    switch (node_.op()) {
      case Op::kMatMul:
        return absl::OkStatus();
      case Op::kReduceSum: {
        // "Sums": (64 + log2 n) * 2^-24 times the sum of magnitudes.
        DUOTONE_ASSIGN_OR_RETURN(const Array magnitude, EvaluateOne({MagnitudeOf(operands_[0])}));
        const double n = static_cast<double>(operands_[0].value.elements()) /
                         static_cast<double>(std::max<int64_t>(result.value.elements(), 1));
        Add(result, [&](int64_t i) { return (64 + std::log2(n)) * 0x1p-24 * magnitude.Get(i); });
        return absl::OkStatus();
      }
      case Op::kScatterAdd: {
        // "Sums": n * 2^-24 times the sum of magnitudes, n rows being added to this one.
        const Bounded &base = operands_[0], &updates = operands_[2];
        const Array& indices = operands_[1].value;
        DUOTONE_ASSIGN_OR_RETURN(const Array magnitude,
                                 EvaluateOne({MagnitudeOf(base), indices, MagnitudeOf(updates)}));
        DUOTONE_ASSIGN_OR_RETURN(const Array rows,
                                 EvaluateOne({Map(base.value, [](int64_t) { return 0; }), indices,
                                              Map(updates.value, [](int64_t) { return 1; })}));
        Add(result, [&](int64_t i) { return rows.Get(i) * 0x1p-24 * magnitude.Get(i); });
        return absl::OkStatus();
      }
      default:
        break;
    }
    const std::optional<double> units = UnitsOf(node_);
    if (!units) return Unimplemented("%s: numerics.md has no bound", node_.def().name);
    const bool approximate = approximates_ && IsLow(node_.type().dtype) &&
                             absl::StartsWith(node_.info().dtype_origin, "autocast");
    Add(result, [&](int64_t i) {
      const double magnitude = std::fabs(result.value.Get(i)) + result.error.Get(i);
      const std::optional<double> error = ApproximationError(node_.op(), magnitude);
      if (approximate && error) return *error;
      // The table's line on gelu below -1.
      if (node_.op() == Op::kGelu && operands_[0].value.Get(i) < -1) return 0x1p-23;
      return *units * UnitAt(ComputeType(), magnitude);
    });
    return absl::OkStatus();
  }

  // "One node", 1 and 3: what is computed in f32 (f64) is rounded once to the type.
  void Round(Bounded& result) const {
    const DType dtype = node_.type().dtype;
    if (dtype == ComputeType()) return;
    // What picks among numbers of the type gives one of them.
    const bool from_same =
        UnitsOf(node_) == 0.0 &&
        std::all_of(node_.operands().begin(), node_.operands().end(), [&](ir::Value operand) {
          return !operand.type().is_float() || operand.type().dtype == dtype;
        });
    if (from_same) return;
    Add(result, [&](int64_t i) {
      return UnitAt(dtype, std::fabs(result.value.Get(i)) + result.error.Get(i)) / 2;
    });
  }

  template <typename F>
  void Add(Bounded& result, F&& error) const {
    for (int64_t i = 0; i < result.error.elements(); ++i) {
      result.error.Set(i, result.error.Get(i) + error(i));
    }
  }

  DType ComputeType() const {
    for (ir::Value operand : node_.operands()) {
      if (operand.type().dtype == DType::kF64) return DType::kF64;
    }
    return DType::kF32;
  }

  const ir::Node& node_;
  const std::vector<Bounded> operands_;
  const bool approximates_;
};

}  // namespace

absl::StatusOr<llvm::StringMap<Bounded>> BoundOutputs(const ir::Graph& graph,
                                                      const ir::ArrayMap& inputs,
                                                      bool approximates) {
  llvm::DenseMap<const ir::Node*, std::vector<Bounded>> known;
  for (const ir::Node* input : graph.inputs()) {
    known[input] = {InF64(inputs.find(input->name())->second)};
  }
  for (const auto& node : graph.nodes()) {
    std::vector<Bounded> operands;
    for (ir::Value operand : node->operands()) {
      operands.push_back(known[operand.node][static_cast<size_t>(operand.index)]);
    }
    DUOTONE_ASSIGN_OR_RETURN(known[node.get()],
                             NodeBounds(*node, std::move(operands), approximates).Run());
  }
  llvm::StringMap<Bounded> outputs;
  for (const ir::Output& output : graph.outputs()) {
    outputs[output.name] = known[output.value.node][static_cast<size_t>(output.value.index)];
  }
  return outputs;
}

std::string BeyondBounds(const Array& actual, const Bounded& bounded) {
  for (int64_t i = 0; i < actual.elements(); ++i) {
    const double exact = bounded.value.Get(i), bound = bounded.error.Get(i);
    // The bounds themselves are computed in f64.
    const double limit = bound + 0x1p-50 * std::fabs(exact);
    if (std::fabs(actual.Get(i) - exact) <= limit) continue;
    return absl::StrFormat("element %d is %.9g; exact is %.9g, off by %.3g, the bound is %.3g", i,
                           actual.Get(i), exact, std::fabs(actual.Get(i) - exact), bound);
  }
  return "";
}

}  // namespace duotone
