#include "tests/codegen/cuda/host_threads.h"

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

// Fibers change stacks, which AddressSanitizer takes for wild writes.
#define DUOTONE_NO_SANITIZER __attribute__((no_sanitize_address))

namespace duotone::codegen::cuda {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr int kWarp = 32;
constexpr size_t kGuardBytes = 64;  // around each shared variable
constexpr unsigned char kGuard = 0xa5;
constexpr unsigned char kGarbage = 0xff;  // NaN in every float type
constexpr size_t kSharedLimit = 227 << 10;

// A stack with a thread of execution on it, that runs between Resume and Yield.
class Fiber {
 public:
  Fiber() : stack_(new char[kStackBytes]) {}
  void Start(void (*entry)());
  void Resume();
  void Yield();

 private:
  std::unique_ptr<char[]> stack_;
#if defined(__x86_64__)
  void* own_ = nullptr;    // the stack pointer while it waits
  void* other_ = nullptr;  // that of the resumer while it runs
#else
  ucontext_t own_, other_;
#endif
};

#if defined(__x86_64__)
// Stores the callee-saved registers on the stack, its pointer in *from, and continues at `to`. (The
// system's swapcontext makes two system calls.)
extern "C" void DuotoneSwitchStack(void** from, void* to);
asm(R"(
.text
.type DuotoneSwitchStack, @function
DuotoneSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size DuotoneSwitchStack, .-DuotoneSwitchStack
)");

void Fiber::Start(void (*entry)()) {
  const uintptr_t top = reinterpret_cast<uintptr_t>(stack_.get() + kStackBytes) & ~uintptr_t{15};
  // Six registers, the entry as return address, and a slot that leaves the stack as after a call.
  void** slots = reinterpret_cast<void**>(top) - 8;
  std::fill(slots, slots + 8, nullptr);
  slots[6] = reinterpret_cast<void*>(entry);
  own_ = slots;
}
DUOTONE_NO_SANITIZER void Fiber::Resume() { DuotoneSwitchStack(&other_, own_); }
DUOTONE_NO_SANITIZER void Fiber::Yield() { DuotoneSwitchStack(&own_, other_); }
#else
void Fiber::Start(void (*entry)()) {
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_.get();
  own_.uc_stack.ss_size = kStackBytes;
  own_.uc_link = nullptr;
  makecontext(&own_, entry, 0);
}
DUOTONE_NO_SANITIZER void Fiber::Resume() { swapcontext(&other_, &own_); }
DUOTONE_NO_SANITIZER void Fiber::Yield() { swapcontext(&own_, &other_); }
#endif

enum class Wait : uint8_t { kNothing, kBarrier, kShuffle, kDone };

struct Thread {
  Wait wait = Wait::kNothing;
  Fiber* fiber = nullptr;  // while it has begun and not ended
  int shuffles = 0;
  // What it gives in its latest shuffles: a lane that is ahead writes one slot while others still
  // read the other.
  unsigned long long values[2] = {0, 0};
};

// The shared memory of one block.
class SharedMemory {
 public:
  explicit SharedMemory(size_t dynamic_bytes) : dynamic_(dynamic_bytes) {}

  // Everything is garbage from now on.
  void Reset() {
    for (auto& [site, area] : areas_) area.Fill();
    dynamic_.Fill();
  }
  void* At(const int* site, size_t bytes) {
    auto it = areas_.find(site);
    if (it == areas_.end()) {
      it = areas_.emplace(site, Area(bytes)).first;
      it->second.Fill();
      total_ += bytes;
    }
    return it->second.data();
  }
  void* dynamic() { return dynamic_.data(); }
  size_t total() const { return total_ + dynamic_.bytes; }
  bool Intact() const {
    return dynamic_.Intact() && std::all_of(areas_.begin(), areas_.end(),
                                            [](const auto& a) { return a.second.Intact(); });
  }

 private:
  struct Area {
    explicit Area(size_t size)
        : bytes(size), storage(new unsigned char[size + 2 * kGuardBytes + 64]) {}
    unsigned char* data() const {
      const uintptr_t begin = reinterpret_cast<uintptr_t>(storage.get()) + kGuardBytes;
      return reinterpret_cast<unsigned char*>((begin + 63) & ~uintptr_t{63});
    }
    void Fill() {
      std::memset(data() - kGuardBytes, kGuard, kGuardBytes);
      std::memset(data(), kGarbage, bytes);
      std::memset(data() + bytes, kGuard, kGuardBytes - 1);
    }
    bool Intact() const {
      const auto guarded = [](unsigned char byte) { return byte == kGuard; };
      return std::all_of(data() - kGuardBytes, data(), guarded) &&
             std::all_of(data() + bytes, data() + bytes + kGuardBytes - 1, guarded);
    }
    size_t bytes;
    std::unique_ptr<unsigned char[]> storage;
  };

  std::map<const int*, Area> areas_;
  Area dynamic_;
  size_t total_ = 0;
};

class Scheduler {
 public:
  Scheduler(const HostLaunch& launch, DuotoneHostVariables* variables,
            const std::function<void()>& thread)
      : launch_(launch),
        variables_(variables),
        thread_(thread),
        size_(static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2])),
        shared_(static_cast<size_t>(launch.shared_bytes)) {}

  absl::Status Run();

  // Called on the fiber of the running thread.
  void Barrier() { Block(Wait::kBarrier); }
  unsigned long long Shuffle(unsigned long long value, int source);
  void Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  SharedMemory& shared() { return shared_; }
  static void FiberMain();

 private:
  absl::Status RunBlock();
  void RunThread(int index);
  void Block(Wait wait);
  // Lets the threads go on that have all they wait for; false if there are none.
  bool Release();
  int WarpEnd(int first) const { return std::min(first + kWarp, size_); }
  std::string Place() const;
  absl::Status Deadlock() const;

  const HostLaunch& launch_;
  DuotoneHostVariables* variables_;
  const std::function<void()>& thread_;
  const int size_;
  SharedMemory shared_;
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  int current_ = 0;
  std::string error_;
};

Scheduler* running = nullptr;

// A fiber whose thread has ended takes the next one.
DUOTONE_NO_SANITIZER void Scheduler::FiberMain() {
  while (true) {
    running->thread_();
    Thread& ended = running->threads_[running->current_];
    ended.wait = Wait::kDone;
    ended.fiber->Yield();
  }
}

void Scheduler::RunThread(int index) {
  Thread& thread = threads_[index];
  current_ = index;
  const int64_t x = launch_.block[0], y = launch_.block[1];
  variables_->thread = {static_cast<unsigned>(index % x), static_cast<unsigned>(index / x % y),
                        static_cast<unsigned>(index / (x * y))};
  if (thread.fiber == nullptr) {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>());
      fibers_.back()->Start(&Scheduler::FiberMain);
      free_.push_back(fibers_.back().get());
    }
    thread.fiber = free_.back();
    free_.pop_back();
  }
  thread.wait = Wait::kNothing;
  thread.fiber->Resume();
  if (thread.wait == Wait::kDone) {
    free_.push_back(thread.fiber);
    thread.fiber = nullptr;
  }
}

DUOTONE_NO_SANITIZER void Scheduler::Block(Wait wait) {
  Thread& thread = threads_[current_];
  thread.wait = wait;
  thread.fiber->Yield();
}

unsigned long long Scheduler::Shuffle(unsigned long long value, int source) {
  const int index = current_;
  Thread& thread = threads_[index];
  const int slot = thread.shuffles++ % 2;
  thread.values[slot] = value;
  Block(Wait::kShuffle);
  if (source < 0) return 0;
  const int from = index / kWarp * kWarp + source;
  if (from >= size_) {
    Fail(absl::StrFormat("%s: a shuffle reads lane %d, which the block does not have", Place(),
                         source));
    return value;
  }
  return threads_[from].values[slot];
}

std::string Scheduler::Place() const {
  return absl::StrFormat("block (%d, %d, %d), thread %d", variables_->block.x, variables_->block.y,
                         variables_->block.z, current_);
}

bool Scheduler::Release() {
  const auto waits_for = [](Wait wait) {
    return [wait](const Thread& thread) { return thread.wait == wait; };
  };
  bool any = false;
  for (int first = 0; first < size_; first += kWarp) {
    const auto begin = threads_.begin() + first, end = threads_.begin() + WarpEnd(first);
    if (!std::all_of(begin, end, waits_for(Wait::kShuffle))) continue;
    for (auto it = begin; it != end; ++it) it->wait = Wait::kNothing;
    any = true;
  }
  if (!any && std::all_of(threads_.begin(), threads_.end(), waits_for(Wait::kBarrier))) {
    for (Thread& thread : threads_) thread.wait = Wait::kNothing;
    any = true;
  }
  return any;
}

absl::Status Scheduler::Deadlock() const {
  int counts[4] = {};
  int example[4] = {-1, -1, -1, -1};
  for (int i = 0; i < size_; ++i) {
    const int wait = static_cast<int>(threads_[i].wait);
    ++counts[wait];
    if (example[wait] < 0) example[wait] = i;
  }
  const char* names[4] = {"", "wait at a barrier", "wait at a shuffle", "have ended"};
  std::string text;
  for (int wait = 1; wait < 4; ++wait) {
    if (counts[wait] == 0) continue;
    absl::StrAppendFormat(&text, "%s%d threads (thread %d) %s", text.empty() ? "" : ", ",
                          counts[wait], example[wait], names[wait]);
  }
  return Internal("block (%d, %d, %d): %s: they never meet", variables_->block.x,
                  variables_->block.y, variables_->block.z, text);
}

absl::Status Scheduler::RunBlock() {
  threads_.assign(static_cast<size_t>(size_), Thread());
  shared_.Reset();
  const auto done = [](const Thread& thread) { return thread.wait == Wait::kDone; };
  do {
    for (int i = 0; i < size_; ++i) {
      const int index = launch_.reverse ? size_ - 1 - i : i;
      if (threads_[index].wait == Wait::kNothing) RunThread(index);
    }
    if (!error_.empty()) return absl::InternalError(error_);
    if (std::all_of(threads_.begin(), threads_.end(), done)) break;
    if (!Release()) return Deadlock();
  } while (true);
  if (!shared_.Intact()) {
    return Internal("block (%d, %d, %d) writes outside its shared memory", variables_->block.x,
                    variables_->block.y, variables_->block.z);
  }
  if (shared_.total() > kSharedLimit) {
    return Internal("a block uses %d bytes of shared memory", shared_.total());
  }
  return absl::OkStatus();
}

absl::Status Scheduler::Run() {
  const auto [gx, gy, gz] = launch_.grid;
  variables_->grid_size = {static_cast<unsigned>(gx), static_cast<unsigned>(gy),
                           static_cast<unsigned>(gz)};
  variables_->block_size = {static_cast<unsigned>(launch_.block[0]),
                            static_cast<unsigned>(launch_.block[1]),
                            static_cast<unsigned>(launch_.block[2])};
  const int64_t blocks = gx * gy * gz;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t block = launch_.reverse ? blocks - 1 - i : i;
    variables_->block = {static_cast<unsigned>(block % gx), static_cast<unsigned>(block / gx % gy),
                         static_cast<unsigned>(block / (gx * gy))};
    DUOTONE_RETURN_IF_ERROR(RunBlock());
  }
  return absl::OkStatus();
}

constexpr DuotoneHostApi kApi = {
    .barrier = [] { running->Barrier(); },
    .shuffle = [](unsigned long long value, int source) { return running->Shuffle(value, source); },
    .shared = [](const int* site, size_t bytes) { return running->shared().At(site, bytes); },
    .dynamic_shared = [] { return running->shared().dynamic(); },
    .fail = [](const char* message) { running->Fail(message); },
};

}  // namespace

const DuotoneHostApi* HostApi() { return &kApi; }

absl::Status RunHostThreads(const HostLaunch& launch, DuotoneHostVariables* variables,
                            const std::function<void()>& thread) {
  const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  if (threads < 1 || threads > 1024) return InvalidArgument("a block of %d threads", threads);
  DUOTONE_CHECK(running == nullptr) << "a launch inside a launch";
  Scheduler scheduler(launch, variables, thread);
  running = &scheduler;
  absl::Status status = scheduler.Run();
  running = nullptr;
  return status;
}

}  // namespace duotone::codegen::cuda
