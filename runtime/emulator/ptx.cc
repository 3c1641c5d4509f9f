// Names and sizes of PTX types; looking things up in a module.
#include "runtime/emulator/ptx.h"

#include <algorithm>

#include "runtime/emulator/ptx_lexer.h"

namespace duotone::emulator {
namespace {

// In enum order.
constexpr std::string_view kTypeNames[] = {
    "none", "pred", "b8",  "b16", "b32", "b64",  "b128", "u8",  "u16", "u32",   "u64",
    "s8",   "s16",  "s32", "s64", "f16", "bf16", "tf32", "f32", "f64", "f16x2", "bf16x2",
};
static_assert(std::size(kTypeNames) == static_cast<size_t>(Type::kBf16x2) + 1);

}  // namespace

bool IsFloat(Type type) { return type >= Type::kF16 && type <= Type::kBf16x2; }
bool IsPair(Type type) { return type == Type::kF16x2 || type == Type::kBf16x2; }
bool IsSigned(Type type) { return type >= Type::kS8 && type <= Type::kS64; }
std::string_view TypeName(Type type) { return kTypeNames[static_cast<size_t>(type)]; }

Type TypeFromName(std::string_view name) {
  for (size_t i = 1; i < std::size(kTypeNames); ++i) {
    if (kTypeNames[i] == name) return static_cast<Type>(i);
  }
  return Type::kNone;
}

std::string PtxModule::TextOf(const Instruction& instruction) const {
  std::string text;
  const size_t first = static_cast<size_t>(std::max(instruction.line, 1)) - 1;
  for (size_t i = first; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    if (i == first) line.remove_prefix(std::min<size_t>(instruction.column, line.size()));
    const size_t end = line.find(';');
    text.append(line.substr(0, end == std::string_view::npos ? end : end + 1));
    if (end != std::string_view::npos || text.size() > 1000) break;
    text += '\n';
  }
  return OneLine(text);
}

const PtxFunction* PtxModule::Find(std::string_view name) const {
  for (const PtxFunction& function : functions) {
    if (!function.is_declaration && function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace duotone::emulator
