// What autocast does to a graph: the text before, and the evaluation entry after in f16, with its
// casts.
#include <cstdio>

#include "duotone/duotone.h"

using namespace duotone;  // NOLINT(google-build-using-namespace)

int main() {
  GraphBuilder b("classifier");
  Value x = b.Input("x", F32({"B", 64})), y = b.Input("y", I32({"B"}));
  Value w1 = b.Param("w1", F32({64, 32}), KaimingUniform());
  Value w2 = b.Param("w2", F32({32, 8}), KaimingUniform());
  Value h = Named(Relu(MatMul(x, w1)), "h");
  b.Output("loss", CrossEntropy(MatMul(h, w2), y));
  absl::StatusOr<Model> model = std::move(b).Build();
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return 1;
  }
  std::printf("// before\n%s", model->Text().c_str());

  Options options{.autocast = {.dtype = DType::kF16}, .optimizers = {Sgd{.lr = 0.1}}};
  options.dump = {.print_after = {"autocast"}, .sink = [](auto, std::string_view text) {
                    std::printf("// after autocast\n%.*s", int(text.size()), text.data());
                  }};
  absl::StatusOr<TrainSession> session = Compile(*model, options);
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", session.status().ToString().c_str());
    return 1;
  }
  std::printf("%s", session->report().text.c_str());
  return 0;
}
