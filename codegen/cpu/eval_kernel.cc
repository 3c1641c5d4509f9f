#include "codegen/cpu/eval_kernel.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace duotone::codegen::cpu {

class BoundEval final : public runtime::BoundKernel {
 public:
  BoundEval(const EvalKernel& kernel, std::span<void* const> buffers, void* scratch)
      : kernel_(kernel), views_(kernel.Views(buffers)), call_(kernel.CallOn(views_)) {
    call_.scratch = scratch;
    call_.error = &error_;
  }

  void Run(const runtime::RandomState& random, int64_t begin, int64_t end) override {
    ir::EvalCall call = call_;
    call.random = {random.seed, random.step, random.micro_batch};
    kernel_.eval_->run(call, begin, end);
  }

  bool failed() const override { return error_.kind() != ir::EvalError::Kind::kNone; }

  absl::Status TakeError() override {
    std::string message = kernel_.Message(error_);
    error_.Clear();
    return absl::InvalidArgumentError(message);
  }

 private:
  const EvalKernel& kernel_;
  std::vector<ir::TensorView> views_;
  ir::EvalCall call_;
  ir::EvalError error_;
};

EvalKernel::EvalKernel(const ir::Node& node)
    : eval_(&node.def().eval),
      op_(node.def().name),
      place_(node.Place()),
      attrs_(node.attrs()),
      node_id_(node.id()),
      operand_count_(node.operands().size()) {
  auto add = [&](const ir::Type& type) {
    Tensor tensor{type.dtype, {}};
    for (const ir::Dim& dim : type.shape) tensor.shape.push_back(dim.size());
    tensors_.push_back(std::move(tensor));
  };
  for (ir::Value operand : node.operands()) add(operand.type());
  for (const ir::Type& type : node.types()) add(type);
}

std::vector<ir::TensorView> EvalKernel::Views(std::span<void* const> buffers) const {
  DUOTONE_CHECK(buffers.empty() || buffers.size() == tensors_.size()) << op_ << " " << place_;
  std::vector<ir::TensorView> views;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    views.push_back({tensors_[i].dtype, tensors_[i].shape, buffers.empty() ? nullptr : buffers[i]});
  }
  return views;
}

ir::EvalCall EvalKernel::CallOn(llvm::ArrayRef<ir::TensorView> views) const {
  ir::EvalCall call;
  call.attrs = &attrs_;
  call.operands = views.take_front(operand_count_);
  call.results = views.drop_front(operand_count_);
  call.node_id = node_id_;
  return call;
}

int64_t EvalKernel::items() const {
  const std::vector<ir::TensorView> views = Views({});
  return eval_->items ? eval_->items(CallOn(views)) : 1;
}

int64_t EvalKernel::scratch_bytes() const {
  const std::vector<ir::TensorView> views = Views({});
  return eval_->scratch_bytes ? eval_->scratch_bytes(CallOn(views)) : 0;
}

std::string EvalKernel::Message(const ir::EvalError& error) const {
  switch (error.kind()) {
    case ir::EvalError::Kind::kNone:
      break;
    case ir::EvalError::Kind::kIndexOutOfRange:
      return absl::StrFormat("%s: index %d is outside [0, %d) %s", op_, error.value(),
                             error.limit(), place_);
  }
  return "";
}

std::unique_ptr<runtime::BoundKernel> EvalKernel::Bind(std::span<void* const> buffers,
                                                       void* scratch) const {
  return std::make_unique<BoundEval>(*this, buffers, scratch);
}

}  // namespace duotone::codegen::cpu
