#include "codegen/cuda/op_expressions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/float16.h"
#include "ir/eval_blocks.h"

namespace duotone::codegen::cuda {

using ir::Op;

namespace {

// How a dtype is written in CUDA C++, in enum order.
struct TypeText {
  std::string_view storage;
  std::string_view compute;
  std::string_view zero;
};
constexpr std::array<TypeText, kDTypes.size()> kTypes = {{
    {"double", "double", "0.0"},
    {"float", "float", "0.0f"},
    {"half", "float", "0.0f"},
    {"bf16", "float", "0.0f"},
    {"long long", "long long", "0LL"},
    {"int", "int", "0"},
    {"unsigned char", "int", "0"},
    {"unsigned char", "bool", "false"},
}};
const TypeText& TextOf(DType dtype) { return kTypes[static_cast<size_t>(dtype)]; }

constexpr OpExpression kExpressions[] = {
    {.op = Op::kNeg, .real = "-$0", .integer = "Negate($0)", .picks = true},
    {.op = Op::kAbs, .real = "Abs($0)", .integer = "AbsInt($0)", .picks = true},
    {.op = Op::kExp, .real = "Exp($0)", .integer = "", .fast = "ExpFast($0)", .mufu = 1},
    {.op = Op::kLog, .real = "Log($0)", .integer = "", .mufu = 1},
    {.op = Op::kSqrt, .real = "Sqrt($0)", .integer = "", .mufu = 1},
    {.op = Op::kRsqrt, .real = "Rsqrt($0)", .integer = "", .mufu = 2},
    {.op = Op::kTanh, .real = "Tanh($0)", .integer = "", .fast = "TanhFast($0)", .mufu = 2},
    {.op = Op::kSigmoid,
     .real = "Sigmoid($0)",
     .integer = "",
     .fast = "SigmoidFast($0)",
     .mufu = 2},
    {.op = Op::kSoftplus, .real = "Softplus($0)", .integer = "", .mufu = 2},
    {.op = Op::kErf, .real = "Erf($0)", .integer = "", .mufu = 1},
    {.op = Op::kRelu, .real = "Relu($0)", .integer = "Relu($0)", .picks = true},
    {.op = Op::kSilu, .real = "Silu($0)", .integer = "", .fast = "SiluFast($0)", .mufu = 2},
    {.op = Op::kStopGradient, .real = "$0", .integer = "$0", .picks = true},
    {.op = Op::kIsFinite, .real = "IsFinite($0)", .integer = "", .observes = true},
    {.op = Op::kAdd, .real = "$0 + $1", .integer = "Add($0, $1)"},
    {.op = Op::kSub, .real = "$0 - $1", .integer = "Subtract($0, $1)"},
    {.op = Op::kMul, .real = "$0 * $1", .integer = "Multiply($0, $1)"},
    {.op = Op::kDiv, .real = "$0 / $1", .integer = "Divide($0, $1)", .mufu = 1},
    {.op = Op::kMax, .real = "Max($0, $1)", .integer = "Max($0, $1)", .picks = true},
    {.op = Op::kMin, .real = "Min($0, $1)", .integer = "Min($0, $1)", .picks = true},
    {.op = Op::kPow, .real = "Pow($0, $1)", .integer = "", .mufu = 3},
    {.op = Op::kEqual, .real = "$0 == $1", .integer = "$0 == $1", .observes = true},
    {.op = Op::kNotEqual, .real = "$0 != $1", .integer = "$0 != $1", .observes = true},
    {.op = Op::kLess, .real = "$0 < $1", .integer = "$0 < $1", .observes = true},
    {.op = Op::kLessEqual, .real = "$0 <= $1", .integer = "$0 <= $1", .observes = true},
    {.op = Op::kGreater, .real = "$0 > $1", .integer = "$0 > $1", .observes = true},
    {.op = Op::kGreaterEqual, .real = "$0 >= $1", .integer = "$0 >= $1", .observes = true},
    {.op = Op::kAnd, .real = "", .integer = "$0 && $1"},
    {.op = Op::kOr, .real = "", .integer = "$0 || $1"},
    {.op = Op::kNot, .real = "", .integer = "!$0"},
    {.op = Op::kSelect, .real = "$0 ? $1 : $2", .integer = "$0 ? $1 : $2", .picks = true},
    {.op = Op::kSiluGrad,
     .real = "SiluGrad($0, $1)",
     .integer = "",
     .fast = "SiluGradFast($0, $1)",
     .mufu = 2},
};

struct GeluExpression {
  Op op;
  bool tanh;
  std::string_view real;
  std::string_view fast;
};
constexpr GeluExpression kGelu[] = {
    {Op::kGelu, false, "Gelu($0)", "GeluFast($0)"},
    {Op::kGelu, true, "GeluTanh($0)", "GeluTanhFast($0)"},
    {Op::kGeluGrad, false, "GeluGrad($0, $1)", "GeluGradFast($0, $1)"},
    {Op::kGeluGrad, true, "GeluTanhGrad($0, $1)", "GeluTanhGradFast($0, $1)"},
};

std::string Fill(std::string_view format, llvm::ArrayRef<std::string> operands) {
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '$') {
      absl::StrAppend(&text, operands[format[++i] - '0']);
    } else {
      text += format[i];
    }
  }
  return text;
}

// As `cast` is defined: see ToStorage in ir/eval_blocks.h.
std::string CastExpression(DType from, DType to, const std::string& x) {
  if (from == to) return x;
  if (to == DType::kBool) return absl::StrCat(x, " != ", ZeroLiteral(from));
  const std::string plain = absl::StrCat("static_cast<", ComputeType(to), ">(", x, ")");
  if (IsLow(to)) {
    if (from == DType::kBool) return plain;
    return ComputeType(from) == "float" ? x : absl::StrCat("OddFloat(", x, ")");
  }
  if (IsFloat(to)) return ComputeType(from) == ComputeType(to) ? x : plain;
  if (IsFloat(from)) {
    const std::string_view function = to == DType::kI64   ? "TruncateToLong"
                                      : to == DType::kI32 ? "TruncateToInt"
                                                          : "TruncateToByte";
    return absl::StrFormat("%s(%s)", function, x);
  }
  return ComputeType(from) == ComputeType(to) ? x : plain;
}

std::string ClampExpression(const ir::ClampAttrs& clamp, DType dtype, const std::string& x) {
  if (IsFloat(dtype)) {
    const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    return absl::StrCat("Clamp(", x, ", ", FloatLiteral(clamp.min, wide), ", ",
                        FloatLiteral(clamp.max, wide), ")");
  }
  // Bounds are rounded inwards and compared in 64 bits, like the reference evaluator's.
  const auto bound = [](double value) {
    return IntLiteral(ir::FloatToInt<int64_t>(value), DType::kI64);
  };
  const std::string clamped =
      absl::StrCat("Clamp(static_cast<long long>(", x, "), ", bound(std::ceil(clamp.min)), ", ",
                   bound(std::floor(clamp.max)), ")");
  if (dtype == DType::kI64) return clamped;
  return absl::StrCat("static_cast<", ComputeType(dtype), ">(", clamped, ")");
}

}  // namespace

std::string StorageType(DType dtype) { return std::string(TextOf(dtype).storage); }
std::string ComputeType(DType dtype) { return std::string(TextOf(dtype).compute); }
std::string ZeroLiteral(DType dtype) { return std::string(TextOf(dtype).zero); }

std::string FloatLiteral(double value, DType dtype) {
  const bool is_double = dtype == DType::kF64;
  if (dtype == DType::kF16) value = ToF32(ToF16(ir::RoundToOdd(value)));
  if (dtype == DType::kBF16) value = ToF32(ToBF16(ir::RoundToOdd(value)));
  if (dtype == DType::kF32) value = static_cast<float>(value);
  std::string text;
  if (std::isnan(value)) {
    text = "NaN()";
  } else if (std::isinf(value)) {
    text = "Infinity()";
  } else {
    // The shortest text that reads back as the same number.
    const double magnitude = std::fabs(value);
    for (int digits = 1; digits <= 17; ++digits) {
      text = absl::StrFormat("%.*g", digits, magnitude);
      const double back = std::strtod(text.c_str(), nullptr);
      if (is_double ? back == magnitude
                    : static_cast<float>(back) == static_cast<float>(magnitude)) {
        break;
      }
    }
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    if (!is_double) text += "f";
  }
  if (is_double && !std::isfinite(value)) text = absl::StrCat("static_cast<double>(", text, ")");
  return std::signbit(value) && !std::isnan(value) ? absl::StrCat("(-", text, ")") : text;
}

std::string IntLiteral(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return value != 0 ? "true" : "false";
  const char* suffix = dtype == DType::kI64 ? "LL" : "";
  const int64_t lowest = dtype == DType::kI64 ? std::numeric_limits<int64_t>::min()
                                              : std::numeric_limits<int32_t>::min();
  // The smallest number is not a literal of its type: -2147483648 is minus a larger one.
  if (value == lowest) return absl::StrCat("(", value + 1, suffix, " - 1)");
  if (value < 0) return absl::StrCat("(", value, suffix, ")");
  return absl::StrCat(value, suffix);
}

const OpExpression* FindOpExpression(Op op) {
  const auto* row = std::find_if(std::begin(kExpressions), std::end(kExpressions),
                                 [&](const OpExpression& e) { return e.op == op; });
  return row == std::end(kExpressions) ? nullptr : row;
}

std::string ExpressionOf(const ir::Node& node, llvm::ArrayRef<std::string> operands, bool fast) {
  const DType result = node.type().dtype;
  std::string text;
  if (node.op() == Op::kCast) {
    text = CastExpression(node.operand(0).type().dtype, result, operands[0]);
  } else if (node.op() == Op::kClamp) {
    text = ClampExpression(node.attrs_as<ir::ClampAttrs>(), result, operands[0]);
  } else if (const OpExpression* row = FindOpExpression(node.op())) {
    const bool is_real = IsFloat(node.operand(node.operand_count() - 1).type().dtype);
    const std::string_view format = is_real ? row->real : row->integer;
    text = Fill(fast && is_real && !row->fast.empty() ? row->fast : format, operands);
  } else {
    for (const GeluExpression& gelu : kGelu) {
      if (gelu.op == node.op() && gelu.tanh == node.attrs_as<ir::GeluAttrs>().tanh) {
        text = Fill(fast ? gelu.fast : gelu.real, operands);
      }
    }
  }
  // u8 is computed in int and wraps.
  if (result == DType::kU8 && !text.empty() &&
      !(node.op() == Op::kCast && IsFloat(node.operand(0).type().dtype))) {
    text = absl::StrCat("static_cast<unsigned char>(", text, ")");
  }
  return text;
}

double MufuOf(const ir::Node& node) {
  if (node.op() == Op::kGelu || node.op() == Op::kGeluGrad) return 2;
  const OpExpression* row = FindOpExpression(node.op());
  return row == nullptr ? 0 : row->mufu;
}

}  // namespace duotone::codegen::cuda
