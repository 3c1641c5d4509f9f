// The chain from a model to a session: options, the training pipeline with its dumps, and on
// failure a reproducer.
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "duotone/backend.h"
#include "duotone/internal.h"
#include "duotone/reproducer.h"
#include "duotone/session.h"
#include "duotone/session_impl.h"
#include "duotone/translate_options.h"
#include "ir/text.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/precision_report.h"
#include "passes/training_module.h"

namespace duotone {
namespace {

// Sends dumps where the options say; keeps the first error of writing.
class Dumper {
 public:
  explicit Dumper(const DumpOptions& options) : options_(options) {}

  void Configure(passes::PassManagerOptions& manager) {
    if (options_.print_after.empty()) return;
    for (const std::string& pass : options_.print_after) {
      if (pass == "change") {
        manager.dump_on_change = true;
      } else {
        manager.dump_after.push_back(pass);
      }
    }
    manager.sink = [this](const passes::Dump& dump) { Show(dump); };
  }

  const absl::Status& status() const { return status_; }

 private:
  void Show(const passes::Dump& dump) {
    const std::string title =
        absl::StrFormat("%02d-%s.%s", dump.index, dump.pass,
                        dump.when == passes::Dump::When::kBefore ? "before" : "after");
    if (options_.sink) options_.sink(title, dump.text);
    if (!options_.directory.empty()) {
      const std::filesystem::path file =
          std::filesystem::path(options_.directory) / (title + ".duo");
      absl::Status written = WriteFileAtomically(file.string(), dump.text);
      if (status_.ok()) status_ = std::move(written);
    }
    if (!options_.sink && options_.directory.empty()) {
      std::fprintf(stderr, "// %s\n%.*s", title.c_str(), static_cast<int>(dump.text.size()),
                   dump.text.data());
    }
  }

  const DumpOptions& options_;
  absl::Status status_;
};

absl::StatusOr<CompileReport> RunPipeline(const passes::PassOptions& pass_options,
                                          const DumpOptions& dump, ir::Module& module) {
  DUOTONE_ASSIGN_OR_RETURN(passes::PassList passes, passes::MakePipeline("train", pass_options));
  passes::PassManagerOptions manager_options;
  Dumper dumper(dump);
  dumper.Configure(manager_options);
  absl::StatusOr<passes::PassReport> run =
      passes::PassManager(std::move(manager_options)).Run(passes, module);
  DUOTONE_RETURN_IF_ERROR(run);
  DUOTONE_RETURN_IF_ERROR(dumper.status()).With("dump");
  const ir::Graph* step = module.FindGraph(passes::kStepGraph);
  if (step == nullptr) return Internal("the pipeline left no graph @%s", passes::kStepGraph);
  if (step->updates().empty()) {
    return InvalidArgument(
        "module @%s: @%s is taken as it stands for the whole training step, but updates no state; "
        "a forward graph needs another name",
        module.name(), passes::kStepGraph);
  }
  DUOTONE_ASSIGN_OR_RETURN(passes::CompileReport precision,
                           passes::MakeCompileReport(*step, pass_options.autocast));
  CompileReport report{.text = passes::ToText(precision),
                       .casts = precision.casts_inserted,
                       .flops_low_share = precision.low_share(),
                       .warnings = std::move(precision.warnings),
                       .passes = run->ToString()};
  for (const auto& [dtype, count] : precision.nodes_per_dtype) {
    report.nodes_per_dtype[dtype] = count;
  }
  for (const std::string& warning : run->warnings) {
    absl::StrAppend(&report.text, "warning: ", warning, "\n");
    report.warnings.push_back(warning);
  }
  return report;
}

}  // namespace

absl::StatusOr<TrainSession> internal::CompileWith(const Model& model, const Options& options,
                                                   const CudaParts& parts) {
  const ir::Module* source = internal::Access::ModuleOf(model);
  if (source == nullptr) return FailedPrecondition("compile: the model is empty");
  DUOTONE_RETURN_IF_ERROR(CheckOptions(options)).With("options");
  // A device that is not there is reported before anything is compiled for it.
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeBackend(options, parts));
  const passes::PassOptions pass_options = ToPassOptions(options);
  std::unique_ptr<ir::Module> module = source->Clone();
  absl::StatusOr<CompileReport> report = RunPipeline(pass_options, options.dump, *module);
  if (!report.ok()) {
    return internal::LeaveReproducer(report.status(), *source, pass_options,
                                     options.reproducer_directory);
  }
  DUOTONE_ASSIGN_OR_RETURN(
      std::unique_ptr<internal::SessionImpl> impl,
      internal::SessionImpl::Create(std::move(module), options, internal::HashModel(*source),
                                    *std::move(report), std::move(backend)));
  return internal::SessionImpl::Wrap(std::move(impl));
}

absl::StatusOr<TrainSession> Compile(const Model& model, const Options& options) {
  return internal::CompileWith(model, options, {});
}

absl::StatusOr<TrainSession> Compile(GraphBuilder&& builder, const Options& options) {
  DUOTONE_ASSIGN_OR_RETURN(Model model, std::move(builder).Build());
  return Compile(model, options);
}

}  // namespace duotone
