// The operands of PTX instructions: names in their scopes, numbers, and what the table of
// instructions says of each. A part of the parser.
#ifndef DUOTONE_RUNTIME_EMULATOR_PTX_OPERANDS_H_
#define DUOTONE_RUNTIME_EMULATOR_PTX_OPERANDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/emulator/isa.h"
#include "runtime/emulator/ptx.h"
#include "runtime/emulator/ptx_lexer.h"

namespace duotone::emulator {

// 12, 0x1F, 0b1, 017, each with an U: false for anything else, or beyond 64 bits.
bool ParseInteger(std::string_view text, uint64_t& value);

// What the table of instructions says of a word, looked up once. Words must live on.
class IsaCache {
 public:
  absl::StatusOr<const IsaMatch*> Match(std::string_view words);

 private:
  std::unordered_map<std::string_view, IsaMatch> matches_;
};

// The names that a function sees.
class OperandScope {
 public:
  PtxModule* module = nullptr;
  PtxFunction* function = nullptr;
  // Until its function ends, an operand kLabel indexes these.
  struct LabelUse {
    std::string name;
    int target = -1;  // in the body; -1: there is no such label where it is used
  };
  std::vector<LabelUse> label_uses;

  // A new function; names of the module stay.
  void Begin(PtxFunction* of);
  void Push() { blocks_.emplace_back(); }
  // Whether names are added to the module, not to a function.
  bool is_module() const { return blocks_.size() == 1; }
  // The labels of the block get known to those who use them.
  void Pop();

  // False if the innermost block has something of that name. Of a range (%r<10>) only those that
  // are used become registers of the function.
  bool AddRegister(const std::string& name, Type type);
  bool AddRegisters(const std::string& prefix, Type type, int64_t count);
  bool AddVariable(const std::string& name, int index);
  bool AddLabel(const std::string& name, int index);
  // -1: there is none.
  int FindRegister(std::string_view name);
  int FindVariable(std::string_view name) const;

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
  struct Range {
    Type type = Type::kNone;
    int64_t count = 0;
  };
  struct Block {
    std::unordered_map<std::string, int> registers;
    std::unordered_map<std::string, Range> ranges;  // by what stands before the number
    std::unordered_map<std::string, int> variables;
    std::unordered_map<std::string, int> labels;
    std::vector<int> label_uses;
  };

  static const Range* FindRange(const Block& block, const std::string& name);
  absl::Status UnknownName(std::string_view name) const;
  absl::Status ParseRaw(PtxLexer& lexer, Raw& raw);
  absl::Status ParseOffset(PtxLexer& lexer, Raw& raw);
  absl::Status Fill(const IsaMatch& match, const std::vector<Raw>& raws, Instruction& instruction);
  absl::Status FillOne(const OperandPattern& pattern, const Raw& raw, Instruction& instruction);
  absl::Status FillScalar(const OperandPattern& pattern, const PtxToken& word, bool minus,
                          const Raw& raw, Type type, Operand& operand);
  absl::Status FillValues(const OperandPattern& pattern, const Raw& raw, Instruction& instruction);
  absl::Status FillLabel(const Raw& raw, Instruction& instruction);
  absl::Status FillCount(const Raw& raw, Instruction& instruction);
  absl::Status FillAddress(const Raw& raw, Instruction& instruction);

  std::vector<Block> blocks_{1};  // the module's first
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_PTX_OPERANDS_H_
