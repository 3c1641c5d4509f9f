// How many warp instructions a second the emulated GPU executes on one core, with all checks and
// counters off and on: kernels of the MLP's and a GPT's training step as NVRTC compiles them, a
// loop of f32 multiply-adds as the upper bound, and one of tensor-core instructions.
//
//   cmake --build --preset release --target emulator_speed
//   build/release/benchmarks/emulator_speed
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "duotone/backend.h"
#include "duotone/duotone.h"
#include "runtime/cuda/compiler.h"
#include "runtime/emulator/emulated_driver.h"
#include "runtime/emulator/machine.h"
#include "runtime/kernel.h"
#include "samples/models.h"

namespace duotone {
namespace {

using emulator::EmulatorOptions;

constexpr int64_t kFewInstructions = 200000;  // kernels with fewer are left out of the tables

EmulatorOptions OneThread(bool checked) {
  EmulatorOptions options;
  options.checks = options.counters = checked;
  options.threads = 1;
  return options;
}

struct Speed {
  int64_t instructions = 0;
  double seconds[2] = {0, 0};  // unchecked, checked
};

void Print(std::string_view name, const Speed& speed) {
  absl::PrintF("%-44s %14d %10.2f %10.2f\n", name, speed.instructions,
               speed.instructions / speed.seconds[0] / 1e6,
               speed.instructions / speed.seconds[1] / 1e6);
}

// ---- Loops

constexpr std::string_view kFmaLoop = R"(.version 8.5
.target sm_80
.address_size 64
.visible .entry loop()
{
  .reg .f32 %f<6>; .reg .b32 %r; .reg .pred %p;
  mov.f32 %f0, 0f3F800000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
  mov.f32 %f4, 0f3F7FFFFF; mov.f32 %f5, 0f33800000;
  mov.u32 %r, 0;
AGAIN:
  fma.rn.f32 %f0, %f0, %f4, %f5; fma.rn.f32 %f1, %f1, %f4, %f5;
  fma.rn.f32 %f2, %f2, %f4, %f5; fma.rn.f32 %f3, %f3, %f4, %f5;
  fma.rn.f32 %f0, %f0, %f4, %f5; fma.rn.f32 %f1, %f1, %f4, %f5;
  fma.rn.f32 %f2, %f2, %f4, %f5; fma.rn.f32 %f3, %f3, %f4, %f5;
  add.s32 %r, %r, 1;
  setp.lt.s32 %p, %r, 20000;
  @%p bra AGAIN;
  ret;
}
)";

// Four tensor-core instructions, 8 times in a loop. Factors lie between 1/2 and 2.
constexpr std::string_view kMmaBegin = R"(.version 8.5
.target sm_80
.address_size 64
.visible .entry loop()
{
  .reg .b32 %a<4>; .reg .b32 %b<2>; .reg .f32 %c<8>; .reg .b32 %r; .reg .pred %p;
  mov.u32 %r, %tid.x;
  mad.lo.u32 %r, %r, 0x9E3779B9, 0x7F4A7C15;
  and.b32 %r, %r, 0x83FF83FF;
  or.b32 %a0, %r, 0x3C003800;
  xor.b32 %a1, %a0, 0x82A30155; xor.b32 %a2, %a1, 0x01B8822E; xor.b32 %a3, %a0, 0x00E700F4;
  xor.b32 %b0, %a1, 0x02718291; xor.b32 %b1, %a2, 0x80C1036D;
  mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0;
  mov.f32 %c4, %c0; mov.f32 %c5, %c0; mov.f32 %c6, %c0; mov.f32 %c7, %c0;
  mov.u32 %r, 0;
AGAIN:
)";
constexpr std::string_view kMmas = R"(
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
    {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
    {%c4, %c5, %c6, %c7}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c4, %c5, %c6, %c7};
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
    {%c0, %c1, %c2, %c3}, {%a3, %a0, %a1, %a2}, {%b1, %b0}, {%c0, %c1, %c2, %c3};
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
    {%c4, %c5, %c6, %c7}, {%a3, %a0, %a1, %a2}, {%b1, %b0}, {%c4, %c5, %c6, %c7};
)";
constexpr std::string_view kMmaEnd = R"(
  add.s32 %r, %r, 1;
  setp.lt.s32 %p, %r, 200;
  @%p bra AGAIN;
  ret;
}
)";

std::string MmaLoop() {
  std::string ptx(kMmaBegin);
  for (int i = 0; i < 8; ++i) ptx += kMmas;
  return ptx.append(kMmaEnd);
}

absl::Status MeasureLoop(std::string_view name, std::string_view ptx) {
  Speed speed;
  for (const bool checked : {false, true}) {
    emulator::Machine machine(OneThread(checked));
    DUOTONE_ASSIGN_OR_RETURN(emulator::LoadedModule * module, machine.Load(ptx));
    DUOTONE_ASSIGN_OR_RETURN(const emulator::Executable* kernel, machine.Find(*module, "loop"));
    DUOTONE_RETURN_IF_ERROR(
        machine.Run({.module = module, .kernel = kernel, .grid = {8, 1, 1}, .block = {256, 1, 1}}));
    speed.instructions = machine.records().front()->instructions;
    speed.seconds[checked] = machine.records().front()->seconds;
  }
  Print(name, speed);
  return absl::OkStatus();
}

// ---- Training steps

struct Step {
  std::string name;
  std::function<absl::StatusOr<Model>()> model;
  std::vector<Feed> feeds;
  std::optional<DType> dtype;
};

absl::Status MeasureStep(const Step& step, std::shared_ptr<runtime::KernelCompiler> compiler) {
  std::map<std::string, Speed> speeds;
  Speed total;
  for (const bool checked : {false, true}) {
    DUOTONE_ASSIGN_OR_RETURN(const Model model, step.model());
    const EmulatorOptions emulation = OneThread(checked);
    DUOTONE_ASSIGN_OR_RETURN(const std::shared_ptr<emulator::EmulatedGpu> gpu,
                             emulator::EmulatedGpu::Create(emulation));
    Options options = {.autocast = {.dtype = step.dtype}, .optimizers = {AdamW{}}};
    options.device = Device::Emulated(emulation.architecture);
    DUOTONE_ASSIGN_OR_RETURN(
        TrainSession session,
        internal::CompileWith(model, options, {.driver = gpu->driver(), .compiler = compiler}));
    DUOTONE_ASSIGN_OR_RETURN(const Metrics metrics, session.Step(step.feeds));
    DUOTONE_RETURN_IF_ERROR(metrics.status());
    total.instructions = 0;
    for (const auto& record : gpu->machine().records()) {
      const bool is_named = record->note != nullptr && record->note->launch != nullptr;
      Speed& speed = speeds[is_named ? "  " + record->note->launch->node : "  (others)"];
      if (!checked) speed.instructions += record->instructions;
      speed.seconds[checked] += record->seconds;
      total.instructions += record->instructions;
      total.seconds[checked] += record->seconds;
    }
  }
  for (const auto& [name, speed] : speeds) {
    if (speed.instructions >= kFewInstructions) Print(name.substr(0, 44), speed);
  }
  Print(absl::StrFormat("%s: the whole step", step.name), total);
  return absl::OkStatus();
}

template <typename T>
std::vector<T> Numbers(size_t count, T limit) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(i * 7919 % 1009) * limit / 1009;
  return values;
}

absl::Status Measure() {
  DUOTONE_ASSIGN_OR_RETURN(std::shared_ptr<runtime::KernelCompiler> compiler,
                           runtime::CreateNvrtcCompiler({.only_ptx = true}));
  absl::PrintF("%-44s %14s %10s %10s\n", "one core, millions of instructions a second",
               "instructions", "unchecked", "checked");
  DUOTONE_RETURN_IF_ERROR(MeasureLoop("loop of f32 multiply-adds", kFmaLoop));
  DUOTONE_RETURN_IF_ERROR(MeasureLoop("loop of mma.m16n8k16, f16", MmaLoop()));
  const std::vector<float> pixels = Numbers<float>(128 * 784, 1.0f);
  const std::vector<int32_t> digits = Numbers<int32_t>(128, 10);
  const std::vector<int32_t> words = Numbers<int32_t>(4 * 128, 65);
  const auto mlp = [] { return samples::Mlp(); };
  const auto gpt = [] { return samples::Gpt({.layers = 1}); };
  const Step steps[] = {
      {"MLP, batch 128, f32", mlp, {{"x", pixels}, {"y", digits}}, std::nullopt},
      {"MLP, batch 128, f16", mlp, {{"x", pixels}, {"y", digits}}, DType::kF16},
      {"GPT of one layer, batch 4, bf16", gpt, {{"x", words}, {"y", words}}, DType::kBF16},
  };
  for (const Step& step : steps) {
    DUOTONE_RETURN_IF_ERROR(MeasureStep(step, compiler)).With("%s", step.name);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace duotone

int main() {
  const absl::Status status = duotone::Measure();
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
