// PTX made ready to run: a flat list of codes whose operands are places in a warp's register file.
//
// The register file of a warp has a row per register: 32 values of its declared width, one per
// lane, or for a predicate one 4-byte mask. Immediates, special registers and addresses of
// variables have rows too, filled when a warp starts, so handlers only ever see rows.
#ifndef DUOTONE_RUNTIME_EMULATOR_CODE_H_
#define DUOTONE_RUNTIME_EMULATOR_CODE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/emulator/options.h"
#include "runtime/emulator/ptx.h"

namespace duotone::emulator {

inline constexpr int kLanes = 32;
using Mask = uint32_t;  // bit i: lane i
inline constexpr Mask kAllLanes = 0xffffffffu;

// Generic addresses of shared and local memory begin here; all others are global or constant. A
// shared or local address is the offset in its window.
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << 56;
inline constexpr uint64_t kWindowMask = ~uint64_t{0} << 56;

struct Warp;
struct Code;
// Executes one instruction for the lanes of `mask`, which is not empty; rows of other lanes keep
// their values.
using Handler = void (*)(Warp& warp, const Code& code, Mask mask);

// What the warp's loop does beside calling the handler.
enum class Flow : uint8_t {
  kNext,
  kPoll,     // as kNext, of a load that may be repeated until another thread has written
  kBranch,   // to `target`; no handler
  kCall,     // to `target`; no handler
  kReturn,   // from an entry: as kExit; no handler
  kExit,     // no handler
  kBarrier,  // bar.*, barrier.*; no handler
  kMembers,  // waits until all lanes of the member mask (a row, see `members`) are here: shfl.sync
  kAligned,  // all lanes that have not exited must be here: mma, ldmatrix
  kTrap,     // no handler
};

inline constexpr uint32_t kNoRow = 0xffffffffu;  // of Operand::Kind::kSink
inline constexpr int kMaxRows = 16;

struct Code {
  Handler run = nullptr;
  // The operands' rows in the order of the text, vectors flattened: byte offsets in the register
  // file. Of an address the row of its base (4 or 8 bytes wide, see `address_bytes`); the rest of
  // it is `offset`. A label or function has none.
  std::array<uint32_t, kMaxRows> row = {};
  int64_t offset = 0;
  int64_t second_offset = 0;  // of the second address of cp.async: the global one
  const Instruction* instruction = nullptr;
  int32_t guard = -1;   // the row of the guard predicate; -1: none
  int32_t target = -1;  // kBranch, kCall: an index in Executable::codes
  // kBranch with a guard: where both ways come together, their immediate post-dominator; -1: not
  // before the function ends.
  int32_t join = -1;
  int32_t index = 0;  // in Executable::codes, also of its counters
  uint32_t members = kNoRow;
  Flow flow = Flow::kNext;
  bool guard_negated = false;
  uint8_t address_bytes = 8;
  uint8_t second_address_bytes = 8;
};

// An entry point with all functions it calls. Functions have their registers and parameters at
// fixed places, so none may call itself.
struct Executable {
  std::string name;
  const PtxFunction* function = nullptr;
  std::vector<Code> codes;  // the entry begins at 0
  // Instructions that stand in no text (a changed copy of one); codes point here too.
  std::vector<std::unique_ptr<Instruction>> made;

  int64_t register_bytes = 0;  // of a warp's register file
  struct ConstantRow {
    uint32_t row = 0;
    int bytes = 4;  // of one lane's value; 0: a predicate
    uint64_t bits = 0;
  };
  std::vector<ConstantRow> constants;
  struct SpecialRow {
    uint32_t row = 0;
    int bytes = 4;
    Special special = Special::kTidX;
  };
  // All but the clocks, whose codes read them when they run.
  std::vector<SpecialRow> specials;

  int64_t local_bytes = 0;          // per thread: variables, parameters of calls
  int64_t static_shared_bytes = 0;  // dynamic shared memory begins here, suitably aligned
  struct Parameter {
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  std::vector<Parameter> parameters;  // of the entry
  int64_t parameter_bytes = 0;
  int max_threads = 1024;
};

// The entry `name` of a module that outlives the result. `addresses` has the device address of
// every variable of the module that lies in global or constant memory, 0 for others.
absl::StatusOr<std::unique_ptr<Executable>> Translate(const PtxModule& module,
                                                      const std::string& name,
                                                      const std::vector<uint64_t>& addresses,
                                                      const EmulatorOptions& options);

// Who executes an instruction: null where it is none of theirs. Translate asks them in this order.
struct HandlerOptions {
  int compute = 80;
  bool perturb = false;  // EmulatorOptions::perturb_approximations
  int turing_group = 8;
};
Handler FindIntegerHandler(const Instruction& instruction, const HandlerOptions& options);
Handler FindMoveHandler(const Instruction& instruction, const HandlerOptions& options);
Handler FindConvertHandler(const Instruction& instruction, const HandlerOptions& options);
Handler FindFloatHandler(const Instruction& instruction, const HandlerOptions& options);
Handler FindHalfHandler(const Instruction& instruction, const HandlerOptions& options);
Handler FindGlobalHandler(const Instruction& instruction, const HandlerOptions& options);
Handler FindSharedHandler(const Instruction& instruction, const HandlerOptions& options);
Handler FindTensorHandler(const Instruction& instruction, const HandlerOptions& options);
Handler FindSyncHandler(const Instruction& instruction, const HandlerOptions& options);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_CODE_H_
