// All passes by name, in one explicit list: no static initialisers, so the linker cannot drop a
// pass. docs/passes.md and `duotone passes` print it, and a test runs each row's example.
#ifndef DUOTONE_PASSES_REGISTRY_H_
#define DUOTONE_PASSES_REGISTRY_H_

#include <memory>
#include <string_view>

#include "llvm/ADT/ArrayRef.h"
#include "passes/options.h"
#include "passes/pass.h"

namespace duotone::passes {

struct PassInfo {
  std::string_view name;     // kebab-case; also the name of the file pair, with underscores
  std::string_view doc;      // one sentence
  std::string_view options;  // of the example, in the syntax of passes/options_text.h; may be ""
  std::string_view before;   // a small graph or module ...
  std::string_view
      after;  // ... and what the pass makes of it, in the printer's form without the module's frame
  std::unique_ptr<Pass> (*make)(const PassOptions& options);
};

// In alphabetical order.
llvm::ArrayRef<PassInfo> AllPasses();
// The row called `name`, or null.
const PassInfo* FindPass(std::string_view name);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_REGISTRY_H_
