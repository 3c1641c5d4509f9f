// The table of functions over the emulated GPU. Work runs when it is waited for
// (runtime/emulator/emulated_stream.h). A launch with problems, or a copy beside memory, is an
// error of the whole context, as on a real GPU: all later calls give it, until the context is
// released. What went wrong, as sentences, is the text of that error.
#include "runtime/emulator/emulated_driver.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "runtime/emulator/attributes.h"
#include "runtime/emulator/emulated_gpu.h"

namespace duotone::emulator {
namespace {

using namespace runtime;  // NOLINT: the driver's names

// Copies a text to the buffer that an option of the JIT compiler names, cut to its size.
void FillLog(const std::string& text, int buffer_option, int size_option, unsigned count,
             const int* options, void** values) {
  char* buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == buffer_option) buffer = static_cast<char*>(values[i]);
    if (options[i] == size_option)
      size = static_cast<size_t>(reinterpret_cast<uintptr_t>(values[i]));
  }
  if (buffer == nullptr || size == 0) return;
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(buffer, text.data(), length);
  buffer[length] = '\0';
}

}  // namespace

void Gpu::AddResults(Driver& driver) {
  driver.GetErrorName = [](CuResult error, const char** text) {
    const ResultText* row = FindResultText(error);
    *text = row == nullptr ? nullptr : row->name;
    return row == nullptr ? kCuInvalidValue : kCuSuccess;
  };
  // Where the thread's latest call gave this error, why.
  driver.GetErrorString = [this](CuResult error, const char** text) {
    if (latest_error_.gpu == this && latest_error_.result == error) {
      *text = latest_error_.text;
      return kCuSuccess;
    }
    const ResultText* row = FindResultText(error);
    *text = row == nullptr ? nullptr : row->text;
    return row == nullptr ? kCuInvalidValue : kCuSuccess;
  };
}

void Gpu::AddDevices(Driver& driver) {
  driver.Init = [](unsigned flags) { return flags == 0 ? kCuSuccess : kCuInvalidValue; };
  driver.DriverGetVersion = [](int* version) {
    *version = 13000;
    return kCuSuccess;
  };
  driver.DeviceGetCount = [](int* count) {
    *count = 1;
    return kCuSuccess;
  };
  driver.DeviceGet = [](CuDevice* device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? kCuSuccess : kCuInvalidDevice;
  };
  driver.DeviceGetName = [this](char* name, int length, CuDevice device) {
    if (device != 0 || length < 1) return device != 0 ? kCuInvalidDevice : kCuInvalidValue;
    absl::SNPrintF(name, static_cast<size_t>(length), "emulated %s", machine_.target().device);
    return kCuSuccess;
  };
  driver.DeviceGetAttribute = [this](int* value, int attribute, CuDevice device) {
    if (device != 0) return kCuInvalidDevice;
    const std::optional<int> known = DeviceAttribute(machine_.target(), attribute);
    *value = known.value_or(0);
    return known.has_value() ? kCuSuccess : kCuInvalidValue;
  };
  driver.DeviceTotalMem = [this](size_t* bytes, CuDevice device) {
    *bytes = static_cast<size_t>(machine_.memory().capacity());
    return device == 0 ? kCuSuccess : kCuInvalidDevice;
  };
  driver.DevicePrimaryCtxRetain = [this](CuContext* result, CuDevice device) {
    return Call([&] {
      if (device != 0) return kCuInvalidDevice;
      *result = context();
      ++retained_;
      return kCuSuccess;
    });
  };
  driver.DevicePrimaryCtxRelease = [this](CuDevice device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (device != 0) return kCuInvalidDevice;
    if (retained_ == 0) return kCuInvalidContext;
    if (--retained_ == 0) Reset();
    return kCuSuccess;
  };
  driver.CtxSetCurrent = [this](CuContext wanted) {
    return Call([&] {
      if (wanted != nullptr && (wanted != context() || retained_ == 0)) return kCuInvalidContext;
      current_context_ = wanted;
      return kCuSuccess;
    });
  };
  driver.CtxGetCurrent = [](CuContext* result) {
    *result = current_context_;
    return kCuSuccess;
  };
  driver.CtxSynchronize = [this] { return Outside([&] { return streams_.RunAll(); }); };
}

void Gpu::AddMemory(Driver& driver) {
  driver.MemAlloc = [this](CuDeviceAddress* address, size_t bytes) {
    return Outside([&] { return Allocate(address, bytes); });
  };
  driver.MemFree = [this](CuDeviceAddress address) {
    return Outside([&] { return address == 0 ? kCuSuccess : Free(address); });
  };
  driver.MemGetInfo = [this](size_t* free, size_t* total) {
    return Inside([&] {
      const GlobalMemory& memory = machine_.memory();
      *free = static_cast<size_t>(memory.capacity() - memory.used());
      *total = static_cast<size_t>(memory.capacity());
      return kCuSuccess;
    });
  };
  driver.MemHostAlloc = [this](void** address, size_t bytes, unsigned) {
    return Outside([&] {
      if (bytes == 0) return Fail(kCuInvalidValue, "an allocation of 0 bytes");
      std::vector<char> block(bytes);
      *address = block.data();
      pinned_[block.data()] = std::move(block);
      return kCuSuccess;
    });
  };
  driver.MemFreeHost = [this](void* address) {
    return Outside([&] {
      if (pinned_.erase(static_cast<char*>(address)) != 0) return kCuSuccess;
      return Fail(kCuInvalidValue, "it is not an allocation of pinned memory");
    });
  };
}

void Gpu::AddCopies(Driver& driver) {
  // Those without a stream are in order with streams that wait for the default one, no others.
  driver.MemcpyHtoD = [this](CuDeviceAddress to, const void* from, size_t bytes) {
    return Outside([&]() -> CuResult {
      if (const CuResult before = streams_.RunBlocking(); before != kCuSuccess) return before;
      const absl::Status copied = machine_.memory().Write(to, from, static_cast<int64_t>(bytes));
      return copied.ok() ? kCuSuccess : Fail(kCuInvalidValue, copied);
    });
  };
  driver.MemcpyDtoH = [this](void* to, CuDeviceAddress from, size_t bytes) {
    return Outside([&]() -> CuResult {
      if (const CuResult before = streams_.RunBlocking(); before != kCuSuccess) return before;
      const absl::Status copied = machine_.memory().Read(to, from, static_cast<int64_t>(bytes));
      return copied.ok() ? kCuSuccess : Fail(kCuInvalidValue, copied);
    });
  };
  driver.MemcpyHtoDAsync = [this](CuDeviceAddress to, const void* from, size_t bytes,
                                  CuStream stream) {
    return CopyToDevice(to, from, bytes, stream);
  };
  driver.MemcpyDtoHAsync = [this](void* to, CuDeviceAddress from, size_t bytes, CuStream stream) {
    return CopyToHost(to, from, bytes, stream);
  };
  driver.MemcpyDtoDAsync = [this](CuDeviceAddress to, CuDeviceAddress from, size_t bytes,
                                  CuStream handle) {
    return On(handle, [&](std::shared_ptr<Stream> stream) {
      return streams_.Enqueue(stream, [=, this] {
        return Moved(machine_.memory().Copy(to, from, static_cast<int64_t>(bytes)));
      });
    });
  };
  driver.MemsetD8Async = [this](CuDeviceAddress to, unsigned char value, size_t count,
                                CuStream stream) { return Set(to, value, 1, count, stream); };
  driver.MemsetD16Async = [this](CuDeviceAddress to, unsigned short value, size_t count,
                                 CuStream stream) { return Set(to, value, 2, count, stream); };
  driver.MemsetD32Async = [this](CuDeviceAddress to, unsigned value, size_t count,
                                 CuStream stream) { return Set(to, value, 4, count, stream); };
}

void Gpu::AddStreams(Driver& driver) {
  driver.StreamCreate = [this](CuStream* stream, unsigned flags) {
    return Inside([&] {
      if (flags > kCuStreamNonBlocking) return kCuInvalidValue;
      *stream = reinterpret_cast<CuStream>(streams_.Create(flags != kCuStreamNonBlocking));
      return kCuSuccess;
    });
  };
  driver.StreamDestroy = [this](CuStream handle) {
    return On(handle, [&](std::shared_ptr<Stream> stream) {
      return stream == nullptr ? kCuInvalidHandle : streams_.Destroy(stream);
    });
  };
  // A stream that is recorded cannot be waited for.
  const auto waiting = [this](CuStream handle, auto&& body) {
    return On(handle, [&](std::shared_ptr<Stream> stream) -> CuResult {
      if (stream == nullptr) return streams_.RunBlocking();
      if (stream->capture == nullptr) return body(stream);
      stream->capture->invalidated = true;
      return kCuStreamCaptureUnsupported;
    });
  };
  driver.StreamSynchronize = [this, waiting](CuStream handle) {
    return waiting(handle, [&](const auto& stream) { return streams_.Run(stream); });
  };
  driver.StreamQuery = [this, waiting](CuStream handle) {
    return waiting(handle, [&](const auto& stream) { return streams_.Query(stream); });
  };
  driver.StreamWaitEvent = [this](CuStream handle, CuEvent event_handle, unsigned flags) {
    return On(handle, [&](std::shared_ptr<Stream> stream) -> CuResult {
      const std::shared_ptr<Event> event = events_.Find(event_handle);
      if (event == nullptr) return Fail(kCuInvalidHandle, "not an event");
      return flags == 0 ? streams_.Wait(stream, event) : kCuInvalidValue;
    });
  };
}

void Gpu::AddEvents(Driver& driver) {
  driver.EventCreate = [this](CuEvent* result, unsigned flags) {
    return Inside([&] {
      auto event = std::make_shared<Event>();
      event->has_time = (flags & kCuEventDisableTiming) == 0;
      *result = reinterpret_cast<CuEvent>(events_.Add(std::move(event)));
      return kCuSuccess;
    });
  };
  driver.EventDestroy = [this](CuEvent handle) {
    return With(events_, handle, "event", [&](std::shared_ptr<Event> event) {
      events_.Remove(event.get());
      return kCuSuccess;
    });
  };
  driver.EventRecord = [this](CuEvent handle, CuStream stream_handle) {
    return With(events_, handle, "event", [&](std::shared_ptr<Event> event) -> CuResult {
      const std::shared_ptr<Stream> stream = streams_.Find(stream_handle);
      if (stream_handle != nullptr && stream == nullptr) {
        return Fail(kCuInvalidHandle, "not a stream");
      }
      return streams_.Record(event, stream);
    });
  };
  driver.EventSynchronize = [this](CuEvent handle) {
    return With(events_, handle, "event",
                [&](std::shared_ptr<Event> event) { return streams_.Synchronize(event); });
  };
  driver.EventQuery = [this](CuEvent handle) {
    return With(events_, handle, "event",
                [&](std::shared_ptr<Event> event) { return streams_.Query(event); });
  };
  // The time that the emulation took.
  driver.EventElapsedTime = [this](float* milliseconds, CuEvent begin_handle, CuEvent end_handle) {
    return With(events_, begin_handle, "event", [&](std::shared_ptr<Event> begin) -> CuResult {
      const std::shared_ptr<Event> end = events_.Find(end_handle);
      if (end == nullptr) return Fail(kCuInvalidHandle, "not an event");
      for (const auto& event : {begin, end}) {
        if (!event->has_time || event->recorded == 0) {
          return Fail(kCuInvalidHandle, "an event without a time");
        }
        if (event->reached < event->recorded) return kCuNotReady;
      }
      *milliseconds = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
      return kCuSuccess;
    });
  };
}

void Gpu::AddModules(Driver& driver) {
  driver.ModuleLoadDataEx = [this](CuModule* module, const void* image, unsigned count,
                                   int* options, void** values) {
    return Outside([&] {
      std::string log;
      const CuResult result = Load(module, static_cast<const char*>(image), log);
      FillLog(log, kCuJitErrorLogBuffer, kCuJitErrorLogBufferSizeBytes, count, options, values);
      FillLog("", kCuJitInfoLogBuffer, kCuJitInfoLogBufferSizeBytes, count, options, values);
      return result;
    });
  };
  driver.ModuleUnload = [this](CuModule handle) {
    return Outside([&] {
      const std::shared_ptr<Module> module = modules_.Find(handle);
      return module == nullptr ? Fail(kCuInvalidHandle, "not a module") : Unload(module);
    });
  };
  driver.ModuleGetFunction = [this](CuFunction* function, CuModule handle, const char* name) {
    return With(modules_, handle, "module",
                [&](std::shared_ptr<Module> module) { return Find(function, *module, name); });
  };
  driver.FuncGetAttribute = [this](int* value, int attribute, CuFunction handle) {
    return With(functions_, handle, "function", [&](std::shared_ptr<Function> function) {
      return Attribute(value, attribute, *function);
    });
  };
  driver.FuncSetAttribute = [this](CuFunction handle, int attribute, int value) {
    return With(functions_, handle, "function", [&](std::shared_ptr<Function> function) {
      const int64_t most =
          machine_.target().max_block_shared_bytes - function->kernel->static_shared_bytes;
      if (attribute != kCuFunctionMaxDynamicSharedSizeBytes || value < 0 || value > most) {
        return Fail(kCuInvalidValue, absl::StrFormat("attribute %d of kernel %s cannot be %d",
                                                     attribute, function->kernel->name, value));
      }
      function->shared_limit = value;
      return kCuSuccess;
    });
  };
}

void Gpu::AddLaunches(Driver& driver) {
  driver.LaunchKernel = [this](CuFunction handle, unsigned gx, unsigned gy, unsigned gz,
                               unsigned bx, unsigned by, unsigned bz, unsigned shared,
                               CuStream stream_handle, void** parameters, void** extra) {
    return With(functions_, handle, "function",
                [&](std::shared_ptr<Function> function) -> CuResult {
                  const std::shared_ptr<Stream> stream = streams_.Find(stream_handle);
                  if (stream_handle != nullptr && stream == nullptr) {
                    return Fail(kCuInvalidHandle, "not a stream");
                  }
                  if (extra != nullptr) {
                    return Fail(kCuInvalidValue, "the emulated device takes parameters one by one");
                  }
                  LaunchRequest request;
                  request.grid = {gx, gy, gz};
                  request.block = {bx, by, bz};
                  request.shared_bytes = shared;
                  return Launch(function, std::move(request), stream, parameters);
                });
  };
  driver.OccupancyMaxActiveBlocksPerMultiprocessor = [this](int* blocks, CuFunction handle,
                                                            int block_threads, size_t shared) {
    return With(functions_, handle, "function", [&](std::shared_ptr<Function> function) {
      return Occupancy(blocks, *function, block_threads, shared);
    });
  };
  driver.NoteNextLaunch = [this](std::shared_ptr<const LaunchNote> note) {
    return Inside([&] {
      notes_[std::this_thread::get_id()] = std::move(note);
      return kCuSuccess;
    });
  };
}

void Gpu::AddGraphs(Driver& driver) {
  driver.StreamBeginCapture = [this](CuStream handle, int mode) {
    return On(handle,
              [&](std::shared_ptr<Stream> stream) { return streams_.BeginCapture(stream, mode); });
  };
  driver.StreamEndCapture = [this](CuStream handle, CuGraph* graph) {
    *graph = nullptr;
    return On(handle, [&](std::shared_ptr<Stream> stream) {
      auto recorded = std::make_shared<Graph>();
      const CuResult ended = streams_.EndCapture(stream, recorded.get());
      if (ended == kCuSuccess) {
        *graph = reinterpret_cast<CuGraph>(graphs_.Add(std::move(recorded)));
      }
      return ended;
    });
  };
  driver.GraphInstantiateWithFlags = [this](CuGraphExec* exec, CuGraph handle, unsigned long long) {
    return With(graphs_, handle, "graph", [&](std::shared_ptr<Graph> graph) {
      *exec = reinterpret_cast<CuGraphExec>(
          const_cast<Graph*>(executable_graphs_.Add(std::make_shared<const Graph>(*graph))));
      return kCuSuccess;
    });
  };
  driver.GraphUpload = [this](CuGraphExec handle, CuStream stream) {
    return On(stream, [&](std::shared_ptr<Stream>) {
      return executable_graphs_.Find(handle) != nullptr ? kCuSuccess : kCuInvalidHandle;
    });
  };
  driver.GraphLaunch = [this](CuGraphExec handle, CuStream stream_handle) {
    return On(stream_handle, [&](std::shared_ptr<Stream> stream) -> CuResult {
      std::shared_ptr<const Graph> graph = executable_graphs_.Find(handle);
      if (graph == nullptr) return Fail(kCuInvalidHandle, "not an executable graph");
      return streams_.LaunchGraph(std::move(graph), stream);
    });
  };
  driver.GraphExecDestroy = [this](CuGraphExec handle) {
    return With(executable_graphs_, handle, "executable graph",
                [&](std::shared_ptr<const Graph> graph) {
                  executable_graphs_.Remove(graph.get());
                  return kCuSuccess;
                });
  };
  driver.GraphDestroy = [this](CuGraph handle) {
    return With(graphs_, handle, "graph", [&](std::shared_ptr<Graph> graph) {
      graphs_.Remove(graph.get());
      return kCuSuccess;
    });
  };
}

std::shared_ptr<const Driver> Gpu::driver() {
  // The table keeps what is behind it alive.
  struct Table {
    std::shared_ptr<Gpu> gpu;
    Driver driver;
  };
  auto table = std::make_shared<Table>();
  table->gpu = shared_from_this();
  Driver& driver = table->driver;
  AddResults(driver);
  AddDevices(driver);
  AddMemory(driver);
  AddCopies(driver);
  AddStreams(driver);
  AddEvents(driver);
  AddModules(driver);
  AddLaunches(driver);
  AddGraphs(driver);
  driver.version = 13000;
  return {table, &driver};
}

absl::StatusOr<std::shared_ptr<EmulatedGpu>> EmulatedGpu::Create(const EmulatorOptions& options) {
  DUOTONE_RETURN_IF_ERROR(FindGpuTarget(options.architecture).status());
  return std::make_shared<Gpu>(options);
}

}  // namespace duotone::emulator
