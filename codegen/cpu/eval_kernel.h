// The reference evaluation of one node as a host kernel of a Program.
#ifndef DUOTONE_CODEGEN_CPU_EVAL_KERNEL_H_
#define DUOTONE_CODEGEN_CPU_EVAL_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/eval.h"
#include "ir/graph.h"
#include "runtime/program.h"

namespace duotone::codegen::cpu {

// Keeps copies of all it needs of the node, which may be gone when it runs. Outlives the kernels
// bound from it.
class EvalKernel final : public runtime::HostKernel {
 public:
  // The node has static types.
  explicit EvalKernel(const ir::Node& node);

  int64_t items() const;
  int64_t scratch_bytes() const;

  std::unique_ptr<runtime::BoundKernel> Bind(std::span<void* const> buffers,
                                             void* scratch) const override;

 private:
  friend class BoundEval;
  struct Tensor {
    DType dtype;
    std::vector<int64_t> shape;
  };

  // Views of the operands, then of the results, at `buffers` (empty: without addresses).
  std::vector<ir::TensorView> Views(std::span<void* const> buffers) const;
  // A call on such views.
  ir::EvalCall CallOn(llvm::ArrayRef<ir::TensorView> views) const;
  std::string Message(const ir::EvalError& error) const;

  const ir::Evaluation* eval_;
  std::string op_;
  std::string place_;
  ir::Attrs attrs_;
  uint64_t node_id_;
  size_t operand_count_;
  std::vector<Tensor> tensors_;
};

}  // namespace duotone::codegen::cpu

#endif  // DUOTONE_CODEGEN_CPU_EVAL_KERNEL_H_
