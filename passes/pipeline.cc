#include "passes/pipeline.h"

#include <string>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "passes/registry.h"

namespace duotone::passes {
namespace {

constexpr PipelineStep kTrain[] = {
    {"simplify",
     "first: fewer nodes to colour, and composites that are safe in 16 bits are recognised"},
    {"train-step",
     "before autocast: the loss and what is differentiated must be known to the colouring"},
    {"autocast",
     "before autodiff: each backward node inherits its storage type from its forward node"},
    {"autodiff", "after autocast: it needs the coloured forward graph"},
    {"loss-scale", "after autodiff: it rewrites gradients; the scale itself is always f32"},
    {"optimizer", "after loss-scale: updates take unscaled, guarded gradients"},
    {"simplify", "again: the backward graph and the unscaling bring identities of their own"},
    {"sink-casts", "after the last pass that inserts casts: opposite casts meet"},
    {"fold-casts", "after sink-casts: pairs that have met are removed"},
    {"cse", "after fold-casts: equal casts of one value have one operand by now"},
    {"dce", "last: removes what the passes above left without readers"},
};

constexpr PipelineStep kInfer[] = {
    {"simplify",
     "first: fewer nodes to colour, and composites that are safe in 16 bits are recognised"},
    {"autocast", "colours the simplified graph and inserts casts"},
    {"sink-casts", "after the last pass that inserts casts: opposite casts meet"},
    {"fold-casts", "after sink-casts: pairs that have met are removed"},
    {"cse", "after fold-casts: equal casts of one value have one operand by now"},
    {"dce", "last: removes what the passes above left without readers"},
};

constexpr PipelineStep kCuda[] = {
    {"weight-copies",
     "first: what casts weights must read their copies before kernels are formed around it"},
    {"dce", "after weight-copies: reads of weights that only their casts needed are gone"},
    {"fuse", "last: a fusion is a barrier to every pass above"},
};

constexpr Pipeline kPipelines[] = {
    {"train", "From a forward graph to a whole training step and its evaluation entry.", kTrain},
    {"infer", "The forward graph alone, in mixed precision.", kInfer},
    {"cuda", "After train or infer, for CUDA devices.", kCuda},
};

template <typename Rows, typename Name>
std::string Known(const Rows& rows, Name name) {
  return absl::StrJoin(rows, ", ",
                       [&](std::string* out, const auto& row) { out->append(name(row)); });
}

}  // namespace

llvm::ArrayRef<Pipeline> AllPipelines() { return kPipelines; }

const Pipeline* FindPipeline(std::string_view name) {
  for (const Pipeline& pipeline : kPipelines) {
    if (pipeline.name == name) return &pipeline;
  }
  return nullptr;
}

absl::StatusOr<PassList> MakePipeline(std::string_view name, const PassOptions& options) {
  const Pipeline* pipeline = FindPipeline(name);
  if (pipeline == nullptr) {
    return InvalidArgument("there is no pipeline '%s'; known: %s", name,
                           Known(AllPipelines(), [](const Pipeline& p) { return p.name; }));
  }
  std::vector<std::string_view> names;
  for (const PipelineStep& step : pipeline->steps) names.push_back(step.pass);
  absl::StatusOr<PassList> passes = MakePasses(names, options);
  DUOTONE_RETURN_IF_ERROR(passes).With("pipeline %s", name);
  return passes;
}

absl::StatusOr<PassList> MakePasses(llvm::ArrayRef<std::string_view> names,
                                    const PassOptions& options) {
  PassList passes;
  for (std::string_view name : names) {
    const PassInfo* info = FindPass(name);
    if (info == nullptr) {
      return InvalidArgument("there is no pass '%s'; known: %s", name,
                             Known(AllPasses(), [](const PassInfo& p) { return p.name; }));
    }
    passes.push_back(info->make(options));
  }
  return passes;
}

}  // namespace duotone::passes
