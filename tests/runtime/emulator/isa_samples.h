// Every form of the instruction table as PTX text.
#ifndef DUOTONE_TESTS_RUNTIME_EMULATOR_ISA_SAMPLES_H_
#define DUOTONE_TESTS_RUNTIME_EMULATOR_ISA_SAMPLES_H_

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/emulator/isa.h"

namespace duotone::emulator {

// The operands of an instruction, of registers %p, %h, %r and %d (predicates, 16, 32 and 64 bits).
inline std::string SampleOperands(const IsaMatch& match) {
  std::string text;
  for (const OperandPattern& pattern : *match.operands) {
    if (pattern.absent) continue;
    const Type type = OperandType(pattern, match.instruction);
    const int bytes = TypeBytes(type);
    std::string operand = type == Type::kPred ? "%p" : bytes <= 2 ? "%h" : bytes == 4 ? "%r" : "%d";
    if (pattern.shape == OperandPattern::Shape::kAddress) operand = "[%d]";
    if (pattern.shape == OperandPattern::Shape::kLabel) operand = "L";
    if (pattern.shape == OperandPattern::Shape::kCount) operand = "16";
    if (pattern.immediate) operand = "3";
    // A barrier's number and its threads.
    if (match.instruction.op == Op::kBar && type == Type::kU32 && !pattern.result) {
      operand = text.empty() || text == "%r" || text == "%p" ? "1" : "64";
    }
    int count = 1;
    if (pattern.vector) count = match.instruction.vector;
    if (pattern.braces != 0) count = pattern.braces < 0 ? match.instruction.vector : pattern.braces;
    if (count > 1 || pattern.braces != 0) {
      std::string vector;
      // A vector of results names each register once.
      for (int i = 0; i < count; ++i) {
        vector += absl::StrFormat("%s%s%d", i == 0 ? "" : ", ", operand, i);
      }
      operand = "{" + vector + "}";
    }
    if (!text.empty()) text += pattern.bar ? "|" : ", ";
    text += operand;
    if (pattern.bar) text += "2";
  }
  return text;
}

inline std::string SampleInstruction(const std::string& words, const IsaMatch& match) {
  return match.operands->empty() ? words + ";" : words + " " + SampleOperands(match) + ";";
}

// A module with one kernel of these instructions.
inline std::string SampleModule(const std::string& instructions,
                                const std::string& target = "sm_90") {
  return ".version 8.3\n.target " + target +
         "\n.address_size 64\n.visible .entry kernel()\n{\n"
         ".reg .pred %p, %p2;\n.reg .b16 %h, %h<4>;\n.reg .b32 %r, %r<4>;\n.reg .b64 %d, %d<4>;\n" +
         instructions + "L:\nret;\n}\n";
}

}  // namespace duotone::emulator

#endif  // DUOTONE_TESTS_RUNTIME_EMULATOR_ISA_SAMPLES_H_
