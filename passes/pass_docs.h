// docs/passes.md from the registry and the pipelines.
#ifndef DUOTONE_PASSES_PASS_DOCS_H_
#define DUOTONE_PASSES_PASS_DOCS_H_

#include <string>

namespace duotone::passes {

// The text of docs/passes.md.
std::string PassesMarkdown();

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_PASS_DOCS_H_
