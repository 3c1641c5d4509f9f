// Element types of tensors. Shared by the IR, the code generators, the runtime and the public API.
#ifndef DUOTONE_BASE_DTYPE_H_
#define DUOTONE_BASE_DTYPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace duotone {

enum class DType : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kU8, kBool };

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // the text form
  int bytes;              // of one element
  bool is_float;
  bool is_low;  // a 16-bit floating-point type
};

// In enum order.
inline constexpr std::array<DTypeInfo, 8> kDTypes = {{
    {DType::kF64, "f64", 8, true, false},
    {DType::kF32, "f32", 4, true, false},
    {DType::kF16, "f16", 2, true, true},
    {DType::kBF16, "bf16", 2, true, true},
    {DType::kI64, "i64", 8, false, false},
    {DType::kI32, "i32", 4, false, false},
    {DType::kU8, "u8", 1, false, false},
    {DType::kBool, "bool", 1, false, false},  // one byte, 0 or 1
}};

constexpr const DTypeInfo& InfoOf(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }
constexpr std::string_view DTypeName(DType dtype) { return InfoOf(dtype).name; }
constexpr int ByteSize(DType dtype) { return InfoOf(dtype).bytes; }
constexpr bool IsFloat(DType dtype) { return InfoOf(dtype).is_float; }
constexpr bool IsLow(DType dtype) { return InfoOf(dtype).is_low; }
constexpr bool IsInteger(DType dtype) { return !IsFloat(dtype) && dtype != DType::kBool; }

// The dtype called `name` in the text form, or nothing.
constexpr std::optional<DType> DTypeFromName(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

}  // namespace duotone

#endif  // DUOTONE_BASE_DTYPE_H_
