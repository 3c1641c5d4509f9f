#include "tools/data/batcher.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_join.h"
#include "base/float16.h"
#include "base/hash.h"
#include "base/status.h"

namespace duotone::tools {
namespace {

std::string RowText(DType dtype, const std::vector<int64_t>& shape) {
  return absl::StrFormat("%s[%s]", DTypeName(dtype), absl::StrJoin(shape, ", "));
}

int64_t Elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

template <typename To, typename From, typename Convert>
std::vector<std::byte> Converted(const std::vector<From>& from, Convert convert) {
  std::vector<std::byte> bytes(from.size() * sizeof(To));
  for (size_t i = 0; i < from.size(); ++i) {
    const To value = convert(from[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &value, sizeof(To));
  }
  return bytes;
}

// The field's values in the input's dtype. Floats never become integers: a label must be given as
// one.
absl::StatusOr<std::vector<std::byte>> ToDType(const Field& field, const InputSpec& input) {
  auto convert = [&](const auto& values) -> absl::StatusOr<std::vector<std::byte>> {
    using From = typename std::decay_t<decltype(values)>::value_type;
    constexpr bool kIntegral = std::is_integral_v<From>;
    switch (input.dtype) {
      case DType::kF64:
        return Converted<double>(values, [](From v) { return static_cast<double>(v); });
      case DType::kF32:
        return Converted<float>(values, [](From v) { return static_cast<float>(v); });
      case DType::kF16:
        return Converted<F16>(values, [](From v) { return ToF16(static_cast<float>(v)); });
      case DType::kBF16:
        return Converted<BF16>(values, [](From v) { return ToBF16(static_cast<float>(v)); });
      case DType::kI64:
        if (kIntegral)
          return Converted<int64_t>(values, [](From v) { return static_cast<int64_t>(v); });
        break;
      case DType::kI32:
        if (kIntegral)
          return Converted<int32_t>(values, [](From v) { return static_cast<int32_t>(v); });
        break;
      case DType::kU8:
      case DType::kBool:
        break;
    }
    return InvalidArgument("input %%%s takes %s, but the data's %s has %s values", input.name,
                           DTypeName(input.dtype), field.name, DTypeName(field.dtype()));
  };
  return std::visit(convert, field.values);
}

// splitmix64 (Steele, Lea, Flood 2014).
uint64_t NextRandom(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// A Fisher-Yates permutation of [0, count).
std::vector<uint32_t> Permutation(uint64_t seed, int64_t epoch, int64_t count) {
  std::vector<uint32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0u);
  uint64_t state = HashCombine(HashCombine(Fnv1a("row order"), seed), static_cast<uint64_t>(epoch));
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[(static_cast<unsigned __int128>(NextRandom(state)) * i) >> 64]);
  }
  return order;
}

const Field* FindField(const Part& part, const std::string& name) {
  for (const Field& field : part.fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<Batcher> Batcher::Create(const Part& part, std::vector<InputSpec> inputs,
                                        int64_t batch_size) {
  if (batch_size < 1) return InvalidArgument("batch size %d is not at least 1", batch_size);
  if (inputs.size() > part.fields.size()) {
    return InvalidArgument("the model has %d inputs, but the data has %d fields", inputs.size(),
                           part.fields.size());
  }
  if (part.rows > 0xffffffffLL)
    return InvalidArgument("the data has %d rows; at most 2^32 - 1 are supported", part.rows);
  const bool by_name = std::all_of(inputs.begin(), inputs.end(), [&](const InputSpec& input) {
    return FindField(part, input.name) != nullptr;
  });
  Batcher batcher;
  batcher.rows_ = part.rows;
  batcher.batch_size_ = batch_size;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec& input = inputs[i];
    const Field& field = by_name ? *FindField(part, input.name) : part.fields[i];
    if (Elements(input.row_shape) != field.row_elements()) {
      return InvalidArgument("input %%%s takes rows of %s, but the data's %s has rows of %s",
                             input.name, RowText(input.dtype, input.row_shape), field.name,
                             RowText(field.dtype(), field.row_shape));
    }
    Column column{.row_bytes = static_cast<size_t>(field.row_elements()) * ByteSize(input.dtype)};
    DUOTONE_ASSIGN_OR_RETURN(column.bytes, ToDType(field, input));
    batcher.columns_.push_back(std::move(column));
  }
  return batcher;
}

void Batcher::Shuffled(uint64_t seed, int64_t epoch, int64_t index, Batch& batch) {
  if (order_epoch_ != epoch || order_seed_ != seed) {
    order_ = Permutation(seed, epoch, rows_);
    order_epoch_ = epoch;
    order_seed_ = seed;
  }
  Gather(&order_, index, batch);
}

void Batcher::InOrder(int64_t index, Batch& batch) const { Gather(nullptr, index, batch); }

void Batcher::Gather(const std::vector<uint32_t>* order, int64_t index, Batch& batch) const {
  const int64_t begin = index * batch_size_;
  batch.rows = std::min(batch_size_, rows_ - begin);
  batch.inputs.resize(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    batch.inputs[c].resize(static_cast<size_t>(batch.rows) * column.row_bytes);
    for (int64_t i = 0; i < batch.rows; ++i) {
      const size_t row = order != nullptr ? (*order)[begin + i] : static_cast<size_t>(begin + i);
      std::copy_n(column.bytes.begin() + row * column.row_bytes, column.row_bytes,
                  batch.inputs[c].begin() + i * column.row_bytes);
    }
  }
}

}  // namespace duotone::tools
