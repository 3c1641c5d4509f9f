#include "runtime/emulator/machine.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "runtime/emulator/warp.h"

namespace duotone::emulator {
namespace {

absl::Status CheckShape(const LaunchRequest& request, const GpuTarget& target) {
  constexpr char kAxes[] = "xyz";
  for (int i = 0; i < 3; ++i) {
    if (request.grid[i] < 1 || request.grid[i] > kMaxGridSize[i]) {
      return InvalidArgument("kernel %s: grid.%c is %d, outside [1, %d]", request.kernel->name,
                             kAxes[i], request.grid[i], kMaxGridSize[i]);
    }
    if (request.block[i] < 1 || request.block[i] > kMaxBlockSize[i]) {
      return InvalidArgument("kernel %s: block.%c is %d, outside [1, %d]", request.kernel->name,
                             kAxes[i], request.block[i], kMaxBlockSize[i]);
    }
  }
  const int64_t threads = request.block[0] * request.block[1] * request.block[2];
  const int64_t limit = std::min<int64_t>(request.kernel->max_threads, target.max_block_threads);
  if (threads > limit) {
    return InvalidArgument("kernel %s: a block of %d threads; it is made for at most %d",
                           request.kernel->name, threads, limit);
  }
  const std::array<int, 3>& required = request.kernel->function->required_threads;
  for (int i = 0; required[0] > 0 && i < 3; ++i) {
    if (request.block[i] == std::max(1, required[i])) continue;
    return InvalidArgument("kernel %s: block.%c is %d; the kernel requires %d",
                           request.kernel->name, kAxes[i], request.block[i],
                           std::max(1, required[i]));
  }
  return absl::OkStatus();
}

bool LivesInDeviceMemory(const Variable& variable) {
  return variable.space == Space::kGlobal || variable.space == Space::kConst;
}

}  // namespace

Machine::Machine(const EmulatorOptions& options) : options_(options) {
  const absl::StatusOr<const GpuTarget*> target = FindGpuTarget(options.architecture);
  DUOTONE_CHECK(target.ok()) << options.architecture;
  target_ = *target;
  memory_ = std::make_unique<GlobalMemory>(options.memory_bytes, options.checks);
}

Machine::~Machine() = default;

absl::Status Machine::AllocateVariables(LoadedModule& module) {
  const std::vector<Variable>& variables = module.ptx.variables;
  module.addresses.resize(variables.size(), 0);
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!LivesInDeviceMemory(variables[i])) continue;
    DUOTONE_ASSIGN_OR_RETURN(module.addresses[i],
                             memory_->Allocate(variables[i].bytes, variables[i].name));
    memory_->MakeVariable(module.addresses[i], variables[i].space == Space::kConst);
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!LivesInDeviceMemory(variables[i]) || variables[i].bytes == 0) continue;
    std::vector<uint8_t> bytes = variables[i].initial;
    bytes.resize(static_cast<size_t>(variables[i].bytes), 0);
    for (const auto& [at, variable] : variables[i].address_at) {
      uint64_t address = 0;
      std::memcpy(&address, bytes.data() + at, sizeof(address));
      address += module.addresses[variable];
      std::memcpy(bytes.data() + at, &address, sizeof(address));
    }
    DUOTONE_RETURN_IF_ERROR(
        memory_->Write(module.addresses[i], bytes.data(), static_cast<int64_t>(bytes.size())));
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedModule*> Machine::Load(std::string_view ptx) {
  DUOTONE_ASSIGN_OR_RETURN(PtxModule parsed, ParsePtx(ptx));
  return Load(std::move(parsed));
}

absl::StatusOr<LoadedModule*> Machine::Load(PtxModule ptx) {
  const bool runs =
      ptx.is_for_one ? ptx.compute == target_->compute : ptx.compute <= target_->compute;
  if (!runs) {
    return FailedPrecondition("PTX for %s does not run on %s", ptx.target, target_->name);
  }
  auto module = std::make_unique<LoadedModule>();
  module->ptx = std::move(ptx);
  const absl::Status allocated = AllocateVariables(*module);
  if (!allocated.ok()) {
    FreeVariables(*module);
    return allocated;
  }
  modules_.push_back(std::move(module));
  return modules_.back().get();
}

void Machine::FreeVariables(const LoadedModule& module) {
  for (uint64_t address : module.addresses) {
    if (address != 0) memory_->Free(address).IgnoreError();
  }
}

void Machine::Unload(LoadedModule* module) {
  const auto found = std::find_if(modules_.begin(), modules_.end(),
                                  [&](const auto& owned) { return owned.get() == module; });
  DUOTONE_CHECK(found != modules_.end()) << "a module is unloaded twice";
  FreeVariables(*module);
  unloaded_.push_back(std::move(*found));
  modules_.erase(found);
}

absl::StatusOr<const Executable*> Machine::Find(LoadedModule& module, const std::string& name) {
  const auto found = module.kernels.find(name);
  if (found != module.kernels.end()) return found->second.get();
  const PtxFunction* function = module.ptx.Find(name);
  if (function == nullptr || !function->is_entry) {
    std::vector<std::string> entries;
    for (const PtxFunction& other : module.ptx.functions) {
      if (other.is_entry && !other.is_declaration) entries.push_back(other.name);
    }
    return NotFound("the PTX has no kernel '%s'; it has: %s", name,
                    entries.empty() ? "none" : absl::StrJoin(entries, ", "));
  }
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable,
                           Translate(module.ptx, name, module.addresses, options_));
  return module.kernels.emplace(name, std::move(executable)).first->second.get();
}

LaunchRecord& Machine::RecordFor(const LaunchRequest& request) {
  const int step = request.note == nullptr ? -1 : request.note->step;
  LaunchRecord*& record = record_of_[{request.kernel, step}];
  if (record == nullptr) {
    records_.push_back(std::make_unique<LaunchRecord>());
    record = records_.back().get();
    record->module = request.module;
    record->kernel = request.kernel;
    record->note = request.note;
    record->grid = request.grid;
    record->block = request.block;
    if (options_.counters) record->counters.resize(request.kernel->codes.size());
  }
  return *record;
}

absl::Status Machine::Check(const LaunchRequest& request) const {
  DUOTONE_RETURN_IF_ERROR(CheckShape(request, *target_));
  const int64_t shared = request.kernel->static_shared_bytes + request.shared_bytes;
  if (request.shared_bytes < 0 || shared > target_->max_block_shared_bytes) {
    return InvalidArgument("kernel %s: %d bytes of shared memory and %d dynamic ones; %s has %d",
                           request.kernel->name, request.kernel->static_shared_bytes,
                           request.shared_bytes, target_->name, target_->max_block_shared_bytes);
  }
  const auto given = static_cast<int64_t>(request.parameters.size());
  if (given != request.kernel->parameter_bytes) {
    return InvalidArgument("kernel %s: %d bytes of parameters are given, it takes %d",
                           request.kernel->name, given, request.kernel->parameter_bytes);
  }
  return absl::OkStatus();
}

absl::Status Machine::Run(const LaunchRequest& request) {
  DUOTONE_RETURN_IF_ERROR(Check(request));
  LaunchRecord& record = RecordFor(request);
  Launch launch;
  launch.module = &request.module->ptx;
  launch.executable = request.kernel;
  launch.options = &options_;
  launch.memory = memory_.get();
  launch.problems = &problems_;
  launch.grid = request.grid;
  launch.block = request.block;
  launch.dynamic_shared_bytes = request.shared_bytes;
  launch.parameters = request.parameters;
  launch.note = request.note;
  launch.number = ++launches_;
  memory_->BeginLaunch(launch.number, options_.checks ? request.note.get() : nullptr);
  const std::clock_t begin = std::clock();
  record.instructions += Execute(launch, record.counters);
  record.seconds += static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const GlobalMemory::Traffic traffic = memory_->EndLaunch(options_.counters);
  record.bytes_read = traffic.read < 0 ? -1 : record.bytes_read + traffic.read;
  record.bytes_written = traffic.written < 0 ? -1 : record.bytes_written + traffic.written;
  ++record.launches;
  return absl::OkStatus();
}

}  // namespace duotone::emulator
