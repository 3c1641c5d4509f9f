// A program on one GPU: its memory, its modules, and its steps as work for a stream, recorded once
// as a CUDA graph. See runtime/cuda/cuda_device.h.
#ifndef DUOTONE_RUNTIME_CUDA_CUDA_PROGRAM_H_
#define DUOTONE_RUNTIME_CUDA_CUDA_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cuda/cuda_context.h"
#include "runtime/cuda/launch_note.h"
#include "runtime/device.h"

namespace duotone::runtime {

// Refuses programs with steps that a GPU cannot run, or with kernels that are not compiled.
absl::Status CheckCudaProgram(const Program& program, std::string_view device);

class CudaProgram final : public LoadedProgram {
 public:
  // The context outlives the program and has been entered.
  CudaProgram(CudaContext* context, std::shared_ptr<const Program> program, bool use_graphs)
      : context_(context), program_(std::move(program)), use_graphs_(use_graphs) {}
  ~CudaProgram() override;

  absl::Status Prepare(StateStore& state, const std::function<void(const std::string&)>& log);
  // Called first when the program goes, which holds the lock until its memory is back.
  void set_on_destroy(std::function<std::unique_lock<std::mutex>()> callback) {
    on_destroy_ = std::move(callback);
  }

  const Program& program() const override { return *program_; }
  DeviceMemory memory(int buffer) const override {
    return {reinterpret_cast<void*>(addresses_[buffer]), program_->buffers[buffer].bytes};
  }

  // Gives one run to the stream.
  absl::Status Run(const RunOptions& options);
  // After the device has been waited for: the first error in the data since the last call, as a
  // sentence with values and place; clears it.
  absl::Status TakeError();
  // Copies an output that every run brings to the host by itself; false if this is none. The
  // device has been waited for.
  bool ReadMirror(const DeviceMemory& memory, void* to) const;
  // `memory` is changed by somebody else.
  void DropMirror(const DeviceMemory& memory);

 private:
  struct LoadedKernel {
    CuModule module = nullptr;
    CuFunction function = nullptr;
  };
  // Bytes that are copied to `host` at the end of every run.
  struct Mirror {
    CuDeviceAddress from = 0;
    int64_t bytes = 0;
    char* host = nullptr;
    bool valid = false;  // since the last run nobody else has written them
  };

  // Loading, in this order.
  absl::Status LoadKernels();
  absl::Status LoadKernel(const Kernel& kernel, LoadedKernel& loaded);
  absl::Status CheckLaunch(const KernelLaunch& launch) const;
  absl::Status AllocateArena(const std::function<void(const std::string&)>& log);
  absl::Status Locate(StateStore& state);
  absl::Status PlanFills();
  absl::Status FillConstants();
  absl::Status UploadRepeated(CuDeviceAddress to, const std::vector<uint8_t>& element,
                              int64_t bytes);
  absl::Status BindArguments();
  uint64_t ValueOf(const LaunchArgument& argument, CuDeviceAddress& next_table);
  absl::Status PlanMirrors();

  absl::Status SetRandom(const RunOptions& options);
  // Gives all steps to the stream, one by one.
  absl::Status Enqueue();
  absl::Status EnqueueAction(size_t step, const KernelLaunch& launch);
  absl::Status EnqueueAction(size_t step, const Copy& copy);
  absl::Status EnqueueAction(size_t step, const Fill& fill);
  absl::Status EnqueueAction(size_t, const HostCall&) { return NotRunHere(); }
  absl::Status EnqueueAction(size_t, const MatMul&) { return NotRunHere(); }
  absl::Status NotRunHere() const;
  absl::Status Record();
  CuDeviceAddress AddressOf(const BufferAddress& place) const {
    return addresses_[place.buffer] + static_cast<CuDeviceAddress>(place.offset);
  }

  CudaContext* context_;
  std::shared_ptr<const Program> program_;
  const bool use_graphs_;
  std::function<std::unique_lock<std::mutex>()> on_destroy_;

  CuDeviceAddress arena_ = 0;
  std::vector<CuDeviceAddress> addresses_;  // by buffer
  std::vector<LoadedKernel> kernels_;       // by kernel
  // The launch's parameters by step, 8 bytes each, and pointers to them as the driver wants
  // them.
  std::vector<std::vector<uint64_t>> values_;
  std::vector<std::vector<void*>> parameters_;
  // By step; empty for devices that take no notes.
  std::vector<std::shared_ptr<const LaunchNote>> notes_;

  // One allocation for what belongs to no buffer: random state, error record, tables of
  // addresses.
  CuDeviceAddress fixed_ = 0;
  int64_t fixed_bytes_ = 0;
  CuDeviceAddress random_ = 0;
  CuDeviceAddress errors_ = 0;
  bool uses_random_ = false;
  bool uses_errors_ = false;
  RandomState random_value_;  // on the device, but for a position in the state
  bool random_is_set_ = false;
  std::vector<std::pair<CuDeviceAddress, int64_t>> patterns_;  // by step; 0 for most

  void* pinned_ = nullptr;        // the error record, then the mirrors' bytes
  std::vector<Mirror> mirrors_;   // by output
  std::vector<Mirror> mirrored_;  // the ranges that hold them

  CuGraphExec graph_ = nullptr;
};

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_CUDA_PROGRAM_H_
