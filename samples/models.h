// Builders of the benchmark models. samples/models/*.duo are their text forms; a test compares.
#ifndef DUOTONE_SAMPLES_MODELS_H_
#define DUOTONE_SAMPLES_MODELS_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "duotone/duotone.h"

namespace duotone::samples {

// Fully connected layers with ReLU between them, over x: f32[B, widths.front()] and y: i32[B].
absl::StatusOr<Model> Mlp(const std::vector<int>& widths = {784, 512, 512, 10});

struct GptOptions {
  int vocabulary = 65;
  int width = 128;
  int heads = 4;
  int layers = 4;
  int context = 128;
};
// A character model: learned positions, pre-norm blocks with causal attention and GELU, over x and
// y: i32[B, context].
absl::StatusOr<Model> Gpt(const GptOptions& options = {});

// The models that have a text form in samples/models/<name>.duo.
struct NamedModel {
  std::string_view name;
  absl::StatusOr<Model> (*build)();
};
// mlp, gpt, and gpt_small with two layers of width 64 and a context of 64.
absl::Span<const NamedModel> AllModels();

}  // namespace duotone::samples

#endif  // DUOTONE_SAMPLES_MODELS_H_
