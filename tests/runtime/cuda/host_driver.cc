#include "tests/runtime/cuda/host_driver.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "tests/codegen/cuda/guarded_buffer.h"
#include "tests/codegen/cuda/host_kernel.h"

namespace duotone::runtime {

// What the opaque handles of the table are here.
struct CuContextImpl {};
struct CuFunctionImpl {
  std::shared_ptr<const codegen::cuda::HostKernel> kernel;
  int dynamic_shared = 48 << 10;
};
struct CuModuleImpl {
  CuFunctionImpl function;
};
struct CuGraphImpl {
  std::vector<std::function<CuResult()>> work;
};
struct CuGraphExecImpl {
  std::vector<std::function<CuResult()>> work;
};
struct CuEventImpl {
  int64_t recorded = 0;  // how many times it was recorded, and how many of these have been reached
  int64_t reached = 0;
  CuStream stream = nullptr;  // of the latest recording
};
struct CuStreamImpl {
  std::deque<std::function<CuResult()>> work;
  CuGraph capture = nullptr;
};

namespace {

using codegen::cuda::GuardedBuffer;
using CompiledText = codegen::cuda::HostKernel;

constexpr std::string_view kImagePrefix = "host kernel ";
constexpr CuResult kInvalidContext = 201;
constexpr CuResult kLaunchFailed = 719;
constexpr unsigned char kFreed = 0xdd;

thread_local CuContext current_context = nullptr;

}  // namespace

struct HostGpu::Implementation {
  explicit Implementation(const HostGpuOptions& o) : options(o) {}
  // A device that answers no calls any more gets nothing back.
  ~Implementation() {
    for (CuStream stream : streams) delete stream;
  }

  // ---- What every call goes through.

  template <typename F>
  CuResult Call(const char* function, F&& body) {
    const int count = ++calls[function];
    if (sticky != kCuSuccess) return sticky;
    auto failure = failures.find(function);
    if (failure != failures.end() && failure->second.first == count) {
      const CuResult result = failure->second.second;
      failures.erase(failure);
      if (result == kCuIllegalAddress || result == kLaunchFailed) sticky = result;
      return result;
    }
    return body();
  }
  // The same for functions that need a current context.
  template <typename F>
  CuResult Inside(const char* function, F&& body) {
    return Call(function, [&]() -> CuResult {
      if (current_context != &context) {
        Complain(absl::StrCat(function, " without a context"));
        return kInvalidContext;
      }
      return body();
    });
  }
  void Complain(std::string problem) { problems.push_back(std::move(problem)); }

  // ---- Memory.

  CuResult Allocate(CuDeviceAddress* address, size_t bytes) {
    const int64_t size = static_cast<int64_t>(bytes);
    if (size == 0) return kCuInvalidValue;
    if (used + size > options.memory) return kCuOutOfMemory;
    auto buffer = std::make_unique<GuardedBuffer>(size);
    *address = reinterpret_cast<CuDeviceAddress>(buffer->data());
    used += size;
    memory[*address] = std::move(buffer);
    return kCuSuccess;
  }
  // Like the driver's, it waits for all work first.
  CuResult Free(CuDeviceAddress address) {
    const CuResult finished = RunAll();
    auto it = memory.find(address);
    if (it == memory.end()) {
      Complain("memory is freed that is not allocated");
      return kCuInvalidValue;
    }
    CheckGuards(*it->second);
    used -= it->second->bytes();
    std::memset(it->second->data(), kFreed, static_cast<size_t>(it->second->bytes()));
    freed.push_back(std::move(it->second));
    memory.erase(it);
    return finished;
  }
  void CheckGuards(const GuardedBuffer& buffer) {
    if (!buffer.Intact()) {
      Complain(
          absl::StrFormat("memory beside an allocation of %d bytes is written", buffer.bytes()));
    }
  }
  // Whether all bytes belong to one allocation.
  bool IsDeviceMemory(CuDeviceAddress address, size_t bytes) {
    auto after = memory.upper_bound(address);
    if (after == memory.begin()) return false;
    const auto& [begin, buffer] = *std::prev(after);
    return address + bytes <= begin + static_cast<CuDeviceAddress>(buffer->bytes());
  }
  bool IsPinned(const void* address, size_t bytes) {
    const char* wanted = static_cast<const char*>(address);
    return std::any_of(pinned.begin(), pinned.end(), [&](const auto& block) {
      const char* begin = block.second.get();
      return wanted >= begin && wanted + bytes <= begin + pinned_bytes[block.first];
    });
  }
  CuResult Illegal(const char* what) {
    Complain(absl::StrCat(what, " outside the device's memory"));
    sticky = kCuIllegalAddress;
    return sticky;
  }

  // ---- Streams.

  CuResult Enqueue(CuStream stream, std::function<CuResult()> work) {
    if (stream == nullptr) {
      Complain("work on the default stream");
      return kCuInvalidHandle;
    }
    if (stream->capture != nullptr) {
      stream->capture->work.push_back(std::move(work));
    } else {
      stream->work.push_back(std::move(work));
    }
    return kCuSuccess;
  }
  // Runs a stream's work until `done` says so or none is left.
  CuResult RunStream(CuStream stream, const std::function<bool()>& done) {
    while (!stream->work.empty() && !done()) {
      const std::function<CuResult()> work = std::move(stream->work.front());
      stream->work.pop_front();
      const CuResult result = work();
      if (result != kCuSuccess) {
        sticky = result;
        return result;
      }
    }
    return sticky;
  }
  CuResult RunStream(CuStream stream) {
    return RunStream(stream, [] { return false; });
  }
  CuResult RunAll() {
    for (CuStream stream : streams) {
      if (const CuResult result = RunStream(stream); result != kCuSuccess) return result;
    }
    return kCuSuccess;
  }
  CuResult WaitFor(CuEvent event, int64_t recording) {
    if (event->reached >= recording) return kCuSuccess;
    return RunStream(event->stream, [=] { return event->reached >= recording; });
  }

  CuResult CopyAsync(void* to, const void* from, size_t bytes, bool to_device, bool from_device,
                     CuStream stream) {
    const auto inside = [=, this](const void* address, bool device) {
      return device ? IsDeviceMemory(reinterpret_cast<CuDeviceAddress>(address), bytes)
                    : IsPinned(address, bytes);
    };
    return Enqueue(stream, [=, this]() -> CuResult {
      if (!inside(to, to_device) || !inside(from, from_device)) return Illegal("a copy");
      std::memmove(to, from, bytes);
      return kCuSuccess;
    });
  }
  template <typename T>
  CuResult Set(CuDeviceAddress to, T value, size_t count, CuStream stream) {
    return Enqueue(stream, [=, this]() -> CuResult {
      if (!IsDeviceMemory(to, count * sizeof(T))) return Illegal("a fill");
      std::fill_n(reinterpret_cast<T*>(to), count, value);
      return kCuSuccess;
    });
  }

  CuResult Launch(CuFunction function, codegen::cuda::HostLaunch launch, CuStream stream,
                  void** parameters) {
    const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
    const bool is_grid =
        launch.grid[0] <= 0x7fffffff && launch.grid[1] <= 65535 && launch.grid[2] <= 65535;
    if (!is_grid || threads < 1 || threads > 1024 ||
        launch.shared_bytes > function->dynamic_shared) {
      return kCuInvalidValue;
    }
    launch.reverse = options.reverse;
    // Every parameter of ours has 8 bytes.
    std::vector<uint64_t> values(static_cast<size_t>(function->kernel->parameters()));
    for (size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], parameters[i], 8);
    return Enqueue(stream, [=, this, kernel = function->kernel]() mutable -> CuResult {
      std::vector<void*> arguments;
      for (uint64_t& value : values) arguments.push_back(&value);
      ++launches;
      const absl::Status status = kernel->Launch(launch, arguments.data());
      if (status.ok()) return kCuSuccess;
      Complain(std::string(status.message()));
      return kLaunchFailed;
    });
  }

  CuResult LoadImage(CuModule* module, const void* image) {
    const std::string_view text = static_cast<const char*>(image);
    if (!text.starts_with(kImagePrefix)) return kCuInvalidImage;
    auto kernel = CompiledText::Load(std::string(text.substr(kImagePrefix.size())));
    if (!kernel.ok()) return kCuInvalidImage;
    *module = new CuModuleImpl{{*std::move(kernel)}};
    ++modules;
    return kCuSuccess;
  }

  CuResult Attribute(int* value, int attribute) const {
    switch (attribute) {
      case kCuMaxThreadsPerBlock:
        *value = 1024;
        return kCuSuccess;
      case kCuMultiprocessorCount:
        *value = 4;
        return kCuSuccess;
      case kCuComputeCapabilityMajor:
        *value = options.compute / 10;
        return kCuSuccess;
      case kCuComputeCapabilityMinor:
        *value = options.compute % 10;
        return kCuSuccess;
      case kCuMaxSharedMemoryPerBlockOptin:
        *value = static_cast<int>(options.shared_bytes);
        return kCuSuccess;
      default:
        return kCuInvalidValue;
    }
  }

  Driver MakeDriver();
  void AddDevices(Driver& driver);
  void AddMemory(Driver& driver);
  void AddCopies(Driver& driver);
  void AddStreams(Driver& driver);
  void AddEvents(Driver& driver);
  void AddModules(Driver& driver);
  void AddGraphs(Driver& driver);

  const HostGpuOptions options;
  CuContextImpl context;
  int retained = 0;
  std::map<std::string, int, std::less<>> calls;
  std::map<std::string, std::pair<int, CuResult>, std::less<>> failures;
  CuResult sticky = kCuSuccess;
  std::vector<std::string> problems;
  int launches = 0;
  int modules = 0;
  int events = 0;
  int graphs = 0;
  int64_t used = 0;
  std::map<CuDeviceAddress, std::unique_ptr<GuardedBuffer>> memory;
  std::vector<std::unique_ptr<GuardedBuffer>> freed;
  std::map<void*, std::unique_ptr<char[]>> pinned;
  std::map<void*, size_t> pinned_bytes;
  std::set<CuStream> streams;
};

void HostGpu::Implementation::AddDevices(Driver& driver) {
  driver.Init = [this](unsigned) { return Call("Init", [] { return kCuSuccess; }); };
  driver.DriverGetVersion = [](int* version) {
    *version = 13000;
    return kCuSuccess;
  };
  driver.GetErrorName = [](CuResult error, const char** text) {
    *text = error == kCuOutOfMemory      ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == kCuIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : error == kLaunchFailed     ? "CUDA_ERROR_LAUNCH_FAILED"
                                         : "CUDA_ERROR_OTHER";
    return kCuSuccess;
  };
  driver.GetErrorString = [](CuResult, const char** text) {
    *text = "as the test wants it";
    return kCuSuccess;
  };
  driver.DeviceGetCount = [this](int* count) {
    return Call("DeviceGetCount", [&] {
      *count = options.devices;
      return kCuSuccess;
    });
  };
  driver.DeviceGet = [this](CuDevice* device, int ordinal) {
    return Call("DeviceGet", [&] {
      *device = ordinal;
      return ordinal < options.devices ? kCuSuccess : kCuInvalidDevice;
    });
  };
  driver.DeviceGetName = [](char* name, int length, CuDevice) {
    absl::SNPrintF(name, static_cast<size_t>(length), "Host GPU");
    return kCuSuccess;
  };
  driver.DeviceGetAttribute = [this](int* value, int attribute, CuDevice) {
    return Call("DeviceGetAttribute", [&] { return Attribute(value, attribute); });
  };
  driver.DeviceTotalMem = [this](size_t* bytes, CuDevice) {
    *bytes = static_cast<size_t>(options.memory);
    return kCuSuccess;
  };
  driver.DevicePrimaryCtxRetain = [this](CuContext* result, CuDevice) {
    return Call("DevicePrimaryCtxRetain", [&] {
      *result = &context;
      ++retained;
      return kCuSuccess;
    });
  };
  driver.DevicePrimaryCtxRelease = [this](CuDevice) {
    --retained;
    return kCuSuccess;
  };
  driver.CtxSetCurrent = [this](CuContext wanted) {
    return Call("CtxSetCurrent", [&] {
      current_context = wanted;
      return kCuSuccess;
    });
  };
  driver.CtxGetCurrent = [](CuContext* result) {
    *result = current_context;
    return kCuSuccess;
  };
  driver.CtxSynchronize = [this] { return Inside("CtxSynchronize", [&] { return RunAll(); }); };
}

void HostGpu::Implementation::AddMemory(Driver& driver) {
  driver.MemAlloc = [this](CuDeviceAddress* address, size_t bytes) {
    return Inside("MemAlloc", [&] { return Allocate(address, bytes); });
  };
  driver.MemFree = [this](CuDeviceAddress address) {
    return Inside("MemFree", [&] { return Free(address); });
  };
  driver.MemGetInfo = [this](size_t* free, size_t* total) {
    return Inside("MemGetInfo", [&] {
      *free = static_cast<size_t>(options.memory - used);
      *total = static_cast<size_t>(options.memory);
      return kCuSuccess;
    });
  };
  driver.MemHostAlloc = [this](void** address, size_t bytes, unsigned) {
    return Inside("MemHostAlloc", [&] {
      auto block = std::make_unique<char[]>(bytes);
      *address = block.get();
      pinned_bytes[*address] = bytes;
      pinned[*address] = std::move(block);
      return kCuSuccess;
    });
  };
  driver.MemFreeHost = [this](void* address) {
    return Inside("MemFreeHost", [&] {
      const CuResult finished = RunAll();
      if (pinned.erase(address) == 0) Complain("host memory is freed that is not allocated");
      pinned_bytes.erase(address);
      return finished;
    });
  };
}

void HostGpu::Implementation::AddCopies(Driver& driver) {
  // Those without a stream do not wait for streams that do not block.
  driver.MemcpyHtoD = [this](CuDeviceAddress to, const void* from, size_t bytes) {
    return Inside("MemcpyHtoD", [&] {
      if (!IsDeviceMemory(to, bytes)) return Illegal("a copy");
      std::memcpy(reinterpret_cast<void*>(to), from, bytes);
      return kCuSuccess;
    });
  };
  driver.MemcpyDtoH = [this](void* to, CuDeviceAddress from, size_t bytes) {
    return Inside("MemcpyDtoH", [&] {
      if (!IsDeviceMemory(from, bytes)) return Illegal("a copy");
      std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
      return kCuSuccess;
    });
  };
  driver.MemcpyHtoDAsync = [this](CuDeviceAddress to, const void* from, size_t bytes,
                                  CuStream stream) {
    return Inside("MemcpyHtoDAsync", [&] {
      return CopyAsync(reinterpret_cast<void*>(to), from, bytes, true, false, stream);
    });
  };
  driver.MemcpyDtoHAsync = [this](void* to, CuDeviceAddress from, size_t bytes, CuStream stream) {
    return Inside("MemcpyDtoHAsync", [&] {
      return CopyAsync(to, reinterpret_cast<const void*>(from), bytes, false, true, stream);
    });
  };
  driver.MemcpyDtoDAsync = [this](CuDeviceAddress to, CuDeviceAddress from, size_t bytes,
                                  CuStream stream) {
    return Inside("MemcpyDtoDAsync", [&] {
      return CopyAsync(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes,
                       true, true, stream);
    });
  };
  driver.MemsetD8Async = [this](CuDeviceAddress to, unsigned char value, size_t count,
                                CuStream stream) {
    return Inside("MemsetD8Async", [&] { return Set(to, value, count, stream); });
  };
  driver.MemsetD16Async = [this](CuDeviceAddress to, unsigned short value, size_t count,
                                 CuStream stream) {
    return Inside("MemsetD16Async", [&] { return Set(to, value, count, stream); });
  };
  driver.MemsetD32Async = [this](CuDeviceAddress to, unsigned value, size_t count,
                                 CuStream stream) {
    return Inside("MemsetD32Async", [&] { return Set(to, value, count, stream); });
  };
}

void HostGpu::Implementation::AddStreams(Driver& driver) {
  driver.StreamCreate = [this](CuStream* stream, unsigned) {
    return Inside("StreamCreate", [&] {
      *stream = new CuStreamImpl();
      streams.insert(*stream);
      return kCuSuccess;
    });
  };
  driver.StreamDestroy = [this](CuStream stream) {
    return Call("StreamDestroy", [&] {
      const CuResult result = RunStream(stream);
      streams.erase(stream);
      delete stream;
      return result;
    });
  };
  driver.StreamSynchronize = [this](CuStream stream) {
    return Inside("StreamSynchronize", [&] { return RunStream(stream); });
  };
  driver.StreamQuery = [this](CuStream stream) {
    return Inside("StreamQuery", [&] { return stream->work.empty() ? kCuSuccess : kCuNotReady; });
  };
  driver.StreamWaitEvent = [this](CuStream stream, CuEvent event, unsigned) {
    return Inside("StreamWaitEvent", [&] {
      const int64_t recording = event->recorded;
      return Enqueue(stream, [=, this] { return WaitFor(event, recording); });
    });
  };
}

void HostGpu::Implementation::AddEvents(Driver& driver) {
  driver.EventCreate = [this](CuEvent* event, unsigned) {
    return Inside("EventCreate", [&] {
      *event = new CuEventImpl();
      ++events;
      return kCuSuccess;
    });
  };
  driver.EventDestroy = [this](CuEvent event) {
    return Call("EventDestroy", [&] {
      const CuResult result = RunAll();
      delete event;
      --events;
      return result;
    });
  };
  driver.EventRecord = [this](CuEvent event, CuStream stream) {
    return Inside("EventRecord", [&] {
      const int64_t recording = ++event->recorded;
      event->stream = stream;
      return Enqueue(stream, [=] {
        event->reached = recording;
        return kCuSuccess;
      });
    });
  };
  driver.EventSynchronize = [this](CuEvent event) {
    return Inside("EventSynchronize", [&] { return WaitFor(event, event->recorded); });
  };
  driver.EventQuery = [this](CuEvent event) {
    return Inside("EventQuery",
                  [&] { return event->reached >= event->recorded ? kCuSuccess : kCuNotReady; });
  };
  driver.EventElapsedTime = [](float* milliseconds, CuEvent, CuEvent) {
    *milliseconds = 1;
    return kCuSuccess;
  };
}

void HostGpu::Implementation::AddModules(Driver& driver) {
  driver.ModuleLoadDataEx = [this](CuModule* module, const void* image, unsigned, int*, void**) {
    return Inside("ModuleLoadDataEx", [&] { return LoadImage(module, image); });
  };
  driver.ModuleUnload = [this](CuModule module) {
    return Inside("ModuleUnload", [&] {
      const CuResult result = RunAll();
      delete module;
      --modules;
      return result;
    });
  };
  driver.ModuleGetFunction = [this](CuFunction* function, CuModule module, const char*) {
    return Inside("ModuleGetFunction", [&] {
      *function = &module->function;
      return kCuSuccess;
    });
  };
  driver.FuncGetAttribute = [this](int* value, int attribute, CuFunction function) {
    return Inside("FuncGetAttribute", [&] {
      *value = attribute == kCuFunctionMaxThreadsPerBlock          ? 1024
               : attribute == kCuFunctionMaxDynamicSharedSizeBytes ? function->dynamic_shared
                                                                   : 0;
      return kCuSuccess;
    });
  };
  driver.FuncSetAttribute = [this](CuFunction function, int attribute, int value) {
    return Inside("FuncSetAttribute", [&] {
      if (attribute != kCuFunctionMaxDynamicSharedSizeBytes || value > options.shared_bytes) {
        return kCuInvalidValue;
      }
      function->dynamic_shared = value;
      return kCuSuccess;
    });
  };
  driver.LaunchKernel = [this](CuFunction function, unsigned gx, unsigned gy, unsigned gz,
                               unsigned bx, unsigned by, unsigned bz, unsigned shared,
                               CuStream stream, void** parameters, void**) {
    return Inside("LaunchKernel", [&] {
      return Launch(function, {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared_bytes = shared},
                    stream, parameters);
    });
  };
  driver.OccupancyMaxActiveBlocksPerMultiprocessor = [](int* blocks, CuFunction, int, size_t) {
    *blocks = 1;
    return kCuSuccess;
  };
}

void HostGpu::Implementation::AddGraphs(Driver& driver) {
  driver.StreamBeginCapture = [this](CuStream stream, int) {
    return Inside("StreamBeginCapture", [&] {
      stream->capture = new CuGraphImpl();
      ++graphs;
      return kCuSuccess;
    });
  };
  driver.StreamEndCapture = [this](CuStream stream, CuGraph* graph) {
    *graph = nullptr;
    const CuResult result = Inside("StreamEndCapture", [&] {
      *graph = std::exchange(stream->capture, nullptr);
      return kCuSuccess;
    });
    // A recording that fails is over too.
    if (stream->capture != nullptr) {
      delete std::exchange(stream->capture, nullptr);
      --graphs;
    }
    return result;
  };
  driver.GraphInstantiateWithFlags = [this](CuGraphExec* exec, CuGraph graph, unsigned long long) {
    return Inside("GraphInstantiateWithFlags", [&] {
      *exec = new CuGraphExecImpl{graph->work};
      ++graphs;
      return kCuSuccess;
    });
  };
  driver.GraphUpload = [](CuGraphExec, CuStream) { return kCuSuccess; };
  driver.GraphLaunch = [this](CuGraphExec exec, CuStream stream) {
    return Inside("GraphLaunch", [&] {
      for (const auto& work : exec->work) stream->work.push_back(work);
      return kCuSuccess;
    });
  };
  driver.GraphExecDestroy = [this](CuGraphExec exec) {
    return Inside("GraphExecDestroy", [&] {
      delete exec;
      --graphs;
      return kCuSuccess;
    });
  };
  driver.GraphDestroy = [this](CuGraph graph) {
    return Inside("GraphDestroy", [&] {
      delete graph;
      --graphs;
      return kCuSuccess;
    });
  };
}

Driver HostGpu::Implementation::MakeDriver() {
  Driver driver;
  AddDevices(driver);
  AddMemory(driver);
  AddCopies(driver);
  AddStreams(driver);
  AddEvents(driver);
  AddModules(driver);
  AddGraphs(driver);
  if (!options.graphs) driver.GraphInstantiateWithFlags = nullptr;
  driver.version = 13000;
  return driver;
}

HostGpu::HostGpu(const HostGpuOptions& options)
    : implementation_(std::make_shared<Implementation>(options)) {}
HostGpu::~HostGpu() = default;

std::shared_ptr<const Driver> HostGpu::driver() const {
  // The table keeps what is behind it alive.
  struct Table {
    std::shared_ptr<Implementation> implementation;
    Driver driver;
  };
  auto table = std::make_shared<Table>(Table{implementation_, implementation_->MakeDriver()});
  return {table, &table->driver};
}

int HostGpu::calls(std::string_view function) const {
  auto it = implementation_->calls.find(function);
  return it == implementation_->calls.end() ? 0 : it->second;
}
int HostGpu::launches() const { return implementation_->launches; }
int64_t HostGpu::used() const { return implementation_->used; }

void HostGpu::Fail(std::string_view function, CuResult result, int count) {
  implementation_->failures[std::string(function)] = {calls(function) + count, result};
}

std::vector<std::string> HostGpu::Problems() const {
  Implementation& gpu = *implementation_;
  std::vector<std::string> problems = gpu.problems;
  for (const auto& [address, buffer] : gpu.memory) {
    problems.push_back(absl::StrFormat("%d bytes are not freed", buffer->bytes()));
  }
  for (const auto& buffer : gpu.freed) {
    const unsigned char* begin = buffer->data();
    if (!std::all_of(begin, begin + buffer->bytes(),
                     [](unsigned char byte) { return byte == kFreed; })) {
      problems.push_back(
          absl::StrFormat("%d bytes are written after they are freed", buffer->bytes()));
    }
  }
  const std::pair<const char*, int64_t> counts[] = {
      {"blocks of host memory", static_cast<int64_t>(gpu.pinned.size())},
      {"streams", static_cast<int64_t>(gpu.streams.size())},
      {"modules", gpu.modules},
      {"events", gpu.events},
      {"graphs", gpu.graphs},
      {"contexts", gpu.retained}};
  for (const auto& [what, count] : counts) {
    if (count != 0) problems.push_back(absl::StrFormat("%d %s are left", count, what));
  }
  return problems;
}

std::string HostImage(const std::string& path) {
  return absl::StrCat(std::string(kImagePrefix), path);
}

absl::StatusOr<CompiledKernel> HostCompiler::Compile(const Kernel& kernel,
                                                     std::span<const SourceHeader> headers,
                                                     std::string_view) {
  DUOTONE_ASSIGN_OR_RETURN(std::string path,
                           CompiledText::CompileToFile(kernel.name, kernel.source, headers));
  return CompiledKernel{.cubin = HostImage(path)};
}

}  // namespace duotone::runtime
