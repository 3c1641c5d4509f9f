// Everything the compiler knows about an op, in one struct; ir/op_table.cc has one row per op.
#ifndef DUOTONE_IR_OP_DEF_H_
#define DUOTONE_IR_OP_DEF_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/attrs.h"
#include "ir/eval.h"
#include "ir/op_list.h"
#include "ir/type.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace duotone::ir {

class GradContext;  // ir/grad.h

// How many operands an op takes.
struct Arity {
  int min;
  int max;
};
inline constexpr int kVariadic = 1 << 20;

using Types = llvm::SmallVector<Type, 2>;

// Result types from operand types. Normalises `attrs` (negative axes become positive). The error is
// a sentence without the op's name: the caller (InferTypes) puts "matmul: " in front.
using InferFn = absl::StatusOr<Types> (*)(llvm::ArrayRef<Type> operands, Attrs& attrs);

// Emits the nodes that compute the gradients of the operands; see ir/grad.h. Two explicit choices
// stand beside real ones: NotDifferentiable (an error if the op lies on a path that is
// differentiated) and StopsGradient (zero almost everywhere).
using GradFn = absl::Status (*)(GradContext& ctx);

// What autocast may do with an op in one 16-bit type (amp.md C6; the classes are TensorFlow
// grappler's).
enum class Tone : uint8_t {
  kUnset,  // rejected by the table's static_assert
  kAllow,  // worth 16 bits and safe: matmul
  kInfer,  // safe where its operands are: add, sigmoid, softmax (f32 inside)
  kClear,  // no numeric effect, follows its neighbours: relu, reshape
  kDeny,   // unsafe in 16 bits, and so is what follows: exp, losses
  kFixed,  // autocast never touches it: cast, integer ops, constants, optimizers
};
std::string_view ToneName(Tone tone);

// PyTorch's autocast category of the op (amp.md A1.1 to A1.3).
enum class TorchCategory : uint8_t {
  kUnset,
  kLower,            // lower_precision_fp: operands cast to the autocast dtype
  kFp32,             // operands cast to f32
  kFp32SetOptDType,  // operands left as they are, result f32
  kPromote,          // operands cast to the widest of them
  kBanned,           // an error
  kUnlisted,         // runs in the type its operands define, with native promotion
};
std::string_view TorchCategoryName(TorchCategory category);

// One column of the op table; a missing field does not compile.
struct Precision {
  Tone f16;
  Tone bf16;
  TorchCategory torch_cuda;
  TorchCategory torch_cpu;
  std::string_view reason;  // "e^x leaves f16's range above 11.09"
};

// A set of operand positions; bit 31 stands for every position from 31 on.
class OperandSet {
 public:
  constexpr OperandSet() = default;
  constexpr OperandSet(std::initializer_list<int> positions) {
    for (int p : positions) bits_ |= 1u << (p < 31 ? p : 31);
  }
  static constexpr OperandSet All() {
    OperandSet set;
    set.bits_ = ~0u;
    return set;
  }
  constexpr bool contains(int position) const {
    return (bits_ >> (position < 31 ? position : 31)) & 1u;
  }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  uint32_t bits_ = 0;
};

// In which operands the op is linear, for the scale exponents of passes/loss_scale; s > 0 is
// enough, so that relu, abs and max are in:
//   joint  f(s*a, s*b) = s*f(a, b): add, select, concat, reduce_sum
//   each   f(s*a, b) = f(a, s*b) = s*f(a, b): mul, matmul, and ops linear in one operand
struct Linearity {
  enum class Kind : uint8_t { kNone, kJoint, kEach };
  Kind kind = Kind::kNone;
  OperandSet operands;
};
inline constexpr Linearity kNonLinear{};

// Work of one node with static types: floating-point operations (a multiply-add counts 2) and bytes
// moved, each operand and result once.
struct Cost {
  double flops = 0;
  double bytes = 0;
};
using CostFn = Cost (*)(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results,
                        const Attrs& attrs);

// Which kernel family of design.md section 7 executes the op.
enum class Lower : uint8_t {
  kSource,       // input, state: no code
  kExpanded,     // gone before code generation: gradient
  kElementwise,  // family 1: element i of each result depends on element i of each operand only;
                 // evaluation reads an item's elements before it writes them, so a result may
                 // take its operand's memory
  kView,         // data movement, family 1 with another index map
  kReduce,       // families 2 and 3
  kRow,          // family 2: composites and losses
  kMatMul,       // family 4
  kOptimizer,    // family 7: elementwise too, with scalars beside
  kGather,       // family 8
  kRandom,       // family 8
  kHost,         // a few scalars: update_loss_scale, learning_rate
  kFused,        // one kernel; its family is an attribute
};
std::string_view LowerName(Lower lower);

struct OpDef {
  Op op;
  std::string_view name;  // text form
  Arity operands;
  AttrKind attrs;  // which attribute struct
  InferFn infer;
  GradFn grad;
  Precision precision;
  OperandSet keeps_f32;  // operands that autocast never narrows: norm parameters and statistics
  Linearity linear;
  bool (*linear_if)(const Attrs& attrs) = nullptr;  // null: `linear` holds for all attributes
  CostFn cost;
  Evaluation eval;  // the host reference; the oracle of every other backend
  Lower lower;
  std::string_view
      example;           // a complete graph on one line, see op_table.cc; none for input and state
  std::string_view doc;  // one sentence, becomes docs/ops.md
  // The result is the operand's bytes under another shape, where their dtypes are equal: reshape,
  // cast, stop_gradient. Code generation then gives both the same memory.
  bool keeps_bytes = false;

  // In which operands a node with these attributes is linear.
  Linearity LinearityWith(const Attrs& with) const {
    return linear_if == nullptr || linear_if(with) ? linear : kNonLinear;
  }
};

const OpDef& DefOf(Op op);
std::string_view OpName(Op op);
std::optional<Op> OpFromName(std::string_view name);
// All rows, in enum order.
llvm::ArrayRef<OpDef> AllOps();

// Checks the operand count and infers the result types; errors begin with the op's name.
absl::StatusOr<Types> InferTypes(Op op, llvm::ArrayRef<Type> operands, Attrs& attrs);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_DEF_H_
