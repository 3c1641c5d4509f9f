// How a parameter or state entry gets its first value. Random ones are keyed by the session's seed
// and the entry's name, so that they do not depend on the order of declaration.
#ifndef DUOTONE_DUOTONE_INITIALIZERS_H_
#define DUOTONE_DUOTONE_INITIALIZERS_H_

#include <string>
#include <utility>
#include <vector>

namespace duotone {

struct Initializer {
  std::string kind = "zeros";
  std::vector<std::pair<std::string, double>> args;
  // fan_in (and fan_out) are filled in from the entry's shape: fan_out is the last size, fan_in the
  // product of the others (of a vector: its only size).
  bool fan_in_from_shape = false;
  bool fan_out_from_shape = false;
};

inline Initializer Zeros() { return {"zeros"}; }
inline Initializer Ones() { return {"ones"}; }
inline Initializer Constant(double value) { return {"constant", {{"value", value}}}; }
// On [-bound, bound).
inline Initializer Uniform(double bound) { return {"uniform", {{"bound", bound}}}; }
inline Initializer Normal(double stddev) { return {"normal", {{"stddev", stddev}}}; }
// Uniform with bound gain*sqrt(3/fan_in); the default gain sqrt(2) is that of a ReLU.
inline Initializer KaimingUniform() { return {"kaiming_uniform", {}, true}; }
inline Initializer KaimingUniform(double gain) {
  return {"kaiming_uniform", {{"gain", gain}}, true};
}
// Uniform with bound sqrt(6/(fan_in+fan_out)).
inline Initializer XavierUniform() { return {"xavier_uniform", {}, true, true}; }

}  // namespace duotone

#endif  // DUOTONE_DUOTONE_INITIALIZERS_H_
