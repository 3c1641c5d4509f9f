#include "runtime/emulator/emulated_gpu.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "runtime/emulator/attributes.h"

namespace duotone::emulator {
namespace {

using namespace runtime;  // NOLINT: the driver's names

constexpr std::string_view kElf =
    "\x7f"
    "ELF";
constexpr std::string_view kFatbin = "\x50\xed\x55\xba";

// What a real GPU would give for a launch with such a problem.
CuResult ResultOf(ProblemKind kind) {
  switch (kind) {
    case ProblemKind::kOutOfBounds:
    case ProblemKind::kFreedMemory:
      return kCuIllegalAddress;
    case ProblemKind::kMisaligned:
      return kCuMisalignedAddress;
    case ProblemKind::kBudget:
    case ProblemKind::kDeadlock:
      return kCuLaunchTimeout;
    default:
      return kCuLaunchFailed;
  }
}

using ProblemCounts = std::map<std::tuple<std::string, std::string, int, ProblemKind>, int64_t>;

ProblemCounts CountErrors(const ProblemLog& log) {
  ProblemCounts counts;
  if (!log.has_errors()) return counts;
  for (const Problem& problem : log.problems()) {
    counts[{problem.kernel, problem.node, problem.line, problem.kind}] = problem.count;
  }
  return counts;
}

// The errors that are in the log now and were not before.
std::vector<Problem> NewErrors(const ProblemLog& log, const ProblemCounts& before) {
  std::vector<Problem> errors;
  if (!log.has_errors()) return errors;
  for (Problem& problem : log.problems()) {
    if (IsWarning(problem.kind)) continue;
    auto it = before.find({problem.kernel, problem.node, problem.line, problem.kind});
    if (it == before.end() || it->second < problem.count) errors.push_back(std::move(problem));
  }
  return errors;
}

std::string ProblemsText(const std::vector<Problem>& problems) {
  constexpr size_t kShown = 3;
  std::string text =
      absl::StrFormat("%d problem%s: ", problems.size(), problems.size() == 1 ? "" : "s");
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "; ", problems[i].ToString());
  }
  if (problems.size() > kShown) absl::StrAppend(&text, "; ...");
  return text;
}

}  // namespace

thread_local CuContext Gpu::current_context_ = nullptr;
thread_local Gpu::LatestError Gpu::latest_error_;

// The end of the context: everything in it goes.
void Gpu::Reset() {
  streams_.Clear();
  events_.Clear();
  for (const auto& [handle, module] : modules_.all()) machine_.Unload(module->loaded);
  modules_.Clear();
  functions_.Clear();
  graphs_.Clear();
  executable_graphs_.Clear();
  for (CuDeviceAddress address : memory_) machine_.memory().Free(address).IgnoreError();
  memory_.clear();
  pinned_.clear();
  notes_.clear();
  broken_ = kCuSuccess;
  broken_text_.clear();
}

// ---- Memory

CuResult Gpu::Allocate(CuDeviceAddress* address, size_t bytes) {
  if (bytes == 0) return Fail(kCuInvalidValue, "an allocation of 0 bytes");
  const absl::StatusOr<uint64_t> allocated =
      machine_.memory().Allocate(static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX)),
                                 absl::StrFormat("allocation %d", ++allocations_));
  if (!allocated.ok()) return Fail(kCuOutOfMemory, allocated.status());
  *address = *allocated;
  memory_.insert(*address);
  return kCuSuccess;
}

// Does not wait for work that uses the memory, though drivers do today: nothing promises it.
CuResult Gpu::Free(CuDeviceAddress address) {
  if (memory_.erase(address) == 0) {
    return Fail(kCuInvalidValue, absl::StrFormat("0x%x is not an allocation", address));
  }
  const absl::Status freed = machine_.memory().Free(address);
  return freed.ok() ? kCuSuccess : Fail(kCuInvalidValue, freed);
}

bool Gpu::IsPinned(const void* address, size_t bytes) const {
  const char* wanted = static_cast<const char*>(address);
  return std::any_of(pinned_.begin(), pinned_.end(), [&](const auto& block) {
    const size_t size = block.second.size();
    return wanted >= block.first && wanted <= block.first + size &&
           bytes <= size - static_cast<size_t>(wanted - block.first);
  });
}

// Host memory that is not pinned is read before the call returns.
CuResult Gpu::CopyToDevice(CuDeviceAddress to, const void* from, size_t bytes, CuStream handle) {
  return On(handle, [&](std::shared_ptr<Stream> stream) -> CuResult {
    if (IsPinned(from, bytes)) {
      return streams_.Enqueue(stream, [=, this] {
        if (!IsPinned(from, bytes)) {
          return Break(kCuIllegalAddress, "a copy reads pinned host memory that has been freed");
        }
        return Moved(machine_.memory().Write(to, from, static_cast<int64_t>(bytes)));
      });
    }
    if (stream != nullptr && stream->capture != nullptr) {
      return Fail(kCuStreamCaptureUnsupported, "a recorded copy from host memory is not pinned");
    }
    std::vector<char> staged(bytes);
    std::memcpy(staged.data(), from, bytes);
    return streams_.Enqueue(stream, [this, to, staged = std::move(staged)] {
      return Moved(machine_.memory().Write(to, staged.data(), static_cast<int64_t>(staged.size())));
    });
  });
}

// Host memory that is not pinned is written before the call returns.
CuResult Gpu::CopyToHost(void* to, CuDeviceAddress from, size_t bytes, CuStream handle) {
  return On(handle, [&](std::shared_ptr<Stream> stream) -> CuResult {
    const bool pinned = IsPinned(to, bytes);
    if (!pinned && stream != nullptr && stream->capture != nullptr) {
      return Fail(kCuStreamCaptureUnsupported, "a recorded copy to host memory is not pinned");
    }
    const CuResult queued = streams_.Enqueue(stream, [=, this] {
      if (pinned && !IsPinned(to, bytes)) {
        return Break(kCuIllegalAddress, "a copy writes pinned host memory that has been freed");
      }
      return Moved(machine_.memory().Read(to, from, static_cast<int64_t>(bytes)));
    });
    if (queued != kCuSuccess || pinned || stream == nullptr) return queued;
    return streams_.Run(stream);
  });
}

CuResult Gpu::Set(CuDeviceAddress to, uint32_t value, int element_bytes, size_t count,
                  CuStream handle) {
  return On(handle, [&](std::shared_ptr<Stream> stream) -> CuResult {
    if (to % static_cast<unsigned>(element_bytes) != 0) {
      return Fail(kCuInvalidValue,
                  absl::StrFormat("elements of %d bytes at 0x%x", element_bytes, to));
    }
    return streams_.Enqueue(stream, [=, this] {
      return Moved(machine_.memory().Fill(to, value, element_bytes, static_cast<int64_t>(count)));
    });
  });
}

// ---- Modules

// All kernels are translated here, so that what the emulator does not know is an error of loading.
CuResult Gpu::Load(CuModule* result, const char* image, std::string& log) {
  if (image == nullptr) return kCuInvalidValue;
  for (std::string_view binary : {kElf, kFatbin}) {
    if (std::strncmp(image, binary.data(), binary.size()) == 0) {
      return Fail(kCuNoBinaryForGpu, "an emulated device runs PTX, not machine code");
    }
  }
  absl::StatusOr<LoadedModule*> loaded = machine_.Load(image);
  absl::Status status = loaded.status();
  auto module = std::make_shared<Module>();
  for (size_t i = 0; status.ok() && i < (*loaded)->ptx.functions.size(); ++i) {
    const PtxFunction& entry = (*loaded)->ptx.functions[i];
    if (!entry.is_entry || entry.is_declaration) continue;
    const absl::StatusOr<const Executable*> kernel = machine_.Find(**loaded, entry.name);
    status = kernel.status();
    if (!status.ok()) continue;
    module->functions[entry.name] = std::make_shared<Function>(Function{
        .module = *loaded,
        .kernel = *kernel,
        .shared_limit = std::max<int64_t>(0, kPlainSharedBytes - (*kernel)->static_shared_bytes)});
  }
  if (!status.ok()) {
    log = std::string(status.message());
    if (loaded.ok()) machine_.Unload(*loaded);
    if (absl::IsResourceExhausted(status)) return Fail(kCuOutOfMemory, status);
    return Fail(kCuInvalidPtx, "a PTX JIT compilation failed");
  }
  module->loaded = *loaded;
  *result = reinterpret_cast<CuModule>(modules_.Add(std::move(module)));
  return kCuSuccess;
}

// As the driver does, it waits for launches.
CuResult Gpu::Unload(const std::shared_ptr<Module>& module) {
  const CuResult finished = streams_.RunAll();
  for (const auto& [name, function] : module->functions) {
    function->unloaded = true;
    functions_.Remove(function.get());
  }
  machine_.Unload(module->loaded);
  modules_.Remove(module.get());
  return finished;
}

CuResult Gpu::Find(CuFunction* result, Module& module, const char* name) {
  auto it = module.functions.find(name);
  if (it == module.functions.end()) {
    return Fail(kCuNotFound, machine_.Find(*module.loaded, name).status());
  }
  *result = reinterpret_cast<CuFunction>(functions_.Add(it->second));
  return kCuSuccess;
}

CuResult Gpu::Attribute(int* value, int attribute, const Function& function) const {
  const Executable& kernel = *function.kernel;
  switch (attribute) {
    case kCuFunctionMaxThreadsPerBlock:
      *value = std::min(kernel.max_threads, machine_.target().max_block_threads);
      return kCuSuccess;
    case kCuFunctionSharedSizeBytes:
      *value = static_cast<int>(kernel.static_shared_bytes);
      return kCuSuccess;
    case kCuFunctionLocalSizeBytes:
      *value = static_cast<int>(kernel.local_bytes);
      return kCuSuccess;
    case kCuFunctionNumRegs:
      *value = EstimateRegisters(kernel, machine_.target());
      return kCuSuccess;
    case kCuFunctionMaxDynamicSharedSizeBytes:
      *value = static_cast<int>(function.shared_limit);
      return kCuSuccess;
    default:
      return kCuInvalidValue;
  }
}

CuResult Gpu::Occupancy(int* blocks, const Function& function, int block_threads,
                        size_t shared_bytes) const {
  if (block_threads < 1) return kCuInvalidValue;
  *blocks = ComputeOccupancy(machine_.target(),
                             {.registers = EstimateRegisters(*function.kernel, machine_.target()),
                              .block_threads = block_threads,
                              .shared_bytes = function.kernel->static_shared_bytes +
                                              static_cast<int64_t>(shared_bytes)})
                .blocks;
  return kCuSuccess;
}

// ---- Launches

CuResult Gpu::Launch(const std::shared_ptr<Function>& function, LaunchRequest request,
                     const std::shared_ptr<Stream>& stream, void** parameters) {
  const Executable& kernel = *function->kernel;
  request.module = function->module;
  request.kernel = &kernel;
  if (auto note = notes_.extract(std::this_thread::get_id())) {
    request.note = std::move(note.mapped());
  }
  request.parameters.resize(static_cast<size_t>(kernel.parameter_bytes));
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (parameters == nullptr || parameters[i] == nullptr) {
      return Fail(kCuInvalidValue, absl::StrFormat("kernel %s: parameter %d of %d is not given",
                                                   kernel.name, i, kernel.parameters.size()));
    }
    std::memcpy(request.parameters.data() + kernel.parameters[i].offset, parameters[i],
                static_cast<size_t>(kernel.parameters[i].bytes));
  }
  if (const absl::Status fits = machine_.Check(request); !fits.ok()) {
    return Fail(kCuInvalidValue, fits);
  }
  if (request.shared_bytes > function->shared_limit) {
    return Fail(kCuInvalidValue,
                absl::StrFormat("kernel %s: %d bytes of dynamic shared memory; without the "
                                "function's attribute for more it may have %d",
                                kernel.name, request.shared_bytes, function->shared_limit));
  }
  return streams_.Enqueue(stream, [this, function, request = std::move(request)] {
    return RunLaunch(*function, request);
  });
}

CuResult Gpu::RunLaunch(const Function& function, const LaunchRequest& request) {
  if (function.unloaded) {
    return Break(kCuInvalidHandle, "a graph launches a kernel whose module has been unloaded");
  }
  const ProblemCounts before = CountErrors(machine_.problems());
  const absl::Status run = machine_.Run(request);
  if (!run.ok()) return Break(kCuLaunchFailed, std::string(run.message()));
  const std::vector<Problem> errors = NewErrors(machine_.problems(), before);
  if (errors.empty()) return kCuSuccess;
  return Break(ResultOf(errors.front().kind), ProblemsText(errors));
}

}  // namespace duotone::emulator
