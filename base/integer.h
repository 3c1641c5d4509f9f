// Integer arithmetic of sizes and offsets, for non-negative numbers.
#ifndef DUOTONE_BASE_INTEGER_H_
#define DUOTONE_BASE_INTEGER_H_

#include <cstdint>

namespace duotone {

// The quotient, rounded up.
constexpr int64_t CeilDiv(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

// The next multiple of `unit`.
constexpr int64_t RoundUp(int64_t value, int64_t unit) { return CeilDiv(value, unit) * unit; }

}  // namespace duotone

#endif  // DUOTONE_BASE_INTEGER_H_
