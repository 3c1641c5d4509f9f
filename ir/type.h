// Sizes, shapes and types of values.
//
//   f32[784, 128]     f16[B, 10]     i32[B*128]     f32[]
//
// A size is a number (zero allowed), a named size that is bound when an entry is compiled, or a
// product of both
// (`2*B`, `B*T`): products arise where a reshape merges axes.
#ifndef DUOTONE_IR_TYPE_H_
#define DUOTONE_IR_TYPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

namespace duotone::ir {

// Values of named sizes.
using SizeBinding = llvm::StringMap<int64_t>;

// No tensor may have more elements than this, in any binding: offsets in bytes stay below 2^63 / 8.
inline constexpr int64_t kMaxElements = int64_t{1} << 56;
inline constexpr int kMaxRank = 16;

// One size of a shape: coefficient * name * name * ...; names are sorted and may repeat.
class Dim {
 public:
  Dim(int64_t size = 0) : coefficient_(size) {}  // NOLINT(google-explicit-constructor)
  static Dim Named(std::string_view name);

  bool is_number() const { return names_.empty(); }
  // The number; only for is_number().
  int64_t size() const;
  int64_t coefficient() const { return coefficient_; }
  llvm::ArrayRef<std::string> names() const { return names_; }

  // The product, or nothing if the coefficient would leave [0, kMaxElements].
  std::optional<Dim> Times(const Dim& other) const;
  // The number under `binding`, or an error that names the size which is unbound or too large.
  absl::StatusOr<int64_t> Bind(const SizeBinding& binding) const;

  std::string ToString() const;  // "128", "B", "2*B*T"
  friend bool operator==(const Dim&, const Dim&) = default;

 private:
  int64_t coefficient_;
  llvm::SmallVector<std::string, 1> names_;
};

using Shape = llvm::SmallVector<Dim, 4>;

// The number of elements as a size, or an error if it is above kMaxElements or there are more than
// kMaxRank axes.
absl::StatusOr<Dim> ElementCount(llvm::ArrayRef<Dim> shape);
std::string ToString(llvm::ArrayRef<Dim> shape);  // "[B, 128]"

struct Type {
  DType dtype = DType::kF32;
  Shape shape;

  int rank() const { return static_cast<int>(shape.size()); }
  bool is_scalar() const { return shape.empty(); }
  bool is_float() const { return IsFloat(dtype); }
  // True if every size is a number.
  bool is_static() const;
  // Elements of a static type.
  int64_t elements() const;
  int64_t bytes() const { return elements() * ByteSize(dtype); }

  Type WithDType(DType new_dtype) const { return {new_dtype, shape}; }
  std::string ToString() const;  // "f32[B, 128]"
  friend bool operator==(const Type&, const Type&) = default;
};

}  // namespace duotone::ir

#endif  // DUOTONE_IR_TYPE_H_
