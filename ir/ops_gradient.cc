#include "ir/ops_gradient.h"

#include <algorithm>

#include "base/status.h"
#include "ir/op_util.h"

namespace duotone::ir {

absl::StatusOr<Types> InferGradient(llvm::ArrayRef<Type> operands, Attrs&) {
  if (!operands[0].is_float() || !operands[0].is_scalar()) {
    return InvalidArgument("the first operand is %s, not a floating-point scalar",
                           operands[0].ToString());
  }
  Types results;
  for (int i = 1; i < static_cast<int>(operands.size()); ++i) {
    DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, i));
    results.push_back(operands[i]);
  }
  return results;
}

absl::StatusOr<Types> InferGradientSeed(llvm::ArrayRef<Type>, Attrs&) {
  return Types{{DType::kF32, {}}};
}

absl::StatusOr<Types> InferAllFinite(llvm::ArrayRef<Type> operands, Attrs&) {
  for (int i = 0; i < static_cast<int>(operands.size()); ++i) {
    if (operands[i].dtype == DType::kBool && operands[i].is_scalar()) continue;
    DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, i));
  }
  return Types{{DType::kBool, {}}};
}

void RunGradientSeed(const EvalCall& call, int64_t begin, int64_t end) {
  if (begin < end) *call.results[0].as<float>() = 1.0f;
}

namespace {

// True if a number with all exponent bits set, which is an infinity or a NaN, is among `count`. The
// loop has no early exit so that it can be vectorised.
template <typename Word>
bool AnyNonFinite(const void* data, int64_t count, Word exponent_bits) {
  const Word* words = static_cast<const Word*>(data);
  Word found = 0;
  for (int64_t i = 0; i < count; ++i) found |= (words[i] & exponent_bits) == exponent_bits;
  return found != 0;
}

bool AllFinite(const TensorView& tensor) {
  if (tensor.dtype == DType::kBool) return *tensor.as<const uint8_t>() != 0;
  constexpr int64_t kChunk = 1 << 14;
  const int64_t count = tensor.elements();
  for (int64_t first = 0; first < count; first += kChunk) {
    const int64_t run = std::min(kChunk, count - first);
    const char* data = tensor.as<const char>() + first * ByteSize(tensor.dtype);
    const bool bad = tensor.dtype == DType::kF64 ? AnyNonFinite<uint64_t>(data, run, 0x7ffull << 52)
                     : tensor.dtype == DType::kF32 ? AnyNonFinite<uint32_t>(data, run, 0x7f800000u)
                     : tensor.dtype == DType::kF16 ? AnyNonFinite<uint16_t>(data, run, 0x7c00u)
                                                   : AnyNonFinite<uint16_t>(data, run, 0x7f80u);
    if (bad) return false;
  }
  return true;
}

}  // namespace

void RunAllFinite(const EvalCall& call, int64_t begin, int64_t end) {
  if (begin == end) return;
  *call.results[0].as<uint8_t>() =
      std::all_of(call.operands.begin(), call.operands.end(), AllFinite);
}

Cost AllFiniteCost(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs&) {
  Cost cost{.bytes = BytesMoved(operands, results)};
  for (const Type& type : operands) cost.flops += static_cast<double>(type.elements());
  return cost;
}

}  // namespace duotone::ir
