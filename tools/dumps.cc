#include "tools/dumps.h"

#include <cstdio>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/file.h"
#include "base/status.h"
#include "codegen/cpu/lower.h"
#include "ir/text.h"
#include "passes/precision_report.h"

namespace duotone::tools {
namespace {

// The compiled module, read back from its text, with the sizes of @step's inputs bound to `batch`.
absl::StatusOr<std::unique_ptr<ir::Module>> CompiledModule(const TrainSession& session) {
  return ir::Parse(session.ir_text(), "compiled module");
}

ir::SizeBinding BindingOf(const ir::Graph& graph, int64_t batch) {
  ir::SizeBinding binding;
  for (const std::string& name : ir::NamedSizes(graph)) binding[name] = batch;
  return binding;
}

absl::StatusOr<std::string> DumpGraph(const TrainSession& session, int64_t) {
  return session.ir_text();
}

absl::StatusOr<std::string> DumpColours(const TrainSession& session, int64_t batch) {
  DUOTONE_ASSIGN_OR_RETURN(const std::unique_ptr<ir::Module> module, CompiledModule(session));
  const ir::Graph& step = *module->FindGraph("step");
  DUOTONE_ASSIGN_OR_RETURN(const passes::PrecisionExplanation explanation,
                           passes::ExplainPrecision(step, {}, BindingOf(step, batch)));
  return passes::ToText(explanation);
}

absl::StatusOr<std::string> DumpProgram(const TrainSession& session, int64_t batch) {
  DUOTONE_ASSIGN_OR_RETURN(const std::unique_ptr<ir::Module> module, CompiledModule(session));
  ir::Graph& step = *module->FindGraph("step");
  DUOTONE_RETURN_IF_ERROR(ir::BindSizes(step, BindingOf(step, batch)));
  DUOTONE_ASSIGN_OR_RETURN(const runtime::Program program, codegen::cpu::Lower(step));
  return program.ToString();
}

absl::StatusOr<std::string> DumpTiming(const TrainSession& session, int64_t) {
  return session.report().passes;
}

constexpr DumpKind kKinds[] = {
    {"graph", "step.duo", "the module after all passes", DumpGraph},
    {"colours", "step.colours.txt", "why each node of the step has its dtype", DumpColours},
    {"program", "step.program.txt", "buffers and steps of the CPU's program", DumpProgram},
    {"timing", "", "the passes with their times, to stderr", DumpTiming},
};

}  // namespace

absl::Span<const DumpKind> DumpKinds() { return kKinds; }

absl::Status WriteDump(const DumpKind& kind, const TrainSession& session, int64_t batch,
                       const std::string& dir) {
  DUOTONE_ASSIGN_OR_RETURN(const std::string text, kind.make(session, batch));
  if (kind.file.empty()) {
    std::fputs(text.c_str(), stderr);
    return absl::OkStatus();
  }
  const std::string path = absl::StrFormat("%s/%s", dir, kind.file);
  DUOTONE_RETURN_IF_ERROR(WriteFileAtomically(path, text));
  std::fprintf(stderr, "%s: %s\n", std::string(kind.doc).c_str(), path.c_str());
  return absl::OkStatus();
}

}  // namespace duotone::tools
