// duotone kernels: the CUDA kernels of a model, compiled for any architecture without a GPU, and a
// report on them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/gpu_target.h"
#include "base/status.h"
#include "duotone/cuda_compile.h"
#include "ir/text.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/training_module.h"
#include "runtime/cuda/kernel_cache.h"
#include "runtime/cuda/kernel_report.h"
#include "runtime/emulator/counter_report.h"
#include "tools/command.h"
#include "tools/emulate.h"
#include "tools/emulator_json.h"
#include "tools/json_text.h"
#include "tools/kernel_json.h"
#include "tools/model_flags.h"

namespace duotone::tools {
namespace {

struct KernelsFlags {
  ModelFlags model;
  std::string file;
  std::string target = "sm_80";
  std::string entry = passes::kStepGraph;
  std::string emit = "report";
  std::string output;
  std::string json;
  std::vector<std::string> schedules;
  int64_t batch = 0;
  int64_t threads = 0;
  std::string counters;
  bool exact = false;
  bool no_cache = false;
  bool emulate = false;
};

// What --emit can ask for.
struct Emission {
  std::string_view name;
  std::string_view doc;
  bool is_compiled;  // machine code is needed
  // The suffix of one file per kernel; empty: one text, to stdout where there is no folder.
  std::string_view suffix;
  // The bytes: of one kernel, or of the whole program.
  std::string (*of_kernel)(const runtime::Kernel& kernel);
  std::string (*of_entry)(const internal::CudaEntry& entry);
  std::string_view file;  // of the whole program's text
};

std::string SchedulesText(const internal::CudaEntry& entry) {
  std::string text;
  for (size_t i = 0; i < entry.program.kernels.size(); ++i) {
    absl::StrAppendFormat(&text, "k%d\n%s\n", i, entry.program.kernels[i].schedules);
  }
  return text;
}

constexpr Emission kEmissions[] = {
    {.name = "report",
     .doc = "tables of resources, contents and predicted times",
     .is_compiled = true},
    {.name = "graph",
     .doc = "the fused graph",
     .of_entry = [](const internal::CudaEntry& entry) { return ir::Print(*entry.module); },
     .file = "graph.duo"},
    {.name = "program",
     .doc = "buffers and launches",
     .of_entry = [](const internal::CudaEntry& entry) { return entry.program.ToString(); },
     .file = "program.txt"},
    {.name = "schedules",
     .doc = "the cost model's candidates for every kernel, best first",
     .of_entry = SchedulesText,
     .file = "schedules.txt"},
    {.name = "cuda",
     .doc = "sources",
     .suffix = ".cu",
     .of_kernel = [](const runtime::Kernel& kernel) { return kernel.source; }},
    {.name = "ptx",
     .doc = "PTX",
     .is_compiled = true,
     .suffix = ".ptx",
     .of_kernel = [](const runtime::Kernel& kernel) { return kernel.ptx; }},
    {.name = "cubin",
     .doc = "machine code",
     .is_compiled = true,
     .suffix = ".cubin",
     .of_kernel = [](const runtime::Kernel& kernel) { return kernel.cubin; }},
};

std::string EmissionNames() {
  return absl::StrJoin(kEmissions, ", ", [](std::string* out, const Emission& emission) {
    out->append(emission.name);
  });
}

absl::StatusOr<std::vector<const Emission*>> ParseEmit(const KernelsFlags& flags) {
  std::vector<const Emission*> chosen;
  const std::vector<std::string> names = absl::StrSplit(flags.emit, ',', absl::SkipEmpty());
  for (const std::string& name : names) {
    const auto* found =
        std::find_if(std::begin(kEmissions), std::end(kEmissions),
                     [&](const Emission& emission) { return emission.name == name; });
    if (found == std::end(kEmissions)) {
      return UsageError(
          absl::StrFormat("--emit: there is no '%s'; known: %s", name, EmissionNames()));
    }
    if (!found->suffix.empty() && flags.output.empty()) {
      return UsageError(
          absl::StrFormat("--emit=%s writes a file per kernel: name a folder with -o", name));
    }
    chosen.push_back(found);
  }
  if (chosen.empty()) {
    return UsageError(absl::StrFormat("--emit: name one of %s", EmissionNames()));
  }
  return chosen;
}

// The module with the graph to compile: trained where the entry is one of training and the module
// has no @step yet.
absl::StatusOr<std::unique_ptr<ir::Module>> Prepare(const KernelsFlags& flags,
                                                    const passes::PassOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module, ReadModel(flags.file));
  const ir::Graph* step = module->FindGraph(passes::kStepGraph);
  const bool is_trained = step != nullptr && !step->updates().empty();
  const bool wants_training =
      flags.entry == passes::kStepGraph || flags.entry == passes::kEvalGraph;
  std::vector<std::string> warnings;
  if (!is_trained && wants_training) {
    DUOTONE_ASSIGN_OR_RETURN(const passes::PassList list, passes::MakePipeline("train", options));
    DUOTONE_ASSIGN_OR_RETURN(passes::PassReport report, passes::PassManager().Run(list, *module));
    warnings = std::move(report.warnings);
  }
  DUOTONE_RETURN_IF_ERROR(internal::AddWeightCopies(*module, options));
  for (const std::string& warning : warnings) {
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
  return module;
}

absl::StatusOr<ir::SizeBinding> Sizes(const KernelsFlags& flags, const ir::Module& module) {
  const ir::Graph* graph = module.FindGraph(flags.entry);
  if (graph == nullptr) {
    return NotFound("--entry: module @%s has no graph @%s; it has: %s", module.name(), flags.entry,
                    absl::StrJoin(module.graphs(), ", ", [](std::string* out, const auto& g) {
                      absl::StrAppendFormat(out, "@%s", g->name());
                    }));
  }
  DUOTONE_ASSIGN_OR_RETURN(ir::SizeBinding binding, flags.model.Binding(*graph));
  for (const std::string& name : ir::NamedSizes(*graph)) {
    if (binding.contains(name)) continue;
    if (flags.batch == 0) {
      return UsageError(absl::StrFormat(
          "kernels are made for numbers, and @%s has the size %s: give --bind %s=128 or so",
          flags.entry, name, name));
    }
    binding[name] = flags.batch;
  }
  return binding;
}

// "k03-row-h1.norm": the first launch of a kernel says what it is for.
std::string FileStem(const runtime::Program& program, int kernel) {
  std::string stem = absl::StrFormat("k%02d", kernel);
  for (const runtime::Step& step : program.steps) {
    const auto* launch = std::get_if<runtime::KernelLaunch>(&step.action);
    if (launch == nullptr || launch->kernel != kernel) continue;
    absl::StrAppendFormat(&stem, "-%s-%s", launch->family, launch->node);
    break;
  }
  for (char& c : stem) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-';
    if (!is_plain) c = '_';
  }
  return stem.substr(0, 100);
}

absl::Status Emit(const Emission& emission, const internal::CudaEntry& entry,
                  const std::string& folder) {
  if (emission.of_entry != nullptr) {
    const std::string text = emission.of_entry(entry);
    if (folder.empty()) return WriteResult("", text);
    return WriteFileAtomically(absl::StrFormat("%s/%s", folder, emission.file), text);
  }
  const runtime::Program& program = entry.program;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const std::string path =
        absl::StrFormat("%s/%s%s", folder, FileStem(program, static_cast<int>(i)), emission.suffix);
    DUOTONE_RETURN_IF_ERROR(WriteFileAtomically(path, emission.of_kernel(program.kernels[i])));
  }
  // Sources include these by name: `nvcc -I DIR` compiles them as they are.
  if (emission.name != "cuda") return absl::OkStatus();
  for (const runtime::SourceHeader& header : program.headers) {
    DUOTONE_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrFormat("%s/%s", folder, header.name), header.text));
  }
  return absl::OkStatus();
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

absl::StatusOr<runtime::CompileStatistics> CompileWithCache(const KernelsFlags& flags,
                                                            internal::CudaCompileOptions options,
                                                            runtime::Program& program) {
  runtime::KernelCache cache;
  options.cache = flags.no_cache ? nullptr : &cache;
  options.threads = static_cast<int>(flags.threads);
  options.reproducer_directory = ".";
  DUOTONE_ASSIGN_OR_RETURN(runtime::CompileStatistics statistics,
                           internal::CompileKernels(program, options));
  for (const std::string& warning : statistics.warnings) {
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
  std::fprintf(stderr,
               "%d kernels: %d compiled, %d from the cache; %.2f s on %d threads, %.2f s of "
               "compiling\n",
               statistics.kernels, statistics.compiled, statistics.cache_hits, statistics.seconds,
               statistics.threads, statistics.compile_seconds);
  return statistics;
}

// Runs the step and puts its counters into the report.
absl::StatusOr<EmulatedStep> Emulate(const KernelsFlags& flags, const ir::Module& trained,
                                     const runtime::Program& program,
                                     runtime::ProgramReport& report) {
  emulator::EmulatorOptions options;
  options.architecture = std::string(report.target->name);
  options.threads = static_cast<int>(flags.threads);
  const auto start = std::chrono::steady_clock::now();
  DUOTONE_ASSIGN_OR_RETURN(EmulatedStep step, EmulateStep(trained, flags.entry, program, options));
  emulator::Machine& machine = step.gpu->machine();
  int64_t instructions = 0;
  for (const auto& record : machine.records()) instructions += record->instructions;
  std::fprintf(stderr, "emulated: %lld warp instructions in %.2f s\n",
               static_cast<long long>(instructions), SecondsSince(start));
  std::fputs(machine.problems().ToString().c_str(), stderr);
  DUOTONE_RETURN_IF_ERROR(AddCounts(machine, report));
  if (flags.counters.empty() || flags.json == "-") return step;
  for (const auto& record : machine.records()) {
    std::fputs(emulator::ToText(*record, flags.counters == "instruction").c_str(), stdout);
    std::fputs("\n", stdout);
  }
  return step;
}

nlohmann::ordered_json ReportJson(const KernelsFlags& flags, const runtime::ProgramReport& report,
                                  const runtime::CompileStatistics& statistics,
                                  const EmulatedStep& step) {
  nlohmann::ordered_json json = ToJson(report, statistics);
  if (step.gpu == nullptr) return json;
  for (const auto& record : step.gpu->machine().records()) {
    if (record->note == nullptr || record->note->launch == nullptr) continue;
    for (auto& kernel : json["kernels"]) {
      if (kernel["step"] == record->note->step) {
        AddRows(*record, flags.counters, kernel["counted"]);
      }
    }
  }
  json["problems"] = ToJson(step.gpu->machine().problems());
  return json;
}

absl::Status CheckEmulationFlags(const KernelsFlags& flags) {
  if (flags.counters.empty()) return absl::OkStatus();
  if (!flags.emulate) return UsageError("--counters: what is counted needs --emulate");
  return CheckCounters(flags.counters);
}

absl::Status RunKernels(const KernelsFlags& flags) {
  DUOTONE_RETURN_IF_ERROR(CheckEmulationFlags(flags));
  DUOTONE_ASSIGN_OR_RETURN(const std::vector<const Emission*> emissions, ParseEmit(flags));
  const absl::StatusOr<const GpuTarget*> target = FindGpuTarget(flags.target);
  if (!target.ok()) {
    return UsageError(absl::StrFormat("--target: %s", std::string(target.status().message())));
  }
  internal::CudaCompileOptions options{
      .target = *target, .exact = flags.exact, .schedules = flags.schedules};
  DUOTONE_ASSIGN_OR_RETURN(options.passes, flags.model.PassOptions());
  const auto start = std::chrono::steady_clock::now();
  DUOTONE_ASSIGN_OR_RETURN(const std::unique_ptr<ir::Module> module,
                           Prepare(flags, options.passes));
  DUOTONE_ASSIGN_OR_RETURN(const ir::SizeBinding sizes, Sizes(flags, *module));
  DUOTONE_ASSIGN_OR_RETURN(internal::CudaEntry entry,
                           internal::LowerForCuda(*module, flags.entry, sizes, options));
  for (const std::string& warning : entry.warnings) {
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
  std::fprintf(stderr, "graph to sources: %.2f s\n", SecondsSince(start));

  const bool has_report = std::any_of(emissions.begin(), emissions.end(), [](const auto* emission) {
    return emission->name == "report";
  });
  // Line information leads from the PTX to the nodes.
  std::unique_ptr<runtime::KernelCompiler> compiler;
  if (flags.emulate) {
    DUOTONE_ASSIGN_OR_RETURN(compiler, runtime::CreateNvrtcCompiler({.line_info = true}));
    options.compiler = compiler.get();
  }
  runtime::CompileStatistics statistics;
  if (flags.emulate || !flags.json.empty() ||
      std::any_of(emissions.begin(), emissions.end(),
                  [](const auto* e) { return e->is_compiled; })) {
    DUOTONE_ASSIGN_OR_RETURN(statistics, CompileWithCache(flags, options, entry.program));
  }
  for (const Emission* emission : emissions) {
    const bool is_text = emission->of_entry != nullptr && flags.output.empty();
    if (emission->name == "report" || (is_text && flags.json == "-")) continue;
    DUOTONE_RETURN_IF_ERROR(Emit(*emission, entry, flags.output));
  }
  if (!has_report && flags.json.empty() && !flags.emulate) return absl::OkStatus();
  DUOTONE_ASSIGN_OR_RETURN(runtime::ProgramReport report,
                           runtime::MakeProgramReport(entry.program, **target));
  EmulatedStep step;
  if (flags.emulate) {
    DUOTONE_ASSIGN_OR_RETURN(step, Emulate(flags, *module, entry.program, report));
  }
  if (!flags.json.empty()) {
    const nlohmann::ordered_json json = ReportJson(flags, report, statistics, step);
    DUOTONE_RETURN_IF_ERROR(WriteResult(flags.json, JsonText(json)));
  }
  if (has_report && flags.json != "-") {
    DUOTONE_RETURN_IF_ERROR(WriteResult("", runtime::ToText(report)));
  }
  return step.status;
}

}  // namespace

std::function<absl::Status()> DeclareKernels(CLI::App& app) {
  auto flags = std::make_shared<KernelsFlags>();
  app.add_option("FILE", flags->file, "The .duo file; - is the standard input")->required();
  app.add_option("--target", flags->target,
                 "The architecture: sm_75, sm_80, sm_86, sm_89, sm_90, sm_100 or sm_120")
      ->type_name("ARCH")
      ->capture_default_str();
  app.add_option("--entry", flags->entry, "The graph to compile")
      ->type_name("step|eval|NAME")
      ->capture_default_str();
  app.add_option("--emit", flags->emit, "What to show, separated by commas: " + EmissionNames())
      ->type_name("KINDS")
      ->capture_default_str();
  app.add_flag(
      "--emulate", flags->emulate,
      "Run the graph once on an emulated GPU of this architecture, with random inputs, and "
      "put what it counts into the report");
  app.add_option("--counters", flags->counters,
                 "Print the emulator's counters by place in the model, or also by instruction; "
                 "JSON has the former anyway")
      ->type_name("place|instruction");
  app.add_option("-o,--output", flags->output, "The folder for files")->type_name("DIR");
  app.add_option("--json", flags->json, "The report as JSON too; - prints nothing but the JSON")
      ->type_name("FILE");
  app.add_option(
         "--kernel-schedule", flags->schedules,
         "The schedule of a node's kernel, or of all: 'fc1.w.next=v8 u2 t128', '*=v8 u2 t128'")
      ->type_name("NODE=TEXT")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--batch", flags->batch, "The value of every named size that --bind leaves open")
      ->type_name("N")
      ->check(WholeNumber(1));
  app.add_option("--threads", flags->threads, "How many compile at a time; 0: all cores")
      ->type_name("N")
      ->check(WholeNumber(0));
  app.add_flag("--exact", flags->exact, "Round at every node and approximate nothing");
  app.add_flag("--no-cache", flags->no_cache, "Neither read nor write the cache of kernels");
  flags->model.Declare(app);
  flags->model.DeclareBinding(app, "The value of a named size: B=128");
  return [flags] { return RunKernels(*flags); };
}

}  // namespace duotone::tools
