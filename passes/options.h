// What the passes of a pipeline are told. Plain data: the public API (duotone/options.h) and the
// command line translate into it, passes/registry.cc hands each pass its part.
#ifndef DUOTONE_PASSES_OPTIONS_H_
#define DUOTONE_PASSES_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ir/op_def.h"

namespace duotone::passes {

enum class CastPolicy {
  kOptimal,  // composites f32 inside with 16-bit operands and results, few casts
  kPyTorch,  // node by node the dtypes that torch.autocast gives on `torch_device`
};
enum class TorchDevice { kCuda, kCpu };

// "Nodes of op `op`" or "nodes whose scope/name matches `pattern`" get `tone`. Exactly one of op
// and pattern is set.
struct PrecisionOverride {
  std::optional<ir::Op> op;
  std::string pattern;               // POSIX extended regular expression, searched for
  ir::Tone tone = ir::Tone::kUnset;  // kAllow, kInfer, kClear or kDeny
};

struct AutocastOptions {
  std::optional<DType> dtype;  // kF16 or kBF16; absent: autocast is off
  CastPolicy policy = CastPolicy::kOptimal;
  TorchDevice torch_device = TorchDevice::kCuda;
  std::vector<PrecisionOverride> overrides;
};

struct LossScaleOptions {
  enum class Kind { kOff, kStatic, kDynamic };
  Kind kind = Kind::kOff;
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min_scale = 0.0;  // no floor
  double max_scale = std::numeric_limits<double>::infinity();
  // Guard the updates by "all gradients finite" also where no scaling is used.
  bool skip_nonfinite = true;
};

struct ScheduleOptions {
  std::string kind = "constant";  // constant, linear, cosine
  double final_lr = 0.0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
};

// One optimizer over the parameters whose names match `params`. The first matching optimizer of the
// list owns a parameter; a parameter that none matches is frozen.
struct OptimizerOptions {
  enum class Kind { kSgd, kAdam, kAdamW };
  Kind kind = Kind::kAdamW;
  std::string name = "optimizer";  // prefix of its state entries
  std::string params = ".*";       // regular expression, matched against the whole name
  double lr = 1e-3;
  double weight_decay = 0.0;
  double momentum = 0.0;  // SGD
  bool nesterov = false;  // SGD
  double beta1 = 0.9;     // Adam, AdamW
  double beta2 = 0.999;
  double eps = 1e-8;
  ScheduleOptions schedule;
};

struct PassOptions {
  // The forward graph that is trained; empty: the module's only graph, or the one called "loss" or
  // "main".
  std::string graph;
  // Outputs of the forward graph whose sum is minimised.
  std::vector<std::string> losses = {"loss"};
  AutocastOptions autocast;
  LossScaleOptions loss_scale;
  std::vector<OptimizerOptions> optimizers;
  // The optimizer pass leaves the outputs grad:<param>, unscaled, for tests and tools.
  bool keep_gradients = false;
};

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_OPTIONS_H_
