// Operands for tests of functions.
#ifndef DUOTONE_TESTS_IR_SWEEP_H_
#define DUOTONE_TESTS_IR_SWEEP_H_

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace duotone::ir {

// Numbers from low on, up to high, evenly spread over the f32 numbers between them (by bit
// pattern), `count` steps of them and the first.
inline std::vector<double> Sweep(double low, double high, int64_t count) {
  // Bit patterns in the order of the numbers: negative ones run backwards.
  const auto to_order = [](double x) {
    const auto bits = std::bit_cast<int32_t>(static_cast<float>(x));
    return bits < 0 ? int64_t{std::numeric_limits<int32_t>::min()} - bits : int64_t{bits};
  };
  const int64_t first = to_order(low);
  const int64_t last = to_order(high);
  std::vector<double> points;
  for (int64_t i = 0; i <= count; ++i) {
    const int64_t order = first + (last - first) / count * i;
    const auto bits =
        static_cast<int32_t>(order < 0 ? std::numeric_limits<int32_t>::min() - order : order);
    points.push_back(std::bit_cast<float>(bits));
  }
  return points;
}

}  // namespace duotone::ir

#endif  // DUOTONE_TESTS_IR_SWEEP_H_
