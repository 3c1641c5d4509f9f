#include "ir/ops_gather.h"

#include <cstring>

#include "base/philox.h"
#include "ir/eval_reduce.h"
#include "ir/op_checks.h"

namespace duotone::ir {

// ---- Types ----

absl::StatusOr<Types> InferGather(llvm::ArrayRef<Type> operands, Attrs&) {
  const Type& table = operands[0];
  const Type& indices = operands[1];
  if (table.rank() < 1) return InvalidArgument("the table needs an axis of rows, the first one");
  DUOTONE_RETURN_IF_ERROR(CheckIndices(indices, "indices"));
  Shape shape = indices.shape;
  shape.append(table.shape.begin() + 1, table.shape.end());
  if (shape.size() > kMaxRank) {
    return InvalidArgument("the result has %d axes; at most %d are supported", shape.size(),
                           kMaxRank);
  }
  return Types{{table.dtype, shape}};
}

absl::StatusOr<Types> InferScatterAdd(llvm::ArrayRef<Type> operands, Attrs&) {
  const Type& base = operands[0];
  const Type& indices = operands[1];
  const Type& updates = operands[2];
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  if (base.rank() < 1) return InvalidArgument("the base needs an axis of rows, the first one");
  DUOTONE_RETURN_IF_ERROR(CheckIndices(indices, "indices"));
  const bool low_into_f32 = base.dtype == DType::kF32 && IsLow(updates.dtype);
  if (updates.dtype != base.dtype && !low_into_f32) {
    return InvalidArgument("updates %s cannot be added to the base %s: give them its dtype",
                           updates.ToString(), base.ToString());
  }
  Shape shape = indices.shape;
  shape.append(base.shape.begin() + 1, base.shape.end());
  if (updates.shape != shape) {
    return InvalidArgument(
        "updates must have the shape %s, of the indices %s and a row of the base %s, not %s",
        ToString(shape), indices.ToString(), base.ToString(), updates.ToString());
  }
  return Types{base};
}

absl::StatusOr<Types> InferDropout(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  const double rate = std::get<DropoutAttrs>(attrs).rate;
  if (!(rate >= 0 && rate < 1)) return InvalidArgument("rate=%g is outside [0, 1)", rate);
  return Types{operands[0], operands[0].WithDType(DType::kBool)};
}

// ---- Gradients ----

// The rows' gradients are summed in f32 (f64 for f64): a row may be looked up many times.
absl::Status GradGather(GradContext& ctx) {
  if (!ctx.wanted(0)) return absl::OkStatus();
  Emitter& emit = ctx.emit();
  const Type& table = ctx.operand(0).type();
  Value zeros = emit.Constant(table.WithDType(WideType(table.dtype)), 0.0);
  Value sum = emit.Emit(Op::kScatterAdd, {zeros, ctx.operand(1), ctx.grad()}, NoAttrs());
  ctx.Set(0, emit.Cast(sum, ctx.grad_dtype(0)));
  return absl::OkStatus();
}

absl::Status GradScatterAdd(GradContext& ctx) {
  Emitter& emit = ctx.emit();
  if (ctx.wanted(0)) ctx.Set(0, ctx.grad());
  if (ctx.wanted(2)) {
    Value rows = emit.Emit(Op::kGather, {ctx.grad(), ctx.operand(1)}, NoAttrs());
    ctx.Set(2, emit.Cast(rows, ctx.grad_dtype(2)));
  }
  return absl::OkStatus();
}

namespace {

// What a kept element is multiplied by.
double KeepScale(const DropoutAttrs& attrs) { return 1.0 / (1.0 - attrs.rate); }

}  // namespace

absl::Status GradDropout(GradContext& ctx) {
  if (!ctx.grad(0)) return absl::OkStatus();
  Emitter& emit = ctx.emit();
  const DType own = ctx.grad(0).type().dtype;
  Value g = emit.Cast(ctx.grad(0), WideType(own));
  g = emit.Mul(g, emit.ConstantLike(g, KeepScale(ctx.attrs<DropoutAttrs>())));
  g = emit.Cast(g, own);
  ctx.Set(0, emit.Select(ctx.result(1), g, emit.ConstantLike(g, 0.0)));
  return absl::OkStatus();
}

// ---- Cost ----

Cost CostGather(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs&) {
  // The rows that are read, not the whole table.
  return {.bytes = static_cast<double>(operands[1].bytes()) +
                   2 * static_cast<double>(results[0].bytes())};
}

Cost CostScatterAdd(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs&) {
  return {.flops = static_cast<double>(operands[2].elements()),
          .bytes = BytesMoved(operands, results)};
}

// ---- Evaluation ----

namespace {

int64_t IndexAt(const TensorView& indices, int64_t i) {
  return indices.dtype == DType::kI64 ? indices.as<int64_t>()[i] : indices.as<int32_t>()[i];
}

int64_t RowSize(const TensorView& table) {
  int64_t size = 1;
  for (int64_t axis : table.shape.drop_front()) size *= axis;
  return size;
}

}  // namespace

int64_t ItemsGather(const EvalCall& call) { return call.operands[1].elements(); }

void EvalGather(const EvalCall& call, int64_t begin, int64_t end) {
  const TensorView& table = call.operands[0];
  const int64_t rows = table.shape[0];
  const int64_t row_bytes = RowSize(table) * ByteSize(table.dtype);
  const char* from = table.as<const char>();
  char* to = call.results[0].as<char>();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t index = IndexAt(call.operands[1], i);
    if (index < 0 || index >= rows) {
      call.error->Report(EvalError::Kind::kIndexOutOfRange, index, rows);
      std::memset(to + i * row_bytes, 0, static_cast<size_t>(row_bytes));
      continue;
    }
    std::memcpy(to + i * row_bytes, from + index * row_bytes, static_cast<size_t>(row_bytes));
  }
}

// Items are the rows of the base. A range of items reads all indices once and adds, in their order,
// the updates of its own rows; f32 sums of a 16-bit base live in scratch until they are rounded.
int64_t ItemsScatterAdd(const EvalCall& call) {
  return std::max<int64_t>(1, call.operands[0].shape[0]);
}

int64_t ScratchScatterAdd(const EvalCall& call) {
  const TensorView& base = call.operands[0];
  return IsLow(base.dtype) ? base.elements() * static_cast<int64_t>(sizeof(float)) : 0;
}

void EvalScatterAdd(const EvalCall& call, int64_t begin, int64_t end) {
  const TensorView& base = call.operands[0];
  const TensorView& indices = call.operands[1];
  const TensorView& result = call.results[0];
  const int64_t rows = base.shape[0];
  const int64_t size = RowSize(base);
  const int64_t count = indices.elements();
  if (begin == 0) {  // one range speaks for all
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = IndexAt(indices, i);
      if (index < 0 || index >= rows) {
        call.error->Report(EvalError::Kind::kIndexOutOfRange, index, rows);
      }
    }
  }
  end = std::min(end, rows);
  WithFloatType(base.dtype, [&](auto compute) {
    using C = decltype(compute);
    C* sums = IsLow(base.dtype) ? static_cast<C*>(call.scratch) : result.as<C>();
    C buffer[kRowBlock];
    for (int64_t start = begin * size; start < end * size; start += kRowBlock) {
      const int64_t n = std::min<int64_t>(kRowBlock, end * size - start);
      const C* block = LoadBlock(base, start, n, buffer);
      if (block != sums + start)
        std::memcpy(sums + start, block, static_cast<size_t>(n) * sizeof(C));
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = IndexAt(indices, i);
      if (index < begin || index >= end) continue;
      ForEachRowBlock(size, [&](int64_t start, int64_t n) {
        const C* update = LoadBlock(call.operands[2], i * size + start, n, buffer);
        C* to = sums + index * size + start;
        for (int64_t j = 0; j < n; ++j) to[j] += update[j];
      });
    }
    if (IsLow(base.dtype) && begin < end) {
      StoreBlock(result, begin * size, (end - begin) * size, sums + begin * size);
    }
  });
}

// An element is kept if its 32 random bits are at least floor(rate * 2^32): an integer comparison,
// the same everywhere.
void EvalDropout(const EvalCall& call, int64_t begin, int64_t end) {
  const DropoutAttrs& attrs = std::get<DropoutAttrs>(*call.attrs);
  const auto threshold = static_cast<uint32_t>(attrs.rate * 0x1p32);
  static_assert(kBlock % 4 == 0, "a block starts at a block of random words");
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    using C = decltype(compute);
    const C scale = static_cast<C>(KeepScale(attrs));
    C x_buffer[kBlock];
    C y[kBlock];
    ForEachBlock(call.results[0], begin, end, [&](int64_t first, int64_t count) {
      const C* x = LoadBlock(call.operands[0], first, count, x_buffer);
      uint8_t* mask = call.results[1].as<uint8_t>() + first;
      for (int64_t i = 0; i < count; i += 4) {
        const RandomWords words =
            RandomBlock(call.random.seed, call.random.step, call.random.micro_batch, call.node_id,
                        static_cast<uint64_t>(first + i) / 4);
        for (int64_t j = i; j < std::min(i + 4, count); ++j) mask[j] = words[j - i] >= threshold;
      }
      for (int64_t i = 0; i < count; ++i) y[i] = mask[i] ? x[i] * scale : C(0);
      StoreBlock(call.results[0], first, count, y);
    });
  });
}

}  // namespace duotone::ir
