// What the emulator found wrong, as sentences with a place.
#ifndef DUOTONE_RUNTIME_EMULATOR_PROBLEM_H_
#define DUOTONE_RUNTIME_EMULATOR_PROBLEM_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace duotone::emulator {

enum class ProblemKind : uint8_t {
  kOutOfBounds,  // beside every buffer, or beside those of the launch
  kMisaligned,
  kFreedMemory,
  kUninitialised,    // a read of global, shared or local memory that nothing has written
  kSharedRace,       // two threads, one of them writing, no barrier between
  kGlobalRace,       // two blocks of a launch, one of them writing
  kPlainCasLoad,     // a warning: a plain load begins a loop of atom.cas
  kFloatAtomic,      // a warning: the order of additions, and so the sum, is not fixed
  kMissingWait,      // bytes of a cp.async that has not been waited for
  kDivergent,        // an .aligned instruction or a barrier that lanes do not reach together;
                     // lanes that disagree about their member mask
  kAbsentLane,       // a shuffle from a lane that does not take part in it
  kDeadlock,         // warps wait for each other
  kReadOnlyWritten,  // ld.global.nc of what the launch writes
  kBudget,           // more instructions than allowed: an endless loop
  kTrap,             // the kernel's own trap
  kUnsupported,      // what only shows while running: a call too deep
};
std::string_view KindName(ProblemKind kind);  // "out of bounds"
// Others make the launch fail.
bool IsWarning(ProblemKind kind);

struct Problem {
  ProblemKind kind = ProblemKind::kOutOfBounds;
  std::string what;    // "4 bytes are read at 0x7000000100, 16 bytes behind buffer %x (256 bytes)"
  std::string kernel;  // the entry point
  std::string node;    // "h1.norm", the launch's; empty for foreign PTX
  std::string place;   // "layer_norm (gpt.cc:40, node %h1)" or "kernel.cu:12"; may be empty
  int line = 0;        // of the PTX text
  std::string text;    // the instruction
  std::array<int64_t, 3> block = {0, 0, 0};
  int warp = 0;
  uint32_t lanes = 0;  // those concerned
  uint64_t address = 0;
  int64_t count = 1;  // how often this kind came at this instruction

  // "uninitialised read in the kernel of %h1.norm, layer_norm (gpt.cc:40), PTX line 77
  // 'ld.shared...', block (0, 1, 0), warp 2, lanes 0-3: ...".
  std::string ToString() const;
};

// "kernel axpy", or where a launch has a node "the kernel of %h1.norm": all generated kernels have
// the same name.
std::string KernelText(std::string_view kernel, std::string_view node);
// "0-3, 7"; "all 32".
std::string LanesText(uint32_t lanes);

// Collects problems of many threads, the first of each kind and instruction.
class ProblemLog {
 public:
  void Add(Problem problem);
  bool has_errors() const;
  // In the order of launches, then of instructions.
  std::vector<Problem> problems() const;
  void Clear();
  // One line each, at most `limit`, and how many are left out.
  std::string ToString(int limit = 10) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, int, std::string, ProblemKind>, size_t> index_;
  std::vector<Problem> problems_;
  bool has_errors_ = false;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_PROBLEM_H_
