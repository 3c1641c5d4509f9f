#include "runtime/emulator/isa.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "absl/strings/str_format.h"

namespace duotone::emulator {
namespace {

constexpr std::string_view kInts = "u16 s16 u32 s32 u64 s64";
constexpr std::string_view kFloats = "f32 f64";
constexpr std::string_view kHalves = "f16 f16x2 bf16 bf16x2";
constexpr std::string_view kBits = "b16 b32 b64";
constexpr std::string_view kMemory = "b8 u8 s8 b16 u16 s16 b32 u32 s32 b64 u64 s64 f32 f64";
constexpr std::string_view kAtomic = "b32 u32 s32 b64 u64 s64 f32 f64 f16 f16x2 bf16 bf16x2 b16";
constexpr std::string_view kLoad = "sem? scope? space? cache? nc? hint* vec? T";
constexpr std::string_view kStore = "sem? scope? space? cache? hint* vec? T";

// Alphabetical; forms of one instruction from the common to the rare. PTX ISA 8.5, chapter 9.
constexpr IsaRow kRows[] = {
    {Op::kAbs, "abs", "T", "s16 s32 s64", "", "T T"},
    {Op::kAbs, "abs", "ftz? T", "f32 f64 f16 f16x2 bf16 bf16x2", "", "T T"},
    {Op::kActivemask, "activemask", "T", "b32", "", "T"},
    {Op::kAdd, "add", "sat? cc? T", kInts, "", "T T T"},
    {Op::kAdd, "add", "rnd? ftz? sat? T", kFloats, "", "T T T"},
    {Op::kAdd, "add", "rnd? ftz? sat? T", kHalves, "", "T T T"},
    {Op::kAddc, "addc", "cc? T", "u32 s32 u64 s64", "", "T T T"},
    {Op::kAnd, "and", "T", "pred b16 b32 b64", "", "T T T"},
    {Op::kAtom, "atom", "sem? scope? space? atomic noftz? hint* T", kAtomic, "", "T A T"},
    {Op::kAtom, "atom", "sem? scope? space? cas hint* T", "b16 b32 u32 b64 u64", "", "T A T T"},
    {Op::kBar, "bar", "cta? barrier", "", "", "u32 u32?", 0},
    {Op::kBar, "bar", "cta? reduce T", "pred", "", "pred u32 u32? pred"},
    {Op::kBar, "bar", "cta? popc T", "u32", "", "u32 u32 u32? pred"},
    {Op::kBar, "barrier", "cta? barrier aligned?", "", "", "u32 u32?", 0},
    {Op::kBar, "barrier", "cta? reduce aligned? T", "pred", "", "pred u32 u32? pred"},
    {Op::kBar, "barrier", "cta? popc aligned? T", "u32", "", "u32 u32 u32? pred"},
    {Op::kBarWarpSync, "bar.warp.sync", "", "", "", "b32", 0},
    {Op::kBfe, "bfe", "T", "u32 s32 u64 s64", "", "T T u32 u32"},
    {Op::kBfi, "bfi", "T", "b32 b64", "", "T T T u32 u32"},
    {Op::kBfind, "bfind", "shiftamt? T", "u32 s32 u64 s64", "", "u32 T"},
    {Op::kBra, "bra", "uni?", "", "", "L", 0},
    {Op::kBrev, "brev", "T", "b32 b64", "", "T T"},
    {Op::kClz, "clz", "T", "b32 b64", "", "u32 T"},
    {Op::kCnot, "cnot", "T", kBits, "", "T T"},
    {Op::kCopysign, "copysign", "T", kFloats, "", "T T T"},
    {Op::kCos, "cos", "approx ftz? T", "f32", "", "T T"},
    {Op::kCpAsyncCommitGroup, "cp.async.commit_group", "", "", "", "", 0},
    {Op::kCpAsyncWaitAll, "cp.async.wait_all", "", "", "", "", 0},
    {Op::kCpAsyncWaitGroup, "cp.async.wait_group", "", "", "", "N", 0},
    {Op::kCpAsync, "cp.async", "cached shared global hint*", "", "", "A A N u32?", 0},
    {Op::kCvt, "cvt", "rounding? relu? ftz? sat? T S", "f16x2 bf16x2", "f32", "T S S"},
    {Op::kCvt, "cvt", "rounding? relu? ftz? sat? T S",
     "u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 tf32 f32 f64",
     "u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64", "T+ S+"},
    {Op::kCvta, "cvta", "to? anyspace T", "u32 u64", "", "T T"},
    {Op::kDiv, "div", "T", kInts, "", "T T T"},
    {Op::kDiv, "div", "approx? full? rnd? ftz? T", kFloats, "", "T T T"},
    {Op::kEx2, "ex2", "approx ftz? T", "f32 f16 f16x2 bf16 bf16x2", "", "T T"},
    {Op::kExit, "exit", "", "", "", "", 0},
    {Op::kFence, "fence", "order scope?", "", "", "", 0},
    {Op::kFma, "fma", "rnd ftz? sat? relu? T", kFloats, "", "T T T T"},
    {Op::kFma, "fma", "rnd ftz? sat? relu? T", kHalves, "", "T T T T"},
    {Op::kIsspacep, "isspacep", "anyspace", "", "", "pred u64"},
    {Op::kLd, "ld", kLoad, kMemory, "", "T* A"},
    {Op::kLdmatrix, "ldmatrix", "sync aligned m8n8 matrices trans? shared? T", "b16", "", "M A"},
    {Op::kLg2, "lg2", "approx ftz? T", "f32", "", "T T"},
    {Op::kLop3, "lop3", "T", "b32", "", "T T T T u32"},
    {Op::kMad, "mad", "product sat? cc? T", kInts, "", "P T T P"},
    {Op::kMad, "mad", "rnd? ftz? sat? T", kFloats, "", "T T T T"},
    {Op::kMadc, "madc", "product cc? T", "u32 s32 u64 s64", "", "T T T T"},
    {Op::kMatch, "match", "matching sync T", "b32 b64", "", "b32 pred| T b32"},
    {Op::kMax, "max", "T", kInts, "", "T T T"},
    {Op::kMax, "max", "ftz? NaN? T", "f32 f64 f16 f16x2 bf16 bf16x2", "", "T T T"},
    {Op::kMembar, "membar", "level", "", "", "", 0},
    {Op::kMin, "min", "T", kInts, "", "T T T"},
    {Op::kMin, "min", "ftz? NaN? T", "f32 f64 f16 f16x2 bf16 bf16x2", "", "T T T"},
    {Op::kMma, "mma", "sync aligned shape row col T S S2 T2", "f32 f16", "f16 bf16 tf32",
     "D A16 B16 C"},
    {Op::kMov, "mov", "T", "pred b16 u16 s16 b32 u32 s32 b64 u64 s64 f32 f64", "", "X X"},
    {Op::kMul24, "mul24", "half T", "u32 s32", "", "T T T"},
    {Op::kMul, "mul", "product T", kInts, "", "P T T"},
    {Op::kMul, "mul", "rnd? ftz? sat? T", kFloats, "", "T T T"},
    {Op::kMul, "mul", "rnd? ftz? sat? T", kHalves, "", "T T T"},
    {Op::kNanosleep, "nanosleep", "T", "u32", "", "T", 0},
    {Op::kNeg, "neg", "T", "s16 s32 s64", "", "T T"},
    {Op::kNeg, "neg", "ftz? T", "f32 f64 f16 f16x2 bf16 bf16x2", "", "T T"},
    {Op::kNot, "not", "T", "pred b16 b32 b64", "", "T T"},
    {Op::kOr, "or", "T", "pred b16 b32 b64", "", "T T T"},
    {Op::kPopc, "popc", "T", "b32 b64", "", "u32 T"},
    {Op::kPrefetch, "prefetch", "space? target", "", "", "A", 0},
    {Op::kPrefetch, "prefetchu", "target", "", "", "A", 0},
    {Op::kPrmt, "prmt", "T permute?", "b32", "", "T T T T"},
    {Op::kRcp, "rcp", "approx? rnd? ftz? T", kFloats, "", "T T"},
    {Op::kRed, "red", "sem? scope? space? atomic noftz? hint* T", kAtomic, "", "A T", 0},
    {Op::kRedux, "redux", "sync reduction T", "b32 u32 s32", "", "T T b32"},
    {Op::kRem, "rem", "T", kInts, "", "T T T"},
    {Op::kRet, "ret", "uni?", "", "", "", 0},
    {Op::kRsqrt, "rsqrt", "approx ftz? T", kFloats, "", "T T"},
    {Op::kSad, "sad", "T", kInts, "", "T T T T"},
    {Op::kSelp, "selp", "T", "b16 u16 s16 b32 u32 s32 b64 u64 s64 f32 f64", "", "T T T pred"},
    {Op::kSet, "set", "compare combine? ftz? T S", "u32 s32 f32 f16 f16x2 bf16 bf16x2",
     "b16 u16 s16 b32 u32 s32 b64 u64 s64 f16 bf16 f16x2 bf16x2 f32 f64", "T S S pred?"},
    {Op::kSetp, "setp", "compare combine? ftz? T",
     "b16 u16 s16 b32 u32 s32 b64 u64 s64 f16 bf16 f16x2 bf16x2 f32 f64", "",
     "pred pred| T T pred?"},
    {Op::kShf, "shf", "direction clamping T", "b32", "", "T T T u32"},
    {Op::kShfl, "shfl", "sync lanes T", "b32", "", "T pred| T u32 u32 b32"},
    {Op::kShl, "shl", "T", kBits, "", "T T u32"},
    {Op::kShr, "shr", "T", "b16 b32 b64 u16 s16 u32 s32 u64 s64", "", "T T u32"},
    {Op::kSin, "sin", "approx ftz? T", "f32", "", "T T"},
    {Op::kSlct, "slct", "ftz? T S", "b16 u16 s16 b32 u32 s32 b64 u64 s64 f32 f64", "s32 f32",
     "T T T S"},
    {Op::kSqrt, "sqrt", "approx? rnd? ftz? T", kFloats, "", "T T"},
    {Op::kSt, "st", kStore, kMemory, "", "A T*", 0},
    {Op::kStmatrix, "stmatrix", "sync aligned m8n8 matrices trans? shared? T", "b16", "", "A M", 0},
    {Op::kSub, "sub", "sat? cc? T", kInts, "", "T T T"},
    {Op::kSub, "sub", "rnd? ftz? sat? T", kFloats, "", "T T T"},
    {Op::kSub, "sub", "rnd? ftz? sat? T", kHalves, "", "T T T"},
    {Op::kSubc, "subc", "cc? T", "u32 s32 u64 s64", "", "T T T"},
    {Op::kTanh, "tanh", "approx T", "f32 f16 f16x2 bf16 bf16x2", "", "T T"},
    {Op::kTestp, "testp", "property T", kFloats, "", "pred T"},
    {Op::kTrap, "trap", "", "", "", "", 0},
    {Op::kVote, "vote", "sync voting T", "pred", "", "pred pred b32"},
    {Op::kVote, "vote", "sync ballot T", "b32", "", "b32 pred b32"},
    {Op::kXor, "xor", "T", "pred b16 b32 b64", "", "T T T"},
};

// ---- Slots: sets of words, and what they mean

template <typename T>
struct Word {
  std::string_view text;
  T value;
};
constexpr Word<Rounding> kRoundings[] = {
    {"rn", Rounding::kRn},   {"rz", Rounding::kRz},   {"rm", Rounding::kRm},
    {"rp", Rounding::kRp},   {"rna", Rounding::kRna}, {"rni", Rounding::kRni},
    {"rzi", Rounding::kRzi}, {"rmi", Rounding::kRmi}, {"rpi", Rounding::kRpi}};
constexpr size_t kFloatRoundings = 4;
constexpr Word<Compare> kCompares[] = {
    {"eq", Compare::kEq},   {"ne", Compare::kNe},   {"lt", Compare::kLt},   {"le", Compare::kLe},
    {"gt", Compare::kGt},   {"ge", Compare::kGe},   {"lo", Compare::kLo},   {"ls", Compare::kLs},
    {"hi", Compare::kHi},   {"hs", Compare::kHs},   {"equ", Compare::kEqu}, {"neu", Compare::kNeu},
    {"ltu", Compare::kLtu}, {"leu", Compare::kLeu}, {"gtu", Compare::kGtu}, {"geu", Compare::kGeu},
    {"num", Compare::kNum}, {"nan", Compare::kNan}};
constexpr Word<BoolOp> kBoolOps[] = {
    {"and", BoolOp::kAnd}, {"or", BoolOp::kOr}, {"xor", BoolOp::kXor}};
constexpr Word<Product> kProducts[] = {
    {"lo", Product::kLo}, {"hi", Product::kHi}, {"wide", Product::kWide}};
constexpr Word<Space> kSpaces[] = {{"global", Space::kGlobal},      {"shared", Space::kShared},
                                   {"shared::cta", Space::kShared}, {"local", Space::kLocal},
                                   {"param", Space::kParam},        {"const", Space::kConst}};
constexpr Word<Mode> kAtomics[] = {{"add", Mode::kAdd},   {"min", Mode::kMin}, {"max", Mode::kMax},
                                   {"and", Mode::kAnd},   {"or", Mode::kOr},   {"xor", Mode::kXor},
                                   {"exch", Mode::kExch}, {"inc", Mode::kInc}, {"dec", Mode::kDec}};
constexpr Word<Mode> kReductions[] = {{"add", Mode::kAdd}, {"min", Mode::kMin},
                                      {"max", Mode::kMax}, {"and", Mode::kAnd},
                                      {"or", Mode::kOr},   {"xor", Mode::kXor}};
constexpr Word<Mode> kLaneModes[] = {
    {"up", Mode::kUp}, {"down", Mode::kDown}, {"bfly", Mode::kBfly}, {"idx", Mode::kIdx}};
constexpr Word<Mode> kVotes[] = {{"all", Mode::kAll}, {"any", Mode::kAny}, {"uni", Mode::kUni}};
constexpr Word<Mode> kPermutes[] = {{"f4e", Mode::kF4e}, {"b4e", Mode::kB4e},
                                    {"rc8", Mode::kRc8}, {"ecl", Mode::kEcl},
                                    {"ecr", Mode::kEcr}, {"rc16", Mode::kRc16}};
constexpr Word<Mode> kProperties[] = {{"finite", Mode::kFinite}, {"infinite", Mode::kInfinite},
                                      {"number", Mode::kNumber}, {"notanumber", Mode::kNotANumber},
                                      {"normal", Mode::kNormal}, {"subnormal", Mode::kSubnormal}};

template <typename T>
bool TakeWord(std::span<const Word<T>> words, std::string_view text, T& value) {
  for (const Word<T>& word : words) {
    if (word.text != text) continue;
    value = word.value;
    return true;
  }
  return false;
}
template <typename T, size_t N>
bool Take(const Word<T> (&words)[N], std::string_view text, T& value, size_t count = N) {
  return TakeWord(std::span<const Word<T>>(words, count), text, value);
}

bool IsOneOf(std::string_view words, std::string_view text) {
  size_t at = 0;
  while (at < words.size()) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == text) return true;
    at = end + 1;
  }
  return false;
}

bool TakeType(std::string_view allowed, std::string_view text, Type& type) {
  if (!IsOneOf(allowed, text)) return false;
  type = TypeFromName(text);
  return true;
}

// "m16n8k16".
bool TakeShape(std::string_view text, std::array<int, 3>& shape) {
  constexpr char kLetters[] = "mnk";
  for (int i = 0; i < 3; ++i) {
    if (text.empty() || text[0] != kLetters[i]) return false;
    text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), shape[i]);
    if (error != std::errc() || shape[i] < 1 || shape[i] > 256) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return text.empty();
}

bool TakeMatrices(std::string_view text, int& count) {
  if (text != "x1" && text != "x2" && text != "x4") return false;
  count = text[1] - '0';
  return true;
}

bool Set(bool& flag) { return flag = true; }

// True if `text` fills the slot.
bool TakeSlot(std::string_view slot, std::string_view text, const IsaRow& row, Instruction& in) {
  if (slot == "T") return TakeType(row.types, text, in.type);
  if (slot == "S") return TakeType(row.source_types, text, in.source_type);
  // The repeated types of mma: B as A, C as D.
  if (slot == "S2") return text == TypeName(in.source_type);
  if (slot == "T2") return text == TypeName(in.type);
  if (slot == "rnd") return Take(kRoundings, text, in.rounding, kFloatRoundings);
  if (slot == "rounding") return Take(kRoundings, text, in.rounding);
  if (slot == "compare") return Take(kCompares, text, in.compare);
  if (slot == "combine") return Take(kBoolOps, text, in.combine);
  if (slot == "product") return Take(kProducts, text, in.product);
  if (slot == "half") return Take(kProducts, text, in.product, 2);
  if (slot == "space" || slot == "anyspace") return Take(kSpaces, text, in.space);
  if (slot == "shared")
    return (text == "shared" || text == "shared::cta") && Take(kSpaces, "shared", in.space);
  if (slot == "atomic") return Take(kAtomics, text, in.mode);
  if (slot == "cas") return text == "cas" && ((in.mode = Mode::kCas), true);
  if (slot == "reduction") return Take(kReductions, text, in.mode);
  if (slot == "lanes") return Take(kLaneModes, text, in.mode);
  if (slot == "voting") return Take(kVotes, text, in.mode);
  if (slot == "matching") return Take(kVotes, text, in.mode, 2);
  if (slot == "ballot") return text == "ballot" && ((in.mode = Mode::kBallot), true);
  if (slot == "permute") return Take(kPermutes, text, in.mode);
  if (slot == "property") return Take(kProperties, text, in.mode);
  if (slot == "barrier") {
    in.mode = text == "sync" ? Mode::kSync : Mode::kArrive;
    return text == "sync" || text == "arrive";
  }
  if (slot == "shape") return TakeShape(text, in.shape);
  if (slot == "matrices") return TakeMatrices(text, in.vector);
  if (slot == "vec") {
    if (text != "v2" && text != "v4") return false;
    in.vector = text[1] - '0';
    return true;
  }
  if (slot == "sem") {
    // An order between threads makes the access one that may meet others.
    if (text == "weak") return true;
    return IsOneOf("volatile relaxed acquire release acq_rel mmio", text) && Set(in.is_volatile);
  }
  if (slot == "scope") return IsOneOf("cta cluster gpu sys", text);
  if (slot == "cache") return IsOneOf("ca cg cs lu cv wb wt", text);
  if (slot == "hint") return text.starts_with("L1::") || text.starts_with("L2::");
  if (slot == "order") return IsOneOf("sc acq_rel", text);
  if (slot == "level") return IsOneOf("cta gl sys", text);
  if (slot == "target") return IsOneOf("L1 L2", text);
  if (slot == "cached") {
    in.bypass_l1 = text == "cg";
    return text == "ca" || text == "cg";
  }
  if (slot == "direction") {
    in.mode = text == "l" ? Mode::kL : Mode::kR;
    return text == "l" || text == "r";
  }
  if (slot == "clamping") {
    in.wrap = text == "wrap";
    return text == "wrap" || text == "clamp";
  }
  if (slot != text) return false;
  // Words that stand for themselves.
  if (slot == "ftz") return Set(in.ftz);
  if (slot == "sat") return Set(in.sat);
  if (slot == "approx") return Set(in.approx);
  if (slot == "full") return Set(in.full);
  if (slot == "relu") return Set(in.relu);
  if (slot == "noftz") return Set(in.noftz);
  if (slot == "NaN") return Set(in.nan);
  if (slot == "cc") return Set(in.carry_out);
  if (slot == "shiftamt") return Set(in.shiftamt);
  if (slot == "to") return Set(in.to);
  if (slot == "nc") return Set(in.nc);
  if (slot == "sync") return Set(in.sync);
  if (slot == "aligned") return Set(in.aligned);
  if (slot == "trans") return Set(in.trans);
  if (slot == "uni") return Set(in.uni);
  return true;
}

// bar.red: "red" and the operation are two parts of one slot.
bool TakeTwoParts(std::string_view slot, std::string_view first, std::string_view second,
                  Instruction& in) {
  if (first != "red") return false;
  if (slot == "popc") return second == "popc" && ((in.mode = Mode::kPopc), true);
  in.mode = second == "and" ? Mode::kAnd : Mode::kOr;
  return second == "and" || second == "or";
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Tries the modifiers against one form; `bad` is the first that does not fit.
bool TakeModifiers(const IsaRow& row, const std::vector<std::string_view>& parts, Instruction& in,
                   std::string_view& bad) {
  size_t next = 0;
  for (std::string_view slot : Split(row.modifiers, ' ')) {
    const char mark = slot.back();
    if (mark == '?' || mark == '*') slot.remove_suffix(1);
    if (slot == "reduce" || (slot == "popc" && row.op == Op::kBar)) {
      if (next + 1 >= parts.size() || !TakeTwoParts(slot, parts[next], parts[next + 1], in)) {
        bad = next < parts.size() ? parts[next] : "";
        return false;
      }
      next += 2;
      continue;
    }
    bool taken = false;
    while (next < parts.size() && TakeSlot(slot, parts[next], row, in)) {
      taken = true;
      ++next;
      if (mark != '*') break;
    }
    if (!taken && mark != '?' && mark != '*') {
      bad = next < parts.size() ? parts[next] : "";
      return false;
    }
  }
  bad = next < parts.size() ? parts[next] : "";
  return next == parts.size();
}

bool TakesOperands(const IsaRow& row, int count) {
  int least = 0, most = 0;
  for (std::string_view item : Split(row.operands, ' ')) {
    if (item.back() == '|') continue;  // belongs to the operand before it
    ++most;
    if (item.back() != '?') ++least;
  }
  return count >= least && count <= most;
}

// Rules that hold between modifiers.
bool IsConsistent(const Instruction& in) {
  switch (in.op) {
    case Op::kRcp:
    case Op::kSqrt:
      return in.approx != (in.rounding != Rounding::kNone);
    case Op::kDiv:
      return !IsFloat(in.type) || in.approx + in.full + (in.rounding != Rounding::kNone) == 1;
    case Op::kMul:
    case Op::kMad:
      return in.product != Product::kWide || TypeBytes(in.type) <= 4;
    case Op::kMadc:
      return in.product != Product::kWide;
    default:
      return true;
  }
}

bool NamesForm(const IsaRow& row, std::string_view word) {
  return word.starts_with(row.name) &&
         (word.size() == row.name.size() || word[row.name.size()] == '.');
}

}  // namespace

std::span<const IsaRow> IsaRows() { return kRows; }

const IsaRow* MatchIsa(std::string_view word, int operands, Instruction& instruction,
                       std::string& why) {
  bool has_name = false, has_modifiers = false;
  std::string_view bad;
  for (const IsaRow& row : kRows) {
    if (!NamesForm(row, word)) continue;
    has_name = true;
    const std::string_view rest = word.substr(std::min(row.name.size() + 1, word.size()));
    Instruction tried;
    tried.op = row.op;
    std::string_view first_bad;
    if (!TakeModifiers(row, Split(rest, '.'), tried, first_bad) || !IsConsistent(tried)) {
      bad = first_bad;
      continue;
    }
    has_modifiers = true;
    if (!TakesOperands(row, operands)) continue;
    instruction = std::move(tried);
    instruction.results = row.results;
    if (row.name == "bar") instruction.aligned = true;
    return &row;
  }
  if (!has_name) {
    why = "there is no such instruction in the emulator";
  } else if (has_modifiers) {
    why = absl::StrFormat("it does not take %d operands", operands);
  } else if (bad.empty()) {
    why = "modifiers are missing, or do not go together";
  } else {
    why = absl::StrFormat("the emulator does not know it with '.%s'", bad);
  }
  return nullptr;
}

std::string InstructionListMarkdown() {
  std::string text = "| instruction | modifiers | types | from |\n| --- | --- | --- | --- |\n";
  for (const IsaRow& row : kRows) {
    absl::StrAppendFormat(&text, "| `%s` | %s | %s | %s |\n", row.name, row.modifiers, row.types,
                          row.source_types);
  }
  return text;
}

}  // namespace duotone::emulator
