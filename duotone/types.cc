#include "duotone/types.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/float16.h"

namespace duotone {
namespace {

int64_t CountOf(absl::Span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

template <typename T>
T ElementAt(const void* data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

}  // namespace

std::string Loc::ToString() const {
  std::string_view name = file;
  if (name.empty()) return "";
  if (size_t slash = name.find_last_of("/\\"); slash != name.npos) name.remove_prefix(slash + 1);
  return absl::StrFormat("%s:%d", name, line);
}

std::string TensorType::ToString() const {
  return absl::StrFormat("%s[%s]", DTypeName(dtype),
                         absl::StrJoin(shape, ", ", [](std::string* out, const Size& size) {
                           absl::StrAppend(out, size.ToString());
                         }));
}

std::string TypeText(DType dtype, absl::Span<const int64_t> shape) {
  return absl::StrFormat("%s[%s]", DTypeName(dtype), absl::StrJoin(shape, ", "));
}

TensorRef::TensorRef(const void* data, DType dtype, Sizes shape)
    : data_(data), dtype_(dtype), elements_(CountOf(shape)), shape_(std::move(shape)) {}

std::string TensorRef::ToString() const {
  if (shape_) return TypeText(dtype_, *shape_);
  return absl::StrFormat("%d values of %s", elements_, DTypeName(dtype_));
}

Tensor::Tensor(DType dtype, Sizes shape)
    : dtype_(dtype), shape_(std::move(shape)), elements_(CountOf(shape_)) {
  data_.resize((bytes() + 7) / 8);
}

double ElementAsDouble(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF64:
      return ElementAt<double>(data, i);
    case DType::kF32:
      return ElementAt<float>(data, i);
    case DType::kF16:
      return ToF32(ElementAt<F16>(data, i));
    case DType::kBF16:
      return ToF32(ElementAt<BF16>(data, i));
    case DType::kI64:
      return static_cast<double>(ElementAt<int64_t>(data, i));
    case DType::kI32:
      return ElementAt<int32_t>(data, i);
    case DType::kU8:
    case DType::kBool:
      return ElementAt<uint8_t>(data, i);
  }
  return 0;
}

double Tensor::Get(int64_t i) const {
  DUOTONE_CHECK(i >= 0 && i < elements_) << i;
  return ElementAsDouble(data(), dtype_, i);
}

std::vector<float> Tensor::ToFloats() const {
  std::vector<float> floats(static_cast<size_t>(elements_));
  for (int64_t i = 0; i < elements_; ++i) floats[i] = static_cast<float>(Get(i));
  return floats;
}

std::string Tensor::ToString() const { return TypeText(dtype_, shape_); }

}  // namespace duotone
