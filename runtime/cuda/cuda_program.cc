#include "runtime/cuda/cuda_program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/integer.h"
#include "base/status.h"
#include "runtime/state_store.h"

namespace duotone::runtime {
namespace {

// Outputs of up to this size come to the host with every run: losses, counters, flags.
constexpr int64_t kMirrorBytes = 64;

// What a launch is called in messages.
std::string LaunchText(const KernelLaunch& launch) {
  return absl::StrFormat("the %s kernel of %%%s", launch.family, launch.node);
}

// "sm_86" runs the code of "sm_80", and "sm_103" that of "sm_100": the same major version and no
// newer minor one, which is the last digit.
bool RunsMachineCode(std::string_view device, std::string_view code) {
  return !device.empty() && device.size() == code.size() &&
         device.substr(0, device.size() - 1) == code.substr(0, code.size() - 1) &&
         device.back() >= code.back();
}

}  // namespace

absl::Status CheckCudaProgram(const Program& program, std::string_view device) {
  for (const Step& step : program.steps) {
    if (std::holds_alternative<HostCall>(step.action) ||
        std::holds_alternative<MatMul>(step.action) || step.guard >= 0) {
      return InvalidArgument("%s: program @%s is made for the CPU", device, program.name);
    }
    const auto* launch = std::get_if<KernelLaunch>(&step.action);
    if (launch == nullptr) continue;
    const Kernel& kernel = program.kernels[launch->kernel];
    if (kernel.cubin.empty() && kernel.ptx.empty()) {
      return FailedPrecondition("%s: %s in program @%s has not been compiled", device,
                                LaunchText(*launch), program.name);
    }
  }
  return absl::OkStatus();
}

CudaProgram::~CudaProgram() {
  std::unique_lock<std::mutex> lock;
  if (on_destroy_) lock = on_destroy_();
  // A failure here has been reported by the run that caused it.
  if (!context_->Enter().ok()) return;
  context_->Wait().IgnoreError();
  const Driver& driver = context_->driver();
  if (graph_ != nullptr) driver.GraphExecDestroy(graph_);
  for (const LoadedKernel& kernel : kernels_) {
    if (kernel.module != nullptr) driver.ModuleUnload(kernel.module);
  }
  for (auto [address, bytes] : patterns_) context_->Free(address, bytes);
  context_->Free(fixed_, fixed_bytes_);
  context_->Free(arena_, program_->arena_bytes);
  context_->FreePinned(pinned_);
}

absl::Status CudaProgram::Prepare(StateStore& state,
                                  const std::function<void(const std::string&)>& log) {
  DUOTONE_RETURN_IF_ERROR(LoadKernels());
  DUOTONE_RETURN_IF_ERROR(AllocateArena(log));
  DUOTONE_RETURN_IF_ERROR(Locate(state));
  DUOTONE_RETURN_IF_ERROR(PlanFills());
  DUOTONE_RETURN_IF_ERROR(FillConstants());
  DUOTONE_RETURN_IF_ERROR(BindArguments());
  return PlanMirrors();
}

// ---- Loading

absl::Status CudaProgram::LoadKernels() {
  kernels_.resize(program_->kernels.size());
  for (const Step& step : program_->steps) {
    const auto* launch = std::get_if<KernelLaunch>(&step.action);
    if (launch == nullptr) continue;
    LoadedKernel& loaded = kernels_[launch->kernel];
    if (loaded.function == nullptr) {
      DUOTONE_RETURN_IF_ERROR(LoadKernel(program_->kernels[launch->kernel], loaded))
          .With("%s: loading %s", context_->name(), LaunchText(*launch));
    }
    DUOTONE_RETURN_IF_ERROR(CheckLaunch(*launch)).With("%s", context_->name());
  }
  return absl::OkStatus();
}

// Machine code for this device, else the PTX that came out of the same compilation, which the
// driver translates.
absl::Status CudaProgram::LoadKernel(const Kernel& kernel, LoadedKernel& loaded) {
  const Driver& driver = context_->driver();
  const bool fits =
      !kernel.cubin.empty() && RunsMachineCode(context_->architecture(), kernel.architecture);
  absl::StatusOr<CuModule> module = FailedPrecondition(
      "it is compiled for %s, not for %s", kernel.architecture, context_->architecture());
  if (fits) module = LoadModule(driver, kernel.cubin, "the machine code");
  if (!module.ok() && !kernel.ptx.empty()) {
    absl::StatusOr<CuModule> from_ptx = LoadModule(driver, kernel.ptx, "the PTX");
    if (!from_ptx.ok() && fits) {
      return absl::Status(from_ptx.status().code(),
                          absl::StrCat(std::string(module.status().message()), "; ",
                                       std::string(from_ptx.status().message())));
    }
    module = std::move(from_ptx);
  }
  if (!module.ok()) return module.status();
  loaded.module = *module;
  return driver.Check(
      driver.ModuleGetFunction(&loaded.function, loaded.module, kernel.name.c_str()),
      "looking for the entry point '%s'", kernel.name);
}

absl::Status CudaProgram::CheckLaunch(const KernelLaunch& launch) const {
  const Driver& driver = context_->driver();
  CuFunction function = kernels_[launch.kernel].function;
  int fixed_shared = 0, threads = 0;
  DUOTONE_RETURN_IF_ERROR(
      driver.Check(driver.FuncGetAttribute(&fixed_shared, kCuFunctionSharedSizeBytes, function),
                   "asking for the shared memory of %s", LaunchText(launch)));
  DUOTONE_RETURN_IF_ERROR(
      driver.Check(driver.FuncGetAttribute(&threads, kCuFunctionMaxThreadsPerBlock, function),
                   "asking for the threads of %s", LaunchText(launch)));
  const int64_t wanted = launch.block[0] * launch.block[1] * launch.block[2];
  if (wanted > threads) {
    return FailedPrecondition("%s needs %d threads in a block; this device runs it with %d",
                              LaunchText(launch), wanted, threads);
  }
  const int64_t shared = fixed_shared + launch.shared_bytes;
  if (shared > context_->max_shared_bytes()) {
    return FailedPrecondition("%s needs %d bytes of shared memory; %s (%s) gives a block %d",
                              LaunchText(launch), shared, context_->model(),
                              context_->architecture(), context_->max_shared_bytes());
  }
  if (shared <= kPlainSharedBytes) return absl::OkStatus();
  // Launches of one kernel may differ: the largest counts.
  int allowed = 0;
  DUOTONE_RETURN_IF_ERROR(driver.Check(
      driver.FuncGetAttribute(&allowed, kCuFunctionMaxDynamicSharedSizeBytes, function),
      "asking for the shared memory of %s", LaunchText(launch)));
  if (launch.shared_bytes <= allowed) return absl::OkStatus();
  return driver.Check(driver.FuncSetAttribute(function, kCuFunctionMaxDynamicSharedSizeBytes,
                                              static_cast<int>(launch.shared_bytes)),
                      "asking for %d bytes of shared memory for %s", launch.shared_bytes,
                      LaunchText(launch));
}

absl::Status CudaProgram::AllocateArena(const std::function<void(const std::string&)>& log) {
  DUOTONE_ASSIGN_OR_RETURN(const CudaContext::Memory memory, context_->QueryMemory());
  if (log) {
    log(absl::StrFormat(
        "%s (%s): program @%s needs %s for buffers beside %s of state; %s of %s "
        "are free",
        context_->name(), context_->model(), program_->name, MemoryText(program_->arena_bytes),
        MemoryText(program_->state_bytes), MemoryText(memory.free), MemoryText(memory.total)));
  }
  const std::string what = absl::StrFormat("the buffers of program @%s", program_->name);
  if (program_->arena_bytes > memory.free) {
    return context_->OutOfMemory(program_->arena_bytes, what);
  }
  DUOTONE_ASSIGN_OR_RETURN(arena_, context_->Allocate(program_->arena_bytes, what));
  return absl::OkStatus();
}

absl::Status CudaProgram::Locate(StateStore& state) {
  addresses_.resize(program_->buffers.size());
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const Buffer& buffer = program_->buffers[i];
    if (buffer.kind != BufferKind::kState) {
      addresses_[i] = arena_ + static_cast<CuDeviceAddress>(buffer.offset);
    }
  }
  for (const NamedBuffer& named : program_->state) {
    DUOTONE_ASSIGN_OR_RETURN(const StateStore::Entry* entry, state.EntryFor(*program_, named));
    addresses_[named.buffer] = reinterpret_cast<CuDeviceAddress>(entry->memory.address);
  }
  for (size_t i = 0; i < addresses_.size(); ++i) {
    addresses_[i] = addresses_[program_->RootOf(static_cast<int>(i))];
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::FillConstants() {
  for (const Constant& constant : program_->constants) {
    const int64_t bytes = program_->buffers[constant.buffer].bytes;
    const CuDeviceAddress to = addresses_[constant.buffer];
    if (static_cast<int64_t>(constant.bytes.size()) == bytes) {
      DUOTONE_RETURN_IF_ERROR(context_->Upload(to, constant.bytes.data(), bytes));
    } else if (CudaContext::CanFill(constant.bytes)) {
      DUOTONE_RETURN_IF_ERROR(context_->Fill(to, constant.bytes, bytes));
    } else {
      DUOTONE_RETURN_IF_ERROR(UploadRepeated(to, constant.bytes, bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::UploadRepeated(CuDeviceAddress to, const std::vector<uint8_t>& element,
                                         int64_t bytes) {
  std::vector<uint8_t> all;
  all.reserve(static_cast<size_t>(bytes));
  while (static_cast<int64_t>(all.size()) < bytes) {
    all.insert(all.end(), element.begin(), element.end());
  }
  return context_->Upload(to, all.data(), bytes);
}

// Fills that the driver has no function for copy a pattern that is made once.
absl::Status CudaProgram::PlanFills() {
  patterns_.resize(program_->steps.size());
  for (size_t i = 0; i < patterns_.size(); ++i) {
    const auto* fill = std::get_if<Fill>(&program_->steps[i].action);
    if (fill == nullptr || CudaContext::CanFill(fill->element)) continue;
    const int64_t bytes = program_->buffers[fill->to].bytes;
    DUOTONE_ASSIGN_OR_RETURN(patterns_[i].first,
                             context_->Allocate(bytes, "the pattern of a fill"));
    patterns_[i].second = bytes;
    DUOTONE_RETURN_IF_ERROR(UploadRepeated(patterns_[i].first, fill->element, bytes));
  }
  return absl::OkStatus();
}

// Lays out what belongs to no buffer (random state, error record, tables of addresses) and makes
// the parameters of all launches.
absl::Status CudaProgram::BindArguments() {
  const int64_t errors_at = RoundUp(sizeof(RandomState), kBufferAlignment);
  const int64_t tables_at = errors_at + RoundUp(sizeof(ErrorRecord), kBufferAlignment);
  std::vector<uint64_t> tables;
  const auto for_each_table = [&](auto&& visit) {
    for (const Step& step : program_->steps) {
      const auto* launch = std::get_if<KernelLaunch>(&step.action);
      if (launch == nullptr) continue;
      for (const LaunchArgument& argument : launch->arguments) {
        if (argument.kind == LaunchArgument::Kind::kTable) visit(argument);
      }
    }
  };
  for_each_table([&](const LaunchArgument& argument) {
    for (const BufferAddress& place : argument.table) tables.push_back(AddressOf(place));
  });
  const int64_t table_bytes = static_cast<int64_t>(tables.size() * sizeof(uint64_t));
  fixed_bytes_ = tables_at + table_bytes;
  DUOTONE_ASSIGN_OR_RETURN(
      fixed_, context_->Allocate(fixed_bytes_,
                                 absl::StrFormat("the tables of program @%s", program_->name)));
  random_ = fixed_;
  errors_ = fixed_ + static_cast<CuDeviceAddress>(errors_at);
  CuDeviceAddress table = fixed_ + static_cast<CuDeviceAddress>(tables_at);
  DUOTONE_RETURN_IF_ERROR(context_->Upload(table, tables.data(), table_bytes));

  values_.resize(program_->steps.size());
  parameters_.resize(program_->steps.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    const auto* launch = std::get_if<KernelLaunch>(&program_->steps[i].action);
    if (launch == nullptr) continue;
    for (const LaunchArgument& argument : launch->arguments) {
      values_[i].push_back(ValueOf(argument, table));
    }
    for (uint64_t& value : values_[i]) parameters_[i].push_back(&value);
  }
  if (context_->driver().NoteNextLaunch) {
    notes_ = MakeLaunchNotes(program_, {addresses_, random_, errors_, values_});
  }
  return absl::OkStatus();
}

uint64_t CudaProgram::ValueOf(const LaunchArgument& argument, CuDeviceAddress& next_table) {
  switch (argument.kind) {
    case LaunchArgument::Kind::kBuffer:
      return AddressOf(argument.address);
    case LaunchArgument::Kind::kTable: {
      const CuDeviceAddress table = next_table;
      next_table += argument.table.size() * sizeof(uint64_t);
      return table;
    }
    case LaunchArgument::Kind::kRandom:
      uses_random_ = true;
      return random_;
    case LaunchArgument::Kind::kErrors:
      uses_errors_ = true;
      return errors_;
    case LaunchArgument::Kind::kInt:
      // The driver reads the first four of the eight bytes.
      return static_cast<uint64_t>(argument.value);
  }
  return 0;
}

// Small outputs that lie close to each other in the arena come in one copy.
absl::Status CudaProgram::PlanMirrors() {
  for (const NamedBuffer& output : program_->outputs) {
    const Buffer& buffer = program_->buffers[output.buffer];
    if (buffer.kind != BufferKind::kOutput || buffer.bytes > kMirrorBytes || buffer.bytes == 0) {
      continue;
    }
    mirrors_.push_back({addresses_[output.buffer], buffer.bytes});
  }
  const auto by_address = [](const Mirror& a, const Mirror& b) { return a.from < b.from; };
  std::sort(mirrors_.begin(), mirrors_.end(), by_address);
  for (const Mirror& mirror : mirrors_) {
    const CuDeviceAddress end = mirror.from + static_cast<CuDeviceAddress>(mirror.bytes);
    const bool joins =
        !mirrored_.empty() &&
        mirror.from < mirrored_.back().from + mirrored_.back().bytes + 2 * kBufferAlignment;
    if (!joins) mirrored_.push_back({mirror.from, 0});
    mirrored_.back().bytes =
        std::max(mirrored_.back().bytes, static_cast<int64_t>(end - mirrored_.back().from));
  }
  int64_t bytes = sizeof(ErrorRecord);
  for (const Mirror& range : mirrored_) bytes += RoundUp(range.bytes, 8);
  DUOTONE_ASSIGN_OR_RETURN(pinned_, context_->AllocatePinned(bytes));
  std::memset(pinned_, 0, static_cast<size_t>(bytes));
  char* next = static_cast<char*>(pinned_) + sizeof(ErrorRecord);
  for (Mirror& range : mirrored_) {
    range.host = next;
    next += RoundUp(range.bytes, 8);
    for (Mirror& mirror : mirrors_) {
      const CuDeviceAddress offset = mirror.from - range.from;
      if (mirror.from >= range.from && static_cast<int64_t>(offset) < range.bytes) {
        mirror.host = range.host + offset;
      }
    }
  }
  return absl::OkStatus();
}

// ---- Running

absl::Status CudaProgram::SetRandom(const RunOptions& options) {
  if (!uses_random_) return absl::OkStatus();
  RandomState wanted{options.seed, options.step, options.micro_batch};
  // The state's position is copied on the device instead.
  if (program_->rng_position >= 0) wanted.step = 0;
  if (random_is_set_ && wanted.seed == random_value_.seed && wanted.step == random_value_.step &&
      wanted.micro_batch == random_value_.micro_batch) {
    return absl::OkStatus();
  }
  DUOTONE_RETURN_IF_ERROR(context_->Upload(random_, &wanted, sizeof(wanted)));
  random_value_ = wanted;
  random_is_set_ = true;
  return absl::OkStatus();
}

absl::Status CudaProgram::Run(const RunOptions& options) {
  DUOTONE_RETURN_IF_ERROR(SetRandom(options));
  const Driver& driver = context_->driver();
  if (use_graphs_ && graph_ == nullptr) {
    DUOTONE_RETURN_IF_ERROR(Record());
  }
  if (graph_ != nullptr) {
    DUOTONE_RETURN_IF_ERROR(driver.Check(driver.GraphLaunch(graph_, context_->stream()),
                                         "%s: launching the graph of program @%s", context_->name(),
                                         program_->name));
  } else {
    DUOTONE_RETURN_IF_ERROR(Enqueue());
  }
  for (Mirror& mirror : mirrors_) mirror.valid = true;
  return absl::OkStatus();
}

absl::Status CudaProgram::Record() {
  const Driver& driver = context_->driver();
  const auto check = [&](CuResult result, const char* doing) {
    return driver.Check(result, "%s: %s the graph of program @%s", context_->name(), doing,
                        program_->name);
  };
  DUOTONE_RETURN_IF_ERROR(check(
      driver.StreamBeginCapture(context_->stream(), kCuStreamCaptureModeThreadLocal), "beginning"));
  const absl::Status enqueued = Enqueue();
  CuGraph graph = nullptr;
  const CuResult ended = driver.StreamEndCapture(context_->stream(), &graph);
  absl::Status status = enqueued.ok() ? check(ended, "recording") : enqueued;
  if (status.ok()) status = check(driver.GraphInstantiateWithFlags(&graph_, graph, 0), "making");
  if (graph != nullptr) driver.GraphDestroy(graph);
  return status;
}

absl::Status CudaProgram::Enqueue() {
  const Driver& driver = context_->driver();
  CuStream stream = context_->stream();
  if (uses_random_ && program_->rng_position >= 0) {
    DUOTONE_RETURN_IF_ERROR(driver.Check(
        driver.MemcpyDtoDAsync(random_ + offsetof(RandomState, step),
                               addresses_[program_->rng_position], sizeof(int64_t), stream),
        "%s: copying the random position", context_->name()));
  }
  for (size_t i = 0; i < program_->steps.size(); ++i) {
    DUOTONE_RETURN_IF_ERROR(std::visit([&](const auto& action) { return EnqueueAction(i, action); },
                                       program_->steps[i].action))
        .With("%s: step %d of program @%s", context_->name(), i, program_->name);
  }
  const auto bring = [&](void* to, CuDeviceAddress from, int64_t bytes) {
    return driver.Check(driver.MemcpyDtoHAsync(to, from, static_cast<size_t>(bytes), stream),
                        "%s: bringing results of program @%s", context_->name(), program_->name);
  };
  if (uses_errors_) {
    DUOTONE_RETURN_IF_ERROR(bring(pinned_, errors_, sizeof(ErrorRecord)));
  }
  for (const Mirror& range : mirrored_) {
    DUOTONE_RETURN_IF_ERROR(bring(range.host, range.from, range.bytes));
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::EnqueueAction(size_t step, const KernelLaunch& launch) {
  const Driver& driver = context_->driver();
  const auto size = [](int64_t value) { return static_cast<unsigned>(value); };
  if (!notes_.empty()) {
    DUOTONE_RETURN_IF_ERROR(
        driver.Check(driver.NoteNextLaunch(notes_[step]), "announcing %s", LaunchText(launch)));
  }
  return driver.Check(
      driver.LaunchKernel(kernels_[launch.kernel].function, size(launch.grid[0]),
                          size(launch.grid[1]), size(launch.grid[2]), size(launch.block[0]),
                          size(launch.block[1]), size(launch.block[2]), size(launch.shared_bytes),
                          context_->stream(), parameters_[step].data(), nullptr),
      "launching %s", LaunchText(launch));
}

absl::Status CudaProgram::EnqueueAction(size_t, const Copy& copy) {
  const int64_t bytes = program_->buffers[copy.to].bytes;
  if (bytes == 0 || addresses_[copy.to] == addresses_[copy.from]) return absl::OkStatus();
  const Driver& driver = context_->driver();
  return driver.Check(driver.MemcpyDtoDAsync(addresses_[copy.to], addresses_[copy.from],
                                             static_cast<size_t>(bytes), context_->stream()),
                      "copying %%%s to %%%s", program_->buffers[copy.from].name,
                      program_->buffers[copy.to].name);
}

absl::Status CudaProgram::EnqueueAction(size_t step, const Fill& fill) {
  const int64_t bytes = program_->buffers[fill.to].bytes;
  if (patterns_[step].first == 0) {
    return context_->Fill(addresses_[fill.to], fill.element, bytes);
  }
  const Driver& driver = context_->driver();
  return driver.Check(driver.MemcpyDtoDAsync(addresses_[fill.to], patterns_[step].first,
                                             static_cast<size_t>(bytes), context_->stream()),
                      "filling %%%s", program_->buffers[fill.to].name);
}

// CheckCudaProgram refuses such programs.
absl::Status CudaProgram::NotRunHere() const {
  return Internal("program @%s is made for the CPU", program_->name);
}

// ---- Results

absl::Status CudaProgram::TakeError() {
  if (pinned_ == nullptr) return absl::OkStatus();
  ErrorRecord record;
  std::memcpy(&record, pinned_, sizeof(record));
  if (record.claimed == 0) return absl::OkStatus();
  std::memset(pinned_, 0, sizeof(record));
  const uint8_t zero = 0;
  DUOTONE_RETURN_IF_ERROR(context_->Fill(errors_, {&zero, 1}, sizeof(record)));

  const KernelLaunch* launch = nullptr;
  if (record.step >= 0 && static_cast<size_t>(record.step) < program_->steps.size()) {
    launch = std::get_if<KernelLaunch>(&program_->steps[record.step].action);
  }
  if (launch == nullptr || record.label < 1 ||
      static_cast<size_t>(record.label) > launch->labels.size()) {
    return Internal("program @%s: a kernel reports an error at step %d, label %d, which is none",
                    program_->name, record.step, record.label);
  }
  // "gather (gpt.cc:75, node %tok)"
  const std::string& label = launch->labels[record.label - 1];
  const size_t op_end = std::min(label.find(' '), label.size());
  return InvalidArgument("%s: index %d is outside [0, %d)%s", label.substr(0, op_end), record.value,
                         record.limit, label.substr(op_end));
}

bool CudaProgram::ReadMirror(const DeviceMemory& memory, void* to) const {
  const auto address = reinterpret_cast<CuDeviceAddress>(memory.address);
  for (const Mirror& mirror : mirrors_) {
    if (mirror.from != address || mirror.bytes != memory.bytes || !mirror.valid) continue;
    std::memcpy(to, mirror.host, static_cast<size_t>(memory.bytes));
    return true;
  }
  return false;
}

void CudaProgram::DropMirror(const DeviceMemory& memory) {
  const auto address = reinterpret_cast<CuDeviceAddress>(memory.address);
  for (Mirror& mirror : mirrors_) mirror.valid = mirror.valid && mirror.from != address;
}

}  // namespace duotone::runtime
