#include "runtime/cuda/sass.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace duotone::runtime {
namespace {

// Where an instruction says how wide its access is.
enum class WidthField : uint8_t {
  kNone,
  kSize,   // bits 73-75: 0, 1: 8; 2, 3: 16; 4: 32; 5: 64; 6: 128
  kAsync,  // kSize below sm_100; from there bits 74-75: 0: 32; 1: 64; 2: 128
  k256,    // always 256
};

struct SassOpcode {
  uint16_t base;  // the low 9 bits
  const char* name;
  SassClass name_class;
  WidthField width = WidthField::kNone;
  bool quarter_rate = false;
  int first = 0;  // compute capabilities that have it
  int last = 9999;
};

using enum SassClass;

// By base; where an operation was given away, the rows differ in their architectures.
constexpr SassOpcode kOpcodes[] = {
    {0x002, "MOV", kMove},
    {0x003, "P2R", kMove},
    {0x004, "R2P", kMove},
    {0x005, "CS2R", kMove},
    {0x006, "VOTE", kWarp},
    {0x007, "SEL", kInteger},
    {0x008, "FSEL", kFp32},
    {0x009, "FMNMX", kFp32},
    {0x00a, "FSET", kFp32},
    {0x00b, "FSETP", kFp32},
    {0x00c, "ISETP", kInteger},
    {0x00f, "VIMNMX3", kInteger},
    {0x010, "IADD3", kInteger},
    {0x011, "LEA", kInteger},
    {0x012, "LOP3", kInteger},
    {0x013, "IABS", kInteger},
    {0x014, "VABSDIFF", kInteger},
    {0x016, "PRMT", kInteger},
    {0x017, "IMNMX", kInteger},
    {0x019, "SHF", kInteger},
    {0x01a, "SGXT", kInteger},
    {0x01b, "BMSK", kInteger},
    {0x01c, "PLOP3", kInteger},
    {0x020, "FMUL", kFp32},
    {0x021, "FADD", kFp32},
    {0x023, "FFMA", kFp32},
    {0x024, "IMAD", kInteger},
    {0x025, "IMAD", kInteger},
    {0x026, "IDP", kInteger},
    {0x027, "IMAD", kInteger},
    {0x028, "DMUL", kFp64},
    {0x029, "DADD", kFp64},
    {0x02a, "DSETP", kFp64},
    {0x02b, "DFMA", kFp64},
    {0x02d, "ACQBULK", kFence},
    {0x02e, "PREEXIT", kFence},
    {0x02f, "ELECT", kWarp},
    {0x030, "HADD2", kHalf},
    {0x031, "HFMA2", kHalf},
    {0x032, "HMUL2", kHalf},
    {0x033, "HSET2", kHalf},
    {0x035, "HFMA2", kHalf, WidthField::kNone, false, 0, 99},
    {0x035, "IADD", kInteger, WidthField::kNone, false, 100},
    {0x036, "VIADD", kInteger},
    {0x037, "IMMA", kTensor},
    {0x038, "I2I", kConversion},
    {0x03a, "MOVM", kMatrixLoad},
    {0x03b, "LDSM", kMatrixLoad},
    {0x03c, "HMMA", kTensor},
    {0x03e, "F2FP", kConversion},
    {0x03f, "DMMA", kTensor},
    {0x040, "HMNMX2", kHalf},
    {0x044, "STSM", kMatrixLoad},
    {0x045, "I2FP", kConversion},
    {0x046, "VIADDMNMX", kInteger},
    {0x048, "VIMNMX", kInteger},
    {0x049, "FFMA2", kFp32},
    {0x04a, "FMUL2", kFp32},
    {0x04b, "FADD2", kFp32},
    {0x05a, "UI2F", kUniform},
    {0x05e, "UI2FP", kUniform},
    {0x076, "FMNMX3", kFp32},
    {0x082, "UMOV", kUniform},
    {0x086, "VOTEU", kWarp},
    {0x087, "USEL", kUniform},
    {0x08c, "UISETP", kUniform},
    {0x090, "UIADD3", kUniform},
    {0x091, "ULEA", kUniform},
    {0x092, "ULOP3", kUniform},
    {0x097, "UIADD3", kUniform},
    {0x099, "USHF", kUniform},
    {0x09c, "UPLOP3", kUniform},
    {0x0a4, "UIMAD", kUniform},
    {0x0a5, "UIMAD", kUniform},
    {0x0b9, "ULDC", kConstant},
    {0x0bd, "UFLO", kUniform},
    {0x0be, "UBREV", kUniform},
    {0x0ca, "R2UR", kUniform},
    {0x0cc, "CREDUX", kWarp},
    {0x100, "FLO", kInteger, WidthField::kNone, true},
    {0x101, "BREV", kInteger, WidthField::kNone, true},
    {0x102, "FCHK", kFp32, WidthField::kNone, true},
    {0x104, "F2F", kConversion, WidthField::kNone, true},
    {0x105, "F2I", kConversion, WidthField::kNone, true},
    {0x106, "I2F", kConversion, WidthField::kNone, true},
    {0x107, "FRND", kConversion, WidthField::kNone, true},
    {0x108, "MUFU", kMufu, WidthField::kNone, true},
    {0x109, "POPC", kInteger, WidthField::kNone, true},
    {0x110, "F2F", kConversion, WidthField::kNone, true},
    {0x111, "F2I", kConversion, WidthField::kNone, true},
    {0x112, "I2F", kConversion, WidthField::kNone, true},
    {0x118, "NOP", kOther},
    {0x119, "S2R", kMove},
    {0x11a, "DEPBAR", kFence},
    {0x11b, "ENDCOLLECTIVE", kBranch},
    {0x11c, "B2R", kMove},
    {0x11d, "BAR", kBarrier},
    {0x141, "BSYNC", kBranch},
    {0x142, "BREAK", kBranch},
    {0x143, "CALL", kBranch},
    {0x144, "CALL", kBranch},
    {0x145, "BSSY", kBranch},
    {0x146, "YIELD", kOther},
    {0x147, "BRA", kBranch},
    {0x148, "WARPSYNC", kBranch},
    {0x149, "BRX", kBranch},
    {0x14d, "EXIT", kBranch},
    {0x14e, "LEPC", kMove},
    {0x150, "RET", kBranch},
    {0x155, "BMOV", kMove},
    {0x15c, "BPT", kOther},
    {0x15d, "NANOSLEEP", kOther},
    {0x17e, "LDG", kGlobalLoad, WidthField::k256},
    {0x17f, "STG", kGlobalStore, WidthField::k256},
    {0x180, "LD", kGlobalLoad, WidthField::kSize},
    {0x181, "LDG", kGlobalLoad, WidthField::kSize},
    {0x182, "LDC", kConstant},
    {0x183, "LDL", kLocalLoad, WidthField::kSize},
    {0x184, "LDS", kSharedLoad, WidthField::kSize},
    {0x185, "ST", kGlobalStore, WidthField::kSize},
    {0x186, "STG", kGlobalStore, WidthField::kSize},
    {0x187, "STL", kLocalStore, WidthField::kSize},
    {0x188, "STS", kSharedStore, WidthField::kSize},
    {0x189, "SHFL", kWarp},
    {0x18a, "ATOM", kAtomic},
    {0x18c, "ATOMS", kAtomic},
    {0x18d, "ATOMS", kAtomic},
    {0x18e, "RED", kAtomic, WidthField::kNone, false, 0, 89},
    {0x18e, "REDG", kAtomic, WidthField::kNone, false, 90},
    {0x18f, "CCTL", kFence},
    {0x192, "MEMBAR", kFence},
    {0x1a1, "MATCH", kWarp},
    {0x1a2, "ATOM", kAtomic},
    {0x1a3, "ATOMG", kAtomic},
    {0x1a6, "REDG", kAtomic},
    {0x1a7, "SYNCS", kFence},
    {0x1a8, "ATOMG", kAtomic},
    {0x1a9, "ATOMG", kAtomic},
    {0x1aa, "QSPC", kOther},
    {0x1ab, "ERRBAR", kFence},
    {0x1ac, "LDCU", kConstant},
    {0x1ae, "LDGSTS", kAsyncCopy, WidthField::kAsync},
    {0x1af, "LDGDEPBAR", kFence},
    {0x1b2, "SYNCS", kFence},
    {0x1ba, "UBLKCP", kAsyncCopy},
    {0x1c3, "S2UR", kUniform},
    {0x1c4, "REDUX", kWarp},
    {0x1c6, "FENCE", kFence},
    {0x1c7, "UCGABAR", kFence},
};

constexpr bool ByBase(const SassOpcode& a, const SassOpcode& b) { return a.base < b.base; }
static_assert(std::is_sorted(std::begin(kOpcodes), std::end(kOpcodes), ByBase));

constexpr const char* kClassNames[] = {
    "fp32",         "half",        "fp64",         "tensor",      "mufu",
    "conversion",   "integer",     "uniform",      "move",        "global_load",
    "global_store", "shared_load", "shared_store", "matrix_load", "async_copy",
    "local_load",   "local_store", "constant",     "atomic",      "warp",
    "barrier",      "fence",       "branch",       "other",       "unknown"};
static_assert(std::size(kClassNames) == kSassClasses);

struct Word {
  uint64_t low = 0;
  uint64_t high = 0;

  // Bits [first, first + count) of the 128, count < 64.
  uint64_t Bits(int first, int count) const {
    uint64_t value = 0;
    if (first >= 64) {
      value = high >> (first - 64);
    } else if (first == 0) {
      value = low;
    } else {
      value = (low >> first) | (high << (64 - first));
    }
    return value & ((uint64_t{1} << count) - 1);
  }
  int opcode() const { return static_cast<int>(low & 0xfff); }
  int base() const { return static_cast<int>(low & 0x1ff); }
};

constexpr int kBra = 0x147;
constexpr int kExit = 0x14d;
constexpr int kRet = 0x150;
constexpr int kBrx = 0x149;
constexpr int kNop = 0x118;
constexpr int kUniformBranchForm = 0x547;  // on a uniform predicate
constexpr uint64_t kAlways = 7;            // the predicate PT
constexpr uint64_t kStackPointer = 1;      // R1

std::vector<Word> ToWords(std::string_view code) {
  std::vector<Word> words(code.size() / kSassBytes);
  for (size_t i = 0; i < words.size(); ++i) {
    std::memcpy(&words[i].low, code.data() + i * kSassBytes, 8);
    std::memcpy(&words[i].high, code.data() + i * kSassBytes + 8, 8);
  }
  return words;
}

const SassOpcode* FindOpcode(const Word& word, int compute) {
  const auto [begin, end] =
      std::equal_range(std::begin(kOpcodes), std::end(kOpcodes),
                       SassOpcode{static_cast<uint16_t>(word.base()), "", kOther}, ByBase);
  for (auto row = begin; row != end; ++row) {
    if (row->first <= compute && compute <= row->last) return row;
  }
  return nullptr;
}

int AccessBits(const Word& word, WidthField field, int compute) {
  if (field == WidthField::k256) return 256;
  if (field == WidthField::kAsync && compute >= 100)
    return 32 << std::min<int>(word.Bits(74, 2), 2);
  const int size = static_cast<int>(word.Bits(73, 3));
  return size <= 1 ? 8 : size <= 3 ? 16 : size == 4 ? 32 : size == 5 ? 64 : 128;
}

void CountAccess(const Word& word, const SassOpcode& opcode, int compute, OpcodeMix& mix) {
  const int bits = AccessBits(word, opcode.width, compute);
  const int index = WidthIndex(bits);
  const bool is_spill = word.Bits(24, 8) == kStackPointer;
  switch (opcode.name_class) {
    case kGlobalLoad:
      ++mix.global_loads[index];
      break;
    case kGlobalStore:
      ++mix.global_stores[index];
      break;
    case kSharedLoad:
      ++mix.shared_loads[index];
      break;
    case kSharedStore:
      ++mix.shared_stores[index];
      break;
    case kAsyncCopy:
      ++mix.async_copies[index];
      break;
    case kLocalLoad:
      if (is_spill) mix.spill_load_bytes += bits / 8;
      break;
    case kLocalStore:
      if (is_spill) mix.spill_store_bytes += bits / 8;
      break;
    default:
      break;
  }
}

void CountInstruction(const Word& word, int compute, OpcodeMix& mix) {
  ++mix.instructions;
  const SassOpcode* opcode = FindOpcode(word, compute);
  if (opcode == nullptr) {
    ++mix.classes[static_cast<int>(kUnknown)];
    ++mix.unknown[word.opcode()];
    return;
  }
  ++mix.classes[static_cast<int>(opcode->name_class)];
  ++mix.opcodes[opcode->name];
  mix.quarter_rate += opcode->quarter_rate;
  if (opcode->width != WidthField::kNone) CountAccess(word, *opcode, compute, mix);
  // LDSM and STSM: bits 72-73 are 0, 1, 2 for 1, 2, 4 matrices; MOVM is one.
  if (opcode->name_class == kMatrixLoad) {
    mix.matrices += opcode->base == 0x03a ? 1 : 1 << std::min<int>(word.Bits(72, 2), 2);
  }
}

// The instruction that a BRA at `index` leads to; may lie outside.
int64_t BranchTarget(const Word& word, int64_t index, int compute) {
  // A signed number of 4-byte units from the end of the branch; sm_90 added 8 bits below.
  uint64_t field = word.Bits(34, 48);
  int bits = 48;
  if (compute >= 90) {
    field = (field << 8) | word.Bits(16, 8);
    bits += 8;
  }
  const int64_t offset = static_cast<int64_t>(field << (64 - bits)) >> (64 - bits);
  return index + 1 + offset / (kSassBytes / 4);
}

bool IsUnconditional(const Word& word) {
  return word.Bits(12, 4) == kAlways && word.Bits(87, 4) == kAlways &&
         word.opcode() != kUniformBranchForm;
}

// Finds natural loops: a branch back from `o` to `t` is one if every way to `o` leads through `t`
// (cold code at the end of a kernel also branches back, but is no loop).
class LoopFinder {
 public:
  LoopFinder(const std::vector<Word>& words, int compute)
      : size_(static_cast<int64_t>(words.size())) {
    next_.resize(size_, {-1, -1});
    for (int64_t i = 0; i < size_; ++i) {
      const int base = words[i].base();
      const bool always = IsUnconditional(words[i]);
      if (base == kBra) {
        const int64_t target = BranchTarget(words[i], i, compute);
        if (target >= 0 && target < size_) next_[i][0] = target;
        if (target >= 0 && target < i) back_.push_back(i);
        if (always) continue;
      }
      const bool ends = (base == kExit || base == kRet || base == kBrx) && always;
      if (!ends && i + 1 < size_) next_[i][1] = i + 1;
    }
    CountPredecessors();
    // What the kernel does not reach by itself is called: every such piece has a beginning too.
    std::vector<bool> seen(size_, false);
    for (int64_t i = 0; i < size_; ++i) {
      if (seen[i]) continue;
      roots_.push_back(i);
      Reach({i}, -1, seen);
    }
  }

  // Headers with the instructions of their loops, merged where several branches share a header.
  // False if the work was cut short.
  bool Find(std::map<int64_t, std::vector<bool>>& loops) {
    for (const int64_t from : back_) {
      work_ += size_;
      if (work_ > kMaxWork) return false;
      const int64_t header = next_[from][0];
      std::vector<bool> around(size_, false);
      Reach(roots_, header, around);
      if (around[from]) continue;
      std::vector<bool>& body = loops.try_emplace(header, size_, false).first->second;
      body[header] = true;
      CollectBody(from, body);
    }
    return true;
  }

 private:
  static constexpr int64_t kMaxWork = int64_t{1} << 23;  // instructions visited

  void CountPredecessors() {
    first_predecessor_.assign(size_ + 1, 0);
    for (const auto& next : next_) {
      for (const int64_t target : next) {
        if (target >= 0) ++first_predecessor_[target + 1];
      }
    }
    for (int64_t i = 0; i < size_; ++i) first_predecessor_[i + 1] += first_predecessor_[i];
    predecessors_.resize(first_predecessor_[size_]);
    std::vector<int64_t> at(first_predecessor_.begin(), first_predecessor_.end() - 1);
    for (int64_t i = 0; i < size_; ++i) {
      for (const int64_t target : next_[i]) {
        if (target >= 0) predecessors_[at[target]++] = i;
      }
    }
  }

  // Marks what can be reached from `from` without entering `barred`.
  void Reach(const std::vector<int64_t>& from, int64_t barred, std::vector<bool>& seen) const {
    std::vector<int64_t> open;
    auto visit = [&](int64_t i) {
      if (i < 0 || i == barred || seen[i]) return;
      seen[i] = true;
      open.push_back(i);
    };
    for (const int64_t i : from) visit(i);
    while (!open.empty()) {
      const int64_t i = open.back();
      open.pop_back();
      for (const int64_t target : next_[i]) visit(target);
    }
  }

  // Marks what leads to `from`, back to what is marked already.
  void CollectBody(int64_t from, std::vector<bool>& body) const {
    std::vector<int64_t> open;
    auto visit = [&](int64_t i) {
      if (body[i]) return;
      body[i] = true;
      open.push_back(i);
    };
    visit(from);
    while (!open.empty()) {
      const int64_t i = open.back();
      open.pop_back();
      for (int64_t p = first_predecessor_[i]; p < first_predecessor_[i + 1]; ++p) {
        visit(predecessors_[p]);
      }
    }
  }

  int64_t size_;
  std::vector<std::array<int64_t, 2>> next_;  // where a branch leads, what follows; -1: nothing
  std::vector<int64_t> back_;                 // branches back
  std::vector<int64_t> roots_;
  std::vector<int64_t> first_predecessor_;
  std::vector<int64_t> predecessors_;
  int64_t work_ = 0;
};

// Without the branch to itself and the NOPs that end every kernel.
void DropPadding(std::vector<Word>& words, int compute) {
  while (!words.empty() && words.back().base() == kNop) words.pop_back();
  if (words.empty() || words.back().base() != kBra) return;
  const int64_t last = static_cast<int64_t>(words.size()) - 1;
  if (BranchTarget(words.back(), last, compute) == last) words.pop_back();
}

std::vector<SassLoop> ToLoops(const std::map<int64_t, std::vector<bool>>& bodies,
                              const std::vector<Word>& words, int compute) {
  std::vector<SassLoop> loops;
  for (const auto& [header, body] : bodies) {
    SassLoop loop{.begin = header * kSassBytes};
    for (size_t i = 0; i < body.size(); ++i) {
      if (!body[i]) continue;
      CountInstruction(words[i], compute, loop.mix);
      loop.end = static_cast<int64_t>(i + 1) * kSassBytes;
    }
    for (const auto& [other, other_body] : bodies) {
      if (other == header) continue;
      loop.depth += other_body[header];
      if (body[other]) loop.innermost = false;
    }
    loops.push_back(std::move(loop));
  }
  return loops;
}

}  // namespace

std::string_view SassClassName(SassClass name) { return kClassNames[static_cast<int>(name)]; }

int WidthIndex(int bits) {
  const auto* found = std::find(kAccessBits.begin(), kAccessBits.end(), bits);
  DUOTONE_CHECK(found != kAccessBits.end()) << bits;
  return static_cast<int>(found - kAccessBits.begin());
}

int64_t AccessBytes(const AccessWidths& widths) {
  int64_t bytes = 0;
  for (size_t i = 0; i < widths.size(); ++i) bytes += int64_t{widths[i]} * kAccessBits[i] / 8;
  return bytes;
}

int OpcodeMix::CountOf(const std::string& opcode) const {
  const auto found = opcodes.find(opcode);
  return found == opcodes.end() ? 0 : found->second;
}

SassSummary AnalyseSass(std::string_view code, int compute) {
  std::vector<Word> words = ToWords(code);
  DropPadding(words, compute);
  SassSummary summary;
  for (const Word& word : words) CountInstruction(word, compute, summary.all);
  std::map<int64_t, std::vector<bool>> bodies;
  summary.complete = LoopFinder(words, compute).Find(bodies);
  summary.loops = ToLoops(bodies, words, compute);
  for (int i = 0; i < static_cast<int>(summary.loops.size()); ++i) {
    const SassLoop* best = summary.main_loop();
    const SassLoop& loop = summary.loops[i];
    if (loop.innermost && (best == nullptr || loop.mix.instructions > best->mix.instructions)) {
      summary.main_loop_index = i;
    }
  }
  return summary;
}

}  // namespace duotone::runtime
