// A launch while it runs: its blocks, their warps, and what handlers see of them.
#ifndef DUOTONE_RUNTIME_EMULATOR_WARP_H_
#define DUOTONE_RUNTIME_EMULATOR_WARP_H_

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/emulator/code.h"
#include "runtime/emulator/counters.h"
#include "runtime/emulator/problem.h"
#include "runtime/emulator/shared_memory.h"

namespace duotone::emulator {

class GlobalMemory;

// One launch; the same for all its blocks, which run on several host threads at once.
struct Launch {
  const PtxModule* module = nullptr;
  const Executable* executable = nullptr;
  const EmulatorOptions* options = nullptr;
  GlobalMemory* memory = nullptr;
  ProblemLog* problems = nullptr;
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t dynamic_shared_bytes = 0;
  std::vector<uint8_t> parameters;  // Executable::parameter_bytes
  // What the launch is about, where the runtime said so; may be null.
  std::shared_ptr<const runtime::LaunchNote> note;
  uint32_t number = 0;  // of the launch, from 1

  int64_t block_threads() const { return block[0] * block[1] * block[2]; }
  int64_t blocks() const { return grid[0] * grid[1] * grid[2]; }
};

// Lanes of a warp that are at the same instruction, with the same calls behind them.
struct Fragment {
  enum class State : uint8_t {
    kRunning,
    kMembers,  // waits for lanes of other fragments at `pc`
    kBarrier,  // waits at the barrier instruction at `pc`
  };
  Mask lanes = 0;
  int32_t pc = 0;
  int32_t join = -1;     // in Warp::joins: where it meets others next; -1: nowhere
  int32_t join_pc = -1;  // of that join
  State state = State::kRunning;
  std::vector<int32_t> returns;  // of the calls it is in
};

// A place where lanes that took different ways come together.
struct Join {
  int32_t pc = 0;
  int32_t outer = -1;  // the join that was next before the ways parted
  Mask expected = 0;   // lanes that have not exited on their way
  Mask arrived = 0;
  size_t depth = 0;  // of calls
};

struct Block;

struct Warp {
  Block* block = nullptr;
  int index = 0;   // in the block
  Mask lanes = 0;  // threads that exist
  Mask exited = 0;
  Mask carry = 0;                    // each lane's condition code, of add.cc and the like
  uint8_t* registers = nullptr;      // Executable::register_bytes
  uint8_t* local = nullptr;          // lane l's local memory: local + l * Executable::local_bytes
  uint8_t* local_written = nullptr;  // a byte per byte of it: nonzero once written
  int64_t executed = 0;              // instructions so far
  // Whether lanes have read what another may be about to write (Flow::kPoll) since the last look
  // for lanes that wait for each other in vain, and at which `executed` the next one is due.
  bool has_polled = false;
  int64_t next_look = 0;
  bool joins_opened = false;  // lanes have left a join without the others
  // The warp's lanes that have not exited and do not wait at a join, and those joins
  // (runtime/emulator/warp_loop.h).
  std::vector<Fragment> fragments;
  std::vector<Join> joins;

  template <typename T>
  T* Row(uint32_t row) {
    return reinterpret_cast<T*>(registers + row);
  }
  // The lanes that have not exited.
  Mask live() const { return lanes & ~exited; }
  // The mask of a predicate's row.
  Mask& Predicate(uint32_t row) { return *reinterpret_cast<Mask*>(registers + row); }
  // The lanes in which a predicate operand holds, its `!` heeded; `row` is its place in Code::row.
  Mask PredicateOperand(const Code& code, size_t operand, size_t row) {
    const Mask value = Predicate(code.row[row]);
    return code.instruction->operands[operand].front().negated ? ~value : value;
  }
  // Writes a predicate's row, if there is one, in the lanes of `mask`.
  void SetPredicate(uint32_t row, Mask mask, Mask value) {
    if (row == kNoRow) return;
    Mask& predicate = Predicate(row);
    predicate = (predicate & ~mask) | (value & mask);
  }
  // The addresses of an address operand, for all lanes: base + offset.
  std::array<uint64_t, kLanes> Addresses(const Code& code, int operand_row) {
    return AddressesAt(code.row[operand_row], code.address_bytes, code.offset);
  }
  // Of the second address of cp.async.
  std::array<uint64_t, kLanes> SecondAddresses(const Code& code, int operand_row) {
    return AddressesAt(code.row[operand_row], code.second_address_bytes, code.second_offset);
  }
  std::array<uint64_t, kLanes> AddressesAt(uint32_t row, int bytes, int64_t offset) {
    std::array<uint64_t, kLanes> addresses;
    if (bytes == 8) {
      const uint64_t* base = Row<uint64_t>(row);
      for (int i = 0; i < kLanes; ++i) addresses[i] = base[i] + static_cast<uint64_t>(offset);
    } else {
      const uint32_t* base = Row<uint32_t>(row);
      for (int i = 0; i < kLanes; ++i) addresses[i] = base[i] + static_cast<uint64_t>(offset);
    }
    return addresses;
  }

  // The counters of a code; null where none are wanted.
  InstructionCounters* CountersOf(const Code& code);
  // Reports a problem of some lanes; the sentence says what, with values. Never stops the warp.
  void Report(const Code& code, ProblemKind kind, Mask lanes, uint64_t address, std::string what);
};

struct Block {
  const Launch* launch = nullptr;
  std::array<int64_t, 3> index = {0, 0, 0};
  int64_t linear = 0;  // x fastest
  int64_t fences = 0;  // that its threads have executed, of a reach of the GPU or more
  std::vector<Warp> warps;
  SharedMemory shared;
  std::vector<InstructionCounters>* counters = nullptr;  // by code; null: not counted
  std::mt19937_64 random;                                // of Schedule::kAdversarial
};

inline InstructionCounters* Warp::CountersOf(const Code& code) {
  return block->counters == nullptr ? nullptr : &(*block->counters)[code.index];
}

// Runs all blocks on the host's threads and returns how many instructions their warps executed.
// `counters` has one element per code, or is empty where nothing is to be counted; they are added
// to. Problems go to launch.problems.
int64_t Execute(const Launch& launch, std::vector<InstructionCounters>& counters);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_WARP_H_
