// Types, sizes and tensors of the public API.
//
//   F32({"B", 784})     // a type: dtype and sizes; "B" is a named size, bound by what is fed
//   TensorRef(images)   // a view of the caller's numbers: a vector, array or span
//   Tensor t = *session.GetState("w1");
#ifndef DUOTONE_DUOTONE_TYPES_H_
#define DUOTONE_DUOTONE_TYPES_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "base/dtype.h"

namespace duotone {

struct F16;   // base/float16.h
struct BF16;  // base/float16.h

// The place of a call in the user's source: functions take it as their last, defaulted parameter,
// so that errors and graph nodes name the line that made them. (std::source_location is missing in
// clang 14.)
struct Loc {
  const char* file = "";
  int line = 0;

  static constexpr Loc Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  std::string ToString() const;  // "mlp.cc:14"; "" without a file
};

// One size of a shape: a number, a name, or a product of both ("2*B*T").
class Size {
 public:
  template <std::integral T>
  Size(T number) : text_(std::to_string(number)) {}   // NOLINT(google-explicit-constructor)
  Size(const char* text) : text_(text) {}             // NOLINT(google-explicit-constructor)
  Size(std::string text) : text_(std::move(text)) {}  // NOLINT(google-explicit-constructor)

  const std::string& ToString() const { return text_; }
  friend Size operator*(const Size& a, const Size& b) { return Size(a.text_ + "*" + b.text_); }
  // Of the text: "2*B" and "B*2" differ.
  friend bool operator==(const Size&, const Size&) = default;

 private:
  std::string text_;
};

struct TensorType {
  DType dtype = DType::kF32;
  std::vector<Size> shape;

  int rank() const { return static_cast<int>(shape.size()); }
  std::string ToString() const;  // "f32[B, 784]"
};

inline TensorType F64(std::vector<Size> shape) { return {DType::kF64, std::move(shape)}; }
inline TensorType F32(std::vector<Size> shape) { return {DType::kF32, std::move(shape)}; }
inline TensorType I64(std::vector<Size> shape) { return {DType::kI64, std::move(shape)}; }
inline TensorType I32(std::vector<Size> shape) { return {DType::kI32, std::move(shape)}; }
inline TensorType U8(std::vector<Size> shape) { return {DType::kU8, std::move(shape)}; }
inline TensorType Bool(std::vector<Size> shape) { return {DType::kBool, std::move(shape)}; }

// The dtype of a C++ element type; nothing for other types.
template <typename T>
constexpr std::optional<DType> DTypeOf() {
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, F16>) return DType::kF16;
  if constexpr (std::is_same_v<T, BF16>) return DType::kBF16;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  return std::nullopt;
}

// Contiguous containers of a supported element type: std::vector, std::array, absl::Span, C arrays.
template <typename C>
concept TensorElements = std::ranges::contiguous_range<C> && std::ranges::sized_range<C> &&
    DTypeOf<std::remove_cv_t<std::ranges::range_value_t<C>>>()
.has_value();

using Sizes = absl::InlinedVector<int64_t, 6>;

// A dense row-major array that someone else owns; it must outlive the call it is passed to.
class TensorRef {
 public:
  TensorRef() = default;
  // Without a shape the declared type of the input gives it, as long as the number of elements
  // determines it.
  template <TensorElements C>
  TensorRef(const C& elements)  // NOLINT(google-explicit-constructor)
      : data_(std::ranges::data(elements)),
        dtype_(*DTypeOf<std::remove_cv_t<std::ranges::range_value_t<C>>>()),
        elements_(static_cast<int64_t>(std::ranges::size(elements))) {}
  template <TensorElements C>
  TensorRef(const C& elements, Sizes shape) : TensorRef(elements) {
    shape_ = std::move(shape);
  }
  // The caller promises that `data` holds as many elements as `shape` says.
  TensorRef(const void* data, DType dtype, Sizes shape);

  const void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  int64_t elements() const { return elements_; }
  const std::optional<Sizes>& shape() const { return shape_; }
  std::string ToString() const;  // "f32[128, 784]", or "100352 values of f32" without a shape

 private:
  const void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  int64_t elements_ = 0;
  std::optional<Sizes> shape_;
};

// A dense row-major array that owns its memory.
class Tensor {
 public:
  Tensor() = default;
  // Zeros.
  Tensor(DType dtype, Sizes shape);

  DType dtype() const { return dtype_; }
  const Sizes& shape() const { return shape_; }
  int64_t elements() const { return elements_; }
  size_t bytes() const { return static_cast<size_t>(elements_) * ByteSize(dtype_); }
  void* data() { return data_.data(); }
  const void* data() const { return data_.data(); }
  // The elements, if T is their type; an empty span otherwise.
  template <typename T>
  absl::Span<const T> values() const {
    if (DTypeOf<T>() != dtype_) return {};
    return {static_cast<const T*>(data()), static_cast<size_t>(elements_)};
  }
  template <typename T>
  absl::Span<T> values() {
    if (DTypeOf<T>() != dtype_) return {};
    return {static_cast<T*>(data()), static_cast<size_t>(elements_)};
  }
  // Element i, 0 <= i < elements(), as a double; exact but for i64 beyond 2^53.
  double Get(int64_t i) const;
  // All elements as f32.
  std::vector<float> ToFloats() const;
  std::string ToString() const;  // "f32[784, 512]"

  operator TensorRef() const {  // NOLINT(google-explicit-constructor)
    return TensorRef(data(), dtype_, shape_);
  }
  // Equality of type, shape and bits.
  friend bool operator==(const Tensor&, const Tensor&) = default;

 private:
  DType dtype_ = DType::kF32;
  Sizes shape_;
  int64_t elements_ = 0;
  std::vector<uint64_t> data_;  // 8-byte aligned; the bytes after the last element are 0
};

// Element i of an array of `dtype` as a double.
double ElementAsDouble(const void* data, DType dtype, int64_t i);

// "f32[128, 784]".
std::string TypeText(DType dtype, absl::Span<const int64_t> shape);

}  // namespace duotone

#endif  // DUOTONE_DUOTONE_TYPES_H_
