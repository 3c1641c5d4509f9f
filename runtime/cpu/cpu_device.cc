#include "runtime/cpu/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/integer.h"
#include "base/status.h"
#include "runtime/cpu/matmul.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/state_store.h"

namespace duotone::runtime {
namespace {

// Bytes that one block of a copy moves.
constexpr int64_t kCopyBlock = 1 << 16;

// The memory this process may use: the machine's, or its control group's limit.
int64_t MachineMemory() {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  std::ifstream file("/sys/fs/cgroup/memory.max");
  int64_t limit = 0;
  if (file >> limit && limit > 0) bytes = std::min(bytes, limit);
  return bytes;
}

void* AddressAt(DeviceMemory memory, int64_t offset) {
  return static_cast<char*>(memory.address) + offset;
}

// Repeats the `size` bytes at `element` over `bytes` bytes.
void Repeat(const uint8_t* element, size_t size, char* to, int64_t bytes) {
  if (bytes == 0) return;
  std::memcpy(to, element, size);
  // Doubles what is filled already.
  for (int64_t done = static_cast<int64_t>(size); done < bytes; done *= 2) {
    std::memcpy(to + done, to, static_cast<size_t>(std::min(done, bytes - done)));
  }
}

class CpuProgram final : public LoadedProgram {
 public:
  CpuProgram(Device* device, std::shared_ptr<const Program> program)
      : device_(device), program_(std::move(program)) {}
  ~CpuProgram() override { device_->Free(arena_); }

  const Program& program() const override { return *program_; }
  DeviceMemory memory(int buffer) const override {
    return {addresses_[buffer], program_->buffers[buffer].bytes};
  }

  absl::Status Prepare(StateStore& state);
  absl::Status Run(const RunOptions& options, ThreadPool& pool);

 private:
  absl::Status Locate(StateStore& state);
  void FillConstants();
  void BindKernels();
  MatMulData DataOf(const MatMul& mm) const;

  absl::Status RunAction(size_t step, const HostCall& call, ThreadPool& pool);
  absl::Status RunAction(size_t step, const MatMul& mm, ThreadPool& pool);
  absl::Status RunAction(size_t step, const Copy& copy, ThreadPool& pool);
  absl::Status RunAction(size_t step, const Fill& fill, ThreadPool& pool);
  absl::Status RunAction(size_t step, const KernelLaunch& launch, ThreadPool& pool);

  Device* device_;
  std::shared_ptr<const Program> program_;
  DeviceMemory arena_;
  std::vector<void*> addresses_;                       // by buffer
  std::vector<std::unique_ptr<BoundKernel>> kernels_;  // by step; null for other steps
  RandomState random_;                                 // of the current run
};

absl::Status CpuProgram::Prepare(StateStore& state) {
  DUOTONE_RETURN_IF_ERROR(CheckProgram(*program_));
  DUOTONE_ASSIGN_OR_RETURN(
      arena_, device_->Allocate(program_->arena_bytes,
                                absl::StrFormat("the buffers of program @%s", program_->name)));
  DUOTONE_RETURN_IF_ERROR(Locate(state));
  FillConstants();
  BindKernels();
  return absl::OkStatus();
}

absl::Status CpuProgram::Locate(StateStore& state) {
  addresses_.resize(program_->buffers.size());
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const Buffer& buffer = program_->buffers[i];
    if (buffer.kind != BufferKind::kState) addresses_[i] = AddressAt(arena_, buffer.offset);
  }
  for (const NamedBuffer& named : program_->state) {
    DUOTONE_ASSIGN_OR_RETURN(const StateStore::Entry* entry, state.EntryFor(*program_, named));
    addresses_[named.buffer] = entry->memory.address;
  }
  for (size_t i = 0; i < addresses_.size(); ++i) {
    addresses_[i] = addresses_[program_->RootOf(static_cast<int>(i))];
  }
  return absl::OkStatus();
}

void CpuProgram::FillConstants() {
  for (const Constant& constant : program_->constants) {
    Repeat(constant.bytes.data(), constant.bytes.size(),
           static_cast<char*>(addresses_[constant.buffer]),
           program_->buffers[constant.buffer].bytes);
  }
}

void CpuProgram::BindKernels() {
  kernels_.resize(program_->steps.size());
  std::vector<void*> buffers;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const auto* call = std::get_if<HostCall>(&program_->steps[i].action);
    if (call == nullptr) continue;
    buffers.clear();
    for (int operand : call->operands) buffers.push_back(addresses_[operand]);
    for (int result : call->results) buffers.push_back(addresses_[result]);
    kernels_[i] =
        call->kernel->Bind(buffers, call->scratch >= 0 ? addresses_[call->scratch] : nullptr);
  }
}

absl::Status CpuProgram::Run(const RunOptions& options, ThreadPool& pool) {
  random_ = {options.seed, options.step, options.micro_batch};
  if (program_->rng_position >= 0) {
    std::memcpy(&random_.step, addresses_[program_->rng_position], sizeof(random_.step));
  }
  for (size_t i = 0; i < program_->steps.size(); ++i) {
    const Step& step = program_->steps[i];
    if (step.guard >= 0 && *static_cast<const uint8_t*>(addresses_[step.guard]) == 0) continue;
    absl::Status status =
        std::visit([&](const auto& action) { return RunAction(i, action, pool); }, step.action);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CpuProgram::RunAction(size_t step, const HostCall& call, ThreadPool& pool) {
  BoundKernel& kernel = *kernels_[step];
  const int64_t blocks = CeilDiv(call.items, call.grain);
  pool.ParallelFor(blocks, [&](int64_t i) {
    const int64_t begin = i * call.grain;
    kernel.Run(random_, begin, std::min(begin + call.grain, call.items));
  });
  return kernel.failed() ? kernel.TakeError() : absl::OkStatus();
}

MatMulData CpuProgram::DataOf(const MatMul& mm) const {
  auto wide = [&](int operand, int buffer) {
    return program_->buffers[operand].dtype == DType::kF32
               ? nullptr
               : static_cast<float*>(addresses_[buffer]);
  };
  return {.a = addresses_[mm.a],
          .b = addresses_[mm.b],
          .result = addresses_[mm.result],
          .wide_a = wide(mm.a, mm.wide_a),
          .wide_b = wide(mm.b, mm.wide_b),
          .wide_result = wide(mm.result, mm.wide_result),
          .dtype_a = program_->buffers[mm.a].dtype,
          .dtype_b = program_->buffers[mm.b].dtype,
          .dtype_result = program_->buffers[mm.result].dtype};
}

absl::Status CpuProgram::RunAction(size_t, const MatMul& mm, ThreadPool& pool) {
#ifdef DUOTONE_HAS_ONEDNN
  return RunMatMul(mm, DataOf(mm), pool);
#else
  (void)mm;
  (void)pool;
  return absl::OkStatus();
#endif
}

absl::Status CpuProgram::RunAction(size_t, const Copy& copy, ThreadPool& pool) {
  const int64_t bytes = program_->buffers[copy.to].bytes;
  pool.ParallelFor(CeilDiv(bytes, kCopyBlock), [&](int64_t i) {
    const int64_t begin = i * kCopyBlock;
    std::memcpy(static_cast<char*>(addresses_[copy.to]) + begin,
                static_cast<const char*>(addresses_[copy.from]) + begin,
                static_cast<size_t>(std::min(kCopyBlock, bytes - begin)));
  });
  return absl::OkStatus();
}

// Load refuses such programs.
absl::Status CpuProgram::RunAction(size_t, const KernelLaunch& launch, ThreadPool&) {
  return Internal("a launch of %%%s on the host", launch.node);
}

absl::Status CpuProgram::RunAction(size_t, const Fill& fill, ThreadPool&) {
  Repeat(fill.element.data(), fill.element.size(), static_cast<char*>(addresses_[fill.to]),
         program_->buffers[fill.to].bytes);
  return absl::OkStatus();
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(CpuDeviceOptions options)
      : name_(std::move(options.name)),
        limit_(options.memory_limit > 0 ? std::min(options.memory_limit, MachineMemory())
                                        : MachineMemory()),
        pool_(options.threads) {}
  ~CpuDevice() override { DUOTONE_CHECK(used_ == 0) << used_ << " bytes are still in use"; }

  std::string_view name() const override { return name_; }
  absl::StatusOr<DeviceMemory> Allocate(int64_t bytes, std::string_view what) override;
  void Free(DeviceMemory memory) override;
  absl::Status Upload(DeviceMemory memory, const void* from, int64_t bytes) override;
  absl::Status Download(DeviceMemory memory, void* to, int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(std::shared_ptr<const Program> program,
                                                      StateStore& state) override;
  absl::Status Run(LoadedProgram& program, const RunOptions& options) override;
  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  const std::string name_;
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
  std::mutex running_;  // one program at a time
  ThreadPool pool_;
};

absl::StatusOr<DeviceMemory> CpuDevice::Allocate(int64_t bytes, std::string_view what) {
  const int64_t used = used_.load();
  if (bytes > limit_ - used) {
    return ResourceExhausted("%s: %s needs %d bytes; %d of %d are in use", name_, what, bytes, used,
                             limit_);
  }
  // An empty tensor has an address too.
  const int64_t rounded = std::max<int64_t>(1, CeilDiv(bytes, kBufferAlignment)) * kBufferAlignment;
  void* address = std::aligned_alloc(kBufferAlignment, static_cast<size_t>(rounded));
  if (address == nullptr) {
    return ResourceExhausted("%s: %s needs %d bytes, which the system refuses", name_, what, bytes);
  }
  std::memset(address, 0, static_cast<size_t>(rounded));
  used_.fetch_add(bytes);
  return DeviceMemory{address, bytes};
}

void CpuDevice::Free(DeviceMemory memory) {
  if (memory.address == nullptr) return;
  std::free(memory.address);
  used_.fetch_sub(memory.bytes);
}

absl::Status CpuDevice::Upload(DeviceMemory memory, const void* from, int64_t bytes) {
  DUOTONE_CHECK(bytes == memory.bytes) << bytes << " bytes for " << memory.bytes;
  if (bytes > 0) std::memcpy(memory.address, from, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status CpuDevice::Download(DeviceMemory memory, void* to, int64_t bytes) {
  DUOTONE_CHECK(bytes == memory.bytes) << bytes << " bytes for " << memory.bytes;
  if (bytes > 0) std::memcpy(to, memory.address, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LoadedProgram>> CpuDevice::Load(
    std::shared_ptr<const Program> program, StateStore& state) {
  for (const Step& step : program->steps) {
    if (std::holds_alternative<KernelLaunch>(step.action)) {
      return InvalidArgument("%s: program @%s is made for a CUDA device", name_, program->name);
    }
    if (!CpuDeviceHasLibrary() && std::holds_alternative<MatMul>(step.action)) {
      return Unimplemented("%s: this build has no oneDNN, which program @%s calls for matmul",
                           name_, program->name);
    }
  }
  auto loaded = std::make_unique<CpuProgram>(this, std::move(program));
  DUOTONE_RETURN_IF_ERROR(loaded->Prepare(state));
  return loaded;
}

absl::Status CpuDevice::Run(LoadedProgram& program, const RunOptions& options) {
  std::lock_guard<std::mutex> lock(running_);
  return static_cast<CpuProgram&>(program).Run(options, pool_);
}

}  // namespace

std::unique_ptr<Device> CreateCpuDevice(CpuDeviceOptions options) {
  return std::make_unique<CpuDevice>(std::move(options));
}

bool CpuDeviceHasLibrary() {
#ifdef DUOTONE_HAS_ONEDNN
  return true;
#else
  return false;
#endif
}

}  // namespace duotone::runtime
