// Prints a model of samples/models.h in the text form: print_models gpt > samples/models/gpt.duo.
#include <cstdio>
#include <string_view>

#include "samples/models.h"

int main(int argc, char** argv) {
  const std::string_view name = argc == 2 ? argv[1] : "";
  if (name != "mlp" && name != "gpt") {
    std::fprintf(stderr, "usage: print_models mlp|gpt\n");
    return 2;
  }
  absl::StatusOr<duotone::Model> model =
      name == "mlp" ? duotone::samples::Mlp() : duotone::samples::Gpt();
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return 1;
  }
  std::printf("%s", model->Text().c_str());
  return 0;
}
