// Prints a model of samples/models.h in the text form: print_models gpt > samples/models/gpt.duo.
#include <cstdio>
#include <string_view>

#include "samples/models.h"

int main(int argc, char** argv) {
  const std::string_view name = argc == 2 ? argv[1] : "";
  for (const duotone::samples::NamedModel& known : duotone::samples::AllModels()) {
    if (known.name != name) continue;
    absl::StatusOr<duotone::Model> model = known.build();
    if (!model.ok()) {
      std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
      return 1;
    }
    std::printf("%s", model->Text().c_str());
    return 0;
  }
  std::fprintf(stderr, "usage: print_models NAME, one of samples::AllModels()\n");
  return 2;
}
