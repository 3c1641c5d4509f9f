// The kinds of initialisers of state entries, as a table: `param %w: f32[784, 512] =
// kaiming_uniform(fan_in=784)`.
#ifndef DUOTONE_IR_INITIALIZER_H_
#define DUOTONE_IR_INITIALIZER_H_

#include <limits>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "ir/graph.h"
#include "llvm/ADT/ArrayRef.h"

namespace duotone::ir {

struct InitArg {
  std::string_view name;
  std::optional<double> default_value = std::nullopt;  // absent: the argument must be given
  double min = -std::numeric_limits<double>::infinity();
};

struct InitKind {
  std::string_view name;
  llvm::ArrayRef<InitArg> args;
  bool is_random;        // needs random numbers and a floating-point type
  std::string_view doc;  // with the formula
};

// zeros, ones, constant(value), uniform(bound) on [-bound, bound), normal(mean=0, stddev=1),
// kaiming_uniform(fan_in, gain=sqrt(2)) with bound gain*sqrt(3/fan_in), xavier_uniform(fan_in,
// fan_out, gain=1) with bound gain*sqrt(6/(fan_in+fan_out)), cast_of(%source) for derived state.
llvm::ArrayRef<InitKind> InitKinds();
const InitKind* FindInitKind(std::string_view name);

// Checks kind, argument names and values against the table and the entry's type and kind.
absl::Status CheckInitializer(const StateEntry& entry);
// Checks that a derived entry can be computed from `source`, the entry named by its initialiser
// (null if there is none).
absl::Status CheckSource(const StateEntry& entry, const StateEntry* source);
// Puts the arguments in the kind's order and drops those that equal their defaults; the initialiser
// has been checked.
void NormaliseInitializer(Initializer& init);
// The value of an argument, or its default.
double InitArgument(const Initializer& init, std::string_view name);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_INITIALIZER_H_
