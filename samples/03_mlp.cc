// The MLP (784-512-512-10) in f16 with dynamic loss scaling, the default there: which of ten waves
// does a noisy picture show?
#include <cmath>
#include <cstdio>
#include <random>

#include "duotone/duotone.h"
using namespace duotone;  // NOLINT(google-build-using-namespace)

int main() {
  GraphBuilder b("mlp");
  Value x = b.Input("x", F32({"B", 784})), y = b.Input("y", I32({"B"})), h = x;
  for (int i : {0, 1, 2}) {
    const std::string n = std::to_string(i);
    const int in = i == 0 ? 784 : 512, out = i == 2 ? 10 : 512;
    Value w = b.Param("w" + n, F32({in, out}), KaimingUniform());
    h = Linear(i == 0 ? h : Relu(h), w, b.Param("b" + n, F32({out}), Zeros()));
  }
  b.Output("loss", CrossEntropy(h, y));
  b.Output("choice", ArgMax(h));
  auto session =
      Compile(std::move(b), {.autocast = {.dtype = DType::kF16}, .optimizers = {AdamW{}}});
  if (!session.ok()) return std::fprintf(stderr, "%s\n", session.status().ToString().c_str()), 1;
  std::mt19937 random(1);
  std::vector<float> pictures(128 * 784);
  std::vector<int32_t> waves(128);
  for (int step = 1; step <= 60; ++step) {
    for (int i = 0; i < 128 * 784; ++i) {
      if (i % 784 == 0) waves[i / 784] = random() % 10;
      const float wave = std::sin(0.02f * (waves[i / 784] + 1) * (i % 784));
      pictures[i] = wave + random() / 2147483648.0f - 1.0f;
    }
    auto metrics = session->Step({{"x", pictures}, {"y", waves}});
    if (!metrics.ok()) return std::fprintf(stderr, "%s\n", metrics.status().ToString().c_str()), 1;
    if (step % 20 > 0) continue;
    int right = 0;
    for (int i = 0; i < 128; ++i) right += metrics->Output("choice")->Get(i) == waves[i];
    std::printf("step %d  loss %.3f  %d of 128 right\n", step, metrics->loss(), right);
  }
}
