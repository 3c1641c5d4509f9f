// Builds a small graph, prints it, and shows what a mistake looks like.
#include <cstdio>

#include "duotone/duotone.h"

using namespace duotone;  // NOLINT(google-build-using-namespace)

int main() {
  GraphBuilder b("tiny");
  Value x = b.Input("x", F32({"B", 4})), target = b.Input("target", F32({"B", 2}));
  Value w = b.Param("w", F32({4, 2}), KaimingUniform());
  Value bias = b.Param("bias", F32({2}), Zeros());
  Value y = Named(Tanh(Linear(x, w, bias)), "y");
  b.Output("loss", MseLoss(y, target) + 0.01 * ReduceSum(w * w));
  absl::StatusOr<Model> model = std::move(b).Build();
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return 1;
  }
  std::printf("%s", model->Text().c_str());

  GraphBuilder wrong("wrong");
  Value a = wrong.Input("a", F32({"B", 127}));
  wrong.Output("y", MatMul(a, wrong.Param("w", F32({128, 10}), Zeros())));
  std::printf("%s\n", std::string(std::move(wrong).Build().status().message()).c_str());
  return 0;
}
