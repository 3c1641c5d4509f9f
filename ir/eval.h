// Reference evaluation of one node on host memory: the semantics of every op under
// docs/numerics.md, and the oracle of every other backend. Operands are read into f32 (f64 stays
// f64, integers stay integers), the op is exact in that type with f32 or wider accumulation, and
// the result is rounded once, to nearest even.
//
// Evaluation never allocates: the caller provides all memory, including scratch, so that the CPU
// device can run a planned step without touching the heap.
#ifndef DUOTONE_IR_EVAL_H_
#define DUOTONE_IR_EVAL_H_

#include <atomic>
#include <cstdint>

#include "base/dtype.h"
#include "ir/attrs.h"
#include "llvm/ADT/ArrayRef.h"

namespace duotone::ir {

// A dense row-major array in host memory. `shape` points to memory that outlives the view.
struct TensorView {
  DType dtype = DType::kF32;
  llvm::ArrayRef<int64_t> shape;
  void* data = nullptr;

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    return count;
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// What random numbers are keyed by, beside the node's id and the element's index
// (docs/numerics.md).
struct RandomKey {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t micro_batch = 0;
};

// The first data-dependent error of an evaluation (an index out of range); later ones are dropped.
// Safe to use from several threads; reporting does not allocate.
class EvalError {
 public:
  enum class Kind : int { kNone, kIndexOutOfRange };
  // `value` is the offending index, `limit` the size it must stay below.
  void Report(Kind kind, int64_t value, int64_t limit) {
    int expected = 0;
    if (claimed_.compare_exchange_strong(expected, 1)) {
      value_ = value;
      limit_ = limit;
      kind_.store(kind, std::memory_order_release);
    }
  }
  Kind kind() const { return kind_.load(std::memory_order_acquire); }
  int64_t value() const { return value_; }
  int64_t limit() const { return limit_; }
  void Clear() {
    kind_.store(Kind::kNone);
    claimed_.store(0);
  }

 private:
  std::atomic<int> claimed_{0};
  std::atomic<Kind> kind_{Kind::kNone};
  int64_t value_ = 0;
  int64_t limit_ = 0;
};

// One evaluation of a node.
struct EvalCall {
  const Attrs* attrs = nullptr;
  llvm::ArrayRef<TensorView> operands;
  llvm::ArrayRef<TensorView> results;
  uint64_t node_id = 0;
  RandomKey random;
  void* scratch = nullptr;     // Evaluation::scratch_bytes, 64-byte aligned
  EvalError* error = nullptr;  // never null when run
};

// How an op is evaluated. Work is a number of independent items; any split of [0, items) into
// ranges, run in any order or in parallel, gives the same bits.
struct Evaluation {
  void (*run)(const EvalCall& call, int64_t begin, int64_t end) = nullptr;
  int64_t (*items)(const EvalCall& call) = nullptr;  // null: one item
  int64_t (*scratch_bytes)(const EvalCall& call) =
      nullptr;  // null: none; data pointers are not set when called
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_EVAL_H_
