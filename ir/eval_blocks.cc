#include "ir/eval_blocks.h"

namespace duotone::ir {

template <typename T>
const T* LoadBlock(const TensorView& from, int64_t first, int64_t count, T* buffer) {
  return WithDType(from.dtype, [&](auto dtype) -> const T* {
    using Storage = StorageOf<dtype.value>;
    const Storage* source = from.as<const Storage>() + first;
    if constexpr (std::is_same_v<Storage, T>) {
      return source;
    } else if constexpr (std::is_same_v<T, float> && IsLow(dtype.value)) {
      ConvertToF32(source, buffer, static_cast<size_t>(count));
    } else {
      for (int64_t i = 0; i < count; ++i) buffer[i] = FromStorage<dtype.value, T>(source[i]);
    }
    return buffer;
  });
}

template <typename T>
T* OutputBlock(const TensorView& to, int64_t first, T* buffer) {
  return WithDType(to.dtype, [&](auto dtype) -> T* {
    using Storage = StorageOf<dtype.value>;
    if constexpr (std::is_same_v<Storage, T>) {
      return to.as<Storage>() + first;
    } else {
      return buffer;
    }
  });
}

template <typename T>
void StoreBlock(const TensorView& to, int64_t first, int64_t count, const T* values) {
  WithDType(to.dtype, [&](auto dtype) {
    using Storage = StorageOf<dtype.value>;
    Storage* target = to.as<Storage>() + first;
    if constexpr (std::is_same_v<Storage, T>) {
      if (values != target) std::memcpy(target, values, static_cast<size_t>(count) * sizeof(T));
    } else if constexpr (std::is_same_v<T, float> && IsLow(dtype.value)) {
      ConvertFromF32(values, target, static_cast<size_t>(count));
    } else {
      for (int64_t i = 0; i < count; ++i) target[i] = ToStorage<dtype.value>(values[i]);
    }
  });
}

template const float* LoadBlock(const TensorView&, int64_t, int64_t, float*);
template const double* LoadBlock(const TensorView&, int64_t, int64_t, double*);
template const int64_t* LoadBlock(const TensorView&, int64_t, int64_t, int64_t*);
template float* OutputBlock(const TensorView&, int64_t, float*);
template double* OutputBlock(const TensorView&, int64_t, double*);
template int64_t* OutputBlock(const TensorView&, int64_t, int64_t*);
template uint8_t* OutputBlock(const TensorView&, int64_t, uint8_t*);
template void StoreBlock(const TensorView&, int64_t, int64_t, const float*);
template void StoreBlock(const TensorView&, int64_t, int64_t, const double*);
template void StoreBlock(const TensorView&, int64_t, int64_t, const int64_t*);
template void StoreBlock(const TensorView&, int64_t, int64_t, const uint8_t*);

}  // namespace duotone::ir
