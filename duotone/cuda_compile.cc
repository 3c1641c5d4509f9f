#include "duotone/cuda_compile.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "codegen/cuda/lower.h"
#include "passes/pipeline.h"
#include "passes/training_module.h"

namespace duotone::internal {
namespace {

constexpr char kPipeline[] = "cuda";
constexpr std::string_view kFuse = "fuse";

// The pipeline has two parts: what works on the whole module, where sizes may have names, and from
// fuse on what works on one entry with numbers for sizes.
enum class Part { kModule, kEntry };
absl::StatusOr<passes::PassReport> RunPart(Part part, const passes::PassOptions& options,
                                           ir::Module& module) {
  std::vector<std::string_view> names;
  bool is_entry = false;
  for (const passes::PipelineStep& step : passes::FindPipeline(kPipeline)->steps) {
    is_entry = is_entry || step.pass == kFuse;
    if (is_entry == (part == Part::kEntry)) names.push_back(step.pass);
  }
  DUOTONE_ASSIGN_OR_RETURN(const passes::PassList list, passes::MakePasses(names, options));
  return passes::PassManager().Run(list, module);
}

// A copy with `entry` as its only graph: passes below need not look at others.
absl::StatusOr<std::unique_ptr<ir::Module>> CloneEntry(const ir::Module& module,
                                                       std::string_view entry) {
  std::unique_ptr<ir::Module> clone = module.Clone();
  std::vector<std::string> others;
  bool found = false;
  for (const auto& graph : clone->graphs()) {
    found = found || graph->name() == entry;
    if (graph->name() != entry) others.emplace_back(graph->name());
  }
  if (!found) {
    return NotFound("module @%s has no graph @%s; it has: @%s", module.name(), entry,
                    absl::StrJoin(others, ", @"));
  }
  for (const std::string& other : others) clone->RemoveGraph(other);
  return clone;
}

bool UsesBf16(const ir::Graph& graph) {
  for (const auto& node : graph.nodes()) {
    const bool here = std::any_of(node->types().begin(), node->types().end(),
                                  [](const ir::Type& type) { return type.dtype == DType::kBF16; });
    if (here) return true;
    if (node->body() != nullptr && UsesBf16(*node->body())) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<passes::PassReport> AddWeightCopies(ir::Module& trained,
                                                   const passes::PassOptions& options) {
  return RunPart(Part::kModule, options, trained);
}

absl::StatusOr<CudaEntry> LowerForCuda(const ir::Module& trained, std::string_view entry,
                                       const ir::SizeBinding& sizes,
                                       const CudaCompileOptions& options) {
  CudaEntry result;
  DUOTONE_ASSIGN_OR_RETURN(result.module, CloneEntry(trained, entry));
  ir::Graph* graph = result.module->FindGraph(entry);
  DUOTONE_RETURN_IF_ERROR(ir::BindSizes(*graph, sizes)).With("graph @%s", entry);
  DUOTONE_ASSIGN_OR_RETURN(result.passes, RunPart(Part::kEntry, options.passes, *result.module));
  graph = result.module->FindGraph(entry);
  codegen::cuda::LowerOptions lower;
  lower.codegen = {
      .target = options.target, .exact = options.exact, .schedules = options.schedules};
  lower.rng_position = passes::kRngPosition;
  absl::StatusOr<runtime::Program> program = codegen::cuda::Lower(*graph, lower);
  DUOTONE_RETURN_IF_ERROR(program).With("graph @%s for %s", entry, options.target->name);
  if (!options.target->has_bf16 && UsesBf16(*graph)) {
    result.warnings.push_back(
        absl::StrFormat("bf16 on %s computes through f32", options.target->name));
  }
  result.program = *std::move(program);
  result.graph = graph;
  return result;
}

absl::StatusOr<runtime::CompileStatistics> CompileKernels(runtime::Program& program,
                                                          const CudaCompileOptions& options) {
  std::unique_ptr<runtime::KernelCompiler> owned;
  runtime::KernelCompiler* compiler = options.compiler;
  if (compiler == nullptr) {
    DUOTONE_ASSIGN_OR_RETURN(owned, runtime::CreateNvrtcCompiler());
    compiler = owned.get();
  }
  return runtime::CompileProgram(program, options.target->name, *compiler, options.cache,
                                 options.threads, options.reproducer_directory);
}

absl::StatusOr<runtime::Program> CompileForCuda(const ir::Module& trained, std::string_view entry,
                                                const ir::SizeBinding& sizes,
                                                const CudaCompileOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(CudaEntry lowered, LowerForCuda(trained, entry, sizes, options));
  DUOTONE_RETURN_IF_ERROR(CompileKernels(lowered.program, options)).With("graph @%s", entry);
  return std::move(lowered.program);
}

}  // namespace duotone::internal
