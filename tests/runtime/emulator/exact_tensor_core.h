// The model of tensor cores (runtime/emulator/tensor_core.h) once more, for tests: on numbers of
// fixed point with so many bits that every product of every type is an exact multiple of the
// smallest one. Slow and plain: it shares nothing with the emulator.
#ifndef DUOTONE_TESTS_RUNTIME_EMULATOR_EXACT_TENSOR_CORE_H_
#define DUOTONE_TESTS_RUNTIME_EMULATOR_EXACT_TENSOR_CORE_H_

#include <cstdint>
#include <vector>

#include "runtime/emulator/tensor_core.h"

namespace duotone::emulator {

// c + sum of a[i] * b[i], as TensorDot.
uint32_t ExactTensorDot(const TensorCoreModel& model, const std::vector<uint32_t>& a,
                        const std::vector<uint32_t>& b, uint32_t c);

}  // namespace duotone::emulator

#endif  // DUOTONE_TESTS_RUNTIME_EMULATOR_EXACT_TENSOR_CORE_H_
