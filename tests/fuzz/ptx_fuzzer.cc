// libFuzzer's entry for the PTX parser: any text is parsed or refused with a sentence, and what is
// parsed points nowhere outside of itself.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "runtime/emulator/ptx.h"

namespace {

using duotone::emulator::Instruction;
using duotone::emulator::Operand;
using duotone::emulator::PtxFunction;
using duotone::emulator::PtxModule;

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

bool IsIndex(int index, size_t size) { return index >= 0 && static_cast<size_t>(index) < size; }

void CheckOperand(const PtxModule& module, const PtxFunction& function, const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::kRegister:
      Require(IsIndex(operand.index, function.registers.size()), "a register outside");
      Require(operand.register_type == function.registers[static_cast<size_t>(operand.index)].type,
              "a register's type");
      return;
    case Operand::Kind::kAddress:
      Require(operand.index == -1 || IsIndex(operand.index, function.registers.size()),
              "an address outside");
      return;
    case Operand::Kind::kSymbol:
    case Operand::Kind::kSymbolAddress:
      Require(IsIndex(operand.index, module.variables.size()), "a variable outside");
      return;
    case Operand::Kind::kLabel:
      Require(IsIndex(operand.index, function.body.size() + 1), "a label outside");
      return;
    case Operand::Kind::kFunction:
      Require(IsIndex(operand.index, module.functions.size()), "a function outside");
      return;
    default:
      return;
  }
}

void CheckInstruction(const PtxModule& module, const PtxFunction& function,
                      const Instruction& instruction) {
  Require(instruction.guard == -1 || IsIndex(instruction.guard, function.registers.size()),
          "a guard outside");
  Require(IsIndex(instruction.results, instruction.operands.size() + 1), "too many results");
  Require(IsIndex(instruction.source_file, 65536), "a file's number");
  for (const auto& group : instruction.operands) {
    Require(!group.empty(), "an operand of nothing");
    for (const Operand& operand : group) CheckOperand(module, function, operand);
  }
  Require(!module.TextOf(instruction).empty(), "an instruction without text");
}

void CheckModule(const PtxModule& module) {
  for (const auto& variable : module.variables) {
    Require(
        variable.initial.empty() || static_cast<int64_t>(variable.initial.size()) == variable.bytes,
        "initial values of another size");
    for (const auto& [at, other] : variable.address_at) {
      Require(IsIndex(other, module.variables.size()), "an address of nothing");
      Require(at >= 0 && at + 8 <= variable.bytes, "an address outside of its variable");
    }
  }
  for (const PtxFunction& function : module.functions) {
    for (const auto* list : {&function.parameters, &function.results}) {
      for (const int index : *list) {
        Require(IsIndex(index, module.variables.size()), "a parameter outside");
      }
    }
    for (const Instruction& instruction : function.body) {
      CheckInstruction(module, function, instruction);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<PtxModule> module = duotone::emulator::ParsePtx(text);
  if (module.ok()) {
    CheckModule(*module);
  } else {
    Require(!module.status().message().empty(), "an error without a message");
  }
  return 0;
}
