// duotone run-ptx: runs a kernel of any PTX file on an emulated GPU, with all its checks.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/gpu_target.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "runtime/emulator/counter_report.h"
#include "runtime/emulator/machine.h"
#include "tools/command.h"
#include "tools/emulate.h"
#include "tools/emulator_json.h"
#include "tools/json_text.h"
#include "tools/kernel_json.h"
#include "tools/model_flags.h"
#include "tools/ptx_arguments.h"

namespace duotone::tools {
namespace {

using Json = nlohmann::ordered_json;
using Size3 = std::array<int64_t, 3>;

struct RunPtxFlags {
  std::string file;
  std::string kernel;
  std::string grid = "1";
  std::string block;
  std::vector<std::string> args;
  std::string target;
  std::string schedule = "round-robin";
  std::string counters;
  std::string json;
  int64_t shared_bytes = 0;
  int64_t seed = 1;
  int64_t print = 8;
  int64_t threads = 0;
  int64_t budget = emulator::EmulatorOptions().instruction_budget;
  bool no_checks = false;
};

// "4", "4,2" or "4x2x1".
absl::StatusOr<Size3> ParseSize(std::string_view flag, const std::string& text) {
  Size3 size = {1, 1, 1};
  const std::vector<std::string> parts = absl::StrSplit(text, absl::ByAnyChar(",x"));
  bool is_good = parts.size() <= size.size();
  for (size_t i = 0; is_good && i < parts.size(); ++i) {
    is_good = absl::SimpleAtoi(parts[i], &size[i]) && size[i] >= 1;
  }
  if (is_good) return size;
  return UsageError(absl::StrFormat(
      "%s: '%s' is not one to three numbers of at least 1, such as 4,2", flag, text));
}

// The architecture that the PTX is for, or the next newer one that there is.
std::string TargetOf(int compute) {
  for (const GpuTarget& target : AllGpuTargets()) {
    if (target.compute >= compute) return std::string(target.name);
  }
  return std::string(AllGpuTargets().back().name);
}

absl::StatusOr<emulator::EmulatorOptions> OptionsOf(const RunPtxFlags& flags, int ptx_compute) {
  emulator::EmulatorOptions options;
  options.architecture = flags.target.empty() ? TargetOf(ptx_compute) : flags.target;
  const absl::StatusOr<const GpuTarget*> target = FindGpuTarget(options.architecture);
  if (!target.ok()) {
    return UsageError(absl::StrFormat("--target: %s", std::string(target.status().message())));
  }
  if (flags.schedule == "adversarial") {
    options.schedule = emulator::Schedule::kAdversarial;
  } else if (flags.schedule != "round-robin") {
    return UsageError(
        absl::StrFormat("--schedule: '%s' is neither round-robin nor adversarial", flags.schedule));
  }
  if (flags.no_checks) options.checks = false;
  options.instruction_budget = flags.budget;
  options.seed = static_cast<uint64_t>(flags.seed);
  constexpr int64_t kMaxThreads = 1024;
  if (flags.threads > kMaxThreads) {
    return UsageError(absl::StrFormat("--threads: %d is more than %d", flags.threads, kMaxThreads));
  }
  options.threads = static_cast<int>(flags.threads);
  return options;
}

std::vector<std::string> KernelNames(const emulator::PtxModule& module) {
  std::vector<std::string> names;
  for (const emulator::PtxFunction& function : module.functions) {
    if (function.is_entry && !function.is_declaration) names.push_back(function.name);
  }
  return names;
}

// The kernel's name: the given one, or that of the only kernel.
absl::StatusOr<std::string> ChooseKernel(const RunPtxFlags& flags,
                                         const emulator::PtxModule& module) {
  const std::vector<std::string> names = KernelNames(module);
  const std::string known = absl::StrJoin(names, ", ");
  if (flags.kernel.empty()) {
    if (names.size() == 1) return names.front();
    if (names.empty()) return InvalidArgument("%s has no kernel (.entry)", flags.file);
    return UsageError(absl::StrFormat("--kernel: name one of %s", known));
  }
  if (std::find(names.begin(), names.end(), flags.kernel) != names.end()) return flags.kernel;
  return UsageError(absl::StrFormat("--kernel: %s has no kernel '%s'; it has: %s", flags.file,
                                    flags.kernel, known));
}

// A folder that is not there is more likely a slip than wanted, and better said before the kernel
// runs than after.
absl::Status CheckFolder(std::string_view flag, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return absl::OkStatus();
  return UsageError(absl::StrFormat("%s: there is no folder %s", flag, folder.string()));
}

// "u64 x, u32 n": what the kernel takes.
std::string ParametersText(const emulator::PtxModule& module, const emulator::PtxFunction& kernel) {
  return absl::StrJoin(kernel.parameters, ", ", [&](std::string* out, int index) {
    const emulator::Variable& parameter = module.variables[static_cast<size_t>(index)];
    if (parameter.bytes == emulator::TypeBytes(parameter.type)) {
      absl::StrAppendFormat(out, ".%s %s", emulator::TypeName(parameter.type), parameter.name);
    } else {
      absl::StrAppendFormat(out, "%s (%d bytes)", parameter.name, parameter.bytes);
    }
  });
}

// An argument that the parameter cannot mean: of another size, or a whole number where it takes a
// float, or the other way round. 16-bit floats are often declared as .u16 or .b8 h[2].
absl::Status CheckArgument(const PtxArgument& argument, const emulator::Variable& parameter) {
  const std::string_view what = argument.is_buffer ? " (an address)" : "";
  const int64_t bytes = argument.is_buffer ? 8 : static_cast<int64_t>(argument.bytes.size());
  if (bytes != parameter.bytes) {
    return UsageError(absl::StrFormat("--args: '%s'%s has %d bytes; the parameter %s has %d",
                                      argument.text, what, bytes, parameter.name, parameter.bytes));
  }
  if (argument.is_buffer || parameter.bytes != emulator::TypeBytes(parameter.type)) {
    return absl::OkStatus();
  }
  const auto is_whole = [](emulator::Type type) {
    return type >= emulator::Type::kU8 && type <= emulator::Type::kS64;
  };
  const bool to_float = is_whole(argument.type) && emulator::IsFloat(parameter.type);
  const bool to_whole = emulator::IsFloat(argument.type) && bytes > 2 && is_whole(parameter.type);
  if (!to_float && !to_whole) return absl::OkStatus();
  return UsageError(
      absl::StrFormat("--args: '%s' is %s; the parameter %s is .%s (to give its bits: b%d:0x...)",
                      argument.text, to_float ? "a whole number" : "a float", parameter.name,
                      emulator::TypeName(parameter.type), 8 * bytes));
}

absl::StatusOr<std::vector<PtxArgument>> ParseArguments(const RunPtxFlags& flags,
                                                        const emulator::PtxModule& module,
                                                        const emulator::PtxFunction& kernel) {
  std::vector<PtxArgument> arguments;
  for (const std::string& list : flags.args) {
    for (const std::string& text : SplitArguments(list)) {
      absl::StatusOr<PtxArgument> argument = ParsePtxArgument(
          text, static_cast<uint64_t>(flags.seed), static_cast<int>(arguments.size()));
      if (!argument.ok()) {
        return UsageError(absl::StrFormat("--args: %s", std::string(argument.status().message())));
      }
      arguments.push_back(*std::move(argument));
    }
  }
  if (arguments.size() != kernel.parameters.size()) {
    return UsageError(
        absl::StrFormat("--args has %d argument%s; kernel %s takes %d%s%s", arguments.size(),
                        arguments.size() == 1 ? "" : "s", kernel.name, kernel.parameters.size(),
                        kernel.parameters.empty() ? "" : ": ", ParametersText(module, kernel)));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    DUOTONE_RETURN_IF_ERROR(
        CheckArgument(arguments[i], module.variables[static_cast<size_t>(kernel.parameters[i])]));
    if (arguments[i].output.empty()) continue;
    DUOTONE_RETURN_IF_ERROR(
        CheckFolder(absl::StrFormat("--args: '%s'", arguments[i].text), arguments[i].output));
  }
  return arguments;
}

// A buffer argument in the device's memory.
struct DeviceBuffer {
  const PtxArgument* argument = nullptr;
  int number = 0;  // of the argument, from 1
  std::string name;
  uint64_t address = 0;
  std::vector<uint8_t> before, after;
  int64_t changed = 0;  // elements
};

absl::StatusOr<std::vector<DeviceBuffer>> AllocateBuffers(const std::vector<PtxArgument>& arguments,
                                                          const emulator::PtxModule& module,
                                                          const emulator::PtxFunction& kernel,
                                                          emulator::GlobalMemory& memory) {
  std::vector<DeviceBuffer> buffers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const PtxArgument& argument = arguments[i];
    if (!argument.is_buffer) continue;
    DeviceBuffer buffer;
    buffer.argument = &argument;
    buffer.number = static_cast<int>(i) + 1;
    buffer.name = module.variables[static_cast<size_t>(kernel.parameters[i])].name;
    DUOTONE_ASSIGN_OR_RETURN(buffer.address, memory.Allocate(argument.buffer_bytes(), buffer.name));
    if (argument.is_initialised) {
      DUOTONE_RETURN_IF_ERROR(
          memory.Write(buffer.address, argument.bytes.data(), argument.buffer_bytes()));
    } else if (!memory.is_checked()) {
      // Nobody notes what is written: most of it shows by not being this.
      DUOTONE_RETURN_IF_ERROR(memory.Fill(buffer.address, 0xff, 1, argument.buffer_bytes()));
    }
    buffer.before.resize(static_cast<size_t>(argument.buffer_bytes()));
    DUOTONE_RETURN_IF_ERROR(
        memory.Read(buffer.before.data(), buffer.address, argument.buffer_bytes()));
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

absl::Status ReadBack(const emulator::GlobalMemory& memory, DeviceBuffer& buffer) {
  const PtxArgument& argument = *buffer.argument;
  buffer.after.resize(buffer.before.size());
  DUOTONE_RETURN_IF_ERROR(
      memory.Read(buffer.after.data(), buffer.address, argument.buffer_bytes()));
  // Of a buffer that began undefined all that is written counts, whatever lay there.
  std::vector<uint8_t> written(buffer.after.size());
  if (!argument.is_initialised && memory.is_checked()) {
    DUOTONE_RETURN_IF_ERROR(
        memory.ReadMarks(written.data(), buffer.address, argument.buffer_bytes()));
  }
  const auto bytes = static_cast<size_t>(emulator::TypeBytes(argument.type));
  for (size_t at = 0; at < buffer.after.size(); at += bytes) {
    buffer.changed += std::memcmp(&buffer.before[at], &buffer.after[at], bytes) != 0 ||
                      std::memchr(&written[at], 1, bytes) != nullptr;
  }
  if (argument.output.empty()) return absl::OkStatus();
  return WriteFileAtomically(
      argument.output,
      std::string_view(reinterpret_cast<const char*>(buffer.after.data()), buffer.after.size()));
}

std::vector<std::string> FirstElements(const DeviceBuffer& buffer, int64_t limit) {
  std::vector<std::string> texts;
  const emulator::Type type = buffer.argument->type;
  const int64_t bytes = emulator::TypeBytes(type);
  for (int64_t i = 0; i < std::min(limit, buffer.argument->elements); ++i) {
    texts.push_back(ElementText(type, &buffer.after[static_cast<size_t>(i * bytes)]));
  }
  return texts;
}

std::string BufferText(const DeviceBuffer& buffer, int64_t limit) {
  const PtxArgument& argument = *buffer.argument;
  std::string text = absl::StrFormat("argument %d, %s: %s[%d], ", buffer.number, buffer.name,
                                     emulator::TypeName(argument.type), argument.elements);
  if (buffer.changed == 0) {
    absl::StrAppend(&text, "not changed\n");
    return text;
  }
  absl::StrAppendFormat(&text, "%d changed: %s%s\n", buffer.changed,
                        absl::StrJoin(FirstElements(buffer, limit), " "),
                        argument.elements > limit ? " ..." : "");
  return text;
}

Json ToJson(const DeviceBuffer& buffer, int64_t limit) {
  return {{"argument", buffer.number},
          {"name", buffer.name},
          {"type", std::string(emulator::TypeName(buffer.argument->type))},
          {"elements", buffer.argument->elements},
          {"changed", buffer.changed},
          {"first", FirstElements(buffer, limit)}};
}

Json ResultsJson(const RunPtxFlags& flags, emulator::Machine& machine,
                 const std::vector<DeviceBuffer>& buffers) {
  const emulator::LaunchRecord& record = *machine.records().front();
  Json json = {{"schema", 1},
               {"kernel", record.kernel->name},
               {"target", std::string(machine.target().name)},
               {"grid", record.grid},
               {"block", record.block},
               {"counted", tools::ToJson(emulator::WorkOf(record))},
               {"buffers", Json::array()},
               {"problems", tools::ToJson(machine.problems())}};
  AddRows(record, flags.counters, json["counted"]);
  for (const DeviceBuffer& buffer : buffers) json["buffers"].push_back(ToJson(buffer, flags.print));
  return json;
}

absl::Status Report(const RunPtxFlags& flags, emulator::Machine& machine,
                    const std::vector<DeviceBuffer>& buffers) {
  const emulator::LaunchRecord& record = *machine.records().front();
  if (!flags.json.empty()) {
    const Json json = ResultsJson(flags, machine, buffers);
    DUOTONE_RETURN_IF_ERROR(WriteResult(flags.json, JsonText(json)));
  }
  if (flags.json != "-") {
    std::string text = absl::StrFormat("kernel %s on %s: grid %s, block %s, %d warp instructions\n",
                                       record.kernel->name, machine.target().name,
                                       absl::StrJoin(record.grid, " x "),
                                       absl::StrJoin(record.block, " x "), record.instructions);
    for (const DeviceBuffer& buffer : buffers) text += BufferText(buffer, flags.print);
    if (!flags.counters.empty()) {
      absl::StrAppend(&text, "\n", emulator::ToText(record, flags.counters == "instruction"));
    }
    DUOTONE_RETURN_IF_ERROR(WriteResult("", text));
  }
  std::fputs(machine.problems().ToString().c_str(), stderr);
  if (!machine.problems().has_errors()) return absl::OkStatus();
  return InvalidArgument("kernel %s has errors", record.kernel->name);
}

absl::Status RunPtx(const RunPtxFlags& flags) {
  DUOTONE_RETURN_IF_ERROR(CheckCounters(flags.counters));
  DUOTONE_ASSIGN_OR_RETURN(const Size3 grid, ParseSize("--grid", flags.grid));
  DUOTONE_ASSIGN_OR_RETURN(const Size3 block, ParseSize("--block", flags.block));
  DUOTONE_RETURN_IF_ERROR(CheckFolder("--json", flags.json));
  DUOTONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.file, size_t{1} << 28));
  if (const size_t zero = text.find('\0'); zero != text.npos) {
    return InvalidArgument("%s is not the text of PTX: its byte %d is 0", flags.file, zero);
  }
  absl::StatusOr<emulator::PtxModule> parsed = emulator::ParsePtx(text);
  DUOTONE_RETURN_IF_ERROR(parsed).With("%s", flags.file);
  DUOTONE_ASSIGN_OR_RETURN(const std::string name, ChooseKernel(flags, *parsed));
  DUOTONE_ASSIGN_OR_RETURN(const emulator::EmulatorOptions options,
                           OptionsOf(flags, parsed->compute));
  emulator::Machine machine(options);
  absl::StatusOr<emulator::LoadedModule*> module = machine.Load(*std::move(parsed));
  DUOTONE_RETURN_IF_ERROR(module).With("%s", flags.file);
  const emulator::PtxModule& ptx = (*module)->ptx;
  const emulator::PtxFunction& kernel = *ptx.Find(name);
  DUOTONE_ASSIGN_OR_RETURN(const std::vector<PtxArgument> arguments,
                           ParseArguments(flags, ptx, kernel));
  emulator::LaunchRequest request;
  request.module = *module;
  absl::StatusOr<const emulator::Executable*> executable = machine.Find(**module, name);
  DUOTONE_RETURN_IF_ERROR(executable).With("%s", flags.file);
  request.kernel = *executable;
  request.grid = grid;
  request.block = block;
  request.shared_bytes = flags.shared_bytes;
  request.parameters.resize(static_cast<size_t>(request.kernel->parameter_bytes));
  DUOTONE_ASSIGN_OR_RETURN(std::vector<DeviceBuffer> buffers,
                           AllocateBuffers(arguments, ptx, kernel, machine.memory()));
  size_t next_buffer = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    uint8_t* const to = request.parameters.data() + request.kernel->parameters[i].offset;
    if (arguments[i].is_buffer) {
      std::memcpy(to, &buffers[next_buffer++].address, sizeof(uint64_t));
    } else {
      std::copy(arguments[i].bytes.begin(), arguments[i].bytes.end(), to);
    }
  }
  DUOTONE_RETURN_IF_ERROR(machine.Run(request));
  for (DeviceBuffer& buffer : buffers) {
    DUOTONE_RETURN_IF_ERROR(ReadBack(machine.memory(), buffer));
  }
  return Report(flags, machine, buffers);
}

}  // namespace

std::function<absl::Status()> DeclareRunPtx(CLI::App& app) {
  auto flags = std::make_shared<RunPtxFlags>();
  app.add_option("FILE", flags->file, "The PTX; - is the standard input")->required();
  app.add_option("--kernel", flags->kernel, "The kernel; may be left out where there is only one")
      ->type_name("NAME");
  app.add_option("--grid", flags->grid, "How many blocks")
      ->type_name("X,Y,Z")
      ->capture_default_str();
  app.add_option("--block", flags->block, "How many threads a block has")
      ->type_name("X,Y,Z")
      ->required();
  app.add_option("--args", flags->args,
                 "The kernel's arguments, separated by commas: " + std::string(PtxArgumentHelp()))
      ->type_name("ARG,...")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--target", flags->target,
                 "The architecture; default: that of the PTX, or the next newer one")
      ->type_name("ARCH");
  app.add_option("--shared", flags->shared_bytes, "Dynamic shared memory")
      ->type_name("BYTES")
      ->check(WholeNumber(0));
  app.add_option("--schedule", flags->schedule, "In which order warps and blocks run")
      ->type_name("round-robin|adversarial")
      ->capture_default_str();
  app.add_option("--seed", flags->seed, "Of uniform buffers and of the adversarial schedule")
      ->type_name("N")
      ->check(WholeNumber(0))
      ->capture_default_str();
  app.add_flag("--no-checks", flags->no_checks, "Only check bounds and alignments");
  app.add_option("--counters", flags->counters,
                 "Print what was counted by place in the source, or also by instruction; JSON has "
                 "the former anyway")
      ->type_name("place|instruction");
  app.add_option("--print", flags->print, "How many elements of a changed buffer to print")
      ->type_name("N")
      ->check(WholeNumber(0))
      ->capture_default_str();
  app.add_option("--budget", flags->budget,
                 "Warp instructions of a block, after which the kernel is in an endless loop")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->capture_default_str();
  app.add_option("--threads", flags->threads, "Threads of the host; 0: all cores")
      ->type_name("N")
      ->check(WholeNumber(0));
  app.add_option("--json", flags->json, "The results as JSON too; - prints nothing but the JSON")
      ->type_name("FILE");
  return [flags] { return RunPtx(*flags); };
}

}  // namespace duotone::tools
