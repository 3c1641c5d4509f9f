#include "runtime/emulator/attributes.h"

#include <algorithm>
#include <vector>

#include "base/integer.h"
#include "runtime/cuda/driver.h"
#include "runtime/emulator/machine.h"

namespace duotone::emulator {
namespace {

// Registers are given to a warp in units of 256, 8 per thread.
constexpr int kRegisterStep = 8;
constexpr int kFewestRegisters = 16;

// The instructions between which a register holds a value.
struct Life {
  int first = -1;
  int last = -1;
};

std::vector<Life> LivesOf(const PtxFunction& function) {
  std::vector<Life> lives(function.registers.size());
  const auto use = [&](int reg, int at) {
    if (reg < 0 || static_cast<size_t>(reg) >= lives.size()) return;
    if (lives[reg].first < 0) lives[reg].first = at;
    lives[reg].last = at;
  };
  for (size_t i = 0; i < function.body.size(); ++i) {
    const int at = static_cast<int>(i);
    use(function.body[i].guard, at);
    for (const OperandGroup& group : function.body[i].operands) {
      for (const Operand& operand : group) {
        const bool is_register =
            operand.kind == Operand::Kind::kRegister || operand.kind == Operand::Kind::kAddress;
        if (is_register) use(operand.index, at);
      }
    }
  }
  // What lives on entering a loop and is used in it lives to its end.
  for (size_t i = 0; i < function.body.size(); ++i) {
    if (function.body[i].op != Op::kBra || function.body[i].operands.empty()) continue;
    const OperandGroup& target = function.body[i].operands[0];
    if (target.empty() || target[0].kind != Operand::Kind::kLabel) continue;
    const int begin = target[0].index, end = static_cast<int>(i);
    for (Life& life : lives) {
      if (life.first < begin && life.last >= begin) life.last = std::max(life.last, end);
    }
  }
  return lives;
}

}  // namespace

std::optional<int> DeviceAttribute(const GpuTarget& target, int attribute) {
  // Two transfers per clock over a bus of so many bits, which with the memory clock give the
  // bandwidth of the row; neither is that of the device by itself.
  constexpr int kBusBits = 1024;
  switch (attribute) {
    case runtime::kCuMaxThreadsPerBlock:
      return target.max_block_threads;
    case 2:  // MAX_BLOCK_DIM_X, _Y, _Z
    case 3:
    case 4:
      return static_cast<int>(kMaxBlockSize[attribute - 2]);
    case 5:  // MAX_GRID_DIM_X, _Y, _Z
    case 6:
    case 7:
      return static_cast<int>(kMaxGridSize[attribute - 5]);
    case 8:  // MAX_SHARED_MEMORY_PER_BLOCK
      return static_cast<int>(runtime::kPlainSharedBytes);
    case 10:  // WARP_SIZE
      return kLanes;
    case 12:  // MAX_REGISTERS_PER_BLOCK
    case 82:  // MAX_REGISTERS_PER_MULTIPROCESSOR
      return target.registers;
    case runtime::kCuClockRate:
      return static_cast<int>(target.clock_ghz * 1e6);
    case runtime::kCuMultiprocessorCount:
      return target.sms;
    case runtime::kCuMemoryClockRate:
      return static_cast<int>(target.dram_gb_s * 1e6 * 8 / (2 * kBusBits));
    case runtime::kCuGlobalMemoryBusWidth:
      return kBusBits;
    case 39:  // MAX_THREADS_PER_MULTIPROCESSOR
      return target.max_warps * kLanes;
    case runtime::kCuComputeCapabilityMajor:
      return target.compute / 10;
    case runtime::kCuComputeCapabilityMinor:
      return target.compute % 10;
    case runtime::kCuMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(target.shared_bytes);
    case runtime::kCuMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(target.max_block_shared_bytes);
    case 106:  // MAX_BLOCKS_PER_MULTIPROCESSOR
      return target.max_blocks;
    case 111:  // RESERVED_SHARED_MEMORY_PER_BLOCK
      return static_cast<int>(target.reserved_shared_bytes);
    default:
      return std::nullopt;
  }
}

int EstimateRegisters(const Executable& kernel, const GpuTarget& target) {
  const PtxFunction& function = *kernel.function;
  // How many words begin to live at an instruction, and how many no longer do.
  std::vector<int> change(function.body.size() + 2);
  const std::vector<Life> lives = LivesOf(function);
  for (size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].first < 0) continue;
    const int words = static_cast<int>(CeilDiv(TypeBytes(function.registers[i].type), 4));
    change[lives[i].first] += words;
    change[lives[i].last + 1] -= words;
  }
  int alive = 0, most = 0;
  for (int words : change) most = std::max(most, alive += words);
  const int threads = std::clamp(kernel.max_threads, 1, target.max_block_threads);
  const int fitting = target.registers / threads;
  const int limit =
      std::min(target.max_registers_per_thread, fitting / kRegisterStep * kRegisterStep);
  return std::clamp(static_cast<int>(RoundUp(most, kRegisterStep)), kFewestRegisters,
                    std::max(kFewestRegisters, limit));
}

}  // namespace duotone::emulator
