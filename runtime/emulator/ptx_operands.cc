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

std::vector<std::string_view> Items(std::string_view text) {
  std::vector<std::string_view> items;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    items.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return items;
}

Type Widened(Type type) {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    case Type::kS32:
      return Type::kS64;
    default:
      return type;
  }
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
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    is_float = true;
  } else if (IsFloat(type)) {
    value = static_cast<double>(integer);
    is_float = true;
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

const IsaRow* IsaCache::Match(std::string_view word, int operands, Instruction& instruction,
                              std::string& why) {
  const std::pair<std::string, int> key(word, operands);
  const auto found = rows_.find(key);
  if (found != rows_.end()) {
    instruction = found->second.second;
    return found->second.first;
  }
  const IsaRow* row = MatchIsa(word, operands, instruction, why);
  if (row != nullptr) rows_[key] = {row, instruction};
  return row;
}

// ---- Names

void OperandScope::Begin(PtxFunction* of) {
  function = of;
  blocks_.resize(1);
  blocks_.emplace_back();
  labels_.clear();
  label_uses.clear();
}

bool OperandScope::AddRegister(const std::string& name, int index) {
  return !blocks_.back().variables.contains(name) &&
         blocks_.back().registers.emplace(name, index).second;
}

bool OperandScope::AddVariable(const std::string& name, int index) {
  return !blocks_.back().registers.contains(name) &&
         blocks_.back().variables.emplace(name, index).second;
}

bool OperandScope::AddLabel(const std::string& name, int index) {
  return labels_.emplace(name, index).second;
}

int OperandScope::FindRegister(std::string_view name) const {
  const std::string key(name);
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (const auto found = blocks_[i].registers.find(key); found != blocks_[i].registers.end()) {
      return found->second;
    }
    if (blocks_[i].variables.contains(key)) return -1;
  }
  return -1;
}

int OperandScope::FindVariable(std::string_view name) const {
  const std::string key(name);
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (const auto found = blocks_[i].variables.find(key); found != blocks_[i].variables.end()) {
      return found->second;
    }
    if (blocks_[i].registers.contains(key)) return -1;
  }
  return -1;
}

int OperandScope::FindLabel(const std::string& name) const {
  const auto found = labels_.find(name);
  return found == labels_.end() ? -1 : found->second;
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

absl::Status OperandScope::FillScalar(const PtxToken& word, bool minus, const Raw& raw, Type type,
                                      bool wider, Operand& operand) {
  operand.type = type;
  operand.negated = raw.negated;
  if (word.kind == Kind::kNumber) {
    operand.kind = Operand::Kind::kImmediate;
    if (ImmediateBits(word.text, minus, type, operand.bits)) {
      // Every number but 0 is true: xor.pred with -1 is not.
      if (type == Type::kPred) operand.bits = operand.bits != 0;
      return absl::OkStatus();
    }
    return InvalidArgument("'%s' is no immediate for %s", OneLine(word.text, 60), TypeName(type));
  }
  if (minus) return InvalidArgument("'-' stands before '%s'", OneLine(word.text, 60));
  if (word.text == "_") return absl::OkStatus();  // kSink
  if (word.text == "WARP_SZ") {
    operand.kind = Operand::Kind::kImmediate;
    operand.bits = 32;
    return absl::OkStatus();
  }
  for (const SpecialRow& row : kSpecials) {
    if (row.name != word.text) continue;
    operand.kind = Operand::Kind::kSpecial;
    operand.special = row.special;
    operand.register_type = row.type;
    if (Fits(row.type, type, true)) return absl::OkStatus();
    return InvalidArgument("%s is a %s, not a %s", word.text, TypeName(row.type), TypeName(type));
  }
  const int reg = FindRegister(word.text);
  if (reg >= 0) {
    operand.kind = Operand::Kind::kRegister;
    operand.index = reg;
    operand.register_type = function->registers[static_cast<size_t>(reg)].type;
    if (operand.negated && type != Type::kPred) {
      return InvalidArgument("'!' stands before %s", word.text);
    }
    if (raw.offset != 0) return InvalidArgument("%s has an offset", word.text);
    if (Fits(operand.register_type, type, wider)) return absl::OkStatus();
    return InvalidArgument("%s is declared as .%s; the instruction takes a .%s there", word.text,
                           TypeName(operand.register_type), TypeName(type));
  }
  const int variable = FindVariable(word.text);
  if (variable < 0) {
    return InvalidArgument("there is no register or variable '%s'", OneLine(word.text, 100));
  }
  if (TypeBytes(type) < 4)
    return InvalidArgument("an address does not fit into .%s", TypeName(type));
  operand.kind = Operand::Kind::kSymbol;
  operand.index = variable;
  operand.offset = raw.offset;
  return absl::OkStatus();
}

absl::Status OperandScope::FillVector(const Raw& raw, Type type, int count, bool wider,
                                      Instruction& instruction) {
  const bool is_vector = raw.kind == Raw::Kind::kVector;
  if (raw.kind == Raw::Kind::kAddress || static_cast<int>(raw.words.size()) != count ||
      (count > 1 && !is_vector)) {
    return InvalidArgument("an operand must be a vector of %d", count);
  }
  OperandGroup group(raw.words.size());
  for (size_t i = 0; i < group.size(); ++i) {
    DUOTONE_RETURN_IF_ERROR(FillScalar(raw.words[i], raw.minus[i], raw, type, wider, group[i]));
  }
  instruction.operands.push_back(std::move(group));
  return absl::OkStatus();
}

// mov.b64 {%r1, %r2}, %rd1: parts of the type's width divided by their number.
absl::Status OperandScope::FillMove(const Raw& raw, Instruction& instruction) {
  if (raw.kind != Raw::Kind::kVector)
    return FillVector(raw, instruction.type, 1, false, instruction);
  const auto count = static_cast<int>(raw.words.size());
  const int bytes = TypeBytes(instruction.type);
  if ((count != 2 && count != 4) || bytes / count < 1 || bytes % count != 0 ||
      instruction.type == Type::kPred) {
    return InvalidArgument("a .%s has no %d parts", TypeName(instruction.type), count);
  }
  return FillVector(raw, BitsOf(bytes / count), count, false, instruction);
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
  if (operand.index < 0) {
    return InvalidArgument("there is no register or variable '%s'", OneLine(word.text, 100));
  }
  instruction.operands.push_back({operand});
  return absl::OkStatus();
}

absl::Status OperandScope::FillOne(std::string_view item, const Raw& raw,
                                   Instruction& instruction) {
  const auto scalar = [&](Type type, bool wider = false) {
    return FillVector(raw, type, 1, wider, instruction);
  };
  if (item == "T") return scalar(instruction.type);
  if (item == "S") return scalar(instruction.source_type);
  if (item == "T+") return scalar(instruction.type, true);
  if (item == "S+") return scalar(instruction.source_type, true);
  if (item == "P") {
    return scalar(instruction.product == Product::kWide ? Widened(instruction.type)
                                                        : instruction.type);
  }
  if (item == "T*") return FillVector(raw, instruction.type, instruction.vector, true, instruction);
  if (item == "X") return FillMove(raw, instruction);
  if (item == "A") return FillAddress(raw, instruction);
  if (item == "M") return FillVector(raw, Type::kB32, instruction.vector, false, instruction);
  if (item == "L") {
    if (raw.kind != Raw::Kind::kScalar || raw.words[0].kind != Kind::kWord) {
      return InvalidArgument("a label is missing");
    }
    Operand operand;
    operand.kind = Operand::Kind::kLabel;
    operand.index = static_cast<int>(label_uses.size());
    label_uses.emplace_back(raw.words[0].text);
    instruction.operands.push_back({operand});
    return absl::OkStatus();
  }
  if (item == "N") {
    uint64_t value = 0;
    if (raw.kind != Raw::Kind::kScalar || raw.minus[0] || !ParseInteger(raw.words[0].text, value) ||
        value > 64) {
      return InvalidArgument("a small number is missing");
    }
    instruction.bytes = static_cast<int>(value);
    return absl::OkStatus();
  }
  // Fragments of m x n x k over 32 lanes, in registers of 32 bits.
  const auto& [m, n, k] = instruction.shape;
  const int source_bytes = TypeBytes(instruction.source_type);
  if (item == "A16")
    return FillVector(raw, Type::kB32, m * k * source_bytes / 128, false, instruction);
  if (item == "B16")
    return FillVector(raw, Type::kB32, n * k * source_bytes / 128, false, instruction);
  if (item == "D" || item == "C") {
    const bool is_half = instruction.type == Type::kF16;
    return FillVector(raw, is_half ? Type::kB32 : Type::kF32, m * n * (is_half ? 2 : 4) / 128,
                      false, instruction);
  }
  return scalar(TypeFromName(item));
}

absl::Status OperandScope::Fill(const IsaRow& row, std::vector<Raw>& raws,
                                Instruction& instruction) {
  const std::vector<std::string_view> items = Items(row.operands);
  size_t required = 0, given = 0;
  for (std::string_view item : items) required += item.back() != '?' && item.back() != '|';
  for (const Raw& raw : raws) given += !raw.after_bar;
  size_t optional = given - required;
  size_t next = 0;
  for (std::string_view item : items) {
    if (item.back() == '|') {
      item.remove_suffix(1);
      if (next < raws.size() && raws[next].after_bar) {
        DUOTONE_RETURN_IF_ERROR(FillOne(item, raws[next++], instruction));
      } else {
        instruction.operands.emplace_back(1).front().type = Type::kPred;
      }
      ++instruction.results;
      continue;
    }
    if (item.back() == '?') {
      item.remove_suffix(1);
      if (optional == 0) continue;
      --optional;
    }
    if (next >= raws.size() || raws[next].after_bar) return InvalidArgument("'|' stands too much");
    DUOTONE_RETURN_IF_ERROR(FillOne(item, raws[next++], instruction));
  }
  if (next != raws.size()) return InvalidArgument("there are operands too many");
  for (int i = 0; i < instruction.results; ++i) {
    for (const Operand& result : instruction.operands[static_cast<size_t>(i)]) {
      if (result.kind != Operand::Kind::kRegister && result.kind != Operand::Kind::kSink) {
        return InvalidArgument("a result must be a register");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status OperandScope::ParseOperands(PtxLexer& lexer, std::string_view word, IsaCache& isa,
                                         Instruction& instruction) {
  std::vector<Raw> raws;
  int count = 0;
  if (!lexer.peek().Is(';')) {
    for (;;) {
      raws.emplace_back();
      DUOTONE_RETURN_IF_ERROR(ParseRaw(lexer, raws.back()));
      ++count;
      if (lexer.Take('|')) {
        raws.emplace_back();
        DUOTONE_RETURN_IF_ERROR(ParseRaw(lexer, raws.back()));
        raws.back().after_bar = true;
      }
      if (!lexer.Take(',')) break;
      if (count > 32) return InvalidArgument("there are operands too many");
    }
  }
  if (!lexer.Take(';')) {
    return InvalidArgument("'%s' stands where ';' should be", OneLine(lexer.peek().text, 60));
  }
  std::string why;
  const IsaRow* row = isa.Match(word, count, instruction, why);
  if (row == nullptr) return InvalidArgument("%s", why);
  DUOTONE_RETURN_IF_ERROR(Fill(*row, raws, instruction));
  if (instruction.op == Op::kSetp || instruction.op == Op::kSet) {
    const size_t wanted = instruction.op == Op::kSetp ? 5 : 4;
    const bool combines = instruction.combine != BoolOp::kNone;
    if (combines != (instruction.operands.size() == wanted)) {
      return InvalidArgument("a predicate belongs to .and, .or and .xor");
    }
  }
  return absl::OkStatus();
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
  DUOTONE_RETURN_IF_ERROR(FillScalar(raw.words[0], raw.minus[0], raw, type, false, operand));
  const bool is_address =
      operand.kind == Operand::Kind::kSymbol &&
      (module->variables[static_cast<size_t>(operand.index)].space == Space::kGlobal ||
       module->variables[static_cast<size_t>(operand.index)].space == Space::kConst);
  if (operand.kind == Operand::Kind::kImmediate || is_address) return absl::OkStatus();
  return InvalidArgument("'%s' is no initial value", OneLine(raw.words[0].text, 60));
}

}  // namespace duotone::emulator
