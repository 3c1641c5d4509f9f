// Coefficients with which times of kernels are predicted, beside a GpuTarget's rates: of the cost
// model that chooses schedules and of the report on compiled kernels. To be measured anew where a
// device is at hand.
#ifndef DUOTONE_BASE_GPU_MODEL_H_
#define DUOTONE_BASE_GPU_MODEL_H_

namespace duotone {

inline constexpr double kDramShare = 0.9;       // of the bandwidth on the data sheet
inline constexpr double kL2BytesPerClock = 32;  // per SM
inline constexpr double kIssueLanes = 128;      // threads per SM and clock that get an instruction
inline constexpr double kLaunchUs = 2;          // from the end of one kernel of a graph to the next
inline constexpr double kBlockStartClocks = 300;  // of a block until its first load is under way

}  // namespace duotone

#endif  // DUOTONE_BASE_GPU_MODEL_H_
