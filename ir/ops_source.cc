#include "ir/ops_source.h"

#include <cmath>

#include "base/philox.h"
#include "base/status.h"
#include "ir/op_util.h"

namespace duotone::ir {

absl::StatusOr<Types> InferDeclared(llvm::ArrayRef<Type>, Attrs&) {
  return InvalidArgument("is declared by the graph and cannot be a node");
}

namespace {

// The smallest and largest number of an integer dtype or bool.
std::pair<int64_t, int64_t> IntegerRange(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kU8:
      return {0, 255};
    case DType::kI32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    default:
      return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  }
}

// Gives the literal the kind of number that `dtype` has, so that equal constants have equal
// attributes.
absl::Status NormalizeLiteral(Literal& literal, DType dtype) {
  if (IsFloat(dtype)) {
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&literal.values)) {
      literal.values = std::vector<double>(ints->begin(), ints->end());
    }
    return absl::OkStatus();
  }
  if (const auto* floats = std::get_if<std::vector<double>>(&literal.values)) {
    std::vector<int64_t> ints;
    for (double value : *floats) {
      if (value != std::trunc(value) || std::fabs(value) > 0x1p53) {
        return InvalidArgument("the value %g is not of type %s", value, DTypeName(dtype));
      }
      ints.push_back(static_cast<int64_t>(value));
    }
    literal.values = std::move(ints);
  }
  const auto [low, high] = IntegerRange(dtype);
  for (int64_t value : std::get<std::vector<int64_t>>(literal.values)) {
    if (value < low || value > high) {
      return InvalidArgument("the value %d is outside the range [%d, %d] of %s", value, low, high,
                             DTypeName(dtype));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Types> InferConstant(llvm::ArrayRef<Type>, Attrs& attrs) {
  auto& constant = std::get<ConstantAttrs>(attrs);
  const Type& type = constant.result.type;
  DUOTONE_RETURN_IF_ERROR(NormalizeLiteral(constant.value, type.dtype));
  if (!constant.value.is_splat()) {
    DUOTONE_ASSIGN_OR_RETURN(const Dim count, ElementCount(type.shape));
    if (count != Dim(static_cast<int64_t>(constant.value.size()))) {
      return InvalidArgument("%d values for the %s elements of %s", constant.value.size(),
                             count.ToString(), type.ToString());
    }
  }
  return Types{type};
}

absl::StatusOr<Types> InferIota(llvm::ArrayRef<Type>, Attrs& attrs) {
  auto& iota = std::get<IotaAttrs>(attrs);
  DUOTONE_RETURN_IF_ERROR(NormalizeAxis(iota.axis, iota.result.type.rank()));
  if (iota.result.type.dtype == DType::kBool) return InvalidArgument("a bool cannot count");
  return Types{iota.result.type};
}

absl::StatusOr<Types> InferSizeOf(llvm::ArrayRef<Type>, Attrs&) { return Types{{DType::kI64, {}}}; }

absl::StatusOr<Types> InferRandomUniform(llvm::ArrayRef<Type>, Attrs& attrs) {
  const auto& uniform = std::get<UniformAttrs>(attrs);
  DUOTONE_RETURN_IF_ERROR(CheckFloat(uniform.result.type, 0));
  if (!(uniform.low <= uniform.high) ||
      !std::isfinite(static_cast<float>(uniform.high - uniform.low))) {
    return InvalidArgument("[low, high) = [%g, %g) is not a finite range of f32", uniform.low,
                           uniform.high);
  }
  return Types{uniform.result.type};
}

absl::StatusOr<Types> InferRandomNormal(llvm::ArrayRef<Type>, Attrs& attrs) {
  const auto& normal = std::get<NormalAttrs>(attrs);
  DUOTONE_RETURN_IF_ERROR(CheckFloat(normal.result.type, 0));
  if (!std::isfinite(normal.mean) || !std::isfinite(normal.stddev) || normal.stddev < 0) {
    return InvalidArgument("mean=%g and stddev=%g must be finite, and stddev not negative",
                           normal.mean, normal.stddev);
  }
  return Types{normal.result.type};
}

void RunConstant(const EvalCall& call, int64_t begin, int64_t end) {
  const Literal& literal = std::get<ConstantAttrs>(*call.attrs).value;
  std::visit(
      [&](const auto& values) {
        using T = typename std::decay_t<decltype(values)>::value_type;
        T buffer[kBlock];
        if (literal.is_splat()) std::fill_n(buffer, kBlock, values[0]);
        ForEachBlock(call.results[0], begin, end, [&](int64_t first, int64_t count) {
          StoreBlock<T>(call.results[0], first, count,
                        literal.is_splat() ? buffer : values.data() + first);
        });
      },
      literal.values);
}

void RunIota(const EvalCall& call, int64_t begin, int64_t end) {
  const int64_t axis = std::get<IotaAttrs>(*call.attrs).axis;
  const llvm::ArrayRef<int64_t> shape = call.results[0].shape;
  const int64_t stride = RowMajorStrides(shape)[axis];
  ForEachBlock(call.results[0], begin, end, [&](int64_t first, int64_t count) {
    int64_t buffer[kBlock];
    for (int64_t i = 0; i < count; ++i) buffer[i] = (first + i) / stride % shape[axis];
    StoreBlock<int64_t>(call.results[0], first, count, buffer);
  });
}

void RunSizeOf(const EvalCall& call, int64_t begin, int64_t end) {
  if (begin == end) return;
  *call.results[0].as<int64_t>() = std::get<SizeOfAttrs>(*call.attrs).size.size();
}

namespace {

// Draws blocks [begin, end) of the result; fn(words, values) turns the 4 words of a Philox block
// into 4 numbers.
template <typename Fn>
void RunRandom(const EvalCall& call, int64_t begin, int64_t end, Fn&& fn) {
  static_assert(kBlock % 4 == 0);
  ForEachBlock(call.results[0], begin, end, [&](int64_t first, int64_t count) {
    float buffer[kBlock];
    for (int64_t i = 0; i < count; i += 4) {
      fn(RandomBlock(call.random.seed, call.random.step, call.random.micro_batch, call.node_id,
                     static_cast<uint64_t>(first + i) / 4),
         buffer + i);
    }
    StoreBlock<float>(call.results[0], first, count, buffer);
  });
}

}  // namespace

void RunRandomUniform(const EvalCall& call, int64_t begin, int64_t end) {
  const auto& attrs = std::get<UniformAttrs>(*call.attrs);
  const float low = static_cast<float>(attrs.low);
  const float high = static_cast<float>(attrs.high);
  RunRandom(call, begin, end, [=](const RandomWords& words, float* values) {
    for (int k = 0; k < 4; ++k) values[k] = UniformBetween(words[k], low, high);
  });
}

void RunRandomNormal(const EvalCall& call, int64_t begin, int64_t end) {
  const auto& attrs = std::get<NormalAttrs>(*call.attrs);
  const float mean = static_cast<float>(attrs.mean);
  const float stddev = static_cast<float>(attrs.stddev);
  RunRandom(call, begin, end, [=](const RandomWords& words, float* values) {
    for (int k = 0; k < 4; k += 2) {
      const auto [first, second] = NormalFromBits(words[k], words[k + 1]);
      values[k] = mean + stddev * first;
      values[k + 1] = mean + stddev * second;
    }
  });
}

}  // namespace duotone::ir
