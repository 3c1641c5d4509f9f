// Streams, events and graphs of an emulated GPU: queues of work that run as late as a real GPU
// could run them.
//
// Nothing runs when it is given to a stream. It runs when somebody waits for it (and then only what
// must have run: the work before it in its own stream, and in other streams what that waits for), a
// piece at a time when somebody asks whether it is done, or when the queue has more pieces than a
// driver takes. So host code that forgets to wait reads old data, and memory that is given away too
// early is freed memory when its work runs: each time, not once in a thousand runs as with threads.
//
// Not for several threads at once; emulated_driver.cc has the lock.
#ifndef DUOTONE_RUNTIME_EMULATOR_EMULATED_STREAM_H_
#define DUOTONE_RUNTIME_EMULATOR_EMULATED_STREAM_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/cuda/driver.h"

namespace duotone::emulator {

using runtime::CuResult;

// A piece of work: a launch, a copy, a fill, an event.
using Work = std::function<CuResult()>;
struct Graph {
  std::vector<Work> work;
};

// What a stream records instead of queueing it.
struct Capture {
  Graph graph;
  int mode = 0;
  std::thread::id thread;
  bool invalidated = false;
};

struct Stream {
  std::deque<Work> work;
  bool waits_for_default = true;  // not made with kCuStreamNonBlocking
  std::shared_ptr<Capture> capture;
};

struct Event {
  bool has_time = true;
  int64_t recorded = 0;  // how many times it was recorded, and how many of these have been reached
  int64_t reached = 0;
  std::chrono::steady_clock::time_point at;
  std::shared_ptr<Stream> stream;         // of the latest recording
  std::weak_ptr<const Capture> captured;  // while that recording is part of a running capture
};

// Objects known to their users by opaque handles. The handle of an object that is gone, or of
// another kind, is found out.
template <typename T>
class Handles {
 public:
  T* Add(std::shared_ptr<T> object) {
    T* handle = object.get();
    objects_[handle] = std::move(object);
    return handle;
  }
  // Null if there is none.
  std::shared_ptr<T> Find(const void* handle) const {
    auto it = objects_.find(handle);
    return it == objects_.end() ? nullptr : it->second;
  }
  void Remove(const void* handle) { objects_.erase(handle); }
  void Clear() { objects_.clear(); }
  const std::map<const void*, std::shared_ptr<T>>& all() const { return objects_; }

 private:
  std::map<const void*, std::shared_ptr<T>> objects_;
};

class StreamSet {
 public:
  ~StreamSet() { Clear(); }
  std::shared_ptr<Stream> Find(const void* handle) const { return streams_.Find(handle); }
  Stream* Create(bool waits_for_default);
  // Runs what is left of its work.
  CuResult Destroy(const std::shared_ptr<Stream>& stream);
  // Forgets all streams and their work.
  void Clear();

  // Gives work to a stream, or to what it records. Null is the default stream, which is in order
  // with all streams that wait for it: its work runs at once, after theirs.
  CuResult Enqueue(const std::shared_ptr<Stream>& stream, Work work);
  // Runs a stream's work until none is left.
  CuResult Run(const std::shared_ptr<Stream>& stream);
  // The work of all streams, or of those that are in order with the default stream.
  CuResult RunAll();
  CuResult RunBlocking();
  // kCuNotReady while there is work, of which one piece is run.
  CuResult Query(const std::shared_ptr<Stream>& stream);

  CuResult Record(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream);
  CuResult Wait(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event);
  CuResult Synchronize(const std::shared_ptr<Event>& event);
  CuResult Query(const std::shared_ptr<Event>& event);

  CuResult BeginCapture(const std::shared_ptr<Stream>& stream, int mode);
  // Ends it also where it fails.
  CuResult EndCapture(const std::shared_ptr<Stream>& stream, Graph* graph);
  CuResult LaunchGraph(std::shared_ptr<const Graph> graph, const std::shared_ptr<Stream>& stream);
  // For calls that a capture of the calling thread (or, in global mode, of any) forbids because
  // they would wait or allocate: invalidates it.
  CuResult CheckNoCapture();

 private:
  CuResult RunOne(Stream& stream);
  CuResult RunUntil(const Event& event, int64_t recording);

  Handles<Stream> streams_;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_EMULATED_STREAM_H_
