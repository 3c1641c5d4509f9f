// The operands of PTX instructions: names in their scopes, numbers, and what the table of
// instructions says of each. A part of the parser.
#ifndef DUOTONE_RUNTIME_EMULATOR_PTX_OPERANDS_H_
#define DUOTONE_RUNTIME_EMULATOR_PTX_OPERANDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/emulator/isa.h"
#include "runtime/emulator/ptx.h"
#include "runtime/emulator/ptx_lexer.h"

namespace duotone::emulator {

// 12, 0x1F, 0b1, 017, each with an U: false for anything else, or beyond 64 bits.
bool ParseInteger(std::string_view text, uint64_t& value);

// Rows of the table by word and number of operands, found once.
class IsaCache {
 public:
  const IsaRow* Match(std::string_view word, int operands, Instruction& instruction,
                      std::string& why);

 private:
  std::map<std::pair<std::string, int>, std::pair<const IsaRow*, Instruction>, std::less<>> rows_;
};

// The names that a function sees.
class OperandScope {
 public:
  PtxModule* module = nullptr;
  PtxFunction* function = nullptr;
  std::vector<std::string> label_uses;  // kLabel operands index this until labels are resolved

  // A new function; names of the module stay.
  void Begin(PtxFunction* of);
  void Push() { blocks_.emplace_back(); }
  void Pop() { blocks_.pop_back(); }

  // False if the innermost block has something of that name.
  bool AddRegister(const std::string& name, int index);
  bool AddVariable(const std::string& name, int index);
  bool AddLabel(const std::string& name, int index);
  // -1: there is none.
  int FindRegister(std::string_view name) const;
  int FindVariable(std::string_view name) const;
  int FindLabel(const std::string& name) const;

  // Everything behind the first word up to the semicolon, checked against the table. The error says
  // what is wrong with the instruction, without its place.
  absl::Status ParseOperands(PtxLexer& lexer, std::string_view word, IsaCache& isa,
                             Instruction& instruction);
  // An initial value: a number, or the name of a variable.
  absl::Status ParseData(PtxLexer& lexer, Type type, Operand& operand);

 private:
  // An operand as it is written.
  struct Raw {
    enum class Kind { kScalar, kVector, kAddress };
    Kind kind = Kind::kScalar;
    std::vector<PtxToken> words;  // of a vector: its elements; else one
    std::vector<bool> minus;      // before the word
    bool negated = false;         // !
    int64_t offset = 0;
    bool after_bar = false;  // the second result: %p|%q
  };
  struct Block {
    std::unordered_map<std::string, int> registers;
    std::unordered_map<std::string, int> variables;
  };

  absl::Status ParseRaw(PtxLexer& lexer, Raw& raw);
  absl::Status ParseOffset(PtxLexer& lexer, Raw& raw);
  absl::Status Fill(const IsaRow& row, std::vector<Raw>& raws, Instruction& instruction);
  absl::Status FillOne(std::string_view item, const Raw& raw, Instruction& instruction);
  absl::Status FillScalar(const PtxToken& word, bool minus, const Raw& raw, Type type, bool wider,
                          Operand& operand);
  absl::Status FillVector(const Raw& raw, Type type, int count, bool wider,
                          Instruction& instruction);
  absl::Status FillMove(const Raw& raw, Instruction& instruction);
  absl::Status FillAddress(const Raw& raw, Instruction& instruction);

  std::vector<Block> blocks_{1};  // the module's first
  std::unordered_map<std::string, int> labels_;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_PTX_OPERANDS_H_
