#include "runtime/emulator/emulated_stream.h"

#include <utility>

#include "runtime/emulator/driver_results.h"

namespace duotone::emulator {
namespace {

using runtime::kCuInvalidValue;
using runtime::kCuNotReady;
using runtime::kCuSuccess;

// Drivers take about as many launches before a call waits.
constexpr size_t kMaxQueued = 1024;

// CUstreamCaptureMode.
constexpr int kCaptureGlobal = 0;
constexpr int kCaptureRelaxed = 2;

}  // namespace

Stream* StreamSet::Create(bool waits_for_default) {
  auto stream = std::make_shared<Stream>();
  stream->waits_for_default = waits_for_default;
  return streams_.Add(std::move(stream));
}

CuResult StreamSet::Destroy(const std::shared_ptr<Stream>& stream) {
  stream->capture.reset();
  const CuResult result = Run(stream);
  stream->work.clear();
  streams_.Remove(stream.get());
  return result;
}

// Work may hold an event, which holds its stream.
void StreamSet::Clear() {
  for (const auto& [handle, stream] : streams_.all()) stream->work.clear();
  streams_.Clear();
}

// ---- Running

CuResult StreamSet::RunOne(Stream& stream) {
  const Work work = std::move(stream.work.front());
  stream.work.pop_front();
  return work();
}

CuResult StreamSet::Enqueue(const std::shared_ptr<Stream>& stream, Work work) {
  if (stream == nullptr) {
    const CuResult before = RunBlocking();
    return before == kCuSuccess ? work() : before;
  }
  if (stream->capture != nullptr) {
    if (stream->capture->invalidated) return kCuStreamCaptureInvalidated;
    stream->capture->graph.work.push_back(std::move(work));
    return kCuSuccess;
  }
  stream->work.push_back(std::move(work));
  CuResult result = kCuSuccess;
  while (stream->work.size() > kMaxQueued && result == kCuSuccess) result = RunOne(*stream);
  return result;
}

CuResult StreamSet::Run(const std::shared_ptr<Stream>& stream) {
  CuResult result = kCuSuccess;
  while (!stream->work.empty() && result == kCuSuccess) result = RunOne(*stream);
  return result;
}

CuResult StreamSet::RunAll() {
  CuResult result = kCuSuccess;
  for (const auto& [handle, stream] : streams_.all()) {
    if (result == kCuSuccess) result = Run(stream);
  }
  return result;
}

CuResult StreamSet::RunBlocking() {
  CuResult result = kCuSuccess;
  for (const auto& [handle, stream] : streams_.all()) {
    if (stream->waits_for_default && result == kCuSuccess) result = Run(stream);
  }
  return result;
}

CuResult StreamSet::Query(const std::shared_ptr<Stream>& stream) {
  if (stream->work.empty()) return kCuSuccess;
  const CuResult result = RunOne(*stream);
  return result == kCuSuccess ? kCuNotReady : result;
}

// ---- Events

CuResult StreamSet::Record(const std::shared_ptr<Event>& event,
                           const std::shared_ptr<Stream>& stream) {
  if (stream != nullptr && stream->capture != nullptr) {
    event->captured = stream->capture;
    return kCuSuccess;
  }
  event->captured.reset();
  event->stream = stream;
  const int64_t recording = ++event->recorded;
  return Enqueue(stream, [event, recording] {
    event->reached = recording;
    event->at = std::chrono::steady_clock::now();
    return kCuSuccess;
  });
}

// What was recorded before runs before, so no two streams wait for each other.
CuResult StreamSet::RunUntil(const Event& event, int64_t recording) {
  const std::shared_ptr<Stream> stream = event.stream;
  CuResult result = kCuSuccess;
  while (event.reached < recording && result == kCuSuccess && stream != nullptr &&
         !stream->work.empty()) {
    result = RunOne(*stream);
  }
  return result;
}

CuResult StreamSet::Wait(const std::shared_ptr<Stream>& stream,
                         const std::shared_ptr<Event>& event) {
  const std::shared_ptr<const Capture> captured = event->captured.lock();
  const std::shared_ptr<Capture> capture = stream == nullptr ? nullptr : stream->capture;
  if (captured != nullptr || capture != nullptr) {
    // Within one recorded stream the order is there already.
    if (captured == capture) return kCuSuccess;
    if (capture != nullptr) capture->invalidated = true;
    return captured == nullptr ? kCuStreamCaptureIsolation : kCuStreamCaptureUnsupported;
  }
  return Enqueue(
      stream, [this, event, recording = event->recorded] { return RunUntil(*event, recording); });
}

CuResult StreamSet::Synchronize(const std::shared_ptr<Event>& event) {
  if (!event->captured.expired()) return kCuCapturedEvent;
  return RunUntil(*event, event->recorded);
}

CuResult StreamSet::Query(const std::shared_ptr<Event>& event) {
  if (!event->captured.expired()) return kCuCapturedEvent;
  if (event->reached >= event->recorded) return kCuSuccess;
  const CuResult result = Query(event->stream);
  return result == kCuSuccess ? kCuNotReady : result;
}

// ---- Graphs

CuResult StreamSet::BeginCapture(const std::shared_ptr<Stream>& stream, int mode) {
  if (stream == nullptr) return kCuStreamCaptureUnsupported;
  if (mode < kCaptureGlobal || mode > kCaptureRelaxed) return kCuInvalidValue;
  if (stream->capture != nullptr) return kCuIllegalState;
  stream->capture = std::make_shared<Capture>();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  return kCuSuccess;
}

CuResult StreamSet::EndCapture(const std::shared_ptr<Stream>& stream, Graph* graph) {
  if (stream == nullptr || stream->capture == nullptr) return kCuIllegalState;
  const Capture& current = *stream->capture;
  if (current.mode != kCaptureRelaxed && current.thread != std::this_thread::get_id()) {
    return kCuStreamCaptureWrongThread;
  }
  const std::shared_ptr<Capture> capture = std::exchange(stream->capture, nullptr);
  if (capture->invalidated) return kCuStreamCaptureInvalidated;
  *graph = std::move(capture->graph);
  return kCuSuccess;
}

CuResult StreamSet::LaunchGraph(std::shared_ptr<const Graph> graph,
                                const std::shared_ptr<Stream>& stream) {
  return Enqueue(stream, [graph = std::move(graph)] {
    for (const Work& work : graph->work) {
      if (const CuResult result = work(); result != kCuSuccess) return result;
    }
    return kCuSuccess;
  });
}

CuResult StreamSet::CheckNoCapture() {
  CuResult result = kCuSuccess;
  for (const auto& [handle, stream] : streams_.all()) {
    Capture* capture = stream->capture.get();
    if (capture == nullptr || capture->mode == kCaptureRelaxed) continue;
    if (capture->mode != kCaptureGlobal && capture->thread != std::this_thread::get_id()) continue;
    capture->invalidated = true;
    result = kCuStreamCaptureUnsupported;
  }
  return result;
}

}  // namespace duotone::emulator
