#include "runtime/cuda/launch_note.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace duotone::runtime {
namespace {

class NoteMaker {
 public:
  NoteMaker(const Program& program, const ProgramPlaces& places)
      : program_(program), places_(places), touched_(program.buffers.size(), false) {
    for (const Constant& constant : program.constants) Touch(constant.buffer);
  }

  // The steps come in their order.
  LaunchNote Make(int step, const KernelLaunch& launch) {
    LaunchNote note{.program = program_.name, .step = step, .launch = &launch};
    for (int buffer : launch.reads) {
      if (!Contains(launch.writes, buffer)) AddBuffer(note, buffer, false, false);
    }
    for (int buffer : launch.writes) {
      AddBuffer(note, buffer, true, BeginsUndefined(launch, buffer));
    }
    for (int buffer : launch.reads) Touch(buffer);
    for (int buffer : launch.writes) Touch(buffer);
    AddArguments(note, step, launch);
    return note;
  }
  void Skip(const Copy& copy) {
    Touch(copy.from);
    Touch(copy.to);
  }
  void Skip(const Fill& fill) { Touch(fill.to); }
  // Steps of programs for the CPU.
  void Skip(const HostCall&) {}
  void Skip(const MatMul&) {}

 private:
  void Touch(int buffer) { touched_[program_.RootOf(buffer)] = true; }

  bool Contains(const std::vector<int>& buffers, int buffer) const {
    return std::any_of(buffers.begin(), buffers.end(), [&](int other) {
      return program_.RootOf(other) == program_.RootOf(buffer);
    });
  }
  bool Overlap(int a, int b) const {
    const CuDeviceAddress a_begin = places_.buffers[a], b_begin = places_.buffers[b];
    return a_begin < b_begin + static_cast<CuDeviceAddress>(program_.buffers[b].bytes) &&
           b_begin < a_begin + static_cast<CuDeviceAddress>(program_.buffers[a].bytes);
  }

  // Bytes that the launch reads as another buffer keep their value.
  bool BeginsUndefined(const KernelLaunch& launch, int buffer) const {
    const Buffer& written = program_.buffers[program_.RootOf(buffer)];
    const bool may_be =
        written.kind == BufferKind::kTemporary || written.kind == BufferKind::kOutput;
    return may_be && !touched_[program_.RootOf(buffer)] &&
           std::none_of(launch.reads.begin(), launch.reads.end(),
                        [&](int read) { return Overlap(buffer, read); });
  }

  void AddBuffer(LaunchNote& note, int buffer, bool is_written, bool is_undefined) const {
    note.ranges.push_back({places_.buffers[buffer], program_.buffers[buffer].bytes,
                           absl::StrCat("%", program_.buffers[buffer].name), is_written,
                           is_undefined,
                           static_cast<int>(ByteSize(program_.buffers[buffer].dtype))});
  }

  void AddArguments(LaunchNote& note, int step, const KernelLaunch& launch) const {
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      const LaunchArgument& argument = launch.arguments[i];
      switch (argument.kind) {
        case LaunchArgument::Kind::kTable:
          note.ranges.push_back(
              {places_.values[step][i],
               static_cast<int64_t>(argument.table.size() * sizeof(CuDeviceAddress)),
               "the table of addresses"});
          break;
        case LaunchArgument::Kind::kRandom:
          note.ranges.push_back({places_.random, sizeof(RandomState), "the random state"});
          break;
        case LaunchArgument::Kind::kErrors:
          note.ranges.push_back({places_.errors, sizeof(ErrorRecord), "the error record", true});
          break;
        case LaunchArgument::Kind::kBuffer:
        case LaunchArgument::Kind::kInt:
          break;
      }
    }
  }

  const Program& program_;
  const ProgramPlaces& places_;
  std::vector<bool> touched_;  // by root buffer: by an earlier step
};

}  // namespace

std::vector<std::shared_ptr<const LaunchNote>> MakeLaunchNotes(
    const std::shared_ptr<const Program>& program, const ProgramPlaces& places) {
  struct Kept {
    std::shared_ptr<const Program> program;
    LaunchNote note;
  };
  std::vector<std::shared_ptr<const LaunchNote>> notes(program->steps.size());
  NoteMaker maker(*program, places);
  for (size_t i = 0; i < program->steps.size(); ++i) {
    if (const auto* launch = std::get_if<KernelLaunch>(&program->steps[i].action)) {
      auto kept = std::make_shared<Kept>(Kept{program, maker.Make(static_cast<int>(i), *launch)});
      notes[i] = {kept, &kept->note};
    } else {
      std::visit(
          [&](const auto& action) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(action)>, KernelLaunch>) {
              maker.Skip(action);
            }
          },
          program->steps[i].action);
    }
  }
  return notes;
}

}  // namespace duotone::runtime
