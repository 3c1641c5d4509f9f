// What a failed compilation leaves behind: the model as it was given, and the command that fails
// again.
//
//   // autodiff: argmax has no derivative (mlp.cc:14, node %k)
//   // RUN: --pipeline=train dtype=f16 loss_scale=dynamic optimizer=adamw lr=0.001
//   module @mlp { ... }
#ifndef DUOTONE_DUOTONE_REPRODUCER_H_
#define DUOTONE_DUOTONE_REPRODUCER_H_

#include <string>

#include "absl/status/status.h"
#include "ir/graph.h"
#include "passes/options.h"

namespace duotone::internal {

// The options in the syntax of passes/options_text.h, without those that have their defaults.
std::string OptionsText(const passes::PassOptions& options);

// Writes duotone-repro-<hash>.duo into `directory` (empty: nowhere) and returns `error` with a
// sentence that says where, or why not.
absl::Status LeaveReproducer(absl::Status error, const ir::Module& model,
                             const passes::PassOptions& options, const std::string& directory);

}  // namespace duotone::internal

#endif  // DUOTONE_DUOTONE_REPRODUCER_H_
