#include "passes/pass_docs.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "passes/options_text.h"
#include "passes/pipeline.h"
#include "passes/registry.h"

namespace duotone::passes {
namespace {

std::string PipelineSection(const Pipeline& pipeline) {
  std::string text = absl::StrFormat("### %s\n\n%s\n\n| step | reason |\n| --- | --- |\n",
                                     pipeline.name, pipeline.doc);
  for (const PipelineStep& step : pipeline.steps) {
    text += absl::StrFormat("| [%s](#%s) | %s |\n", step.pass, step.pass, step.reason);
  }
  return text + "\n";
}

std::string PassSection(const PassInfo& pass) {
  std::string file(pass.name);
  std::replace(file.begin(), file.end(), '-', '_');
  std::string text = absl::StrFormat("### %s\n\n%s Rules and limits: `passes/%s.h`.\n\n", pass.name,
                                     pass.doc, file);
  if (!pass.options.empty()) text += absl::StrFormat("Example with `%s`.\n\n", pass.options);
  text += absl::StrFormat("Before:\n\n```\n%s\n```\n\nAfter:\n\n```\n%s\n```\n\n", pass.before,
                          pass.after);
  return text;
}

}  // namespace

std::string PassesMarkdown() {
  std::string text =
      "# Passes\n\n"
      "This page is printed from `passes/registry.cc`, `passes/pipeline.cc` and "
      "`passes/options_text.cc`; a test compares it and says how to refresh it. Every example is "
      "run by a test.\n\n## Pipelines\n\n";
  for (const Pipeline& pipeline : AllPipelines()) text += PipelineSection(pipeline);
  text += "## The passes\n\n";
  for (const PassInfo& pass : AllPasses()) text += PassSection(pass);
  text +=
      "## Options as text\n\n"
      "In a text test, `// RUN: autocast{dtype=f16 policy=pytorch}` or "
      "`// RUN: --pipeline=train dtype=f16 optimizer=sgd lr=0.1`.\n\n"
      "| key | values | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const OptionKey& key : OptionKeys()) {
    const std::string initial = key.initial.empty() ? "" : absl::StrFormat("`%s`", key.initial);
    text += absl::StrFormat("| `%s` | `%s` | %s | %s |\n", key.name,
                            absl::StrReplaceAll(std::string(key.values), {{"|", "\\|"}}), initial,
                            key.doc);
  }
  text +=
      "| `op:NAME` | `allow\\|infer\\|clear\\|deny` | | the class of one op for autocast |\n"
      "| `name:REGEX` | `allow\\|infer\\|clear\\|deny` | | the class of nodes whose scope/name "
      "matches |\n";
  return text;
}

}  // namespace duotone::passes
