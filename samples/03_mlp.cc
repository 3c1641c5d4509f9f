// Trains a network in f16 with dynamic loss scaling: which of ten numbers is the largest?
#include <algorithm>
#include <cstdio>
#include <random>

#include "duotone/duotone.h"
using namespace duotone;  // NOLINT(google-build-using-namespace)

int main() {
  GraphBuilder b("mlp");
  Value x = b.Input("x", F32({"B", 10})), y = b.Input("y", I32({"B"}));
  Value w1 = b.Param("w1", F32({10, 64}), KaimingUniform()), b1 = b.Param("b1", F32({64}), Zeros());
  Value w2 = b.Param("w2", F32({64, 10}), KaimingUniform()), b2 = b.Param("b2", F32({10}), Zeros());
  Value logits = Linear(Relu(Linear(x, w1, b1)), w2, b2);
  b.Output("loss", CrossEntropy(logits, y));
  b.Output("choice", ArgMax(logits));
  auto session = Compile(std::move(b), {.autocast = {.dtype = DType::kF16},
                                        .loss_scale = DynamicLossScale(),
                                        .optimizers = {AdamW{.lr = 1e-2}}});
  if (!session.ok()) return std::fprintf(stderr, "%s\n", session.status().ToString().c_str()), 1;

  std::mt19937 random(1);
  std::vector<float> numbers(128 * 10);
  std::vector<int32_t> largest(128);
  for (int step = 1; step <= 300; ++step) {
    for (float& number : numbers) number = random() / 4294967296.0f;
    for (int i = 0; i < 128; ++i) {
      auto row = numbers.begin() + 10 * i;
      largest[i] = std::max_element(row, row + 10) - row;
    }
    auto metrics = session->Step({{"x", numbers}, {"y", largest}});
    if (!metrics.ok()) return std::fprintf(stderr, "%s\n", metrics.status().ToString().c_str()), 1;
    if (step % 100 != 0) continue;
    auto choice = metrics->Output("choice");
    int right = 0;
    for (int i = 0; i < 128; ++i) right += choice->Get(i) == largest[i];
    std::printf("step %d  loss %.3f  scale %g  %d of 128 right\n", step, metrics->loss(),
                metrics->loss_scale(), right);
  }
}
