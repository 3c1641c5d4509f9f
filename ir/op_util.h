// Shared pieces of the op table's rows: checks of type inference, and costs.
#ifndef DUOTONE_IR_OP_UTIL_H_
#define DUOTONE_IR_OP_UTIL_H_

#include "absl/status/status.h"
#include "ir/op_def.h"

namespace duotone::ir {

// All operands have the type of the first one (dtype and shape).
absl::Status CheckSameTypes(llvm::ArrayRef<Type> operands);
// Operand i is of a floating-point type; of an integer or floating-point type; of type bool.
absl::Status CheckFloat(llvm::ArrayRef<Type> operands, int i);
absl::Status CheckNumber(llvm::ArrayRef<Type> operands, int i);
absl::Status CheckBool(llvm::ArrayRef<Type> operands, int i);
// Makes a negative axis positive, or says that it is outside [-rank, rank).
absl::Status NormalizeAxis(int64_t& axis, int rank);

// Row-major strides of a static shape, in elements, on the stack.
class RowMajorStrides {
 public:
  explicit RowMajorStrides(llvm::ArrayRef<int64_t> shape) {
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      strides_[i] = stride;
      stride *= shape[i];
    }
  }
  int64_t operator[](size_t axis) const { return strides_[axis]; }

 private:
  int64_t strides_[kMaxRank];
};

// Type inference of elementwise ops: equal operand types, result like the first operand.
absl::StatusOr<Types> InferSameAny(llvm::ArrayRef<Type> operands, Attrs& attrs);     // any dtype
absl::StatusOr<Types> InferSameNumber(llvm::ArrayRef<Type> operands, Attrs& attrs);  // not bool
absl::StatusOr<Types> InferSameFloat(llvm::ArrayRef<Type> operands, Attrs& attrs);
absl::StatusOr<Types> InferSameBool(llvm::ArrayRef<Type> operands, Attrs& attrs);

// Bytes of all operands and results, each once.
double BytesMoved(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results);

// kFlops per element of the first result.
template <int kFlops>
Cost ElementwiseCost(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs&) {
  return {.flops = static_cast<double>(kFlops) * static_cast<double>(results[0].elements()),
          .bytes = BytesMoved(operands, results)};
}
// No work and no memory: sources and ops that are expanded before execution.
inline Cost NoCost(llvm::ArrayRef<Type>, llvm::ArrayRef<Type>, const Attrs&) { return {}; }

// FLOPs counted for a function of libm, in which the cost model need not tell exp from erf.
inline constexpr int kTranscendentalFlops = 10;

// Precision of an op that moves or picks values without computing.
constexpr Precision ClearPrecision(std::string_view reason) {
  return {Tone::kClear, Tone::kClear, TorchCategory::kUnlisted, TorchCategory::kUnlisted, reason};
}
// Precision of an op that is as safe as its operands in both 16-bit types and in no list of
// PyTorch's.
constexpr Precision InferPrecision(std::string_view reason) {
  return {Tone::kInfer, Tone::kInfer, TorchCategory::kUnlisted, TorchCategory::kUnlisted, reason};
}
// Precision of an op whose types autocast never changes.
constexpr Precision FixedPrecision(std::string_view reason) {
  return {Tone::kFixed, Tone::kFixed, TorchCategory::kUnlisted, TorchCategory::kUnlisted, reason};
}

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_UTIL_H_
