#include "runtime/emulator/ptx_operands.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "base/float16.h"
#include "base/status.h"

namespace duotone::emulator {
namespace {

using Kind = PtxToken::Kind;

struct SpecialRow {
  std::string_view name;
  Special special;
  Type type = Type::kU32;
};
constexpr SpecialRow kSpecials[] = {
    {"%tid.x", Special::kTidX},
    {"%tid.y", Special::kTidY},
    {"%tid.z", Special::kTidZ},
    {"%ntid.x", Special::kNtidX},
    {"%ntid.y", Special::kNtidY},
    {"%ntid.z", Special::kNtidZ},
    {"%ctaid.x", Special::kCtaidX},
    {"%ctaid.y", Special::kCtaidY},
    {"%ctaid.z", Special::kCtaidZ},
    {"%nctaid.x", Special::kNctaidX},
    {"%nctaid.y", Special::kNctaidY},
    {"%nctaid.z", Special::kNctaidZ},
    {"%laneid", Special::kLaneid},
    {"%warpid", Special::kWarpid},
    {"%nwarpid", Special::kNwarpid},
    {"%smid", Special::kSmid},
    {"%nsmid", Special::kNsmid},
    {"%gridid", Special::kGridid, Type::kU64},
    {"%lanemask_eq", Special::kLanemaskEq},
    {"%lanemask_lt", Special::kLanemaskLt},
    {"%lanemask_le", Special::kLanemaskLe},
    {"%lanemask_gt", Special::kLanemaskGt},
    {"%lanemask_ge", Special::kLanemaskGe},
    {"%clock", Special::kClock},
    {"%clock_hi", Special::kClockHi},
    {"%clock64", Special::kClock64, Type::kU64},
    {"%globaltimer", Special::kGlobaltimer, Type::kU64},
    {"%total_smem_size", Special::kTotalSmemSize},
    {"%dynamic_smem_size", Special::kDynamicSmemSize},
};

// How the names of the other special registers begin (PTX ISA 9.0, 10).
constexpr std::string_view kUnmodelledSpecials[] = {"%envreg",
                                                    "%pm",
                                                    "%is_explicit_cluster",
                                                    "%clusterid",
                                                    "%nclusterid",
                                                    "%cluster_",
                                                    "%globaltimer_",
                                                    "%reserved_smem_offset_",
                                                    "%aggr_smem_size",
                                                    "%current_graph_exec"};

constexpr size_t kMaxDigits = 12;  // of a register's number

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsClock(Special special) {
  return special == Special::kClock || special == Special::kClockHi ||
         special == Special::kClock64 || special == Special::kGlobaltimer;
}

std::string_view SpaceName(Space space) {
  constexpr std::array<std::string_view, 6> kNames = {"generic", "global", "shared",
                                                      "local",   "param",  "const"};
  return kNames[static_cast<size_t>(space)];
}

Type BitsOf(int bytes) {
  switch (bytes) {
    case 1:
      return Type::kB8;
    case 2:
      return Type::kB16;
    case 4:
      return Type::kB32;
    default:
      return Type::kB64;
  }
}

// Whether a register of type `is` may stand where `wanted` is taken (PTX ISA 8.5, 9.4). `wider`:
// it may have more bytes.
bool Fits(Type is, Type wanted, bool wider) {
  if (is == Type::kPred || wanted == Type::kPred) return is == wanted;
  const int bytes = TypeBytes(is), wanted_bytes = TypeBytes(wanted);
  const bool is_bits = is >= Type::kB8 && is <= Type::kB128;
  const bool is_wanted_bits = wanted >= Type::kB8 && wanted <= Type::kB128;
  if (wider && bytes > wanted_bytes) return true;
  if (bytes != wanted_bytes) return false;
  return is_bits || is_wanted_bits || IsFloat(is) == IsFloat(wanted);
}

// The bits of a literal as `type` takes it.
bool ImmediateBits(std::string_view text, bool minus, Type type, uint64_t& bits) {
  const bool is_hex_float =
      text.size() > 2 && text[0] == '0' && std::string_view("fFdD").find(text[1]) != text.npos;
  double value = 0;
  uint64_t integer = 0;
  bool is_float = false;
  if (is_hex_float) {
    const bool is_single = text[1] == 'f' || text[1] == 'F';
    const auto [end, error] =
        std::from_chars(text.data() + 2, text.data() + text.size(), integer, 16);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    if (text.size() != (is_single ? 10u : 18u)) return false;
    // A NaN keeps its bits only where no conversion happens.
    if (!minus && is_single && TypeBytes(type) == 4) return bits = integer, true;
    if (!minus && !is_single && TypeBytes(type) == 8) return bits = integer, true;
    value = is_single ? std::bit_cast<float>(static_cast<uint32_t>(integer))
                      : std::bit_cast<double>(integer);
    is_float = true;
  } else if (!ParseInteger(text, integer)) {
    if (text.find_first_of(".eE") == text.npos) return false;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    is_float = true;
  } else if (IsFloat(type)) {
    return false;
  }
  if (minus) value = -value;
  if (!is_float) {
    bits = minus ? 0 - integer : integer;
    const int width = 8 * TypeBytes(type);
    if (width > 0 && width < 64) bits &= (uint64_t{1} << width) - 1;
    return true;
  }
  switch (type) {
    case Type::kF64:
    case Type::kB64:
      bits = std::bit_cast<uint64_t>(value);
      return true;
    case Type::kF32:
    case Type::kB32:
    case Type::kTf32:
      bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      return true;
    default:
      return false;
  }
}

}  // namespace

bool ParseInteger(std::string_view text, uint64_t& value) {
  if (!text.empty() && (text.back() == 'U' || text.back() == 'u')) text.remove_suffix(1);
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) {
    base = 2;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

absl::StatusOr<const IsaMatch*> IsaCache::Match(std::string_view words) {
  const auto found = matches_.find(words);
  if (found != matches_.end()) return &found->second;
  DUOTONE_ASSIGN_OR_RETURN(IsaMatch match, MatchIsa(words));
  return &matches_.emplace(words, std::move(match)).first->second;
}

// ---- Names

void OperandScope::Begin(PtxFunction* of) {
  function = of;
  blocks_.resize(1);
  blocks_.emplace_back();
  label_uses.clear();
}

bool OperandScope::AddRegister(const std::string& name, Type type) {
  Block& block = blocks_.back();
  if (block.variables.contains(name) || FindRange(block, name) != nullptr) return false;
  if (!block.registers.emplace(name, static_cast<int>(function->registers.size())).second) {
    return false;
  }
  function->registers.push_back({name, type});
  return true;
}

bool OperandScope::AddRegisters(const std::string& prefix, Type type, int64_t count) {
  return blocks_.back().ranges.emplace(prefix, Range{type, count}).second;
}

// The range of %r12 is that of %r, or, for a range %r1<5>, that of %r1.
const OperandScope::Range* OperandScope::FindRange(const Block& block, const std::string& name) {
  if (block.ranges.empty()) return nullptr;
  for (size_t at = name.size(); at > 1 && IsDigit(name[at - 1]);) {
    --at;
    const bool has_zeros = name[at] == '0' && at + 1 < name.size();
    int64_t number = 0;
    if (has_zeros || name.size() - at > kMaxDigits) continue;
    std::from_chars(name.data() + at, name.data() + name.size(), number);
    const auto found = block.ranges.find(name.substr(0, at));
    if (found != block.ranges.end() && number < found->second.count) return &found->second;
  }
  return nullptr;
}

bool OperandScope::AddVariable(const std::string& name, int index) {
  return FindRange(blocks_.back(), name) == nullptr && !blocks_.back().registers.contains(name) &&
         blocks_.back().variables.emplace(name, index).second;
}

bool OperandScope::AddLabel(const std::string& name, int index) {
  return blocks_.back().labels.emplace(name, index).second;
}

void OperandScope::Pop() {
  const Block block = std::move(blocks_.back());
  blocks_.pop_back();
  for (const int index : block.label_uses) {
    LabelUse& use = label_uses[static_cast<size_t>(index)];
    const auto found = block.labels.find(use.name);
    if (found != block.labels.end()) {
      use.target = found->second;
    } else if (blocks_.size() > 1) {
      blocks_.back().label_uses.push_back(index);
    }
  }
}

int OperandScope::FindRegister(std::string_view name) {
  const std::string key(name);
  for (size_t i = blocks_.size(); i-- > 0;) {
    Block& block = blocks_[i];
    if (const auto found = block.registers.find(key); found != block.registers.end()) {
      return found->second;
    }
    if (const Range* range = FindRange(block, key)) {
      const auto index = static_cast<int>(function->registers.size());
      function->registers.push_back({key, range->type});
      block.registers.emplace(key, index);
      return index;
    }
    if (block.variables.contains(key)) return -1;
  }
  return -1;
}

int OperandScope::FindVariable(std::string_view name) const {
  const std::string key(name);
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (const auto found = blocks_[i].variables.find(key); found != blocks_[i].variables.end()) {
      return found->second;
    }
    if (blocks_[i].registers.contains(key) || FindRange(blocks_[i], key) != nullptr) return -1;
  }
  return -1;
}

// ---- As written

absl::Status OperandScope::ParseOffset(PtxLexer& lexer, Raw& raw) {
  while (lexer.peek().Is('+') || lexer.peek().Is('-')) {
    const bool plus = lexer.Next().text[0] == '+';
    const bool minus = lexer.Take('-') == plus;
    uint64_t value = 0;
    if (lexer.peek().kind != Kind::kNumber || !ParseInteger(lexer.peek().text, value)) {
      return InvalidArgument("'%s' is no offset", OneLine(lexer.peek().text, 60));
    }
    lexer.Next();
    raw.offset =
        static_cast<int64_t>(static_cast<uint64_t>(raw.offset) + (minus ? 0 - value : value));
  }
  return absl::OkStatus();
}

absl::Status OperandScope::ParseRaw(PtxLexer& lexer, Raw& raw) {
  const auto is_word = [&] {
    return lexer.peek().kind == Kind::kWord || lexer.peek().kind == Kind::kNumber;
  };
  if (lexer.Take('{')) {
    raw.kind = Raw::Kind::kVector;
    do {
      raw.minus.push_back(lexer.Take('-'));
      if (!is_word()) {
        return InvalidArgument("'%s' stands in a vector", OneLine(lexer.peek().text, 60));
      }
      raw.words.push_back(lexer.Next());
    } while (lexer.Take(','));
    if (!lexer.Take('}')) return InvalidArgument("a vector without '}'");
    return absl::OkStatus();
  }
  if (lexer.Take('[')) {
    raw.kind = Raw::Kind::kAddress;
    if (!is_word()) return InvalidArgument("an address without a base");
    raw.minus.push_back(false);
    raw.words.push_back(lexer.Next());
    DUOTONE_RETURN_IF_ERROR(ParseOffset(lexer, raw));
    if (!lexer.Take(']')) return InvalidArgument("an address without ']'");
    return absl::OkStatus();
  }
  raw.negated = lexer.Take('!');
  raw.minus.push_back(lexer.Take('-'));
  if (!is_word()) {
    return InvalidArgument("'%s' stands where an operand should be",
                           OneLine(lexer.peek().text, 60));
  }
  raw.words.push_back(lexer.Next());
  return ParseOffset(lexer, raw);
}

// ---- As the table says

absl::Status OperandScope::UnknownName(std::string_view name) const {
  for (const std::string_view prefix : kUnmodelledSpecials) {
    if (name.substr(0, prefix.size()) != prefix) continue;
    return Unimplemented("the emulator does not model the special register %s", OneLine(name, 100));
  }
  for (const PtxFunction& other : module->functions) {
    if (other.name != name) continue;
    return Unimplemented(
        "%s is a function: the emulator has no addresses of functions and no "
        "indirect calls",
        OneLine(name, 100));
  }
  return InvalidArgument("there is no register or variable '%s'", OneLine(name, 100));
}

absl::Status OperandScope::FillScalar(const OperandPattern& pattern, const PtxToken& word,
                                      bool minus, const Raw& raw, Type type, Operand& operand) {
  operand.type = type;
  operand.negated = raw.negated;
  if (raw.negated && !pattern.negatable) return InvalidArgument("'!' stands before %s", word.text);
  if (word.kind == Kind::kNumber) {
    operand.kind = Operand::Kind::kImmediate;
    if (raw.offset != 0) return InvalidArgument("%s has an offset", OneLine(word.text, 60));
    if (!ImmediateBits(word.text, minus, type, operand.bits)) {
      return InvalidArgument("'%s' is no immediate for %s", OneLine(word.text, 60), TypeName(type));
    }
    // Every number but 0 is true: xor.pred with -1 is not.
    if (type == Type::kPred) operand.bits = operand.bits != 0;
    return absl::OkStatus();
  }
  if (minus) return InvalidArgument("'-' stands before '%s'", OneLine(word.text, 60));
  if (pattern.immediate) {
    return InvalidArgument("'%s' stands where a number must be", OneLine(word.text, 60));
  }
  if (word.text == "_" && pattern.sink) return absl::OkStatus();
  if (word.text == "WARP_SZ") {
    operand.kind = Operand::Kind::kImmediate;
    operand.bits = 32;
    return absl::OkStatus();
  }
  const int reg = FindRegister(word.text);
  if (reg >= 0) {
    operand.kind = Operand::Kind::kRegister;
    operand.index = reg;
    operand.register_type = function->registers[static_cast<size_t>(reg)].type;
    if (raw.offset != 0) return InvalidArgument("%s has an offset", word.text);
    if (Fits(operand.register_type, type, pattern.wider)) return absl::OkStatus();
    return InvalidArgument("%s is declared as .%s; the instruction takes a .%s there", word.text,
                           TypeName(operand.register_type), TypeName(type));
  }
  for (const SpecialRow& row : kSpecials) {
    if (row.name != word.text) continue;
    operand.kind = Operand::Kind::kSpecial;
    operand.special = row.special;
    operand.register_type = row.type;
    if (raw.offset == 0 && Fits(row.type, type, true)) return absl::OkStatus();
    return InvalidArgument("%s is a %s, not a %s", word.text, TypeName(row.type), TypeName(type));
  }
  const int variable = FindVariable(word.text);
  if (variable < 0) return UnknownName(word.text);
  if (!pattern.symbol) {
    return InvalidArgument("the address of %s stands where none may be: it must go through mov",
                           OneLine(word.text, 100));
  }
  operand.kind = Operand::Kind::kSymbol;
  operand.index = variable;
  operand.offset = raw.offset;
  return absl::OkStatus();
}

// A value, a vector, the matrices of ldmatrix or the parts of a mov.
absl::Status OperandScope::FillValues(const OperandPattern& pattern, const Raw& raw,
                                      Instruction& instruction) {
  if (raw.kind == Raw::Kind::kAddress) {
    return InvalidArgument("an address stands where a value should be");
  }
  Type type = OperandType(pattern, instruction);
  const auto given = static_cast<int>(raw.words.size());
  int count = 1;
  if (pattern.vector) count = instruction.vector;
  if (pattern.braces != 0) count = pattern.braces < 0 ? instruction.vector : pattern.braces;
  OperandPattern element = pattern;
  if (pattern.parts && raw.kind == Raw::Kind::kVector) {
    // mov.b64 {%r1, %r2}, %rd1: parts of the type's width divided by their number.
    if ((given != 2 && given != 4) || TypeBytes(type) % given != 0) {
      return InvalidArgument("a .%s has no %d parts", TypeName(type), given);
    }
    count = given;
    type = BitsOf(TypeBytes(type) / given);
    element.sink = pattern.result;
    element.symbol = false;
  }
  // Of ldmatrix .x1 the braces are often left out.
  if (given != count || (count > 1 && raw.kind != Raw::Kind::kVector)) {
    return InvalidArgument("an operand must be %s, not %d",
                           count == 1 ? "one value" : absl::StrFormat("a vector of %d", count),
                           given);
  }
  OperandGroup group(raw.words.size());
  for (size_t i = 0; i < group.size(); ++i) {
    DUOTONE_RETURN_IF_ERROR(FillScalar(element, raw.words[i], raw.minus[i], raw, type, group[i]));
    const Operand& operand = group[i];
    if (pattern.result && operand.kind != Operand::Kind::kRegister &&
        operand.kind != Operand::Kind::kSink) {
      return InvalidArgument("'%s' is a result and must be a register",
                             OneLine(raw.words[i].text, 60));
    }
    if (operand.kind == Operand::Kind::kSpecial && IsClock(operand.special) &&
        instruction.op != Op::kMov) {
      return InvalidArgument("%s can only be read by mov", raw.words[i].text);
    }
  }
  instruction.operands.push_back(std::move(group));
  return absl::OkStatus();
}

absl::Status OperandScope::FillAddress(const Raw& raw, Instruction& instruction) {
  if (raw.kind != Raw::Kind::kAddress)
    return InvalidArgument("an address such as [%%rd1] is missing");
  const PtxToken& word = raw.words.front();
  Operand operand;
  operand.type = Type::kU64;
  operand.offset = raw.offset;
  operand.kind = Operand::Kind::kAddress;
  if (word.kind == Kind::kNumber) {
    uint64_t value = 0;
    if (!ParseInteger(word.text, value)) return InvalidArgument("'%s' is no address", word.text);
    operand.offset = static_cast<int64_t>(static_cast<uint64_t>(raw.offset) + value);
    operand.register_type = Type::kU64;
    instruction.operands.push_back({operand});
    return absl::OkStatus();
  }
  const int reg = FindRegister(word.text);
  if (reg >= 0) {
    operand.index = reg;
    operand.register_type = function->registers[static_cast<size_t>(reg)].type;
    const int bytes = TypeBytes(operand.register_type);
    if (IsFloat(operand.register_type) || (bytes != 4 && bytes != 8)) {
      return InvalidArgument("%s is declared as .%s and holds no address", word.text,
                             TypeName(operand.register_type));
    }
    instruction.operands.push_back({operand});
    return absl::OkStatus();
  }
  operand.kind = Operand::Kind::kSymbolAddress;
  operand.index = FindVariable(word.text);
  if (operand.index < 0) return UnknownName(word.text);
  // A name stands for the offset in its state space; only in global and constant memory is that
  // the generic address too.
  const Space space = module->variables[static_cast<size_t>(operand.index)].space;
  Space accessed = instruction.space;
  if (instruction.op == Op::kCpAsync && !instruction.operands.empty()) accessed = Space::kGlobal;
  const bool is_generic =
      accessed == Space::kGeneric && (space == Space::kGlobal || space == Space::kConst);
  if (space != accessed && !is_generic) {
    return InvalidArgument("%s lies in .%s; the instruction accesses %s memory", word.text,
                           SpaceName(space), SpaceName(accessed));
  }
  instruction.operands.push_back({operand});
  return absl::OkStatus();
}

absl::Status OperandScope::FillLabel(const Raw& raw, Instruction& instruction) {
  if (raw.kind != Raw::Kind::kScalar || raw.words[0].kind != Kind::kWord) {
    return InvalidArgument("a label is missing");
  }
  Operand operand;
  operand.kind = Operand::Kind::kLabel;
  operand.index = static_cast<int>(label_uses.size());
  blocks_.back().label_uses.push_back(operand.index);
  label_uses.push_back({std::string(raw.words[0].text), -1});
  instruction.operands.push_back({operand});
  return absl::OkStatus();
}

absl::Status OperandScope::FillCount(const Raw& raw, Instruction& instruction) {
  uint64_t value = 0;
  if (raw.kind != Raw::Kind::kScalar || raw.minus[0] || raw.words[0].kind != Kind::kNumber ||
      !ParseInteger(raw.words[0].text, value)) {
    return InvalidArgument("a number of bytes or groups is missing");
  }
  if (value > 1024) return InvalidArgument("%d is too large there", value);
  instruction.bytes = static_cast<int>(value);
  // PTX ISA 9.0, 9.7.9.25.3.1.
  if (instruction.op == Op::kCpAsync && value != 16 &&
      (instruction.bypass_l1 || (value != 4 && value != 8))) {
    return InvalidArgument("it copies 4, 8 or 16 bytes, with .cg 16 bytes, not %d", value);
  }
  return absl::OkStatus();
}

absl::Status OperandScope::FillOne(const OperandPattern& pattern, const Raw& raw,
                                   Instruction& instruction) {
  switch (pattern.shape) {
    case OperandPattern::Shape::kAddress:
      return FillAddress(raw, instruction);
    case OperandPattern::Shape::kLabel:
      return FillLabel(raw, instruction);
    case OperandPattern::Shape::kCount:
      return FillCount(raw, instruction);
    case OperandPattern::Shape::kValue:
      break;
  }
  return FillValues(pattern, raw, instruction);
}

absl::Status OperandScope::Fill(const IsaMatch& match, const std::vector<Raw>& raws,
                                Instruction& instruction) {
  size_t required = 0, allowed = 0, given = 0;
  for (const OperandPattern& pattern : *match.operands) {
    if (pattern.bar || pattern.absent) continue;
    ++allowed;
    required += !pattern.optional;
  }
  for (const Raw& raw : raws) given += !raw.after_bar;
  if (given < required || given > allowed) {
    return InvalidArgument("it takes %s operands, not %d",
                           required == allowed ? absl::StrFormat("%d", required)
                                               : absl::StrFormat("%d to %d", required, allowed),
                           given);
  }
  size_t optional = given - required;
  size_t next = 0;
  for (const OperandPattern& pattern : *match.operands) {
    const bool after_bar = next < raws.size() && raws[next].after_bar;
    if (pattern.absent || (pattern.bar && !after_bar)) {
      instruction.operands.emplace_back(1).front().type = pattern.fixed;
      continue;
    }
    if (pattern.optional && optional == 0) continue;
    optional -= pattern.optional;
    if (after_bar != pattern.bar) return InvalidArgument("a second result stands behind '|'");
    DUOTONE_RETURN_IF_ERROR(FillOne(pattern, raws[next++], instruction));
  }
  if (next != raws.size()) return InvalidArgument("a second result stands behind '|'");
  return absl::OkStatus();
}

absl::Status OperandScope::ParseOperands(PtxLexer& lexer, std::string_view word, IsaCache& isa,
                                         Instruction& instruction) {
  // First what the word is: of an unknown instruction nobody wants to hear about its operands.
  DUOTONE_ASSIGN_OR_RETURN(const IsaMatch* match, isa.Match(word));
  if (match->since > module->compute) {
    return InvalidArgument("%s is there from sm_%d on; the module's .target is %s", word,
                           match->since, module->target);
  }
  instruction = match->instruction;
  std::vector<Raw> raws;
  raws.reserve(match->operands->size());
  if (!lexer.peek().Is(';')) {
    do {
      raws.emplace_back();
      DUOTONE_RETURN_IF_ERROR(ParseRaw(lexer, raws.back()));
      if (lexer.Take('|')) {
        raws.emplace_back();
        DUOTONE_RETURN_IF_ERROR(ParseRaw(lexer, raws.back()));
        raws.back().after_bar = true;
      }
      if (raws.size() > 32) return InvalidArgument("there are operands too many");
    } while (lexer.Take(','));
  }
  if (!lexer.Take(';')) {
    return InvalidArgument("'%s' stands where ';' should be", OneLine(lexer.peek().text, 60));
  }
  instruction.operands.reserve(match->operands->size());
  return Fill(*match, raws, instruction);
}

absl::Status OperandScope::ParseData(PtxLexer& lexer, Type type, Operand& operand) {
  Raw raw;
  DUOTONE_RETURN_IF_ERROR(ParseRaw(lexer, raw));
  if (raw.kind == Raw::Kind::kScalar && raw.words[0].text == "generic" && lexer.Take('(')) {
    raw = Raw();
    DUOTONE_RETURN_IF_ERROR(ParseRaw(lexer, raw));
    if (!lexer.Take(')')) return InvalidArgument("generic( without ')'");
  }
  if (raw.kind != Raw::Kind::kScalar) return InvalidArgument("no initial value");
  // generic(x)+8 and x+8 are the same.
  const absl::Status offset = ParseOffset(lexer, raw);
  if (!offset.ok()) return offset;
  OperandPattern pattern;
  pattern.symbol = true;
  DUOTONE_RETURN_IF_ERROR(FillScalar(pattern, raw.words[0], raw.minus[0], raw, type, operand));
  const bool is_address =
      operand.kind == Operand::Kind::kSymbol &&
      (module->variables[static_cast<size_t>(operand.index)].space == Space::kGlobal ||
       module->variables[static_cast<size_t>(operand.index)].space == Space::kConst);
  if (operand.kind == Operand::Kind::kImmediate || is_address) return absl::OkStatus();
  return InvalidArgument("'%s' is no initial value", OneLine(raw.words[0].text, 60));
}

}  // namespace duotone::emulator
