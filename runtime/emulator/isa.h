// The instructions that the emulator knows, as a table: what the parser accepts, and the list in
// docs/emulator.md.
#ifndef DUOTONE_RUNTIME_EMULATOR_ISA_H_
#define DUOTONE_RUNTIME_EMULATOR_ISA_H_

#include <span>
#include <string>
#include <string_view>

#include "runtime/emulator/ptx.h"

namespace duotone::emulator {

// One form of an instruction. A form with several names is several rows.
struct IsaRow {
  Op op;
  std::string_view name;  // "add", "cp.async.wait_group": the words that modifiers follow
  // The modifiers in PTX's order, those with ? may be missing, those with * come any number of
  // times: names of the slots in isa.cc, or the word itself. T and S are types.
  std::string_view modifiers;
  std::string_view types;         // of T
  std::string_view source_types;  // of S
  // One item per operand, results first:
  //   T, S        a scalar of that type      W         of twice the width of T
  //   u32, ...    a scalar of a fixed type   pred      a predicate
  //   T+, S+      its register may be wider  T*        .v2 and .v4: a vector; likewise wider
  //   X           a scalar or a vector of parts, of mov
  //   pred|       after a |, a second result which may be missing
  //   A           an address                 L         a label
  //   D, A16, B16, C, M    fragments of mma and ldmatrix
  // An item with ? may be missing at the end.
  std::string_view operands;
  int results = 1;
};
std::span<const IsaRow> IsaRows();

// Fills op, types and modifiers from an instruction's first word, "add.rn.f32", and returns its
// row, of those that fit and take this number of operands. Null: `why` says what is wrong.
const IsaRow* MatchIsa(std::string_view word, int operands, Instruction& instruction,
                       std::string& why);

// The list of all instructions with their modifiers and types, as Markdown.
std::string InstructionListMarkdown();

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_ISA_H_
