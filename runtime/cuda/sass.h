// What a kernel's machine code consists of: counts of instructions by kind and width, and loops.
// Made for reports and for tests that keep regressions out, not for disassembly: operands are not
// decoded.
//
//   SassSummary summary = AnalyseSass(kernel.code, /*compute=*/80);
//   summary.all.Count(SassClass::kTensor)          // 64
//   summary.all.global_loads[WidthIndex(128)]      // 8
//   summary.main_loop()->mix.instructions          // 160
//
// An instruction takes 16 bytes. Its low 12 bits say what it does: 9 of them the operation, 3 where
// its operands come from. NVIDIA does not document this; the table in sass.cc and the fields were
// found by compiling small kernels for sm_75, 80, 86, 89, 90, 100 and 120 and reading the vendor's
// disassembly beside the words. What is not in the table is counted as unknown and shown in hex.
#ifndef DUOTONE_RUNTIME_CUDA_SASS_H_
#define DUOTONE_RUNTIME_CUDA_SASS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace duotone::runtime {

inline constexpr int kSassBytes = 16;  // of one instruction

enum class SassClass : uint8_t {
  kFp32,         // FADD, FMUL, FFMA, FSETP, ...
  kHalf,         // arithmetic on pairs of 16-bit floats
  kFp64,         // DADD, DMUL, DFMA, ...
  kTensor,       // HMMA, IMMA, DMMA
  kMufu,         // exp2, log2, rsqrt, tanh, ...
  kConversion,   // between types
  kInteger,      // IMAD, IADD3, LOP3, SHF, ISETP, predicates, ...
  kUniform,      // the same for a whole warp, on the uniform datapath
  kMove,         // MOV, S2R, CS2R, ...
  kGlobalLoad,   // LDG, LD
  kGlobalStore,  // STG, ST
  kSharedLoad,   // LDS
  kSharedStore,  // STS
  kMatrixLoad,   // LDSM and its like: whole 8x8 tiles
  kAsyncCopy,    // global to shared memory: LDGSTS, bulk copies
  kLocalLoad,    // LDL: spills, arrays with computed indices
  kLocalStore,   // STL
  kConstant,     // LDC
  kAtomic,       // ATOM, ATOMS, RED
  kWarp,         // SHFL, VOTE, MATCH, REDUX
  kBarrier,      // BAR
  kFence,        // waits and fences of memory
  kBranch,       // BRA, BSSY, BSYNC, CALL, RET, EXIT, ...
  kOther,        // NOP, NANOSLEEP, ...
  kUnknown,
};
inline constexpr int kSassClasses = static_cast<int>(SassClass::kUnknown) + 1;
// "tensor", "global_load": for reports and JSON.
std::string_view SassClassName(SassClass name);

// Accesses by width: 8, 16, 32, 64, 128, 256 bits per thread.
inline constexpr std::array<int, 6> kAccessBits = {8, 16, 32, 64, 128, 256};
using AccessWidths = std::array<int, kAccessBits.size()>;
// The position of a width in AccessWidths.
int WidthIndex(int bits);
// Bytes that one thread moves, were every access made once.
int64_t AccessBytes(const AccessWidths& widths);

// Counts of instructions as they stand in the code, whatever runs how often.
struct OpcodeMix {
  int instructions = 0;
  std::array<int, kSassClasses> classes = {};
  AccessWidths global_loads = {};
  AccessWidths global_stores = {};
  AccessWidths shared_loads = {};
  AccessWidths shared_stores = {};
  AccessWidths async_copies = {};
  int matrices = 0;                    // 8x8 tiles of LDSM and its like
  int quarter_rate = 0;                // on the 16 lanes of MUFU: MUFU and conversions by XU
  int64_t spill_load_bytes = 0;        // per thread: local memory at fixed places of the frame
  int64_t spill_store_bytes = 0;       //
  std::map<std::string, int> opcodes;  // "HMMA": 64
  std::map<int, int> unknown;          // the low 12 bits: how often

  int Count(SassClass name) const { return classes[static_cast<int>(name)]; }
  int CountOf(const std::string& opcode) const;
  bool uses_local_memory() const {
    return Count(SassClass::kLocalLoad) + Count(SassClass::kLocalStore) > 0;
  }
};

// What is between a branch back and its target, without what is jumped over: a natural loop.
struct SassLoop {
  int64_t begin = 0;  // byte offset of its first instruction
  int64_t end = 0;    // behind the branch back
  int depth = 0;      // loops around it
  bool innermost = true;
  OpcodeMix mix;
};

struct SassSummary {
  OpcodeMix all;                // without the padding at the end
  std::vector<SassLoop> loops;  // by `begin`
  int main_loop_index = -1;     // the innermost one with most instructions
  bool complete = true;         // false if the code has more branches back than are looked at

  const SassLoop* main_loop() const {
    return main_loop_index < 0 ? nullptr : &loops[main_loop_index];
  }
};

// `code` is the text of one kernel, `compute` its architecture (80 for sm_80). Any bytes are
// allowed; a part of an instruction at the end is left out.
SassSummary AnalyseSass(std::string_view code, int compute);

}  // namespace duotone::runtime

#endif  // DUOTONE_RUNTIME_CUDA_SASS_H_
