// A launch: its blocks on the host's threads, the warps of a block in turns, its barriers.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/integer.h"
#include "runtime/emulator/barrier.h"
#include "runtime/emulator/counter_report.h"
#include "runtime/emulator/warp.h"
#include "runtime/emulator/warp_loop.h"
#include "runtime/kernel.h"

namespace duotone::emulator {
namespace {

// Blocks with errors, after which a launch starts no further ones: what they would report is known.
constexpr int kMaxFailedBlocks = 64;

// Everything a host thread needs to run blocks, one after the other.
class BlockRunner {
 public:
  BlockRunner(const Launch& launch, bool is_counted);

  // False if the block had to be given up.
  bool Run(int64_t linear);
  int64_t executed() const { return executed_; }
  // The block given up last was in an endless loop.
  bool was_endless() const { return was_endless_; }
  const std::vector<InstructionCounters>& counters() const { return counters_; }

 private:
  void StartBlock(int64_t linear);
  void FillRegisters(Warp& warp);
  void FillSpecial(Warp& warp, const Executable::SpecialRow& special);
  // The turn of one warp. False if the block cannot go on.
  bool Turn(Warp& warp);
  int64_t TurnLength();

  const Launch& launch_;
  const Executable& executable_;
  Block block_;
  BarrierSet barriers_;
  std::vector<InstructionCounters> counters_;
  std::vector<uint8_t> registers_;
  std::vector<uint8_t> prototype_;  // a register file with its constants
  std::vector<uint8_t> local_;
  std::vector<uint8_t> local_written_;
  std::vector<WarpState> states_;
  std::vector<int> order_;
  int64_t executed_ = 0;
  int64_t block_executed_ = 0;
  bool was_endless_ = false;
};

template <typename T>
void FillRow(uint8_t* row, T value) {
  for (int i = 0; i < kLanes; ++i) std::memcpy(row + i * sizeof(T), &value, sizeof(T));
}

void FillConstant(uint8_t* row, int bytes, uint64_t bits) {
  switch (bytes) {
    case 0: {
      const Mask mask = bits != 0 ? kAllLanes : 0;
      std::memcpy(row, &mask, sizeof(mask));
      break;
    }
    case 1:
      FillRow(row, static_cast<uint8_t>(bits));
      break;
    case 2:
      FillRow(row, static_cast<uint16_t>(bits));
      break;
    case 4:
      FillRow(row, static_cast<uint32_t>(bits));
      break;
    default:
      FillRow(row, bits);
  }
}

BlockRunner::BlockRunner(const Launch& launch, bool is_counted)
    : launch_(launch), executable_(*launch.executable) {
  const auto warps = static_cast<size_t>(CeilDiv(launch.block_threads(), kLanes));
  if (is_counted) counters_.resize(executable_.codes.size());
  prototype_.resize(static_cast<size_t>(executable_.register_bytes), 0);
  for (const Executable::ConstantRow& constant : executable_.constants) {
    FillConstant(prototype_.data() + constant.row, constant.bytes, constant.bits);
  }
  // Rows are aligned to 64 bytes, the vector is not.
  registers_.resize(warps * prototype_.size() + 64);
  local_.resize(warps * kLanes * static_cast<size_t>(executable_.local_bytes));
  local_written_.resize(local_.size());
  block_.launch = &launch;
  block_.counters = is_counted ? &counters_ : nullptr;
  block_.warps.resize(warps);
  states_.resize(warps);
  order_.resize(warps);
}

// The value of a special register in one lane.
uint64_t SpecialValue(const Launch& launch, const Block& block, const Warp& warp, int lane,
                      Special special) {
  const int64_t thread = int64_t{warp.index} * kLanes + lane;
  const std::array<int64_t, 3>& size = launch.block;
  const Mask bit = Mask{1} << lane;
  switch (special) {
    case Special::kTidX:
      return static_cast<uint64_t>(thread % size[0]);
    case Special::kTidY:
      return static_cast<uint64_t>(thread / size[0] % size[1]);
    case Special::kTidZ:
      return static_cast<uint64_t>(thread / (size[0] * size[1]));
    case Special::kNtidX:
      return static_cast<uint64_t>(size[0]);
    case Special::kNtidY:
      return static_cast<uint64_t>(size[1]);
    case Special::kNtidZ:
      return static_cast<uint64_t>(size[2]);
    case Special::kCtaidX:
      return static_cast<uint64_t>(block.index[0]);
    case Special::kCtaidY:
      return static_cast<uint64_t>(block.index[1]);
    case Special::kCtaidZ:
      return static_cast<uint64_t>(block.index[2]);
    case Special::kNctaidX:
      return static_cast<uint64_t>(launch.grid[0]);
    case Special::kNctaidY:
      return static_cast<uint64_t>(launch.grid[1]);
    case Special::kNctaidZ:
      return static_cast<uint64_t>(launch.grid[2]);
    case Special::kLaneid:
      return static_cast<uint64_t>(lane);
    case Special::kWarpid:
      return static_cast<uint64_t>(warp.index);
    case Special::kNwarpid:
      return block.warps.size();
    case Special::kSmid:
      return 0;
    case Special::kNsmid:
      return 1;
    case Special::kGridid:
      return launch.number;
    case Special::kLanemaskEq:
      return bit;
    case Special::kLanemaskLt:
      return bit - 1;
    case Special::kLanemaskLe:
      return bit | (bit - 1);
    case Special::kLanemaskGt:
      return ~(bit | (bit - 1));
    case Special::kLanemaskGe:
      return ~(bit - 1);
    case Special::kTotalSmemSize:
      return static_cast<uint64_t>(launch.executable->static_shared_bytes +
                                   launch.dynamic_shared_bytes);
    case Special::kDynamicSmemSize:
      return static_cast<uint64_t>(launch.dynamic_shared_bytes);
    case Special::kClock:
    case Special::kClockHi:
    case Special::kClock64:
    case Special::kGlobaltimer:
      return 0;  // read when they are executed
  }
  return 0;
}

void BlockRunner::FillSpecial(Warp& warp, const Executable::SpecialRow& special) {
  uint8_t* row = warp.registers + special.row;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t value = SpecialValue(launch_, block_, warp, lane, special.special);
    std::memcpy(row + lane * special.bytes, &value, static_cast<size_t>(special.bytes));
  }
}

// Registers begin as zeros; nothing tells whether a program relies on that.
void BlockRunner::FillRegisters(Warp& warp) {
  std::memcpy(warp.registers, prototype_.data(), prototype_.size());
  for (const Executable::SpecialRow& special : executable_.specials) FillSpecial(warp, special);
}

void BlockRunner::StartBlock(int64_t linear) {
  block_.linear = linear;
  block_.fences = 0;
  block_.index = {linear % launch_.grid[0], linear / launch_.grid[0] % launch_.grid[1],
                  linear / (launch_.grid[0] * launch_.grid[1])};
  const auto warps = static_cast<int>(block_.warps.size());
  block_.shared.Reset(executable_.static_shared_bytes + launch_.dynamic_shared_bytes, warps,
                      launch_.options->checks);
  barriers_.Reset();
  if (launch_.options->schedule == Schedule::kAdversarial) {
    std::seed_seq seed{launch_.options->seed, uint64_t{launch_.number},
                       static_cast<uint64_t>(linear)};
    block_.random.seed(seed);
  }
  std::fill(local_written_.begin(), local_written_.end(), 0);
  const int64_t threads = launch_.block_threads();
  auto* first = reinterpret_cast<uint8_t*>(
      RoundUp(static_cast<int64_t>(reinterpret_cast<uintptr_t>(registers_.data())), 64));
  const size_t local_bytes = kLanes * static_cast<size_t>(executable_.local_bytes);
  for (int i = 0; i < warps; ++i) {
    Warp& warp = block_.warps[static_cast<size_t>(i)];
    warp.block = &block_;
    warp.index = i;
    const int64_t count = std::min<int64_t>(kLanes, threads - int64_t{i} * kLanes);
    warp.lanes = count == kLanes ? kAllLanes : (Mask{1} << count) - 1;
    warp.registers = first + static_cast<size_t>(i) * prototype_.size();
    warp.local = local_.data() + static_cast<size_t>(i) * local_bytes;
    warp.local_written = local_written_.data() + static_cast<size_t>(i) * local_bytes;
    FillRegisters(warp);
    StartWarp(warp);
    states_[static_cast<size_t>(i)] = WarpState::kRunning;
  }
}

int64_t BlockRunner::TurnLength() {
  // A warp that waits in a loop for another of its block must not use up the budget: CUDA promises
  // that the other gets on.
  constexpr int64_t kLongTurn = 1 << 14;
  if (launch_.options->schedule == Schedule::kRoundRobin) return kLongTurn;
  return std::uniform_int_distribution<int64_t>(1, 64)(block_.random);
}

bool BlockRunner::Turn(Warp& warp) {
  WarpState& state = states_[static_cast<size_t>(warp.index)];
  const int64_t left = launch_.options->instruction_budget - block_executed_;
  const int64_t before = warp.executed;
  state = RunWarp(warp, std::min(TurnLength(), left));
  block_executed_ += warp.executed - before;
  if (state == WarpState::kFailed) return false;
  if (state == WarpState::kRunning && block_executed_ >= launch_.options->instruction_budget) {
    warp.Report(
        CodeOf(warp, warp.fragments.front()), ProblemKind::kBudget, warp.fragments.front().lanes, 0,
        absl::StrFormat(
            "the block has executed %d instructions of warps (the option budget allows more)",
            block_executed_));
    was_endless_ = true;
    return false;
  }
  if (state == WarpState::kBarrier) return barriers_.Arrive(warp, block_, states_);
  if (state == WarpState::kExited) barriers_.Exit(block_, states_);
  return true;
}

bool BlockRunner::Run(int64_t linear) {
  StartBlock(linear);
  block_executed_ = 0;
  std::iota(order_.begin(), order_.end(), 0);
  bool is_whole = true;
  for (;;) {
    if (launch_.options->schedule == Schedule::kAdversarial) {
      std::shuffle(order_.begin(), order_.end(), block_.random);
    }
    bool has_run = false;
    for (const int i : order_) {
      if (states_[static_cast<size_t>(i)] != WarpState::kRunning) continue;
      has_run = true;
      is_whole = Turn(block_.warps[static_cast<size_t>(i)]);
      if (!is_whole) break;
    }
    if (!has_run || !is_whole) break;
  }
  executed_ += block_executed_;
  if (!is_whole) return false;
  return barriers_.CheckAllLeft(block_, states_);
}

// Which block is the i-th to start.
std::vector<int64_t> BlockOrder(const Launch& launch) {
  std::vector<int64_t> order;
  if (launch.options->schedule == Schedule::kRoundRobin) return order;
  order.resize(static_cast<size_t>(launch.blocks()));
  std::iota(order.begin(), order.end(), 0);
  std::seed_seq seed{launch.options->seed, uint64_t{launch.number}};
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

}  // namespace

void Warp::Report(const Code& code, ProblemKind kind, Mask reported, uint64_t address,
                  std::string what) {
  const Launch& launch = *block->launch;
  Problem problem;
  problem.kind = kind;
  problem.what = std::move(what);
  problem.kernel = launch.executable->name;
  if (launch.note != nullptr && launch.note->launch != nullptr) {
    problem.node = launch.note->launch->node;
  }
  if (launch.module != nullptr && code.instruction != nullptr) {
    problem.place = PlaceOf(*launch.module, launch.note.get(), *code.instruction);
    problem.line = code.instruction->line;
    problem.text = launch.module->TextOf(*code.instruction);
  }
  problem.block = block->index;
  problem.warp = index;
  problem.lanes = reported;
  problem.address = address;
  launch.problems->Add(std::move(problem));
}

int64_t Execute(const Launch& launch, std::vector<InstructionCounters>& counters) {
  const int64_t blocks = launch.blocks();
  const std::vector<int64_t> order = BlockOrder(launch);
  const int wanted = launch.options->threads > 0
                         ? launch.options->threads
                         : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto threads = static_cast<int>(std::min<int64_t>(wanted, blocks));
  std::atomic<int64_t> next{0};
  std::atomic<int> failed{0};
  std::atomic<int64_t> executed{0};
  std::mutex mutex;
  const auto work = [&] {
    BlockRunner runner(launch, !counters.empty());
    while (failed.load(std::memory_order_relaxed) < kMaxFailedBlocks) {
      const int64_t i = next.fetch_add(1);
      if (i >= blocks) break;
      const int64_t block = order.empty() ? i : order[static_cast<size_t>(i)];
      if (runner.Run(block)) continue;
      // Others would use up their budget too.
      failed.fetch_add(runner.was_endless() ? kMaxFailedBlocks : 1);
    }
    executed.fetch_add(runner.executed());
    const std::lock_guard<std::mutex> lock(mutex);
    for (size_t i = 0; i < counters.size(); ++i) counters[i].Add(runner.counters()[i]);
  };
  std::vector<std::thread> workers;
  for (int i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  return executed.load();
}

}  // namespace duotone::emulator
