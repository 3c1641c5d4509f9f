// The parser of PTX modules: directives, declarations, scopes, instructions. What an instruction
// may look like is the table of runtime/emulator/isa.h; its operands are read in ptx_operands.cc.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "runtime/emulator/ptx.h"
#include "runtime/emulator/ptx_lexer.h"
#include "runtime/emulator/ptx_operands.h"
#include "runtime/kernel.h"

namespace duotone::emulator {
namespace {

// No text may eat the host's memory.
constexpr int64_t kMaxRegisters = 1 << 20;      // of a range
constexpr int64_t kMaxVariableBytes = 1 << 28;  // of one variable
constexpr int64_t kMaxInitialBytes = 1 << 26;   // of all initial values
constexpr int kMaxDepth = 64;                   // of nested blocks and initialisers
constexpr int64_t kMaxAlignment = 1 << 16;
constexpr int64_t kConstBytes = 1 << 16;  // of all variables in .const; PTX ISA 9.0, 5.1.3

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) { SplitLines(text); }

  absl::StatusOr<PtxModule> Run();

 private:
  struct SourcePlace {
    int file = 0;
    int line = 0;
    int column = 0;
    bool operator==(const SourcePlace&) const = default;
    friend bool operator<(const SourcePlace& a, const SourcePlace& b) {
      return std::tie(a.file, a.line, a.column) < std::tie(b.file, b.line, b.column);
    }
  };

  void SplitLines(std::string_view text);
  absl::Status ErrorAt(const PtxToken& token, std::string_view what) const;
  absl::Status Unexpected(std::string_view wanted) const;
  absl::Status Expect(char symbol);
  absl::StatusOr<std::string> ExpectWord(std::string_view what);
  absl::StatusOr<int64_t> ExpectInteger(std::string_view what, int64_t low, int64_t high);

  absl::Status ParseTopLevel();
  absl::Status ParseVersion();
  absl::Status ParseTarget();
  absl::Status ParseFile();
  absl::Status ParseLoc();
  void ChoosePlaces();
  absl::Status SkipSection();
  absl::Status SkipToSemicolon();
  absl::Status ParseFunction(bool is_entry);
  absl::Status ParseParameters(char end, std::vector<int>& to);
  absl::Status ParseFunctionDirectives(PtxFunction& function);
  absl::Status ParseThreads(std::array<int, 3>& threads);
  absl::Status ParseBody(PtxFunction& function);
  absl::Status ParseStatement(PtxFunction& function);
  absl::Status ParseRegisters();
  absl::Status ParseVariable(Space space, bool is_extern, char end, int* index);
  absl::Status ParseInitial(Variable& variable);
  absl::Status ParseInitialValue(Variable& variable, int depth);
  absl::Status ParseInstruction(PtxFunction& function);
  absl::Status ParseGuard(Instruction& instruction);
  absl::Status ParseCall(std::string_view word, Instruction& instruction);
  absl::Status ParseCallArguments(OperandScope& scope, Instruction& instruction, int* count);
  absl::Status ResolveLabels(PtxFunction& function);

  PtxLexer lexer_;
  PtxModule module_;
  OperandScope scope_;  // of the function being parsed
  int depth_ = 0;
  int64_t initial_bytes_ = 0;
  std::vector<int64_t> dimensions_;  // of the variable being parsed; 0: to be found out
  std::map<SourcePlace, SourcePlace> inlined_at_;
  // Where code stands, where that has been inlined, and so on outwards.
  std::vector<std::vector<SourcePlace>> chains_;
  std::map<std::vector<SourcePlace>, size_t> chain_numbers_;
  int chain_ = -1;  // of the instructions that follow; -1: none
  std::unordered_map<std::string, int> function_index_;
  std::vector<std::pair<int, PtxToken>> calls_;  // which function, where
  IsaCache isa_;
};

// ---- Errors and simple tokens

void Parser::SplitLines(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    module_.lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

absl::Status Parser::ErrorAt(const PtxToken& token, std::string_view what) const {
  const auto line = static_cast<size_t>(token.line) - 1;
  const std::string text = line < module_.lines.size() ? OneLine(module_.lines[line]) : "";
  return InvalidArgument("PTX line %d '%s': %s", token.line, text, what);
}

absl::Status Parser::Unexpected(std::string_view wanted) const {
  const PtxToken& token = lexer_.peek();
  if (token.kind == PtxToken::Kind::kEnd) {
    return ErrorAt(token, absl::StrFormat("the text ends where %s should be", wanted));
  }
  return ErrorAt(
      token, absl::StrFormat("'%s' stands where %s should be", OneLine(token.text, 60), wanted));
}

absl::Status Parser::Expect(char symbol) {
  if (lexer_.Take(symbol)) return absl::OkStatus();
  return Unexpected(absl::StrFormat("'%c'", symbol));
}

absl::StatusOr<std::string> Parser::ExpectWord(std::string_view what) {
  if (lexer_.peek().kind != PtxToken::Kind::kWord) return Unexpected(what);
  return std::string(lexer_.Next().text);
}

absl::StatusOr<int64_t> Parser::ExpectInteger(std::string_view what, int64_t low, int64_t high) {
  const PtxToken token = lexer_.peek();
  if (token.kind != PtxToken::Kind::kNumber) return Unexpected(what);
  uint64_t value = 0;
  if (!ParseInteger(token.text, value)) {
    return ErrorAt(token, absl::StrFormat("'%s' is no integer for %s", token.text, what));
  }
  if (value > static_cast<uint64_t>(high) || static_cast<int64_t>(value) < low) {
    return ErrorAt(token, absl::StrFormat("%s is %d, outside [%d, %d]", what, value, low, high));
  }
  lexer_.Next();
  return static_cast<int64_t>(value);
}

// ---- The module

absl::StatusOr<PtxModule> Parser::Run() {
  scope_.module = &module_;
  module_.files.emplace_back();
  if (!lexer_.peek().IsDirective(".version")) {
    return Unexpected(".version, with which PTX begins,");
  }
  DUOTONE_RETURN_IF_ERROR(ParseTopLevel());
  if (!lexer_.peek().IsDirective(".target")) return Unexpected(".target, which follows .version,");
  while (lexer_.peek().kind != PtxToken::Kind::kEnd) {
    DUOTONE_RETURN_IF_ERROR(ParseTopLevel());
  }
  ChoosePlaces();
  int64_t const_bytes = 0;
  for (const Variable& variable : module_.variables) {
    if (variable.space == Space::kConst) const_bytes += variable.bytes;
  }
  if (const_bytes > kConstBytes) {
    return InvalidArgument("the variables in .const have %d bytes; there are %d", const_bytes,
                           kConstBytes);
  }
  for (const Variable& variable : module_.variables) {
    if (!variable.is_extern || variable.space == Space::kShared) continue;
    return InvalidArgument(
        "the variable %s is declared .extern, but not defined; the emulator links "
        "no modules",
        variable.name);
  }
  for (const auto& [index, token] : calls_) {
    const PtxFunction& called = module_.functions[static_cast<size_t>(index)];
    if (!called.is_declaration) continue;
    return ErrorAt(token, absl::StrFormat("%s is declared, but has no body; the emulator brings no "
                                          "functions of its own and links no modules",
                                          called.name));
  }
  return std::move(module_);
}

absl::Status Parser::ParseTopLevel() {
  bool is_extern = false;
  for (;;) {
    if (lexer_.TakeDirective(".visible") || lexer_.TakeDirective(".weak") ||
        lexer_.TakeDirective(".common")) {
      continue;
    }
    if (!lexer_.TakeDirective(".extern")) break;
    is_extern = true;
  }
  const PtxToken token = lexer_.peek();
  if (lexer_.TakeDirective(".version")) return ParseVersion();
  if (lexer_.TakeDirective(".target")) return ParseTarget();
  if (lexer_.TakeDirective(".address_size")) {
    return ExpectInteger("the address size", 64, 64).status();
  }
  if (lexer_.TakeDirective(".file")) return ParseFile();
  if (lexer_.TakeDirective(".section")) return SkipSection();
  if (lexer_.TakeDirective(".pragma")) return SkipToSemicolon();
  if (lexer_.TakeDirective(".entry")) return ParseFunction(true);
  if (lexer_.TakeDirective(".func")) return ParseFunction(false);
  constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {".global", Space::kGlobal}, {".const", Space::kConst}, {".shared", Space::kShared}};
  for (const auto& [name, space] : kSpaces) {
    if (lexer_.TakeDirective(name)) return ParseVariable(space, is_extern, ';', nullptr);
  }
  if (token.kind == PtxToken::Kind::kDirective) {
    return ErrorAt(token, absl::StrFormat("the emulator does not know %s here", token.text));
  }
  return Unexpected("a declaration");
}

// "9.0" is one number for the lexer.
absl::Status Parser::ParseVersion() {
  const PtxToken token = lexer_.peek();
  int major = 0, minor = 0;
  const std::string_view text = token.text;
  const char* end = text.data() + text.size();
  const auto [dot, error] = std::from_chars(text.data(), end, major);
  if (token.kind != PtxToken::Kind::kNumber || error != std::errc() || dot == end || *dot != '.' ||
      std::from_chars(dot + 1, end, minor).ptr != end || major > 99 || minor > 9 || minor < 0) {
    return Unexpected("a version such as 8.5");
  }
  lexer_.Next();
  module_.version = 10 * major + minor;
  return absl::OkStatus();
}

// sm_80, sm_90a, sm_100f, and options behind it.
absl::Status Parser::ParseTarget() {
  const PtxToken token = lexer_.peek();
  DUOTONE_ASSIGN_OR_RETURN(module_.target, ExpectWord("an architecture"));
  std::string_view digits = module_.target;
  if (digits.substr(0, 3) == "sm_") {
    digits.remove_prefix(3);
    module_.is_for_one = !digits.empty() && (digits.back() == 'a' || digits.back() == 'f');
    if (module_.is_for_one) digits.remove_suffix(1);
  }
  const char* const end = digits.data() + digits.size();
  if (digits.size() < 2 || digits.size() > 3 ||
      std::from_chars(digits.data(), end, module_.compute).ptr != end || module_.compute < 10) {
    return ErrorAt(token, absl::StrFormat("'%s' is no architecture such as sm_80",
                                          OneLine(module_.target, 60)));
  }
  while (lexer_.Take(',')) DUOTONE_RETURN_IF_ERROR(ExpectWord("an option").status());
  return absl::OkStatus();
}

absl::Status Parser::ParseFile() {
  DUOTONE_ASSIGN_OR_RETURN(const int64_t number, ExpectInteger("the number of a file", 1, 65535));
  if (lexer_.peek().kind != PtxToken::Kind::kString) return Unexpected("the name of a file");
  if (static_cast<size_t>(number) >= module_.files.size()) {
    module_.files.resize(static_cast<size_t>(number) + 1);
  }
  module_.files[static_cast<size_t>(number)] = std::string(lexer_.Next().text);
  while (lexer_.Take(',')) {
    DUOTONE_RETURN_IF_ERROR(
        ExpectInteger("a time or size", 0, std::numeric_limits<int64_t>::max()).status());
  }
  return absl::OkStatus();
}

// .loc FILE LINE COLUMN{, function_name LABEL{+N}, inlined_at FILE LINE COLUMN}. Code of a header
// that was inlined into a generated kernel belongs to the kernel's innermost line; elsewhere the
// innermost place counts.
absl::Status Parser::ParseLoc() {
  const auto place = [&](SourcePlace& to) -> absl::Status {
    DUOTONE_ASSIGN_OR_RETURN(const int64_t file, ExpectInteger("the number of a file", 0, 65535));
    DUOTONE_ASSIGN_OR_RETURN(const int64_t line, ExpectInteger("a line", 0, INT32_MAX));
    DUOTONE_ASSIGN_OR_RETURN(const int64_t column, ExpectInteger("a column", 0, INT32_MAX));
    to = {static_cast<int>(file), static_cast<int>(line), static_cast<int>(column)};
    return absl::OkStatus();
  };
  SourcePlace here;
  DUOTONE_RETURN_IF_ERROR(place(here));
  if (lexer_.Take(',')) {
    DUOTONE_RETURN_IF_ERROR(ExpectWord("function_name").status());
    DUOTONE_RETURN_IF_ERROR(ExpectWord("a label").status());
    if (lexer_.Take('+')) {
      DUOTONE_RETURN_IF_ERROR(ExpectInteger("an offset", 0, INT32_MAX).status());
    }
    DUOTONE_RETURN_IF_ERROR(Expect(','));
    DUOTONE_RETURN_IF_ERROR(ExpectWord("inlined_at").status());
    SourcePlace outer;
    DUOTONE_RETURN_IF_ERROR(place(outer));
    if (outer != here) inlined_at_[here] = outer;
  }
  // Names of files mostly follow the code, so what to choose of these is decided at the end.
  std::vector<SourcePlace> chain = {here};
  for (int i = 0; i < kMaxDepth; ++i) {
    const auto found = inlined_at_.find(chain.back());
    if (found == inlined_at_.end()) break;
    chain.push_back(found->second);
  }
  const auto [known, is_new] = chain_numbers_.try_emplace(chain, chains_.size());
  if (is_new) chains_.push_back(std::move(chain));
  chain_ = static_cast<int>(known->second);
  return absl::OkStatus();
}

// Instructions have the number of their chain until now.
void Parser::ChoosePlaces() {
  const auto is_kernel = [&](const SourcePlace& at) {
    if (static_cast<size_t>(at.file) >= module_.files.size()) return false;
    const std::string_view name = module_.files[static_cast<size_t>(at.file)];
    return name.substr(name.find_last_of('/') + 1) == runtime::kLabelFile;
  };
  std::vector<SourcePlace> chosen;
  for (const std::vector<SourcePlace>& chain : chains_) {
    const auto labelled = std::find_if(chain.begin(), chain.end(), is_kernel);
    chosen.push_back(labelled == chain.end() ? chain.front() : *labelled);
  }
  for (PtxFunction& function : module_.functions) {
    for (Instruction& instruction : function.body) {
      const int chain = std::exchange(instruction.source_line, 0);
      if (chain < 0) continue;
      instruction.source_file = chosen[static_cast<size_t>(chain)].file;
      instruction.source_line = chosen[static_cast<size_t>(chain)].line;
    }
  }
}

absl::Status Parser::SkipSection() {
  while (!lexer_.peek().Is('{')) {
    if (lexer_.peek().kind == PtxToken::Kind::kEnd) return Unexpected("'{'");
    lexer_.Next();
  }
  while (!lexer_.Take('}')) {
    if (lexer_.peek().kind == PtxToken::Kind::kEnd) return Unexpected("'}'");
    lexer_.Next();
  }
  return absl::OkStatus();
}

absl::Status Parser::SkipToSemicolon() {
  while (!lexer_.Take(';')) {
    if (lexer_.peek().kind == PtxToken::Kind::kEnd) return Unexpected("';'");
    lexer_.Next();
  }
  return absl::OkStatus();
}

// ---- Functions

absl::Status Parser::ParseFunction(bool is_entry) {
  PtxFunction function;
  function.is_entry = is_entry;
  scope_.Begin(&function);
  if (!is_entry && lexer_.Take('(')) {
    DUOTONE_RETURN_IF_ERROR(ParseParameters(')', function.results));
  }
  const PtxToken name = lexer_.peek();
  function.line = name.line;
  DUOTONE_ASSIGN_OR_RETURN(function.name, ExpectWord("the name of a function"));
  if (lexer_.Take('(')) {
    DUOTONE_RETURN_IF_ERROR(ParseParameters(')', function.parameters));
  }
  DUOTONE_RETURN_IF_ERROR(ParseFunctionDirectives(function));
  const auto [known, is_new] =
      function_index_.emplace(function.name, static_cast<int>(module_.functions.size()));
  const auto index = static_cast<size_t>(known->second);
  const bool is_declaration = lexer_.Take(';');
  if (is_new) {
    // Its name is known in its own body.
    module_.functions.push_back(function);
    module_.functions[index].is_declaration = true;
  } else if (!is_declaration && !module_.functions[index].is_declaration) {
    return ErrorAt(name, absl::StrFormat("there are two functions '%s'", function.name));
  }
  if (is_declaration) {
    scope_.Pop();
    return absl::OkStatus();
  }
  chain_ = -1;
  DUOTONE_RETURN_IF_ERROR(ParseBody(function));
  module_.functions[index] = std::move(function);
  return absl::OkStatus();
}

absl::Status Parser::ParseParameters(char end, std::vector<int>& to) {
  if (lexer_.Take(end)) return absl::OkStatus();
  for (;;) {
    if (!lexer_.TakeDirective(".param")) return Unexpected(".param");
    int index = -1;
    DUOTONE_RETURN_IF_ERROR(ParseVariable(Space::kParam, false, end, &index));
    to.push_back(index);
    if (lexer_.Take(end)) return absl::OkStatus();
    DUOTONE_RETURN_IF_ERROR(Expect(','));
  }
}

absl::Status Parser::ParseThreads(std::array<int, 3>& threads) {
  threads = {1, 1, 1};
  for (int i = 0; i < 3; ++i) {
    DUOTONE_ASSIGN_OR_RETURN(const int64_t count, ExpectInteger("a number of threads", 1, 65535));
    threads[static_cast<size_t>(i)] = static_cast<int>(count);
    if (!lexer_.Take(',')) break;
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseFunctionDirectives(PtxFunction& function) {
  for (;;) {
    const PtxToken token = lexer_.peek();
    if (token.kind != PtxToken::Kind::kDirective) return absl::OkStatus();
    lexer_.Next();
    if (token.text == ".maxntid") {
      DUOTONE_RETURN_IF_ERROR(ParseThreads(function.max_threads));
    } else if (token.text == ".reqntid") {
      DUOTONE_RETURN_IF_ERROR(ParseThreads(function.required_threads));
    } else if (token.text == ".minnctapersm" || token.text == ".maxnreg" ||
               token.text == ".maxnctapersm") {
      DUOTONE_RETURN_IF_ERROR(ExpectInteger(token.text, 0, INT32_MAX).status());
    } else if (token.text == ".pragma") {
      DUOTONE_RETURN_IF_ERROR(SkipToSemicolon());
    } else if (token.text != ".noreturn" && token.text != ".noinline") {
      return ErrorAt(token, absl::StrFormat("the emulator does not know %s here", token.text));
    }
  }
}

absl::Status Parser::ParseBody(PtxFunction& function) {
  DUOTONE_RETURN_IF_ERROR(Expect('{'));
  depth_ = 1;
  while (depth_ > 0) DUOTONE_RETURN_IF_ERROR(ParseStatement(function));
  return ResolveLabels(function);
}

absl::Status Parser::ParseStatement(PtxFunction& function) {
  const PtxToken token = lexer_.peek();
  if (lexer_.Take('{')) {
    if (++depth_ > kMaxDepth) return ErrorAt(token, "blocks are nested too deeply");
    scope_.Push();
    return absl::OkStatus();
  }
  if (lexer_.Take('}')) {
    --depth_;
    scope_.Pop();
    return absl::OkStatus();
  }
  if (lexer_.Take(';')) return absl::OkStatus();
  if (token.kind == PtxToken::Kind::kDirective) {
    lexer_.Next();
    if (token.text == ".reg") return ParseRegisters();
    if (token.text == ".loc") return ParseLoc();
    if (token.text == ".pragma") return SkipToSemicolon();
    constexpr std::pair<std::string_view, Space> kSpaces[] = {{".param", Space::kParam},
                                                              {".shared", Space::kShared},
                                                              {".local", Space::kLocal},
                                                              {".global", Space::kGlobal},
                                                              {".const", Space::kConst}};
    for (const auto& [name, space] : kSpaces) {
      if (token.text == name) return ParseVariable(space, false, ';', nullptr);
    }
    return ErrorAt(token, absl::StrFormat("the emulator does not know %s here", token.text));
  }
  return ParseInstruction(function);
}

// .reg .b32 %r<10>; or .reg .pred p, q;
absl::Status Parser::ParseRegisters() {
  const PtxToken type_token = lexer_.Next();
  const Type type = type_token.kind == PtxToken::Kind::kDirective
                        ? TypeFromName(type_token.text.substr(1))
                        : Type::kNone;
  if (type == Type::kNone || type == Type::kB128) {
    return ErrorAt(type_token, absl::StrFormat("'%s' is no type of registers in the emulator",
                                               OneLine(type_token.text, 60)));
  }
  do {
    const PtxToken name_token = lexer_.peek();
    DUOTONE_ASSIGN_OR_RETURN(const std::string name, ExpectWord("the name of a register"));
    int64_t count = 1;
    const bool is_range = lexer_.Take('<');
    if (is_range) {
      DUOTONE_ASSIGN_OR_RETURN(count, ExpectInteger("a number of registers", 0, kMaxRegisters));
      DUOTONE_RETURN_IF_ERROR(Expect('>'));
    }
    if (is_range ? !scope_.AddRegisters(name, type, count) : !scope_.AddRegister(name, type)) {
      return ErrorAt(name_token, absl::StrFormat("there are two things called '%s'", name));
    }
  } while (lexer_.Take(','));
  return Expect(';');
}

// {.align N} .type name{[n]...}{ = value}: up to `end`, which is taken only if it is a semicolon.
absl::Status Parser::ParseVariable(Space space, bool is_extern, char end, int* index) {
  Variable variable;
  variable.space = space;
  variable.is_extern = is_extern;
  int64_t alignment = 0;
  int64_t vector = 1;
  bool has_type = false;
  while (lexer_.peek().kind == PtxToken::Kind::kDirective) {
    const PtxToken token = lexer_.Next();
    if (token.text == ".align") {
      DUOTONE_ASSIGN_OR_RETURN(alignment, ExpectInteger("an alignment", 1, kMaxAlignment));
      if ((alignment & (alignment - 1)) != 0) {
        return ErrorAt(token, absl::StrFormat("the alignment %d is no power of two", alignment));
      }
    } else if (token.text == ".ptr" || token.text == ".global" || token.text == ".shared" ||
               token.text == ".const" || token.text == ".local" || token.text == ".attribute") {
      // What a parameter points to says nothing that an access would not show.
      if (token.text == ".attribute") {
        return ErrorAt(token, "the emulator knows no .attribute");
      }
    } else if (token.text == ".v2" || token.text == ".v4") {
      vector = token.text[2] - '0';
    } else {
      variable.type = TypeFromName(token.text.substr(1));
      has_type = true;
      if (TypeBytes(variable.type) == 0) {
        return ErrorAt(token, absl::StrFormat("'%s' is no type of variables", token.text));
      }
      // .param .u64 .ptr .align 16 name: this alignment is the pointer's.
      if (lexer_.peek().IsDirective(".ptr")) {
        while (lexer_.peek().kind == PtxToken::Kind::kDirective) {
          if (!lexer_.TakeDirective(".align")) {
            lexer_.Next();
            continue;
          }
          DUOTONE_RETURN_IF_ERROR(ExpectInteger("an alignment", 1, kMaxAlignment).status());
        }
        break;
      }
    }
  }
  const PtxToken name_token = lexer_.peek();
  if (!has_type) return Unexpected("the type of a variable");
  DUOTONE_ASSIGN_OR_RETURN(variable.name, ExpectWord("the name of a variable"));
  int64_t elements = vector;
  bool is_open = false;
  dimensions_.clear();
  while (lexer_.Take('[')) {
    if (dimensions_.empty() && lexer_.Take(']')) {
      is_open = true;
      dimensions_.push_back(0);
      continue;
    }
    DUOTONE_ASSIGN_OR_RETURN(const int64_t size,
                             ExpectInteger("the size of an array", 0, kMaxVariableBytes));
    elements = size == 0 ? 0 : std::min(elements, kMaxVariableBytes / size + 1) * size;
    dimensions_.push_back(size);
    if (dimensions_.size() > kMaxDepth) return ErrorAt(name_token, "too many dimensions");
    DUOTONE_RETURN_IF_ERROR(Expect(']'));
  }
  if (vector > 1) dimensions_.push_back(vector);
  if (elements > kMaxVariableBytes / TypeBytes(variable.type)) {
    return ErrorAt(name_token,
                   absl::StrFormat("a variable has more than %d bytes", kMaxVariableBytes));
  }
  variable.bytes = elements * TypeBytes(variable.type);
  variable.alignment = alignment != 0 ? alignment : vector * TypeBytes(variable.type);
  if (lexer_.Take('=')) {
    if (space != Space::kGlobal && space != Space::kConst) {
      return ErrorAt(name_token, "only variables of .global and .const have initial values");
    }
    if (is_open) variable.bytes = 0;
    DUOTONE_RETURN_IF_ERROR(ParseInitial(variable));
  } else if (is_open) {
    variable.bytes = 0;
    variable.is_extern = true;
    if (space != Space::kShared && !is_extern) {
      return ErrorAt(name_token, "an array without size and without initial values");
    }
  }
  // A definition takes the place of what was declared .extern.
  if (const int known = scope_.FindVariable(variable.name); known >= 0 && scope_.is_module()) {
    Variable& declared = module_.variables[static_cast<size_t>(known)];
    if (declared.space == space && (declared.is_extern || variable.is_extern)) {
      if (!variable.is_extern) declared = std::move(variable);
      return Expect(';');
    }
  }
  const int at = static_cast<int>(module_.variables.size());
  if (!scope_.AddVariable(variable.name, at)) {
    return ErrorAt(name_token, absl::StrFormat("there are two things called '%s'", variable.name));
  }
  module_.variables.push_back(std::move(variable));
  if (index != nullptr) *index = at;
  return end == ';' ? Expect(';') : absl::OkStatus();
}

absl::Status Parser::ParseInitial(Variable& variable) {
  const bool is_open = variable.bytes == 0;
  const PtxToken token = lexer_.peek();
  DUOTONE_RETURN_IF_ERROR(ParseInitialValue(variable, 0));
  const auto given = static_cast<int64_t>(variable.initial.size());
  if (is_open) variable.bytes = given;
  if (given > variable.bytes) {
    return ErrorAt(token, absl::StrFormat("%d bytes of initial values for a variable of %d", given,
                                          variable.bytes));
  }
  initial_bytes_ += variable.bytes;
  if (initial_bytes_ > kMaxInitialBytes) {
    return ErrorAt(token,
                   absl::StrFormat("more than %d bytes of initial values", kMaxInitialBytes));
  }
  variable.initial.resize(static_cast<size_t>(variable.bytes), 0);
  return absl::OkStatus();
}

absl::Status Parser::ParseInitialValue(Variable& variable, int depth) {
  const PtxToken token = lexer_.peek();
  if (static_cast<int64_t>(variable.initial.size()) > kMaxInitialBytes) {
    return ErrorAt(token,
                   absl::StrFormat("more than %d bytes of initial values", kMaxInitialBytes));
  }
  if (lexer_.Take('{')) {
    if (depth >= kMaxDepth) return ErrorAt(token, "initial values are nested too deeply");
    const size_t begin = variable.initial.size();
    if (!lexer_.peek().Is('}')) {
      do {
        DUOTONE_RETURN_IF_ERROR(ParseInitialValue(variable, depth + 1));
      } while (lexer_.Take(','));
    }
    // {{1}, {2}} of an array [2][4]: each row is filled up with zeros.
    if (depth > 0) {
      int64_t bytes = TypeBytes(variable.type);
      for (size_t i = static_cast<size_t>(depth); i < dimensions_.size(); ++i) {
        bytes = std::min(bytes, kMaxInitialBytes) * dimensions_[i];
      }
      if (static_cast<size_t>(depth) >= dimensions_.size() || bytes > kMaxInitialBytes ||
          variable.initial.size() > begin + static_cast<size_t>(bytes)) {
        return ErrorAt(token, "the initial values have more braces or values than the array");
      }
      variable.initial.resize(begin + static_cast<size_t>(bytes), 0);
    }
    return Expect('}');
  }
  Operand operand;
  const absl::Status parsed = scope_.ParseData(lexer_, variable.type, operand);
  if (!parsed.ok()) return ErrorAt(token, std::string(parsed.message()));
  const size_t at = variable.initial.size();
  variable.initial.resize(at + static_cast<size_t>(TypeBytes(variable.type)), 0);
  if (operand.kind == Operand::Kind::kSymbol) {
    if (TypeBytes(variable.type) != 8) {
      return ErrorAt(token, "an address as initial value takes 8 bytes");
    }
    variable.address_at.emplace_back(static_cast<int64_t>(at), operand.index);
    operand.bits = static_cast<uint64_t>(operand.offset);
  }
  for (size_t i = at; i < variable.initial.size(); ++i) {
    variable.initial[i] = static_cast<uint8_t>(operand.bits >> (8 * (i - at)));
  }
  return absl::OkStatus();
}

// ---- Instructions

absl::Status Parser::ParseGuard(Instruction& instruction) {
  if (!lexer_.Take('@')) return absl::OkStatus();
  instruction.guard_negated = lexer_.Take('!');
  const PtxToken token = lexer_.peek();
  DUOTONE_ASSIGN_OR_RETURN(const std::string name, ExpectWord("a predicate"));
  instruction.guard = scope_.FindRegister(name);
  if (instruction.guard < 0 ||
      scope_.function->registers[static_cast<size_t>(instruction.guard)].type != Type::kPred) {
    return ErrorAt(token, absl::StrFormat("'%s' is no predicate", name));
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseInstruction(PtxFunction& function) {
  const PtxToken first = lexer_.peek();
  Instruction instruction;
  DUOTONE_RETURN_IF_ERROR(ParseGuard(instruction));
  const PtxToken word = lexer_.peek();
  if (word.kind != PtxToken::Kind::kWord) return Unexpected("an instruction");
  lexer_.Next();
  if (instruction.guard < 0 && lexer_.Take(':')) {
    if (scope_.AddLabel(std::string(word.text), static_cast<int>(function.body.size()))) {
      return absl::OkStatus();
    }
    return ErrorAt(word, absl::StrFormat("there are two labels '%s'", word.text));
  }
  const int guard = instruction.guard;
  const bool guard_negated = instruction.guard_negated;
  if (word.text == "call" || word.text == "call.uni") {
    DUOTONE_RETURN_IF_ERROR(ParseCall(word.text, instruction));
  } else {
    const absl::Status parsed = scope_.ParseOperands(lexer_, word.text, isa_, instruction);
    if (!parsed.ok()) return ErrorAt(word, std::string(parsed.message()));
  }
  instruction.guard = guard;
  instruction.guard_negated = guard_negated;
  instruction.line = first.line;
  instruction.column = first.column;
  instruction.source_line = chain_;  // until ChoosePlaces
  function.body.push_back(std::move(instruction));
  return absl::OkStatus();
}

// call{.uni} {(result, ...),} function{, (argument, ...)};
absl::Status Parser::ParseCall(std::string_view word, Instruction& instruction) {
  instruction.op = Op::kCall;
  instruction.uni = word == "call.uni";
  if (lexer_.Take('(')) {
    DUOTONE_RETURN_IF_ERROR(ParseCallArguments(scope_, instruction, &instruction.results));
    DUOTONE_RETURN_IF_ERROR(Expect(','));
  }
  const PtxToken token = lexer_.peek();
  DUOTONE_ASSIGN_OR_RETURN(const std::string name, ExpectWord("a function"));
  Operand callee;
  callee.kind = Operand::Kind::kFunction;
  const auto known = function_index_.find(name);
  if (known == function_index_.end()) {
    return ErrorAt(token, absl::StrFormat("there is no function '%s'; the emulator knows no "
                                          "indirect calls",
                                          name));
  }
  callee.index = known->second;
  calls_.emplace_back(callee.index, token);
  const PtxFunction& called = module_.functions[static_cast<size_t>(callee.index)];
  if (called.is_entry) return ErrorAt(token, absl::StrFormat("%s is a kernel", name));
  instruction.operands.push_back({callee});
  int arguments = 0;
  if (lexer_.Take(',')) {
    if (!lexer_.Take('(')) {
      return ErrorAt(token, "the emulator knows no indirect calls");
    }
    DUOTONE_RETURN_IF_ERROR(ParseCallArguments(scope_, instruction, &arguments));
  }
  if (arguments != static_cast<int>(called.parameters.size()) ||
      instruction.results != static_cast<int>(called.results.size())) {
    return ErrorAt(token, absl::StrFormat("%s takes %d arguments and returns %d, not %d and %d",
                                          name, called.parameters.size(), called.results.size(),
                                          arguments, instruction.results));
  }
  return Expect(';');
}

absl::Status Parser::ParseCallArguments(OperandScope& scope, Instruction& instruction, int* count) {
  *count = 0;
  if (lexer_.Take(')')) return absl::OkStatus();
  do {
    const PtxToken token = lexer_.peek();
    DUOTONE_ASSIGN_OR_RETURN(const std::string name, ExpectWord("a .param variable"));
    Operand operand;
    operand.kind = Operand::Kind::kSymbol;
    operand.index = scope.FindVariable(name);
    if (operand.index < 0 ||
        module_.variables[static_cast<size_t>(operand.index)].space != Space::kParam) {
      return ErrorAt(token, absl::StrFormat("'%s' is no .param variable; the emulator passes only "
                                            "those to functions",
                                            name));
    }
    instruction.operands.push_back({operand});
    ++*count;
  } while (lexer_.Take(','));
  return Expect(')');
}

absl::Status Parser::ResolveLabels(PtxFunction& function) {
  for (Instruction& instruction : function.body) {
    for (OperandGroup& group : instruction.operands) {
      for (Operand& operand : group) {
        if (operand.kind != Operand::Kind::kLabel) continue;
        const auto& [name, target] = scope_.label_uses[static_cast<size_t>(operand.index)];
        if (target < 0) {
          return InvalidArgument("PTX line %d '%s': there is no label '%s' in %s", instruction.line,
                                 module_.TextOf(instruction), name, function.name);
        }
        operand.index = target;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PtxModule> ParsePtx(std::string_view text) {
  // Images for drivers end with a zero.
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return Parser(text).Run();
}

}  // namespace duotone::emulator
