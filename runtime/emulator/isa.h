// The instructions that the emulator knows, as a table: what the parser accepts, and the list in
// docs/emulator.md.
#ifndef DUOTONE_RUNTIME_EMULATOR_ISA_H_
#define DUOTONE_RUNTIME_EMULATOR_ISA_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/emulator/ptx.h"

namespace duotone::emulator {

// One form of an instruction, as the table has it.
struct IsaRow {
  std::string_view word;  // "add"
  Op op = Op::kMov;
  // What follows the word, in order: `a|b` one of these, `a|b?` or none. `$` and `%` begin the
  // types of Instruction::type and source_type, `=` a type that must be the same as one of the two
  // ("=$", "=%"). `cmp:`, `mode:`, ... says which of several meanings a word has; `<rnd>` stands
  // for a list. Words that stand twice ("<scope>? ... <scope>?") may be taken in one of the places.
  // "rn|rz? ftz? $f32|f64".
  std::string_view modifiers;
  // The operands, in order, by the types they are taken as: T and S are `type` and `source_type`,
  // 2T twice as wide as T. "=T T u32". What stands around a type:
  //   =      a result
  //   ?      may be left out (the last ones first)
  //   !      a predicate that may be negated
  //   +      its register may be wider
  //   &      may be the address of a variable
  //   _      may be a sink
  //   /      may be {...} of equal parts
  //   *      as many as .v2 and .v4 say, in braces
  //   #      as many as .x2 and .x4 say, always in braces; #2 just two
  //   |      behind a result, after a bar in the text; may be left out
  //   ~      never in the text: a sink where another form has an operand
  //   ^      a constant number
  // []: an address. label: of bra. count: a number that becomes Instruction::bytes, no operand.
  std::string_view operands;
  // The first architecture that has it (80: sm_80), where that is later than its modifiers and
  // types are, whose own are in isa.cc. Architectures before sm_75 are not told apart.
  int since = 0;
};
std::span<const IsaRow> IsaRows();

struct OperandPattern {
  enum class Shape : uint8_t { kValue, kAddress, kLabel, kCount };
  enum class Of : uint8_t { kFixed, kType, kSource, kTwiceType };
  Shape shape = Shape::kValue;
  Of of = Of::kFixed;
  Type fixed = Type::kNone;  // of kFixed
  bool result = false, optional = false, negatable = false, wider = false, symbol = false;
  bool sink = false, parts = false, vector = false, bar = false, immediate = false, absent = false;
  int braces = 0;  // how many values stand in braces; -1: Instruction::vector of them
};

// An instruction's words understood: everything but operands, guard and place.
struct IsaMatch {
  Instruction instruction;  // `results` included
  const std::vector<OperandPattern>* operands = nullptr;
  int since = 0;  // the first architecture that has it; 80: sm_80
};
// "ld.global.v4.f32". An error says what is not known about it, and what would be.
absl::StatusOr<IsaMatch> MatchIsa(std::string_view words);
// The type an operand is taken as.
Type OperandType(const OperandPattern& pattern, const Instruction& instruction);

// One text per row and alternative of it, each alternative at least once: "add.rn.f32",
// "add.ftz.f32", ...
std::vector<std::string> SampleWords(const IsaRow& row);

// The list of all instructions with their modifiers and types, as Markdown.
std::string InstructionListMarkdown();

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_ISA_H_
