// The emulated GPU that is behind the table of emulated_driver.cc: its context and what is in it.
#ifndef DUOTONE_RUNTIME_EMULATOR_EMULATED_GPU_H_
#define DUOTONE_RUNTIME_EMULATOR_EMULATED_GPU_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/emulator/driver_results.h"
#include "runtime/emulator/emulated_driver.h"
#include "runtime/emulator/emulated_stream.h"

namespace duotone::emulator {

using runtime::CuContext;
using runtime::CuDeviceAddress;
using runtime::CuEvent;
using runtime::CuFunction;
using runtime::CuModule;
using runtime::CuStream;
using runtime::Driver;
using runtime::kCuIllegalAddress;
using runtime::kCuInvalidHandle;
using runtime::kCuInvalidValue;
using runtime::kCuSuccess;
using runtime::LaunchNote;

struct Module;
struct Function {
  const LoadedModule* module = nullptr;
  const Executable* kernel = nullptr;
  int64_t shared_limit = 0;  // of dynamic shared memory
  bool unloaded = false;
};
struct Module {
  LoadedModule* loaded = nullptr;
  std::map<std::string, std::shared_ptr<Function>> functions;
};
struct Context {};

class Gpu final : public EmulatedGpu, public std::enable_shared_from_this<Gpu> {
 public:
  explicit Gpu(const EmulatorOptions& options) : machine_(options) {}

  std::shared_ptr<const Driver> driver() override;
  Machine& machine() override { return machine_; }

 private:
  // The text of the latest error that a call on a thread returned.
  struct LatestError {
    const void* gpu = nullptr;
    CuResult result = kCuSuccess;
    const char* text = nullptr;
  };

  // ---- What every call goes through.

  // Tells why a call gives this result.
  CuResult Fail(CuResult result, std::string_view why) {
    latest_error_ = {this, result, texts_.insert(std::string(why)).first->c_str()};
    return result;
  }
  CuResult Fail(CuResult result, const absl::Status& why) {
    return Fail(result, std::string(why.message()));
  }
  // An error of the context.
  CuResult Break(CuResult result, std::string_view why) {
    broken_ = result;
    broken_text_ = why;
    return Fail(result, why);
  }

  // What a piece of work gives that moves data.
  CuResult Moved(const absl::Status& status) {
    return status.ok() ? kCuSuccess : Break(kCuIllegalAddress, std::string(status.message()));
  }

  template <typename F>
  CuResult Call(F&& body) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken_ != kCuSuccess) return Fail(broken_, broken_text_);
    latest_error_ = {};
    return body();
  }
  // The same for functions that need a current context.
  template <typename F>
  CuResult Inside(F&& body) {
    return Call([&]() -> CuResult {
      if (retained_ == 0 || current_context_ != context()) {
        return Fail(kCuInvalidContext, "the thread has no context of this device");
      }
      return body();
    });
  }
  // The same for those that a graph under recording forbids.
  template <typename F>
  CuResult Outside(F&& body) {
    return Inside([&]() -> CuResult {
      const CuResult capture = streams_.CheckNoCapture();
      return capture == kCuSuccess ? body() : capture;
    });
  }
  // With a stream, which may be the default one.
  template <typename F>
  CuResult On(CuStream handle, F&& body) {
    return Inside([&]() -> CuResult {
      std::shared_ptr<Stream> stream = streams_.Find(handle);
      if (handle != nullptr && stream == nullptr) return Fail(kCuInvalidHandle, "not a stream");
      return body(std::move(stream));
    });
  }
  // With the object of a handle.
  template <typename T, typename F>
  CuResult With(const Handles<T>& handles, const void* handle, const char* what, F&& body) {
    return Inside([&]() -> CuResult {
      std::shared_ptr<T> object = handles.Find(handle);
      if (object == nullptr) return Fail(kCuInvalidHandle, absl::StrCat("not a ", what));
      return body(std::move(object));
    });
  }
  CuContext context() { return reinterpret_cast<CuContext>(&context_); }
  void Reset();

  // ---- Bodies of the table's functions.

  CuResult Allocate(CuDeviceAddress* address, size_t bytes);
  CuResult Free(CuDeviceAddress address);
  bool IsPinned(const void* address, size_t bytes) const;
  CuResult CopyToDevice(CuDeviceAddress to, const void* from, size_t bytes, CuStream stream);
  CuResult CopyToHost(void* to, CuDeviceAddress from, size_t bytes, CuStream stream);
  CuResult Set(CuDeviceAddress to, uint32_t value, int element_bytes, size_t count,
               CuStream stream);
  CuResult Load(CuModule* module, const char* image, std::string& log);
  CuResult Unload(const std::shared_ptr<Module>& module);
  CuResult Find(CuFunction* function, Module& module, const char* name);
  CuResult Attribute(int* value, int attribute, const Function& function) const;
  CuResult Launch(const std::shared_ptr<Function>& function, LaunchRequest request,
                  const std::shared_ptr<Stream>& stream, void** parameters);
  CuResult RunLaunch(const Function& function, const LaunchRequest& request);
  CuResult Occupancy(int* blocks, const Function& function, int block_threads,
                     size_t shared_bytes) const;

  void AddResults(Driver& driver);
  void AddDevices(Driver& driver);
  void AddMemory(Driver& driver);
  void AddCopies(Driver& driver);
  void AddStreams(Driver& driver);
  void AddEvents(Driver& driver);
  void AddModules(Driver& driver);
  void AddLaunches(Driver& driver);
  void AddGraphs(Driver& driver);

  // Of the calling thread, as with the real driver.
  static thread_local CuContext current_context_;
  static thread_local LatestError latest_error_;

  std::mutex mutex_;
  Machine machine_;
  Context context_;
  int retained_ = 0;
  CuResult broken_ = kCuSuccess;
  std::string broken_text_;
  std::set<std::string> texts_;  // that callers of GetErrorString may still hold
  int64_t allocations_ = 0;
  std::set<CuDeviceAddress> memory_;
  std::map<char*, std::vector<char>> pinned_;
  StreamSet streams_;
  Handles<Event> events_;
  Handles<Module> modules_;
  Handles<Function> functions_;
  Handles<Graph> graphs_;
  Handles<const Graph> executable_graphs_;
  std::map<std::thread::id, std::shared_ptr<const LaunchNote>> notes_;  // of next launches
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_EMULATED_GPU_H_
