#include "ir/attrs.h"

#include <bit>
#include <type_traits>

#include "base/hash.h"
#include "base/status.h"

namespace duotone::ir {
namespace {

template <typename T>
bool FieldEqual(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  } else {
    return a == b;
  }
}

uint64_t HashField(uint64_t hash, bool value) { return HashCombine(hash, value); }
uint64_t HashField(uint64_t hash, int64_t value) {
  return HashCombine(hash, static_cast<uint64_t>(value));
}
uint64_t HashField(uint64_t hash, double value) {
  return HashCombine(hash, std::bit_cast<uint64_t>(value));
}
uint64_t HashField(uint64_t hash, DType value) {
  return HashCombine(hash, static_cast<uint64_t>(value));
}
uint64_t HashField(uint64_t hash, const std::optional<DType>& value) {
  return HashCombine(hash, value ? static_cast<uint64_t>(*value) + 1 : 0);
}
uint64_t HashField(uint64_t hash, const std::string& value) { return Fnv1a(value, hash); }
uint64_t HashField(uint64_t hash, const Dim& value) { return Fnv1a(value.ToString(), hash); }
uint64_t HashField(uint64_t hash, const Ints& values) {
  hash = HashCombine(hash, values.size());
  for (int64_t value : values) hash = HashField(hash, value);
  return hash;
}
uint64_t HashField(uint64_t hash, const Shape& shape) { return Fnv1a(ToString(shape), hash); }
uint64_t HashField(uint64_t hash, const ResultShape& value) { return HashField(hash, value.shape); }
uint64_t HashField(uint64_t hash, const ResultType& value) {
  return Fnv1a(value.type.ToString(), hash);
}
uint64_t HashField(uint64_t hash, const Literal& value) {
  return std::visit(
      [&](const auto& values) {
        uint64_t h = HashCombine(hash, values.size());
        for (auto element : values) h = HashField(h, element);
        return h;
      },
      value.values);
}

// Types that hold sizes are bound; the rest have nothing to bind.
template <typename T>
absl::Status BindField(T&, const SizeBinding&) {
  return absl::OkStatus();
}
absl::Status BindField(Dim& dim, const SizeBinding& binding) {
  DUOTONE_ASSIGN_OR_RETURN(int64_t size, dim.Bind(binding));
  dim = size;
  return absl::OkStatus();
}
absl::Status BindField(Shape& shape, const SizeBinding& binding) {
  DUOTONE_ASSIGN_OR_RETURN(shape, BindShape(shape, binding));
  return absl::OkStatus();
}
absl::Status BindField(ResultShape& result, const SizeBinding& binding) {
  return BindField(result.shape, binding);
}
absl::Status BindField(ResultType& result, const SizeBinding& binding) {
  return BindField(result.type.shape, binding);
}

template <size_t... I>
Attrs DefaultAttrsOf(AttrKind kind, std::index_sequence<I...>) {
  Attrs attrs;
  ((I == kind ? void(attrs.emplace<I>()) : void()), ...);
  return attrs;
}

}  // namespace

bool operator==(const Literal& a, const Literal& b) {
  if (a.values.index() != b.values.index() || a.size() != b.size()) return false;
  return std::visit(
      [&](const auto& values) {
        const auto& others = std::get<std::decay_t<decltype(values)>>(b.values);
        for (size_t i = 0; i < values.size(); ++i) {
          if (!FieldEqual(values[i], others[i])) return false;
        }
        return true;
      },
      a.values);
}

Attrs DefaultAttrs(AttrKind kind) {
  return DefaultAttrsOf(kind, std::make_index_sequence<std::variant_size_v<Attrs>>());
}

bool AttrsEqual(const Attrs& a, const Attrs& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& left) {
        const auto& right = std::get<std::decay_t<decltype(left)>>(b);
        return std::apply(
            [&](const auto&... field) {
              return (FieldEqual(left.*(field.member), right.*(field.member)) && ...);
            },
            left.kFields);
      },
      a);
}

uint64_t HashAttrs(const Attrs& attrs) {
  uint64_t hash = HashCombine(kFnvOffset, attrs.index());
  ForEachField(attrs, [&](std::string_view, const auto& value) { hash = HashField(hash, value); });
  return hash;
}

absl::Status BindAttrs(Attrs& attrs, const SizeBinding& binding) {
  absl::Status status;
  ForEachField(attrs, [&](std::string_view, auto& value) {
    if (status.ok()) status = BindField(value, binding);
  });
  return status;
}

absl::StatusOr<Shape> BindShape(llvm::ArrayRef<Dim> shape, const SizeBinding& binding) {
  Shape bound;
  for (const Dim& dim : shape) {
    DUOTONE_ASSIGN_OR_RETURN(int64_t size, dim.Bind(binding));
    bound.push_back(size);
  }
  DUOTONE_RETURN_IF_ERROR(ElementCount(bound));
  return bound;
}

}  // namespace duotone::ir
