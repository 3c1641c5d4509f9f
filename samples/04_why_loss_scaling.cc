// Why f16 training needs loss scaling. The gradients of this small network lie below 6e-8, the
// smallest number f16 can hold: without scaling every one of them becomes 0 and nothing is learnt;
// with dynamic scaling the same network learns as it does in f32.
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "duotone/duotone.h"

using namespace duotone;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kBatch = 64, kInputs = 16, kHidden = 32, kOutputs = 256, kSteps = 30;
constexpr double kSmallestF16 = 0x1p-24, kSmallestNormalF16 = 0x1p-14;

absl::StatusOr<Model> Network() {
  GraphBuilder b("small_gradients");
  Value x = b.Input("x", F32({kBatch, kInputs}));
  Value target = b.Input("target", F32({kBatch, kOutputs}));
  Value w1 = b.Param("w1", F32({kInputs, kHidden}), Normal(0.5));
  Value w2 = b.Param("w2", F32({kHidden, kOutputs}), Zeros());
  Value y = MatMul(Tanh(MatMul(x, w1)), w2);
  Value loss = MseLoss(y, target) / 64;  // one small term of a larger loss
  b.Output("loss", loss);
  b.Output("gradient", Gradient(loss, {w2})[0]);
  return std::move(b).Build();
}

// What the entries of a gradient are in f16 when they are multiplied by `scale`.
struct Shares {
  double zero = 0, subnormal = 0;  // percent
  double largest = 0;              // without the scale
};
Shares SharesOf(const std::vector<float>& gradient, double scale) {
  Shares shares;
  for (float g : gradient) {
    const double scaled = std::abs(g) * scale;
    shares.zero += scaled < kSmallestF16 / 2;
    shares.subnormal += scaled >= kSmallestF16 / 2 && scaled < kSmallestNormalF16;
    shares.largest = std::fmax(shares.largest, std::abs(g));
  }
  shares.zero *= 100.0 / double(gradient.size());
  shares.subnormal *= 100.0 / double(gradient.size());
  return shares;
}

absl::Status Train(const std::string& title, std::optional<DType> dtype, LossScale loss_scale) {
  absl::StatusOr<Model> model = Network();
  if (!model.ok()) return model.status();
  // Adam's eps must be small against the gradients as well.
  absl::StatusOr<TrainSession> session =
      Compile(*model, {.autocast = {.dtype = dtype},
                       .loss_scale = loss_scale,
                       .optimizers = {Adam{.lr = 1e-5, .eps = 1e-14}}});
  if (!session.ok()) return session.status();

  std::mt19937 random(7);
  auto uniform = [&] { return float(random()) / 2147483648.0f - 1.0f; };
  std::vector<float> mixing(kInputs * kOutputs), x(kBatch * kInputs), target(kBatch * kOutputs);
  for (float& m : mixing) m = 1e-4f * uniform();
  for (float& v : x) v = uniform();
  for (int i = 0; i < kBatch; ++i) {
    for (int j = 0; j < kOutputs; ++j) {
      for (int k = 0; k < kInputs; ++k) {
        target[i * kOutputs + j] += x[i * kInputs + k] * mixing[k * kOutputs + j];
      }
    }
  }

  std::printf("%s\n", title.c_str());
  double first = 0, last = 0;
  for (int step = 1; step <= kSteps; ++step) {
    absl::StatusOr<Metrics> metrics = session->Step({{"x", x}, {"target", target}});
    if (!metrics.ok()) return metrics.status();
    absl::StatusOr<Tensor> gradient = metrics->Output("gradient");
    if (!gradient.ok()) return gradient.status();
    last = metrics->loss();
    if (step == 1) first = last;
    const Shares shares = SharesOf(gradient->ToFloats(), metrics->loss_scale());
    std::printf(
        "  step %2d  loss %.3e  scale %-10g gradient in f16: %5.1f %% zero  %5.1f %% subnormal"
        "  (largest %.1e)\n",
        step, last, metrics->loss_scale(), shares.zero, shares.subnormal, shares.largest);
  }
  std::printf("  the loss falls to %.1f %% of its first value\n\n", 100 * last / first);
  return absl::OkStatus();
}

}  // namespace

int main() {
  for (const absl::Status& status :
       {Train("f32, no scaling", std::nullopt, NoLossScale()),
        Train("f16, no scaling", DType::kF16, NoLossScale()),
        Train("f16, dynamic scaling", DType::kF16, DynamicLossScale({.growth_interval = 10}))}) {
    if (status.ok()) continue;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
