#include "ir/initializer.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "ir/lexer.h"
#include "ir/suggest.h"
#include "llvm/ADT/STLExtras.h"

namespace duotone::ir {
namespace {

constexpr InitArg kConstantArgs[] = {{.name = "value"}};
constexpr InitArg kUniformArgs[] = {{.name = "bound", .min = 0.0}};
constexpr InitArg kNormalArgs[] = {{.name = "mean", .default_value = 0.0},
                                   {.name = "stddev", .default_value = 1.0, .min = 0.0}};
constexpr InitArg kKaimingArgs[] = {
    {.name = "fan_in", .min = 1.0},
    {.name = "gain", .default_value = std::numbers::sqrt2, .min = 0.0}};
constexpr InitArg kXavierArgs[] = {{.name = "fan_in", .min = 1.0},
                                   {.name = "fan_out", .min = 1.0},
                                   {.name = "gain", .default_value = 1.0, .min = 0.0}};

// From plain to special.
constexpr std::array<InitKind, 8> kInitKinds = {{
    {.name = "zeros", .args = {}, .is_random = false, .doc = "0 everywhere"},
    {.name = "ones", .args = {}, .is_random = false, .doc = "1 everywhere"},
    {.name = "constant", .args = kConstantArgs, .is_random = false, .doc = "`value` everywhere"},
    {.name = "uniform",
     .args = kUniformArgs,
     .is_random = true,
     .doc = "uniform on [-bound, bound)"},
    {.name = "normal",
     .args = kNormalArgs,
     .is_random = true,
     .doc = "normal with the given mean and standard deviation"},
    {.name = "kaiming_uniform",
     .args = kKaimingArgs,
     .is_random = true,
     .doc = "uniform on [-bound, bound) with bound = gain * sqrt(3 / fan_in)"},
    {.name = "xavier_uniform",
     .args = kXavierArgs,
     .is_random = true,
     .doc = "uniform on [-bound, bound) with bound = gain * sqrt(6 / (fan_in + fan_out))"},
    {.name = "cast_of",
     .args = {},
     .is_random = false,
     .doc = "derived state: the value of %source in this entry's dtype"},
}};

constexpr std::string_view kCastOf = "cast_of";

const InitArg* FindArg(const InitKind& kind, std::string_view name) {
  const auto* arg = llvm::find_if(kind.args, [&](const InitArg& a) { return a.name == name; });
  return arg == kind.args.end() ? nullptr : arg;
}

// True if `value` is one of the dtype's values; a float is rounded, so every number will do.
bool IsValueOf(DType dtype, double value) {
  if (IsFloat(dtype)) return true;
  if (value != std::floor(value)) return false;
  switch (dtype) {
    case DType::kI64:
      return value >= -0x1p63 && value < 0x1p63;
    case DType::kI32:
      return value >= -0x1p31 && value < 0x1p31;
    case DType::kU8:
      return value >= 0 && value <= 255;
    default:
      return value == 0 || value == 1;  // bool
  }
}

absl::Status CheckArgs(const StateEntry& entry, const InitKind& kind) {
  const auto& given = entry.init.args;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& [name, value] = given[i];
    const InitArg* arg = FindArg(kind, name);
    if (arg == nullptr) {
      return InvalidArgument("%s has no argument '%s'%s", kind.name, Shown(name),
                             DidYouMean(name, kind.args, [](const InitArg& a) { return a.name; }));
    }
    for (size_t j = 0; j < i; ++j) {
      if (given[j].first == name)
        return InvalidArgument("%s: '%s' is given twice", kind.name, name);
    }
    if (!std::isfinite(value) || value < arg->min) {
      return InvalidArgument(
          "%s: %s is %g; it must be finite%s", kind.name, name, value,
          std::isinf(arg->min) ? "" : absl::StrFormat(" and at least %g", arg->min));
    }
    if (!IsValueOf(entry.type.dtype, value)) {
      return InvalidArgument("%s: %s is %g, which is no %s", kind.name, name, value,
                             DTypeName(entry.type.dtype));
    }
  }
  for (const InitArg& arg : kind.args) {
    const bool is_given =
        llvm::any_of(given, [&](const auto& pair) { return pair.first == arg.name; });
    if (!is_given && !arg.default_value) return InvalidArgument("%s needs %s", kind.name, arg.name);
  }
  return absl::OkStatus();
}

}  // namespace

llvm::ArrayRef<InitKind> InitKinds() { return kInitKinds; }

const InitKind* FindInitKind(std::string_view name) {
  const auto* kind = llvm::find_if(kInitKinds, [&](const InitKind& k) { return k.name == name; });
  return kind == kInitKinds.end() ? nullptr : kind;
}

absl::Status CheckInitializer(const StateEntry& entry) {
  const InitKind* kind = FindInitKind(entry.init.kind);
  if (kind == nullptr) {
    return InvalidArgument(
        "unknown initialiser '%s'%s", Shown(entry.init.kind),
        DidYouMean(entry.init.kind, kInitKinds, [](const InitKind& k) { return k.name; }));
  }
  const bool is_cast = kind->name == kCastOf;
  if (is_cast && entry.kind != StateKind::kDerived) {
    return InvalidArgument("cast_of is for derived state only");
  }
  if (!is_cast && entry.kind == StateKind::kDerived) {
    return InvalidArgument("derived state needs cast_of, not %s", kind->name);
  }
  if (is_cast && entry.init.source.empty()) return InvalidArgument("cast_of needs a state entry");
  if (!is_cast && !entry.init.source.empty()) {
    return InvalidArgument("%s takes no state entry (%%%s)", kind->name, Shown(entry.init.source));
  }
  if (kind->is_random && !entry.type.is_float()) {
    return InvalidArgument("%s gives floating-point numbers, the type is %s", kind->name,
                           entry.type.ToString());
  }
  return CheckArgs(entry, *kind);
}

absl::Status CheckSource(const StateEntry& entry, const StateEntry* source) {
  if (entry.kind != StateKind::kDerived) return absl::OkStatus();
  if (source == nullptr) {
    return InvalidArgument("cast_of: there is no state entry %%%s above", Shown(entry.init.source));
  }
  if (source->kind == StateKind::kDerived) {
    return InvalidArgument("cast_of: %%%s is derived itself", Shown(source->name));
  }
  if (source->type.shape != entry.type.shape || !source->type.is_float() ||
      !entry.type.is_float()) {
    return InvalidArgument("cast_of: no cast makes %s from %%%s, which is %s",
                           entry.type.ToString(), Shown(source->name), source->type.ToString());
  }
  return absl::OkStatus();
}

void NormaliseInitializer(Initializer& init) {
  const InitKind* kind = FindInitKind(init.kind);
  DUOTONE_CHECK(kind != nullptr) << init.kind;
  decltype(init.args) args;
  for (const InitArg& arg : kind->args) {
    for (auto& given : init.args) {
      if (given.first == arg.name && given.second != arg.default_value) args.push_back(given);
    }
  }
  init.args = std::move(args);
}

double InitArgument(const Initializer& init, std::string_view name) {
  for (const auto& [given, value] : init.args) {
    if (given == name) return value;
  }
  const InitKind* kind = FindInitKind(init.kind);
  DUOTONE_CHECK(kind != nullptr) << init.kind;
  const InitArg* arg = FindArg(*kind, name);
  DUOTONE_CHECK(arg != nullptr && arg->default_value) << init.kind << ": " << name;
  return *arg->default_value;
}

}  // namespace duotone::ir
