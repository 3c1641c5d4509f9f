#include "ir/type.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"

namespace duotone::ir {
namespace {

// a * b, or nothing if it is above kMaxElements; a and b are not negative.
std::optional<int64_t> BoundedProduct(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product) || product > kMaxElements) return std::nullopt;
  return product;
}

}  // namespace

Dim Dim::Named(std::string_view name) {
  Dim dim(1);
  dim.names_.emplace_back(name);
  return dim;
}

int64_t Dim::size() const {
  DUOTONE_CHECK(is_number()) << ToString();
  return coefficient_;
}

std::optional<Dim> Dim::Times(const Dim& other) const {
  std::optional<int64_t> coefficient = BoundedProduct(coefficient_, other.coefficient_);
  if (!coefficient) return std::nullopt;
  Dim product(*coefficient);
  if (*coefficient == 0) return product;
  product.names_.append(names_.begin(), names_.end());
  product.names_.append(other.names_.begin(), other.names_.end());
  std::sort(product.names_.begin(), product.names_.end());
  return product;
}

absl::StatusOr<int64_t> Dim::Bind(const SizeBinding& binding) const {
  int64_t size = coefficient_;
  for (const std::string& name : names_) {
    auto it = binding.find(name);
    if (it == binding.end()) return InvalidArgument("named size '%s' is not bound", name);
    std::optional<int64_t> product =
        it->second < 0 ? std::nullopt : BoundedProduct(size, it->second);
    if (!product)
      return InvalidArgument("size %s is out of range with %s=%d", ToString(), name, it->second);
    size = *product;
  }
  return size;
}

std::string Dim::ToString() const {
  if (is_number()) return absl::StrCat(coefficient_);
  const std::string names = absl::StrJoin(names_, "*");
  return coefficient_ == 1 ? names : absl::StrCat(coefficient_, "*", names);
}

absl::StatusOr<Dim> ElementCount(llvm::ArrayRef<Dim> shape) {
  if (shape.size() > kMaxRank) {
    return InvalidArgument("shape %s has %d axes, more than %d", ToString(shape), shape.size(),
                           kMaxRank);
  }
  Dim count(1);
  for (const Dim& dim : shape) {
    std::optional<Dim> product = count.Times(dim);
    if (!product) {
      return InvalidArgument("shape %s has more than 2^56 elements", ToString(shape));
    }
    count = *product;
  }
  return count;
}

std::string ToString(llvm::ArrayRef<Dim> shape) {
  return absl::StrCat(
      "[",
      absl::StrJoin(shape, ", ",
                    [](std::string* out, const Dim& dim) { absl::StrAppend(out, dim.ToString()); }),
      "]");
}

bool Type::is_static() const {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_number(); });
}

int64_t Type::elements() const {
  int64_t count = 1;
  for (const Dim& dim : shape) count *= dim.size();
  return count;
}

std::string Type::ToString() const {
  return absl::StrFormat("%s%s", DTypeName(dtype), ir::ToString(shape));
}

}  // namespace duotone::ir
