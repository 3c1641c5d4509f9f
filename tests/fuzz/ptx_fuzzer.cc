// libFuzzer's entry for PTX: any text is parsed or refused with a sentence, what is parsed points
// nowhere outside of itself, and its kernels run, refuse to, or report what is wrong with them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/emulator/machine.h"
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

void RequireSentence(const absl::Status& status) {
  Require(status.ok() || !status.message().empty(), "an error without a message");
}

// Runs each kernel for a moment: two warps, whose parameters are all the address of one buffer.
void RunKernels(PtxModule parsed) {
  duotone::emulator::Machine machine({.architecture = "sm_120",
                                      .instruction_budget = 4000,
                                      .threads = 1,
                                      .memory_bytes = int64_t{1} << 20});
  const absl::StatusOr<uint64_t> buffer = machine.memory().Allocate(4096, "buffer");
  Require(buffer.ok(), "no memory for a buffer");
  const absl::StatusOr<duotone::emulator::LoadedModule*> module = machine.Load(std::move(parsed));
  RequireSentence(module.status());
  if (!module.ok()) return;
  for (const PtxFunction& function : (*module)->ptx.functions) {
    if (!function.is_entry || function.is_declaration) continue;
    const auto kernel = machine.Find(**module, function.name);
    RequireSentence(kernel.status());
    if (!kernel.ok()) continue;
    std::vector<uint8_t> parameters(static_cast<size_t>((*kernel)->parameter_bytes));
    for (size_t at = 0; at + sizeof(uint64_t) <= parameters.size(); at += sizeof(uint64_t)) {
      std::memcpy(&parameters[at], &*buffer, sizeof(uint64_t));
    }
    RequireSentence(machine.Run({.module = *module,
                                 .kernel = *kernel,
                                 .block = {64, 1, 1},
                                 .parameters = std::move(parameters)}));
  }
  for (const auto& problem : machine.problems().problems()) {
    Require(!problem.ToString().empty(), "a problem without a sentence");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<PtxModule> module = duotone::emulator::ParsePtx(text);
  RequireSentence(module.status());
  if (!module.ok()) return 0;
  CheckModule(*module);
  RunKernels(*std::move(module));
  return 0;
}
