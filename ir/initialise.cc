// First values of state entries. Random kinds draw element i from RandomBlock(seed, 0, 0,
// Fnv1a(entry name), i / 4), so an entry's values depend neither on the other entries nor on their
// order.
#include <cmath>

#include "base/hash.h"
#include "base/philox.h"
#include "base/status.h"
#include "ir/eval_blocks.h"
#include "ir/initializer.h"
#include "ir/interpreter.h"

namespace duotone::ir {
namespace {

// Fills `array` with fn(words, values), which turns the 4 words of a Philox block into 4 numbers.
template <typename Fn>
void FillRandom(Array& array, uint64_t seed, std::string_view name, Fn&& fn) {
  const uint64_t stream = Fnv1a(name);
  const int64_t count = array.elements();
  for (int64_t i = 0; i < count; i += 4) {
    float values[4];
    fn(RandomBlock(seed, /*step=*/0, /*micro_batch=*/0, stream, static_cast<uint64_t>(i) / 4),
       values);
    StoreBlock<float>(array.view(), i, std::min<int64_t>(4, count - i), values);
  }
}

void FillUniform(Array& array, uint64_t seed, std::string_view name, double bound) {
  const float high = static_cast<float>(bound);
  FillRandom(array, seed, name, [=](const RandomWords& words, float* values) {
    for (int k = 0; k < 4; ++k) values[k] = UniformBetween(words[k], -high, high);
  });
}

void FillNormal(Array& array, uint64_t seed, std::string_view name, double mean, double stddev) {
  FillRandom(array, seed, name, [=](const RandomWords& words, float* values) {
    for (int k = 0; k < 4; k += 2) {
      const auto [first, second] = NormalFromBits(words[k], words[k + 1]);
      values[k] = static_cast<float>(mean) + static_cast<float>(stddev) * first;
      values[k + 1] = static_cast<float>(mean) + static_cast<float>(stddev) * second;
    }
  });
}

}  // namespace

absl::StatusOr<Array> Initialise(const StateEntry& entry, uint64_t seed, const Array* source) {
  DUOTONE_RETURN_IF_ERROR(CheckInitializer(entry));
  const Initializer& init = entry.init;
  const auto argument = [&](std::string_view name) { return InitArgument(init, name); };
  if (init.kind == "cast_of") {
    if (source == nullptr) {
      return InvalidArgument("state %%%s needs the value of %%%s", entry.name, init.source);
    }
    DUOTONE_ASSIGN_OR_RETURN(std::vector<Array> cast,
                             EvaluateOp(Op::kCast, CastAttrs{.to = entry.type.dtype}, {*source}));
    if (cast[0].type() != entry.type) {
      return InvalidArgument("state %%%s is %s, but its source %%%s is %s", entry.name,
                             entry.type.ToString(), init.source, source->type().ToString());
    }
    return std::move(cast[0]);
  }
  if (init.kind == "constant") return Array::Of(entry.type, {argument("value")});
  if (init.kind == "ones") return Array::Of(entry.type, {1.0});
  Array array(entry.type);
  if (init.kind == "uniform") {
    FillUniform(array, seed, entry.name, argument("bound"));
  } else if (init.kind == "normal") {
    FillNormal(array, seed, entry.name, argument("mean"), argument("stddev"));
  } else if (init.kind == "kaiming_uniform") {
    FillUniform(array, seed, entry.name, argument("gain") * std::sqrt(3.0 / argument("fan_in")));
  } else if (init.kind == "xavier_uniform") {
    const double fans = argument("fan_in") + argument("fan_out");
    FillUniform(array, seed, entry.name, argument("gain") * std::sqrt(6.0 / fans));
  } else if (init.kind != "zeros") {
    return InvalidArgument("state %%%s: unknown initialiser %s", entry.name, init.kind);
  }
  return array;
}

}  // namespace duotone::ir
