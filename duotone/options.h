// What Compile is told. Every field has a default; name the ones that differ:
//
//   Compile(std::move(b), {.autocast = {.dtype = DType::kF16},
//                          .optimizers = {AdamW{.lr = 1e-3, .weight_decay = 0.01}}});
#ifndef DUOTONE_DUOTONE_OPTIONS_H_
#define DUOTONE_DUOTONE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"

namespace duotone {

enum class CastPolicy {
  kOptimal,  // composites f32 inside with 16-bit operands and results, few casts
  kPyTorch,  // node by node the dtypes that torch.autocast gives
};
// Whose lists kPyTorch follows: PyTorch colours the same graph differently on the two.
enum class TorchDevice { kCuda, kCpu };

// What autocast may do with a node; docs/mixed_precision.md says more.
enum class Tone {
  kAllow,  // 16 bits
  kInfer,  // 16 bits where its operands are
  kClear,  // follows its neighbours
  kDeny,   // f32, and so is what follows
};

// Gives the nodes of one op, or those whose "<scope>/<name>" a pattern is found in, a tone; set one
// of `op` and `pattern`. Later overrides win over earlier ones.
struct PrecisionOverride {
  std::string op;       // "exp"
  std::string pattern;  // a POSIX extended regular expression: "encoder/0/.*"
  Tone tone = Tone::kDeny;
};

struct AutocastOptions {
  std::optional<DType> dtype;  // DType::kF16 or DType::kBF16; absent: everything stays as written
  CastPolicy policy = CastPolicy::kOptimal;
  TorchDevice torch_device = TorchDevice::kCuda;
  std::vector<PrecisionOverride> overrides;
};

// GradScaler's arithmetic and defaults; docs/mixed_precision.md.
struct LossScale {
  // kAuto: dynamic where autocast is f16, else off.
  enum class Kind { kAuto, kOff, kStatic, kDynamic };
  Kind kind = Kind::kAuto;
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min_scale = 0.0;  // no floor
  double max_scale = std::numeric_limits<double>::infinity();
};
// DynamicLossScale({.growth_interval = 500}).
inline LossScale DynamicLossScale(LossScale options = {}) {
  options.kind = LossScale::Kind::kDynamic;
  return options;
}
inline LossScale StaticLossScale(double scale) {
  return {.kind = LossScale::Kind::kStatic, .init_scale = scale};
}
inline LossScale NoLossScale() { return {.kind = LossScale::Kind::kOff}; }

// The learning rate over the steps that count (skipped ones do not).
struct Schedule {
  enum class Kind { kConstant, kLinear, kCosine };
  Kind kind = Kind::kConstant;
  int64_t warmup_steps = 0;  // linear from 0
  int64_t total_steps = 0;   // the schedule's own length, warm-up included
  double final_lr = 0.0;     // the rate at total_steps and after
};
inline Schedule ConstantSchedule(int64_t warmup_steps = 0) {
  return {.warmup_steps = warmup_steps};
}
inline Schedule LinearSchedule(int64_t total_steps, int64_t warmup_steps = 0, double final_lr = 0) {
  return {Schedule::Kind::kLinear, warmup_steps, total_steps, final_lr};
}
inline Schedule CosineSchedule(int64_t total_steps, int64_t warmup_steps = 0, double final_lr = 0) {
  return {Schedule::Kind::kCosine, warmup_steps, total_steps, final_lr};
}

// Optimizers. `params` is a regular expression over the whole names of parameters; the first
// optimizer of the list that matches owns a parameter, and one that none matches keeps its value.
// `name` prefixes the optimizer's state entries; empty: "optimizer", and with several "optimizer0",
// "optimizer1", ...
struct AdamW {
  double lr = 1e-3;
  double weight_decay = 0.01;  // decoupled
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  Schedule schedule;
  std::string params = ".*";
  std::string name;
};
struct Adam {
  double lr = 1e-3;
  double weight_decay = 0.0;  // added to the gradient
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  Schedule schedule;
  std::string params = ".*";
  std::string name;
};
struct Sgd {
  double lr = 1e-3;
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
  Schedule schedule;
  std::string params = ".*";
  std::string name;
};
using Optimizer = std::variant<AdamW, Adam, Sgd>;

// Where a session runs: "cpu", "reference" (the op table's own evaluation on the CPU, without
// libraries), an NVIDIA GPU: "cuda:0", "cuda:1", ..., or the emulation of one on the CPU, which
// runs the same kernels and checks them: "emulated:sm_80", with words behind it as docs/emulator.md
// lists them: "emulated:sm_80,adversarial,seed=7".
class Device {
 public:
  explicit Device(std::string name) : name_(std::move(name)) {}
  static Device Default() { return Device("cpu"); }
  static Device Emulated(std::string_view architecture) {
    return Device("emulated:" + std::string(architecture));
  }
  const std::string& name() const { return name_; }
  // N of "cuda:N"; nothing for other devices.
  std::optional<int> cuda_ordinal() const;
  // "sm_80,adversarial" of "emulated:sm_80,adversarial"; nothing for other devices.
  std::optional<std::string_view> emulated() const;
  // The devices of this machine.
  static std::vector<std::string> Available();

 private:
  std::string name_;
};

// Text that compilation shows: the module around a pass.
struct DumpOptions {
  // Passes after which the module is dumped: "autocast"; "*" stands for all, "change" for all that
  // change something.
  std::vector<std::string> print_after;
  // Gets each dump: a title ("03-autocast.after") and the text. Without a sink and a directory
  // dumps go to stderr.
  std::function<void(std::string_view title, std::string_view text)> sink;
  // A directory (made if missing) that gets each dump as <title>.duo.
  std::string directory;
};

struct Options {
  AutocastOptions autocast;
  LossScale loss_scale;
  // Skip a step whose gradients are not all finite, also where no scaling is used.
  bool skip_nonfinite = true;
  // After so many skipped steps in a row Step returns an error; 0: never.
  int64_t max_consecutive_skips = 0;
  std::vector<Optimizer> optimizers;
  // The outputs whose sum is minimised.
  std::vector<std::string> losses = {"loss"};
  // The graph that is trained; empty: the model's only one, else @loss or @main.
  std::string graph;
  Device device = Device::Default();
  int threads = 0;    // 0: as many as the hardware runs at once; results do not depend on it
  uint64_t seed = 0;  // of initial values and of random ops
  // Round at every node, and use no library: every backend agrees to the last bit where
  // docs/numerics.md says so.
  bool exact = false;
  // Where a failing compilation leaves its reproducer, duotone-repro-<hash>.duo; empty: nowhere.
  std::string reproducer_directory = ".";
  DumpOptions dump;
  // Gets lines on what is compiled for a GPU and how much of its memory is needed.
  std::function<void(const std::string& line)> log;
};

// The first option that makes no sense, as a sentence; Compile checks the same.
absl::Status CheckOptions(const Options& options);

}  // namespace duotone

#endif  // DUOTONE_DUOTONE_OPTIONS_H_
