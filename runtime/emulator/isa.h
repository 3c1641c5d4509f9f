// The instructions that the emulator knows, as a table: what the parser accepts, and the list in
// docs/emulator.md.
#ifndef DUOTONE_RUNTIME_EMULATOR_ISA_H_
#define DUOTONE_RUNTIME_EMULATOR_ISA_H_

#include <string>

#include "absl/status/status.h"
#include "runtime/emulator/ptx.h"

namespace duotone::emulator {

// The list of all instructions with their modifiers and types, as Markdown.
std::string InstructionListMarkdown();

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_ISA_H_
