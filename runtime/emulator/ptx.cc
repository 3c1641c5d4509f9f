// Names and sizes of PTX types; looking things up in a module.
#include "runtime/emulator/ptx.h"

#include <algorithm>

#include "runtime/emulator/ptx_lexer.h"

namespace duotone::emulator {
namespace {

struct TypeRow {
  std::string_view name;
  int bytes;
};
// In enum order.
constexpr std::array<TypeRow, 22> kTypes = {{
    {"none", 0},  {"pred", 0}, {"b8", 1},    {"b16", 2},    {"b32", 4},  {"b64", 8},
    {"b128", 16}, {"u8", 1},   {"u16", 2},   {"u32", 4},    {"u64", 8},  {"s8", 1},
    {"s16", 2},   {"s32", 4},  {"s64", 8},   {"f16", 2},    {"bf16", 2}, {"tf32", 4},
    {"f32", 4},   {"f64", 8},  {"f16x2", 4}, {"bf16x2", 4},
}};
static_assert(static_cast<size_t>(Type::kBf16x2) + 1 == kTypes.size());

}  // namespace

int TypeBytes(Type type) { return kTypes[static_cast<size_t>(type)].bytes; }
bool IsFloat(Type type) { return type >= Type::kF16 && type <= Type::kBf16x2; }
bool IsPair(Type type) { return type == Type::kF16x2 || type == Type::kBf16x2; }
bool IsSigned(Type type) { return type >= Type::kS8 && type <= Type::kS64; }
std::string_view TypeName(Type type) { return kTypes[static_cast<size_t>(type)].name; }

int RowBytes(const Operand& operand) {
  return TypeBytes(operand.kind == Operand::Kind::kRegister ? operand.register_type : operand.type);
}

Type TypeFromName(std::string_view name) {
  for (size_t i = 1; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<Type>(i);
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
