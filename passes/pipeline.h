// The pipelines: lists of pass names, each with the reason why the pass stands where it does.
#ifndef DUOTONE_PASSES_PIPELINE_H_
#define DUOTONE_PASSES_PIPELINE_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "llvm/ADT/ArrayRef.h"
#include "passes/options.h"
#include "passes/pass.h"

namespace duotone::passes {

struct PipelineStep {
  std::string_view pass;
  std::string_view reason;
};

struct Pipeline {
  std::string_view name;  // --pipeline=NAME
  std::string_view doc;   // one sentence
  llvm::ArrayRef<PipelineStep> steps;
};

llvm::ArrayRef<Pipeline> AllPipelines();
// The pipeline called `name`, or null.
const Pipeline* FindPipeline(std::string_view name);

using PassList = std::vector<std::unique_ptr<Pass>>;

// The passes of a pipeline, made with `options`. An unknown name is an error that lists the known
// ones.
absl::StatusOr<PassList> MakePipeline(std::string_view name, const PassOptions& options);
// The passes called `names`, in that order.
absl::StatusOr<PassList> MakePasses(llvm::ArrayRef<std::string_view> names,
                                    const PassOptions& options);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_PIPELINE_H_
