#include "ir/grad.h"

#include "base/status.h"

namespace duotone::ir {

GradContext::GradContext(Node* node, Emitter emitter, llvm::ArrayRef<Value> result_grads,
                         llvm::ArrayRef<bool> wanted, llvm::ArrayRef<DType> grad_dtypes)
    : node_(node),
      emitter_(std::move(emitter)),
      result_grads_(result_grads.begin(), result_grads.end()),
      wanted_(wanted.begin(), wanted.end()),
      grad_dtypes_(grad_dtypes.begin(), grad_dtypes.end()),
      operand_grads_(node->operand_count()) {}

absl::Status NotDifferentiable(GradContext& ctx) {
  return InvalidArgument("%s has no derivative, but lies between the loss and a parameter %s",
                         ctx.node()->def().name, ctx.node()->Place());
}

absl::Status StopsGradient(GradContext&) { return absl::OkStatus(); }

}  // namespace duotone::ir
