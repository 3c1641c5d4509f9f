// Runs PTX in tests: single instructions on rows of 32 lanes, and whole kernels on a Machine.
#ifndef DUOTONE_TESTS_RUNTIME_EMULATOR_LANE_TESTING_H_
#define DUOTONE_TESTS_RUNTIME_EMULATOR_LANE_TESTING_H_

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/emulator/machine.h"
#include "runtime/emulator/warp.h"

namespace duotone::emulator {

// The bits of one register in all lanes; of a predicate 0 or 1.
using Lanes = std::array<uint64_t, kLanes>;

struct TestRegister {
  std::string name;  // without the %
  Type type = Type::kB32;
  Lanes bits = {};
};

struct LineOptions {
  HandlerOptions handler;
  Mask mask = kAllLanes;
  uint64_t seed = 1;
};

// Executes instructions, one after the other and without a launch around them, and returns all
// registers as they are then:
//
//   RunLines("fma.rn.f32 %d, %a, %b, %c;",
//            {{"d", Type::kF32}, {"a", Type::kF32, Floats({1, 2})}, ...})["d"]
//
// A text that does not parse, or an instruction that nobody executes, fails the test and returns
// nothing.
std::map<std::string, Lanes> RunLines(std::string_view text,
                                      const std::vector<TestRegister>& registers,
                                      const LineOptions& options = {});

// A register in the lanes of as many warps as its bits need; all of a call have the same number.
struct TestColumn {
  std::string name;
  Type type = Type::kB32;
  std::vector<uint64_t> bits = {};  // none: a result
};

// The same for any number of lanes: parsed once, for tests over all operands.
std::map<std::string, std::vector<uint64_t>> RunColumns(std::string_view text,
                                                        const std::vector<TestColumn>& columns,
                                                        const LineOptions& options = {});

// The same in a block with shared memory, whose problems and counters can be looked at.
class BlockRunner {
 public:
  struct Options {
    EmulatorOptions emulator;
    HandlerOptions handler;
    int64_t shared_bytes = 0;
    int warps = 1;
  };
  explicit BlockRunner(const Options& options);
  ~BlockRunner();

  // Executes instructions for lanes of one warp.
  std::map<std::string, Lanes> Run(std::string_view text,
                                   const std::vector<TestRegister>& registers,
                                   Mask mask = kAllLanes, int warp = 0);
  std::map<std::string, std::vector<uint64_t>> RunColumns(std::string_view text,
                                                          const std::vector<TestColumn>& columns,
                                                          Mask mask = kAllLanes);
  // All warps pass a barrier.
  void Barrier();
  SharedMemory& shared() { return block_.shared; }
  GlobalMemory& memory() { return memory_; }
  std::vector<Problem> problems() const { return problems_.problems(); }
  // Their kinds' names and what they say, for comparison: "out of bounds: ...", one a line.
  std::string ProblemText() const;
  // Of the instructions of the latest Run, summed.
  InstructionCounters counters() const;

 private:
  // Parses the text once and executes it `times` times, from what `before(i, r)` says register r
  // holds before time i; `after(i, r, lanes)` takes what it holds then. False where that fails.
  bool Execute(std::string_view text, const std::vector<std::pair<std::string, Type>>& registers,
               Mask mask, int warp, size_t times,
               const std::function<Lanes(size_t, size_t)>& before,
               const std::function<void(size_t, size_t, const Lanes&)>& after);

  Options options_;
  GlobalMemory memory_;
  ProblemLog problems_;
  std::vector<std::unique_ptr<PtxModule>> modules_;
  Executable executable_;
  std::vector<InstructionCounters> counters_;  // by code
  size_t latest_ = 0;                          // where the latest Run's codes begin
  Launch launch_;
  Block block_;
};

// The first lanes as given; the others repeat them from the start.
Lanes Repeat(const std::vector<uint64_t>& bits);
Lanes Floats(const std::vector<float>& values);
Lanes Doubles(const std::vector<double>& values);
inline float FloatOf(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
inline double DoubleOf(uint64_t bits) { return std::bit_cast<double>(bits); }

// A module for `target` around an entry `k`: PtxEntry(".param .u64 x", ".reg .b64 %rd<4>;", "...
// ret;").
std::string PtxEntry(std::string_view parameters, std::string_view registers, std::string_view body,
                     std::string_view target = "sm_80", std::string_view module_variables = "");

// A machine with conveniences. Failures to load or to launch fail the test.
class PtxRunner {
 public:
  explicit PtxRunner(const EmulatorOptions& options = {}) : machine_(options) {}

  Machine& machine() { return machine_; }
  // False if the text does not parse or an instruction is not executed.
  bool Load(const std::string& ptx);
  // Device memory with these values; without values uninitialised.
  template <typename T>
  uint64_t Buffer(const std::vector<T>& values, std::string name = "buffer") {
    return Allocate(values.data(), values.size() * sizeof(T), std::move(name));
  }
  uint64_t Uninitialised(int64_t bytes, std::string name = "buffer") {
    return Allocate(nullptr, static_cast<size_t>(bytes), std::move(name));
  }
  template <typename T>
  std::vector<T> Read(uint64_t address, size_t count) {
    std::vector<T> values(count);
    ReadBytes(address, values.data(), count * sizeof(T));
    return values;
  }

  // Launches `k` of the loaded module. The parameters are 8 bytes each, of which the kernel's
  // parameter takes the first ones.
  bool Run(std::array<int64_t, 3> grid, std::array<int64_t, 3> block,
           const std::vector<uint64_t>& parameters, int64_t shared_bytes = 0,
           std::shared_ptr<const runtime::LaunchNote> note = nullptr);

  std::vector<Problem> problems() { return machine_.problems().problems(); }
  // Their kinds' names, for comparison: {"out of bounds"}.
  std::vector<std::string> problem_kinds();
  // The counters of the loaded kernel's instructions with this first word, summed.
  InstructionCounters Counters(std::string_view text_prefix);

 private:
  uint64_t Allocate(const void* from, size_t bytes, std::string name);
  void ReadBytes(uint64_t address, void* to, size_t bytes);

  Machine machine_;
  LoadedModule* module_ = nullptr;
  const Executable* kernel_ = nullptr;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_TESTS_RUNTIME_EMULATOR_LANE_TESTING_H_
