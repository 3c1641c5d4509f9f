#include "ir/ops_view.h"

#include <algorithm>

#include "base/status.h"
#include "ir/grad.h"
#include "ir/op_util.h"

namespace duotone::ir {
namespace {

// Says that an attribute with one number per axis has the wrong length.
absl::Status CheckPerAxis(std::string_view name, size_t count, int rank) {
  if (count == static_cast<size_t>(rank)) return absl::OkStatus();
  return InvalidArgument("%s has %d entries for an operand of rank %d", name, count, rank);
}

// The stride of axis i of a slice.
int64_t StrideOf(const SliceAttrs& slice, int i) {
  return slice.strides.empty() ? 1 : slice.strides[i];
}

int64_t InteriorOf(const PadAttrs& pad, int i) {
  return pad.interior.empty() ? 0 : pad.interior[i];
}

}  // namespace

absl::StatusOr<Types> InferReshape(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const Shape& shape = std::get<ReshapeAttrs>(attrs).result.shape;
  DUOTONE_ASSIGN_OR_RETURN(const Dim from, ElementCount(operands[0].shape));
  DUOTONE_ASSIGN_OR_RETURN(const Dim to, ElementCount(shape));
  if (from != to) {
    return InvalidArgument("%s has %s elements, but the result %s has %s", operands[0].ToString(),
                           from.ToString(), ToString(shape), to.ToString());
  }
  return Types{{operands[0].dtype, shape}};
}

absl::StatusOr<Types> InferTranspose(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  Ints& perm = std::get<TransposeAttrs>(attrs).perm;
  const int rank = operands[0].rank();
  DUOTONE_RETURN_IF_ERROR(CheckPerAxis("perm", perm.size(), rank));
  llvm::SmallVector<bool, 4> seen(rank, false);
  Type result{operands[0].dtype, {}};
  for (int64_t& axis : perm) {
    DUOTONE_RETURN_IF_ERROR(NormalizeAxis(axis, rank));
    if (seen[axis]) return InvalidArgument("axis %d occurs twice in perm", axis);
    seen[axis] = true;
    result.shape.push_back(operands[0].shape[axis]);
  }
  return Types{result};
}

absl::StatusOr<Types> InferBroadcast(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const auto& broadcast = std::get<BroadcastAttrs>(attrs);
  const Shape& shape = broadcast.result.shape;
  DUOTONE_RETURN_IF_ERROR(CheckPerAxis("dims", broadcast.dims.size(), operands[0].rank()));
  int64_t previous = -1;
  for (size_t i = 0; i < broadcast.dims.size(); ++i) {
    const int64_t axis = broadcast.dims[i];
    if (axis <= previous || axis >= static_cast<int64_t>(shape.size())) {
      return InvalidArgument("dims must increase within [0, %d), but entry %d is %d", shape.size(),
                             i, axis);
    }
    previous = axis;
    const Dim& size = operands[0].shape[i];
    if (size != Dim(1) && size != shape[axis]) {
      return InvalidArgument("axis %d of %s does not fit axis %d of the result %s", i,
                             operands[0].ToString(), axis, ToString(shape));
    }
  }
  return Types{{operands[0].dtype, shape}};
}

namespace {

// The size of axis i of a slice.
absl::StatusOr<Dim> SlicedSize(const Type& operand, const SliceAttrs& slice, int i) {
  const int64_t start = slice.starts[i];
  const int64_t stride = StrideOf(slice, i);
  const Dim& size = operand.shape[i];
  const Dim& limit = slice.limits[i];
  if (start == 0 && stride == 1 && limit == size) return size;
  if (!size.is_number() || !limit.is_number()) {
    return InvalidArgument("axis %d of size %s can only be taken whole", i, size.ToString());
  }
  if (stride < 1) return InvalidArgument("the stride of axis %d is %d, not positive", i, stride);
  if (start < 0 || start > limit.size() || limit.size() > size.size()) {
    return InvalidArgument("[%d, %d) of axis %d is outside [0, %d)", start, limit.size(), i,
                           size.size());
  }
  return Dim((limit.size() - start + stride - 1) / stride);
}

}  // namespace

absl::StatusOr<Types> InferSlice(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  auto& slice = std::get<SliceAttrs>(attrs);
  const int rank = operands[0].rank();
  DUOTONE_RETURN_IF_ERROR(CheckPerAxis("starts", slice.starts.size(), rank));
  DUOTONE_RETURN_IF_ERROR(CheckPerAxis("limits", slice.limits.size(), rank));
  if (!slice.strides.empty()) {
    DUOTONE_RETURN_IF_ERROR(CheckPerAxis("strides", slice.strides.size(), rank));
  }
  Type result{operands[0].dtype, {}};
  for (int i = 0; i < rank; ++i) {
    DUOTONE_ASSIGN_OR_RETURN(Dim size, SlicedSize(operands[0], slice, i));
    result.shape.push_back(std::move(size));
  }
  return Types{result};
}

namespace {

// The size of axis i after padding.
absl::StatusOr<Dim> PaddedSize(const Type& operand, const PadAttrs& pad, int i) {
  const int64_t low = pad.low[i];
  const int64_t high = pad.high[i];
  const int64_t interior = InteriorOf(pad, i);
  const Dim& size = operand.shape[i];
  if (low == 0 && high == 0 && interior == 0) return size;
  if (!size.is_number())
    return InvalidArgument("axis %d of size %s cannot be padded", i, size.ToString());
  for (int64_t count : {low, high, interior}) {
    if (count < 0 || count > kMaxElements) {
      return InvalidArgument("the padding of axis %d is %d, outside [0, 2^56]", i, count);
    }
  }
  int64_t inside = 0;
  if (size.size() > 0 &&
      (__builtin_mul_overflow(size.size() - 1, interior + 1, &inside) || ++inside > kMaxElements)) {
    return InvalidArgument("axis %d has more than 2^56 elements after padding", i);
  }
  return Dim(low + inside + high);  // below 2^58; the element count is checked after inference
}

}  // namespace

absl::StatusOr<Types> InferPad(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const auto& pad = std::get<PadAttrs>(attrs);
  const int rank = operands[0].rank();
  DUOTONE_RETURN_IF_ERROR(CheckPerAxis("low", pad.low.size(), rank));
  DUOTONE_RETURN_IF_ERROR(CheckPerAxis("high", pad.high.size(), rank));
  if (!pad.interior.empty()) {
    DUOTONE_RETURN_IF_ERROR(CheckPerAxis("interior", pad.interior.size(), rank));
  }
  Type result{operands[0].dtype, {}};
  for (int i = 0; i < rank; ++i) {
    DUOTONE_ASSIGN_OR_RETURN(Dim size, PaddedSize(operands[0], pad, i));
    result.shape.push_back(std::move(size));
  }
  return Types{result};
}

bool PadsWithZero(const Attrs& attrs) { return std::get<PadAttrs>(attrs).value == 0; }

absl::StatusOr<Types> InferConcat(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  int64_t& axis = std::get<AxisAttrs>(attrs).axis;
  Type result = operands[0];
  DUOTONE_RETURN_IF_ERROR(NormalizeAxis(axis, result.rank()));
  int64_t total = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Type& operand = operands[i];
    if (operand.rank() != result.rank() || operand.dtype != result.dtype) {
      return InvalidArgument("operands 0 and %d do not fit together, %s and %s", i,
                             result.ToString(), operand.ToString());
    }
    const Dim& size = operand.shape[axis];
    if (!size.is_number()) {
      return InvalidArgument("axis %d of operand %d has the named size %s", axis, i,
                             size.ToString());
    }
    total += size.size();
    if (total > kMaxElements) return InvalidArgument("axis %d has more than 2^56 elements", axis);
    for (int k = 0; k < result.rank(); ++k) {
      if (k != axis && operand.shape[k] != operands[0].shape[k]) {
        return InvalidArgument("axis %d of operands 0 and %d differs, %s and %s", k, i,
                               operands[0].ToString(), operand.ToString());
      }
    }
  }
  result.shape[axis] = Dim(total);
  return Types{result};
}

namespace {

// Calls fn(T()) with an unsigned type of `bytes` bytes.
template <typename Fn>
void WithWord(int bytes, Fn&& fn) {
  switch (bytes) {
    case 1:
      return fn(uint8_t());
    case 2:
      return fn(uint16_t());
    case 4:
      return fn(uint32_t());
    default:
      return fn(uint64_t());
  }
}

// A row-major walk over a shape that starts anywhere: the index of the current element, axis by
// axis.
struct Position {
  Position(llvm::ArrayRef<int64_t> sizes, int64_t element) : shape(sizes) {
    for (size_t i = shape.size(); i-- > 0;) {
      index[i] = element % shape[i];
      element /= shape[i];
    }
  }
  // From anywhere in a row (a run of the last axis) to the start of the next one.
  void NextRow() {
    index[shape.size() - 1] = 0;
    for (size_t i = shape.size() - 1; i-- > 0;) {
      if (++index[i] < shape[i]) return;
      index[i] = 0;
    }
  }
  llvm::ArrayRef<int64_t> shape;
  int64_t index[kMaxRank] = {};
};

// Where element (i0, i1, ...) of a view lies in its operand: base + sum of i_k * strides[k], in
// elements.
struct StridedView {
  int64_t base = 0;
  int64_t strides[kMaxRank] = {};
};

template <typename Word>
void CopyRun(const Word* from, int64_t stride, Word* to, int64_t count) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Word));
  } else if (stride == 0) {
    std::fill_n(to, count, *from);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

// Fills blocks [begin, end) of the result with the elements that `view` picks from the operand.
void RunStrided(const EvalCall& call, int64_t begin, int64_t end, const StridedView& view) {
  const TensorView& to = call.results[0];
  const size_t rank = to.shape.size();
  if (rank == 0) return RunCopy(call, begin, end);
  WithWord(ByteSize(to.dtype), [&](auto word) {
    using Word = decltype(word);
    const Word* from = call.operands[0].as<const Word>();
    ForEachBlock(to, begin, end, [&](int64_t first, int64_t count) {
      Word* target = to.as<Word>() + first;
      for (Position at(to.shape, first); count > 0; at.NextRow()) {
        const int64_t run = std::min(count, to.shape[rank - 1] - at.index[rank - 1]);
        int64_t offset = view.base;
        for (size_t i = 0; i < rank; ++i) offset += at.index[i] * view.strides[i];
        CopyRun(from + offset, view.strides[rank - 1], target, run);
        target += run;
        count -= run;
      }
    });
  });
}

}  // namespace

void RunCopy(const EvalCall& call, int64_t begin, int64_t end) {
  const size_t bytes = static_cast<size_t>(ByteSize(call.results[0].dtype));
  ForEachBlock(call.results[0], begin, end, [&](int64_t first, int64_t count) {
    const char* from = call.operands[0].as<const char>() + first * bytes;
    char* to = call.results[0].as<char>() + first * bytes;
    if (from != to) std::memcpy(to, from, static_cast<size_t>(count) * bytes);
  });
}

void RunTranspose(const EvalCall& call, int64_t begin, int64_t end) {
  const Ints& perm = std::get<TransposeAttrs>(*call.attrs).perm;
  const RowMajorStrides strides(call.operands[0].shape);
  StridedView view;
  for (size_t i = 0; i < perm.size(); ++i) view.strides[i] = strides[perm[i]];
  RunStrided(call, begin, end, view);
}

void RunBroadcast(const EvalCall& call, int64_t begin, int64_t end) {
  const Ints& dims = std::get<BroadcastAttrs>(*call.attrs).dims;
  const RowMajorStrides strides(call.operands[0].shape);
  StridedView view;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (call.operands[0].shape[i] != 1) view.strides[dims[i]] = strides[i];
  }
  RunStrided(call, begin, end, view);
}

void RunSlice(const EvalCall& call, int64_t begin, int64_t end) {
  const auto& slice = std::get<SliceAttrs>(*call.attrs);
  const RowMajorStrides strides(call.operands[0].shape);
  StridedView view;
  for (int i = 0; i < static_cast<int>(slice.starts.size()); ++i) {
    view.base += slice.starts[i] * strides[i];
    view.strides[i] = StrideOf(slice, i) * strides[i];
  }
  RunStrided(call, begin, end, view);
}

namespace {

// The operand's index behind index `at` of axis i of a padded tensor, or -1 if that is padding.
int64_t UnpaddedIndex(const PadAttrs& pad, llvm::ArrayRef<int64_t> operand_shape, int i,
                      int64_t at) {
  const int64_t step = InteriorOf(pad, i) + 1;
  const int64_t inside = at - pad.low[i];
  if (inside < 0 || inside % step != 0 || inside / step >= operand_shape[i]) return -1;
  return inside / step;
}

// A run of `count` elements of one row of a padded tensor, from `at` on.
template <typename Word>
void PadRun(const EvalCall& call, const Position& at, Word padding, Word* to, int64_t count) {
  const auto& pad = std::get<PadAttrs>(*call.attrs);
  const llvm::ArrayRef<int64_t> shape = call.operands[0].shape;
  const int last = static_cast<int>(shape.size()) - 1;
  std::fill_n(to, count, padding);
  int64_t row = 0;
  for (int i = 0; i < last; ++i) {
    const int64_t index = UnpaddedIndex(pad, shape, i, at.index[i]);
    if (index < 0) return;
    row = row * shape[i] + index;
  }
  const Word* from = call.operands[0].as<const Word>() + row * shape[last];
  const int64_t step = InteriorOf(pad, last) + 1;
  const int64_t start = at.index[last] - pad.low[last];  // of the run, in the padded operand
  int64_t k = start <= 0 ? 0 : (start + step - 1) / step;
  for (; k < shape[last] && k * step - start < count; ++k) to[k * step - start] = from[k];
}

}  // namespace

void RunPad(const EvalCall& call, int64_t begin, int64_t end) {
  const TensorView& to = call.results[0];
  const size_t rank = to.shape.size();
  if (rank == 0) return RunCopy(call, begin, end);
  uint64_t padding_storage = 0;
  const double value = std::get<PadAttrs>(*call.attrs).value;
  StoreBlock<double>({to.dtype, {}, &padding_storage}, 0, 1, &value);
  WithWord(ByteSize(to.dtype), [&](auto word) {
    using Word = decltype(word);
    Word padding;
    std::memcpy(&padding, &padding_storage, sizeof(Word));
    ForEachBlock(to, begin, end, [&](int64_t first, int64_t count) {
      Word* target = to.as<Word>() + first;
      for (Position at(to.shape, first); count > 0; at.NextRow()) {
        const int64_t run = std::min(count, to.shape[rank - 1] - at.index[rank - 1]);
        PadRun<Word>(call, at, padding, target, run);
        target += run;
        count -= run;
      }
    });
  });
}

// The result is a sequence of rows, each of which has one piece of every operand.
void RunConcat(const EvalCall& call, int64_t begin, int64_t end) {
  const int64_t axis = std::get<AxisAttrs>(*call.attrs).axis;
  const TensorView& to = call.results[0];
  const int64_t bytes = ByteSize(to.dtype);
  int64_t inner = 1;
  for (size_t i = axis + 1; i < to.shape.size(); ++i) inner *= to.shape[i];
  const int64_t row = to.shape[axis] * inner;
  ForEachBlock(to, begin, end, [&](int64_t first, int64_t count) {
    while (count > 0) {
      int64_t at = first % row;  // where the current operand's piece begins, relative to `first`
      for (const TensorView& from : call.operands) {
        const int64_t piece = from.shape[axis] * inner;
        if (at >= piece) {
          at -= piece;
          continue;
        }
        const int64_t run = std::min(count, piece - at);
        std::memcpy(to.as<char>() + first * bytes,
                    from.as<const char>() + (first / row * piece + at) * bytes,
                    static_cast<size_t>(run * bytes));
        first += run;
        count -= run;
        break;
      }
    }
  });
}

absl::Status GradReshape(GradContext& ctx) {
  ctx.Set(0, ctx.emit().Reshape(ctx.grad(), ctx.operand(0).type().shape));
  return absl::OkStatus();
}

absl::Status GradTranspose(GradContext& ctx) {
  const Ints& perm = ctx.attrs<TransposeAttrs>().perm;
  Ints inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  ctx.Set(0, ctx.emit().Transpose(ctx.grad(), inverse));
  return absl::OkStatus();
}

// Sums over the axes that were added or stretched, in the dtype that autodiff asks for.
absl::Status GradBroadcast(GradContext& ctx) {
  const Type& operand = ctx.operand(0).type();
  const Type& result = ctx.result().type();
  const Ints& dims = ctx.attrs<BroadcastAttrs>().dims;
  Ints axes;
  for (int axis = 0; axis < result.rank(); ++axis) {
    const auto* from = std::find(dims.begin(), dims.end(), axis);
    const bool stretched =
        from == dims.end() || operand.shape[from - dims.begin()] != result.shape[axis];
    if (stretched) axes.push_back(axis);
  }
  Value sum = ctx.grad();
  if (!axes.empty()) sum = ctx.emit().ReduceSum(sum, axes, /*keep_dims=*/false, ctx.grad_dtype(0));
  ctx.Set(0, ctx.emit().Reshape(sum, operand.shape));
  return absl::OkStatus();
}

// Puts the gradient back in place and zeros around and between.
absl::Status GradSlice(GradContext& ctx) {
  const auto& slice = ctx.attrs<SliceAttrs>();
  const Type& operand = ctx.operand(0).type();
  PadAttrs pad;
  for (int i = 0; i < operand.rank(); ++i) {
    const int64_t stride = StrideOf(slice, i);
    pad.interior.push_back(stride - 1);
    if (slice.limits[i] == operand.shape[i] && slice.starts[i] == 0 && stride == 1) {
      pad.low.push_back(0);
      pad.high.push_back(0);
      continue;
    }
    const int64_t count = ctx.result().type().shape[i].size();
    const int64_t past = count == 0 ? slice.starts[i] : slice.starts[i] + (count - 1) * stride + 1;
    pad.low.push_back(slice.starts[i]);
    pad.high.push_back(operand.shape[i].size() - past);
  }
  ctx.Set(0, ctx.emit().Emit(Op::kPad, {ctx.grad()}, std::move(pad)));
  return absl::OkStatus();
}

absl::Status GradPad(GradContext& ctx) {
  const auto& pad = ctx.attrs<PadAttrs>();
  const Type& operand = ctx.operand(0).type();
  SliceAttrs slice;
  for (int i = 0; i < operand.rank(); ++i) {
    const int64_t step = InteriorOf(pad, i) + 1;
    slice.starts.push_back(pad.low[i]);
    slice.strides.push_back(step);
    const Dim& size = operand.shape[i];
    if (!size.is_number()) {
      slice.limits.push_back(size);
    } else {
      slice.limits.push_back(size.size() == 0 ? pad.low[i]
                                              : pad.low[i] + (size.size() - 1) * step + 1);
    }
  }
  ctx.Set(0, ctx.emit().Emit(Op::kSlice, {ctx.grad()}, std::move(slice)));
  return absl::OkStatus();
}

absl::Status GradConcat(GradContext& ctx) {
  const int64_t axis = ctx.attrs<AxisAttrs>().axis;
  int64_t start = 0;
  for (int i = 0; i < ctx.node()->operand_count(); ++i) {
    const Type& operand = ctx.operand(i).type();
    const int64_t limit = start + operand.shape[axis].size();
    if (ctx.wanted(i)) {
      SliceAttrs slice;
      slice.starts.assign(operand.rank(), 0);
      slice.limits = operand.shape;
      slice.starts[axis] = start;
      slice.limits[axis] = Dim(limit);
      ctx.Set(i, ctx.emit().Emit(Op::kSlice, {ctx.grad()}, std::move(slice)));
    }
    start = limit;
  }
  return absl::OkStatus();
}

}  // namespace duotone::ir
