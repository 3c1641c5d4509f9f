// Pseudo-random numbers for tests of whole sessions, the same on every machine.
#ifndef DUOTONE_TESTS_DUOTONE_NUMBERS_H_
#define DUOTONE_TESTS_DUOTONE_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace duotone {

// In [-1, 1).
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2654435761u + 1) {}
  double Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 33) / (uint64_t{1} << 30) - 1;
  }
  std::vector<float> Floats(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(Next());
    return values;
  }
  std::vector<int32_t> Labels(size_t count, int limit) {
    std::vector<int32_t> values(count);
    for (int32_t& value : values) value = static_cast<int32_t>((Next() + 1) / 2 * limit) % limit;
    return values;
  }

 private:
  uint64_t state_;
};

}  // namespace duotone

#endif  // DUOTONE_TESTS_DUOTONE_NUMBERS_H_
