// Passes and their options as text: what `// RUN:` lines of text tests and examples of the registry
// say.
//
//   sink-casts,fold-casts
//   autocast{dtype=f16 policy=pytorch device=cuda op:exp=deny name:fc1/.*=allow}
//   --pipeline=train dtype=f16 loss_scale=dynamic optimizer=sgd lr=0.1 momentum=0.9
//
// All options of one text go into one PassOptions, wherever they stand. `optimizer=` begins a new
// optimizer, and the keys of an optimizer belong to the last one begun.
#ifndef DUOTONE_PASSES_OPTIONS_TEXT_H_
#define DUOTONE_PASSES_OPTIONS_TEXT_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "llvm/ADT/ArrayRef.h"
#include "passes/options.h"
#include "passes/pipeline.h"

namespace duotone::passes {

struct OptionKey {
  std::string_view name;
  std::string_view values;   // "f16|bf16|off"
  std::string_view initial;  // the value it has if it is not given; empty: see doc
  std::string_view doc;      // one sentence
  absl::Status (*set)(PassOptions& options, std::string_view value);
};
// In the order of docs/passes.md: by pass.
llvm::ArrayRef<OptionKey> OptionKeys();

// What `optimizer=` begins as number `index` of the list: the defaults of its kind.
OptimizerOptions DefaultOptimizer(OptimizerOptions::Kind kind, size_t index);

// Sets one option; blanks belong to the value.
absl::Status SetOption(PassOptions& options, std::string_view key, std::string_view value);

// Reads "key=value key=value" into `options`.
absl::Status ParseOptions(std::string_view text, PassOptions& options);

// The passes a text asks for. Errors name the pass or option.
absl::StatusOr<PassList> ParsePasses(std::string_view text);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_OPTIONS_TEXT_H_
